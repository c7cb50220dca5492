"""Fits of calibration maps, directly or as a job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from backend.batches import Arrays, check_labelled, find_rows, implied_reduction, store_labelled
from backend.jobs import place_for_job, queue, run_inline
from backend.requester import Requester
from backend.store.batches import read_stored_batch
from backend.store.jobs.runs import Run, is_join
from backend.store.server.connection import patiently
from backend.store.store import Store, map_record
from backend.telemetry.observed import span, traced
from calibrant.calibrators import FitContext, Fitting
from calibrant.core.batch import Batch, grouped
from calibrant.core.progress import Progress
from calibrant.diagrams.in_sample import seconds as seconds_of_summary
from calibrant.io.errors import InvalidField
from schemas.jobs import JobRecord
from schemas.maps import FitDistributionOptions, FitOptions, FitSpec, MapRecord, output_shape


@traced("work")
def fit_or_queue(
    requester: Requester, arrays: Arrays, options: FitOptions | FitDistributionOptions
) -> MapRecord | JobRecord:
    """Fit and store a map directly, or queue a job if the method is a long fit or takes more than an estimated 2 s."""
    if isinstance(options, FitDistributionOptions):
        from backend import distributions

        return distributions.fit_or_queue(requester, arrays, options)
    reduction = implied_reduction(requester, options.reduction, [] if options.batch is None else [options.batch])
    options = options.model_copy(update={"reduction": reduction})
    fitting = Fitting.read(options.method, options.options, options.reduction, where="/options")
    rows = check_labelled(find_rows(requester, arrays, options))
    batch = _in_groups(rows.batch, rows.groups, options)
    fitting.check(batch)
    if options.name is not None and not options.allow_shape_change:
        n_classes = batch.predictions.n_classes
        requester.store.maps.check_shape(options.name, output_shape(fitting.resolve(n_classes), n_classes))
    requester.store.charges.check_maps()
    seconds = fitting.seconds(batch) + seconds_of_summary(len(batch), batch.predictions.n_classes)
    fitted = None
    if fitting.method.runs == "inline":
        size = sum(array.size for array in rows.source.arrays.values())
        work = partial(fitting.run, batch, FitContext(options.seed, "cpu", None))
        fitted = run_inline(requester, seconds, len(batch), size, work)
    if fitted is not None:
        spec = _spec(options, rows.source.class_names, batch_id="", who=requester.who)
        draft = map_record(requester.new_id("map"), spec, fitted, batch)
        return requester.store.maps.put(draft, allow_shape_change=options.allow_shape_change)
    with place_for_job(requester) as job_id:
        batch_id = options.batch or store_labelled(requester, rows).id
        spec = _spec(options, rows.source.class_names, batch_id=batch_id, who=requester.who)
        gpu = fitting.method.on_device and seconds >= requester.settings.gpu_seconds
        return queue(requester, "fit", job_id, spec.model_dump(), seconds=seconds, pieces=fitting.parts(batch), gpu=gpu)


def run_fit(store: Store, run: Run, device: str, progress: Progress) -> None:
    """Run a fit job, or one part of it; storing the map and ending the job is one transaction.

    The map's id is derived from the job's id, so that two runs create only one map. Retries while the store is
    unavailable.
    """
    job = run.job
    if job.spec.get("prediction_kind") == "regression":
        from backend import distributions

        distributions.run_fit(store, run, progress)
        return
    spec = FitSpec.model_validate(job.spec)
    batch = _in_groups(*patiently(lambda: read_stored_batch(store.batches, spec.batch, spec.parts)), spec)
    fitting = Fitting.read(spec.method, spec.options, spec.reduction)
    context = FitContext(spec.seed, device, progress)
    with span("compute", method=spec.method):
        if job.part is not None and not is_join(job):
            part = fitting.part(batch, job.part, job.parts, context)
            patiently(lambda: run.succeed(part))
            return
        if job.parent is None:
            fitted = fitting.run(batch, context)
        else:
            fitted = fitting.join(batch, patiently(run.results), progress)
    map_id = (job.parent or job.id).replace("job_", "map_", 1)
    draft = map_record(map_id, spec, fitted, batch)
    patiently(lambda: store.maps.put(draft, run=run, allow_shape_change=spec.allow_shape_change))


def _in_groups(batch: Batch, groups: Sequence[str] | None, options: FitOptions | FitSpec) -> Batch:
    """Return the batch with its groups if they keep rows in one fold."""
    if not options.group_folds:
        return batch
    if groups is None:
        raise InvalidField.at("/group_folds", "needs groups in the rows")
    return grouped(batch, groups)


def _spec(options: FitOptions, class_names: tuple[str, ...] | None, *, batch_id: str, who: str | None) -> FitSpec:
    given = options.model_dump(exclude={"prediction_kind", "batch", "scale", "weights_kind"})
    given["class_names"] = None if class_names is None else list(class_names)
    return FitSpec(**given, batch=batch_id, created_by=who)
