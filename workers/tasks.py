"""The tasks: what a job does. Each reads its data from the store by id and writes its result there."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError

from backend.evaluations import read_asked, several_document
from backend.reports import make
from backend.store.batches import read_stored_batch
from backend.store.errors import RunLost, StorageError, problem_of
from backend.store.jobs.runs import Run, is_join
from backend.store.store import Store, map_record
from backend.telemetry.observed import span
from calibrant.batch import Batch
from calibrant.calibrators import FitContext, Fitting
from calibrant.errors import CalibrationError
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.progress import Progress
from schemas.evaluate import EvaluateSpec
from schemas.maps import FitSpec
from schemas.problem_table import problem
from schemas.problems import Problem
from workers.observe import Task, Throttled, observe
from workers.patience import patiently

log = logging.getLogger(__name__)

#: What is told of an error of ours. Its words are in the log.
_INTERNAL = problem("internal-error", "the task failed by an error of the service; the worker's log tells more")


@dataclass(frozen=True)
class Work:
    """One run of a job, and what it is done with. ``queued_at`` is when its message was written."""

    run: Run
    store: Store
    device: str
    progress: Throttled
    queued_at: datetime | None


def fit(work: Work) -> None:
    """Fit the map that a job asks for; storing it and ending the job is one transaction.

    The map's id comes from the job's, so that two runs make one map.
    """
    _run(_fit, work)


def evaluate(work: Work) -> None:
    """Evaluate what a job asks for; the report is the job's result."""
    _run(_evaluate, work)


def _run(task: Callable[[Work], None], work: Work) -> None:
    """Do a run, whatever comes of it.

    A wrong request ends the job with its problem, and so does an error of ours, which would only come again. What the
    machine lacked may be there the next time.
    """
    run = work.run
    with observe(run.job, run.tenant, work.queued_at) as observed:
        try:
            task(work)
            observed.outcome = "succeeded"
        except RunLost:
            observed.outcome = patiently(lambda: work.store.jobs.status(run.job.id))
        except (CalibrationError, StorageError) as error:
            _end(run, observed, problem_of(error))
        except Exception as error:
            if _is_of_the_machine(error):
                log.warning("job %s: %s, it is run again", run.job.id, type(error).__name__)
                patiently(run.lose)
            else:
                log.exception("job %s failed", run.job.id)
                _end(run, observed, _INTERNAL)


def _fit(work: Work) -> None:
    store, job = work.store, work.run.job
    spec = FitSpec.model_validate(job.spec)
    batch, _ = patiently(lambda: read_stored_batch(store.batches, spec.batch, spec.parts))
    asked = Fitting.read(spec.method, spec.options, spec.reduction)
    context = FitContext(spec.seed, work.device, work.progress)
    with span("compute", method=spec.method):
        if job.part is not None and not is_join(job):
            part = asked.part(batch, job.part, job.parts, context)
            patiently(lambda: work.run.succeed(part))
            return
        fitted = asked.run(batch, context) if job.parent is None else _joined(work, asked, batch)
    map_id = (job.parent or job.id).replace("job_", "map_", 1)
    draft = map_record(map_id, spec, fitted, batch)
    patiently(lambda: store.maps.put(draft, run=work.run))


def _joined(work: Work, asked: Fitting, batch: Batch) -> CalibrationMap:
    """The map of all parts."""
    return asked.join(batch, patiently(work.run.results), work.progress)


def _evaluate(work: Work) -> None:
    store = work.store
    spec = EvaluateSpec.model_validate(work.run.job.spec)
    asked = patiently(lambda: read_asked(spec, store.maps))
    fit: dict[str, Any] = {"device": work.device, "progress": work.progress}
    with span("compute"):
        if spec.batches is not None:
            parts: Sequence[int | None] = spec.parts_of or [None] * len(spec.batches)
            named = zip(spec.batches, parts, strict=True)
            batches = ((i, *patiently(lambda i=i, n=n: read_stored_batch(store.batches, i, n))) for i, n in named)  # type: ignore[misc]
            report = several_document(asked, batches, len(spec.batches), **fit)
        else:
            rows = patiently(lambda: read_stored_batch(store.batches, spec.batch or "", spec.parts))
            report = _whole_report(work, spec, *rows) if spec.report else asked.document(*rows, **fit)
    patiently(lambda: work.run.succeed({"report": report}))


def _whole_report(work: Work, spec: EvaluateSpec, batch: Batch, groups: Sequence[str] | None) -> dict[str, Any]:
    def evaluate(spec: EvaluateSpec, groups: Sequence[str] | None, progress: Progress | None) -> dict[str, Any]:
        asked = patiently(lambda: read_asked(spec, work.store.maps))
        return asked.document(batch, groups, device=work.device, progress=progress)

    return make(spec, batch, groups, evaluate, work.progress)


def _end(run: Run, observed: Task, told: Problem) -> None:
    observed.outcome = "failed"
    with contextlib.suppress(RunLost):  # cancelled in the meantime
        patiently(lambda: run.fail(told))


def _is_of_the_machine(error: Exception) -> bool:
    """Whether the machine lacked something: memory, a file, the store. Torch's error of memory is a RuntimeError."""
    return isinstance(error, MemoryError | OSError | RedisError) or type(error).__name__ == "OutOfMemoryError"
