"""Tallies of one event: counting, merging, and the gain of one map over another."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from calibrant.core.arguments import explained
from calibrant.core.arrays import check_aligned, group_names
from calibrant.core.batch import MAX_NAME, Batch, Integers, Scale
from calibrant.core.cells import Floats
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidDocument,
    InvalidOption,
    LengthMismatch,
    NotANumber,
    TooFewRows,
    WrongShape,
)
from calibrant.core.groups import MAX_GROUPS
from calibrant.core.inputs import read_rows, reduction_by_name
from calibrant.core.options import plain
from calibrant.core.reductions import Event, reduce, resolve_event
from calibrant.core.results import counted, n_rows
from calibrant.maps.curves import Curve
from calibrant.measures.improvement import improvement
from calibrant.monitoring.tally import CELLS, FOLDS, Tally, from_bytes, merged, tally_of

# --- A tally with its event, the scale of its predictions and the names of its groups

#: First bytes of a serialised event tally; then the length of the heading (4 bytes), the heading as JSON, the tally.
_BEGIN = b"E1"
_PER_GROUP = 2 * CELLS * FOLDS


@dataclass(frozen=True, repr=False)
class EventTally:
    """Counts of the rows of one event, of a size that does not grow with the number of rows.

    ``tally`` creates them and ``merge`` adds them up; the constructor is not meant to be called directly.

    Parameters
    ----------
    tally : Tally
        Number of rows and sum of predictions by group, fold, cell and outcome.
    reduction : str
        Event that was counted.
    scale : {"probability", "logit"}, default "probability"
        Scale of the predictions.
    n_classes : int, optional
        Number of classes K; None for predictions of shape (n,).
    groups : tuple of str, default ()
        Names of groups 1, 2, ... of ``tally``; its group 0 holds the rows without a group.
    clipped, renormalised : int, default 0
        Rows with probabilities slightly outside [0, 1] that were clipped, and rows that were divided by their sum.

    See Also
    --------
    tally : Counts rows.
    merge : Adds up tallies.
    evaluate_tally : Evaluates a tally.

    Examples
    --------
    >>> import calibrant
    >>> counted = calibrant.tally([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], groups=["a", "b", "a", "b"])
    >>> len(counted), counted.reduction, counted.groups
    (4, 'binary', ('a', 'b'))
    """

    tally: Tally
    reduction: str
    scale: Scale = "probability"
    n_classes: int | None = None
    groups: tuple[str, ...] = ()
    clipped: int = 0
    renormalised: int = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.tally)

    def __repr__(self) -> str:
        groups = f", {counted(len(self.groups), 'group')}" if self.groups else ""
        return f"EventTally: {n_rows(len(self))}, reduction {self.reduction}{groups}"

    def of_group(self, name: str) -> EventTally:
        """Return the tally of one group.

        Parameters
        ----------
        name : str
            Name of the group.

        Returns
        -------
        EventTally
            Tally of the rows of the group.

        Raises
        ------
        InvalidOption
            If the tally has no such group.

        See Also
        --------
        of_folds : Returns the tally of some folds.

        Examples
        --------
        >>> import calibrant
        >>> counted = calibrant.tally([0.1, 0.4, 0.6], [0, 1, 1], groups=["a", "b", "a"])
        >>> len(counted.of_group("a"))
        2
        """
        if name not in self.groups:
            raise InvalidOption.at("/group", "is not a group of this tally")
        return replace(self, tally=self.tally.of_group(1 + self.groups.index(name)))

    def of_folds(self, folds: Iterable[int]) -> EventTally:
        """Return the tally of some folds.

        Parameters
        ----------
        folds : iterable of int
            Folds from 0 to 4.

        Returns
        -------
        EventTally
            Tally of the rows of these folds.

        Raises
        ------
        InvalidOption
            If there is no such fold.

        See Also
        --------
        of_group : Returns the tally of one group.

        Examples
        --------
        >>> import calibrant
        >>> counted = calibrant.tally([0.1, 0.4, 0.6], [0, 1, 1], folds=[0, 1, 2])
        >>> len(counted.of_folds([0, 1]))
        2
        """
        chosen = [plain(fold) for fold in folds] if isinstance(folds, Iterable) else [None]
        if not all(type(fold) is int and 0 <= fold < FOLDS for fold in chosen):
            raise InvalidOption.at("/folds", f"must be a sequence of integers from 0 to {FOLDS - 1}")
        return replace(self, tally=self.tally.of_folds(chosen))

    def event(self) -> Event:
        """Return the rows of all groups and folds as a weighted event.

        Returns
        -------
        Event
            One row for each cell and outcome, weighted by its count.

        Raises
        ------
        EmptyBatch
            If the tally has no rows.

        See Also
        --------
        evaluate_tally : Evaluates a tally.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.tally([0.25, 0.25, 0.75], [0, 0, 1]).event().w.tolist()
        [2.0, 1.0]
        """
        return replace(self.tally.event(), decided=self.reduction == "confidence" or "top:" in self.reduction)

    def to_bytes(self) -> bytes:
        """Serialise the tally; the bytes are the same on every machine.

        Returns
        -------
        bytes
            Header, metadata as JSON, and counts with a checksum.

        See Also
        --------
        from_bytes : Reads the bytes.

        Examples
        --------
        >>> import calibrant
        >>> data = calibrant.tally([0.1, 0.4], [0, 1]).to_bytes()
        >>> len(calibrant.EventTally.from_bytes(data))
        2
        """
        heading = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "tally"}
        encoded = json.dumps(heading, ensure_ascii=False).encode()
        return _BEGIN + len(encoded).to_bytes(4, "little") + encoded + self.tally.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> EventTally:
        """Read a serialised tally.

        Parameters
        ----------
        data : bytes
            Result of ``to_bytes``.

        Returns
        -------
        EventTally
            The tally.

        Raises
        ------
        InvalidDocument
            If the bytes are not a tally of a format that this version reads.

        See Also
        --------
        to_bytes : Serialises the tally.

        Examples
        --------
        >>> import calibrant
        >>> data = calibrant.tally([0.1, 0.4], [0, 1]).to_bytes()
        >>> calibrant.EventTally.from_bytes(data).reduction
        'binary'
        """
        size = int.from_bytes(data[2:6], "little")
        try:
            if data[:2] != _BEGIN:
                raise ValueError
            heading = json.loads(data[6 : 6 + size])
            read = cls(from_bytes(data[6 + size :]), **_read_heading(heading))
        except (ValueError, TypeError, CalibrationError):
            raise InvalidDocument("the bytes are not an event tally of a format that this version reads") from None
        if len(read.tally.keys) and int(read.tally.keys[-1]) // _PER_GROUP > len(read.groups):
            raise InvalidDocument("the tally has rows of more groups than it names")
        return read


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


@explained
def merge(tallies: Iterable[EventTally]) -> EventTally:
    """Add up tallies of one event.

    Parameters
    ----------
    tallies : iterable of EventTally
        At least one tally; all must have the same reduction, scale and number of classes. Their groups may differ.

    Returns
    -------
    EventTally
        Tally of all rows.

    Raises
    ------
    CalibrationError
        If there is no tally (``EmptyBatch``), or they do not match or have too many groups (``InvalidOption``).

    See Also
    --------
    tally : Counts the rows of a partition.

    Notes
    -----
    O(sum of the cells).

    Examples
    --------
    >>> import calibrant
    >>> parts = [calibrant.tally([0.1, 0.8], [0, 1]), calibrant.tally([0.6], [1])]
    >>> len(calibrant.merge(parts))
    3
    """
    parts = check_tallies(tallies, "/tallies")
    if not parts:
        raise EmptyBatch.at("/tallies", "must contain at least one tally")
    first = parts[0]
    for i, part in enumerate(parts):
        if (part.reduction, part.scale, part.n_classes) != (first.reduction, first.scale, first.n_classes):
            raise InvalidOption.at(
                f"/tallies/{i}", "must have the same reduction, scale and number of classes as the first"
            )
    names = sorted({name for part in parts for name in part.groups})
    check_groups(names)
    return replace(
        first,
        tally=merged([renumbered(part.tally, part.groups, names) for part in parts]),
        groups=tuple(names),
        clipped=sum(part.clipped for part in parts),
        renormalised=sum(part.renormalised for part in parts),
    )


def check_tally(tally: object, pointer: str = "/tally") -> None:
    """Raise ``InvalidOption`` if this is not an ``EventTally``."""
    if not isinstance(tally, EventTally):
        swapped = isinstance(tally, str) and pointer == "/tally"
        order = "; it is the first argument, and the method the second" if swapped else ""
        raise InvalidOption.at(pointer, f"must be an EventTally, as returned by calibrant.tally{order}")


def check_tallies(tallies: Iterable[EventTally], pointer: str) -> list[EventTally]:
    """Return the tallies as a list; raise ``InvalidOption`` for anything else."""
    if not isinstance(tallies, Iterable) or isinstance(tallies, Mapping):
        raise InvalidOption.at(pointer, "must be a sequence of EventTally, as returned by calibrant.tally")
    parts = list(tallies)
    for i, part in enumerate(parts):
        check_tally(part, f"{pointer}/{i}")
    return parts


def check_groups(names: list[str]) -> None:
    """Raise ``InvalidOption`` for too many groups or too long names."""
    if len(names) > MAX_GROUPS:
        raise InvalidOption.at("/groups", f"must name at most {MAX_GROUPS} groups")
    if any(len(name) > MAX_NAME for name in names):
        raise InvalidOption.at("/groups", f"must be names of at most {MAX_NAME} characters")


def renumbered(tally: Tally, groups: Sequence[str], names: list[str]) -> Tally:
    """Return the tally with its ``groups`` numbered by their position in ``names``."""
    if list(groups) == names:
        return tally
    place = {name: 1 + i for i, name in enumerate(names)}
    number = np.array([0, *(place[name] for name in groups)], dtype=np.uint32)
    keys = number[tally.keys // _PER_GROUP] * np.uint32(_PER_GROUP) + tally.keys % np.uint32(_PER_GROUP)
    order = np.argsort(keys)
    return Tally(keys[order], tally.rows[order], tally.p_sum[order])


# --- Counting rows


@explained
def tally(
    predictions: Any,
    labels: Any,
    *,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    folds: Any = None,
    scale: Scale = "probability",
) -> EventTally:
    """Count the rows of one partition of data that does not fit in memory.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        P(Y = 1), or one column per class.
    labels : array_like, shape (n,)
        As for ``evaluate``.
    reduction : str, optional
        Event to count: ``binary`` (default for (n,)), ``confidence`` (default for (n, K)), ``class:k``, ``top:r`` or
        ``within-top:r``.
    class_names, pos_label : optional
        As for ``evaluate``.
    weights, sample_weight : array_like of int, shape (n,), optional
        Non-negative integers: a weight of 2 counts as two rows.
    groups : array_like, shape (n,), or frame, optional
        As for ``evaluate``; rows with a missing name are in no group.
    folds : array_like of int, shape (n,), optional
        Folds from 0 to 4, to fit a map to some folds and evaluate it on the others.
    scale : {"probability", "logit"}, default "probability"
        Scale of ``predictions``.

    Returns
    -------
    EventTally
        At most 2 x 2,048 counts for each group and fold, regardless of the number of rows.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    merge : Adds up tallies of partitions.
    evaluate_tally : Evaluates a tally.
    fit_tally : Fits a map to a tally.

    Notes
    -----
    Predictions are reduced to one event before they are counted, so measures of the whole vector cannot be computed
    from a tally. O(n log n + n K).

    Examples
    --------
    >>> import calibrant
    >>> counted = calibrant.tally([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1])
    >>> round(calibrant.evaluate_tally(counted, measures=["ks"]).measures["ks"].value, 3)
    0.25
    """
    check_aligned({"predictions": predictions, "labels": labels, "groups": groups, "folds": folds})
    rows = read_rows(
        predictions,
        labels,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind="frequency",
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
    )
    rows.warn_of_kind()
    n = len(rows.batch)
    names, members = numbered(None if groups is None else [name or None for name in group_names(groups, "")], n)
    reduction = reduction_by_name(reduction, rows.class_names)
    return count(rows.batch, reduction, names=names, members=members, folds=read_folds(folds, n))


def count(
    batch: Batch,
    reduction: str | None,
    *,
    names: Sequence[str] = (),
    members: Integers | None = None,
    folds: Integers | None = None,
) -> EventTally:
    """Count a checked batch; ``members (n,)`` are 0, or 1 plus the position of the group in ``names``."""
    predictions = batch.predictions
    name = resolve_event(reduction, predictions.n_classes)
    counts = None if batch.weights is None else batch.weights.astype(np.int64)
    event = reduce(batch, name)
    if counts is not None and not counts.all():  # rows of weight 0 are not counted
        counted = np.flatnonzero(counts)
        event, counts = event.rows(counted), counts[counted]
        members, folds = (None if of is None else of[counted] for of in (members, folds))
    cells = tally_of(event.p, event.y, members, folds, counts)
    return EventTally(
        cells,
        name,
        predictions.scale,
        predictions.n_classes,
        tuple(names),
        predictions.clipped,
        predictions.renormalised,
    )


def read_folds(folds: Any, n: int) -> Integers | None:
    """Check the folds of ``n`` rows."""
    if folds is None:
        return None
    raw: npt.NDArray[Any] = np.asarray(folds)
    if raw.ndim != 1 or len(raw) != n:
        raise LengthMismatch.at("/folds", f"must have one fold for each row of /predictions, {n:,} in all")
    if raw.dtype.kind not in "iuf":
        raise NotANumber.at("/folds", "must contain only numbers")
    odd = np.flatnonzero(~((raw >= 0) & (raw < FOLDS) & (raw == np.floor(raw))))  # also finds NaN
    if len(odd):
        raise InvalidOption.at(f"/folds/{odd[0]}", f"must be an integer from 0 to {FOLDS - 1}")
    return raw.astype(np.int64)


def numbered(groups: Sequence[str | None] | None, n: int) -> tuple[list[str], Integers | None]:
    """Return the sorted group names, and the number of the group of each row."""
    if groups is None:
        return [], None
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise WrongShape.at("/groups", "must be an array of group names")
    if len(groups) != n:
        raise LengthMismatch.at("/groups", f"has {n_rows(len(groups))}, but /predictions has {n:,}")
    for i, name in enumerate(groups):
        if not (name is None or isinstance(name, str)):
            raise InvalidOption.at(f"/groups/{i}", "must be a string or null")
    names = sorted({str(name) for name in groups if name is not None})
    check_groups(names)
    number: dict[str | None, int] = {None: 0} | {name: 1 + i for i, name in enumerate(names)}
    return names, np.fromiter((number[name] for name in groups), np.int64, n)


# --- The gain of one map over another on the same rows


@dataclass(frozen=True)
class Gain:
    """Mean log loss of the champion minus that of the challenger, in nats per row, with its interval.

    Above 0 the challenger is better. ``rows`` is the number of rows. For forecasts of a number, the log loss is that of
    the bin of the outcome.
    """

    value: float
    low: float
    high: float
    rows: int


def gain(tally: Tally, champion: Curve | None, challenger: Curve, level: float) -> Gain:
    """Return the gain of one curve over another (None: the identity) on rows held out from both.

    The interval is that of a mean of paired differences, one per row (Student 1908), at the two-sided ``level`` in
    (0, 1). Each row counts with the mean prediction of its cell. Raises ``TooFewRows`` for fewer than two rows.
    O(cells).
    """
    event, rows = tally.pooled().event(), len(tally)
    if rows < 2:
        raise TooFewRows("a comparison needs at least two rows")
    value, influence = improvement(_mapped(event, champion), _mapped(event, challenger), "log-loss")
    return gain_of(value, influence, np.ones(len(event.p)) if event.w is None else event.w, rows, level)


def gain_of(value: float, influence: Floats, weights: Floats, rows: int, level: float) -> Gain:
    """Return a mean of paired differences with its interval, from the ``influence (m,)`` of ``weights (m,)`` rows."""
    variance = float(weights @ influence**2) / (rows - 1)
    reach = float(stdtrit(rows - 1, (1.0 + level) / 2.0)) * math.sqrt(variance / rows)
    return Gain(value, value - reach, value + reach, rows)


def _mapped(event: Event, curve: Curve | None) -> Event:
    return event if curve is None else Event(np.clip(curve(event.p), 0.0, 1.0), event.y, event.w)
