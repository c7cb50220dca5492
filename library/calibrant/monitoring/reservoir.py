"""Uniform samples of bounded size of rows with vectors of predictions, which can be merged, and their serialisation."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import Integers
from calibrant.core.cells import Floats

Vectors = npt.NDArray[np.float32]

#: The label of a row without one.
NO_LABEL = -1
#: Number of vectors, classes, and labels of other rows; and the bound of the priorities.
_HEAD = struct.Struct("<IIId")
_KEY_BYTES = 64


def priorities_of(ids: Sequence[bytes], key: str) -> Floats:
    """Return a number in [0, 1) for each id: the same for the same id and key, and uniform over ids. O(bytes)."""
    secret = key.encode()[:_KEY_BYTES]
    text = b"".join(hashlib.blake2b(row_id, digest_size=8, key=secret).digest() for row_id in ids)
    # The upper 53 bits, which a double holds exactly.
    return (np.frombuffer(text, "<u8") >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Reservoir:
    """All rows of a set whose priority is below ``below``: a uniform sample of the set, because priorities are uniform.

    ``priorities (n,)`` are distinct and ascending, ``vectors (n, K)`` single precision, ``labels (n,)`` -1 for none.
    ``later (m,)`` are priorities of rows in other reservoirs of the set, with their ``later_labels (m,)``.
    """

    priorities: Floats
    vectors: Vectors
    labels: Integers
    later: Floats
    later_labels: Integers
    below: float = 1.0

    @classmethod
    def of(cls, priorities: Floats, vectors: Floats | Vectors, labels: Integers) -> Reservoir:
        """Return the reservoir of all these rows."""
        ascending, first = np.unique(priorities, return_index=True)
        none = np.zeros(0)
        return cls(
            ascending, vectors[first].astype(np.float32), labels[first].astype(np.int64), none, none.astype(np.int64)
        )

    @classmethod
    def empty(cls, n_classes: int) -> Reservoir:
        """Return the reservoir of no rows."""
        return cls.of(np.zeros(0), np.zeros((0, n_classes)), np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.priorities)

    def labelled(self) -> Reservoir:
        """Return the rows that have a label."""
        return self._rows(self.labels != NO_LABEL)

    def with_later(self, priorities: Floats, labels: Integers) -> Reservoir:
        """Return the reservoir with labels of rows that are in other reservoirs of the set."""
        return replace(self, later=priorities, later_labels=labels.astype(np.int64))

    def cut(self, below: float) -> Reservoir:
        """Return the rows with priorities below a bound."""
        if below >= self.below:
            return self
        end = int(np.searchsorted(self.priorities, below))
        chosen = self._rows(slice(0, end))
        early = self.later < below
        return replace(chosen, later=self.later[early], later_labels=self.later_labels[early], below=below)

    def at_most(self, size: int) -> Reservoir:
        """Return the ``size`` rows of the lowest priorities."""
        return self if len(self) <= size else self.cut(float(self.priorities[size]))

    def to_bytes(self) -> bytes:
        """Serialize; ``from_bytes`` reads it."""
        head = _HEAD.pack(*self.vectors.shape, len(self.later), self.below)
        columns = (self.priorities, self.later, self.labels.astype(np.int32), self.later_labels.astype(np.int32))
        return b"".join((head, *(column.tobytes() for column in columns), self.vectors.tobytes()))

    def _rows(self, chosen: slice | npt.NDArray[np.bool_]) -> Reservoir:
        return replace(
            self, priorities=self.priorities[chosen], vectors=self.vectors[chosen], labels=self.labels[chosen]
        )


def from_bytes(data: bytes) -> Reservoir:
    """Return a serialized reservoir."""
    n, n_classes, m, below = _HEAD.unpack_from(data)
    at = _HEAD.size
    doubles = np.frombuffer(data, "<f8", n + m, at)
    labels = np.frombuffer(data, "<i4", n + m, at + 8 * (n + m)).astype(np.int64)
    vectors = np.frombuffer(data, "<f4", n * n_classes, at + 12 * (n + m)).reshape(n, n_classes)
    return Reservoir(doubles[:n], vectors, labels[:n], doubles[n:], labels[n:], below)


def together(parts: Iterable[Reservoir], size: int) -> Reservoir:
    """Return the reservoir of the union of several sets of rows, with at most ``size`` rows; at least one part.

    A row that is in several parts counts once. O(n log n).
    """
    reservoirs = list(parts)
    below = min(part.below for part in reservoirs)
    reservoirs = [part.cut(below) for part in reservoirs]
    priorities = np.concatenate([part.priorities for part in reservoirs])
    ascending, first, place = np.unique(priorities, return_index=True, return_inverse=True)
    labels = np.full(len(ascending), NO_LABEL)
    np.maximum.at(labels, place, np.concatenate([part.labels for part in reservoirs]))
    later = np.concatenate([part.later for part in reservoirs])
    later_labels = np.concatenate([part.later_labels for part in reservoirs])
    if len(ascending):
        at = np.minimum(np.searchsorted(ascending, later), len(ascending) - 1)
        met = ascending[at] == later
        np.maximum.at(labels, at[met], later_labels[met])
        later, later_labels = later[~met], later_labels[~met]
    vectors = np.concatenate([part.vectors for part in reservoirs])[first]
    return Reservoir(ascending, vectors, labels, later, later_labels, below).at_most(size)


def thinned(parts: Sequence[Reservoir], size: int) -> list[Reservoir]:
    """Return what is needed of consecutive sets, so that the last sets from any one on have ``size`` rows together.

    A row is kept if fewer than ``size`` rows of its set and all later ones have lower priorities. The expected number
    of kept rows is about ``size (1 + ln(n / size))`` for n rows in many sets. O(n log(size)) per set.
    """
    lowest, bound, needed = np.zeros(0), 1.0, list(parts)
    for i in range(len(needed) - 1, -1, -1):
        lowest = np.sort(np.concatenate([lowest, needed[i].priorities]))[: size + 1]
        bound = min(bound, needed[i].below, float(lowest[size]) if len(lowest) > size else 1.0)
        needed[i] = needed[i].cut(bound)
    return needed
