"""The recommended map of rows, with its reasons: directly or as a job."""

from __future__ import annotations

from typing import Any

from backend.batches import find_rows
from backend.jobs import queue_work, run_inline
from backend.kinds import Arrays, Work
from backend.kinds.classes import implied_reduction, stored_rows
from backend.requester import Requester
from backend.store.jobs.runs import Run
from backend.store.server.connection import patiently
from backend.store.store import Store
from backend.telemetry.observed import span, traced
from calibrant.core.progress import Progress, reporting
from schemas.jobs import JobRecord
from schemas.recommendations import RecommendOptions, RecommendSpec


@traced("work")
def recommend_or_queue(requester: Requester, arrays: Arrays, options: RecommendOptions) -> dict[str, Any] | JobRecord:
    """Compare fast methods on the rows and recommend one, or none; or queue a job if this takes long."""
    from calibrant.reports.recommendation import checked_report, recommendation_of

    reduction = implied_reduction(requester, options, [] if options.batch is None else [options.batch])
    rows = find_rows(requester, arrays, options)
    report, checked = checked_report(rows.labelled, rows.class_names, reduction, seed=options.seed)
    spec = RecommendSpec(
        reduction=reduction,
        class_names=None if rows.class_names is None else list(rows.class_names),
        seed=options.seed,
    )
    work = Work(
        spec,
        rows,
        report.seconds(checked),
        len(rows),
        rows.numbers,
        lambda: recommendation_of(report, checked, rows.class_names).to_dict(),
        report.inline,
    )
    answer: dict[str, Any] | None = run_inline(requester, work)
    return queue_work(requester, "recommend", work, options) if answer is None else answer


def run_recommendation(store: Store, run: Run, _device: str, progress: Progress) -> None:
    """Run a job of a recommendation, which is its result. Retries while the store is unavailable."""
    from calibrant.reports.recommendation import checked_report, recommendation_of

    spec = RecommendSpec.model_validate(run.job.spec)
    batch, _ = stored_rows(store, spec.batch or "", spec.parts)
    names = None if spec.class_names is None else tuple(spec.class_names)
    with span("compute"), reporting(progress):
        answer = recommendation_of(*checked_report(batch, names, spec.reduction, seed=spec.seed), names).to_dict()
    patiently(lambda: run.succeed(answer))
