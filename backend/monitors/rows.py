"""The rows of a request as arrays, and the reasons for refusing rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from backend.store.monitors.ids import NO_GROUP, OTHER, Ids
from calibrant.core.batch import SUM_ROUNDING, TOLERANCE, Integers, Scale, without_rounding
from calibrant.core.cells import Floats
from calibrant.core.choices import What as What

if TYPE_CHECKING:
    from backend.store.monitors.ledger import MonitorGroups
    from schemas.monitors import MonitorRecord

# --- The rows of a request as arrays, independent of their format

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class MonitorRows:
    """``refused (n,)`` is the reason why a reader refused a row, else 0; other values of a refused row are ignored.

    ``ids`` are empty for rows without one. ``predictions`` are (n,) or (n, K); if a reader refused rows without K
    numbers, (m, K) for the others, and ``places (n,)`` are indices into them, -1 for none: memory must follow what was
    sent, not n times K. ``labels (n,)`` are integers as doubles,
    ``times (n,)`` seconds since 1970 with NaN for now, ``groups (n,)`` indices into ``names``, -1 for none.
    ``numbers (n,)`` are the positions of the rows in the request. ``unknown`` has the first unknown field of refused
    rows, by index.
    """

    refused: npt.NDArray[np.uint8]
    numbers: Integers
    ids: Ids | None = None
    predictions: Floats | None = None
    labels: Floats | None = None
    times: Floats | None = None
    groups: Integers | None = None
    names: Sequence[str] = ()
    unknown: Mapping[int, str] = field(default_factory=dict)
    places: Integers | None = None

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.refused)

    def part(self, start: int, stop: int) -> MonitorRows:
        """The rows from ``start`` to before ``stop``."""
        return self._of(slice(start, stop), None if self.ids is None else part_of(self.ids, start, stop))

    def taken(self, chosen: Mask) -> MonitorRows:
        """The rows for which ``kept (n,)`` is true, in order."""
        return self if chosen.all() else self._of(chosen, None if self.ids is None else self.ids.taken(chosen))

    def moments(self, now: float) -> Floats:
        """The time of each row, ``(n,)``; ``now`` if it has none."""
        if self.times is None:
            return np.full(len(self), now)
        return np.where(np.isnan(self.times), now, self.times)

    def _of(self, chosen: slice | Mask, ids: Ids | None) -> MonitorRows:
        predictions, places = self.predictions, None
        if predictions is not None and self.places is not None:
            places = self.places[chosen]
            if (places >= 0).all():
                predictions, places = predictions[places], None
        elif predictions is not None:
            predictions = predictions[chosen]
        return MonitorRows(
            self.refused[chosen],
            self.numbers[chosen],
            ids,
            predictions,
            None if self.labels is None else self.labels[chosen],
            None if self.times is None else self.times[chosen],
            None if self.groups is None else self.groups[chosen],
            self.names,
            places=places,
        )


def together(parts: Sequence[MonitorRows]) -> MonitorRows:
    """The concatenated rows of several parts, renumbered."""
    if len(parts) == 1:
        return parts[0]
    n = sum(map(len, parts))
    place: dict[str, int] = {}
    for part in parts:
        for name in part.names:
            place.setdefault(name, len(place))
    predictions, places = _all_predictions(parts)
    return MonitorRows(
        np.concatenate([np.zeros(0, np.uint8), *(part.refused for part in parts)]),
        np.arange(n),
        _all_ids(parts) if any(part.ids is not None for part in parts) else None,
        predictions,
        _all([part.labels for part in parts], parts),
        _all([part.times for part in parts], parts),
        _all_groups(parts, place) if place else None,
        list(place),
        _all_unknown(parts),
        places,
    )


def _all_predictions(parts: Sequence[MonitorRows]) -> tuple[Floats | None, Integers | None]:
    """The predictions of all parts, and their places, if a part has places."""
    if all(part.places is None for part in parts):
        return _all([part.predictions for part in parts], parts), None
    predictions, places, m = [], [], 0
    for part in parts:
        if part.predictions is None:
            places.append(np.full(len(part), -1))
            continue
        own = np.arange(len(part)) if part.places is None else part.places
        places.append(np.where(own < 0, -1, own + m))
        predictions.append(part.predictions)
        m += len(part.predictions)
    return np.concatenate(predictions), np.concatenate(places)


def _all(columns: Sequence[Floats | None], parts: Sequence[MonitorRows]) -> Floats | None:
    """A column of all parts, NaN for parts without it; None if all parts lack it."""
    if all(column is None for column in columns):
        return None
    pairs = zip(columns, parts, strict=True)
    return np.concatenate([np.full(len(part), np.nan) if column is None else column for column, part in pairs])


def _all_ids(parts: Sequence[MonitorRows]) -> Ids:
    lengths = [np.zeros(len(part), np.uint32) if part.ids is None else lengths_of(part.ids) for part in parts]
    text = b"".join(b"" if part.ids is None else part.ids.text for part in parts)
    return Ids(text, np.cumsum(np.concatenate(lengths), dtype=np.uint32))


def _all_groups(parts: Sequence[MonitorRows], place: Mapping[str, int]) -> Integers:
    indices = []
    for part in parts:
        places = np.array([*(place[name] for name in part.names), -1], dtype=np.int64)
        indices.append(np.full(len(part), -1) if part.groups is None else places[part.groups])
    return np.concatenate(indices)


def _all_unknown(parts: Sequence[MonitorRows]) -> dict[int, str]:
    starts = accumulate(map(len, parts), initial=0)
    return {start + row: name for start, part in zip(starts, parts, strict=False) for row, name in part.unknown.items()}


def part_of(ids: Ids, start: int, stop: int) -> Ids:
    """The ids from ``start`` to before ``stop``."""
    begin = int(ids.ends[start - 1]) if start else 0
    ends = ids.ends[start:stop]
    return Ids(ids.text[begin : int(ends[-1]) if len(ends) else begin], ends - np.uint32(begin))


def lengths_of(ids: Ids) -> npt.NDArray[np.uint32]:
    """The number of bytes of each id."""
    return np.diff(ids.ends, prepend=np.uint32(0))


def first_places(ids: Ids) -> Integers:
    """For each id the index of its first occurrence."""
    met: dict[bytes, int] = {}
    return np.array([met.setdefault(row_id, i) for i, row_id in enumerate(ids.strings())], dtype=np.int64)


# --- Reasons for refusing a row: a stable code and a message, never the data

#: Maximum number of refused or contradicted rows that are listed.
MOST_NAMED = 20
#: Maximum length of an id and of a group name, in bytes of UTF-8.
MAX_ID_BYTES = MAX_GROUP_BYTES = 200


class Why(IntEnum):
    """A reason for refusing a row, which arrays of rows store as one byte each.

    ``code`` is stable, and ``detail`` continues "row 3 ...".
    """

    code: str
    detail: str

    def __new__(cls, value: int, code: str = "", detail: str = "") -> Why:
        """Create a member of the enumeration."""
        member = int.__new__(cls, value)
        member._value_, member.code, member.detail = value, code, detail
        return member

    FINE = 0
    UNREADABLE = (1, "unreadable", "is not a JSON object or event, has a key twice, or its data have an unknown form")
    UNKNOWN_FIELD = (
        2,
        "invalid-field",
        "has an unknown field; allowed are id, prediction, label, timestamp and group, as far as the call uses them",
    )
    NO_ID = (3, "missing-id", "has no id, which is needed to join predictions and labels")
    LONG_ID = (4, "invalid-id", f"has an id of more than {MAX_ID_BYTES} bytes")
    NO_PREDICTION = (5, "missing-prediction", "has no prediction")
    NOT_A_NUMBER = (6, "not-a-number", "has a prediction that is not numeric")
    NOT_FINITE = (7, "not-finite", "has a prediction that is not a finite number")
    OUT_OF_RANGE = (8, "out-of-range", "has a prediction outside [0, 1]; logits need a monitor with the scale logit")
    WRONG_SUM = (9, "out-of-range", "has a prediction that does not sum to 1")
    WRONG_SHAPE = (10, "wrong-shape", "has a prediction with another number of classes than the monitor")
    NO_LABEL = (11, "missing-label", "has no label")
    INVALID_LABEL = (12, "invalid-label", "has a label that is not an integer from 0 to the number of classes minus 1")
    INVALID_TIME = (13, "invalid-timestamp", "has a timestamp that is not RFC 3339 with an offset")
    FUTURE = (14, "from-the-future", "has a timestamp further in the future than the skew of the monitor")
    TOO_OLD = (
        15,
        "too-old",
        "has a timestamp older than the retention of the monitor; to count such rows, increase `retention`",
    )
    INVALID_GROUP = (16, "invalid-group", f"has a group that is not a string of at most {MAX_GROUP_BYTES} bytes")
    CONTRADICTED = (17, "contradicted", "has another label than the first one, which is kept")
    INVALID_ID = (18, "invalid-id", "has an id that is neither a string nor an integer of at most 64 bits")
    FORGOTTEN = (
        19,
        "too-old",
        "has an id and a timestamp older than the horizon of the monitor: the id may have expired; "
        "send such rows once, without ids, or to a monitor with a longer `horizon`",
    )
    RESERVED_GROUP = (20, "invalid-group", "has the group (other), which is reserved for groups beyond the limit")
    MILLISECONDS = (
        21,
        "from-the-future",
        "has a timestamp far in the future: is it in milliseconds instead of seconds?",
    )
    EMPTY_ID = (22, "missing-id", "has an empty id; omit the field or use null for a row without an id")
    FULL = (
        23,
        "monitor-full",
        "has an unknown id, and the monitor may store no more ids; send it again once its prediction is counted",
    )
    NO_OUTCOME = (24, "missing-label", "has no observed outcome")
    INVALID_OUTCOME = (25, "invalid-label", "has an observed outcome that is not a finite number")
    WRONG_FORECAST = (
        26,
        "wrong-shape",
        "has a forecast with another number of values than the forecasts of the monitor",
    )
    CROSSING = (27, "crossing-quantiles", "has quantiles, or bounds of an interval, that are not ascending")
    INVALID_VARIANCE = (28, "invalid-variance", "has a variance that is not above 0")
    NOT_A_SET = (29, "not-a-set", "has a prediction with other numbers than 1 and 0, whether the set has each class")


# --- Checks of individual rows: an invalid row is refused, the others are not affected
#
# The tolerances are those of ``calibrant.core.batch``, which rejects whole batches.

Whys = npt.NDArray[np.uint8]


def check_predictions(values: Floats, scale: Scale) -> tuple[Whys, Floats]:
    """The reason for refusing each of ``values (n,)`` or ``(n, K)``, and the values to count.

    Values within the tolerance are clipped and normalized, like in ``read_predictions``; those of refused rows become
    1/2, or 1/K. O(n K).
    """
    why = np.zeros(len(values), np.uint8)
    if not values.size:
        return why, values
    # NaN propagates through min and max, so two passes detect any invalid value.
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        why[_any(~np.isfinite(values))] = Why.NOT_FINITE
        values = _without(values, why)
    if scale == "logit":
        return why, values
    if not (low >= 0.0 and high <= 1.0):
        why[_any((values < -TOLERANCE) | (values > 1.0 + TOLERANCE))] = Why.OUT_OF_RANGE
        values = _without(np.clip(values, 0.0, 1.0), why)
    return (why, values) if values.ndim == 1 else _check_sums(values, why)


def _check_sums(values: Floats, why: Whys) -> tuple[Whys, Floats]:
    """Normalize rows whose sum is within the tolerance of 1; refuse the others."""
    sums = values @ np.ones(values.shape[1])
    near = (why == 0) & (np.abs(sums - 1.0) <= 0.005 * values.shape[1])  # as far as rounding to two decimals can be
    if (rounded := without_rounding(values[near]) if near.any() else None) is not None:
        values = values.copy()
        values[near] = rounded[0]
        sums = values @ np.ones(values.shape[1])
    away = np.abs(sums - 1.0)
    if away.max() <= SUM_ROUNDING:
        return why, values
    # Clipping a row of many classes may change its sum by more than the tolerance of a single number.
    wrong = (away > TOLERANCE) & (why == 0)
    why[wrong] = Why.WRONG_SUM
    values = _without(values, why)
    off = (away > SUM_ROUNDING) & (why == 0)
    values[off] /= sums[off, None]
    return why, values


def _any(cells: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether it is true for any number in a row."""
    return cells if cells.ndim == 1 else np.logical_or.reduce(cells, axis=1)


def _without(values: Floats, why: Whys) -> Floats:
    """A copy of the values with harmless values in refused rows."""
    harmless = values.copy()
    harmless[why != 0] = 0.5 if values.ndim == 1 else 1.0 / values.shape[1]
    return harmless


def check_labels(labels: Floats, n_classes: int) -> Whys:
    """The reason for refusing each label; integers from 0 to ``n_classes`` - 1 are valid."""
    with np.errstate(invalid="ignore"):
        wrong = ~((labels >= 0) & (labels < n_classes) & (labels == np.floor(labels)))
    return np.where(wrong, np.uint8(Why.INVALID_LABEL), np.uint8(0))


def check_times(times: Floats, now: float, *, skew: float, retention: float) -> Whys:
    """The reason for refusing each time, in seconds since 1970; NaN means none."""
    why = np.zeros(len(times), np.uint8)
    why[times > now + skew] = Why.FUTURE
    why[(times > now + skew) & (np.abs(times / 1000.0 - now) <= max(skew, retention))] = Why.MILLISECONDS
    why[times < now - retention] = Why.TOO_OLD
    return why


# --- Groups by name: the index for counting the rows of each group

#: Number of names per lookup.
_AT_ONCE = 1000


def group_indices(groups: MonitorGroups, codes: Integers | None, names: Sequence[str]) -> Integers | None:
    """The index of each row's group; ``codes (n,)`` are indices into ``names``, -1 for none, like an empty name.

    New groups get an index while the monitor has one left, in the order of their names in the request.
    """
    if codes is None:
        return None
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(names)))
    indices = np.full(len(names) + 1, NO_GROUP, dtype=np.int64)  # the last one is for -1
    for start in range(0, len(used), _AT_ONCE):
        named = [code for code in used[start : start + _AT_ONCE].tolist() if names[code]]
        indices[named] = groups.indices([names[code] for code in named])
    return indices[codes]


def reserved(codes: Integers, names: Sequence[str]) -> Mask:
    """Whether each row's group has the name that is reserved for groups beyond the limit."""
    return np.isin(codes, [code for code, name in enumerate(names) if name == OTHER])


# --- Screening: rows that are refused because of their own contents, before any lookup of ids


def screen(
    rows: MonitorRows, what: What, record: MonitorRecord, now: float, check_labels: Callable[[Floats], Whys]
) -> Whys:
    """The reason for refusing each row, 0 for none; does not check the predictions. O(n)."""
    why = rows.refused.copy()
    if what != "labels" and rows.predictions is None:
        _refuse(why, Why.NO_PREDICTION)
    if what != "predictions":
        if rows.labels is None:
            _refuse(why, Why.NO_LABEL)
        else:
            _refuse(why, check_labels(rows.labels))
    if rows.ids is not None:
        lengths = lengths_of(rows.ids)
        _refuse(why, np.where(lengths > MAX_ID_BYTES, np.uint8(Why.LONG_ID), np.uint8(0)))
        if what != "rows":
            _refuse(why, np.where(lengths == 0, np.uint8(Why.NO_ID), np.uint8(0)))
    elif what != "rows":
        _refuse(why, Why.NO_ID)
    if rows.groups is not None:
        _refuse(why, np.where(reserved(rows.groups, rows.names), np.uint8(Why.RESERVED_GROUP), np.uint8(0)))
    if rows.times is not None:
        _refuse(why, check_times(rows.times, now, skew=record.skew, retention=record.retention))
        if rows.ids is not None:
            old = (rows.times < now - record.horizon) & (lengths_of(rows.ids) > 0)
            _refuse(why, np.where(old, np.uint8(Why.FORGOTTEN), np.uint8(0)))
    return why


def _refuse(why: npt.NDArray[np.uint8], reasons: npt.NDArray[np.uint8] | int) -> None:
    """Refuse rows for further reasons; the first reason found is kept."""
    np.copyto(why, reasons, where=why == 0, casting="unsafe")
