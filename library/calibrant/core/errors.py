"""Exceptions with stable codes; they name the argument and the rows, but never contain the caller's data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import currentframe
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    import numpy.typing as npt

#: The most invalid places that an error names.
MAX_OFFENCES = 5


@dataclass(frozen=True)
class Offence:
    """One invalid place in the arguments, and why it is invalid.

    Attributes
    ----------
    pointer : str
        JSON Pointer (RFC 6901) into the arguments, such as ``/labels/2``; rows are numbered from 0.
    detail : str
        What is wrong, without the name of the place.

    See Also
    --------
    CalibrationError : Holds the first few of these in ``offences``.

    Examples
    --------
    >>> import calibrant
    >>> try:
    ...     calibrant.evaluate([0.1, 0.4], [0, 2])
    ... except calibrant.CalibrationError as error:
    ...     print(error.offences[0])
    Offence(pointer='/labels/1', detail='must be 0 or 1')
    """

    pointer: str
    detail: str


def token(name: str) -> str:
    """Return a name as a part of a JSON Pointer (RFC 6901).

    >>> token("a/b")
    'a~1b'
    """
    return name.replace("~", "~0").replace("/", "~1")


def untoken(part: str) -> str:
    """Return the name that a part of a JSON Pointer stands for.

    >>> untoken("a~1b")
    'a/b'
    """
    return part.replace("~1", "/").replace("~0", "~")


class PlacedError(ValueError):
    """The message and the places of an error, and how others are made from them."""

    def __init__(self, detail: str, offences: Sequence[Offence] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.offences = tuple(offences)

    @classmethod
    def at(cls, pointer: str, detail: str) -> Self:
        """Create the error for one place; the ``detail`` follows its name.

        >>> from calibrant import CalibrationError
        >>> CalibrationError.at("/seed", "must be an integer")
        CalibrationError('seed must be an integer')
        """
        return cls(f"{pointer[1:]} {detail}" if pointer else detail, (Offence(pointer, detail),))

    @classmethod
    def at_places(cls, pointer: str, places: npt.NDArray[Any], wanted: str, message: str) -> Self:
        """Create the error for invalid places in an array, ``(m,)`` or ``(m, d)``, which names the first of them.

        ``wanted`` is what each must be, and ``message`` describes all.

        >>> import numpy as np
        >>> from calibrant import CalibrationError
        >>> CalibrationError.at_places("/labels", np.array([3, 7]), "must be 0 or 1", "2 of 9 are not 0 or 1")
        CalibrationError('labels: 2 of 9 are not 0 or 1; the first at /labels/3')
        """
        first = places[:MAX_OFFENCES].reshape(-1, *places.shape[1:] or (1,)).tolist()
        offences = [Offence("/".join([pointer, *map(str, place)]), wanted) for place in first]
        return cls(f"{pointer[1:]}: {message}; the first at {offences[0].pointer}", offences)

    def about(self, field: str, argument: str) -> Self:
        """Return the same error about another argument than ``field``, in its message and its places.

        >>> from calibrant import CalibrationError
        >>> CalibrationError.at("/predictions/3", "must be in [0, 1]").about("predictions", "models/rf")
        CalibrationError('models/rf/3 must be in [0, 1]')
        """
        old, new = f"/{field}", f"/{argument}"
        places = [Offence(o.pointer.replace(old, new, 1), o.detail.replace(old, new)) for o in self.offences]
        detail = re.sub(rf"^{field}(?=[:/])", lambda _: argument, self.detail).replace(old, new)
        return type(self)(detail if detail.startswith(argument) else f"{argument}: {detail}", places)

    def under(self, prefix: str) -> Self:
        """Return the same error with its places moved below a prefix, a JSON Pointer.

        >>> from calibrant import CalibrationError
        >>> CalibrationError.at("/folds", "must be an integer").under("/options").offences[0].pointer
        '/options/folds'
        """
        return type(self)(self.detail, [Offence(prefix + o.pointer, o.detail) for o in self.offences])


class CalibrationError(PlacedError):
    """Base class of the errors that a caller can correct.

    Parameters
    ----------
    detail : str
        What is wrong, where, and what is accepted.
    offences : sequence of Offence, default ()
        The first invalid places.

    Attributes
    ----------
    code : str
        Stable code of the error class, such as ``invalid-label``.
    detail : str
        The message.
    offences : tuple of Offence
        The first invalid places, at most five.
    n_invalid : int
        The number of invalid places, if they were counted; otherwise 0.

    See Also
    --------
    Offence : One invalid place.
    MissingExtra : Raised if an optional package is not installed.

    Notes
    -----
    Every subclass is a ``ValueError``. Messages never contain the caller's data.

    Examples
    --------
    >>> import calibrant
    >>> try:
    ...     calibrant.evaluate([0.1, 0.4, 0.9], [0, 2, 1])
    ... except calibrant.CalibrationError as error:
    ...     print(error.code, error.detail[:52], sep=": ")
    invalid-label: labels: 1 of 3 is not 0 or 1; the first at /labels/1
    """

    code: ClassVar[str] = "calibration-error"
    n_invalid: int = 0


class NotANumber(CalibrationError):
    """A string, boolean, null or object instead of a number."""

    code = "not-a-number"


class NotFinite(CalibrationError):
    """A number that is NaN or infinite."""

    code = "not-finite"


class OutOfRange(CalibrationError):
    """A probability outside [0, 1], or a row of probabilities whose sum is not 1."""

    code = "out-of-range"


class CrossingQuantiles(OutOfRange):
    """A quantile below a quantile at a lower level, or an upper bound below the lower one."""

    code = "crossing-quantiles"


class InvalidVariance(OutOfRange):
    """A variance or standard deviation that is not above 0."""

    code = "invalid-variance"


class PredictionKindMismatch(CalibrationError):
    """A map or rows of classification in the place of those of regression, or the reverse."""

    code = "prediction-kind-mismatch"


class WrongShape(CalibrationError):
    """An array with an invalid number of dimensions or columns."""

    code = "wrong-shape"


class LengthMismatch(CalibrationError):
    """Arrays with different numbers of rows."""

    code = "length-mismatch"


class EmptyBatch(CalibrationError):
    """Data without rows."""

    code = "empty-batch"


class InvalidLabel(CalibrationError):
    """A label that is not an integer in [0, K)."""

    code = "invalid-label"


class InvalidWeight(CalibrationError):
    """A weight below 0, or weights that are all 0."""

    code = "invalid-weight"


class OneClass(CalibrationError):
    """Labels of a single class, for a fit or measure that needs both outcomes."""

    code = "one-class"


class OnePrediction(CalibrationError):
    """Predictions that are all equal, for a fit that needs different ones."""

    code = "one-prediction"


class TooFewRows(CalibrationError):
    """Fewer rows than the computation needs."""

    code = "too-few-rows"


class ScaleMismatch(CalibrationError):
    """Predictions on another scale than that of the map."""

    code = "scale-mismatch"


class UnknownMeasure(CalibrationError):
    """A measure that does not exist."""

    code = "unknown-measure"


class UnknownDiagram(CalibrationError):
    """A diagram that does not exist."""

    code = "unknown-diagram"


class UnknownMethod(CalibrationError):
    """A calibrator that does not exist."""

    code = "unknown-method"


class MissingClass(CalibrationError):
    """Labels without any row of some class, for a fit that needs every class."""

    code = "missing-class"


class UnknownReduction(CalibrationError):
    """A reduction that does not exist, or does not fit the number of classes."""

    code = "unknown-reduction"


class InvalidOption(CalibrationError):
    """An option that is unknown, of the wrong type or outside its range."""

    code = "invalid-option"


class RefusedPath(CalibrationError):
    """A path of a source or target that leads, or may lead, out of its root."""

    code = "refused-path"


class SourceUnreadable(CalibrationError):
    """A source that cannot be read: it does not exist, refuses access, or has a damaged file."""

    code = "source-unreadable"


class SourceChanged(CalibrationError):
    """A file of a source changed while it was read."""

    code = "source-changed"


class SourceTooLarge(CalibrationError):
    """A source with more rows than fit in memory, for work that needs them all."""

    code = "source-too-large"


class EngineUnavailable(CalibrationError):
    """A cluster that does not answer, lost its workers again and again, or has another version of this library."""

    code = "engine-unavailable"


class TargetExists(CalibrationError):
    """A target where there is something already."""

    code = "target-exists"


class InvalidDocument(CalibrationError):
    """A map document that is invalid or has an unknown format."""

    code = "invalid-document"


class NotConverged(CalibrationError):
    """A fit that did not reach its optimum; it returns no map."""

    code = "not-converged"


class UnusableRows(CalibrationError):
    """Rows of a type that cannot be used, or with missing values.

    Parameters
    ----------
    detail : str
        What is wrong, and where.
    offences : sequence of Offence, default ()
        The first invalid places.

    See Also
    --------
    CalibrationError : Base class.

    Examples
    --------
    >>> import calibrant
    >>> from calibrant.core.errors import UnusableRows
    >>> try:
    ...     calibrant.evaluate([0.1, 0.9], [0, None])
    ... except UnusableRows as error:
    ...     print(error)
    labels: 1 value is missing, first in row 1 (counted from 0); fill them in or remove the rows
    """

    code = "unusable-rows"


class MissingExtra(CalibrationError, ImportError):
    """A package that belongs to an extra of this library is not installed.

    Parameters
    ----------
    detail : str
        What needs the package, and the command that installs it.
    offences : sequence of Offence, default ()
        Not used.

    See Also
    --------
    CalibrationError : Base class.

    Examples
    --------
    >>> from calibrant import CalibrationError, MissingExtra
    >>> issubclass(MissingExtra, CalibrationError), issubclass(MissingExtra, ImportError)
    (True, True)
    """

    code = "extra-not-installed"


#: The folder of this package.
_HERE = Path(__file__).parents[1]


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line of the caller of the package: the first one outside it."""
    level, frame = 1, currentframe()
    while frame is not None and _HERE in Path(frame.f_code.co_filename).parents:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


@contextmanager
def requires(extra: str, what: str = "this", *, instead: str = "") -> Iterator[None]:
    """Turn a failed import of another project's package into ``MissingExtra``.

    ``what`` needs the package; ``instead`` names an alternative that does not.
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


@contextmanager
def naming(names: Mapping[str, str]) -> Iterator[None]:
    """Replace names of arguments in the messages and places of errors, for a function that has other names."""
    pattern = re.compile(rf"\b({'|'.join(names)})\b")

    def named(text: str) -> str:
        return pattern.sub(lambda match: names[match[0]], text)

    try:
        yield
    except CalibrationError as error:
        places = [Offence(named(o.pointer), named(o.detail)) for o in error.offences]
        raise type(error)(named(error.detail), places) from None


def one_of(name: object, known: Iterable[str], familiar: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what an unknown name must be: the nearest known names if it resembles any, or else all.

    ``familiar`` maps names that other libraries use to known ones.

    >>> one_of("isotonc", ["platt", "isotonic"])
    'is unknown; did you mean isotonic?'
    >>> one_of("eec", ["ece", "mce", "ks"])
    'is unknown; did you mean ece?'
    >>> one_of("DirichletCalibration", ["dirichlet-l2", "beta"])
    'is unknown; did you mean dirichlet-l2?'
    >>> one_of("xyz", ["platt", "isotonic"])
    'must be one of: platt, isotonic'
    """
    names = list(known)
    if isinstance(name, str) and len(name) <= _MOST_COMPARED:
        plain, every = plain_name(name), [*names, *familiar]
        plain = plain if plain in every else _SUFFIX.sub("", plain)
        similar = [*names, *(other for other in familiar if len(other) > _ABBREVIATED)]
        near = get_close_matches(plain, similar, n=3, cutoff=0.7)
        if not near and len(plain) <= _SHORT:
            near = get_close_matches(plain, similar, n=3, cutoff=0.65)
        near += [known for known in names if plain and known not in near and known.startswith(plain)][:3]
        near = [plain] if plain in every else near
        if near:
            return f"is unknown; did you mean {' or '.join(dict.fromkeys(familiar.get(n, n) for n in near))}?"
    return f"must be one of: {', '.join(names)}"


def plain_name(name: str) -> str:
    """Return a name in small letters with hyphens.

    >>> plain_name("TemperatureScaling"), plain_name("log_loss"), plain_name("ECE")
    ('temperature-scaling', 'log-loss', 'ece')
    """
    return _BORDER.sub("-", name.strip()[:_MOST_COMPARED]).lower().replace("_", "-").replace(" ", "-")


#: What names of methods end with in other libraries.
_SUFFIX = re.compile("-(binning|calibration|calibrator|scaler|scaling)$")
#: Between a small letter and a capital.
_BORDER = re.compile("(?<=[a-z0-9])(?=[A-Z])")
#: Names of at most this many characters, in which two exchanged letters are much, need to resemble less.
_SHORT = 4
#: Other names of at most this many characters, such as hl, are abbreviations, which nothing resembles.
_ABBREVIATED = 2
#: The most characters of a name that is compared with known names.
_MOST_COMPARED = 64

_COUNTED = re.compile(
    r"(?P<array>predictions|labels|weights|groups|clusters): (?P<bad>\d+) of (?P<all>\d+) (?P<what>[^;]+(?:; [^;]+)?); "
    r"the first at /\w+/(?P<row>\d+)(?:/\d+)?"
)


def in_rows(detail: str) -> str | None:
    """Return a message that counts rows with the row number instead of the pointer; None for any other message.

    Rows are numbered from 1 here, and from 0 in pointers.

    >>> in_rows("predictions: 1000 of 1000 rows do not sum to 1; the first at /predictions/0")
    'predictions: 1,000 of 1,000 rows do not sum to 1, the first is row 1'
    >>> in_rows("labels: 1 of 3 is not 0 or 1; the first at /labels/2")
    'labels: 1 of 3 is not 0 or 1, in row 3'
    """
    match = _COUNTED.search(detail)
    if match is None:
        return None
    bad, row, what = int(match["bad"]), int(match["row"]) + 1, match["what"]
    where = f"the first {'is' if what.startswith('row') else 'in'} row {row}" if bad > 1 else f"in row {row}"
    if bad == 1 and what.startswith("row"):
        where = f"row {row}"
    return f"{match['array']}: {bad:,} of {int(match['all']):,} {what}, {where}"
