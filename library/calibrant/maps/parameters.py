"""Parameters of fitted functions: what each of them means, its unit, and how it is read from a document."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar, get_type_hints, overload

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument

#: Units of parameters; most numbers have none.
Unit = Literal["", "probability", "logit"]
#: The largest finite number; integers of JSON can be larger.
LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Parameter:
    """A number, or numbers of this shape, in [low, high]; other kinds of parameters are subclasses.

    The ``shape`` is that of the reference of the document: ``t`` for t numbers, ``K rows of K`` for a matrix, with K
    the number of classes. Any other letter stands for the size with which it occurs first.
    """

    meaning: str
    unit: Unit = ""
    shape: str = ""
    low: float = -np.inf
    high: float = np.inf
    order: Literal["", "increasing", "not decreasing"] = ""
    #: Whether an array, or each row of a matrix, sums to 1 up to this tolerance; None if it need not.
    sum_within: float | None = None

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read and check the value from a document; ``sizes`` are those that the letters of shapes stand for."""
        if not self.shape:
            return read_number(parameters, name, low=self.low, high=self.high)
        listed = read_array(parameters, name)
        wide = isinstance(listed[0], list)
        shapes = self.shape.split(", or ")
        *height, width = shapes[-1 if wide else 0].split(" rows of ")
        if height:
            columns = _size(width, sizes, len(listed[0]) if wide else 1)
            values = read_matrix(parameters, name, (_size(height[0], sizes, len(listed)), columns), self.low, self.high)
        else:
            length, increasing = _size(width, sizes, len(listed)), self.order == "increasing"
            values = read_array(
                parameters, name, numeric=True, low=self.low, high=self.high, increasing=increasing, length=length
            )
        if self.order and np.any(np.diff(values) < 0.0):
            raise InvalidDocument.at(f"/parameters/{name}", "must not decrease")
        if self.sum_within is not None:
            wrong = np.flatnonzero(np.abs(np.atleast_1d(values.sum(axis=-1)) - 1.0) > self.sum_within)
            if len(wrong):
                place = f"/{wrong[0]}" if height else ""
                raise InvalidDocument.at(f"/parameters/{name}{place}", "must sum to 1")
        return values

    def plain(self, value: Any) -> Any:
        """Return a value as plain JSON."""
        return value.tolist() if isinstance(value, np.ndarray) else value


def _size(text: str, sizes: dict[str, int], actual: int) -> int:
    """Return the size that a text such as ``2 t + 1`` stands for; a letter without a size gets it from the actual one.

    Examples
    --------
    >>> sizes = {"K": 3}
    >>> _size("K", sizes, 5), _size("t", sizes, 4), _size("2 t + 1", sizes, 7), sizes
    (3, 4, 9, {'K': 3, 't': 4})
    """
    terms = text.split(" + ")
    unknown = [term for term in terms if term.isalpha() and term not in sizes]
    known = sum(
        math.prod(int(factor) if factor.isdigit() else sizes[factor] for factor in term.split())
        for term in terms
        if term not in unknown
    )
    for letter in unknown:
        sizes[letter] = actual - known
    return known + sum(sizes[letter] for letter in unknown)


@dataclass(frozen=True)
class Probability(Parameter):
    """A probability, or several."""

    unit: Unit = "probability"
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class Knots(Probability):
    """Ascending probabilities; those of a map of logits may be equal, and their logits ``at_logits`` are ascending."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read the probabilities, which are all different if there are no logits."""
        if "at_logits" not in parameters:
            return super().read(parameters, name, sizes)
        logits = AT_LOGITS.read(parameters, "at_logits", sizes)
        values = read_array(parameters, name, numeric=True, low=self.low, high=self.high, length=len(logits))
        if np.any(np.diff(values) < 0.0):
            raise InvalidDocument.at(f"/parameters/{name}", "must not decrease")
        return values


@dataclass(frozen=True)
class WholeNumber(Parameter):
    """A whole number."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read the number; 5.0 is one."""
        value = super().read(parameters, name, sizes)
        if not value.is_integer():
            raise InvalidDocument.at(f"/parameters/{name}", "must be a whole number")
        return int(value)


@dataclass(frozen=True)
class Flag(Parameter):
    """True or false."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read true or false."""
        value = parameters.get(name)
        if not isinstance(value, bool):
            raise InvalidDocument.at(f"/parameters/{name}", "must be true or false")
        return value


@dataclass(frozen=True)
class ParameterChoice(Parameter):
    """One of several texts."""

    choices: tuple[str, ...] = ()

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read the text."""
        value = parameters.get(name)
        if value not in self.choices:
            raise InvalidDocument.at(f"/parameters/{name}", f"must be one of: {', '.join(self.choices)}")
        return value


#: The logits of the places of a map.
AT_LOGITS = Parameter("logits of a map of logits", "logit", "t", order="increasing")


class FittedFunction(Protocol):
    """A fitted function: a frozen dataclass with its family and parameters."""

    family: ClassVar[str]
    formula: ClassVar[str]

    @classmethod
    def known_parameters(cls) -> Mapping[str, Parameter]:
        """Return what each parameter means."""
        ...

    @classmethod
    def marked_formula(cls) -> str:
        """Return the formula with the names of parameters between backticks."""
        ...

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        ...

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], n_classes: int = 0) -> Self:
        """Read and check the parameters, of a map of K classes; ``InvalidDocument`` names the first invalid one."""
        ...


@dataclass(frozen=True)
class Parametric:
    """Base class of fitted functions whose parameters are their fields, of types ``Annotated[..., Parameter(...)]``.

    A parameter whose default is None is left out of documents if it is None. The ``formula`` uses their names.
    """

    formula: ClassVar[str]

    @classmethod
    @cache
    def known_parameters(cls) -> Mapping[str, Parameter]:
        """Return what each parameter means, in the order of the fields.

        Examples
        --------
        >>> from calibrant.maps.platt import Platt
        >>> {name: parameter.meaning for name, parameter in Platt.known_parameters().items()}
        {'slope': 'factor of the logit', 'intercept': 'added to the logit'}
        """
        hints = get_type_hints(cls, include_extras=True)
        return MappingProxyType({field.name: hints[field.name].__metadata__[0] for field in fields(cls)})

    @classmethod
    def marked_formula(cls) -> str:
        """Return the formula with the names of parameters between backticks, as in Markdown."""
        names = "|".join(cls.known_parameters()) or "$^"
        return re.sub(rf"\b({names})\b", r"`\1`", cls.formula)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        values = {name: parameter.plain(getattr(self, name)) for name, parameter in self.known_parameters().items()}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], n_classes: int = 0) -> Self:
        """Read and check the parameters, of a map of K classes; ``InvalidDocument`` names the first invalid one."""
        known, sizes = cls.known_parameters(), cls.sizes(n_classes)
        function = cls(
            **{
                field.name: known[field.name].read(parameters, field.name, sizes)
                for field in fields(cls)
                if field.default is not None or field.name in parameters
            }
        )
        function.check()
        return function

    @classmethod
    def sizes(cls, n_classes: int) -> dict[str, int]:
        """Return the sizes that letters in shapes stand for."""
        return {"K": n_classes}

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the parameters are invalid together."""


Part = TypeVar("Part", bound=FittedFunction)


def read_part(document: Any, where: str, families: Mapping[str, type[Part]], n_classes: int = 0) -> Part:
    """Read a function of one of these families, a part of a map; errors name places below ``where``."""
    family = document.get("family") if isinstance(document, Mapping) else None
    if not isinstance(family, str) or family not in families:
        raise InvalidDocument.at(f"{where}/family", f"must be one of: {', '.join(families)}")
    parameters = document.get("parameters")
    if not isinstance(parameters, dict):
        raise InvalidDocument.at(f"{where}/parameters", "must be an object")
    try:
        return families[family].from_parameters(parameters, n_classes)
    except InvalidDocument as error:
        raise error.under(where) from None


def function_document(function: Any) -> dict[str, Any]:
    """Return a fitted function as plain JSON: its family and parameters."""
    return {"family": function.family, "parameters": function.parameters()}


# --- Parameters of several families

#: Knots between which a curve is linear.
KNOTS = Knots("predicted probabilities between which the map is linear", shape="t", order="increasing")
LogitSlope = Annotated[float, Parameter("factor of the logit")]
LogitShift = Annotated[float, Parameter("added to the logit", "logit")]
Divisor = Annotated[
    float, Parameter("divisor of the logits; above 1, the predictions were overconfident", low=1e-300, high=1e300)
]
Weights = Annotated[Floats, Parameter("matrix W, with a row for each class", shape="K rows of K")]
Intercepts = Annotated[Floats, Parameter("vector b, with a number for each class", "logit", "K")]
Smoothing = Annotated[float, Parameter("how far predictions are smoothed, a", low=0.0, high=1.0)]
KeepOrder = Annotated[bool, Flag("whether the classes of a row keep their order")]


# --- Readers of numbers


def read_number(
    parameters: Mapping[str, Any], field: str, *, where: str = "/parameters", low: float = -np.inf, high: float = np.inf
) -> float:
    """Read a finite number in [low, high] from a document."""
    value = parameters.get(field) if isinstance(parameters, Mapping) else None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not -LARGEST <= value <= LARGEST
        or not low <= value <= high
    ):
        raise _not_finite(f"{where}/{field}", low, high)
    return float(value)


@overload
def read_array(
    parameters: Any, field: str, *, numeric: Literal[False] = False, where: str = "/parameters"
) -> list[Any]: ...
@overload
def read_array(
    parameters: Any,
    field: str,
    *,
    numeric: Literal[True],
    where: str = "/parameters",
    low: float = -np.inf,
    high: float = np.inf,
    increasing: bool = False,
    length: int | None = None,
) -> Floats: ...
def read_array(
    parameters: Any,
    field: str,
    *,
    numeric: bool = False,
    where: str = "/parameters",
    low: float = -np.inf,
    high: float = np.inf,
    increasing: bool = False,
    length: int | None = None,
) -> list[Any] | Floats:
    """Read a non-empty array from a document; with ``numeric``, of finite numbers in [low, high]."""
    pointer = f"{where}/{field}"
    values = parameters.get(field) if isinstance(parameters, Mapping) else None
    if not isinstance(values, list) or not values:
        raise InvalidDocument.at(pointer, "must be a non-empty array")
    if not numeric:
        return values
    lowest, highest = max(low, -LARGEST), min(high, LARGEST)
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
            raise _not_finite(f"{pointer}/{i}", low, high)
    if length is not None and len(values) != length:
        raise InvalidDocument.at(pointer, f"must contain {length} numbers")
    numbers = np.array(values, dtype=np.float64)
    if increasing and np.any(numbers[1:] <= numbers[:-1]):
        raise InvalidDocument.at(pointer, "must be strictly increasing")
    return numbers


def _not_finite(pointer: str, low: float, high: float) -> InvalidDocument:
    ends = "" if np.isinf(low) and np.isinf(high) else f" in [{low:g}, {high:g}]"
    return InvalidDocument.at(pointer, f"must be a finite number{ends}")


def read_matrix(parameters: Any, field: str, shape: tuple[int, int], low: float, high: float) -> Floats:
    """Read a matrix of finite numbers in [low, high] with this shape from a document."""
    rows, where = read_array(parameters, field), f"/parameters/{field}"
    if len(rows) != shape[0]:
        raise InvalidDocument.at(where, f"must contain {shape[0]} rows")
    return np.array(
        [
            read_array({str(i): row}, str(i), where=where, numeric=True, length=shape[1], low=low, high=high)
            for i, row in enumerate(rows)
        ]
    )
