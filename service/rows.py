"""The rows of a request: those it carries, or those of the batch that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from backend.store.clock import stamp
from backend.store.errors import BatchFull
from backend.telemetry.observed import note_rows
from calibrant.batch import Batch, Scale, check_weights, read_batch, read_labels, read_predictions
from calibrant.cells import WeightsKind
from calibrant.errors import LengthMismatch, WrongShape
from calibrant.io.bounds import LIGHT_BYTES
from schemas.batches import BatchOptions, BatchRecord, RowsOptions
from service.context import Context
from service.errors import InvalidField
from service.formats.payload import Payload

Arrays = Mapping[str, npt.NDArray[Any]]

_NUMBER_BYTES = 8
#: Names that become strings of Python at once.
_AT_ONCE = 1 << 16
#: Labels of at most so many classes are counted.
MOST_COUNTED = 1000


class RowOptions(Protocol):
    """The options by which a request names its rows."""

    @property
    def batch(self) -> str | None: ...  # noqa: D102
    @property
    def scale(self) -> Scale | None: ...  # noqa: D102


def find_arrays(here: Context, payload: Payload, options: RowOptions) -> tuple[Arrays, Scale, WeightsKind]:
    """The arrays of the request, or of its batch, with their scale and the kind of their weights; raises ``Busy``."""
    if options.batch is None:
        _note(payload.arrays)
        return payload.arrays, options.scale or "probability", _stated(options, "weights_kind") or "frequency"
    if payload.arrays:
        raise InvalidField.at("/batch", "stands in the place of the arrays; send one of the two")
    check_weight(here, options.batch)
    record, arrays = here.store.batches.arrays(options.batch)
    for name in ("scale", "weights_kind"):
        asked = _stated(options, name)
        if asked is not None and asked != getattr(record, name):
            raise InvalidField.at(f"/{name}", "differs from the batch's own")
    _note(arrays)
    return arrays, record.scale, record.weights_kind


def _stated(options: RowOptions, name: str) -> Any:
    """What the options say of the rows, if they have a field of that name; ``getattr`` is slow where they have none."""
    return vars(options).get(name)


def check_weight(here: Context, batch_id: str) -> None:
    """Take a place for a stored batch that is heavy as a body of its size would be; raises ``Busy``."""
    record = here.store.batches.record(batch_id)
    if record.n * ((record.n_classes or 1) + len(record.arrays) - 1) * _NUMBER_BYTES > LIGHT_BYTES:
        here.process.places.take(here.scope)


def _note(arrays: Arrays) -> None:
    if "predictions" in arrays:
        note_rows(arrays["predictions"].shape)


def labelled(arrays: Arrays, scale: Scale, kind: WeightsKind) -> tuple[Batch, Sequence[str] | None]:
    """Check predictions, labels, weights and groups; labels are needed."""
    for name in ("predictions", "labels"):
        if name not in arrays:
            raise InvalidField.at(f"/{name}", "is missing")
    batch = read_batch(arrays["predictions"], arrays["labels"], arrays.get("weights"), scale=scale, kind=kind)
    return batch, _groups(arrays, len(batch))


def _groups(arrays: Arrays, n: int) -> list[str] | None:
    groups = arrays.get("groups")
    if groups is None:
        return None
    _check_groups(groups, n)
    names: list[str] = []
    for start in range(0, n, _AT_ONCE):  # of all at once no other thread could run meanwhile
        names += groups[start : start + _AT_ONCE].tolist()
    return names


def _check_groups(groups: npt.NDArray[Any], n: int) -> None:
    if groups.ndim != 1:
        raise WrongShape.at("/groups", "must be (n,)")
    if len(groups) != n:
        raise LengthMismatch.at("/groups", f"has {len(groups)} rows where /predictions has {n}")


def store_arrays(here: Context, arrays: Arrays, options: BatchOptions) -> BatchRecord:
    """Check arrays, labels or not, and store them as a batch."""
    ttl = here.settings.batch_ttl if options.ttl is None else options.ttl
    if ttl > here.settings.batch_ttl:
        raise InvalidField.at("/ttl", f"may be at most {here.settings.batch_ttl}")
    record, kept = _checked(here.new_id("batch"), arrays, options.scale, options.weights_kind)
    most = here.settings.max_batch_rows
    if record.n > most:
        raise BatchFull(f"a batch may have at most {most} rows")
    return here.store.batches.put(record, kept, ttl=ttl)


def append_arrays(here: Context, batch_id: str, arrays: Arrays, options: RowsOptions) -> BatchRecord:
    """Check arrays and append them to a batch whose arrays they fit."""
    batches = here.store.batches
    batch = batches.record(batch_id)
    for name, own in (("scale", batch.scale), ("weights_kind", batch.weights_kind)):
        if getattr(options, name) not in (None, own):
            raise InvalidField.at(f"/{name}", "differs from the batch's own")
    rows, kept = _checked(batch_id, arrays, batch.scale, batch.weights_kind)
    for name in sorted(set(kept) ^ set(batch.arrays)):
        raise InvalidField.at(f"/{name}", "is missing: the batch has it" if name not in kept else "is not the batch's")
    if rows.n_classes != batch.n_classes:
        shape = "(n,)" if batch.n_classes is None else f"(n, {batch.n_classes})"
        raise WrongShape.at("/predictions", f"must be {shape}, as the batch's")
    return batches.append(batch_id, here.new_id("part"), rows, kept, most_rows=here.settings.max_batch_rows)


def _checked(
    batch_id: str, arrays: Arrays, scale: Scale, kind: WeightsKind
) -> tuple[BatchRecord, dict[str, npt.NDArray[Any]]]:
    """What is known of some rows before they are stored, and their arrays as they will be."""
    if "predictions" not in arrays:
        raise InvalidField.at("/predictions", "is missing")
    _note(arrays)
    read = read_predictions(arrays["predictions"], scale=scale)
    n_labels = 2 if read.n_classes is None else read.n_classes
    kept = {"predictions": np.asarray(arrays["predictions"])}
    counts = None
    if "labels" in arrays:
        kept["labels"] = read_labels(arrays["labels"], len(read), n_labels)
        counts = np.bincount(kept["labels"], minlength=n_labels).tolist() if n_labels <= MOST_COUNTED else None
    if "weights" in arrays:
        kept["weights"] = check_weights(arrays["weights"], len(read), kind)
    if "groups" in arrays:
        _check_groups(arrays["groups"], len(read))
        kept["groups"] = arrays["groups"]
    record = BatchRecord(
        id=batch_id,
        n=len(read),
        n_classes=read.n_classes,
        scale=scale,
        weights_kind=kind,
        arrays=list(kept),
        label_counts=counts,
        positive_rate=counts[1] / len(read) if counts is not None and read.n_classes is None else None,
        clipped=read.clipped,
        renormalised=read.renormalised,
        created_at=stamp(),
        expires_at="",
    )
    return record, kept
