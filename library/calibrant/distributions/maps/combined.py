"""Maps made of maps: one for each group, and the average of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument, LengthMismatch
from calibrant.distributions.forecasts import ForecastKind, Forecasts
from calibrant.distributions.maps.conformal import Conformal
from calibrant.distributions.maps.levels import LevelMap
from calibrant.distributions.maps.location_scale import LocationScale
from calibrant.distributions.maps.scales import LEVELS
from calibrant.distributions.maps.tables import QuantileTable, normal_of, table_of
from calibrant.distributions.maps.variance import VarianceCurve, VarianceLine
from calibrant.maps.curves import Numbers, read_array

Groups = Sequence[str] | None
#: The kind of forecasts, and the levels of quantiles or of the two ends of an interval.
Result = tuple[ForecastKind, Floats | None]
#: Shares of an average sum to 1 up to this.
_ROUNDING = 1e-9
#: The most functions that an average or a chain in a document applies to a row.
_MOST = 100


class ForecastFunction(Protocol):
    """A fitted function of forecasts: a frozen dataclass with its family and parameters."""

    family: ClassVar[str]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        ...

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters; ``InvalidDocument`` names the first invalid one."""
        ...


@dataclass(frozen=True)
class Unchanged(Numbers):
    """Forecasts stay as they are; samples become quantiles at ``levels``, unless these are empty."""

    family: ClassVar[str] = "identity"

    def __call__(self, forecasts: Forecasts) -> Forecasts:
        """Return the forecasts, samples as quantiles at the levels of the forecast hubs."""
        return table_of(forecasts).forecasts() if forecasts.kind == "samples" else forecasts

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:  # noqa: ARG003 - it has none
        """Return the identity, which has no parameters."""
        return cls()


@dataclass(frozen=True)
class ByGroup:
    """One function for each group, and ``other`` for groups that were not in the fit or had too few rows."""

    family: ClassVar[str] = "by-group"
    members: Mapping[str, ForecastFunction]
    other: ForecastFunction

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        return {
            "members": {name: function_document(member) for name, member in self.members.items()},
            "other": function_document(self.other),
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        members = parameters.get("members")
        if not isinstance(members, dict):
            raise InvalidDocument.at("/parameters/members", "must be an object of functions by group")
        read = {name: read_function(each, f"/parameters/members/{name}") for name, each in members.items()}
        return cls(MappingProxyType(read), read_function(parameters.get("other"), "/parameters/other"))


@dataclass(frozen=True)
class Average:
    """The weighted mean of the quantiles that the members predict; of normal forecasts, of means and of sds.

    Both are the mean of the members' quantile functions (Vincent 1912; Lichtendahl, Grushka-Cockayne & Winkler 2013).
    """

    family: ClassVar[str] = "average"
    members: tuple[ForecastFunction, ...]
    shares: Floats

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        return {"members": [function_document(member) for member in self.members], "shares": self.shares.tolist()}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        members = _read_members(parameters)
        shares = read_array(parameters, "shares", numeric=True, low=0.0, high=1.0, length=len(members))
        if abs(float(shares.sum()) - 1.0) > _ROUNDING:
            raise InvalidDocument.at("/parameters/shares", "must have the sum 1")
        return cls(members, shares)


@dataclass(frozen=True)
class Chain:
    """Functions that are applied one after the other."""

    family: ClassVar[str] = "chain"
    members: tuple[ForecastFunction, ...]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain JSON."""
        return {"members": [function_document(member) for member in self.members]}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read and check the parameters of a document."""
        return cls(_read_members(parameters))


# --- Application

_SIMPLE: Mapping[str, Any] = MappingProxyType(
    {kind.family: kind for kind in (Unchanged, VarianceLine, VarianceCurve, LocationScale, LevelMap, Conformal)}
)
FAMILIES: Mapping[str, Any] = MappingProxyType({**_SIMPLE, **{kind.family: kind for kind in (ByGroup, Average, Chain)}})


def applied(function: Any, forecasts: Forecasts, groups: Groups = None, seed: int = 0) -> Forecasts:
    """Apply a function to forecasts; ``groups`` are needed by functions by group. O(n Q) a member."""
    if isinstance(function, Average):
        return averaged((applied(member, forecasts, groups, seed) for member in function.members), function.shares)
    if isinstance(function, Chain):
        for member in function.members:
            forecasts = applied(member, forecasts, groups, seed)
        return forecasts
    if isinstance(function, ByGroup):
        return _by_group(function, forecasts, groups, seed)
    found: Forecasts = function(forecasts, seed) if isinstance(function, Conformal) else function(forecasts)
    return found


def needs_groups(function: Any) -> bool:
    """Return whether a function needs the group of each row."""
    if isinstance(function, Average | Chain):
        return any(needs_groups(member) for member in function.members)
    return isinstance(function, ByGroup)


def groups_of(function: Any) -> list[str]:
    """Return the groups that have a function of their own."""
    if isinstance(function, Average | Chain):
        return [name for member in function.members for name in groups_of(member)]
    return list(function.members) if isinstance(function, ByGroup) else []


def width_of(function: Any) -> int:
    """Return the largest number of quantiles per row that a function makes, also in between; 2 if it makes none."""
    if isinstance(function, Average | ByGroup):
        return max(map(width_of, _members(function).values()))
    if isinstance(function, Chain):
        return max(map(width_of, function.members), default=2)
    return len(function.levels) if isinstance(function, LevelMap | Conformal) else 2


def may_be_infinite(function: Any) -> bool:
    """Return whether a function returns infinite bounds for finite forecasts, because an offset is infinite."""
    if isinstance(function, Average | ByGroup):
        return any(may_be_infinite(member) for member in _members(function).values())
    if isinstance(function, Chain):
        return any(may_be_infinite(member) for member in function.members)
    return isinstance(function, Conformal) and bool(np.isinf(function.offsets).any())


def averaged(results: Iterable[Forecasts], shares: Floats) -> Forecasts:
    """Return the weighted mean of the quantile functions of forecasts of the same kind and levels, read one by one."""
    pairs = zip(shares, results, strict=True)
    share, first = next(pairs)
    if first.kind == "normal":
        mean, sd = share * first.mean, share * np.sqrt(first.variance)
        for share, each in pairs:
            mean, sd = mean + share * each.mean, sd + share * np.sqrt(each.variance)
        return normal_of(mean, sd * sd)
    table = table_of(first)
    q = np.zeros_like(table.q)
    for weight, each in chain([(share, first)], pairs):
        if weight > 0.0:  # infinite bounds of a member without a share do not count
            q += weight * table_of(each).q
    return table.with_values(q).forecasts()


def _by_group(function: ByGroup, forecasts: Forecasts, groups: Groups, seed: int) -> Forecasts:
    if groups is None:
        raise LengthMismatch.at("/by", "is missing: the map has one function for each value")
    members = [*function.members.values(), function.other]
    places = {name: i for i, name in enumerate(function.members)}
    found = np.array([places.get(name, len(places)) for name in groups])
    order = np.argsort(found, kind="stable")
    of_members = np.split(order, np.flatnonzero(np.diff(found[order])) + 1)
    parts = [(rows, applied(members[found[rows[0]]], forecasts.take(rows), None, seed)) for rows in of_members]
    rows = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
    first = parts[0][1]
    if first.kind == "normal":
        mean = np.concatenate([each.mean for _, each in parts])
        return normal_of(mean[rows], np.concatenate([each.variance for _, each in parts])[rows])
    tables: list[QuantileTable] = [table_of(each) for _, each in parts]
    return tables[0].with_values(np.concatenate([table.q for table in tables])[rows]).forecasts()


# --- Documents


def function_document(function: Any) -> dict[str, Any]:
    """Return a function as plain JSON: its family and parameters."""
    return {"family": function.family, "parameters": function.parameters()}


def read_function(document: Any, where: str = "") -> Any:
    """Read a function from its document; errors name places below ``where``."""
    family = document.get("family") if isinstance(document, Mapping) else None
    if not isinstance(family, str) or family not in FAMILIES:
        raise InvalidDocument.at(f"{where}/family", f"must be one of: {', '.join(FAMILIES)}")
    parameters = document.get("parameters")
    if not isinstance(parameters, dict):
        raise InvalidDocument.at(f"{where}/parameters", "must be an object")
    try:
        return FAMILIES[family].from_parameters(parameters)
    except RecursionError as error:
        raise InvalidDocument.at(f"{where}/parameters", "are nested too deeply") from error
    except InvalidDocument as error:
        raise error.under(where) from error


def _read_members(parameters: dict[str, Any]) -> tuple[ForecastFunction, ...]:
    """Read the members of an average or a chain, which are all applied to every row."""
    given = read_array(parameters, "members")
    members: list[ForecastFunction] = []
    if len(given) <= _MOST:
        members = [read_function(each, f"/parameters/members/{i}") for i, each in enumerate(given)]
    if len(given) > _MOST or sum(map(_applications, members)) > _MOST:
        raise InvalidDocument.at("/parameters/members", f"must apply at most {_MOST} functions to a row")
    return tuple(members)


def _applications(function: Any) -> int:
    """Return the largest number of functions that a function applies to a row."""
    if isinstance(function, ByGroup):
        return max(map(_applications, _members(function).values()))
    return sum(map(_applications, function.members)) if isinstance(function, Average | Chain) else 1


def result_of(function: Any, kind: ForecastKind, levels: Floats | None, where: str = "") -> Result:
    """Return the kind and levels of what a function returns for forecasts of ``kind`` at ``levels``.

    Raises ``InvalidDocument`` if it does not take them, or if its members do not return the same.
    """
    parameters = f"{where}/parameters"
    if isinstance(function, Chain):
        for i, member in enumerate(function.members):
            kind, levels = result_of(member, kind, levels, f"{parameters}/members/{i}")
        return kind, levels
    if isinstance(function, Average | ByGroup):
        members = _members(function)
        results = [result_of(each, kind, levels, f"{parameters}/{place}") for place, each in members.items()]
        for place, result in zip(members, results, strict=True):
            if not _alike(result, results[0]):
                raise InvalidDocument.at(f"{parameters}/{place}", "must return the same kind and levels as the others")
        return results[0]
    if isinstance(function, VarianceLine | VarianceCurve) and kind != "normal":
        raise InvalidDocument.at(f"{where}/family", f"takes means and variances, but the map takes {kind}")
    if isinstance(function, LevelMap):
        if kind == "interval":
            raise InvalidDocument.at(f"{where}/family", "does not take intervals")
        return "quantiles", function.levels
    if isinstance(function, Conformal):
        if kind in ("quantiles", "interval") and not _alike((kind, levels), (kind, function.levels)):
            raise InvalidDocument.at(f"{parameters}/levels", "must be the levels of the map")
        return (kind if kind == "interval" else "quantiles"), function.levels
    return ("quantiles", np.array(LEVELS)) if kind == "samples" else (kind, levels)


def _members(function: Average | ByGroup) -> dict[str, ForecastFunction]:
    """Return the members by their places in the parameters."""
    if isinstance(function, Average):
        return {f"members/{i}": member for i, member in enumerate(function.members)}
    return {**{f"members/{name}": member for name, member in function.members.items()}, "other": function.other}


def _alike(one: Result, other: Result) -> bool:
    (kind, levels), (same, others) = one, other
    if kind != same or levels is None or others is None:
        return kind == same and levels is others
    return len(levels) == len(others) and bool(np.allclose(levels, others, rtol=0.0, atol=_ROUNDING))
