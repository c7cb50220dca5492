"""The kinds of predictions, classes and distributions, with the same use cases: rows, evaluations, fits and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import numpy.typing as npt

from backend.memory import stored_bytes
from backend.requester import Requester
from calibrant.core.errors import PredictionKindMismatch
from calibrant.io.limits import LIGHT_BYTES, NUMBER_BYTES
from schemas.distributions import PredictionKind

if TYPE_CHECKING:
    from backend.held_maps import HeldMap
    from backend.store.jobs.runs import Run
    from backend.store.store import Store
    from calibrant.core.progress import Progress
    from schemas.batches import BatchRecord
    from schemas.evaluate import EvaluateDistributionSpec, EvaluateSpec
    from schemas.maps import ImportOptions, MapRecord

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
#: Checked rows, options and specs are of types that differ by kind.
Rows = Any
Options = Any
#: What an operation returns for rows.
Made = TypeVar("Made", covariant=True)


@dataclass(frozen=True)
class Work:
    """A checked operation on rows: ``run`` returns its result, if it is ``inline`` in a request, else as a job.

    ``seconds`` is an estimate for ``n`` rows of ``size`` numbers in all. ``spec`` is that of the job, without a batch
    that stores the ``rows``; the job is split into ``pieces``, and with ``gpu`` it prefers a GPU.
    """

    spec: Any
    rows: Rows | None
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


class Operation(Protocol[Made]):
    """An operation whose options were checked, but not yet the rows."""

    @property
    def options(self) -> Options:
        """The options that identify the rows, with defaults of the maps that it uses."""

    def on(self, requester: Requester, rows: Rows) -> Made:
        """Check the rows, and return the work on them, or the calibrated predictions."""


class Kind(Protocol):
    """One kind of predictions; both kinds implement the same use cases."""

    #: The value of ``prediction_kind``.
    name: PredictionKind
    #: Arrays to which maps are applied.
    applied: tuple[str, ...]
    #: The stored spec of an evaluation job.
    spec: type[EvaluateSpec | EvaluateDistributionSpec]
    #: Options of rows that must equal those of the batch they are used with.
    shared: tuple[str, ...]

    def check(self, arrays: Arrays, options: Options, *, labelled: bool) -> Rows:
        """Check the arrays of a request; raises a ``CalibrationError`` that names the field."""

    def check_stored(self, record: BatchRecord, arrays: Arrays, options: Options = None, *, labelled: bool) -> Rows:
        """Check the arrays of a stored batch."""

    def check_appended(self, record: BatchRecord, arrays: Arrays, options: Options) -> Rows:
        """Check arrays that are appended to a batch."""

    def check_same(self, record: BatchRecord, rows: Rows) -> None:
        """Raise an error unless checked rows have the shape of those of the batch to which they are appended."""

    def stored(self, rows: Rows) -> dict[str, Array]:
        """The arrays that store checked rows."""

    def described(self, rows: Rows) -> dict[str, Any]:
        """The fields of the record of a batch that depend on the kind."""

    def n_numbers(self, record: BatchRecord) -> int:
        """How many numbers a stored batch has."""

    def evaluation(self, requester: Requester, options: Options, *, report: bool) -> Operation[Work]:
        """Check the options of an evaluation, or of a full report."""

    def run_evaluation(self, store: Store, spec: dict[str, Any], device: str, /) -> Callable[[], dict[str, Any]]:
        """Read the rows and maps of an evaluation job; the returned function evaluates them."""

    def report_options(self, spec: Any, report: dict[str, Any], batch: BatchRecord | None, /) -> dict[str, Any]:
        """The options that reproduce a full report; ``batch`` is None if it is gone."""

    def fit(self, requester: Requester, options: Options, /) -> Operation[Work]:
        """Check the options of a fit."""

    def run_fit(self, store: Store, run: Run, device: str, progress: Progress, /) -> MapRecord | None:
        """Run a fit job, or one part of it, for which it returns None."""

    def calibration(self, held: HeldMap, options: Options) -> Operation[Calibrated]:
        """Check the options of applying a map."""

    def imported(self, map_id: str, options: ImportOptions, fitted: Any, who: str | None) -> MapRecord:
        """The record of a map that ``who`` imports."""


def kind_of(name: str) -> Kind:
    """The kind with this name; that of distributions is imported on first use."""
    module = {"classification": "classes", "regression": "distributions"}[name]
    return cast(Kind, import_module(f"{__name__}.{module}").KIND)


def check_kind(record: BatchRecord, kind: PredictionKind, pointer: str = "/batch") -> None:
    """Raise ``PredictionKindMismatch`` unless a batch is of this kind."""
    if record.prediction_kind != kind:
        raise PredictionKindMismatch.at(pointer, f"is a batch of {record.prediction_kind}, not of {kind}")


def take_slot_for(requester: Requester, batch_id: str) -> None:
    """Reserve the memory for a stored batch, and take a slot if it is as large as a heavy body.

    Raises ``UnknownBatch``, ``Busy`` and ``TooLarge``.
    """
    record = requester.store.batches.record(batch_id)
    size = kind_of(record.prediction_kind).n_numbers(record)
    if size * NUMBER_BYTES > LIGHT_BYTES:
        requester.take_slot()
    requester.reserve(stored_bytes(size))
