"""The ids of rows, and the numbers of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

# --- Many byte strings as two arrays, without a Python object for each

Ends = npt.NDArray[np.uint32]
Records = npt.NDArray[np.void]

#: A number in MessagePack, and the prefix of an array of numbers, followed by its length in four bytes.
_NUMBER = np.dtype([("kind", "u1"), ("value", ">u4")])
_NUMBER_KIND, _ARRAY_KIND = 0xCE, 0xDD
_HEAD = 5


@dataclass(frozen=True)
class Ids:
    """Concatenated byte strings: the i-th is ``text[ends[i - 1] : ends[i]]``."""

    text: bytes
    ends: Ends

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> Ids:
        """Concatenate strings."""
        return cls(b"".join(strings), np.cumsum([len(string) for string in strings], dtype=np.uint32))

    def __len__(self) -> int:
        """The number of strings."""
        return len(self.ends)

    def strings(self) -> list[bytes]:
        """The individual strings."""
        return [self.text[start:end] for start, end in pairwise([0, *self.ends.tolist()])]

    def taken(self, chosen: npt.NDArray[np.bool_]) -> Ids:
        """The strings for which ``kept (n,)`` is true, in order. O(bytes)."""
        lengths = np.diff(self.ends, prepend=np.uint32(0))
        inside = np.repeat(chosen, lengths)
        text = np.frombuffer(self.text, np.uint8)[inside].tobytes()
        return Ids(text, np.cumsum(lengths[chosen], dtype=np.uint32))

    def packed_ends(self) -> bytes:
        """``ends`` as a MessagePack array."""
        numbers = np.empty(len(self.ends), _NUMBER)
        numbers["kind"], numbers["value"] = _NUMBER_KIND, self.ends
        return bytes([_ARRAY_KIND]) + len(self.ends).to_bytes(4, "big") + numbers.tobytes()

    def script_ends(self) -> bytes:
        """``ends`` for a script: the common width of all strings as digits, if there is one, else ``packed_ends``."""
        width, rest = divmod(len(self.text), max(1, len(self.ends)))
        if width and not rest and np.array_equal(self.ends, np.arange(1, len(self.ends) + 1) * width):
            return b"%d" % width
        return self.packed_ends()

    def to_bytes(self) -> bytes:
        """Serialize to one string, which ``read_pieces`` reads."""
        return self.packed_ends() + self.text


def read_pieces(pieces: Iterable[bytes]) -> Ids:
    """The concatenated strings of several serialized ``Ids``."""
    texts, ends, at = [], [np.zeros(0, np.uint32)], 0
    for piece in pieces:
        n = int.from_bytes(piece[1:_HEAD], "big")
        text = piece[_HEAD + n * _NUMBER.itemsize :]
        texts.append(text)
        ends.append(np.frombuffer(piece, _NUMBER, n, _HEAD)["value"].astype(np.uint32) + np.uint32(at))
        at += len(text)
    return Ids(b"".join(texts), np.concatenate(ends))


def without_padding(rows: npt.NDArray[Any]) -> Ids:
    """Fixed-size records ``(n,)`` as strings without trailing zeros; a record of zeros is empty."""
    size = rows.dtype.itemsize
    table = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), size)
    filled = table != 0
    lengths = np.where(filled.any(axis=1), size - np.argmax(filled[:, ::-1], axis=1), 0)
    inside = np.arange(size) < lengths[:, None]
    return Ids(table[inside].tobytes(), np.cumsum(lengths, dtype=np.uint32))


def padded(strings: Sequence[bytes | None], size: int) -> Records:
    """Strings of at most ``size`` bytes as records ``(n,)`` of that size; None becomes zeros."""
    text = b"".join((string or b"").ljust(size, b"\0") for string in strings)
    return np.frombuffer(text, np.dtype((np.void, size)))


# --- Groups

#: The index of rows without a group, of rows in groups beyond the limit, and of the first named group.
NO_GROUP, OTHER_GROUP, FIRST_GROUP = 0, 1, 2
#: The name of the groups beyond the limit.
OTHER = "(other)"
