"""Maps made of maps: one for each group, and the average of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Protocol

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
from calibrant.maps.parameters import FittedFunction, Parameter, Parametric, function_document, read_array, read_part

Groups = Sequence[str] | None
#: The kind of forecasts, and the levels of quantiles or of the two ends of an interval.
Result = tuple[ForecastKind, Floats | None]
#: Shares of an average sum to 1 up to this.
_ROUNDING = 1e-9
#: The most functions that an average or a chain in a document applies to a row.
_MOST = 100


class ForecastFunction(FittedFunction, Protocol):
    """A fitted function of forecasts."""


@dataclass(frozen=True)
class _CombinedMembers(Parameter):
    """Functions that are all applied to every row, each with its family."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read the functions."""
        documents = read_array(parameters, name)
        members: list[ForecastFunction] = []
        if len(documents) <= _MOST:
            members = [read_function(document, f"/parameters/{name}/{i}") for i, document in enumerate(documents)]
        if len(documents) > _MOST or sum(map(_applications, members)) > _MOST:
            raise InvalidDocument.at(f"/parameters/{name}", f"must apply at most {_MOST} functions to a row")
        sizes[self.shape] = len(members)
        return tuple(members)

    def plain(self, value: Any) -> Any:
        """Return functions as plain JSON."""
        return [function_document(member) for member in value]


@dataclass(frozen=True)
class _ByName(Parameter):
    """Functions by name, each with its family."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read the functions."""
        members = parameters.get(name)
        if not isinstance(members, dict):
            raise InvalidDocument.at(f"/parameters/{name}", "must be an object of functions by group")
        return MappingProxyType(
            {group: read_function(document, f"/parameters/{name}/{group}") for group, document in members.items()}
        )

    def plain(self, value: Any) -> Any:
        """Return functions as plain JSON."""
        return {group: function_document(member) for group, member in value.items()}


@dataclass(frozen=True)
class _Function(Parameter):
    """A function with its family."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read the function."""
        return read_function(parameters.get(name), f"/parameters/{name}")

    def plain(self, value: Any) -> Any:
        """Return the function as plain JSON."""
        return function_document(value)


@dataclass(frozen=True)
class Unchanged(Parametric):
    """Forecasts stay as they are; samples become quantiles at ``levels``, unless these are empty."""

    family: ClassVar[str] = "identity"
    formula: ClassVar[str] = "the forecasts"

    def __call__(self, forecasts: Forecasts) -> Forecasts:
        """Return the forecasts, samples as quantiles at the levels of the forecast hubs."""
        return table_of(forecasts).forecasts() if forecasts.kind == "samples" else forecasts


@dataclass(frozen=True)
class ByGroup(Parametric):
    """One function for each group, and ``other`` for groups that were not in the fit or had too few rows."""

    family: ClassVar[str] = "by-group"
    formula: ClassVar[str] = "the member whose name is the value of by as text, or if there is none, other"
    members: Annotated[Mapping[str, ForecastFunction], _ByName("functions by group")]
    other: Annotated[ForecastFunction, _Function("function of all other groups")]


@dataclass(frozen=True)
class Average(Parametric):
    """The weighted mean of the quantiles that the members predict; of normal forecasts, of means and of sds.

    Both are the mean of the members' quantile functions (Vincent 1912; Lichtendahl, Grushka-Cockayne & Winkler 2013).
    """

    family: ClassVar[str] = "average"
    formula: ClassVar[str] = (
        "the mean of the members' quantiles, or of their means and of their standard deviations, weighted by the shares"
    )
    members: Annotated[tuple[ForecastFunction, ...], _CombinedMembers("functions of the forecasts", shape="M")]
    shares: Annotated[Floats, Parameter("weights of the members", "", "M", 0.0, 1.0, sum_within=_ROUNDING)]


@dataclass(frozen=True)
class Chain(Parametric):
    """Functions that are applied one after the other."""

    family: ClassVar[str] = "chain"
    formula: ClassVar[str] = "the members, one after the other"
    members: Annotated[
        tuple[ForecastFunction, ...], _CombinedMembers("functions, the first of the forecasts", shape="M")
    ]


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
    return function(forecasts, seed) if isinstance(function, Conformal) else function(forecasts)


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
        for share, result in pairs:
            mean, sd = mean + share * result.mean, sd + share * np.sqrt(result.variance)
        return normal_of(mean, sd * sd)
    table = table_of(first)
    q = np.zeros_like(table.q)
    for weight, result in chain([(share, first)], pairs):
        if weight > 0.0:  # infinite bounds of a member without a share do not count
            q += weight * table_of(result).q
    return table.with_values(q).forecasts()


def _by_group(function: ByGroup, forecasts: Forecasts, groups: Groups, seed: int) -> Forecasts:
    if groups is None:
        raise LengthMismatch.at("/by", "is missing: the map has one function for each value")
    members = [*function.members.values(), function.other]
    places = {name: i for i, name in enumerate(function.members)}
    member_of_row = np.array([places.get(name, len(places)) for name in groups])
    order = np.argsort(member_of_row, kind="stable")
    of_members = np.split(order, np.flatnonzero(np.diff(member_of_row[order])) + 1)
    parts = [(rows, applied(members[member_of_row[rows[0]]], forecasts.take(rows), None, seed)) for rows in of_members]
    rows = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
    first = parts[0][1]
    if first.kind == "normal":
        mean = np.concatenate([part.mean for _, part in parts])
        return normal_of(mean[rows], np.concatenate([part.variance for _, part in parts])[rows])
    tables: list[QuantileTable] = [table_of(part) for _, part in parts]
    return tables[0].with_values(np.concatenate([table.q for table in tables])[rows]).forecasts()


# --- Documents


def read_function(document: Any, where: str = "") -> Any:
    """Read a function from its document; errors name places below ``where``."""
    try:
        return read_part(document, where, FAMILIES)
    except RecursionError as error:
        raise InvalidDocument.at(f"{where}/parameters", "are nested too deeply") from error


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
        results = [
            result_of(member_function, kind, levels, f"{parameters}/{place}")
            for place, member_function in members.items()
        ]
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


def _alike(result: Result, other: Result) -> bool:
    (kind, levels), (same, others) = result, other
    if kind != same or levels is None or others is None:
        return kind == same and levels is others
    return len(levels) == len(others) and bool(np.allclose(levels, others, rtol=0.0, atol=_ROUNDING))
