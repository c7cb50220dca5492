"""A KServe transformer that calibrates a predictor's output with a map of a Calibrant server.

It needs ``kserve`` and reads ``CALIBRANT_URL``, ``CALIBRANT_MODEL`` (a map's name, id or alias) and, if the service has
keys, ``CALIBRANT_API_KEY`` from the environment. See kserve.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import numpy.typing as npt

LENGTH = "Inference-Header-Content-Length"


def encoded(predictions: npt.NDArray[Any]) -> tuple[dict[str, str], bytes]:
    """Return headers and body of an inference request; (n, 1) is sent as (n,)."""
    values = np.asarray(predictions, dtype="<f8")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    given = {"name": "predictions", "shape": list(values.shape), "datatype": "FP64"}
    wanted = {"name": "predictions", "parameters": {"binary_data": True}}
    size = {"parameters": {"binary_data_size": values.nbytes}}
    head = json.dumps({"inputs": [given | size], "outputs": [wanted]}).encode()
    return {"Content-Type": "application/octet-stream", LENGTH: str(len(head))}, head + values.tobytes()


def decoded(headers: Mapping[str, str], body: bytes) -> npt.NDArray[np.float64]:
    """Return the calibrated probabilities of a response."""
    end = int(headers[LENGTH])
    output = json.loads(body[:end])["outputs"][0]
    return np.frombuffer(body, "<f8", offset=end).reshape(output["shape"])


class Calibrant:
    """One calibration map, called through the Open Inference Protocol."""

    def __init__(self, http: httpx.AsyncClient, model: str) -> None:
        self.http = http
        self._path = f"/v2/models/{quote(model, safe='@:')}/infer"

    @classmethod
    def of(cls, environment: Mapping[str, str], timeout: float = 5.0) -> Calibrant:
        """Return the map that the environment names."""
        key = environment.get("CALIBRANT_API_KEY")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        http = httpx.AsyncClient(base_url=environment["CALIBRANT_URL"], headers=headers, timeout=timeout)
        return cls(http, environment["CALIBRANT_MODEL"])

    async def calibrate(self, predictions: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return calibrated probabilities; raise ``RuntimeError`` with the service's error message."""
        headers, body = encoded(predictions)
        answer = await self.http.post(self._path, content=body, headers=headers)
        if answer.is_error:
            raise RuntimeError(f"Calibrant answered {answer.status_code}: {answer.json()['error']}")
        return decoded(answer.headers, answer.content)

    async def calibrate_v1(self, result: dict[str, Any]) -> dict[str, Any]:
        """Calibrate the ``predictions`` of a response in the V1 protocol."""
        found = await self.calibrate(np.asarray(result["predictions"], dtype=np.float64))
        return result | {"predictions": found.tolist()}


def serve() -> None:
    """Run the transformer; KServe passes the predictor's address on the command line."""
    # Imported here because the import reads the command line.
    from kserve import InferOutput, InferResponse, Model, ModelServer, model_server
    from kserve.model import PredictorConfig

    class Transformer(Model):  # type: ignore[misc]
        """Replaces the predictor's first output by calibrated probabilities."""

        def __init__(self, name: str, config: PredictorConfig, calibrant: Calibrant) -> None:
            super().__init__(name, config)
            self._calibrant = calibrant
            self.ready = True

        async def postprocess(
            self,
            result: dict[str, Any] | InferResponse,
            headers: dict[str, str] | None = None,  # noqa: ARG002
        ) -> dict[str, Any] | InferResponse:
            if isinstance(result, dict):
                return await self._calibrant.calibrate_v1(result)
            first = result.outputs[0]
            found = await self._calibrant.calibrate(first.as_numpy())
            result.outputs[0] = InferOutput(first.name, list(found.shape), "FP64", data=found)
            return result

    args = model_server.args
    config = PredictorConfig(args.predictor_host, args.predictor_protocol, args.predictor_use_ssl)
    ModelServer().start([Transformer(args.model_name, config, Calibrant.of(os.environ))])


if __name__ == "__main__":
    serve()
