"""The rows of a request: those it carries, or those of the batch that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from calibrant.batch import Batch, Scale, read_batch, read_labels, read_predictions, read_weights
from calibrant.cells import WeightsKind
from calibrant.errors import LengthMismatch, WrongShape
from schemas.batches import BatchOptions, BatchRecord
from service.context import Context
from service.errors import InvalidField
from service.formats.payload import Payload
from storage.clock import stamp
from storage.store import Store

Arrays = Mapping[str, npt.NDArray[Any]]


class RowOptions(Protocol):
    """The options by which a request names its rows."""

    @property
    def batch(self) -> str | None: ...  # noqa: D102
    @property
    def scale(self) -> Scale | None: ...  # noqa: D102


def find_arrays(store: Store, payload: Payload, options: RowOptions) -> tuple[Arrays, Scale, WeightsKind]:
    """The arrays of the request, or of its batch, with their scale and the kind of their weights."""
    if options.batch is None:
        return payload.arrays, options.scale or "probability", getattr(options, "weights_kind", None) or "frequency"
    if payload.arrays:
        raise InvalidField.at("/batch", "stands in the place of the arrays; send one of the two")
    record, arrays = store.batches.arrays(options.batch)
    for name in ("scale", "weights_kind"):
        asked = getattr(options, name, None)
        if asked is not None and asked != getattr(record, name):
            raise InvalidField.at(f"/{name}", "differs from the batch's own")
    return arrays, record.scale, record.weights_kind


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
    if groups.ndim != 1:
        raise WrongShape.at("/groups", "must be (n,)")
    if len(groups) != n:
        raise LengthMismatch.at("/groups", f"has {len(groups)} rows where /predictions has {n}")
    names: list[str] = groups.tolist()
    return names


def store_arrays(here: Context, arrays: Arrays, options: BatchOptions) -> BatchRecord:
    """Check arrays, labels or not, and store them as a batch."""
    if "predictions" not in arrays:
        raise InvalidField.at("/predictions", "is missing")
    read = read_predictions(arrays["predictions"], scale=options.scale)
    kept = {"predictions": np.asarray(arrays["predictions"])}
    if "labels" in arrays:
        read_labels(arrays["labels"], len(read), 2 if read.n_classes is None else read.n_classes)
        kept["labels"] = np.asarray(arrays["labels"])
    if "weights" in arrays:
        kept["weights"] = read_weights(arrays["weights"], len(read))
    if _groups(arrays, len(read)) is not None:
        kept["groups"] = arrays["groups"]
    record = BatchRecord(
        id=here.new_id("batch"),
        n=len(read),
        n_classes=read.n_classes,
        scale=options.scale,
        weights_kind=options.weights_kind,
        arrays=list(kept),
        clipped=read.clipped,
        renormalised=read.renormalised,
        created_at=stamp(),
        expires_at=stamp(after=here.settings.batch_ttl),
    )
    here.store.batches.put(record, kept, ttl=here.settings.batch_ttl)
    return record
