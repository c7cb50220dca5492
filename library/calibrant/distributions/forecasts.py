"""Predictive distributions of a real number, and their outcomes, checked once before any computation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from calibrant.core.arrays import Compared, array_of, levels_of
from calibrant.core.batch import Fractional, Integers, read_numbers
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.choices import ForecastKind as ForecastKind
from calibrant.core.errors import (
    CalibrationError,
    CrossingQuantiles,
    EmptyBatch,
    InvalidOption,
    InvalidVariance,
    LengthMismatch,
    NotFinite,
    OutOfRange,
    WrongShape,
)
from calibrant.core.results import counted, n_rows

KINDS: tuple[ForecastKind, ...] = get_args(ForecastKind)
#: The smallest distance of levels from each other, from 0 and from 1: smaller ones are errors of rounding.
CLOSEST = 1e-12
#: The arguments of each kind.
FIELDS: Mapping[ForecastKind, tuple[str, ...]] = MappingProxyType(
    {
        "normal": ("mean", "variance"),
        "quantiles": ("quantiles", "levels"),
        "samples": ("samples",),
        "interval": ("lower", "upper", "level"),
    }
)
#: The arguments of all kinds.
ARGUMENTS = ("std", *(name for names in FIELDS.values() for name in names))
#: The largest numbers of a fit, so that squares and sums are finite.
LARGEST = 1e150
#: Quantiles that cross by at most this fraction of the larger one are repaired.
CROSSING = 1e-6


def _empty() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Forecasts(Compared):
    """Predictive distributions of n outcomes; fields of other kinds are empty.

    They are passed to other functions by name: ``calibrant.evaluate_distribution(observed, **forecasts)``.

    Attributes
    ----------
    kind : {"normal", "quantiles", "samples", "interval"}
        What the distributions are given as.
    mean, variance : ndarray, shape (n,)
        Of normal distributions.
    quantiles, levels : ndarray, shapes (n, Q) and (Q,)
        Quantiles at strictly increasing levels in (0, 1).
    samples : ndarray, shape (n, S)
        Samples.
    lower, upper : ndarray, shape (n,)
        Ends of central intervals.
    level : float
        Level of the intervals, in (0, 1).
    n_repaired : int
        Rows whose quantiles or bounds crossed up to rounding, and were sorted.
    """

    kind: ForecastKind
    mean: Floats = field(default_factory=_empty, repr=False)
    variance: Floats = field(default_factory=_empty, repr=False)
    quantiles: Floats = field(default_factory=_empty, repr=False)
    levels: Floats = field(default_factory=_empty, repr=False)
    samples: Floats = field(default_factory=_empty, repr=False)
    lower: Floats = field(default_factory=_empty, repr=False)
    upper: Floats = field(default_factory=_empty, repr=False)
    level: float = 0.0
    n_repaired: int = 0

    def __repr__(self) -> str:
        of = {
            "normal": "normal",
            "quantiles": f"quantiles at {counted(len(self.levels), 'level')}",
            "samples": f"{counted(self.samples.shape[-1], 'sample')} each",
            "interval": f"intervals of level {self.level:g}",
        }
        return f"Forecasts: {n_rows(len(self))}, {of[self.kind]}"

    def __len__(self) -> int:
        return len(getattr(self, FIELDS[self.kind][0]))

    @property
    def width(self) -> int:
        """The numbers of each forecast in its first argument."""
        return int(getattr(self, FIELDS[self.kind][0])[:1].size)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the arguments of this kind."""
        return FIELDS[self.kind]

    def __getitem__(self, name: str) -> Any:
        """Return an argument of this kind by its name."""
        if name not in FIELDS[self.kind]:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def take(self, rows: Integers) -> Forecasts:
        """Return the chosen rows; ``n_repaired`` stays that of all rows."""
        chosen = {name: getattr(self, name)[rows] for name in FIELDS[self.kind] if name not in ("levels", "level")}
        return replace(self, **chosen)

    def quantile(self, levels: Floats) -> Floats:
        """Return the quantiles ``(n, len(levels))``; those of samples as in numpy's ``quantile``. O(n Q).

        Given quantiles are linear in the level, and constant beyond the outermost levels; so are the ends of intervals.
        """
        if self.kind == "normal":
            return np.asarray(self.mean[:, None] + np.sqrt(self.variance)[:, None] * ndtri(levels))
        if self.kind == "samples":
            return np.asarray(np.quantile(self.samples, levels, axis=1).T)
        known = self.levels
        table = self.quantiles
        if self.kind == "interval":
            known, table = np.array([1.0 - self.level, 1.0 + self.level]) / 2.0, np.stack([self.lower, self.upper], 1)
        if len(known) == 1:
            return np.repeat(table, len(levels), axis=1)
        right = np.clip(np.searchsorted(known, levels), 1, len(known) - 1)
        share = np.clip((levels - known[right - 1]) / (known[right] - known[right - 1]), 0.0, 1.0)
        return table[:, right - 1] + share * (table[:, right] - table[:, right - 1])

    def cdf(self, y: Floats) -> Floats:
        """Return P(Y <= y) ``(n,)`` of normal distributions and samples. O(n S)."""
        if self.kind == "normal":
            return np.asarray(ndtr((y - self.mean) / np.sqrt(self.variance)))
        if self.kind == "samples":
            return np.asarray((self.samples <= y[:, None]).mean(axis=1))
        raise InvalidOption.at("/kind", "must be normal or samples: quantiles leave the tails open")


def read_forecasts(**arguments: Any) -> Forecasts:
    """Check forecasts by name: exactly the arguments of one kind, None for the others; ``std`` replaces ``variance``.

    Raises
    ------
    CalibrationError
        If arguments of several kinds or of none are given, or values are invalid; the error names the first rows.
    """
    present = {name: value for name, value in arguments.items() if value is not None}
    spread = "std" if "std" in present else "variance"
    if "std" in present:
        if "variance" in present:
            raise InvalidOption.at("/std", "cannot be combined with variance; pass one of the two")
        present["variance"] = _squared(present.pop("std"))
    if "quantiles" in present and set(present) <= {"quantiles", "levels"}:
        present["levels"] = levels_of(present["quantiles"], present.get("levels"))
    if set(present) == {"lower", "upper"}:
        raise InvalidOption.at("/level", "is missing; pass the level of the intervals, in (0, 1)")
    kind = next((kind for kind, names in FIELDS.items() if set(names) == set(present)), None)
    if kind is None:
        wanted = "; ".join(" and ".join(names) for names in FIELDS.values()).replace("variance", "variance or std")
        raise InvalidOption.at("", f"forecasts must be given as one of: {wanted}")
    if kind == "normal":
        mean, variance = (_numbers(present[name], name, 1) for name in ("mean", "variance"))
        _same_rows(mean, "mean", variance, spread)
        refuse(variance <= 0.0, "/variance", "must be above 0", InvalidVariance)
        return Forecasts(kind, mean=mean, variance=variance)
    if kind == "samples":
        return Forecasts(kind, samples=_numbers(present["samples"], "samples", 2))
    if kind == "interval":
        lower, upper = (_numbers(present[name], name, 1) for name in ("lower", "upper"))
        _same_rows(lower, "lower", upper, "upper")
        level = present["level"]
        if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0.0 < float(level) < 1.0:
            raise OutOfRange.at("/level", "must be a number above 0 and below 1")
        check_levels(np.array([1.0 - level, 1.0 + level]) / 2.0, "/level", OutOfRange)
        table, repaired = _ascending(np.column_stack([lower, upper]), "/upper")
        return Forecasts(kind, lower=table[:, 0], upper=table[:, 1], level=float(level), n_repaired=repaired)
    quantiles, levels = _numbers(present["quantiles"], "quantiles", 2), _numbers(present["levels"], "levels", 1)
    if len(levels) != quantiles.shape[1]:
        turned = "quantiles.T" if hasattr(present["quantiles"], "T") else "np.transpose(quantiles)"
        hint = f"; for one row per forecast pass {turned}" if len(levels) == len(quantiles) else ""
        raise LengthMismatch.at(
            "/levels",
            f"has {counted(len(levels), 'number')}, but quantiles have {counted(quantiles.shape[1], 'column')}{hint}",
        )
    check_levels(levels, "/levels", OutOfRange)
    quantiles, repaired = _ascending(quantiles, "/quantiles")
    return Forecasts(kind, quantiles=quantiles, levels=levels, n_repaired=repaired)


def _squared(std: Any) -> Floats:
    """Return variances; raises ``InvalidVariance`` for standard deviations that are not above 0."""
    values = read_numbers(array_of(std, "std"), "/std")
    if values.ndim != 1:
        raise WrongShape.at("/std", "must have shape (n,)")
    if not values.size:
        raise EmptyBatch.at("/std", "has no rows")
    refuse(~(values > 0.0), "/std", "must be above 0", InvalidVariance)
    with np.errstate(over="ignore", under="ignore"):
        squares = np.asarray(values * values)
    wanted = "must have a finite square above 0, as those from 1e-150 to 1e150"
    # Subnormal squares have lost digits.
    refuse(~((squares >= np.finfo(np.float64).tiny) & np.isfinite(squares)), "/std", wanted, InvalidVariance)
    return squares


def check_levels(levels: Floats, pointer: str, error: type[CalibrationError]) -> None:
    """Raise an error unless levels are strictly increasing in (0, 1), and as far apart as ``CLOSEST``."""
    if not np.all((levels > 0.0) & (levels < 1.0)) or np.any(np.diff(levels) <= 0.0):
        hint = "; divide percentages by 100" if np.all((levels > 0.0) & (levels < 100.0)) and levels.max() > 1.0 else ""
        if np.all(np.diff(levels) < 0.0) and len(levels) > 1:
            hint = "; reverse them and the columns of quantiles"
        raise error.at(pointer, f"must be strictly increasing numbers above 0 and below 1{hint}")
    if np.any(np.diff(levels, prepend=0.0, append=1.0) < CLOSEST):
        raise error.at(pointer, f"must differ from each other, from 0 and from 1 by at least {CLOSEST:g}")


def read_observed(observed: Any, forecasts: Forecasts) -> Floats:
    """Check an outcome of each forecast, which must be finite numbers."""
    y, n = _numbers(observed, "observed", 1), len(forecasts)
    if len(y) != n:
        turned = forecasts.kind == "samples" and forecasts.samples.shape[1] == len(y)
        hint = "; for one row per forecast pass np.transpose(samples)" if turned else ""
        raise LengthMismatch.at("/observed", f"has {n_rows(len(y))}, but the forecasts have {n:,}{hint}")
    return y


def refuse_huge(forecasts: Forecasts, y: Floats) -> None:
    """Raise an error for outcomes and forecasts above ``LARGEST``."""
    refuse(np.abs(y) > LARGEST, "/observed", f"must be at most {LARGEST:g} in size")
    for name in FIELDS[forecasts.kind]:
        refuse(np.abs(np.asarray(getattr(forecasts, name))) > LARGEST, f"/{name}", f"must be at most {LARGEST:g}")


def refuse(bad: npt.NDArray[np.bool_], pointer: str, wanted: str, error: type[CalibrationError] = OutOfRange) -> None:
    """Raise an error that counts the invalid places and names the first of them, if there are any."""
    places = np.argwhere(bad)
    if len(places):
        counted = f"{len(places)} of {bad.size} {'is' if len(places) == 1 else 'are'} invalid, which {wanted}"
        refused = error.at_places(pointer, places, wanted, counted)
        refused.n_invalid = len(places)
        raise refused


def _numbers(values: Any, field: str, ndim: int) -> Floats:
    array = read_numbers(array_of(values, field), f"/{field}")
    if array.ndim != ndim:
        hint = f"; pass {field}.reshape(-1)" if ndim == 1 and array.ndim == 2 and array.shape[1] == 1 else ""
        raise WrongShape.at(f"/{field}", f"must have shape {'(n,)' if ndim == 1 else '(n, columns)'}{hint}")
    if not array.size:
        raise EmptyBatch.at(f"/{field}", "has no rows")
    refuse(~np.isfinite(array), f"/{field}", "must be finite", NotFinite)
    return array


def _same_rows(values: Floats, name: str, other: Floats, other_name: str) -> None:
    if len(values) != len(other):
        raise LengthMismatch.at(f"/{other_name}", f"has {n_rows(len(other))}, but /{name} has {len(values):,}")


def _ascending(table: Floats, pointer: str) -> tuple[Floats, int]:
    """Return quantiles in order, and the rows that were repaired; refuse those that cross by more than rounding."""
    with np.errstate(over="ignore"):
        drop = table[:, :-1] - table[:, 1:]
    if not (drop > 0.0).any():
        return table, 0
    size = np.maximum(np.abs(table[:, :-1]), np.abs(table[:, 1:]))
    crossed: npt.NDArray[np.bool_] = np.any(drop > CROSSING * size, axis=1)
    refuse(crossed, pointer, "must not be below a quantile at a lower level", CrossingQuantiles)
    return np.maximum.accumulate(table, axis=1), int((drop > 0.0).any(axis=1).sum())


# --- Forecasts with the columns that come with them, before an evaluation or a fit checks them

#: The columns of forecasts with a name for each row.
NAMED_COLUMNS = ("groups", "clusters", "by", "times")


@dataclass(frozen=True)
class ForecastRows:
    """Checked forecasts ``(n,)`` and their columns, which are checked when they are used; None for missing ones.

    ``known`` has when each outcome became known, or "". ``others`` are other forecasts of the same outcomes by name,
    which an evaluation compares.
    """

    forecasts: Forecasts
    observed: Any = None
    weights: Any = None
    weights_kind: WeightsKind | Fractional = "importance"
    groups: Sequence[str] | None = None
    clusters: Sequence[str] | None = None
    by: Sequence[str] | None = None
    times: Sequence[str] | None = None
    known: Sequence[str] | None = None
    others: Mapping[str, Forecasts] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.forecasts)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that there are."""
        return [name for name in ("observed", "weights", *NAMED_COLUMNS) if getattr(self, name) is not None]

    def taken(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Return the chosen rows."""
        numbers = {name: getattr(self, name) for name in ("observed", "weights")}
        taken: dict[str, Any] = {name: None if own is None else own[chosen] for name, own in numbers.items()}
        taken |= {name: self._texts(name, chosen) for name in (*NAMED_COLUMNS, "known")}
        return replace(self, forecasts=self.forecasts.take(np.flatnonzero(chosen)), **taken)

    def _texts(self, name: str, chosen: npt.NDArray[np.bool_]) -> list[str] | None:
        texts = getattr(self, name)
        return None if texts is None else [text for text, is_chosen in zip(texts, chosen, strict=True) if is_chosen]
