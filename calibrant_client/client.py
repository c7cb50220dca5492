"""The client: a method for each call, numpy arrays in and out."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np
import numpy.typing as npt
import orjson

from calibrant_client.errors import JobFailed, ProblemResponse
from calibrant_client.events import Event, Refused, follow
from calibrant_client.registry import Registry
from calibrant_client.sending import post
from schemas.batches import BatchRecord
from schemas.evaluate import BatchesAnswer, ReportAnswer
from schemas.jobs import FINAL, JobAnswer, JobsAnswer, JobSummary
from schemas.maps import MapRecord
from schemas.problems import Problem

Array = npt.NDArray[Any]
NPZ = "application/x-npz"
#: Seconds between two looks at a job.
_POLL_SECONDS = 0.1


class Calibrant(Registry):
    """A connection to a server. Use it as a context manager, or ``close`` it.

    Arrays travel as NPZ. What changes something is sent under an idempotency key, and again where the connection
    breaks. Every call raises ``ProblemResponse`` for what the server refuses.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 60.0) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        """Give the client itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def ready(self) -> None:
        """Return once the server can work; raises ``ProblemResponse`` where its store is away."""
        self._json("GET", "/health/ready")

    def upload(
        self,
        predictions: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        weights: npt.ArrayLike | None = None,
        scale: str = "probability",
        ttl: int | None = None,
    ) -> BatchRecord:
        """Store a batch: ``predictions`` (n,) or (n, K), integer or boolean ``labels`` (n,), ``weights`` (n,).

        ``ttl`` is the seconds that it is kept.
        """
        arrays = {"predictions": predictions, "labels": _integers(labels), "weights": weights}
        query = {"scale": scale} if ttl is None else {"scale": scale, "ttl": str(ttl)}
        return BatchRecord.model_validate(self._npz("/batches", arrays, query))

    def append(
        self,
        batch: str,
        predictions: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        weights: npt.ArrayLike | None = None,
        key: str | None = None,
    ) -> BatchRecord:
        """Append rows to a stored batch, once even where the connection breaks; also by who sends ``key`` again."""
        arrays = {"predictions": predictions, "labels": _integers(labels), "weights": weights}
        return BatchRecord.model_validate(self._npz(f"/batches/{batch}/rows", arrays, {}, key))

    def evaluate(
        self,
        batch: str,
        *,
        measures: Sequence[str | Mapping[str, Any]] | None = None,
        diagrams: Sequence[str | Mapping[str, Any]] | None = None,
        reduction: str | None = None,
        map: str | None = None,
        interval: float | None = None,
        timeout: float | None = None,
    ) -> ReportAnswer:
        """Measure a stored batch; with ``map``, before and after it. Waits where a measure or diagram is a job.

        Raises ``JobFailed`` for a job that ended without a report, ``TimeoutError`` after ``timeout`` seconds.
        """
        asked = {"measures": measures, "diagrams": diagrams, "reduction": reduction}
        options = asked | {"batch": batch, "map": map, "interval": interval}
        return ReportAnswer.model_validate(self._report(options, timeout))

    def compare(
        self,
        batch: str,
        maps: Sequence[str],
        *,
        measures: Sequence[str | Mapping[str, Any]] | None = None,
        reduction: str | None = None,
        correction: str = "max-t",
        interval: float = 0.95,
        timeout: float | None = None,
    ) -> ReportAnswer:
        """Compare stored maps on a stored batch, with each other and with its predictions as they are: ``comparison``.

        Raises ``JobFailed`` for a job that ended without a report, ``TimeoutError`` after ``timeout`` seconds.
        """
        asked = {"batch": batch, "maps": list(maps), "measures": measures, "reduction": reduction}
        body = self._report(asked | {"correction": correction, "interval": interval}, timeout)
        return ReportAnswer.model_validate(body)

    def power_law(
        self,
        batches: Sequence[str],
        *,
        maps: Sequence[str] | None = None,
        measures: Sequence[str | Mapping[str, Any]] | None = None,
        reduction: str | None = None,
        interval: float = 0.95,
        timeout: float | None = None,
    ) -> BatchesAnswer:
        """Measure several stored batches, and the power law between calibration and classification error over them.

        Raises as ``compare``.
        """
        asked = {"batches": list(batches), "measures": measures, "reduction": reduction, "interval": interval}
        return BatchesAnswer.model_validate(self._report(asked | {"maps": maps and list(maps)}, timeout))

    def fit(
        self,
        method: str,
        batch: str,
        *,
        name: str | None = None,
        reduction: str | None = None,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
        tags: Mapping[str, str] | None = None,
        description: str | None = None,
        timeout: float | None = None,
        progress: Callable[[JobAnswer], None] | None = None,
    ) -> MapRecord:
        """Fit a map to a stored batch and wait for it; ``progress`` is told of the job while it runs.

        Raises ``JobFailed`` for a fit that ended without a map, ``TimeoutError`` after ``timeout`` seconds.
        """
        asked = {"method": method, "batch": batch, "name": name, "reduction": reduction, "seed": seed}
        told = {"tags": dict(tags or {}), "description": description}
        body = self._json("POST", "/maps", asked | told | {"options": dict(options or {})})
        if "document" in body:
            return MapRecord.model_validate(body)
        job = self.wait(JobAnswer.model_validate(body).id, timeout=timeout, progress=progress)
        return self.map(str((job.result or {})["map"]))

    def wait(
        self, job_id: str, *, timeout: float | None = None, progress: Callable[[JobAnswer], None] | None = None
    ) -> JobAnswer:
        """Wait until a job has succeeded; raises ``JobFailed`` or, after ``timeout`` seconds, ``TimeoutError``."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            job = self.job(job_id)
            if progress is not None:
                progress(job)
            if job.status in FINAL:
                break
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"job {job_id} is still {job.status} after {timeout:g} s")
            time.sleep(_POLL_SECONDS)
        if job.status != "succeeded":
            unknown = Problem(type="about:blank", title=f"The job was {job.status}", status=500, detail=job.id)
            raise JobFailed(job.problem or unknown)
        return job

    def job(self, job_id: str) -> JobAnswer:
        """A job as it stands."""
        return JobAnswer.model_validate(self._json("GET", f"/jobs/{job_id}"))

    def jobs(
        self, *, status: str | None = None, kind: str | None = None, batch: str | None = None
    ) -> Iterator[JobSummary]:
        """The jobs, newest first, without their results; pages are read as they are needed."""
        asked = {"status": status, "kind": kind, "batch": batch, "limit": "100"}
        query = {name: value for name, value in asked.items() if value is not None}
        while True:
            page = JobsAnswer.model_validate(self._check(self._http.get("/jobs", params=query)).json())
            yield from page.items
            if page.next is None:
                return
            query["cursor"] = page.next

    def cancel(self, job_id: str) -> JobAnswer:
        """Cancel a job that is queued or running."""
        return JobAnswer.model_validate(self._json("DELETE", f"/jobs/{job_id}"))

    def events(self, job_id: str, *, after: str | None = None) -> Iterator[Event]:
        """The changes of a job as they come, behind the event of id ``after``, to its end; none twice, none missed.

        A connection that breaks is taken up where it broke.
        """
        try:
            yield from follow(self._http, f"/jobs/{job_id}/events", after)
        except Refused as refused:
            self._check(refused.response)

    def map(self, ref: str) -> MapRecord:
        """A stored map by id, name, ``name:version`` or ``name@alias``."""
        return MapRecord.model_validate(self._json("GET", f"/maps/{ref}"))

    def calibrate(self, map: str, predictions: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Apply a stored map: calibrated probabilities of its event, (n,)."""
        headers = {"Content-Type": NPZ, "Accept": NPZ}
        content = _pack({"predictions": predictions})
        response = self._http.post("/calibrate", params={"map": map}, content=content, headers=headers)
        self._check(response)
        with np.load(io.BytesIO(response.content), allow_pickle=False) as archive:
            calibrated: npt.NDArray[np.float64] = archive["predictions"]
        return calibrated

    def _report(self, options: Mapping[str, Any], timeout: float | None) -> Any:
        """The body of an evaluation, waited for where it is a job."""
        body = self._json("POST", "/evaluate", options)
        if "measures" in body or "batches" in body:
            return body
        return (self.wait(JobAnswer.model_validate(body).id, timeout=timeout).result or {})["report"]

    def _npz(
        self, path: str, arrays: Mapping[str, npt.ArrayLike | None], query: Mapping[str, str], key: str | None = None
    ) -> Any:
        content = _pack({name: array for name, array in arrays.items() if array is not None})
        return self._check(post(self._http, path, content, {"Content-Type": NPZ}, query=query, key=key)).json()

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        if body is None:
            return self._check(self._http.request(method, path)).json()
        content = orjson.dumps({k: v for k, v in body.items() if v is not None})
        return self._check(post(self._http, path, content, {"Content-Type": "application/json"})).json()

    @staticmethod
    def _check(response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        try:
            problem = Problem.model_validate_json(response.content)
        except ValueError:
            problem = Problem(
                type="about:blank",
                title="No problem document",
                status=response.status_code,
                detail=response.reason_phrase,
            )
        raise ProblemResponse(problem)


def _integers(labels: npt.ArrayLike | None) -> npt.ArrayLike | None:
    """Labels as the wire has them: numpy's comparisons give booleans, which are no numbers there."""
    given = None if labels is None else np.asarray(labels)
    return given.astype(np.uint8) if given is not None and given.dtype == np.bool_ else given


def _pack(arrays: Mapping[str, npt.ArrayLike]) -> bytes:
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **{name: np.asarray(values) for name, values in arrays.items()})
    return out.getvalue()
