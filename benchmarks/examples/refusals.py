"""A request for each problem that a single request brings about; the calls' own examples are sent before."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from schemas.problem_table import TABLE
from service.examples.calls import BATCH, Example

_ROWS: dict[str, Any] = {"predictions": [0.2, 0.9, 0.4], "labels": [0, 1, 1]}
_ONE_CLASS: dict[str, Any] = {"predictions": [0.2, 0.9, 0.4], "labels": [1, 1, 1]}
_THREE: dict[str, Any] = {"predictions": [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.5, 0.3, 0.2]], "labels": [0, 1, 1]}
_SEPARATED: dict[str, Any] = {"predictions": [[0.7, 0.3], [0.1, 0.9], [0.4, 0.6]], "labels": [0, 1, 1]}
_CALIBRATE: dict[str, Any] = {"map": "fraud-detector", "predictions": [0.3]}
_NORMAL_ONLY: dict[str, Any] = {"prediction_kind": "regression", "mean": [1.0, 2.0], "variance": [1.0, 0.5]}
_NORMAL: dict[str, Any] = _NORMAL_ONLY | {"observed": [1.2, 1.7]}
_FORECASTS: dict[str, Any] = {"prediction_kind": "regression", "observed": [0.4, 0.5], "levels": [0.25, 0.75]}
_SOURCE: dict[str, Any] = {
    "source": "scores",
    "path": "2026-11/*.csv",
    "columns": {"predictions": "score", "labels": "outcome"},
}
_ACKNOWLEDGE = "POST /monitors/{name}/alarms/{rule}/acknowledge"
_NPZ = {"Content-Type": "application/x-npz"}


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **{name: np.asarray(values) for name, values in arrays.items()})
    return out.getvalue()


def _refused(code: str, call: str, body: dict[str, Any] | bytes | None = None, **more: Any) -> Example:
    row = TABLE[code]
    return Example(call, code, row.title, body, row.status, **more)


REFUSALS: tuple[Example, ...] = (
    _refused("malformed-json", "POST /evaluate", b'{"predictions": [0.2, NaN], "labels": [0, 1]}'),
    _refused("malformed-npz", "POST /evaluate", b"PK", headers=_NPZ),
    _refused("not-acceptable", "POST /calibrate", _CALIBRATE, headers={"Accept": "text/csv"}),
    _refused("foreign-origin", "GET /measures", headers={"Origin": "https://example.org"}),
    _refused("not-found", "GET /nothing"),
    _refused("method-not-allowed", "PUT /evaluate"),
    _refused("unsupported-media-type", "POST /evaluate", b"0.2,0", headers={"Content-Type": "text/plain"}),
    _refused("invalid-field", "POST /evaluate", _ROWS | {"interval": 1.5}),
    _refused("not-a-number", "POST /evaluate", _ROWS | {"predictions": [0.2, None, 0.4]}),
    _refused("not-finite", "POST /evaluate", _npz(predictions=[0.2, np.nan], labels=[0, 1]), headers=_NPZ),
    _refused("out-of-range", "POST /evaluate", _ROWS | {"predictions": [0.2, 1.9, 0.4]}),
    _refused("crossing-quantiles", "POST /evaluate", _FORECASTS | {"quantiles": [[0.1, 0.9], [0.8, 0.2]]}),
    _refused("invalid-variance", "POST /evaluate", _NORMAL | {"variance": [1.0, -0.5]}),
    _refused("prediction-kind-mismatch", "POST /calibrate", _NORMAL_ONLY | {"map": "fraud-detector"}),
    _refused("wrong-shape", "POST /evaluate", _ROWS | {"predictions": [[0.2, 0.8], [0.9], [0.4, 0.6]]}),
    _refused("length-mismatch", "POST /evaluate", _ROWS | {"labels": [0, 1]}),
    _refused("empty-batch", "POST /evaluate", {"predictions": [], "labels": []}),
    _refused("invalid-label", "POST /evaluate", _ROWS | {"labels": [0, 1, 2]}),
    _refused("invalid-weight", "POST /evaluate", _ROWS | {"weights": [1, 1, -1]}),
    _refused("one-class", "POST /maps", _ONE_CLASS | {"method": "platt"}),
    _refused("missing-class", "POST /maps", _THREE | {"method": "vector"}),
    _refused("one-prediction", "POST /maps", _ROWS | {"predictions": [0.5, 0.5, 0.5], "method": "temperature"}),
    _refused("too-few-rows", "POST /maps", _ROWS | {"method": "pl"}),
    _refused("scale-mismatch", "POST /calibrate", {"map": "fraud-detector", "predictions": [0.3], "scale": "logit"}),
    _refused("unknown-measure", "POST /evaluate", _ROWS | {"measures": ["ece", "icc"]}),
    _refused("unknown-diagram", "POST /evaluate", _ROWS | {"diagrams": ["pie"]}),
    _refused("nothing-to-draw", "POST /diagrams", _ROWS | {"reduction": "canonical"}),
    _refused("unknown-method", "POST /maps", _ROWS | {"method": "plat"}),
    _refused("unknown-reduction", "POST /evaluate", _ROWS | {"reduction": "class:3"}),
    _refused("invalid-option", "POST /evaluate", _ROWS | {"measures": [{"name": "ece", "n_bins": 0}]}),
    _refused("not-converged", "POST /maps", _SEPARATED | {"method": "vector", "options": {"strength": 0}}),
    _refused("invalid-cursor", "GET /jobs", query={"cursor": "page-2"}),
    _refused("unknown-batch", "GET /batches/{batch}", path={"batch": BATCH}),
    _refused("unknown-map", "GET /maps/{map}", path={"map": "fraud-detector:9"}),
    _refused("unknown-map-reference", "POST /calibrate", {"map": "nothing", "predictions": [0.2]}),
    _refused("unknown-batch-reference", "POST /evaluate", {"batch": "batch_forgotten"}),
    _refused("unknown-source", "POST /evaluate", {"source": _SOURCE | {"source": "salaries"}}),
    _refused("refused-path", "POST /evaluate", {"source": _SOURCE | {"path": "../salaries/*.csv"}}),
    _refused("unknown-alias", "GET /maps/{name}/aliases/{alias}", path={"name": "fraud-detector", "alias": "nobody"}),
    _refused("output-shape-changed", "POST /maps", _THREE | {"method": "temperature", "name": "fraud-detector"}),
    _refused("invalid-document", "POST /maps/import", {"document": {"format": 1, "method": "platt"}}),
    _refused("hook-refused", "POST /monitors", {"name": "elsewhere", "hooks": [{"url": "http://10.0.0.1/"}]}),
    _refused("monitor-exists", "POST /monitors", {"name": "fraud-detector"}),
    _refused("unknown-monitor", "GET /monitors/{name}/deliveries", path={"name": "nothing-live"}),
    _refused("unknown-rule", _ACKNOWLEDGE, path={"name": "fraud-detector", "rule": "none"}),
    _refused("no-alarm", _ACKNOWLEDGE, path={"name": "fraud-detector", "rule": "evidence"}),
    _refused("unknown-proposal", "GET /monitors/{name}/proposal", path={"name": "fraud-detector"}),
    _refused("unknown-job", "GET /jobs/{job}", path={"job": "job_forgotten"}),
)
