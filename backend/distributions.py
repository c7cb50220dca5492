"""Evaluations, fits and applications of maps for predictive distributions of a number, directly or as jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from backend.batches import (
    Arrays,
    check_kind,
    find_forecasts,
    store_forecasts,
    stored_forecasts,
    take_slot_for,
)
from backend.forecasts import ForecastRows, check_forecasts, check_size, fields_of, shapes_of
from backend.held_maps import distribution_of
from backend.jobs import place_for_job, queue, run_inline
from backend.memory import stored_bytes, work_bytes
from backend.requester import Requester
from backend.store.jobs.runs import Run
from backend.store.server.connection import patiently
from backend.store.store import Store, distribution_record
from backend.telemetry.observed import span, traced
from calibrant.comparison.forecasts import compare_read
from calibrant.core.batch import counted_kind
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.errors import CalibrationError, InvalidOption, Offence, UnknownMeasure, UnknownMethod, one_of
from calibrant.core.options import read_entries, read_values
from calibrant.core.progress import Progress, reporting
from calibrant.diagrams.forecasts import (
    DISTRIBUTION_DIAGRAMS,
    drawn,
    read_distribution_diagrams,
    times_with_weight,
)
from calibrant.distributions.adaptive import read_in_order
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS, fit_distribution
from calibrant.distributions.decompositions import THRESHOLDS
from calibrant.distributions.evaluation import DistributionReport, evaluate_distribution, read_rows
from calibrant.distributions.forecasts import Forecasts
from calibrant.distributions.maps.distribution_map import DistributionMap
from calibrant.distributions.measures import DISTRIBUTION_MEASURES
from calibrant.distributions.pit import LEVELS, MOST_LEVELS
from calibrant.distributions.rows import digest_of
from calibrant.distributions.spread import KERNEL_ROWS
from calibrant.io.errors import InvalidField, TooLarge
from calibrant.io.limits import NUMBER_BYTES
from calibrant.reports.forecasts import COMPARED, MEASURES, MOST_ROWS, forecast_document
from schemas.batches import BatchRecord
from schemas.distributions import ForecastKind
from schemas.evaluate import EvaluateDistributionOptions, EvaluateDistributionSpec
from schemas.jobs import JobRecord
from schemas.maps import (
    CalibrateDistributionOptions,
    FitDistributionOptions,
    FitDistributionSpec,
    InOrder,
    InOrderOptions,
    MapRecord,
)

# --- Evaluations

#: The most measures of one evaluation.
_MOST_MEASURES = 100
#: Estimated seconds of a measure: of all rows and of each group, per row, and per number.
_ONCE, _ROW, _NUMBER = 4e-4, 3e-7, 1.5e-7
#: The same of measures that fit maps, or simulate the null distribution of bins.
_SIMULATED = {"recalibration-improvement": 5e-3, "conditional-coverage": 2.5e-3}
#: Estimated seconds to compute a byte of calibrated forecasts, and to evaluate or write it.
_BYTE_SECONDS = 1e-8
#: Estimated seconds per level of measures and diagrams that simulate the null distribution of the coverage.
_NULL = {"quantile-calibration-error": 4e-4, "pit-ks": 1e-4, "pit-kuiper": 1e-4, "pit-anderson-darling": 1e-4}
_NULL_DRAWN = 4e-4
#: Estimated seconds per row and number of the thresholds and levels of ``decomposition``.
_THRESHOLD_ROW, _THRESHOLD_NUMBER, _LEVEL_NUMBER = 6e-7, 2e-9, 2e-6
#: Estimated seconds per row of measures that need the whole distribution of the PIT.
_PIT_ROW = {"quantile-calibration-error": 3e-6, "pit-ks": 1.5e-5, "pit-kuiper": 1.5e-5, "pit-anderson-darling": 1.7e-5}
#: Estimated seconds of the bootstrap of ``skce`` with ``KERNEL_ROWS`` rows.
_KERNEL_SECONDS = 4.0
#: Estimated seconds of a diagram, most of it for its bands.
_DRAWN = 0.02
#: Level of the intervals of a comparison, if none is requested.
_LEVEL = 0.95
#: Measures that an evaluation computes by default, for the estimate.
_USUAL = ("crps", "coverage", "quantile-calibration-error", "pit-ks", "mae", "rmse")


class _Comparison(NamedTuple):
    """Other forecasts of the same outcomes, by the id of their batch, and how they are compared."""

    others: Mapping[str, Forecasts]
    score: str | None
    lags: int

    def seconds(self, rows: ForecastRows) -> float:
        """The estimated seconds."""
        several = len(self.others) + 2
        return several * len(rows) * (_ROW * (several + self.lags) + 2.0 * _NUMBER * rows.width)

    def run(self, rows: ForecastRows, calibrated: Forecasts | None, level: float) -> dict[str, Any]:
        """The comparison as plain JSON."""
        own = {"forecasts": rows.forecasts} | ({} if calibrated is None else {"calibrated": calibrated})
        pointers = {"forecasts": "", "calibrated": "/map"}
        pointers |= {batch_id: f"/against/{i}" for i, batch_id in enumerate(self.others)}
        return compare_read(
            rows.required(),
            {**own, **self.others},
            score=self.score,
            lags=self.lags,
            interval=level,
            pointers=pointers,
            weights=rows.weights,
            weights_kind=rows.weights_kind,
            clusters=rows.names.get("clusters"),
        ).to_dict()


@dataclass(frozen=True)
class _Evaluation:
    """The options of an evaluation, and the map that is applied first, with its id."""

    measures: Sequence[str | Mapping[str, Any]] | None
    interval: float | None
    seed: int
    map: DistributionMap | None = None
    map_id: str | None = None
    diagrams: Sequence[str | Mapping[str, Any]] | None = None
    report: bool = False
    comparison: _Comparison | None = None

    def seconds(self, rows: ForecastRows) -> float:
        """The estimated seconds; raises ``UnknownMeasure`` and ``InvalidOption``."""
        names: Sequence[str] = _USUAL
        if self.measures is not None:
            entries = read_entries(
                list(self.measures), DISTRIBUTION_MEASURES, "measure", most=_MOST_MEASURES, unknown=UnknownMeasure
            )
            names = [measure.name for _, measure, _ in entries]
        n, pictures = len(rows), len(read_distribution_diagrams(self.diagrams or []))
        if self.report:
            names, pictures = MEASURES[rows.forecasts.kind], len(DISTRIBUTION_DIAGRAMS)
            names = (*names, "conditional-coverage") if "by" in rows.names else names
        sides = 1 + (self.map is not None)
        parts = 1 + (len(set(rows.names["groups"].tolist())) if "groups" in rows.names else 0)
        levels = min(rows.width, MOST_LEVELS) if rows.forecasts.kind == "quantiles" else len(LEVELS)
        total = sides * pictures * (_DRAWN + _NULL_DRAWN * levels + n * (_ROW + _NUMBER * rows.width))
        for name in names:
            once = _ONCE + _NULL.get(name, 0.0) * levels + _SIMULATED.get(name, 0.0)
            each = _PIT_ROW.get(name, _ROW) + _NUMBER * rows.width
            if name == "decomposition":
                each += _decomposition_row(rows)
            total += sides * (parts * once + min(parts, 2) * n * each)
            total += sides * _KERNEL_SECONDS * min(n / KERNEL_ROWS, 1.0) ** 2 if name == "skce" else 0.0
        compared = COMPARED[rows.forecasts.kind] if self.report and self.map is None else ()
        total += self.comparison.seconds(rows) if self.comparison is not None else 0.0
        return total + sum(_fit_seconds(name, rows, MOST_ROWS) for name in compared)

    def run(self, rows: ForecastRows) -> dict[str, Any]:
        """The report as plain JSON."""
        if self.report:
            return self._whole(rows)
        found = self._side(rows, rows.forecasts)
        after, in_sample, calibrated = None, None, None
        if self.map is not None:
            calibrated = _finite(_apply(self.map, rows, self.seed))
            after = self._side(rows, calibrated)
            after = {name: after[name] for name in ("kind", "measures", "groups", "diagrams") if name in after}
            if self.map.training_digest is not None:
                in_sample = self.map.training_digest == digest_of(rows.forecasts, rows.required())
        found |= {"map": self.map_id, "after": after, "in_sample": in_sample}
        if self.comparison is not None:
            found["comparison"] = self.comparison.run(rows, calibrated, self.interval or _LEVEL)
        return found

    def _side(self, rows: ForecastRows, forecasts: Forecasts) -> dict[str, Any]:
        """The measures and diagrams of the forecasts before or after the map."""
        document = _document(self._report(rows, forecasts)) | {"n_repaired": rows.forecasts.n_repaired}
        if self.diagrams is not None:
            weighted, _ = read_rows(
                forecasts,
                rows.required(),
                weights=rows.weights,
                weights_kind=rows.weights_kind,
                clusters=rows.names.get("clusters"),
                seed=self.seed,
            )
            times = times_with_weight(_names(rows, "times"), rows.weights)
            requests = read_distribution_diagrams(self.diagrams)
            document["diagrams"] = {request.key: drawn(request, weighted, times) for request in requests}
        return document

    def _whole(self, rows: ForecastRows) -> dict[str, Any]:
        """The full report: all diagrams, and the map or a recommendation of one."""
        if self.map is not None:
            _finite(_apply(self.map, rows, self.seed))
        found = forecast_document(
            rows.forecasts,
            rows.required(),
            weights=rows.weights,
            weights_kind=rows.weights_kind,
            groups=rows.names.get("groups"),
            clusters=rows.names.get("clusters"),
            by=_names(rows, "by"),
            times=_names(rows, "times"),
            map=self.map,
            seed=self.seed,
        )
        return {"in_sample": None, **found, "map": self.map_id, "n_repaired": rows.forecasts.n_repaired}

    def _report(self, rows: ForecastRows, forecasts: Forecasts) -> DistributionReport:
        return evaluate_distribution(
            rows.required(),
            **fields_of(forecasts),
            measures=self.measures,
            weights=rows.weights,
            weights_kind=rows.weights_kind,
            groups=rows.names.get("groups"),
            clusters=rows.names.get("clusters"),
            by=_names(rows, "by"),
            interval=self.interval,
            seed=self.seed,
        )


def _decomposition_row(rows: ForecastRows) -> float:
    """Estimated seconds of a row of ``decomposition``."""
    if rows.forecasts.kind == "quantiles":
        return _LEVEL_NUMBER * rows.width
    return min(len(rows), THRESHOLDS) * (_THRESHOLD_ROW + _THRESHOLD_NUMBER * rows.width)


def _document(report: DistributionReport) -> dict[str, Any]:
    found = report.to_dict()
    if found["groups"] is not None:
        found["groups"] = {name: {"n": one["n"], "measures": one["measures"]} for name, one in found["groups"].items()}
    return found


def _names(rows: ForecastRows, name: str) -> list[str] | None:
    return rows.names[name].tolist() if name in rows.names else None


def _finite(forecasts: Forecasts) -> Forecasts:
    if not all(np.isfinite(value).all() for value in fields_of(forecasts).values()):
        raise InvalidOption.at("/map", "returns infinite bounds, which have no measures: fit it to more rows")
    return forecasts


def _apply(fitted: DistributionMap, rows: ForecastRows, seed: int) -> Forecasts:
    return fitted.apply_checked(rows.forecasts, by=_names(rows, "by"), seed=seed)


def evaluate_or_queue(
    requester: Requester, arrays: Arrays, options: EvaluateDistributionOptions
) -> dict[str, Any] | JobRecord:
    """Evaluate forecasts directly, or queue a job if that takes more than an estimated 2 s."""
    made = _evaluate(requester, arrays, options)
    return made if isinstance(made, JobRecord) else made.report


class WholeForecastReport(NamedTuple):
    """A full report and what it was made from; ``columns`` are the names of the arrays."""

    report: dict[str, Any]
    kind: ForecastKind
    columns: Sequence[str]
    weights_kind: WeightsKind


def report_or_queue(
    requester: Requester, arrays: Arrays, options: EvaluateDistributionOptions
) -> WholeForecastReport | JobRecord:
    """Create a full report of forecasts directly, or queue a job."""
    for name in ("measures", "diagrams", "interval", "against"):
        if getattr(options, name) is not None:
            raise InvalidField.at(f"/{name}", "cannot be chosen for an HTML report of regression; omit it")
    return _evaluate(requester, arrays, options, report=True)


def _evaluate(
    requester: Requester, arrays: Arrays, options: EvaluateDistributionOptions, *, report: bool = False
) -> WholeForecastReport | JobRecord:
    held = None if options.map is None else requester.find_map(options.map)
    applied = None if held is None else held.distribution
    rows = find_forecasts(requester, arrays, options)
    rows.required()
    map_id = None if held is None else held.id
    comparison, parts = None, None
    if options.against is not None:
        ids, batches = options.against, requester.store.batches
        if options.batch in ids or len(set(ids)) < len(ids):
            raise InvalidField.at("/against", "must be distinct batches")
        records = [batches.record(batch_id) for batch_id in ids]
        most = requester.settings.max_unpacked_bytes  # because all are in memory at once
        if sum(record.bytes or 0 for record in records) > most:
            raise InvalidField.at("/against", f"must have at most {most:,} bytes in all; compare fewer batches")
        parts = [record.parts for record in records]
        for batch_id in ids:
            take_slot_for(requester, batch_id)
        requester.reserve(stored_bytes(sum(record.bytes or 0 for record in records) // NUMBER_BYTES))  # all at once
        comparison = _Comparison(_others(rows, map(batches.arrays, ids, parts)), options.score, options.lags)
    elif options.score is not None or options.lags:
        raise InvalidField.at("/score" if options.score is not None else "/lags", "needs against")
    evaluation = _Evaluation(
        options.measures, options.interval, options.seed, applied, map_id, options.diagrams, report, comparison
    )
    made = 0 if applied is None else check_size(applied, len(rows), requester.settings.max_unpacked_bytes)
    seconds = evaluation.seconds(rows) + made * _BYTE_SECONDS
    size = len(rows) * (rows.width + 2) + made // NUMBER_BYTES
    done = run_inline(requester, seconds, len(rows), size, partial(evaluation.run, rows))
    if done is not None:
        return WholeForecastReport(done, rows.forecasts.kind, list(rows.kept()), counted_kind(rows.weights_kind))
    with place_for_job(requester) as job_id:
        spec = EvaluateDistributionSpec(
            batch=options.batch or store_forecasts(requester, rows).id,
            measures=options.measures,
            diagrams=options.diagrams,
            map=map_id,
            against=options.against,
            parts_of=parts,
            score=options.score,
            lags=options.lags,
            interval=options.interval,
            seed=options.seed,
            report=report,
        )
        return queue(requester, "evaluate", job_id, spec.model_dump(), seconds=seconds)


def _others(rows: ForecastRows, batches: Iterable[tuple[BatchRecord, Arrays]]) -> dict[str, Forecasts]:
    """The forecasts of batches with the same outcomes as the rows; raises ``InvalidField`` for others."""
    found = {}
    for i, (record, arrays) in enumerate(batches):
        check_kind(record, "regression", f"/against/{i}")
        own = stored_forecasts(record, arrays)
        if own.observed is None or not np.array_equal(own.observed, rows.required()):
            raise InvalidField.at(f"/against/{i}", "is a batch with other outcomes, or without any")
        found[record.id] = own.forecasts
    return found


def run_evaluation(store: Store, run: Run, progress: Progress) -> None:
    """Run an evaluation job; its result is the report. Retries while the store is unavailable."""
    spec = EvaluateDistributionSpec.model_validate(run.job.spec)
    fitted = None if spec.map is None else distribution_of(patiently(lambda: store.maps.get(spec.map or "")))
    rows = _stored(store, spec.batch, spec.parts)
    ids, comparison = spec.against or [], None
    if ids:
        read = partial(_arrays, store)
        found = _others(rows, map(read, ids, spec.parts_of or repeat(None)))
        comparison = _Comparison(found, spec.score, spec.lags)
    with span("compute"), reporting(progress):
        report = _Evaluation(
            spec.measures, spec.interval, spec.seed, fitted, spec.map, spec.diagrams, spec.report, comparison
        ).run(rows)
    patiently(lambda: run.succeed({"report": report}))


def _arrays(store: Store, batch_id: str, parts: int | None) -> tuple[BatchRecord, Arrays]:
    return patiently(lambda: store.batches.arrays(batch_id, parts))


def _stored(store: Store, batch_id: str, parts: int | None) -> ForecastRows:
    record, arrays = _arrays(store, batch_id, parts)
    check_kind(record, "regression")
    return stored_forecasts(record, arrays)


# --- Fits

#: Estimated seconds of a fit: per row, per number, and per row and level of the result. Normal forecasts count as
#: ``_NORMAL_WIDTH`` numbers.
_FIT: Mapping[str, tuple[float, float]] = {
    "averaged": (0.0, 1.8e-5),
    "location-scale": (0.0, 1.2e-5),
    "variance-platt": (6e-5, 0.0),
}
_FIT_ROW, _FIT_NUMBER, _FIT_LEVEL, _NORMAL_WIDTH = 5e-6, 1e-6, 1.5e-7, 10


def _fit_seconds(method: str, rows: ForecastRows, most: int | None = None) -> float:
    """Estimated seconds of a fit to the rows, or to at most ``most`` of them."""
    row, number = _FIT.get(method, (_FIT_ROW, _FIT_NUMBER))
    n = len(rows) if most is None else min(len(rows), most)
    return n * (row + number * (_NORMAL_WIDTH if rows.forecasts.kind == "normal" else rows.width))


def fit_or_queue(requester: Requester, arrays: Arrays, options: FitDistributionOptions) -> MapRecord | JobRecord:
    """Fit and store a map directly, or queue a job if the fit takes more than an estimated 2 s."""
    entry = DISTRIBUTION_METHODS.get(options.method)
    if entry is None:
        raise UnknownMethod.at("/method", one_of(options.method, DISTRIBUTION_METHODS))
    values = read_values(options.options, entry.options, entry.name, where="/options")
    rows = find_forecasts(requester, arrays, options)
    rows.required()
    requester.store.charges.check_maps()
    levels = len(options.output_levels or ())
    spec = _spec(options, batch_id="", who=requester.who)
    seconds = _fit_seconds(entry.name, rows) + _FIT_LEVEL * levels * len(rows)
    size = len(rows) * (rows.width + 2 + levels)
    work = partial(_fitted, requester.new_id("map"), spec, rows, values)
    draft = run_inline(requester, seconds, len(rows), size, work)
    if draft is not None:
        return requester.store.maps.put(draft, allow_shape_change=options.allow_shape_change)
    with place_for_job(requester) as job_id:
        spec = _spec(options, batch_id=options.batch or store_forecasts(requester, rows).id, who=requester.who)
        return queue(requester, "fit", job_id, spec.model_dump(), seconds=seconds)


def run_fit(store: Store, run: Run, progress: Progress) -> None:
    """Run a fit job; storing the map and ending the job is one transaction."""
    spec = FitDistributionSpec.model_validate(run.job.spec)
    rows = _stored(store, spec.batch, spec.parts)
    with span("compute", method=spec.method), reporting(progress):
        draft = _fitted(run.job.id.replace("job_", "map_", 1), spec, rows, spec.options)
    patiently(lambda: store.maps.put(draft, run=run, allow_shape_change=spec.allow_shape_change))


def _spec(options: FitDistributionOptions, *, batch_id: str, who: str | None) -> FitDistributionSpec:
    given = options.model_dump(exclude={"batch", "level", "weights_kind"})
    return FitDistributionSpec(**given, batch=batch_id, created_by=who)


def _fitted(map_id: str, spec: FitDistributionSpec, rows: ForecastRows, options: Mapping[str, Any]) -> MapRecord:
    fitted = fit_distribution(
        spec.method,
        rows.required(),
        **fields_of(rows.forecasts),
        by=rows.names.get("by"),
        groups=rows.names.get("groups"),
        weights=rows.weights,
        weights_kind=rows.weights_kind,
        scale=spec.scale,
        support=(spec.support[0], spec.support[1]),
        output_levels=spec.output_levels,
        seed=spec.seed,
        **options,
    )
    if rows.forecasts.n_repaired:  # the fit gets repaired quantiles
        fitted = replace(fitted, diagnostics={**fitted.diagnostics, "n_repaired": rows.forecasts.n_repaired})
    return distribution_record(map_id, spec, fitted, shapes_of(fitted), len(rows))


# --- Applications of a map


#: The longest estimate of a recalibration in the order of time.
_MOST_SECONDS = 10.0


class CalibratedForecasts(NamedTuple):
    """Calibrated forecasts, and the rows whose quantiles were repaired before.

    ``map_id`` is that of the applied map, or None. ``corrections (n,)`` are those of each row in the order of time.
    """

    map_id: str | None
    forecasts: Forecasts
    n_repaired: int
    corrections: Mapping[str, np.ndarray] = {}


@traced("work")
def calibrate(requester: Requester, arrays: Arrays, options: CalibrateDistributionOptions) -> CalibratedForecasts:
    """Apply the map of a request to its forecasts or its batch; raises ``TooLarge`` for a large result."""
    held = requester.find_map(options.map)
    _refuse_fields(arrays, "observed", "weights", "groups", "clusters", "times", "known")
    rows = find_forecasts(requester, arrays, options)
    size = check_size(held.distribution, len(rows.forecasts), requester.settings.max_unpacked_bytes)
    requester.reserve(work_bytes(len(rows) * rows.width) + 2 * size)
    requester.take_slot(size * _BYTE_SECONDS)
    return CalibratedForecasts(held.id, _apply(held.distribution, rows, options.seed), rows.forecasts.n_repaired)


@traced("work")
def calibrate_in_order(requester: Requester, arrays: Arrays, options: InOrderOptions) -> CalibratedForecasts:
    """Recalibrate the forecasts of a request in the order of time."""
    _refuse_fields(arrays, "weights", "groups", "clusters")
    for name in ("observed", "times", "known"):
        if name not in arrays:
            raise InvalidField.at(f"/{name}", "is missing")
    requester.reserve(work_bytes(sum(array.size for array in arrays.values())))
    given = {name: array for name, array in arrays.items() if name != "known"}
    rows = check_forecasts(given, None, options.level, "frequency")
    names = {**rows.names, "known": arrays["known"]}
    return recalibrate(requester, rows.forecasts, rows.required(), names, options.in_order)


def _refuse_fields(arrays: Arrays, *names: str) -> None:
    for name in names:
        if name in arrays:
            raise InvalidField.at(f"/{name}", "is not a field of this request")


def recalibrate(
    requester: Requester, forecasts: Forecasts, observed: Floats, names: Mapping[str, Any], how: InOrder
) -> CalibratedForecasts:
    """Recalibrate checked forecasts in the order of time; ``names`` has their ``times``, ``known`` and perhaps ``by``.

    Raises ``TooLarge`` if that would take long, and otherwise as ``recalibrate_in_order``.
    """
    try:
        checked = read_in_order(
            observed,
            names["times"],
            names["known"],
            half_life=how.half_life,
            horizon=names.get("by"),
            scale=how.scale,
            support=(how.support[0], how.support[1]),
            settings=how.model_dump(include={"shift", "widen", "narrow"}),
            **fields_of(forecasts),
        )
    except CalibrationError as error:
        raise _renamed(error) from error
    seconds = checked.seconds()
    if seconds > _MOST_SECONDS:
        raise TooLarge(
            f"in_order would take about {seconds:.0f} s, and may take {_MOST_SECONDS:.0f}; send fewer rows, or those "
            "of a shorter time"
        )
    requester.take_slot(seconds)
    found = checked.recalibrated()
    corrections = {"shifts": found.shifts, "factors": found.factors, "n_known": found.n_known}
    return CalibratedForecasts(None, found.forecasts, forecasts.n_repaired, corrections)


#: Fields of a request by the argument of the library.
_ARGUMENTS = {"made": "times", "horizon": "by", "scale": "in_order/scale", "support": "in_order/support"}


def _renamed(error: CalibrationError) -> CalibrationError:
    """The same error with the fields of a request in place of arguments of the library."""
    offences = []
    for each in error.offences:
        _, argument, *place = each.pointer.split("/")
        detail = each.detail.replace("later than made", "later than times").replace("like made", "like times")
        offences.append(Offence("/".join(["", _ARGUMENTS.get(argument, argument), *place]), detail))
    return type(error)(f"{offences[0].pointer[1:]} {offences[0].detail}", tuple(offences)) if offences else error
