"""The catalogue of calibrators of predictive distributions, and their fits with a cross-fitted gain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from calibrant.core.arguments import explained, refuse_misspelt
from calibrant.core.arrays import check_aligned, group_names, numbered_names
from calibrant.core.batch import Fractional, Integers, check_kind, check_weights, counted_kind
from calibrant.core.cells import Floats, WeightsKind, effective
from calibrant.core.errors import CalibrationError, InvalidOption, LengthMismatch, TooFewRows, UnknownMethod, one_of
from calibrant.core.options import Catalogue, Described, Option, known_name, read_seed, read_values
from calibrant.core.results import n_rows
from calibrant.distributions.cross_fitting import (
    FOLDS,
    Loss,
    MemberFit,
    best_shares,
    cross_fitted,
    gain_of,
    held_out_gain,
    sample,
)
from calibrant.distributions.forecasts import (
    ForecastKind,
    ForecastRows,
    Forecasts,
    check_levels,
    read_forecasts,
    read_observed,
    refuse,
    refuse_huge,
)
from calibrant.distributions.maps import conformal, location_scale, variance
from calibrant.distributions.maps import levels as level_maps
from calibrant.distributions.maps.combined import Average, ByGroup, Chain, Unchanged, averaged
from calibrant.distributions.maps.distribution_map import DistributionMap, Support, check_support, levels_of
from calibrant.distributions.maps.scales import LEVELS, TAILS, ForecastScale, check_scale
from calibrant.distributions.pit import ForecastSize
from calibrant.distributions.rows import ForecastFitRows, digest_of

#: Groups of fewer rows use the function of all rows.
LEAST_GROUP = 30
#: An average needs this many rows.
LEAST_AVERAGED = 2 * FOLDS
#: The warning of a map that does not improve.
NO_GAIN = "the cross-fitted score does not improve: the map may do harm on new forecasts"
UNCHANGED = "no improvement of the cross-fitted score was found, so the map leaves the forecasts as they are"
ALL: tuple[ForecastKind, ...] = ("normal", "quantiles", "samples", "interval")


#: Estimated seconds of a fit per row and level of its result.
_LEVEL_SECONDS = 1.5e-7
#: Normal forecasts take as long as forecasts of this many numbers.
_NORMAL_WIDTH = 10
#: A fit returns the function and diagnostics.
Fit = Callable[[ForecastFitRows, Mapping[str, Any], int], tuple[Any, dict[str, Any]]]


@dataclass(frozen=True, repr=False)
class DistributionMethod(Described):
    """Entry of ``calibrant.DISTRIBUTION_METHODS``.

    Attributes
    ----------
    name, title : str
        Name in calls, and title.
    definition, source : str
        Formula, and the papers that define it.
    kinds : tuple of str
        Kinds of forecasts that it accepts.
    returns : str
        What a map returns.
    loss : {"dss", "crps", "quantile-score"}
        Score of the cross-fitted gain of normal forecasts; that of other kinds is the quantile score.
    options : mapping of str to Option
        Options of the fit.
    keeps_normal : bool
        Whether a map of means and variances returns means and variances.
    row_seconds, number_seconds : float
        Estimated seconds of a fit for each row, and for each number of a row.

    See Also
    --------
    fit_distribution : Fits a map.

    Examples
    --------
    >>> import calibrant
    >>> method = calibrant.DISTRIBUTION_METHODS["variance-platt"]
    >>> method.title, method.kinds
    ('Platt scaling of variances', ('normal',))
    """

    name: str
    title: str
    definition: str
    source: str
    kinds: tuple[ForecastKind, ...]
    returns: str
    fit: Fit = field(repr=False)
    loss: Loss = "crps"
    options: Mapping[str, Option] = field(default_factory=dict)
    keeps_normal: bool = True
    row_seconds: float = field(default=5e-6, repr=False)
    number_seconds: float = field(default=1e-6, repr=False)

    def seconds(self, size: ForecastSize, n_levels: int = 0) -> float:
        """Estimate the seconds of a fit to forecasts of a size, whose map returns ``n_levels`` chosen levels."""
        width = _NORMAL_WIDTH if size.kind == "normal" else size.width
        return size.rows * (self.row_seconds + self.number_seconds * width + _LEVEL_SECONDS * n_levels)


# --- Fits of the methods


def _identity(_rows: ForecastFitRows, _options: Mapping[str, Any], _seed: int) -> tuple[Any, dict[str, Any]]:
    return Unchanged(), {}


def _isotonic(of: Literal["variance", "std"]) -> Fit:
    def fit(rows: ForecastFitRows, _options: Mapping[str, Any], _seed: int) -> tuple[Any, dict[str, Any]]:
        return variance.fit_isotonic(rows.forecasts, rows.y, rows.w, of), {}

    return fit


def _location_scale(rows: ForecastFitRows, _options: Mapping[str, Any], _seed: int) -> tuple[Any, dict[str, Any]]:
    return location_scale.fit_location_scale(rows.forecasts, rows.y, rows.share, rows.scale), {}


def _levels(rows: ForecastFitRows, options: Mapping[str, Any], _seed: int) -> tuple[Any, dict[str, Any]]:
    shape, tails = options["shape"], options["tails"]
    new = rows.levels
    return level_maps.fit_levels(rows.forecasts, rows.y, rows.w, new, shape=shape, scale=rows.scale, tails=tails), {}


def _conformal(rows: ForecastFitRows, options: Mapping[str, Any], _seed: int) -> tuple[Any, dict[str, Any]]:
    ties = options["ties"]
    return conformal.fit_conformal(rows.forecasts, rows.y, rows.w, rows.levels, scale=rows.scale, ties=ties)


def _averaged(rows: ForecastFitRows, _options: Mapping[str, Any], seed: int) -> tuple[Any, dict[str, Any]]:
    """Average the maps of several methods, over all rows and by group, by their cross-fitted loss."""
    kind = rows.forecasts.kind
    entries = [DISTRIBUTION_METHODS[name] for name in _MEMBERS]
    names = [member.name for member in entries if kind in member.kinds and (kind != "normal" or member.keeps_normal)]
    members: list[tuple[str, bool]] = [(name, False) for name in names]
    if rows.by is not None:
        members += [(name, True) for name in names if name != "identity"]
    fits = [_member(name, by_group) for name, by_group in members]
    held_out = sample(rows, seed)
    if len(held_out) < LEAST_AVERAGED:
        raise TooFewRows.at("/observed", f"must have at least {LEAST_AVERAGED} rows of positive weight for averaged")
    predicted = [cross_fitted(held_out, member, seed) for member in fits]
    fitted = [i for i, member in enumerate(predicted) if member is not None]
    results = [member for member in predicted if member is not None]
    shares, gain = best_shares(results, held_out)
    chosen = [i for i, share in enumerate(shares) if share > 0.0]
    function: Any = Average(tuple(fits[fitted[i]](rows)[0] for i in chosen), shares[chosen])
    if shares[0] < 1.0 and results[0].kind == "quantiles":
        mixed = replace(held_out, forecasts=averaged(results, shares), by=None)
        last = _member("quantile-recalibration", by_group=False)
        after = cross_fitted(mixed, last, seed)
        improved = None if after is None else gain_of(held_out.forecasts, after, held_out, "quantile-score")
        if improved is not None and improved["gain"] > 0.0:  # averages of calibrated quantiles cover too much
            function, gain = Chain((function, last(mixed)[0])), improved
    labels = {members[fitted[i]][0] + (" by group" if members[fitted[i]][1] else ""): float(shares[i]) for i in chosen}
    return function, {"members": labels, "held_out_gain": gain}


#: The methods of an average, of those that accept the kind; the first leaves forecasts as they are.
_MEMBERS = (
    "identity",
    "variance-scaling",
    "variance-platt",
    "variance-isotonic",
    "std-isotonic",
    "location-scale",
    "quantile-recalibration",
)
_SCALE_NOTE = "on the scale g (identity, or log1p: ln(1 + x))"


def _entries() -> tuple[DistributionMethod, ...]:
    variances = {"kinds": ("normal",), "returns": "mean and variance"}
    shape = Option("isotonic", choices=("isotonic", "pl"))
    return (
        DistributionMethod("identity", "Identity", "the forecasts as they are", "", ALL, "as given", _identity),
        DistributionMethod(
            "variance-scaling",
            "Scaling of variances",
            "v -> w v, with w the mean of (y - mean)^2 / v, which minimises the Dawid-Sebastiani score",
            "Levi et al. (2022), for standard deviations",
            fit=lambda rows, _options, _seed: (variance.fit_scaling(rows.forecasts, rows.y, rows.share), {}),
            loss="dss",
            **variances,  # type: ignore[arg-type]
        ),
        DistributionMethod(
            "variance-platt",
            "Platt scaling of variances",
            "v -> w v + b with w, b >= 0, by the Dawid-Sebastiani score",
            "Gruber & Buettner (2022), appendix G.5; there w and b may be negative",
            fit=lambda rows, _options, _seed: (variance.fit_platt(rows.forecasts, rows.y, rows.share), {}),
            loss="dss",
            row_seconds=6e-5,
            number_seconds=0.0,
            **variances,  # type: ignore[arg-type]
        ),
        DistributionMethod(
            "variance-isotonic",
            "Isotonic regression of variances",
            "isotonic regression of (y - mean)^2 on v, from cells of at least 20 rows",
            "Barlow et al. (1972); the minimiser of the Dawid-Sebastiani score among increasing maps",
            fit=_isotonic("variance"),
            loss="dss",
            **variances,  # type: ignore[arg-type]
        ),
        DistributionMethod(
            "std-isotonic",
            "Isotonic regression of standard deviations",
            "isotonic regression of sqrt(pi / 2) |y - mean| on the standard deviation, from cells of at least 20 rows",
            "as variance-isotonic, with absolute errors, which outliers affect less",
            fit=_isotonic("std"),
            **variances,  # type: ignore[arg-type]
        ),
        DistributionMethod(
            "location-scale",
            "Location and scale",
            f"m + a + s (g(q) - m), {_SCALE_NOTE}, m the median; a and s minimise the CRPS or the quantile score",
            "Gneiting et al. (2005), with one location and one scale",
            ALL,
            "as given; quantiles for samples",
            _location_scale,
            row_seconds=0.0,
            number_seconds=1.2e-5,
        ),
        DistributionMethod(
            "quantile-recalibration",
            "Quantile recalibration",
            "the quantile at level t becomes that at R^-1(t), R the distribution function of the PIT",
            "Kuleshov, Fenner & Ermon (2018); the PIT of tied quantiles as in Czado, Gneiting & Held (2009)",
            ("normal", "quantiles", "samples"),
            "quantiles",
            _levels,
            "quantile-score",
            {"shape": shape, "tails": Option("normal", choices=TAILS)},
            keeps_normal=False,
        ),
        DistributionMethod(
            "conformal",
            "Conformal intervals",
            "intervals widened by the k-th smallest calibration score, k = ceil((n + 1) c) for coverage c",
            "Lei et al. (2018); Romano, Patterson & Candes (2019)",
            ALL,
            "quantiles; intervals for intervals",
            _conformal,
            "quantile-score",
            {"ties": Option("keep", choices=conformal.TIES)},
            keeps_normal=False,
        ),
        DistributionMethod(
            "averaged",
            "Average of maps",
            "the mean of the quantile functions of the other maps but conformal, over all rows and by group, with "
            "shares of the least cross-fitted CRPS or quantile score, shrunk to the identity",
            "Lichtendahl, Grushka-Cockayne & Winkler (2013) for averages of quantiles",
            ALL,
            "mean and variance for normal forecasts; quantiles; intervals for intervals",
            _averaged,
            row_seconds=0.0,
            number_seconds=1.8e-5,
        ),
    )


#: The catalogue of calibrators of predictive distributions by name.
DISTRIBUTION_METHODS = Catalogue[DistributionMethod](
    "method", {entry.name: entry for entry in _entries()}, public="DISTRIBUTION_METHODS"
)


# --- Members and groups


def _member(name: str, by_group: bool, options: Mapping[str, Any] | None = None, seed: int = 0) -> MemberFit:
    """Return the fit of one method, by group or over all rows."""
    entry = DISTRIBUTION_METHODS[name]
    values = read_values({}, entry.options, name) if options is None else options

    def fit(rows: ForecastFitRows) -> tuple[Any, dict[str, Any]]:
        other, diagnostics = entry.fit(replace(rows, by=None) if by_group else rows, values, seed)
        if not by_group or rows.by is None:
            return other, diagnostics
        names = np.array(rows.by)
        members = {}
        for group in sorted(set(rows.by)):
            chosen = np.flatnonzero(names == group)
            if float(rows.w[chosen].sum()) < LEAST_GROUP:
                continue
            try:
                members[group] = entry.fit(replace(rows.take(chosen), by=None), values, seed)[0]
            except CalibrationError:  # such as errors that are all 0: the group uses the function of all rows
                continue
        return ByGroup(MappingProxyType(members), other), {**diagnostics, "groups": len(members)}

    return fit


# --- A fit without its rows, and the public function


@dataclass(frozen=True)
class DistributionFitting:
    """Checked options of ``fit_distribution``, without the rows."""

    method: DistributionMethod
    options: Mapping[str, Any]
    scale: ForecastScale = "identity"
    support: Support = (None, None)
    output_levels: Any = None
    seed: int = 0

    @classmethod
    def read(cls, method: object, options: Mapping[str, Any], *, where: str = "", **others: Any) -> DistributionFitting:
        """Check the method and its options, whose errors name places below ``where``; ``others`` are the fields."""
        entry = _read_method(method)
        read_seed(others.get("seed", 0))
        check_scale(others.get("scale", "identity"))
        return cls(entry, read_values(options, entry.options, entry.name, where=where), **others)

    def check(self, rows: ForecastRows) -> ForecastFitRows:
        """Return the checked rows of the fit; raise what ``run`` would raise, as far as it is known without fitting."""
        forecasts, entry = rows.forecasts, self.method
        check_kind(counted_kind(rows.weights_kind))
        y = read_observed(rows.observed, forecasts)
        refuse_huge(forecasts, y)
        by, clusters = _names(rows.by, "by", len(y)), _names(rows.clusters, "clusters", len(y))
        if forecasts.kind not in entry.kinds:
            raise UnknownMethod.at("/method", f"must be a method of {forecasts.kind} forecasts: {_of(forecasts.kind)}")
        check_scale(self.scale, forecasts.kind)
        ends = _read_support(self.support, y, forecasts, entry)
        levels = _output_levels(self.output_levels, forecasts, entry)
        numbers = None if clusters is None else numbered_names(clusters)[1]
        if rows.weights is None:
            return ForecastFitRows(forecasts, y, np.ones(len(y)), by, numbers, levels, self.scale, ends)
        w, kind = _read_weights(rows.weights, len(y), rows.weights_kind, entry), counted_kind(rows.weights_kind)
        return ForecastFitRows(forecasts, y, w, by, numbers, levels, self.scale, ends, kind)

    def seconds(self, rows: ForecastFitRows) -> float:
        """Estimate the seconds of ``run``."""
        return self.method.seconds(ForecastSize.of(rows.forecasts), len(self.output_levels or ()))

    def run(self, rows: ForecastFitRows) -> DistributionMap:
        """Fit the map to checked rows."""
        entry, forecasts = self.method, rows.forecasts
        by_group = entry.name not in ("averaged", "identity") and rows.by is not None
        fit = _member(entry.name, by_group, self.options, self.seed)
        with np.errstate(over="ignore", invalid="ignore"):
            function, of_fit = fit(rows)
            if "held_out_gain" not in of_fit and entry.name != "identity":
                of_fit["held_out_gain"] = held_out_gain(rows, fit, entry.loss, self.seed)
        if forecasts.n_repaired:
            of_fit["n_repaired"] = forecasts.n_repaired
        diagnostics = _diagnostics(of_fit, function, {**self.options, "scale": self.scale}, self.seed)
        if rows.weights_kind is not None:
            diagnostics["fit"]["weights_kind"] = rows.weights_kind
        digest = digest_of(forecasts, rows.y)
        return DistributionMap(
            entry.name, function, forecasts.kind, levels_of(forecasts), rows.support, diagnostics, digest
        )


@explained
def fit_distribution(
    method: str,
    observed: Any,
    *,
    by: Any = None,
    clusters: Any = None,
    weights: Any = None,
    weights_kind: WeightsKind = "importance",
    scale: ForecastScale = "identity",
    support: Support = (None, None),
    output_levels: Any = None,
    seed: int = 0,
    mean: Any = None,
    variance: Any = None,
    std: Any = None,
    quantiles: Any = None,
    levels: Any = None,
    samples: Any = None,
    lower: Any = None,
    upper: Any = None,
    level: Any = None,
    **options: Any,
) -> DistributionMap:
    """Fit a calibration map of predictive distributions of a number.

    Parameters
    ----------
    method : str
        Name in ``calibrant.DISTRIBUTION_METHODS``.
    observed : array_like, shape (n,)
        Outcomes.
    by : array_like, shape (n,), optional
        Values such as the horizon. One function is fitted for each value with at least 30 rows, and one to all rows for
        the other values. ``averaged`` averages maps of all rows and maps by value.
    clusters : array_like, shape (n,), optional
        Cluster of each row, such as its week. Rows of a cluster are in the same fold, and standard errors are computed
        from the variation between clusters.
    weights : array_like, shape (n,), optional
        Non-negative weights, not all 0.
    weights_kind : {"importance", "frequency"}, default "importance"
        Only the ratios of importance weights matter; frequency weights are whole numbers of equal rows.
    scale : {"identity", "log1p"}, default "identity"
        Scale on which quantiles, samples and intervals are shifted, widened and interpolated; log1p is ln(1 + x).
    support : tuple of (float or None, float or None), default (None, None)
        Lowest and highest possible outcome, such as ``(0, None)`` for counts. Quantiles are clipped to it.
    output_levels : array_like, shape (Q,), optional
        Levels of the quantiles that ``quantile-recalibration`` and ``conformal`` return for normal forecasts and
        samples. The default is the 23 levels of the forecast hubs from 0.01 to 0.99, and 0.05, 0.5, 0.95 for
        ``conformal``.
    seed : int, default 0
        Seed of folds.
    mean, variance, std : array_like, shape (n,), optional
        Normal forecasts.
    quantiles, levels : array_like, shapes (n, Q) and (Q,), optional
        Forecasts as quantiles; the levels may also be the names of the columns of a frame.
    samples : array_like, shape (n, S), optional
        Forecasts as samples.
    lower, upper, level : array_like, shape (n,) each, and float, optional
        Forecasts as one central interval.
    **options : object
        Options of the method: ``shape`` and ``tails`` of ``quantile-recalibration``, ``ties`` of ``conformal``.

    Returns
    -------
    DistributionMap
        The fitted map. Its diagnostics have the cross-fitted gain of the score, and a warning if there is none.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or the rows do not determine the map.

    See Also
    --------
    recalibrate_in_order : Recalibrates forecasts in the order of time.

    Examples
    --------
    >>> import calibrant
    >>> y, quantiles = [3.0, 9.0, 5.0, 1.0], [[2.0, 4.0, 6.0]] * 4
    >>> fitted = calibrant.fit_distribution("conformal", y, quantiles=quantiles, levels=[0.25, 0.5, 0.75])
    >>> fitted.apply(quantiles=[[1.0, 2.0, 3.0]], levels=[0.25, 0.5, 0.75]).quantiles
    array([[0., 2., 4.]])
    """
    known = list(signature(fit_distribution).parameters)[:-1]
    entry = _read_method(method)
    refuse_misspelt("fit_distribution", [name for name in options if name not in entry.options], known)
    arguments = {"mean": mean, "variance": variance, "std": std, "quantiles": quantiles, "levels": levels}
    arguments |= {"samples": samples, "lower": lower, "upper": upper, "level": level}
    columns = {"observed": observed, "weights": weights, "by": by, "clusters": clusters}
    check_aligned({**columns, **{name: value for name, value in arguments.items() if name != "levels"}})
    forecasts = read_forecasts(**{name: value for name, value in arguments.items() if value is not None})
    fitting = DistributionFitting.read(
        method, options, scale=scale, support=support, output_levels=output_levels, seed=seed
    )
    return fitting.run(fitting.check(ForecastRows(forecasts, weights_kind=weights_kind, **columns)))


def fit_level_counts(counts: Integers, shown: Forecasts, levels: Floats, options: Mapping[str, Any]) -> DistributionMap:
    """Fit ``quantile-recalibration`` to ``counts (L + 1,)`` of outcomes between the quantiles at ``levels (L,)``.

    ``shown`` is any forecast of the kind of the counted ones, normal or quantiles; ``options`` are those of the method,
    ``scale``, ``support`` and ``output_levels``. Raises ``InvalidOption``.
    """
    entry = DISTRIBUTION_METHODS["quantile-recalibration"]
    others = ("scale", "support", "output_levels")
    own = {name: value for name, value in options.items() if name not in others}
    whose = f"{entry.name}, besides scale, support and output_levels,"
    values = read_values(own, entry.options, whose)
    scale = options.get("scale", "identity")
    check_scale(scale, shown.kind)
    ends = check_support(options.get("support", (None, None)), InvalidOption)
    new = _output_levels(options.get("output_levels"), shown, entry)
    edges = ndtri(np.concatenate([[0.0], levels, [1.0]]))
    function = level_maps.fit_counts(
        counts.astype(np.float64),
        edges,
        new,
        normal=shown.kind == "normal",
        shape=values["shape"],
        scale=scale,
        tails=values["tails"],
    )
    return DistributionMap(
        entry.name,
        function,
        shown.kind,
        levels_of(shown),
        ends,
        _diagnostics({}, None, {**values, "scale": scale}, 0),
    )


def _read_method(method: object) -> DistributionMethod:
    entry = DISTRIBUTION_METHODS.get(known_name(method, DISTRIBUTION_METHODS, {})) if isinstance(method, str) else None
    if entry is None:
        raise UnknownMethod.at("/method", one_of(method, DISTRIBUTION_METHODS))
    return entry


def _of(kind: ForecastKind) -> str:
    return ", ".join(entry.name for entry in DISTRIBUTION_METHODS.values() if kind in entry.kinds)


def cross_fitted_rows(
    method: str, forecasts: Forecasts, y: Floats, w: Floats, clusters: Integers | None, *, seed: int
) -> Forecasts:
    """Return normal forecasts recalibrated by maps of this method fitted to the other folds, in the given order.

    Rows with the same number in ``clusters (n,)`` are in one fold. Raises ``TooFewRows`` if no map can be fitted.
    """
    rows = ForecastFitRows(forecasts, y, w, None, clusters, np.empty(0), "identity", (None, None))
    order = rows.order()
    predicted = cross_fitted(rows.take(order), _member(method, by_group=False), seed)
    if predicted is None:
        raise TooFewRows.at("/observed", f"has too few different rows to fit {method} to {FOLDS - 1} of {FOLDS} folds")
    return predicted.take(np.argsort(order))


def _names(values: Any, field: str, n: int) -> tuple[str, ...] | None:
    if values is None:
        return None
    names = tuple(group_names(values))
    if len(names) != n:
        raise LengthMismatch.at(f"/{field}", f"must have {n_rows(n)}, like observed")
    return names


def _read_weights(weights: Any, n: int, kind: WeightsKind | Fractional, entry: DistributionMethod) -> Floats:
    """Check weights; those of importance get the sum of their effective number of rows."""
    w = check_weights(weights, n, kind)
    if counted_kind(kind) == "frequency":
        return w
    if entry.name == "conformal" and len(np.unique(w[w > 0.0])) > 1:
        raise InvalidOption.at("/weights_kind", "must be frequency, and weights whole numbers, for method conformal")
    return effective(w / w.max())


def _read_support(support: Any, y: Floats, forecasts: Forecasts, entry: DistributionMethod) -> Support:
    low, high = check_support(support, InvalidOption)
    if (low, high) != (None, None) and forecasts.kind == "normal" and entry.keeps_normal:
        raise InvalidOption.at("/support", f"must not be given: {entry.name} returns means and variances")
    outside = np.zeros(len(y), np.bool_)
    if low is not None:
        outside |= y < low
    if high is not None:
        outside |= y > high
    refuse(outside, "/observed", "must be within the support")
    return low, high


def _output_levels(levels: Any, forecasts: Forecasts, entry: DistributionMethod) -> Floats:
    fixed = levels_of(forecasts)
    if fixed is not None:
        if levels is not None:
            raise InvalidOption.at("/output_levels", f"must not be given: those of the {forecasts.kind} are kept")
        return _symmetric(fixed, entry, "level" if forecasts.kind == "interval" else "levels")
    if levels is not None and entry.keeps_normal:
        returned = "means and variances" if forecasts.kind == "normal" else f"the {len(LEVELS)} default levels"
        raise InvalidOption.at("/output_levels", f"must not be given: maps of {entry.name} return {returned}")
    if levels is None:
        return np.array(conformal.LEVELS if entry.name == "conformal" else LEVELS)
    try:
        numbers = np.asarray(levels, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.ndim != 1 or numbers.size == 0:
        raise InvalidOption.at("/output_levels", "must be strictly increasing numbers above 0 and below 1")
    check_levels(numbers, "/output_levels", InvalidOption)
    return _symmetric(numbers, entry, "output_levels")


def _symmetric(levels: Floats, entry: DistributionMethod, name: str) -> Floats:
    if entry.name == "conformal" and not conformal.symmetric(levels):
        raise InvalidOption.at(f"/{name}", "must be symmetric about 1/2 for method conformal")
    return levels


def _diagnostics(of_fit: dict[str, Any], function: Any, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the diagnostics with the options of the fit, and a warning if the map does not improve."""
    gain = of_fit.get("held_out_gain")
    unchanged = isinstance(function, Average) and all(isinstance(member, Unchanged) for member in function.members)
    warnings = [of_fit["warning"]] if "warning" in of_fit else []
    if unchanged:
        warnings.append(UNCHANGED)
    elif gain is not None and gain["gain"] <= 0.0:
        warnings.append(NO_GAIN)
    plain = {name: value for name, value in of_fit.items() if value is not None and name != "warning"}
    if warnings:
        plain["warning"] = "; ".join(warnings)
    return {**plain, "fit": {"options": dict(options), "seed": seed}}
