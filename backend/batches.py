"""Batches: the rows of a request or of a stored batch, and how they are validated and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from backend.memory import stored_bytes, work_bytes
from backend.requester import Requester
from backend.store.batches import stored_kind
from backend.store.clock import stamp
from backend.store.errors import BatchFull
from backend.telemetry.observed import note_rows
from calibrant.core.batch import (
    Batch,
    Fractional,
    Predictions,
    Scale,
    check_weights,
    counted_kind,
    read_batch,
    read_labels,
    read_predictions,
)
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import (
    EmptyBatch,
    InvalidLabel,
    InvalidOption,
    LengthMismatch,
    PredictionKindMismatch,
    WrongShape,
)
from calibrant.core.inputs import labels_by_name
from calibrant.diagrams.in_sample import MOST_COUNTED
from calibrant.evaluation import Groups
from calibrant.io.errors import InvalidField
from calibrant.io.limits import LIGHT_BYTES, NUMBER_BYTES
from schemas.batches import BatchOptions, BatchRecord, DistributionBatchOptions, DistributionRowsOptions, RowsOptions
from schemas.distributions import ForecastShape, PredictionKind

if TYPE_CHECKING:
    from backend.forecasts import ForecastRows

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

#: Number of names converted to Python strings at once; no other thread runs during a conversion.
_NAMES_AT_ONCE = 1 << 16


class RowOptions(Protocol):
    """The options that identify the rows of a request."""

    @property
    def batch(self) -> str | None: ...  # noqa: D102
    @property
    def scale(self) -> Scale | None: ...  # noqa: D102


class RequestRows(NamedTuple):
    """The arrays of a request or of its stored batch, not yet validated."""

    arrays: Arrays
    scale: Scale
    weights_kind: WeightsKind | Fractional
    class_names: tuple[str, ...] | None = None


class LabelledRows(NamedTuple):
    """Validated rows with labels, and their groups if there are any; ``source`` holds the original arrays."""

    batch: Batch
    groups: Groups | None
    source: RequestRows


def find_rows(requester: Requester, arrays: Arrays, options: RowOptions) -> RequestRows:
    """The arrays of a request, or of the batch that it names; raises ``InvalidField``, ``UnknownBatch``, ``Busy``."""
    if options.batch is None:
        _reserve(requester, arrays)
        _note(arrays)
        kind: WeightsKind = _stated(options, "weights_kind") or "importance"
        return with_class_names(
            RequestRows(arrays, options.scale or "probability", kind), _stated(options, "class_names")
        )
    if arrays:
        raise InvalidField.at("/batch", "cannot be combined with arrays; send one of the two")
    take_slot_for(requester, options.batch)
    record, stored = requester.store.batches.arrays(options.batch)
    check_kind(record, "classification")
    for name in ("scale", "weights_kind"):
        if _stated(options, name) not in (None, getattr(record, name)):
            raise InvalidField.at(f"/{name}", "must equal that of the batch")
    _note(stored)
    rows = RequestRows(stored, record.scale or "probability", stored_kind(record, stored))
    return with_class_names(rows, _stated(options, "class_names") or record.class_names)


def implied_reduction(requester: Requester, reduction: str | None, batch_ids: Sequence[str]) -> str | None:
    """Return the requested reduction, or else the one that the uploaded files of stored batches imply.

    Raises ``InvalidOption`` if the files imply different ones.
    """
    if reduction is not None or not batch_ids:
        return reduction
    implied = {requester.store.uploads.get(batch_id).reduction for batch_id in batch_ids}
    if len(implied) > 1:
        names = " and ".join(sorted(name or "none" for name in implied))
        raise InvalidOption.at("/reduction", f"must be sent, as the files of the batches imply {names}")
    return implied.pop()


def with_class_names(rows: RequestRows, names: list[str] | None) -> RequestRows:
    """Check the names of the classes, and convert labels that are names; raises ``InvalidOption``, ``InvalidLabel``."""
    predictions, labels = rows.arrays.get("predictions"), rows.arrays.get("labels")
    if predictions is None or (names is None and (labels is None or labels.dtype.kind not in "UO")):
        return rows
    if not predictions.size:
        raise EmptyBatch.at("/predictions", "has no rows")
    n_classes = predictions.shape[1] if predictions.ndim == 2 else 2
    if names is None:
        raise InvalidLabel.at("/labels", "are strings, which need class_names in the order of the columns")
    found, class_names = labels_by_name(np.empty(0) if labels is None else labels, n_classes, names)
    arrays = rows.arrays if labels is None else {**rows.arrays, "labels": found}
    return rows._replace(arrays=arrays, class_names=class_names)


def take_slot_for(requester: Requester, batch_id: str) -> None:
    """Reserve the memory for a stored batch, and take a slot if it is as large as a heavy body.

    Raises ``UnknownBatch``, ``Busy`` and ``TooLarge``.
    """
    record = requester.store.batches.record(batch_id)
    if record.prediction_kind == "regression":
        size = record.bytes or 0
    else:
        size = record.n * ((record.n_classes or 1) + len(record.arrays) - 1) * NUMBER_BYTES
    if size > LIGHT_BYTES:
        requester.take_slot()
    requester.reserve(stored_bytes(size // NUMBER_BYTES))


def _reserve(requester: Requester, arrays: Arrays) -> None:
    """Reserve the memory for the work on the rows of a request; raises ``Busy`` and ``TooLarge``."""
    requester.reserve(work_bytes(sum(array.size for array in arrays.values())))


def check_kind(record: BatchRecord, kind: PredictionKind, pointer: str = "/batch") -> None:
    """Raise ``PredictionKindMismatch`` unless a batch is of this kind."""
    if record.prediction_kind != kind:
        raise PredictionKindMismatch.at(pointer, f"is a batch of {record.prediction_kind}, not of {kind}")


def check_labelled(rows: RequestRows) -> LabelledRows:
    """Validate predictions, labels, weights and groups; labels are required."""
    arrays = rows.arrays
    for name in ("predictions", "labels"):
        if name not in arrays:
            raise InvalidField.at(f"/{name}", "is missing")
    batch = read_batch(
        arrays["predictions"], arrays["labels"], arrays.get("weights"), scale=rows.scale, kind=rows.weights_kind
    )
    return LabelledRows(batch, _groups(arrays.get("groups"), len(batch)), rows)


def store_batch(requester: Requester, arrays: Arrays, options: BatchOptions | DistributionBatchOptions) -> BatchRecord:
    """Validate arrays, labels or outcomes optional, and store them; raises ``BatchFull`` and ``QuotaExceeded``."""
    ttl, longest = options.ttl, requester.settings.batch_ttl
    if ttl is not None and ttl > longest:
        raise InvalidField.at("/ttl", f"must be at most {longest}")
    _reserve(requester, arrays)
    if isinstance(options, DistributionBatchOptions):
        forecasts = _checked_forecasts(arrays, None, options.level, options.weights_kind)
        return store_forecasts(requester, forecasts, longest if ttl is None else ttl)
    rows = with_class_names(RequestRows(arrays, options.scale, options.weights_kind), options.class_names)
    predictions, kept = _check(rows)
    record = _record(requester.new_id("batch"), predictions, kept, options.weights_kind, rows.class_names)
    return _store(requester, record, kept, longest if ttl is None else ttl)


def store_labelled(requester: Requester, rows: LabelledRows) -> BatchRecord:
    """Store validated rows as a batch for a job; raises ``BatchFull`` and ``QuotaExceeded``."""
    batch, arrays = rows.batch, rows.source.arrays
    kept = {"predictions": _unrounded(batch.predictions, arrays["predictions"]), "labels": batch.labels}
    if batch.weights is not None:  # not normalized, because rows may be appended
        kept["weights"] = np.asarray(arrays["weights"], dtype=np.float64)
    if rows.groups is not None:
        kept["groups"] = arrays["groups"]
    names = rows.source.class_names
    record = _record(requester.new_id("batch"), batch.predictions, kept, batch.weights_kind, names)
    return _store(requester, record, kept, requester.settings.batch_ttl)


def append_rows(
    requester: Requester, batch_id: str, arrays: Arrays, options: RowsOptions | DistributionRowsOptions
) -> BatchRecord:
    """Validate arrays and append them to a batch with the same arrays."""
    batches, most = requester.store.batches, requester.settings.max_batch_rows
    batch = batches.record(batch_id)
    check_kind(batch, options.prediction_kind, "/prediction_kind")
    _reserve(requester, arrays)
    for name in ("scale", "weights_kind"):
        if _stated(options, name) not in (None, getattr(batch, name)):
            raise InvalidField.at(f"/{name}", "must equal that of the batch")
    if isinstance(options, DistributionRowsOptions):
        added = _checked_forecasts(arrays, None, options.level, batch.weights_kind)
        _check_same(batch, added.kept())
        if added.shape != batch.forecasts:
            field = "level" if added.shape.kind == "interval" else "levels"
            raise InvalidField.at(f"/{field}", "must equal those of the batch")
        return batches.append(
            batch_id, requester.new_id("part"), _forecasts_record(batch_id, added), added.kept(), most_rows=most
        )
    predictions, kept = _check(
        with_class_names(RequestRows(arrays, batch.scale or "probability", batch.weights_kind), batch.class_names)
    )
    _check_same(batch, kept)
    if predictions.n_classes != batch.n_classes:
        shape = "(n,)" if batch.n_classes is None else f"(n, {batch.n_classes})"
        raise WrongShape.at("/predictions", f"must be {shape}, like those of the batch")
    rows = _record(batch_id, predictions, kept, batch.weights_kind)
    return batches.append(batch_id, requester.new_id("part"), rows, kept, most_rows=most)


def _check_same(batch: BatchRecord, kept: Arrays) -> None:
    """Raise ``InvalidField`` unless appended arrays are those of the batch."""
    for name in sorted(set(kept) ^ set(batch.arrays)):
        raise InvalidField.at(
            f"/{name}", "is missing, but the batch has it" if name not in kept else "is not an array of the batch"
        )


def _store(requester: Requester, record: BatchRecord, kept: Arrays, ttl: int) -> BatchRecord:
    most = requester.settings.max_batch_rows
    if record.n > most:
        raise BatchFull(f"a batch may have at most {most} rows")
    return requester.store.batches.put(record, kept, ttl=ttl)


def _check(rows: RequestRows) -> tuple[Predictions, dict[str, Array]]:
    """Validate rows that may lack labels; returns the predictions and the arrays to store."""
    arrays = rows.arrays
    if "predictions" not in arrays:
        raise InvalidField.at("/predictions", "is missing")
    _note(arrays)
    read = read_predictions(arrays["predictions"], scale=rows.scale)
    kept = {"predictions": _unrounded(read, arrays["predictions"])}
    if "labels" in arrays:
        kept["labels"] = read_labels(arrays["labels"], len(read), read.n_classes or 2)
    if "weights" in arrays:
        kept["weights"] = check_weights(arrays["weights"], len(read), rows.weights_kind)
    if "groups" in arrays:
        _check_groups(arrays["groups"], len(read))
        kept["groups"] = arrays["groups"]
    return read, kept


def _unrounded(read: Predictions, given: Array) -> Array:
    """Return the predictions to store: as given, or divided by their sums if they were rounded, for rows to append."""
    return read.given if read.rounded else np.asarray(given)


def _record(
    batch_id: str,
    predictions: Predictions,
    kept: Arrays,
    kind: WeightsKind,
    class_names: tuple[str, ...] | None = None,
) -> BatchRecord:
    n, n_classes = len(predictions), predictions.n_classes
    counts = None
    if "labels" in kept and (n_classes or 2) <= MOST_COUNTED:
        counts = np.bincount(kept["labels"], minlength=n_classes or 2).tolist()
    return BatchRecord(
        id=batch_id,
        n=n,
        n_classes=n_classes,
        scale=predictions.scale,
        weights_kind=kind,
        class_names=None if class_names is None else list(class_names),
        arrays=list(kept),
        label_counts=counts,
        positive_rate=counts[1] / n if counts is not None and n_classes is None else None,
        clipped=predictions.clipped,
        renormalised=predictions.renormalised,
        created_at=stamp(),
        expires_at="",
    )


def _groups(groups: Array | None, n: int) -> Groups | None:
    if groups is None:
        return None
    _check_groups(groups, n)
    names = Groups()
    for start in range(0, n, _NAMES_AT_ONCE):
        names += groups[start : start + _NAMES_AT_ONCE].tolist()
    return names


def _check_groups(groups: Array, n: int) -> None:
    if groups.ndim != 1:
        raise WrongShape.at("/groups", "must be (n,)")
    if len(groups) != n:
        raise LengthMismatch.at("/groups", f"has {len(groups)} rows, but /predictions has {n}")


# --- Predictive distributions


class ForecastOptions(Protocol):
    """The options that identify the forecasts of a request."""

    @property
    def batch(self) -> str | None: ...  # noqa: D102
    @property
    def level(self) -> float | None: ...  # noqa: D102


def find_forecasts(requester: Requester, arrays: Arrays, options: ForecastOptions) -> ForecastRows:
    """Check the forecasts of a request, or of the batch that it names; raises ``InvalidField``, ``UnknownBatch``."""
    stated: WeightsKind | None = _stated(options, "weights_kind")
    if options.batch is None:
        _reserve(requester, arrays)
        return _checked_forecasts(arrays, None, options.level, stated or "importance")
    if arrays:
        raise InvalidField.at("/batch", "cannot be combined with arrays; send one of the two")
    take_slot_for(requester, options.batch)
    record, _ = found = requester.store.batches.arrays(options.batch)
    check_kind(record, "regression")
    if stated not in (None, record.weights_kind):
        raise InvalidField.at("/weights_kind", "must equal that of the batch")
    if record.forecasts is not None and options.level not in (None, record.forecasts.level):
        raise InvalidField.at("/level", "must equal that of the batch")
    return stored_forecasts(*found)


def stored_forecasts(record: BatchRecord, arrays: Arrays) -> ForecastRows:
    """Check the forecasts of a stored batch."""
    return _checked_forecasts(arrays, record.forecasts, None, stored_kind(record, arrays))


def _checked_forecasts(
    arrays: Arrays, shape: ForecastShape | None, level: float | None, weights_kind: WeightsKind | Fractional
) -> ForecastRows:
    from backend.forecasts import check_forecasts

    return check_forecasts(arrays, shape, level, weights_kind)


def store_forecasts(requester: Requester, rows: ForecastRows, ttl: int | None = None) -> BatchRecord:
    """Store checked forecasts as a batch; raises ``BatchFull`` and ``QuotaExceeded``."""
    record = _forecasts_record(requester.new_id("batch"), rows)
    return _store(requester, record, rows.kept(), requester.settings.batch_ttl if ttl is None else ttl)


def _forecasts_record(batch_id: str, rows: ForecastRows) -> BatchRecord:
    return BatchRecord(
        id=batch_id,
        prediction_kind="regression",
        n=len(rows),
        n_classes=None,
        scale=None,
        weights_kind=counted_kind(rows.weights_kind),
        arrays=list(rows.kept()),
        clipped=0,
        renormalised=0,
        forecasts=rows.shape,
        n_repaired=rows.forecasts.n_repaired,
        created_at=stamp(),
        expires_at="",
    )


def _note(arrays: Arrays) -> None:
    if "predictions" in arrays:
        note_rows(arrays["predictions"].shape)


def _stated(options: object, name: str) -> Any:
    """The value of an option that may not exist; ``getattr`` is slow for missing attributes."""
    return vars(options).get(name)
