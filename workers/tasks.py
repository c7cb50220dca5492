"""The tasks: what a job does. Each takes ids, reads its data from the store and writes its result there."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from rq import get_current_job

from calibrant.errors import CalibrationError
from calibrant.methods import FitContext, Fitting
from schemas.evaluate import EvaluateSpec
from schemas.jobs import FINAL, JobRecord
from schemas.maps import FitSpec
from storage.errors import StorageError, UnknownJob
from storage.evaluations import read_asked, several_document
from storage.jobs import JobStore
from storage.problems import problem_of
from storage.rows import read_stored_batch
from storage.store import Store, map_record
from telemetry.observed import span
from workers.observe import observe
from workers.progress import Throttled

log = logging.getLogger(__name__)

#: The device of this worker's fits: cpu, cuda, or auto for cuda where there is one.
DEVICE_VARIABLE = "CALIBRANT_DEVICE"


def fit(tenant: str, job_id: str) -> None:
    """Fit the map that a job asks for; storing it and finishing the job is one transaction.

    The map's id comes from the job's, so that two runs make one map.
    """
    _run(_fit, tenant, job_id)


def evaluate(tenant: str, job_id: str) -> None:
    """Evaluate what a job asks for; the report is the job's result."""
    _run(_evaluate, tenant, job_id)


def _run(task: Callable[[Store, JobRecord], None], tenant: str, job_id: str) -> None:
    """Do a job that is not final yet.

    A wrong request ends the job with its problem. Whatever else is raised goes to RQ, which runs the job again.
    """
    current = get_current_job()
    if current is None:
        raise RuntimeError("tasks run inside RQ workers")
    store = Store.of(current.connection, tenant)
    with observe(current, tenant) as observed:
        try:
            job = store.jobs.start(job_id)
            if job.status not in FINAL:
                task(store, job)
        except (CalibrationError, StorageError) as error:
            _refuse(store.jobs, job_id, error)
        observed.outcome = store.jobs.status(job_id)


def _fit(store: Store, job: JobRecord) -> None:
    spec = FitSpec.model_validate(job.spec)
    batch, _ = read_stored_batch(store.batches, spec.batch, spec.parts)
    asked = Fitting.read(spec.method, spec.options, spec.reduction)
    context = FitContext(spec.seed, _device(), Throttled(store.jobs, job.id))
    with span("compute", method=spec.method):
        fitted = asked.run(batch, context)
    draft = map_record(job.id.replace("job_", "map_", 1), spec, fitted, batch)
    done = store.jobs.succeeded(job.id, {"map": draft.id})
    store.maps.put(draft, finished=done)


def _evaluate(store: Store, job: JobRecord) -> None:
    spec = EvaluateSpec.model_validate(job.spec)
    asked = read_asked(spec, store.maps)
    fit: dict[str, Any] = {"device": _device(), "progress": Throttled(store.jobs, job.id)}
    with span("compute"):
        if spec.batches is not None:
            parts: Sequence[int | None] = spec.parts_of or [None] * len(spec.batches)
            batches = ((i, *read_stored_batch(store.batches, i, n)) for i, n in zip(spec.batches, parts, strict=True))
            report = several_document(asked, batches, **fit)
        else:
            report = asked.document(*read_stored_batch(store.batches, spec.batch or "", spec.parts), **fit)
    store.jobs.succeed(job.id, {"report": report})


def _refuse(jobs: JobStore, job_id: str, error: CalibrationError | StorageError) -> None:
    with contextlib.suppress(UnknownJob):  # the job was forgotten in the meantime: nobody is left to tell
        jobs.fail(job_id, problem_of(error))
    log.info("job %s refused: %s", job_id, error.code)


def _device() -> str:
    device = os.environ.get(DEVICE_VARIABLE, "cpu")
    if device != "auto":
        return device
    import torch  # the workers' own: asked only after the fork

    return "cuda" if torch.cuda.is_available() else "cpu"
