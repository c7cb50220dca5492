"""Curves: what a family of binary maps is, the identity and constants, and the reading of numbers from a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, Self, overload

import numpy as np
from scipy.special import logit

from calibrant.cells import Cells, Floats
from calibrant.errors import InvalidDocument, OneClass

#: Log loss and logits of probabilities clip here unless a definition names another clip.
PROBABILITY_CLIP = 2.0**-52
#: Probabilities that are worked on at once, so that they stay in the processor's cache.
_BLOCK = 1 << 14
#: Interpolation searches for fewer points one by one, and looks more up on an even grid of so many intervals.
_MANY, _GRID = 1 << 15, 1 << 16


class Curve(Protocol):
    """A fitted function of one probability: a frozen dataclass with a name and its numbers."""

    family: ClassVar[str]

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]."""
        ...

    def parameters(self) -> dict[str, Any]:
        """The numbers that make this curve, as plain JSON."""
        ...

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read the numbers, each checked; ``InvalidDocument`` names the first bad one."""
        ...


@dataclass(frozen=True)
class Numbers:
    """The document of a fitted function whose fields, numbers and arrays of them, are all there is to it."""

    def parameters(self) -> dict[str, Any]:
        """The numbers that make this function, as plain JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def clipped_logit(p: Floats, clip: float = PROBABILITY_CLIP) -> Floats:
    """Natural log-odds of ``p`` clipped to [clip, 1 - clip]."""
    result: Floats = logit(np.minimum(np.maximum(p, clip), 1.0 - clip))
    return result


def fast_logit(p: Floats, clip: float = PROBABILITY_CLIP) -> Floats:
    """``clipped_logit`` of a block of ``p`` to some 1e-15, several times faster."""
    p = np.minimum(np.maximum(p, clip), 1.0 - clip)  # np.clip takes its time to begin
    p /= 1.0 - p
    return np.log(p, out=p)


def fast_logistic(f: Floats, out: Floats | None = None) -> Floats:
    """Logistic function of a block of ``f``, to the last digit or two, several times faster than SciPy's.

    ``out`` takes the result, and may be ``f``.
    """
    with np.errstate(over="ignore"):  # beyond the doubles it is 0
        found = np.negative(f, out=out)
        np.exp(found, out=found)
    found += 1.0
    return np.divide(1.0, found, out=found)


def in_blocks(function: Callable[[Floats], Floats], p: Floats) -> Floats:
    """An elementwise function of ``p (n,)``, block by block, so that what it makes stays in the processor's cache."""
    if len(p) <= _BLOCK:
        return function(p)
    found = np.empty(len(p))
    for start in range(0, len(p), _BLOCK):
        found[start : start + _BLOCK] = function(p[start : start + _BLOCK])
    return found


def check_outcomes(cells: Cells) -> float:
    """The mass of positives; raises ``OneClass`` where it is nothing or everything. O(m)."""
    positives = float(cells.cumulative_wy[-1])
    if positives <= 0.0 or positives >= cells.mass:
        raise OneClass.at("/labels", "hold one class only, where a fit needs both")
    return positives


def read_number(
    parameters: Mapping[str, Any], field: str, *, where: str = "/parameters", low: float = -np.inf, high: float = np.inf
) -> float:
    """Read one finite number in [low, high] of a document."""
    value = parameters.get(field) if isinstance(parameters, Mapping) else None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not np.isfinite(value)
        or not low <= value <= high
    ):
        ends = "" if np.isinf(low) and np.isinf(high) else f" in [{low:g}, {high:g}]"
        raise InvalidDocument.at(f"{where}/{field}", f"must be a finite number{ends}")
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
    """Read one non-empty array of a document; with ``numeric``, of finite numbers in [low, high]."""
    pointer = f"{where}/{field}"
    values = parameters.get(field) if isinstance(parameters, Mapping) else None
    if not isinstance(values, list) or not values:
        raise InvalidDocument.at(pointer, "must be a non-empty array")
    if not numeric:
        return values
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or np.isinf(value):
            raise InvalidDocument.at(f"{pointer}/{i}", f"must be a finite number in [{low:g}, {high:g}]")
    if length is not None and len(values) != length:
        raise InvalidDocument.at(pointer, f"must hold {length} numbers")
    numbers = np.array(values, dtype=np.float64)
    if increasing and np.any(numbers[1:] <= numbers[:-1]):
        raise InvalidDocument.at(pointer, "must be strictly increasing")
    return numbers


def interpolate(x: Floats, knots: Floats, heights: Floats) -> Floats:
    """As ``np.interp``, of many points by a look-up on an even grid instead of a search for each.

    Linear between ``knots (t,)``, strictly increasing, and constant outside; ``x (n,)`` is finite, in any order.
    O(n + t) where few knots share an interval of the grid, else O(n log t).
    """
    t = len(knots)
    if len(x) < _MANY or t < 2 or t > _GRID // 4:
        return np.interp(x, knots, heights)
    low, high = float(knots[0]), float(knots[-1])
    per = _GRID / (high - low)
    if not np.isfinite(per):
        return np.interp(x, knots, heights)
    place = np.minimum(((knots - low) * per).astype(np.intp), _GRID - 1)
    inside = np.bincount(place, minlength=_GRID)
    # The segment that a whole interval of the grid lies in; where a knot lies inside, the segment is searched.
    segment = np.cumsum(inside) - 1
    segment[inside > 0] = -1
    with np.errstate(over="ignore"):  # of knots next to each other, which share an interval and are searched
        slope = np.append(np.diff(heights) / np.diff(knots), 0.0)
    found = np.empty(len(x))
    for start in range(0, len(x), _BLOCK):
        part = np.minimum(np.maximum(x[start : start + _BLOCK], low), high)
        at = segment.take(((part - low) * per).astype(np.intp), mode="clip")
        values = (part - knots.take(at, mode="wrap")) * slope.take(at, mode="wrap") + heights.take(at, mode="wrap")
        searched = np.flatnonzero(at < 0)
        values[searched] = np.interp(part[searched], knots, heights)
        found[start : start + _BLOCK] = values
    return found


@dataclass(frozen=True)
class Identity(Numbers):
    """c(p) = p. Monotone, differentiable, no parameters."""

    family: ClassVar[str] = "identity"

    def __call__(self, p: Floats) -> Floats:
        """Give ``p (n,)`` back, as a copy. O(n)."""
        return p.copy()

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:  # noqa: ARG003 - it has none
        """Nothing to read."""
        return cls()


@dataclass(frozen=True)
class Constant(Numbers):
    """c(p) = ``value``, in [0, 1]. Monotone, differentiable."""

    family: ClassVar[str] = "constant"
    value: float

    def __call__(self, p: Floats) -> Floats:
        """The value for each ``p (n,)``. O(n)."""
        return np.full(len(p), self.value)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's number."""
        return cls(read_number(parameters, "value", low=0.0, high=1.0))
