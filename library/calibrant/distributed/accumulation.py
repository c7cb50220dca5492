"""Rows of a source as they arrive: all if they fit in memory, then counts of distinct predictions, then tallies.

Each form answers fewer questions than the one before, in memory that does not grow with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.core.arrays import NO_GROUP
from calibrant.core.batch import InputScale, Integers, Scale
from calibrant.core.cells import Floats, Outcomes, WeightsKind, row_keys
from calibrant.core.choices import SourceForm
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    SourceTooLarge,
    UnknownReduction,
    WrongShape,
)
from calibrant.core.reductions import Event, reduce, resolve_event
from calibrant.distributed.arrow import NO_ROWS, CheckedPart, Columns, RowCounter, checked_part
from calibrant.monitoring.event_tally import EventTally, check_groups, count
from calibrant.monitoring.tally import BEGINS, tally_of

if TYPE_CHECKING:
    import pyarrow as pa

#: The most that a prediction differs from the one that stands for it in a tally: the widest cell.
TOLERANCE = float(np.diff(BEGINS).max())
#: Bytes that the work on a row takes besides its numbers, and copies of these; entries of counts take the same.
_ROW_BYTES, _COPIES, _NUMBER_BYTES = 256, 4, 8
#: The default bound on memory in bytes, beside the interpreter and its packages.
MEMORY = 400 << 20
#: Entries of counts that are merged at once.
_WAITING_ENTRIES = 1 << 18

# --- Counts of distinct predictions


@dataclass(frozen=True)
class DistinctCounts:
    """Counts of the rows of one event by group, prediction and outcome, from which results are exact.

    ``keys (m,)`` are predictions on their own scale, ``y (m,)`` outcomes, ``members (m,)`` 0 or 1 plus the position in
    ``groups``, and ``rows (m,)`` numbers of rows. The other fields are those of ``EventTally``.
    """

    keys: Floats
    y: Outcomes
    members: Integers
    rows: Integers
    reduction: str
    scale: Scale
    n_classes: int | None
    groups: tuple[str, ...] = ()
    clipped: int = 0
    renormalised: int = 0

    def __len__(self) -> int:
        return int(self.rows.sum())

    def of_group(self, name: str) -> DistinctCounts:
        """Return the counts of one group."""
        return self._taken(np.flatnonzero(self.members == 1 + self.groups.index(name)))

    def event(self) -> Event:
        """Return the rows of all groups as a weighted event."""
        logit = self.keys if self.scale == "logit" else None
        p = self.keys if logit is None else expit(logit)
        decided = self.reduction == "confidence" or "top:" in self.reduction
        return Event(p, self.y, self.rows.astype(np.float64), decided=decided, logit=logit)

    def tally(self) -> EventTally:
        """Return the counts as a tally."""
        event = self.event()
        counts = tally_of(event.p, event.y, self.members if self.groups else None, None, self.rows)
        return EventTally(
            counts, self.reduction, self.scale, self.n_classes, self.groups, self.clipped, self.renormalised
        )

    def _taken(self, chosen: npt.NDArray[Any]) -> DistinctCounts:
        arrays = {name: getattr(self, name)[chosen] for name in ("keys", "y", "members", "rows")}
        return replace(self, **arrays)


def distinct_of(part: CheckedPart, reduction: str) -> DistinctCounts:
    """Count the checked rows of an event by group, prediction and outcome. O(n log n)."""
    batch = part.rows
    event = reduce(batch, reduction)
    counts = np.ones(len(event), np.int64) if batch.weights is None else batch.weights.astype(np.int64)
    members = np.zeros(len(event), np.int64) if part.members is None else part.members
    predictions = batch.predictions
    common = (
        reduction,
        predictions.scale,
        predictions.n_classes,
        tuple(part.names),
        predictions.clipped,
        predictions.renormalised,
    )
    if part.members is None and event.logit is None and batch.weights is None:
        keys = row_keys(event.p, event.y)  # sorted as integers, which is faster
        keys.sort()
        starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        number = np.float64 if keys.itemsize == 8 else np.float32
        p = (keys[starts] >> 1).view(number).astype(np.float64)
        rows = np.diff(np.append(starts, len(keys)))
        return DistinctCounts(p, (keys[starts] & 1).astype(np.int8), members[: len(p)], rows, *common)
    whole = DistinctCounts(event.key + 0.0, event.y, members, counts, *common)
    return _added([whole if counts.all() else whole._taken(np.flatnonzero(counts))])


def _added(parts: Sequence[DistinctCounts]) -> DistinctCounts:
    """Add up counts of one event. O(m log m)."""
    first, names = parts[0], sorted({name for part in parts for name in part.groups})
    check_groups(names)
    number = {name: 1 + i for i, name in enumerate(names)}
    of_part = [np.array([0, *(number[name] for name in part.groups)])[part.members] for part in parts]
    keys, y = np.concatenate([part.keys for part in parts]), np.concatenate([part.y for part in parts])
    members, rows = np.concatenate(of_part), np.concatenate([part.rows for part in parts])
    order = np.lexsort((y, keys, members)) if names else np.lexsort((y, keys))
    keys, y, members, rows = keys[order], y[order], members[order], rows[order]
    same = (keys[1:] == keys[:-1]) & (y[1:] == y[:-1]) & (members[1:] == members[:-1])
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    return replace(
        first,
        keys=keys[starts],
        y=y[starts],
        members=members[starts],
        rows=np.add.reduceat(rows, starts) if len(rows) else rows,
        groups=tuple(names),
        clipped=sum(part.clipped for part in parts),
        renormalised=sum(part.renormalised for part in parts),
    )


# --- Rows in memory


@dataclass(frozen=True)
class GatheredRows:
    """All rows of a source as arrays by field, as those of a request; ``names`` has the arrays of group names."""

    arrays: Mapping[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        return len(self.arrays["labels"])


class Accumulation:
    """Rows that are added batch by batch, in the first form that fits in ``memory`` bytes.

    ``needing`` names results that need all rows, if there are such.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        memory: int = MEMORY,
        kind: WeightsKind = "frequency",
        scale: InputScale = "probability",
        needing: str | None = None,
    ) -> None:
        self._columns, self._memory, self._kind, self._scale = columns, memory, kind, scale
        self._needing = needing
        self._parts: list[CheckedPart] = []
        self._counts: list[DistinctCounts] = []
        self._distinct: DistinctCounts | None = None
        self._waiting = 0
        self._counter: RowCounter | None = None
        self._reduction = ""
        self._n_classes: int | str | None = "unknown"
        self.form: SourceForm = "rows"
        self.n = 0

    def add(self, batch: pa.RecordBatch, keys: Mapping[str, str | None]) -> None:
        """Add rows; raises the errors of invalid rows, and ``SourceTooLarge`` if all are needed and do not fit."""
        if self._counter is not None:
            self._counter.add(batch, keys)
            self.n += batch.num_rows
            return
        part = checked_part(batch, self._columns, keys, self._kind, self._scale, NO_GROUP)
        self.n += batch.num_rows
        if part is None:
            return
        n_classes = part.rows.predictions.n_classes
        if self._n_classes not in ("unknown", n_classes):
            raise WrongShape.at("/predictions", "must have the same number of classes in all files")
        self._n_classes = n_classes
        self._parts.append(part)
        self._waiting += len(part.rows.labels)
        if self.form == "rows" and self._waiting > self._most(part):
            self._need_counts()
        if self.form == "distinct" and n_classes is not None:  # vectors, which are larger than their event
            self._counts += [distinct_of(waiting, self._reduction) for waiting in self._parts]
            self._parts = []
        entries = 0 if self._distinct is None else len(self._distinct.keys)
        if self.form == "distinct" and self._waiting > (max(_WAITING_ENTRIES, entries) if entries else self._entries):
            self._reduce()

    def result(self) -> GatheredRows | DistinctCounts | EventTally:
        """Return everything that was added; raises ``EmptyBatch`` if there is nothing."""
        if not (self._parts or self._distinct or self._counts or self._counter):
            raise EmptyBatch.at("/source", NO_ROWS)
        if self.form == "distinct":
            self._reduce()
        if self.form == "rows":
            return GatheredRows(dict(self._arrays()))
        tally = None if self._counter is None else self._counter.result()
        return self._distinct or tally  # type: ignore[return-value]

    def _most(self, part: CheckedPart) -> int:
        """Return the most rows, or entries of counts, that fit in memory."""
        numbers = 1 if part.predictions.ndim == 1 else part.predictions.shape[1]
        numbers += 1 + (part.weights is not None) + 4 * (part.members is not None)
        return self._memory // (_ROW_BYTES + _COPIES * _NUMBER_BYTES * numbers)

    def _arrays(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        yield "predictions", np.concatenate([part.predictions for part in self._parts])
        yield "labels", np.concatenate([part.labels for part in self._parts])
        if self._columns.weight is not None:
            weights = [part.weights for part in self._parts if part.weights is not None]
            yield "weights", np.concatenate(weights)
        if self._columns.group is not None:
            names = sorted({name for part in self._parts for name in part.names})
            codes = [
                np.array([0, *(1 + names.index(name) for name in part.names)])[part.members]
                for part in self._parts
                if part.members is not None
            ]
            texts: npt.NDArray[Any] = np.array([NO_GROUP, *names], dtype=np.object_)
            yield "groups", texts[np.concatenate(codes)]

    def _need_counts(self) -> None:
        """Turn to counts of distinct predictions; raises ``SourceTooLarge`` if they do not give the results."""
        first = self._parts[0]
        if self._needing is not None:
            raise self._too_large(self._needing, "select fewer with conditions")
        if first.weights is not None and self._kind == "importance":
            raise self._too_large("importance weights", "send whole-number weights as frequencies")
        try:
            self._reduction = resolve_event(self._columns.reduction, first.rows.predictions.n_classes)
        except UnknownReduction:
            what = f"results under {self._columns.reduction}"
            raise self._too_large(what, "name one event, such as class:1") from None
        self.form = "distinct"

    def _too_large(self, what: str, remedy: str) -> CalibrationError:
        megabytes = self._memory >> 20
        return SourceTooLarge(f"{what} need all rows, and the source has more than fit in {megabytes} MB; {remedy}")

    @property
    def _entries(self) -> int:
        """The most entries of counts that fit in memory."""
        return self._memory // (_ROW_BYTES + 2 * _COPIES * _NUMBER_BYTES)

    def _reduce(self) -> None:
        """Count the rows that wait; turn to a tally if there are more entries than fit."""
        if self._distinct is None and self._waiting > self._entries:
            parts = [reduce(part.rows, self._reduction).key for part in self._parts]
            keys = np.concatenate([*parts, *(counts.keys for counts in self._counts)])
            keys.sort()
            if np.count_nonzero(np.diff(keys)) >= self._entries:  # which is faster to see than to count
                self._tally([counts.tally() for counts in self._counts])
                return
        held = [] if self._distinct is None else [self._distinct]
        self._distinct = _added([*held, *self._counts, *(distinct_of(part, self._reduction) for part in self._parts)])
        self._parts, self._counts, self._waiting = [], [], 0
        if len(self._distinct.keys) > self._entries:
            self._tally([self._distinct.tally()])

    def _tally(self, tallies: Sequence[EventTally]) -> None:
        """Turn to a tally, of these rows and of those that wait."""
        self._counter = RowCounter(self._columns, scale=self._scale, missing=NO_GROUP)
        for part in self._parts:
            self._counter.merge(count(part.rows, self._reduction, names=part.names, members=part.members))
        for tally in tallies:
            self._counter.merge(tally)
        self.form, self._distinct, self._parts, self._counts = "tally", None, [], []
