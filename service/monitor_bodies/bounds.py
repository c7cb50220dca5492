"""What rows as text may come to at most: each becomes objects of Python, which cost more than its bytes tell."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from service.errors import TooLarge
from service.formats.json_pieces import PIECE, check_values
from service.formats.limits import Limits
from service.formats.payload import Body

#: Rows of a body of JSON, and its bytes once it is unpacked; NPZ and Arrow may have as many as any body.
MOST_ROWS = 1_000_000
MOST_BYTES = 256 * 1024 * 1024


def of_text(limits: Limits) -> Limits:
    """The limits of a body of JSON: those of the service, or these where they are smaller."""
    return limits._replace(
        max_rows=min(limits.max_rows, MOST_ROWS),
        max_unpacked_bytes=min(limits.max_unpacked_bytes, MOST_BYTES),
    )


def check_text(body: Body, limits: Limits) -> None:
    """Raise ``TooLarge`` for a body of JSON, unpacked, of too many bytes or values, before it is parsed."""
    if len(body) > limits.max_unpacked_bytes:
        raise TooLarge(f"a body of JSON may have at most {limits.max_unpacked_bytes} bytes")
    check_values(body, limits)


def lines_of(body: Body, limits: Limits) -> Iterator[list[bytes]]:
    """The lines of a body that are not blank, some at a time; raises ``TooLarge`` for too many, blank ones too."""
    unended = len(body) > 0 and not body.endswith(b"\n")
    limits.check_rows(_lines(body, limits.max_rows) + unended)
    start = 0
    while start < len(body):
        end = body.rfind(b"\n", start, start + PIECE) + 1 or body.find(b"\n", start + PIECE) + 1 or len(body)
        yield [line for line in bytes(body[start:end]).split(b"\n") if line and not line.isspace()]
        start = end


def _lines(body: Body, enough: int) -> int:
    """How many lines a body ends; of more than ``enough`` some more than that."""
    characters, found = np.frombuffer(body, dtype=np.uint8), 0
    for start in range(0, len(characters), PIECE):
        found += int(np.count_nonzero(characters[start : start + PIECE] == ord("\n")))
        if found > enough:
            break
    return found
