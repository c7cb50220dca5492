"""What becomes of rows, as far as their ids are known: pure functions of the entries that were read.

Of what is said of one id the first counts: the first prediction, the first label. A row that brings both is its
prediction and its label in one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from calibrant.batch import Integers
from calibrant.cells import Floats
from monitoring.taking.entries import (
    ABSENT,
    JOINED,
    LABEL,
    WAITING_LABEL,
    WAITING_PREDICTION,
    Entries,
    counted,
    labels_of,
    padded,
)
from monitoring.taking.predicted import Predicted
from monitoring.taking.rows import Mask


class Outcome(IntEnum):
    """What became of a row."""

    REFUSED = 0
    STORED = 1
    JOINED = 2
    WAITING = 3
    DUPLICATE = 4
    CONTRADICTED = 5


@dataclass(frozen=True)
class Decided:
    """``outcome (n,)``; the rows that ``changes`` says get the ``entries``, and those that ``counts`` says are counted.

    A row counts as ``predicted`` and with its ``labels``, ``delays`` seconds after it was predicted. ``arrives`` says
    of which rows the prediction is new, ``labelled`` of which the label is.
    """

    outcome: npt.NDArray[np.uint8]
    changes: Mask
    entries: Entries
    counts: Mask
    arrives: Mask
    labelled: Mask
    predicted: Predicted
    labels: Integers
    delays: Floats


def decide_rows(known: Entries, first: Integers | None, own: Predicted, labels: Integers, now: float) -> Decided:
    """Rows that bring prediction and label; ``first (n,)`` is where each id stands first, None where all differ."""
    kind = known["kind"]
    waits, has_label = kind == WAITING_PREDICTION, _has_label(kind)
    kept = np.where(has_label, labels_of(known)["label"], labels).astype(np.int64)
    fresh = _fresh(first, len(kind))
    counts = (kind != JOINED) & fresh
    outcome = np.where(counts, np.uint8(Outcome.JOINED), np.uint8(Outcome.DUPLICATE))
    outcome[labels != _of_first(kept, first)] = Outcome.CONTRADICTED
    predicted = _instead(own, known, waits)
    return Decided(
        outcome,
        counts,
        counted(kept, kind != ABSENT, now),
        counts,
        counts & ~waits,
        counts & (kind != WAITING_LABEL),
        predicted,
        kept,
        now - predicted.entries["time"],
    )


def decide_predictions(known: Entries, first: Integers | None, own: Predicted, now: float) -> Decided:
    """Rows that bring a prediction alone."""
    kind = known["kind"]
    meets = kind == WAITING_LABEL
    label = labels_of(known)
    changes = ((kind == ABSENT) | meets) & _fresh(first, len(kind))
    counts = meets & changes
    outcome = np.where(changes, np.uint8(Outcome.STORED), np.uint8(Outcome.DUPLICATE))
    outcome[counts] = Outcome.JOINED
    kept = label["label"].astype(np.int64)
    entries = own.entries.copy()
    entries[meets] = padded(counted(kept[meets], True, now))
    none = np.zeros(len(kind), np.bool_)
    delays = np.where(meets, label["time"], 0.0) - own.entries["time"]
    return Decided(outcome, changes, entries, counts, changes, none, own, kept, delays)


def decide_labels(known: Entries, first: Integers | None, labels: Integers, times: Floats, *, mapped: bool) -> Decided:
    """Rows that bring a label alone; ``times (n,)`` are those of the labels."""
    kind = known["kind"]
    meets = kind == WAITING_PREDICTION
    kept = np.where(_has_label(kind), labels_of(known)["label"], labels).astype(np.int64)
    changes = ((kind == ABSENT) | meets) & _fresh(first, len(kind))
    counts = meets & changes
    outcome = np.where(changes, np.uint8(Outcome.WAITING), np.uint8(Outcome.DUPLICATE))
    outcome[counts] = Outcome.JOINED
    outcome[labels != _of_first(kept, first)] = Outcome.CONTRADICTED
    entries = np.zeros(len(kind), LABEL)
    entries["kind"], entries["label"], entries["time"] = WAITING_LABEL, kept, times
    entries["kind"][meets], entries["time"][meets] = JOINED, 0.0
    none = np.zeros(len(kind), np.bool_)
    predicted = Predicted(known, mapped)
    return Decided(outcome, changes, entries, counts, none, changes, predicted, kept, times - known["time"])


def _has_label(kind: npt.NDArray[np.uint8]) -> Mask:
    found: Mask = (kind == WAITING_LABEL) | (kind == JOINED)
    return found


def _fresh(first: Integers | None, n: int) -> Mask:
    """Whether no earlier row has the id."""
    return np.ones(n, np.bool_) if first is None else first == np.arange(n)


def _of_first(values: Integers, first: Integers | None) -> Integers:
    return values if first is None else values[first]


def _instead(own: Predicted, known: Entries, waits: Mask) -> Predicted:
    """The rows' own predictions, but where one waits already that one."""
    if not waits.any():
        return own
    entries = own.entries.copy()
    entries[waits] = known[waits]
    return Predicted(entries, own.mapped)
