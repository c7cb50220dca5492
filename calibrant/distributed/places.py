"""Where in a source a row is at fault: its file or partition, and its number there."""

from __future__ import annotations

import re

from calibrant.errors import CalibrationError, Offence

_ROW = re.compile(r"/(\w+)/(\d+)(/\d+)?\Z")


def placed(error: CalibrationError, where: str, first_row: int) -> CalibrationError:
    """The error of rows from ``first_row`` on, told by the row's number in the whole source, from 0; never its data."""
    offences = [Offence(_moved(offence.pointer, first_row), offence.detail) for offence in error.offences]
    told = _ROW.match(offences[0].pointer) if offences else None
    if told is None:
        return type(error)(f"{where}: {error.detail}", offences)
    return type(error)(f"{where}, row {told[2]}: {told[1]} {offences[0].detail}", offences)


def _moved(pointer: str, first_row: int) -> str:
    found = _ROW.match(pointer)
    return pointer if found is None else f"/{found[1]}/{int(found[2]) + first_row}{found[3] or ''}"
