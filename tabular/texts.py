"""Columns of text, coded while they are read: a file of a million labels has few different ones."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tabular.errors import Field, NotLabels, NotUtf8, TabularError
from tabular.table import Coded
from tabular.told import quoted, row_of

#: Different texts of one column; there are at most so many classes and, in the library, a thousand groups.
MAX_TEXTS = 20_000
#: Characters of a text.
MAX_TEXT = 256


class Coding:
    """The texts of a column so far, without the blanks around them."""

    def __init__(self, name: str, field: Field) -> None:
        self._name, self._field = name, field
        self._places: dict[str, int] = {}
        self._codes = array("q")

    def add(self, texts: Sequence[str]) -> None:
        """Take in some rows' texts; raises ``NotLabels`` or ``NotUtf8``."""
        places = self._places
        before = len(places)
        self._codes.extend([places.setdefault(text, len(places)) for text in texts])
        self._check(list(places)[before:] if len(places) > before else ())

    def add_coded(self, texts: Sequence[str], codes: npt.NDArray[np.integer]) -> None:
        """Take in rows that are coded already, by places in ``texts``."""
        before = len(self._places)
        mine = np.array([self._places.setdefault(text, len(self._places)) for text in texts], dtype=np.int64)
        self._codes.frombytes(mine[codes].tobytes() if len(texts) else b"")
        self._check(list(self._places)[before:])

    def done(self) -> Coded:
        """All of the column; texts that differ in blanks alone are one."""
        stripped: dict[str, int] = {}
        merged = np.array([stripped.setdefault(text.strip(), len(stripped)) for text in self._places], dtype=np.int64)
        codes = np.frombuffer(self._codes, dtype=np.int64) if len(self._codes) else np.empty(0, dtype=np.int64)
        return Coded(tuple(stripped), codes if len(stripped) == len(merged) else merged[codes])

    def _check(self, fresh: Sequence[str]) -> None:
        if len(self._places) > MAX_TEXTS:
            raise NotLabels(
                f"column {quoted(self._name)} has more than {MAX_TEXTS:,} different values, too many for "
                f"{self._field}: is it another column?",
                field=self._field,
            )
        for text in fresh:
            if (error := self._refusal(text)) is not None:
                raise error

    def _refusal(self, text: str) -> TabularError | None:
        where = f"column {quoted(self._name)}"
        if len(text) > MAX_TEXT:
            return NotLabels(f"{where} has a text of more than {MAX_TEXT} characters", field=self._field)
        try:
            text.encode()
        except UnicodeEncodeError:
            row = int(np.argmax(np.frombuffer(self._codes, dtype=np.int64) == self._places[text]))
            return NotUtf8(
                f"{row_of(row)} of {where} is not UTF-8 (Latin-1, perhaps): save the file as CSV in UTF-8",
                field="file",
            )
        return None
