"""What is known of an id, as bytes of a fixed layout: a prediction that waits, a label that waits, or both counted.

Every entry begins with its kind. ``PREDICTION``: p and the key of its tally but for the outcome, before the map too;
``event`` is the label that makes the event true. ``LABEL``: a label without a prediction yet, or the one with which the
row was counted; ``time`` then is when a prediction came for an id that was known by then, else 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.monitors.strings import padded as padded_strings

#: The kinds, as the first byte of an entry; nothing is known of an id whose entry is absent.
ABSENT, WAITING_PREDICTION, WAITING_LABEL, JOINED = 0, ord("P"), ord("L"), ord("J")

PREDICTION = np.dtype(
    [
        ("kind", "u1"),
        ("p", "<f8"),
        ("raw_p", "<f8"),
        ("event", "<u4"),
        ("raw_event", "<u4"),
        ("key", "<u4"),
        ("raw_key", "<u4"),
        ("bucket", "<u4"),
        ("time", "<f8"),
    ]
)
LABEL = np.dtype([("kind", "u1"), ("label", "<u4"), ("time", "<f8")])

#: The bytes of the longest entry: as many as an array of any of them has for each.
WIDTH = PREDICTION.itemsize

#: ``(n,)`` of a structured type.
Entries = npt.NDArray[Any]


def known(read: Sequence[bytes | None]) -> Entries:
    """Entries as they were read, ``(n,)`` of ``PREDICTION``: shorter ones are padded, absent ones are zeros."""
    return padded_strings(read, WIDTH).view(PREDICTION).copy()


def nothing(n: int) -> Entries:
    """Entries of ids of which nothing is known."""
    return np.zeros(n, PREDICTION)


def labels_of(entries: Entries) -> Entries:
    """The same bytes as labels: ``(n,)`` with ``label`` and ``time``, true where the kind is one of a label."""
    return _table(entries)[:, : LABEL.itemsize].copy().view(LABEL)[:, 0]


def padded(entries: Entries) -> Entries:
    """Shorter entries in the layout of the longest."""
    found = np.zeros((len(entries), WIDTH), np.uint8)
    found[:, : entries.dtype.itemsize] = _table(entries)
    return found.view(PREDICTION)[:, 0]


def counted(labels: npt.NDArray[np.int64], met: npt.NDArray[np.bool_] | bool, now: float) -> Entries:
    """The entries of rows that are counted with these labels; ``met`` says of which something was known before."""
    entries = np.zeros(len(labels), LABEL)
    entries["kind"], entries["label"], entries["time"] = JOINED, labels, np.where(met, now, 0.0)
    return entries


def came_after(entries: Entries, moment: float) -> npt.NDArray[np.bool_]:
    """Whether rows are counted whose predictions came at a moment or later, for ids that were known by then."""
    found: npt.NDArray[np.bool_] = (entries["kind"] == JOINED) & (labels_of(entries)["time"] >= moment)
    return found


def _table(entries: Entries) -> npt.NDArray[np.uint8]:
    """The bytes of entries, a row each."""
    return np.ascontiguousarray(entries).view(np.uint8).reshape(len(entries), entries.dtype.itemsize)
