"""The errors of calibrant: one tree, each leaf with a stable code.

An error says what is wrong, where (a JSON Pointer into the call's arguments) and what to do;
it never repeats the caller's data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True)
class Offence:
    """One place that is wrong: a JSON Pointer (RFC 6901) into the arguments, and why."""

    pointer: str
    detail: str


class CalibrationError(ValueError):
    """Base of every error that a caller can mend."""

    code: ClassVar[str] = "calibration-error"

    def __init__(self, detail: str, offences: Sequence[Offence] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.offences = tuple(offences)

    @classmethod
    def at(cls, pointer: str, detail: str) -> Self:
        """Build the error for a single place; ``detail`` reads on from the place's name."""
        return cls(f"{pointer[1:]} {detail}" if pointer else detail, (Offence(pointer, detail),))

    def under(self, prefix: str) -> Self:
        """The same error, its places below ``prefix``."""
        return type(self)(self.detail, [Offence(prefix + o.pointer, o.detail) for o in self.offences])


class NotANumber(CalibrationError):
    """A string, boolean, null or object where a number must stand."""

    code = "not-a-number"


class NotFinite(CalibrationError):
    """NaN or an infinity."""

    code = "not-finite"


class OutOfRange(CalibrationError):
    """A probability outside [0, 1], or a row of probabilities whose sum is not 1."""

    code = "out-of-range"


class WrongShape(CalibrationError):
    """An array whose rank or width does not fit."""

    code = "wrong-shape"


class LengthMismatch(CalibrationError):
    """Two arrays that must have as many rows as each other, and have not."""

    code = "length-mismatch"


class EmptyBatch(CalibrationError):
    """No rows."""

    code = "empty-batch"


class InvalidLabel(CalibrationError):
    """A label that is not an integer in [0, K)."""

    code = "invalid-label"


class InvalidWeight(CalibrationError):
    """A weight below 0, or weights without any mass."""

    code = "invalid-weight"


class OneClass(CalibrationError):
    """A fit or a measure that needs both outcomes, on labels that hold one."""

    code = "one-class"


class OnePrediction(CalibrationError):
    """A fit that needs different predictions, on predictions that are all equal."""

    code = "one-prediction"


class TooFewRows(CalibrationError):
    """Fewer rows than the computation needs."""

    code = "too-few-rows"


class ScaleMismatch(CalibrationError):
    """Predictions on another scale than the map's."""

    code = "scale-mismatch"


class UnknownMeasure(CalibrationError):
    """A measure that the catalogue has not."""

    code = "unknown-measure"


class UnknownDiagram(CalibrationError):
    """A diagram that the catalogue has not."""

    code = "unknown-diagram"


class UnknownMethod(CalibrationError):
    """A calibrator that the catalogue has not."""

    code = "unknown-method"


class MissingClass(CalibrationError):
    """A fit that needs rows of every class, on labels that lack one."""

    code = "missing-class"


class UnknownReduction(CalibrationError):
    """A reduction that does not exist, or does not fit the number of classes."""

    code = "unknown-reduction"


class InvalidOption(CalibrationError):
    """An option that is unknown, of the wrong type or outside its range."""

    code = "invalid-option"


class InvalidDocument(CalibrationError):
    """A map document that is damaged, or of an unknown format."""

    code = "invalid-document"


class NotConverged(CalibrationError):
    """A fit that did not reach its optimum; no map is made of it."""

    code = "not-converged"


class MissingExtra(CalibrationError, ImportError):
    """A package is missing that an extra of this library installs; ``detail`` holds the command that installs it."""

    code = "extra-not-installed"


@contextmanager
def requires(extra: str, what: str = "this", *, instead: str = "") -> Iterator[None]:
    """Turn a failed import of another project's package into ``MissingExtra``.

    ``what`` needs the package, and ``instead`` names what does without it.
    """
    try:
        yield
    except MissingExtra:
        raise
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "calibrant"):
            raise
        detail = f"{what} needs {package}, which is not installed: pip install 'calibrant[{extra}]'"
        missing = MissingExtra(f"{detail}; {instead}" if instead else detail)
        missing.name = package
        raise missing from error


_COUNTED = re.compile(
    r"(?P<array>predictions|labels|weights|groups): (?P<bad>\d+) of (?P<all>\d+) (?P<what>[^;]+(?:; [^;]+)?); "
    r"the first at /\w+/(?P<row>\d+)(?:/\d+)?"
)


def in_rows(detail: str) -> str | None:
    """A detail that counts rows, with the row number in place of its pointer; None for any other detail.

    Rows are numbered from 1, as people count them.

    >>> in_rows("predictions: 1000 of 1000 rows do not sum to 1; the first at /predictions/0")
    'predictions: 1,000 of 1,000 rows do not sum to 1, the first is row 1'
    >>> in_rows("labels: 1 of 3 must be 0 or 1; the first at /labels/2")
    'labels: 1 of 3 must be 0 or 1, that of row 3'
    """
    found = _COUNTED.search(detail)
    if found is None:
        return None
    bad, row, what = int(found["bad"]), int(found["row"]) + 1, found["what"]
    where = f"the first {'is' if what.startswith('row') else 'in'} row {row}" if bad > 1 else f"that of row {row}"
    if bad == 1 and what.startswith("row"):
        where = f"row {row}"
    return f"{found['array']}: {bad:,} of {int(found['all']):,} {what}, {where}"
