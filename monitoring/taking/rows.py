"""The rows of a request, as arrays: whatever format they came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.batch import Integers
from calibrant.cells import Floats
from storage.monitors.strings import Ids

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """``refused (n,)`` is why a reader could not read a row, 0 where it could; what stands in such a row is ignored.

    ``ids`` are empty where a row has none. ``predictions`` are (n,) or (n, K), ``labels (n,)`` whole numbers as
    doubles, ``times (n,)`` seconds since 1970 with NaN for now, ``groups (n,)`` the place of a group's name in
    ``names``, -1 for none. ``numbers (n,)`` are the rows' places in the request.
    """

    refused: npt.NDArray[np.uint8]
    numbers: Integers
    ids: Ids | None = None
    predictions: Floats | None = None
    labels: Floats | None = None
    times: Floats | None = None
    groups: Integers | None = None
    names: Sequence[str] = ()

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.refused)

    def part(self, start: int, stop: int) -> Rows:
        """The rows from one to before another."""
        return self._of(slice(start, stop), None if self.ids is None else part_of(self.ids, start, stop))

    def taken(self, kept: Mask) -> Rows:
        """The rows where ``kept (n,)`` is true, in their order."""
        return self if kept.all() else self._of(kept, None if self.ids is None else self.ids.taken(kept))

    def moments(self, now: float) -> Floats:
        """The time of each row, ``(n,)``; now where it has none."""
        if self.times is None:
            return np.full(len(self), now)
        return np.where(np.isnan(self.times), now, self.times)

    def _of(self, chosen: slice | Mask, ids: Ids | None) -> Rows:
        return Rows(
            self.refused[chosen],
            self.numbers[chosen],
            ids,
            None if self.predictions is None else self.predictions[chosen],
            None if self.labels is None else self.labels[chosen],
            None if self.times is None else self.times[chosen],
            None if self.groups is None else self.groups[chosen],
            self.names,
        )


def together(parts: Sequence[Rows]) -> Rows:
    """The rows of several parts one behind the other, numbered anew; of none no rows."""
    if len(parts) == 1:
        return parts[0]
    n = sum(map(len, parts))
    place: dict[str, int] = {}
    for part in parts:
        for name in part.names:
            place.setdefault(name, len(place))
    return Rows(
        np.concatenate([np.zeros(0, np.uint8), *(part.refused for part in parts)]),
        np.arange(n),
        _all_ids(parts) if any(part.ids is not None for part in parts) else None,
        _all([part.predictions for part in parts], parts),
        _all([part.labels for part in parts], parts),
        _all([part.times for part in parts], parts),
        _all_groups(parts, place) if place else None,
        list(place),
    )


def _all(columns: Sequence[Floats | None], parts: Sequence[Rows]) -> Floats | None:
    """A column of all parts; NaN for the rows of those that lack it, and None if all do."""
    if all(column is None for column in columns):
        return None
    pairs = zip(columns, parts, strict=True)
    return np.concatenate([np.full(len(part), np.nan) if column is None else column for column, part in pairs])


def _all_ids(parts: Sequence[Rows]) -> Ids:
    lengths = [np.zeros(len(part), np.uint32) if part.ids is None else lengths_of(part.ids) for part in parts]
    text = b"".join(b"" if part.ids is None else part.ids.text for part in parts)
    return Ids(text, np.cumsum(np.concatenate(lengths), dtype=np.uint32))


def _all_groups(parts: Sequence[Rows], place: Mapping[str, int]) -> Integers:
    found = []
    for part in parts:
        places = np.array([*(place[name] for name in part.names), -1], dtype=np.int64)
        found.append(np.full(len(part), -1) if part.groups is None else places[part.groups])
    return np.concatenate(found)


def part_of(ids: Ids, start: int, stop: int) -> Ids:
    """The strings from one to before another."""
    begin = int(ids.ends[start - 1]) if start else 0
    ends = ids.ends[start:stop]
    return Ids(ids.text[begin : int(ends[-1]) if len(ends) else begin], ends - np.uint32(begin))


def lengths_of(ids: Ids) -> npt.NDArray[np.uint32]:
    """The bytes of each id."""
    return np.diff(ids.ends, prepend=np.uint32(0))


def first_places(ids: Ids) -> Integers:
    """For each id the place of the first that is the same."""
    met: dict[bytes, int] = {}
    return np.array([met.setdefault(one, i) for i, one in enumerate(ids.strings())], dtype=np.int64)
