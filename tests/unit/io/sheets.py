"""What was read of a file, as lists."""

from __future__ import annotations

from typing import Any

from calibrant.io.files import Sheet
from tests.known import known


def labels_of(sheet: Sheet) -> list[Any]:
    """The labels of the rows, which the file has."""
    return list(known(sheet.labels).tolist())


def weights_of(sheet: Sheet) -> list[float]:
    """The weights of the rows, which the file has."""
    return list(known(sheet.weights).tolist())
