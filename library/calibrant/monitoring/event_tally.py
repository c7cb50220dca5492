"""Tallies of one event: counted from rows, merged, and what one map gains on another."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from calibrant.batch import Batch, Integers, Scale, read_batch
from calibrant.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidDocument,
    InvalidOption,
    InvalidWeight,
    LengthMismatch,
    NotANumber,
    TooFewRows,
    WrongShape,
)
from calibrant.evaluation import MAX_GROUPS, MAX_NAME
from calibrant.maps.curves import Curve
from calibrant.measures.improvement import improvement
from calibrant.monitoring.tally import CELLS, FOLDS, Tally, from_bytes, merged, tally_of
from calibrant.reductions import Event, reduce, resolve_event

# --- A tally with its event, the scale of its predictions and the names of its groups

#: How an event tally begins as bytes; the length of its heading follows, as four bytes, the heading as JSON, the tally.
_BEGIN = b"E1"
_PER_GROUP = 2 * CELLS * FOLDS


@dataclass(frozen=True)
class EventTally:
    """The rows of one event, counted: as small whatever their number, and added to others by ``merge``.

    ``reduction`` names the event; ``scale`` and ``n_classes`` (None for 1-D) say what predictions it was reduced from.
    ``groups`` are the names of the tally's groups 1, 2, ..., in order; its group 0 are the rows without one.
    ``clipped`` and ``renormalised`` rows were mended within the tolerance.
    """

    tally: Tally
    reduction: str
    scale: Scale = "probability"
    n_classes: int | None = None
    groups: tuple[str, ...] = ()
    clipped: int = 0
    renormalised: int = 0

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.tally)

    def of_group(self, name: str) -> EventTally:
        """The rows of one group; raises ``InvalidOption`` where it is not there."""
        if name not in self.groups:
            raise InvalidOption.at("/group", "is not among the groups of this tally")
        return replace(self, tally=self.tally.of_group(1 + self.groups.index(name)))

    def of_folds(self, folds: Iterable[int]) -> EventTally:
        """The rows of some folds."""
        return replace(self, tally=self.tally.of_folds(folds))

    def event(self) -> Event:
        """The rows as a weighted event, of all groups and folds. Raises ``EmptyBatch`` where there is none."""
        return replace(self.tally.event(), decided=self.reduction == "confidence" or "top:" in self.reduction)

    def to_bytes(self) -> bytes:
        """The tally as bytes, small and the same on every machine: what partitions send to where they are merged."""
        heading = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "tally"}
        encoded = json.dumps(heading, ensure_ascii=False).encode()
        return _BEGIN + len(encoded).to_bytes(4, "little") + encoded + self.tally.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> EventTally:
        """Read what ``to_bytes`` wrote; raises ``InvalidDocument`` for anything else."""
        size = int.from_bytes(data[2:6], "little")
        try:
            if data[:2] != _BEGIN:
                raise ValueError
            heading = json.loads(data[6 : 6 + size])
            found = cls(from_bytes(data[6 + size :]), **_read_heading(heading))
        except (ValueError, TypeError, CalibrationError):
            raise InvalidDocument("the bytes are no event tally that this version reads") from None
        if len(found.tally.keys) and int(found.tally.keys[-1]) // _PER_GROUP > len(found.groups):
            raise InvalidDocument("the tally has rows of more groups than it names")
        return found


def _read_heading(heading: Mapping[str, Any]) -> dict[str, Any]:
    n_classes, groups, counts = heading["n_classes"], heading["groups"], (heading["clipped"], heading["renormalised"])
    if heading["scale"] not in get_args(Scale) or not (n_classes is None or type(n_classes) is int):
        raise ValueError
    if not isinstance(groups, list) or not all(isinstance(name, str) for name in groups):
        raise ValueError
    if not all(type(count) is int for count in counts):
        raise ValueError
    resolve_event(heading["reduction"], n_classes)
    return {**heading, "groups": tuple(groups)}


def merge(tallies: Iterable[EventTally]) -> EventTally:
    """The tally of all rows of some, whatever machines counted them and whatever groups each of them met.

    Parameters
    ----------
    tallies : of one event, reduced from predictions of one scale and K; at least one

    Raises
    ------
    CalibrationError
        ``EmptyBatch`` where there is none, ``InvalidOption`` where they are not of one event or have too many groups

    Examples
    --------
    >>> import calibrant
    >>> parts = [calibrant.tally([0.1, 0.8], [0, 1]), calibrant.tally([0.6], [1])]
    >>> len(calibrant.merge(parts))
    3
    """
    parts = list(tallies)
    if not parts:
        raise EmptyBatch.at("/tallies", "has no tally")
    first = parts[0]
    for i, part in enumerate(parts):
        if (part.reduction, part.scale, part.n_classes) != (first.reduction, first.scale, first.n_classes):
            raise InvalidOption.at(f"/tallies/{i}", "must be of the same reduction, scale and K as the first")
    names = sorted({name for part in parts for name in part.groups})
    check_groups(names)
    return replace(
        first,
        tally=merged([_renumbered(part, names) for part in parts]),
        groups=tuple(names),
        clipped=sum(part.clipped for part in parts),
        renormalised=sum(part.renormalised for part in parts),
    )


def check_groups(names: list[str]) -> None:
    """Refuse more groups, or longer names, than an evaluation takes."""
    if len(names) > MAX_GROUPS:
        raise InvalidOption.at("/groups", f"must name at most {MAX_GROUPS} groups")
    if any(len(name) > MAX_NAME for name in names):
        raise InvalidOption.at("/groups", f"must be names of at most {MAX_NAME} characters")


def _renumbered(part: EventTally, names: list[str]) -> Tally:
    """The tally with its groups numbered as their places in ``names`` say."""
    if part.groups == tuple(names):
        return part.tally
    place = {name: 1 + i for i, name in enumerate(names)}
    number = np.array([0, *(place[name] for name in part.groups)], dtype=np.uint32)
    keys = number[part.tally.keys // _PER_GROUP] * np.uint32(_PER_GROUP) + part.tally.keys % np.uint32(_PER_GROUP)
    order = np.argsort(keys)
    return Tally(keys[order], part.tally.rows[order], part.tally.p_sum[order])


# --- Counting rows


def tally(
    predictions: Any,
    labels: Any,
    *,
    reduction: str | None = None,
    weights: Any = None,
    groups: Sequence[str | None] | None = None,
    folds: Any = None,
    scale: Scale = "probability",
) -> EventTally:
    """Count the rows of one partition of data that is larger than memory, or than one machine.

    Tallies of partitions are added up by ``merge``, measured by ``evaluate_tally``, and maps are fitted to them by
    ``fit_tally``. A tally is at most 2 x 2,048 cells for each group and fold, whatever the number of rows.

    Parameters
    ----------
    predictions : (n,) P(Y=1), or (n, K) by class; probabilities or logits, as ``scale`` says
    labels : (n,) integers, 0 or 1, or 0 to K - 1
    reduction : the event that is counted: ``binary`` (default for 1-D), ``confidence`` (default for (n, K)),
        ``class:k``, ``top:r`` or ``within-top:r``
    weights : (n,) whole numbers, at least 0: a weight of 2 is the row twice
    groups : (n,) names, or None for rows of no group
    folds : (n,) integers from 0 to 4, so that a map can be fitted to some folds and measured on the others

    Returns
    -------
    EventTally

    Raises
    ------
    CalibrationError
        of the first thing wrong with the arguments

    Notes
    -----
    Predictions are reduced to one event before they are counted, so that what needs the whole vector is not found in a
    tally. Other weights than whole ones are refused, since rows are what is counted. O(n log n + n K).

    Examples
    --------
    >>> import calibrant
    >>> counted = calibrant.tally([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1])
    >>> round(calibrant.evaluate_tally(counted, measures=["ks"]).measures["ks"].value, 3)
    0.25
    """
    batch = read_batch(predictions, labels, weights, scale=scale)
    names, members = _numbered(groups, len(batch))
    return count(batch, reduction, names=names, members=members, folds=read_folds(folds, len(batch)))


def count(
    batch: Batch,
    reduction: str | None,
    *,
    names: Sequence[str] = (),
    members: Integers | None = None,
    folds: Integers | None = None,
) -> EventTally:
    """The tally of a checked batch; ``members (n,)`` are 0, or 1 more than the place of the group among ``names``."""
    given = batch.predictions
    name = resolve_event(reduction, given.n_classes)
    counts = None if batch.weights is None else _whole(batch.weights)
    event = reduce(batch, name)
    if counts is not None and not counts.all():  # rows of weight 0 are in no cell
        kept = np.flatnonzero(counts)
        event, counts = event.rows(kept), counts[kept]
        members, folds = (None if of is None else of[kept] for of in (members, folds))
    found = tally_of(event.p, event.y, members, folds, counts)
    return EventTally(found, name, given.scale, given.n_classes, tuple(names), given.clipped, given.renormalised)


def read_folds(folds: Any, n: int) -> Integers | None:
    """Check the folds of ``n`` rows."""
    if folds is None:
        return None
    raw: npt.NDArray[Any] = np.asarray(folds)
    if raw.ndim != 1 or len(raw) != n:
        raise LengthMismatch.at("/folds", f"must be one for each of the {n} rows of /predictions")
    if raw.dtype.kind not in "iuf":
        raise NotANumber.at("/folds", "must hold numbers only")
    odd = np.flatnonzero(~((raw >= 0) & (raw < FOLDS) & (raw == np.floor(raw))))  # NaN among them
    if len(odd):
        raise InvalidOption.at(f"/folds/{odd[0]}", f"is not an integer from 0 to {FOLDS - 1}")
    return raw.astype(np.int64)


def _whole(weights: npt.NDArray[np.float64]) -> Integers:
    counts = weights.astype(np.int64)
    broken = np.flatnonzero(counts != weights)
    if len(broken):
        raise InvalidWeight.at(f"/weights/{broken[0]}", "is not a whole number, and a tally counts rows")
    return counts


def _numbered(groups: Sequence[str | None] | None, n: int) -> tuple[list[str], Integers | None]:
    """The names that there are, in order, and the number of each row's."""
    if groups is None:
        return [], None
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise WrongShape.at("/groups", "must be an array of names")
    if len(groups) != n:
        raise LengthMismatch.at("/groups", f"has {len(groups)} rows where /predictions has {n}")
    for i, name in enumerate(groups):
        if not (name is None or isinstance(name, str)):
            raise InvalidOption.at(f"/groups/{i}", "must be a name or null")
    names = sorted({str(name) for name in groups if name is not None})
    check_groups(names)
    number: dict[str | None, int] = {None: 0} | {name: 1 + i for i, name in enumerate(names)}
    return names, np.fromiter((number[name] for name in groups), np.int64, n)


# --- The gain of one map over another on the same rows


@dataclass(frozen=True)
class Gain:
    """Mean log loss of the champion less that of the challenger, in nats a row, and an interval of it.

    Above 0 the challenger is the better one. ``rows`` is how many it was computed from.
    """

    value: float
    low: float
    high: float
    rows: int


def gain(tally: Tally, champion: Curve | None, challenger: Curve, level: float) -> Gain:
    """The gain of one curve over another, None for the predictions as they are, on rows that neither has seen.

    The interval is that of a mean of paired differences, one a row (Student 1908), of this two-sided ``level`` in
    (0, 1). Each row counts with the mean prediction of its cell. Raises ``TooFewRows`` for less than two. O(cells).
    """
    event, rows = tally.pooled().event(), len(tally)
    if rows < 2:
        raise TooFewRows("a comparison needs more than one row")
    value, influence = improvement(_mapped(event, champion), _mapped(event, challenger), "log-loss")
    variance = float(event.w @ influence**2) / (rows - 1) if event.w is not None else 0.0
    reach = float(stdtrit(rows - 1, (1.0 + level) / 2.0)) * math.sqrt(variance / rows)
    return Gain(value, value - reach, value + reach, rows)


def _mapped(event: Event, curve: Curve | None) -> Event:
    return event if curve is None else Event(np.clip(curve(event.p), 0.0, 1.0), event.y, event.w)
