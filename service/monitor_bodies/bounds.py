"""What rows as text may come to at most: each becomes objects of Python, which cost more than its bytes tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from service.errors import TooLarge
from service.formats.limits import Limits
from service.formats.payload import Body

#: Rows of a body of JSON, and its bytes once it is unpacked; NPZ and Arrow may have as many as any body.
MOST_ROWS = 1_000_000
MOST_BYTES = 256 * 1024 * 1024
#: Values between commas of it: as many numbers of full length fit into those bytes at most.
MOST_VALUES = 16 * 1024 * 1024
#: Bytes that are looked through at once, so that no look is long.
_PIECE = 1024 * 1024


def of_text(limits: Limits) -> Limits:
    """The limits of a body of JSON: those of the service, or these where they are smaller."""
    return replace(
        limits,
        max_rows=min(limits.max_rows, MOST_ROWS),
        max_unpacked_bytes=min(limits.max_unpacked_bytes, MOST_BYTES),
    )


def check_text(body: Body, limits: Limits) -> None:
    """Raise ``TooLarge`` for a body of JSON, unpacked, of too many bytes or values, before it is parsed."""
    if len(body) > limits.max_unpacked_bytes:
        raise TooLarge(f"a body of JSON may have at most {limits.max_unpacked_bytes} bytes")
    if _count(body, ",", MOST_VALUES) > MOST_VALUES:
        raise TooLarge(f"a body of JSON may have at most {MOST_VALUES} values")


def lines_of(body: Body, limits: Limits) -> list[bytes]:
    """The lines of a body that are not blank; raises ``TooLarge`` for too many, blank ones too, before any is made."""
    unended = len(body) > 0 and not body.endswith(b"\n")
    limits.check_rows(_count(body, "\n", limits.max_rows) + unended)
    return [line for line in bytes(body).split(b"\n") if line and not line.isspace()]


def _count(body: Body, character: str, enough: int) -> int:
    """How often a character stands in a body; of more than ``enough`` some more than that."""
    characters, found = np.frombuffer(body, dtype=np.uint8), 0
    for start in range(0, len(characters), _PIECE):
        found += int(np.count_nonzero(characters[start : start + _PIECE] == ord(character)))
        if found > enough:
            break
    return found
