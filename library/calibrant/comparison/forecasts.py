"""Comparison of several forecasts of the same outcomes by a proper score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, get_args

import numpy as np
from scipy.special import stdtr, stdtrit

from calibrant.comparison.pairs import Pair, holm
from calibrant.core.arguments import explained
from calibrant.core.arrays import check_aligned
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.choices import ForecastScore as ForecastScore
from calibrant.core.errors import CalibrationError, InvalidOption, LengthMismatch, TooFewRows, one_of
from calibrant.core.options import plain
from calibrant.core.results import Framed, Table, interval_of, n_rows, plain_json
from calibrant.distributions import scores
from calibrant.distributions.evaluation import read_rows
from calibrant.distributions.forecasts import FIELDS, ForecastRows, Forecasts, read_forecasts, read_observed
from calibrant.distributions.maps.tables import interval_of as intervals_of
from calibrant.distributions.maps.tables import quantiles_of
from calibrant.distributions.measures import MeasuredForecasts
from calibrant.distributions.pit import ForecastSize
from calibrant.distributions.streams import diebold_mariano, read_lags

#: The most forecasts of a comparison.
MAX_FORECASTS = 20
#: How far the levels of two forecasts may differ.
_SAME = 1e-9
#: Estimated seconds of a comparison for each row of each two forecasts, and for each number of a row.
_ROW_SECONDS, _NUMBER_SECONDS = 3e-7, 3e-7


@dataclass(frozen=True, repr=False)
class ForecastComparison(Framed):
    """Result of ``compare_distributions``.

    ``to_frame`` has a row for each pair, with the columns ``first``, ``second``, ``value`` (the difference),
    ``low`` and ``high`` (its interval), ``p_value`` and ``problem``.

    Attributes
    ----------
    n : int
        Number of rows with weight.
    score : str
        Name of the score.
    level : float
        Simultaneous level of the intervals.
    lags : int
        Number of lags of the autocovariances that are used.
    means : mapping of str to float
        Mean score by name; smaller is better.
    ranking : tuple of str
        Names, best first.
    pairs : tuple of Pair
        The difference for each pair, first minus second, with an interval and a p-value.
    weights_kind : str or None
        ``importance`` or ``frequency``; None without weights.

    See Also
    --------
    compare_distributions : Returns these comparisons.

    Examples
    --------
    >>> import calibrant
    >>> narrow, wide = {"mean": [0.0] * 3, "variance": [0.1] * 3}, {"mean": [0.0] * 3, "variance": [4.0] * 3}
    >>> found = calibrant.compare_distributions([-2.0, 2.5, 1.5], {"narrow": narrow, "wide": wide})
    >>> found.ranking
    ('wide', 'narrow')
    """

    n: int
    score: str
    level: float
    lags: int
    means: Mapping[str, float]
    ranking: tuple[str, ...]
    pairs: tuple[Pair, ...]
    weights_kind: WeightsKind | None = None

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for pair in self.pairs:
            low, high = pair.interval or (None, None)
            whose = {"first": pair.between[0], "second": pair.between[1], "value": pair.difference}
            records.append({**whose, "low": low, "high": high, "p_value": pair.p_value, "problem": pair.problem})
        return records

    def _document(self) -> dict[str, Any]:
        document = plain_json(self)
        del document["weights_kind"]
        pairs = [{**pair, "difference": _finite(pair["difference"])} for pair in document["pairs"]]
        return {**document, "means": {name: _finite(value) for name, value in self.means.items()}, "pairs": pairs}

    def _table(self) -> Table:
        columns = ("first", "second", "difference", "interval", "p-value")
        rows = [(*pair.between, pair.difference, interval_of(pair.interval), pair.p_value) for pair in self.pairs]
        notes = [f"{name}: {self.score} {self.means[name]:.4g}" for name in self.ranking]
        notes += [f"{' and '.join(pair.between)}: {pair.problem}" for pair in self.pairs if pair.problem]
        notes += [f"weights: {self.weights_kind}"] if self.weights_kind else []
        return Table(f"Comparison by {self.score}: {n_rows(self.n)}", columns, rows, notes)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


@explained
def compare_distributions(
    observed: Any,
    forecasts: Mapping[str, Mapping[str, Any] | Forecasts],
    *,
    score: ForecastScore | None = None,
    lags: int = 0,
    weights: Any = None,
    weights_kind: WeightsKind = "importance",
    clusters: Any = None,
    interval: float = 0.95,
) -> ForecastComparison:
    """Compare several forecasts of the same outcomes by a proper score.

    Parameters
    ----------
    observed : array_like, shape (n,)
        Outcomes; in time order if ``lags`` is given.
    forecasts : mapping of str to mapping or Forecasts
        Two to 20 forecasts by name, each with the arguments of ``evaluate_distribution``, such as ``mean`` and ``std``.
    score : str, optional
        ``crps``, ``log-score``, ``dawid-sebastiani``, ``quantile-score``, ``interval-score``, ``squared-error`` or
        ``absolute-error``. The default is the interval score if any forecast is an interval, the quantile score if any
        has quantiles, and otherwise the CRPS.
    lags : int, default 0
        For forecasts h steps ahead of a time series, at least h - 1; see ``diebold_mariano``.
    weights : array_like, shape (n,), optional
        Weights of the rows.
    weights_kind : {"importance", "frequency"}
        As for ``evaluate_distribution``.
    clusters : array_like, shape (n,), optional
        Cluster of each row. Rows in the same cluster may depend on each other.
    interval : float, default 0.95
        Simultaneous level of the intervals.

    Returns
    -------
    ForecastComparison
        Mean scores, the ranking, and the difference of each pair.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or the forecasts have no common score.

    See Also
    --------
    evaluate_distribution : Scores one forecast.

    Notes
    -----
    The test of Diebold & Mariano (1995) with Student's t distribution. P-values are adjusted by Holm's method (1979),
    intervals by Bonferroni's. If the forecasts are of different kinds, all are converted to a common form: to intervals
    if any forecast is an interval, otherwise to quantiles. O(pairs n lags).

    Examples
    --------
    >>> import calibrant
    >>> narrow, wide = {"mean": [0.0] * 3, "variance": [0.1] * 3}, {"mean": [0.0] * 3, "variance": [4.0] * 3}
    >>> found = calibrant.compare_distributions([-2.0, 2.5, 1.5], {"narrow": narrow, "wide": wide})
    >>> round(found.pairs[0].difference, 3), found.pairs[0].p_value < 0.1
    (0.597, True)
    """
    if not isinstance(forecasts, Mapping) or not 2 <= len(forecasts) <= MAX_FORECASTS:
        raise InvalidOption.at("/forecasts", f"must be a mapping of names to 2 to {MAX_FORECASTS} forecasts")
    if not all(isinstance(name, str) for name in forecasts):
        raise InvalidOption.at("/forecasts", "must have names that are strings: {str(name): forecast}")
    for arguments in forecasts.values():
        if isinstance(arguments, Mapping):
            check_aligned({"observed": observed, **{key: arguments[key] for key in arguments if key != "levels"}})
    by_name = {name: _read(name, arguments) for name, arguments in forecasts.items()}
    rows = ForecastRows(next(iter(by_name.values())), observed, weights, weights_kind, clusters=clusters)
    return compare_rows(rows, by_name, score=score, lags=lags, interval=interval)


def compare_rows(
    rows: ForecastRows,
    by_name: Mapping[str, Forecasts],
    *,
    score: str | None,
    lags: int,
    interval: float,
    pointers: Mapping[str, str] | None = None,
) -> ForecastComparison:
    """Compare checked forecasts of the outcomes of ``rows``; ``pointers`` are their fields in errors."""
    fields = {name: f"/forecasts/{name}" for name in by_name} if pointers is None else pointers
    if score is not None and score not in get_args(ForecastScore):
        raise InvalidOption.at("/score", one_of(score, get_args(ForecastScore)))
    lags = read_lags(lags)
    if lags and (rows.weights is not None or rows.clusters is not None):
        raise InvalidOption.at("/lags", "cannot be combined with weights or clusters")
    n = len(read_observed(rows.observed, next(iter(by_name.values()))))
    for name, own in by_name.items():
        if len(own) != n:
            raise LengthMismatch.at(fields[name], f"has {n_rows(len(own))}, but /observed has {n:,}")
    interval = plain(interval)
    if not isinstance(interval, float) or not 0.0 < interval < 1.0:
        raise InvalidOption.at("/interval", "must be a number above 0 and below 1")
    if n < lags + 2 and lags:
        raise TooFewRows.at("/lags", f"needs at least {lags + 2} rows, but there are {n}")
    shared, default = _shared(by_name, fields)
    name = score or default
    scores: dict[str, Floats] = {}
    columns = replace(rows, groups=None, by=None)
    for who, own in shared.items():
        checked, _ = read_rows(replace(columns, forecasts=own), interval=interval)
        try:
            scores[who] = _score_of(checked, name)
        except InvalidOption as error:
            raise InvalidOption.at("/score", f"does not exist for these forecasts, which have the {default}") from error
    weight = np.ones(len(checked)) if checked.w is None else checked.w
    means = {who: float(weight @ values / weight.sum()) for who, values in scores.items()}
    pairs = _pairs(scores, checked, lags, interval)
    ranking = tuple(sorted(means, key=lambda who: (np.isnan(means[who]), means[who])))
    kind = None if checked.w is None else checked.weights_kind
    return ForecastComparison(len(checked), name, interval, lags, means, ranking, pairs, kind)


def comparison_seconds(several: int, size: ForecastSize, lags: int) -> float:
    """Estimate the seconds of a comparison of ``several`` forecasts of a size."""
    return several * size.rows * (_ROW_SECONDS * (several + lags) + _NUMBER_SECONDS * size.width)


def _read(name: str, arguments: Mapping[str, Any] | Forecasts) -> Forecasts:
    if isinstance(arguments, Forecasts):
        return arguments
    known = {"std", *(field for fields in FIELDS.values() for field in fields)}
    if not isinstance(arguments, Mapping) or not arguments or set(arguments) - known:
        raise InvalidOption.at(f"/forecasts/{name}", 'must be forecasts by name, such as {"mean": ..., "std": ...}')
    try:
        return read_forecasts(**arguments)
    except CalibrationError as error:
        raise error.under(f"/forecasts/{name}") from error


# --- A score that all forecasts have


def _shared(by_name: Mapping[str, Forecasts], fields: Mapping[str, str]) -> tuple[dict[str, Forecasts], ForecastScore]:
    """Return the forecasts in a form in which their scores are comparable, and the default score."""
    kinds = {own.kind for own in by_name.values()}
    if "interval" in kinds:
        level = next(own.level for own in by_name.values() if own.kind == "interval")
        return {name: _interval(fields[name], own, level) for name, own in by_name.items()}, "interval-score"
    if "quantiles" not in kinds:
        return dict(by_name), "crps"
    levels = next(own.levels for own in by_name.values() if own.kind == "quantiles")
    shared = {}
    for name, own in by_name.items():
        shared[name] = own if own.kind == "quantiles" else quantiles_of(own.quantile(levels), levels)
        same = len(shared[name].levels) == len(levels) and np.abs(shared[name].levels - levels).max() <= _SAME
        if not same:
            raise InvalidOption.at(fields[name], "has quantiles at other levels, so that no score is common")
    return shared, "quantile-score"


def _interval(field: str, own: Forecasts, level: float) -> Forecasts:
    try:
        return intervals_of(*scores.central(own, level), level)
    except CalibrationError as error:
        reason = "has no central interval of that level, so that no score is common"
        raise InvalidOption.at(field, reason) from error


def _score_of(rows: MeasuredForecasts, name: str) -> Floats:
    """Return the score of each row."""
    forecasts, y = rows.forecasts, rows.y
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if name == "crps":
            return scores.crps(forecasts, y)
        if name == "log-score":
            return scores.log_score(forecasts, y)
        if name == "dawid-sebastiani":
            return scores.dawid_sebastiani(forecasts, y)
        if name == "quantile-score":
            return np.asarray(scores.pinball(forecasts, y).mean(axis=1))
        if name == "interval-score":
            return scores.interval_score(forecasts, y, level=scores.level_of(forecasts))
        if name == "squared-error":
            return np.asarray((y - scores.point(forecasts, "mean")) ** 2)
        return np.asarray(np.abs(y - scores.point(forecasts, "median")))


# --- The differences


def _pairs(scores: Mapping[str, Floats], rows: MeasuredForecasts, lags: int, interval: float) -> tuple[Pair, ...]:
    chosen = list(combinations(scores, 2))
    with np.errstate(invalid="ignore"):  # of two infinite scores, which have a problem
        differences = [scores[first] - scores[two] for first, two in chosen]
    level = 1.0 - (1.0 - interval) / len(chosen)
    pairs = [
        _pair(*between, difference, rows, lags, level) for between, difference in zip(chosen, differences, strict=True)
    ]
    known = [i for i, pair in enumerate(pairs) if pair.unadjusted is not None]
    adjusted = holm(np.array([pairs[i].unadjusted for i in known], dtype=np.float64))
    for i, p_value in zip(known, adjusted.tolist(), strict=True):
        own = pairs[i]
        pairs[i] = Pair(own.between, own.difference, own.interval, p_value, own.unadjusted)
    return tuple(pairs)


def _pair(first: str, two: str, difference: Floats, rows: MeasuredForecasts, lags: int, level: float) -> Pair:
    """Return a pair whose p-value is not adjusted yet."""
    if not np.isfinite(difference).all():
        return Pair((first, two), float("nan"), problem="no value: the score of a row is infinite")
    if lags:
        tested = diebold_mariano(difference, np.zeros(len(difference)), lags=lags, interval=level)
        return Pair((first, two), float(tested.value or 0.0), tested.interval, None, tested.p_value)
    mean, error, degrees = rows.mean_with_error(difference)
    if degrees <= 0.0:
        return Pair((first, two), mean, problem="no interval: there is one row or cluster")
    if not np.isfinite(error):
        return Pair((first, two), mean, problem="no interval: the scores are too large")
    if error == 0.0:
        return Pair((first, two), mean, (mean, mean), None, 1.0 if mean == 0.0 else 0.0)
    half = error * float(stdtrit(degrees, 0.5 + 0.5 * level))
    p_value = float(2.0 * stdtr(degrees, -abs(mean) / error))
    return Pair((first, two), mean, (mean - half, mean + half), None, p_value)
