"""Predictive distributions of a number: their rows, evaluations, fits, maps and recalibrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.held_map import HeldMap, distribution_of
from backend.kinds import Arrays, Calibrated, Work, check_kind, record_of, stored_bytes, take_slot_for, work_bytes
from backend.kinds.classes import stored_kind
from backend.requester import Requester, Scorer
from backend.telemetry.observed import note_rows
from calibrant.core.errors import CalibrationError, Offence
from calibrant.core.progress import Progress, reporting
from calibrant.distributions.adaptive import AdaptiveForecasts, read_in_order
from calibrant.distributions.calibrators import DistributionFitting
from calibrant.distributions.forecasts import ARGUMENTS, ForecastRows, Forecasts
from calibrant.distributions.maps.distribution_map import DistributionMap
from calibrant.io.errors import InvalidField, TooLarge
from calibrant.io.limits import NUMBER_BYTES
from calibrant.kinds.distributions import (
    BYTE_SECONDS,
    DistributionEvaluation,
    ForecastReport,
    accepted_and_returned,
    arrays_of,
    check_arrays,
    check_size,
    report_options,
)
from schemas.batches import BatchRecord, DistributionRowsOptions
from schemas.distributions import ForecastShape, PredictionKind
from schemas.evaluations import EvaluateDistributionOptions, EvaluateDistributionSpec, EvaluateSpec
from schemas.maps import (
    CalibrateDistributionOptions,
    FitDistributionOptions,
    FitDistributionSpec,
    ImportOptions,
    InOrder,
    MapRecord,
)

if TYPE_CHECKING:  # scoring needs no store
    from backend.store.jobs.runs import Run
    from backend.store.store import Store

# --- Rows


@dataclass(frozen=True)
class GivenForecasts(ForecastRows):
    """Checked forecasts, and the ``arrays`` that they came from."""

    arrays: Arrays = field(default_factory=dict)

    @property
    def shape(self) -> ForecastShape:
        """What the forecasts are given as."""
        return shape_of(self.forecasts)

    @property
    def labelled(self) -> GivenForecasts:
        """The same rows; raises ``InvalidField`` without outcomes."""
        if self.observed is None:
            raise InvalidField.at("/observed", "is missing")
        return self


def shape_of(forecasts: Forecasts) -> ForecastShape:
    """What forecasts are given as."""
    return ForecastShape(
        kind=forecasts.kind,
        levels=forecasts.levels.tolist() if forecasts.kind == "quantiles" else None,
        level=forecasts.level if forecasts.kind == "interval" else None,
    )


def others_of(rows: ForecastRows, batches: Iterable[tuple[BatchRecord, Arrays]]) -> dict[str, Forecasts]:
    """The forecasts of batches with the same outcomes as the rows; raises ``InvalidField`` for others."""
    forecasts_by_batch = {}
    for i, (record, arrays) in enumerate(batches):
        check_kind(record, "regression", f"/against/{i}")
        own = DISTRIBUTIONS.check_stored(record, arrays, labelled=False)
        if own.observed is None or not np.array_equal(own.observed, rows.observed):
            raise InvalidField.at(f"/against/{i}", "is a batch with other outcomes, or without any")
        forecasts_by_batch[record.id] = own.forecasts
    return forecasts_by_batch


# --- Evaluations and fits


def read_operation(
    spec: EvaluateDistributionSpec, fitted: DistributionMap | None
) -> DistributionEvaluation | ForecastReport:
    """Validate an evaluation, or a full report; raises ``UnknownMeasure`` and so on."""
    if spec.report:
        return ForecastReport(fitted, spec.seed, map_id=spec.map)
    return DistributionEvaluation.read(
        spec.measures,
        spec.diagrams,
        map=fitted,
        map_id=spec.map,
        interval=spec.interval,
        seed=spec.seed,
        score=spec.score,
        lags=spec.lags,
    )


@dataclass(frozen=True)
class ForecastEvaluationRequest:
    """A checked evaluation or full report of a request."""

    spec: EvaluateDistributionSpec
    operation: DistributionEvaluation | ForecastReport
    options: EvaluateDistributionOptions

    def on(self, requester: Requester, rows: GivenForecasts) -> Work:
        """Load the other forecasts of a comparison, and return the work on the rows."""
        operation, spec, most = self.operation, self.spec, requester.settings.max_unpacked_bytes
        ids, batches = spec.against or [], requester.store.batches
        if ids:
            records = [batches.record(batch_id, f"/against/{i}") for i, batch_id in enumerate(ids)]
            size = sum(record.bytes or 0 for record in records)  # all are in memory at once
            if size > most:
                raise InvalidField.at("/against", f"must have at most {most:,} bytes in all; compare fewer batches")
            parts = [record.parts for record in records]
            for batch_id in ids:
                take_slot_for(requester, batch_id)
            requester.reserve(stored_bytes(size // NUMBER_BYTES))
            rows = replace(rows, others=others_of(rows, map(batches.arrays, ids, parts)))
            spec = spec.model_copy(update={"parts_of": parts})
        output_bytes = 0 if operation.map is None else check_size(operation.map, len(rows), most)
        seconds = operation.seconds(rows) + output_bytes * BYTE_SECONDS
        size = len(rows) * (rows.forecasts.width + 2) + output_bytes // NUMBER_BYTES
        return Work(spec, rows, seconds, len(rows), size, partial(operation.document, rows))


@dataclass(frozen=True)
class ForecastFitRequest:
    """A checked fit of a request."""

    options: FitDistributionOptions
    fitting: DistributionFitting

    def on(self, requester: Requester, rows: GivenForecasts) -> Work:
        """Check the rows, and return the work on them, whose result is the record of the map."""
        requester.store.charges.check_maps()
        checked = self.fitting.check(rows)
        spec = FitDistributionSpec.with_fields_of(self.options, batch="", created_by=requester.who)
        size = len(rows) * (rows.forecasts.width + 2 + len(self.options.output_levels or ()))

        def run() -> MapRecord:
            return distribution_record(requester.new_id("map"), spec, self.fitting.run(checked), len(rows))

        return Work(spec, rows, self.fitting.seconds(checked), len(rows), size, run)


def read_fitting(options: FitDistributionOptions | FitDistributionSpec, where: str = "") -> DistributionFitting:
    """Check the options of a fit; raises ``UnknownMethod`` and ``InvalidOption``."""
    return DistributionFitting.read(
        options.method,
        options.options,
        where=where,
        scale=options.scale,
        support=(options.support[0], options.support[1]),
        output_levels=options.output_levels,
        seed=options.seed,
    )


# --- Records of maps


def distribution_record(
    map_id: str,
    spec: FitDistributionSpec | ImportOptions,
    fitted: DistributionMap,
    n: int | None,
    *,
    who: str | None = None,
) -> MapRecord:
    """The record of a map of predictive distributions, fitted to ``n`` rows, or imported by ``who``."""
    accepts, returns = map(shape_of, accepted_and_returned(fitted))
    own: dict[str, Any] = {"created_by": who, "imported": True}
    if isinstance(spec, FitDistributionSpec):
        own = {"options": spec.options, "seed": spec.seed, "created_by": spec.created_by, "warning": fitted.warning}
        own |= {"held_out_gain": fitted.diagnostics.get("held_out_gain")}
    return record_of(map_id, fitted, spec, prediction_kind="regression", n=n, accepts=accepts, returns=returns, **own)


# --- Calibrated forecasts

#: The longest estimate of a recalibration in the order of time.
_MOST_SECONDS = 10.0


@dataclass(frozen=True)
class ForecastCalibrationRequest:
    """A checked application of a map."""

    held: HeldMap
    options: CalibrateDistributionOptions

    def on(self, requester: Scorer, rows: GivenForecasts) -> Calibrated:
        """Apply the map; raises ``TooLarge`` for a large result."""
        fitted = self.held.distribution
        size = check_size(fitted, len(rows), requester.settings.max_unpacked_bytes)
        requester.take_slot(size * BYTE_SECONDS)
        requester.reserve(work_bytes(len(rows) * rows.forecasts.width) + 2 * size)
        recalibrated = fitted.apply_checked(rows.forecasts, by=rows.by, seed=self.options.seed)
        return Calibrated({**self.held.named, "n_repaired": rows.forecasts.n_repaired}, dict(recalibrated))


def recalibrate(requester: Scorer, rows: ForecastRows, how: InOrder) -> AdaptiveForecasts:
    """Recalibrate checked forecasts in the order of their ``times``, with ``known`` and perhaps ``by``.

    Raises ``TooLarge`` if that would take long, and otherwise as ``recalibrate_in_order``.
    """
    try:
        checked = read_in_order(
            rows.observed,
            rows.times,
            rows.known,
            half_life=how.half_life,
            horizon=rows.by,
            scale=how.scale,
            support=(how.support[0], how.support[1]),
            settings=how.model_dump(include={"shift", "widen", "narrow"}),
            **rows.forecasts,
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
    return checked.recalibrated()


#: Fields of a request by the argument of the library.
_ARGUMENTS = {"made": "times", "horizon": "by", "scale": "in_order/scale", "support": "in_order/support"}


def _renamed(error: CalibrationError) -> CalibrationError:
    """The same error with the fields of a request in place of arguments of the library."""
    offences = []
    for offence in error.offences:
        _, argument, *place = offence.pointer.split("/")
        detail = offence.detail.replace("later than made", "later than times").replace("like made", "like times")
        offences.append(Offence("/".join(["", _ARGUMENTS.get(argument, argument), *place]), detail))
    return type(error)(f"{offences[0].pointer[1:]} {offences[0].detail}", tuple(offences)) if offences else error


class Distributions:
    """Predictive distributions of a number."""

    name: PredictionKind = "regression"
    applied: tuple[str, ...] = (*ARGUMENTS, "by")
    spec: type[EvaluateSpec | EvaluateDistributionSpec] = EvaluateDistributionSpec
    shared: tuple[str, ...] = ("weights_kind",)

    def check(self, arrays: Arrays, options: Any, *, labelled: bool) -> GivenForecasts:
        """Check the arrays of a request."""
        kind = vars(options).get("weights_kind") or "importance"
        return self._given(arrays, labelled=labelled, level=options.level, weights_kind=kind)

    def check_stored(
        self, record: BatchRecord, arrays: Arrays, options: Any = None, *, labelled: bool
    ) -> GivenForecasts:
        """Check the arrays of a stored batch; ``options`` may state the level of its intervals."""
        shape = record.forecasts
        level, levels = (None, None) if shape is None else (shape.level, shape.levels)
        if options is not None and shape is not None and options.level not in (None, level):
            raise InvalidField.at("/level", "must equal that of the batch")
        kind = stored_kind(record, arrays)
        return self._given(arrays, labelled=labelled, level=level, levels=levels, weights_kind=kind)

    def check_appended(self, record: BatchRecord, arrays: Arrays, options: DistributionRowsOptions) -> GivenForecasts:
        """Check arrays that are appended to a batch."""
        of_batch = options.model_copy(update={"weights_kind": record.weights_kind})
        return self.check(arrays, of_batch, labelled=False)

    def check_same(self, record: BatchRecord, rows: GivenForecasts) -> None:
        """Raise ``InvalidField`` unless the levels are those of the batch."""
        if rows.shape != record.forecasts:
            field = "level" if rows.shape.kind == "interval" else "levels"
            raise InvalidField.at(f"/{field}", "must equal those of the batch")

    def stored(self, rows: GivenForecasts) -> dict[str, Any]:
        """The arrays that store checked rows."""
        return arrays_of(rows, rows.arrays)

    def described(self, rows: GivenForecasts) -> dict[str, Any]:
        """The fields of the record of a batch that depend on the kind."""
        return {
            "n_classes": None,
            "scale": None,
            "clipped": 0,
            "renormalised": 0,
            "forecasts": rows.shape,
            "n_repaired": rows.forecasts.n_repaired,
        }

    def n_numbers(self, record: BatchRecord) -> int:
        """How many numbers a stored batch has."""
        return (record.bytes or 0) // NUMBER_BYTES

    def evaluation(
        self, requester: Requester, options: EvaluateDistributionOptions, *, report: bool
    ) -> ForecastEvaluationRequest:
        """Check the options of an evaluation, or of a full report."""
        for name in ("measures", "diagrams", "interval", "against"):
            if report and getattr(options, name) is not None:
                raise InvalidField.at(f"/{name}", "cannot be chosen for an HTML report of regression; omit it")
        if options.against is None and (options.score is not None or options.lags):
            raise InvalidField.at("/score" if options.score is not None else "/lags", "needs against")
        ids = options.against or []
        if options.batch in ids or len(set(ids)) < len(ids):
            raise InvalidField.at("/against", "must be distinct batches")
        held = None if options.map is None else requester.find_map(options.map)
        own = {"batch": options.batch or "", "map": None if held is None else held.id}
        spec = EvaluateDistributionSpec.with_fields_of(options, **own, report=report)
        fitted = None if held is None else held.distribution
        return ForecastEvaluationRequest(spec, read_operation(spec, fitted), options)

    def run_evaluation(self, store: Store, spec: dict[str, Any], _device: str) -> Callable[[], dict[str, Any]]:
        """Read the rows and maps of an evaluation job; the returned function evaluates them."""
        from backend.store.server.connection import patiently

        checked = EvaluateDistributionSpec.model_validate(spec)
        map_id = checked.map
        fitted = None if map_id is None else distribution_of(patiently(lambda: store.maps.get(map_id)))

        def arrays(batch_id: str, parts: int | None) -> tuple[BatchRecord, Arrays]:
            return patiently(lambda: store.batches.arrays(batch_id, parts))

        rows: ForecastRows = self.check_stored(*arrays(checked.batch, checked.parts), labelled=True)
        others = map(arrays, checked.against or [], checked.parts_of or repeat(None))
        rows = replace(rows, others=others_of(rows, others))
        return partial(read_operation(checked, fitted).document, rows)

    def fit(self, _requester: Requester, options: FitDistributionOptions) -> ForecastFitRequest:
        """Check the options of a fit."""
        return ForecastFitRequest(options, read_fitting(options, "/options"))

    def run_fit(self, store: Store, run: Run, _device: str, progress: Progress) -> MapRecord | None:
        """Run a fit job."""
        from backend.store.server.connection import patiently

        spec = FitDistributionSpec.model_validate(run.job.spec)
        rows = self.check_stored(*patiently(lambda: store.batches.arrays(spec.batch or "", spec.parts)), labelled=True)
        fitting = read_fitting(spec)
        with reporting(progress):
            fitted = fitting.run(fitting.check(rows))
        return distribution_record(run.job.id.replace("job_", "map_", 1), spec, fitted, len(rows))

    def report_options(
        self, spec: EvaluateDistributionSpec, report: dict[str, Any], batch: BatchRecord | None
    ) -> dict[str, Any]:
        """The options that reproduce a full report; ``batch`` is None if it is gone."""
        if batch is None or batch.forecasts is None:
            return report_options(report["kind"], [], spec.seed)
        return report_options(batch.forecasts.kind, batch.arrays, spec.seed)

    def calibration(self, held: HeldMap, options: CalibrateDistributionOptions) -> ForecastCalibrationRequest:
        """Check the options of applying a map."""
        return ForecastCalibrationRequest(held, options)

    def imported(self, map_id: str, options: ImportOptions, fitted: DistributionMap, who: str | None) -> MapRecord:
        """The record of a map that ``who`` imports."""
        return distribution_record(map_id, options, fitted, None, who=who)

    def _given(self, arrays: Arrays, *, labelled: bool, **options: Any) -> GivenForecasts:
        rows = check_arrays(arrays, **options)
        note_rows((len(rows), rows.forecasts.width))
        forecasts = GivenForecasts(**vars(rows), arrays=arrays)
        return forecasts.labelled if labelled else forecasts


DISTRIBUTIONS = Distributions()
KIND = DISTRIBUTIONS
