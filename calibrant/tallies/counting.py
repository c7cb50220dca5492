"""Counting rows: from a batch, or columns of one, to the tally of its event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.batch import Batch, Integers, Scale, read_batch
from calibrant.errors import InvalidOption, InvalidWeight, LengthMismatch, NotANumber, WrongShape
from calibrant.reductions import reduce, resolve_event
from calibrant.tallies.event_tally import EventTally, check_groups
from calibrant.tallies.tally import FOLDS, tally_of


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
