"""Batches: the rows of a request or of a stored batch, and how they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from backend.kinds import Arrays, Kind, Rows, check_kind, kind_of, take_slot_for, work_bytes
from backend.requester import Requester, Scorer
from backend.store.clock import stamp
from backend.store.errors import BatchFull
from calibrant.core.batch import (
    counted_kind,
)
from calibrant.core.errors import CalibrationError
from calibrant.io.errors import InvalidField
from calibrant.io.strict import CLASSIFICATION
from schemas.batches import BatchOptions, BatchRecord, DistributionBatchOptions, DistributionRowsOptions, RowsOptions
from schemas.distributions import PredictionKind


class RowOptions(Protocol):
    """The options that identify the rows of a request."""

    @property
    def prediction_kind(self) -> PredictionKind: ...  # noqa: D102
    @property
    def batch(self) -> str | None: ...  # noqa: D102


class JobOptions(RowOptions, Protocol):
    """The options of a request that may become a job."""

    @property
    def keep_batch(self) -> bool: ...  # noqa: D102


#: Seconds that the rows of a job are stored if it is not queued, because the process of the request died before.
UNQUEUED_SECONDS = 600


def find_rows(requester: Scorer, arrays: Arrays, options: RowOptions, *, labelled: bool = True) -> Rows:
    """Check the rows of a request, or of the batch that it names; raises ``InvalidField``, ``UnknownBatch``, ``Busy``.

    If not ``labelled``, only the arrays to which a map is applied are read.
    """
    kind = kind_of(options.prediction_kind)
    if options.batch is None:
        reserve_work(requester, arrays)
        return kind.check(arrays, options, labelled=labelled)
    if arrays:
        raise InvalidField.at("/batch", "cannot be combined with arrays; send one of the two")
    take_slot_for(requester, options.batch)
    record, stored = requester.store.batches.arrays(options.batch)
    check_kind(record, kind.name)
    _check_shared(kind, record, vars(options))
    if not labelled:
        is_applied = {*kind.applied, *filter(CLASSIFICATION.is_feature, stored)}
        stored = {name: array for name, array in stored.items() if name in is_applied}
    return kind.check_stored(record, stored, options, labelled=labelled)


def rows_of_models(requester: Scorer, arrays: Arrays, options: RowOptions) -> dict[str, Rows]:
    """Check the rows of the models of a request by name; empty without models. Raises as ``find_rows``."""
    models = [name for name in arrays if CLASSIFICATION.is_model(name)]
    if not models:
        return {}
    if options.batch is not None or "predictions" in arrays:
        where = "/predictions" if options.batch is None else "/batch"
        raise InvalidField.at(where, "cannot be combined with models; labels are sent with them")
    reserve_work(requester, arrays)
    kind, rows = kind_of(options.prediction_kind), {}
    shared = {name: array for name, array in arrays.items() if name not in models}
    for field in models:
        try:
            checked = kind.check({"predictions": arrays[field], **shared}, options, labelled=True)
        except CalibrationError as error:
            raise error.about("predictions", field) from None
        rows[field.removeprefix(CLASSIFICATION.models).replace("~1", "/").replace("~0", "~")] = checked
    return rows


def reserve_work(requester: Scorer, arrays: Arrays) -> None:
    """Reserve the memory for the work on the rows of a request; raises ``Busy`` and ``TooLarge``."""
    requester.reserve(work_bytes(sum(array.size for array in arrays.values())))


def _check_shared(kind: Kind, record: BatchRecord, stated: Mapping[str, Any]) -> None:
    for name in kind.shared:
        if stated.get(name) not in (None, getattr(record, name)):
            raise InvalidField.at(f"/{name}", "must equal that of the batch")


def store_batch(requester: Requester, arrays: Arrays, options: BatchOptions | DistributionBatchOptions) -> BatchRecord:
    """Validate arrays, labels or outcomes optional, and store them; raises ``BatchFull`` and ``QuotaExceeded``."""
    ttl, longest = options.ttl, requester.settings.batch_ttl
    if ttl is not None and ttl > longest:
        raise InvalidField.at("/ttl", f"must be at most {longest}")
    reserve_work(requester, arrays)
    kind = kind_of(options.prediction_kind)
    return store_rows(requester, kind, kind.check(arrays, options, labelled=False), ttl)


def store_rows(requester: Requester, kind: Kind, rows: Rows, ttl: int | None = None, *, number: int = 0) -> BatchRecord:
    """Store checked rows as a batch, one of several with a ``number``; raises ``BatchFull`` and ``QuotaExceeded``."""
    most, stored = requester.settings.max_batch_rows, kind.stored(rows)
    if len(rows) > most:
        raise BatchFull(f"a batch may have at most {most} rows")
    record = record_of(requester.new_id("batch", number), kind, rows, stored)
    return requester.store.batches.put(record, stored, ttl=requester.settings.batch_ttl if ttl is None else ttl)


def batch_for_job(requester: Requester, rows: Rows, options: JobOptions) -> tuple[str, bool]:
    """The batch of a job, in which the rows of its request are stored, and whether it is deleted with the end of it."""
    if options.batch is not None:
        return options.batch, False
    ttl = None if options.keep_batch else UNQUEUED_SECONDS
    return store_rows(requester, kind_of(options.prediction_kind), rows, ttl).id, not options.keep_batch


def append_rows(
    requester: Requester, batch_id: str, arrays: Arrays, options: RowsOptions | DistributionRowsOptions
) -> BatchRecord:
    """Validate arrays and append them to a batch with the same arrays."""
    batches, most = requester.store.batches, requester.settings.max_batch_rows
    batch, kind = batches.record(batch_id), kind_of(options.prediction_kind)
    check_kind(batch, kind.name, "/prediction_kind")
    reserve_work(requester, arrays)
    _check_shared(kind, batch, vars(options))
    rows: Rows = kind.check_appended(batch, arrays, cast(Any, options))
    stored = kind.stored(rows)
    for name in sorted(set(stored) ^ set(batch.arrays)):
        raise InvalidField.at(
            f"/{name}", "is missing, but the batch has it" if name not in stored else "is not an array of the batch"
        )
    kind.check_same(batch, rows)
    record = record_of(batch_id, kind, rows, stored)
    return batches.append(batch_id, requester.new_id("part"), record, stored, most_rows=most)


def record_of(batch_id: str, kind: Kind, rows: Rows, stored: Arrays) -> BatchRecord:
    """The record of checked rows and the arrays that store them."""
    return BatchRecord(
        id=batch_id,
        prediction_kind=kind.name,
        n=len(rows),
        weights_kind=counted_kind(rows.weights_kind),
        arrays=list(stored),
        created_at=stamp(),
        expires_at="",
        **kind.described(rows),
    )
