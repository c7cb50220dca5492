"""The kinds of predictions, classes and distributions, with the same use cases: rows, evaluations, fits and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy.typing as npt

from backend.requester import Scorer
from backend.store.clock import stamp
from calibrant.core.errors import PredictionKindMismatch
from calibrant.io.limits import LIGHT_BYTES, NUMBER_BYTES
from schemas.distributions import PredictionKind
from schemas.maps import MapRecord, Registration

if TYPE_CHECKING:
    from backend.kinds.classes import ClassPredictions
    from backend.kinds.distributions import Distributions
    from calibrant.kinds import FittedMap
    from schemas.batches import BatchRecord

#: A kind of predictions; both have the same use cases, for different types of options and rows.
Kind: TypeAlias = "ClassPredictions | Distributions"

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
#: Checked rows, of a type that differs by kind.
Rows = Any


@dataclass(frozen=True)
class Work:
    """A checked operation on rows: ``run`` returns its result, if it is ``inline`` in a request, else as a job.

    ``seconds`` is an estimate for ``n`` rows of ``size`` numbers in all. ``spec`` is that of the job, without a batch
    that stores the ``rows``, None if they are read one batch at a time. The job is split into ``pieces``, and with
    ``gpu`` it prefers a GPU.
    """

    spec: Any
    rows: Rows
    seconds: float
    n: int
    size: int
    run: Callable[[], Any]
    inline: bool = True
    pieces: int = 1
    gpu: bool = False


class Calibrated(NamedTuple):
    """The output of a map, or of a recalibration in the order of time: ``fields`` and ``arrays`` of an answer."""

    fields: dict[str, Any]
    arrays: dict[str, Any]


@cache
def kind_of(name: str) -> Kind:
    """The kind with this name; that of distributions is imported on first use."""
    module = {"classification": "classes", "regression": "distributions"}[name]
    return cast("Kind", import_module(f"{__name__}.{module}").KIND)


def check_kind(record: BatchRecord, kind: PredictionKind, pointer: str = "/batch") -> None:
    """Raise ``PredictionKindMismatch`` unless a batch is of this kind."""
    if record.prediction_kind != kind:
        raise PredictionKindMismatch.at(pointer, f"is a batch of {record.prediction_kind}, not of {kind}")


def record_of(map_id: str, fitted: FittedMap, registration: Registration, **own: Any) -> MapRecord:
    """The record of a map, which storing assigns its version; ``own`` fields are those of its kind and of its fit."""
    unknown = dict.fromkeys(("version", "reduction", "scale", "n_classes", "n", "seed"))
    of_fit = {"method": fitted.method, "options": {}, "created_at": stamp(), "document": fitted.to_document()}
    about = {"name": registration.name, "digest": fitted.training_digest, **registration.about()}
    return MapRecord.model_validate({"id": map_id, **unknown, **of_fit, **about, **own})


def take_slot_for(requester: Scorer, batch_id: str) -> None:
    """Reserve the memory for a stored batch, and take a slot if it is as large as a heavy body.

    Raises ``UnknownBatch``, ``Busy`` and ``TooLarge``.
    """
    record = requester.store.batches.record(batch_id)
    size = kind_of(record.prediction_kind).n_numbers(record)
    if size * NUMBER_BYTES > LIGHT_BYTES:
        requester.take_slot()
    requester.reserve(stored_bytes(size))


# --- The memory that use cases reserve for rows; tests/unit/test_work_copies.py compares it with what they take

#: Copies of the rows as doubles: of checking and storing them or applying a map, of reading a stored batch, and of an
#: evaluation or fit besides its events.
_WORK_COPIES, _READ_COPIES, _EVENT_COPIES = 5, 3, 3
#: The most bytes of an evaluation or fit for each row: its event, in several orders and on several scales.
_ROW_BYTES = 256
#: The most bytes for simulated and resampled rows, which are made in blocks, and those for each row.
_SIMULATED_BYTES, _SIMULATED_ROW_BYTES = 64 << 20, 8 << 10


def work_bytes(size: int) -> int:
    """The most bytes for checking, storing or calibrating rows of ``size`` numbers in all."""
    return _WORK_COPIES * NUMBER_BYTES * size


def stored_bytes(size: int) -> int:
    """The most bytes for reading a stored batch of ``size`` numbers, and for such work on it."""
    return _READ_COPIES * NUMBER_BYTES * size + work_bytes(size)


def inline_bytes(n: int, size: int) -> int:
    """The most bytes for evaluating, or fitting to, ``n`` rows of ``size`` numbers in all."""
    return _EVENT_COPIES * NUMBER_BYTES * size + _ROW_BYTES * n + min(_SIMULATED_BYTES, _SIMULATED_ROW_BYTES * n)
