"""Fits of calibration maps, directly or as a job."""

from __future__ import annotations

from typing import Any, cast

from backend.batches import find_rows
from backend.jobs import queue_work, run_inline
from backend.kinds import Arrays, kind_of
from backend.kinds.classes import CLASSES
from backend.requester import Requester
from backend.store.jobs.runs import Run
from backend.store.server.connection import patiently
from backend.store.store import Store
from backend.telemetry.observed import span, traced
from calibrant.core.progress import Progress
from schemas.jobs import JobRecord
from schemas.maps import FitDistributionOptions, FitOptions, MapRecord


@traced("work")
def fit_or_queue(
    requester: Requester, arrays: Arrays, options: FitOptions | FitDistributionOptions
) -> MapRecord | JobRecord:
    """Fit and store a map directly, or queue a job if the method is a long fit or takes more than an estimated 2 s."""
    kind = kind_of(options.prediction_kind)
    if isinstance(options, FitOptions) and options.source is not None:
        from backend.references import queue_fit

        return queue_fit(requester, arrays, options)
    request = kind.fit(requester, cast(Any, options))
    work = request.on(requester, find_rows(requester, arrays, request.options))
    draft = run_inline(requester, work)
    if draft is not None:
        return requester.store.maps.put(draft, allow_shape_change=options.allow_shape_change)
    return queue_work(requester, "fit", work, options)


def run_fit(store: Store, run: Run, device: str, progress: Progress) -> None:
    """Run a fit job, or one part of it; storing the map and ending the job is one transaction.

    The map's id is derived from the job's id, so that two runs create only one map. Retries while the store is
    unavailable.
    """
    spec = run.job.spec
    with span("compute", method=spec["method"]):
        if spec.get("source") is not None:
            from backend.references import fit_source

            draft: MapRecord | None = fit_source(run, device, progress)
        else:
            draft = kind_of(spec.get("prediction_kind", CLASSES.name)).run_fit(store, run, device, progress)
    if draft is not None:
        allowed = bool(spec.get("allow_shape_change"))
        patiently(lambda: store.maps.put(draft, run=run, allow_shape_change=allowed))
