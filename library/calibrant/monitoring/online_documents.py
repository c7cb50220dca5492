"""Reading of the states of online maps from documents, and of their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument, InvalidOption
from calibrant.maps.parameters import read_array, read_number

#: Cells of each part of the sliding window.
CELLS = 64
#: Rows, positives and sum of predictions of each cell of a part of the window.
Block = dict[int, tuple[float, float, float]]

_Refusal = type[InvalidDocument] | type[InvalidOption]


def read_integer(values: Mapping[str, Any], name: str, low: int, refusal: _Refusal = InvalidDocument) -> int:
    """Return an integer from ``low`` to 2^53, or to 10,000 for ``delay``; raises ``refusal``."""
    value, high = values.get(name), 10_000 if name == "delay" else 2**53
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refusal.at(f"/{name}", f"must be an integer from {low} to {high:,}")
    return value


def read_memories(values: Any, refusal: _Refusal = InvalidDocument) -> tuple[int | None, ...]:
    """Return half-lives in rows; None never forgets. Raises ``refusal``."""

    def valid(value: Any) -> bool:
        return value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 2**53)

    if not isinstance(values, list) or not 1 <= len(values) <= 8 or not all(map(valid, values)):
        raise refusal.at("/memories", "must be 1 to 8 integers from 1, or null")
    if len(set(values)) != len(values):
        raise refusal.at("/memories", "must be distinct")
    return tuple(values)


def read_list(document: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list that is not empty."""
    return read_array(document, name, where="")


def read_numbers(document: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    """Return finite numbers of a shape."""
    try:
        numbers = np.array(read_list(document, name), dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    # Logarithms of weights may be very low, but not -inf.
    if numbers.shape != shape or not np.isfinite(numbers).all():
        raise InvalidDocument.at(f"/{name}", f"must be finite numbers of shape {shape}")
    return numbers


def read_block(cells: Any, where: str) -> Block:
    """Return a part of the sliding window."""
    block: Block = {}
    for i, cell in enumerate(cells if isinstance(cells, list) else [None]):
        number = cell[0] if isinstance(cell, list) and len(cell) == 4 else None
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < CELLS:
            raise InvalidDocument.at(f"{where}/{i}", "must be a cell, its rows, positives and sum of predictions")
        sums = dict(zip("nyp", cell[1:], strict=True))
        n = read_number(sums, "n", where=f"{where}/{i}", low=0.0)
        block[number] = (n, *(read_number(sums, name, where=f"{where}/{i}", low=0.0, high=n) for name in "yp"))  # type: ignore[assignment]
    return block
