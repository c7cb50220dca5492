"""Cells of text: numbers, missing values, names in messages, and dictionary encoding of columns."""

from __future__ import annotations

import csv
import io
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from calibrant.core.features import JSON_NUMBER, is_longer_number, text_of_number
from calibrant.io.errors import (
    DecimalComma,
    DuplicateColumns,
    Field,
    InfiniteNumber,
    LooksLikePercent,
    MissingValue,
    MixedFeature,
    NotLabels,
    NotUtf8,
    TabularError,
    TextInNumbers,
)
from calibrant.io.table import Coded

# --- Names and strings of a file in messages: shortened, few, and without control characters

#: The most characters of a name, and names in a list, that a message shows.
MAX_CHARACTERS, MAX_LISTED = 40, 8


class MixedCells(ValueError):
    """Texts of which one, in the first such ``row``, is another category as text than as the number that it writes."""

    def __init__(self, row: int) -> None:
        super().__init__("a number among texts, which is another category as a number")
        self.row = row


def numbers_or_texts(
    texts: Sequence[str], *, categorical: bool = False
) -> npt.NDArray[np.float64] | npt.NDArray[np.object_]:
    """Return numbers, NaN if empty, if each text is empty or a number of JSON; else the texts. O(n).

    If they are ``categorical``, all are texts. Raises ``MixedCells`` if they are not, and a text beside others is a
    number in a longer form, such as 2.0: the category is 2.0 beside other texts, and 2 where all cells are numbers.

    >>> numbers_or_texts(["1.5", ""]).tolist(), numbers_or_texts(["1", "02"]).tolist()
    ([1.5, nan], ['1', '02'])
    >>> numbers_or_texts(["2.0", "b"], categorical=True).tolist()
    ['2.0', 'b']
    """
    distinct = set(texts)
    numbers = set() if categorical else {text for text in distinct if JSON_NUMBER.fullmatch(text)}
    if numbers and numbers | {""} >= distinct:
        number_of = {text: float(text) if text else np.nan for text in distinct}
        return np.array([number_of[text] for text in texts], dtype=np.float64)
    if longer := set(filter(is_longer_number, numbers)):
        raise MixedCells(next(row for row, text in enumerate(texts) if text in longer))
    objects = np.empty(len(texts), dtype=np.object_)
    objects[:] = texts
    return objects


def feature_of(
    name: str, cells: Sequence[str], categorical: Sequence[str]
) -> npt.NDArray[np.float64] | npt.NDArray[np.object_]:
    """Return the column of a feature as ``numbers_or_texts`` does; ``categorical`` are the names of those of texts.

    Raises ``MixedFeature`` with both readings of a cell.
    """
    try:
        return numbers_or_texts(cells, categorical=name in categorical)
    except MixedCells as error:
        text = cells[error.row]
        category, value = quoted(text), quoted(text_of_number(float(text)))
        raise MixedFeature(
            f"column {quoted(name)} has texts and, in {row_of(error.row)}, {category}: as text the category is "
            f"{category}, but in a file with numbers alone it is {value}; pass --categorical for the column to read "
            "texts, or write the number in its shortest form",
            field="categorical",
        ) from None


def plain(text: str) -> str:
    """Replace unprintable characters by blanks and shorten to ``MAX_CHARACTERS``."""
    clean = "".join(c if c.isprintable() else " " for c in text[: MAX_CHARACTERS + 1])
    return clean if len(clean) <= MAX_CHARACTERS else clean[: MAX_CHARACTERS - 3] + "..."


def quoted(text: str) -> str:
    """Quote a cleaned text."""
    return f"'{plain(text)}'"


def listed(texts: Sequence[str], most: int = MAX_LISTED) -> str:
    """List quoted texts; the rest beyond ``most`` is counted."""
    shown = ", ".join(map(quoted, texts[:most]))
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


def split_names(text: str) -> list[str]:
    """Split names separated by commas; a name with a comma is in double quotes, as in CSV."""
    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        names = text.split(",")
    return [name.strip() for name in names]


def join_names(names: Sequence[str]) -> str:
    """Join names so that ``split_names`` splits them."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(names)  # so that names with these characters are quoted
    return out.getvalue().removesuffix("\r\n")


def check_distinct(names: Sequence[str], what: str) -> None:
    """Raise ``DuplicateColumns`` if names of columns occur twice; ``what`` is that which has them."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise DuplicateColumns(f"the {what} has {listed(twice)} more than once; rename the duplicates")


def span(texts: Sequence[str]) -> str:
    """Name one column, two, or the first and the last of several."""
    if len(texts) == 1:
        return f"column {quoted(texts[0])}"
    return f"columns {quoted(texts[0])} {'and' if len(texts) == 2 else 'to'} {quoted(texts[-1])}"


def row_of(row: int, line: int | None = None) -> str:
    """Name a row, counted from 1 after the header, with its line if that is known; ``row`` counts from 0."""
    return f"row {row + 1}" if line is None else f"row {row + 1} (line {line})"


# --- Cells of text: numbers, missing values, and the errors of other cells

#: Markers of missing values, in lower case.
MISSING = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "nil", "?"))
#: Further markers in columns of numbers, which can be labels.
DASHES = frozenset(("-", "--", "."))
_NO_NUMBER = MISSING | DASHES
_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?", re.ASCII)
#: Numbers with both marks, or with the same mark twice: 1,234.5 and 1.234,5 and 1,234,567.
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3})+\.\d+|(?:\.\d{3})+,\d+|(?:,\d{3}){2,}|(?:\.\d{3}){2,})", re.ASCII)
#: A decimal comma that may separate thousands: 1,234.
_UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
#: The same with a point, which separates thousands if the decimal mark is a comma.
_UNCLEAR_POINT = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)
#: A number with a decimal point.
_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", re.ASCII)
#: First characters of what ``float`` parses.
_FIRST = frozenset("+-.0123456789iInN")
#: Numbers as numpy shows them: np.float64(0.5).
_OF_NUMPY = re.compile(r"(?:np|numpy)\.(?:float|u?int)\d+\([^()]*\)", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


def is_missing(text: str) -> bool:
    """Whether a cell is empty or marked as missing."""
    return text.strip().lower() in MISSING


def lacks_number(text: str) -> bool:
    """Whether the cell of a column of numbers is missing, or is a vector such as ``[0.5 nan]`` that lacks a number."""
    clean = text.strip().lower()
    if clean.startswith("["):
        return any(part in _NO_NUMBER for part in clean.strip("[]").replace(",", " ").split())
    return clean in _NO_NUMBER


def number(text: str) -> float:
    """Parse a number in ASCII digits; Python's ``float`` also accepts ``1_0`` and digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError("not plain digits")
    return float(text)


def with_point(text: str) -> str:
    """Return a number with a decimal comma with a decimal point; any other cell unchanged."""
    clean = text.strip()
    return clean.replace(",", ".") if _COMMA.fullmatch(clean) else text


_BESIDE_POINTS = "commas that separate thousands or decimals, first in {where}, beside decimal points"


class DecimalCommas:
    """Reads numbers of one file whose decimal mark is a comma.

    Raises ``TextInNumbers`` for points that may separate thousands, and for such commas if any column that is read has
    decimal points: 1,200 beside 900.5 may be 1200.
    """

    def __init__(self) -> None:
        self._unclear: TextInNumbers | None = None
        self._has_points = False

    def with_points(
        self, cells: Sequence[str], name: str, field: Field, row: int, line_of: Callable[[int], int | None]
    ) -> list[str]:
        """Return the cells with decimal points; ``row`` is that of the first, and ``line_of`` returns their lines."""

        def unclear(pattern: re.Pattern[str], what: str, remedy: str) -> TextInNumbers | None:
            at = next((i for i, cell in enumerate(cells) if pattern.fullmatch(cell.strip())), None)
            if at is None:
                return None
            text = f"column {quoted(name)} has {what.format(where=row_of(row + at, line_of(at)))}"
            return TextInNumbers(f"{text}; write 1200 or {remedy}", field=field)

        points = "separators of thousands or decimal points, first in {where}, but the decimal mark is a comma"
        if (error := unclear(_UNCLEAR_POINT, points, "1,2, not 1.200")) is not None:
            raise error
        self._unclear = self._unclear or unclear(_UNCLEAR, _BESIDE_POINTS, "1.2, not 1,200")
        self._has_points = self._has_points or any(_POINT.fullmatch(cell.strip()) for cell in cells)
        if self._has_points and self._unclear is not None:
            raise self._unclear
        return [with_point(cell) for cell in cells]


def without_sign(text: str) -> str:
    """Return a percentage such as ``12.5%`` without its sign; any other cell unchanged."""
    clean = text.strip()
    return clean[:-1].rstrip() if _is_percentage(clean) else text


@dataclass(frozen=True)
class TextCells:
    """How the cells of a text file are written: the decimal mark, the encoding, by default UTF-8, and percent signs."""

    decimal: str = "."
    encoding: str | None = None
    percent: bool = False

    def plain(self, text: str) -> str:
        """Return a cell without a percent sign and with a decimal point."""
        text = without_sign(text) if self.percent else text
        return with_point(text) if self.decimal == "," else text


PLAIN_CELLS = TextCells()


def number_or_nan(text: str | None) -> float:
    """Parse a number as ``number`` does; NaN for any other text."""
    try:
        return math.nan if text is None else number(text)
    except ValueError:
        return math.nan


def is_number(text: str) -> bool:
    """Whether ``number`` can parse a cell."""
    try:
        number(text)
    except ValueError:
        return False
    return True


def is_numeric(text: str) -> bool:
    """Whether a cell is a number, also one with a decimal comma, separators of thousands, a percent sign or ``np.``."""
    clean = text.strip()
    return clean[:1] in _FIRST and (
        is_number(clean)
        or any(kind.fullmatch(clean) for kind in (_COMMA, _THOUSANDS, _OF_NUMPY))
        or _is_percentage(clean)
    )


#: Numbers in brackets, as pandas, numpy and Spark write vectors: ``[0.25 0.75]``, ``[0.25,0.75]`` or ``array([...])``.
_VECTOR = re.compile(r"\s*(?:[A-Za-z]+\()?\[\[?([^\[\]]*)\]?\](?:,\s*[a-z_]+=[^()\[\]]*)?\)?\s*")
#: A tuple, or a number of torch: ``(0.25,)`` and ``tensor(0.25)``; an array of PostgreSQL: ``{0.25,0.75}``.
_TUPLE = re.compile(r"\s*(?:(?:tensor)?\(([^()\[\]=]*)\)|\{([^{}:=]*)\})\s*")
#: A number of a list of numpy's numbers: ``np.float64(0.25)``.
_SCALAR = re.compile(r"np\.float[0-9]+\(([^()]*)\)")


def vector_of(cell: str) -> list[str] | None:
    """Return the texts between the brackets of a cell such as ``[0.25 0.75]``, or None.

    >>> vector_of("array([0.25, 0.75])"), vector_of("{0.25,0.75}"), vector_of("tensor(0.5)"), vector_of("0.5")
    (['0.25', '0.75'], ['0.25', '0.75'], ['0.5'], None)
    """
    clean = _SCALAR.sub(r"\1", cell) if "np.float" in cell else cell
    match = _VECTOR.fullmatch(clean) or _TUPLE.fullmatch(clean)
    if match is None:
        return None
    return next(text for text in match.groups() if text is not None).replace(",", " ").split()


def may_be_numbers(cells: Sequence[str]) -> bool:
    """Whether a column with these first cells can be numeric: one of them is, or all are missing."""
    if any(map(is_numeric, cells[:1])):
        return True
    distinct = set(cells)
    return any(map(is_numeric, distinct)) or all(map(is_missing, distinct))


def _is_percentage(text: str) -> bool:
    """Whether a stripped cell is a percentage, such as ``12.5%`` or ``12,5 %``."""
    return text.endswith("%") and is_number(with_point(text[:-1]))


def refusal(
    text: str,
    name: str,
    field: Field,
    row: int,
    line: int | None = None,
    *,
    signs: bool = False,
    beside: Iterable[str] = (),
) -> TabularError:
    """Return the error for a cell that is not a finite number; ``row`` counts from 0.

    ``signs`` if the reader reads percent signs of predictions with the scale percent. ``beside`` are cells of the file:
    with decimal points among them, commas are not offered as the decimal mark of the file.
    """
    clean, where = text.strip(), f"{row_of(row, line)} of column {quoted(name)}"
    if lacks_number(clean):
        what = "is empty" if not clean else f"is {quoted(clean)}, a missing value"
        return MissingValue(f"{where} {what}; fill it in or remove the row", field=field)
    if _COMMA.fullmatch(clean):
        unclear = _UNCLEAR.fullmatch(clean) is not None
        if unclear and any(_POINT.fullmatch(cell.strip()) for cell in beside):
            what = _BESIDE_POINTS.format(where=row_of(row, line))
            return TextInNumbers(f"column {quoted(name)} has {what}; write 1200 or 1.2, not 1,200", field=field)
        what = "separators of thousands or decimal commas" if unclear else "decimal commas"
        remedy = "write 1200, not 1,200, or 0.5, not 0,5" if unclear else "write 0.5, not 0,5"
        where = f"first in {row_of(row, line)}"
        return DecimalComma(f"column {quoted(name)} has {what}, {where}; {remedy}", field=field, unclear=unclear)
    if _is_percentage(clean):
        of_predictions = field == "predictions"
        what = f"column {quoted(name)} has percent signs, first in {row_of(row, line)}"
        if of_predictions and signs:
            return LooksLikePercent(f"{what}; set the scale to percent", offer=("percent",))
        remedy = "remove them" + (" and set the scale to percent" if of_predictions else "")
        return LooksLikePercent(f"{what}; {remedy}", field=field)
    if _THOUSANDS.fullmatch(clean):
        return TextInNumbers(
            f"column {quoted(name)} has separators of thousands, first in {row_of(row, line)}; remove them", field=field
        )
    if _OF_NUMPY.fullmatch(clean):
        first = f"first in {row_of(row, line)}"
        return TextInNumbers(
            f"column {quoted(name)} has numbers as numpy shows them, np.float64(...), {first}; write float(value)",
            field=field,
        )
    if _INFINITE.fullmatch(clean):
        return InfiniteNumber(f"{where} is infinite; numbers must be finite", field=field)
    what = "repeats the header; remove the row" if clean == name else "is not a number"
    return TextInNumbers(f"{where} {what}", field=field)


# --- Columns of strings, dictionary-encoded while they are read: a million labels have few distinct values

#: The most distinct strings of a column, more than the most classes or groups.
MAX_TEXTS = 20_000
#: The most characters of a string.
MAX_TEXT = 256


class Coding:
    """The dictionary encoding of a column of strings; surrounding blanks are removed."""

    def __init__(self, name: str, field: Field, encoding: str | None = None) -> None:
        self._name, self._field, self._encoding = name, field, encoding
        self._places: dict[str, int] = {}
        self._codes = array("q")

    def add(self, texts: Sequence[str]) -> None:
        """Add the strings of some rows; raises ``NotLabels`` or ``NotUtf8``."""
        places = self._places
        before = len(places)
        self._codes.extend([places.setdefault(text, len(places)) for text in texts])
        self._check(list(places)[before:] if len(places) > before else ())

    def add_coded(self, texts: Sequence[str], codes: npt.NDArray[np.integer]) -> None:
        """Add encoded rows; ``codes`` are indices into ``texts``."""
        before = len(self._places)
        mine = np.array([self._places.setdefault(text, len(self._places)) for text in texts], dtype=np.int64)
        self._codes.frombytes(mine[codes].tobytes() if len(texts) else b"")
        self._check(list(self._places)[before:])

    def done(self) -> Coded:
        """Return the whole column; strings that differ only in surrounding blanks become one."""
        stripped: dict[str, int] = {}
        merged = np.array([stripped.setdefault(text.strip(), len(stripped)) for text in self._places], dtype=np.int64)
        codes = np.frombuffer(self._codes, dtype=np.int64) if len(self._codes) else np.empty(0, dtype=np.int64)
        return Coded(tuple(stripped), codes if len(stripped) == len(merged) else merged[codes])

    def _check(self, fresh: Sequence[str]) -> None:
        if len(self._places) > MAX_TEXTS:
            raise NotLabels(
                f"column {quoted(self._name)} has more than {MAX_TEXTS:,} distinct values, too many for "
                f"{self._field}; is this the right column?",
                field=self._field,
            )
        for text in fresh:
            if (error := self._refusal(text)) is not None:
                raise error

    def _refusal(self, text: str) -> TabularError | None:
        where = f"column {quoted(self._name)}"
        if len(text) > MAX_TEXT:
            return NotLabels(f"{where} has a value of more than {MAX_TEXT} characters", field=self._field)
        try:
            text.encode()
        except UnicodeEncodeError:
            row = int(np.argmax(np.frombuffer(self._codes, dtype=np.int64) == self._places[text]))
            return not_encoded(f"{row_of(row)} of {where}", self._encoding)
        return None


def not_encoded(where: str, encoding: str | None) -> NotUtf8:
    """Return the error for bytes that the encoding of a file does not have; ``encoding`` is None for UTF-8."""
    if encoding is not None:
        return NotUtf8(f"{where} is not {encoding}; name the encoding of the file, or save it as UTF-8")
    return NotUtf8(f"{where} is not UTF-8 (perhaps Latin-1); save the file as UTF-8", encoding="cp1252")


def csv_lines(*parts: Iterable[Iterable[str]]) -> Iterator[bytes]:
    """Write rows of cells as CSV."""
    line = io.StringIO()
    writer = csv.writer(line, quoting=csv.QUOTE_ALL)
    for row in chain(*parts):
        writer.writerow(row)
        yield line.getvalue().encode()
        line.seek(0)
        line.truncate()
