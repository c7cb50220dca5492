"""The measures of predictive distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from calibrant.core.cells import Floats, WeightsKind, effective, take
from calibrant.core.errors import (
    CalibrationError,
    InvalidOption,
    UnknownMeasure,
)
from calibrant.core.options import Catalogue, Described, Option, read_entries
from calibrant.distributions import conditional, decompositions, pit, scores, spread, streams
from calibrant.distributions.calibrators import cross_fitted_rows
from calibrant.distributions.forecasts import Forecasts
from calibrant.measures.measure import MeasureResult

#: The most measures of one evaluation.
_MOST = 100
#: The level of the alarm of an e-process.
_ALARM = 0.05
#: The level of a central interval; None is that of ``scores.level_of``.
_LEVEL = Option(None, choices=(None,), low=1e-6, high=1.0 - 1e-6, real=True)


@dataclass(frozen=True, eq=False)
class MeasuredForecasts:
    """Checked rows: forecasts, outcomes ``y (n,)``, weights ``w (n,)`` and clusters ``(n,)``.

    The sum of the weights is the number of rows: importance weights are scaled to their effective number of rows.

    ``by (n,)`` has values of a covariate, as ``read_covariate`` returns them.
    """

    forecasts: Forecasts
    y: Floats
    w: Floats | None = None
    clusters: npt.NDArray[np.int64] | None = None
    seed: int = 0
    level: float | None = None
    by: npt.NDArray[Any] | None = None
    weights_kind: WeightsKind = "importance"

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, chosen: npt.NDArray[np.int64]) -> MeasuredForecasts:
        """Return the chosen rows."""
        clusters = take(self.clusters, chosen)
        if clusters is not None:
            clusters = np.unique(clusters, return_inverse=True)[1].astype(np.int64)
        forecasts, y = self.forecasts.take(chosen), self.y[chosen]
        w, by = take(self.w, chosen), take(self.by, chosen)
        if w is not None and self.weights_kind == "importance":
            w = effective(w)
        return replace(self, forecasts=forecasts, y=y, w=w, clusters=clusters, by=by)

    @property
    def squares(self) -> Floats | None:
        """The squared weights, which give variances; a frequency weight of w counts w independent rows and gives w."""
        return self.w if self.w is None or self.weights_kind == "frequency" else self.w**2

    def coverage(self, levels: Floats | None = None) -> pit.Coverage:
        """Count outcomes at most the quantile of each level, by default those of ``levels_of``."""
        squares = self.squares if self.weights_kind == "importance" else None
        return pit.coverage(
            self.forecasts, self.y, self.w, self.clusters, squares=squares, seed=self.seed, levels=levels
        )

    def mean_with_error(self, values: Floats) -> tuple[float, float, float]:
        """Return the weighted mean of a value per row, its standard error, and the degrees of freedom of the error.

        The error is from the variance between rows, or between clusters; with importance weights it is a sandwich, with
        the degrees of freedom (sum w^2)^2 / sum w^4 - 1 (Satterthwaite 1946; Bell & McCaffrey 2002). O(n).
        """
        w = np.ones(len(values)) if self.w is None else self.w
        total = float(w.sum())
        mean = float(w @ values) / total
        with np.errstate(invalid="ignore", over="ignore"):
            off = values - mean
            if self.clusters is None:
                off = off if self.squares is None else self.squares * off
                degrees, variance = total - 1.0, float(off @ (values - mean)) / max(total - 1.0, 1.0) / total
                if self.w is not None and self.weights_kind == "importance":
                    degrees = float(effective(self.w**2).sum()) - 1.0
            else:
                sums = np.bincount(self.clusters, w * off)
                degrees = len(sums) - 1.0
                variance = float(sums @ sums) / total**2 * len(sums) / max(degrees, 1.0)
        return mean, float(np.sqrt(variance)), degrees

    def mean(self, values: Floats, *, root: bool = False) -> MeasureResult:
        """Return the weighted mean of a value per row, or its square root, with an interval if a level is given.

        The interval is Student's, from the variance between rows, or between clusters. O(n).
        """
        mean, error, degrees = self.mean_with_error(values)
        if not np.isfinite(mean):
            return MeasureResult(None, problem="no value: the score of a row is infinite")
        interval = None
        if self.level is not None:
            if degrees <= 0.0:
                return MeasureResult(_rooted(mean, root), problem="no interval: there is one row or cluster")
            half = float(stdtrit(degrees, 0.5 + 0.5 * self.level)) * error
            interval = _rooted(max(mean - half, 0.0) if root else mean - half, root), _rooted(mean + half, root)
        return MeasureResult(_rooted(mean, root), interval=interval)


def _rooted(value: float, root: bool) -> float:
    return float(np.sqrt(value)) if root else value


Compute = Callable[..., MeasureResult]
#: Estimates the seconds of a measure of forecasts of a size.
Seconds = Callable[[pit.ForecastSize], float]
_NUMBER_SECONDS = 1.5e-7


def _seconds(once: float = 4e-4, row: float = 3e-7, level: float = 0.0) -> Seconds:
    """Return an estimate: ``once``, and for each ``row`` with its numbers, and ``level`` of a simulated coverage."""
    return lambda size: once + level * size.levels + size.rows * (row + _NUMBER_SECONDS * size.width)


def _decomposition_seconds(size: pit.ForecastSize) -> float:
    if size.kind == "quantiles":
        return _seconds(row=3e-7 + 2e-6 * size.width)(size)
    thresholds = min(size.rows, decompositions.THRESHOLDS)
    return _seconds(row=3e-7 + thresholds * (6e-7 + 2e-9 * size.width))(size)


_ALL = ("normal", "quantiles", "samples", "interval")


@dataclass(frozen=True, repr=False)
class DistributionMeasure(Described):
    """A measure of predictive distributions.

    Attributes
    ----------
    name : str
        Name in ``DISTRIBUTION_MEASURES``.
    title : str
        Title.
    text : str
        Definition.
    range : str
        Range of values; a perfect forecast has the lowest value unless the text says otherwise.
    source : str
        Publication.
    kinds : tuple of str
        Kinds of forecasts for which it is defined.
    options : mapping of str to Option
        Options with their defaults.
    seconds : callable
        Estimates the seconds for forecasts of a size.
    is_error : bool
        Whether the value is a calibration error in units of probability.

    See Also
    --------
    evaluate_distribution : Computes these measures.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.DISTRIBUTION_MEASURES["crps"].kinds
    ('normal', 'quantiles', 'samples')
    """

    name: str
    title: str
    text: str
    range: str
    source: str
    compute: Compute = field(repr=False)
    kinds: tuple[str, ...] = _ALL
    options: Mapping[str, Option] = field(default_factory=dict)
    seconds: Seconds = field(default=_seconds(), repr=False)
    is_error: bool = False


def compute_measure(measure: DistributionMeasure, rows: MeasuredForecasts, options: Mapping[str, Any]) -> MeasureResult:
    """Return the result for checked rows; a measure that does not exist for them has a problem."""
    definition = {"measure": measure.name, **options}
    if rows.forecasts.kind not in measure.kinds:
        wanted = " or ".join(measure.kinds)
        return MeasureResult(None, definition=definition, problem=f"no value: the measure is for {wanted}")
    try:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # infinite scores have a problem
            result = measure.compute(rows, **options)
    except CalibrationError as error:
        return MeasureResult(None, definition=definition, problem=f"no value: {error.detail}")
    return replace(_finite(result), definition={**definition, **result.definition})


def _finite(result: MeasureResult) -> MeasureResult:
    """Return a result without numbers beyond doubles, with the reason."""
    if not _all_finite(result.value):
        return MeasureResult(None, problem="no value: the scores are too large for a double")
    if not _all_finite(*(result.interval or ())):
        return replace(result, interval=None, problem="no interval: the squares of scores are too large for a double")
    return replace(result, debiased=None) if not _all_finite(result.debiased) else result


def _all_finite(*numbers: float | None) -> bool:
    return all(number is None or bool(np.isfinite(number)) for number in numbers)


# --- The measures


def _score(values: Callable[[Forecasts, Floats], Floats]) -> Compute:
    return lambda rows: rows.mean(values(rows.forecasts, rows.y))


def _crps(rows: MeasuredForecasts, *, estimator: str) -> MeasureResult:
    result = rows.mean(scores.crps(rows.forecasts, rows.y, fair=estimator == "fair"))
    approximate = {"approximation": "twice the mean pinball loss"} if rows.forecasts.kind == "quantiles" else {}
    return replace(result, definition=approximate)


def _threshold_weighted(rows: MeasuredForecasts, *, low: float | None, high: float | None) -> MeasureResult:
    ends = (-np.inf if low is None else low, np.inf if high is None else high)
    return rows.mean(scores.threshold_weighted_crps(rows.forecasts, rows.y, low=ends[0], high=ends[1]))


def _pinball(rows: MeasuredForecasts) -> MeasureResult:
    of_level = scores.pinball(rows.forecasts, rows.y)
    w = np.ones(len(rows)) if rows.w is None else rows.w
    result = rows.mean(of_level.mean(axis=1))
    return replace(
        result, parts={"levels": rows.forecasts.levels.tolist(), "of_level": (w @ of_level / w.sum()).tolist()}
    )


def _weighted_interval(rows: MeasuredForecasts) -> MeasureResult:
    of_rows = scores.weighted_interval(rows.forecasts, rows.y)
    result = rows.mean(of_rows.pop("score"))
    return replace(result, parts={name: rows.mean(part).value for name, part in of_rows.items()})


def _of_level(values: Callable[..., MeasureResult]) -> Compute:
    """Return the measure of a central interval, with its level in the definition."""

    def compute(rows: MeasuredForecasts, *, level: float | None, **options: Any) -> MeasureResult:
        used = scores.level_of(rows.forecasts) if level is None else level
        return replace(values(rows, used, **options), definition={"level": used})

    return compute


def _sharpness(rows: MeasuredForecasts, level: float) -> MeasureResult:
    low, high = scores.central(rows.forecasts, level)
    return rows.mean(high - low)


def _coverage(rows: MeasuredForecasts, level: float) -> MeasureResult:
    low, high = scores.central(rows.forecasts, level)
    inside = ((rows.y >= low) & (rows.y <= high)).astype(float)
    result = rows.mean(inside)
    if result.interval is None or rows.clusters is not None or result.value is None:
        return result
    n = float(len(rows) if rows.w is None else rows.w.sum())
    error = rows.mean_with_error(inside)[1]
    if rows.w is not None and rows.weights_kind == "importance" and error > 0.0:
        n = 1.0 + result.value * (1.0 - result.value) / error**2  # equal weights give their number
    z = float(ndtri(0.5 + 0.5 * (rows.level or 0.0)))
    centre, share = (result.value + z * z / (2.0 * n)) / (1.0 + z * z / n), z * z / n
    half = z / (1.0 + share) * float(np.sqrt(result.value * (1.0 - result.value) / n + z * z / (4.0 * n * n)))
    return replace(result, interval=(centre - half, centre + half))


def _absolute(rows: MeasuredForecasts) -> MeasureResult:
    return rows.mean(np.abs(rows.y - scores.point(rows.forecasts, "median")))


def _calibration_error(rows: MeasuredForecasts, *, norm: float | str) -> MeasureResult:
    coverage = rows.coverage()
    size = np.inf if norm == "max" else float(norm)
    value, debiased = pit.calibration_error(coverage, size)
    half = pit.bands(coverage, 0.95, seed=rows.seed)
    parts = {
        "levels": coverage.levels.tolist(),
        "observed": coverage.share.tolist(),
        "half_width": half.tolist(),
    }
    few = rows.clusters is not None and len(np.unique(rows.clusters)) < 2 * len(coverage.levels)
    problem = f"no p-value: there are fewer than {2 * len(coverage.levels)} clusters, twice the levels" if few else None
    p_value = None if few else pit.chi_square(coverage, seed=rows.seed)
    return MeasureResult(value, debiased, p_value=p_value, parts=parts, problem=problem)


def _tested(statistic: str) -> Compute:
    def compute(rows: MeasuredForecasts) -> MeasureResult:
        value, p_value = pit.tested(rows.coverage(pit.levels_of(rows.forecasts, fine=True)), statistic, seed=rows.seed)
        return MeasureResult(value, p_value=p_value)

    return compute


def _variance_error(rows: MeasuredForecasts, *, n_bins: int) -> MeasureResult:
    bins = spread.variance_bins(rows.forecasts, rows.y, rows.w, n_bins)
    parts = {name: values.tolist() for name, values in bins.items()}
    return MeasureResult(spread.expected_normalised_error(bins), parts=parts)


def _variance_ratio(rows: MeasuredForecasts) -> MeasureResult:
    mean, variance = scores.moments(rows.forecasts)
    if not variance.all():
        raise InvalidOption.at("/variance", "is 0 in some rows")
    return rows.mean((rows.y - mean) ** 2 / variance)


def _skce(rows: MeasuredForecasts) -> MeasureResult:
    _check_plain(rows, "skce")
    value, p_value = spread.skce(rows.forecasts, rows.y, seed=rows.seed)
    return MeasureResult(value, p_value=p_value, parts={"rows": min(len(rows), spread.KERNEL_ROWS)})


def _check_plain(rows: MeasuredForecasts, name: str) -> None:
    """Raise ``InvalidOption`` for rows with weights or in clusters."""
    for column, what in ((rows.w, "weights"), (rows.clusters, "clusters")):
        if column is not None:
            raise InvalidOption.at(f"/{what}", f"are not supported by {name}")


def _evidence(
    rows: MeasuredForecasts, name: str, log_evidence: Callable[[], Floats], hypotheses: int = 1
) -> MeasureResult:
    """Return the largest evidence after any row, and the p-value of looking at all of them."""
    _check_plain(rows, name)
    log_wealth = log_evidence()
    largest, bound = float(log_wealth.max()), np.log(hypotheses / _ALARM)
    alarms = np.flatnonzero(log_wealth >= bound)
    parts = {"last": float(log_wealth[-1]), "alarm": int(alarms[0]) if len(alarms) else None}
    return MeasureResult(largest, p_value=float(min(1.0, hypotheses * np.exp(-largest))), parts=parts)


def _against_calibration(rows: MeasuredForecasts, *, horizon: int) -> MeasureResult:
    def found() -> Floats:
        return streams.against_calibration(rows.forecasts, rows.y, horizon=horizon, seed=rows.seed)

    return _evidence(rows, "calibration-evidence", found, horizon)


def _against_exchangeability(rows: MeasuredForecasts) -> MeasureResult:
    def found() -> Floats:
        return streams.against_exchangeability(rows.forecasts, rows.y, seed=rows.seed)

    return _evidence(rows, "exchangeability-evidence", found)


def _decomposition(rows: MeasuredForecasts, *, score: str) -> MeasureResult:
    w = np.ones(len(rows)) if rows.w is None else rows.w
    decomposition, more = decompositions.decomposed(rows.forecasts, rows.y, w, score)
    if not np.isfinite(decomposition.score):
        return MeasureResult(None, problem="no value: the score of a row is infinite")
    return MeasureResult(decomposition.miscalibration, parts={**vars(decomposition), **more})


def _bound(rows: MeasuredForecasts, *, least_variance: float | None) -> MeasureResult:
    if least_variance is None:
        raise InvalidOption.at(
            "/measures/least_variance", "must be given: without a lower bound of the variance no upper bound exists"
        )
    return rows.mean(scores.dawid_sebastiani(rows.forecasts, rows.y) - 1.0 - float(np.log(least_variance)))


_SCORES: Mapping[str, Callable[[Forecasts, Floats], Floats]] = MappingProxyType(
    {"dawid-sebastiani": scores.dawid_sebastiani, "log-score": scores.log_score, "crps": scores.crps}
)


def _improvement(rows: MeasuredForecasts, *, score: str, method: str) -> MeasureResult:
    w = np.ones(len(rows)) if rows.w is None else rows.w
    after = cross_fitted_rows(method, rows.forecasts, rows.y, w, rows.clusters, seed=rows.seed)
    both = [_SCORES[score](predicted, rows.y) for predicted in (rows.forecasts, after)]
    parts = dict(zip(("before", "after"), (rows.mean(predicted).value for predicted in both), strict=True))
    return replace(rows.mean(both[0] - both[1]), parts=parts)


def _conditional(rows: MeasuredForecasts, level: float, *, by: str, n_bins: int) -> MeasureResult:
    if by == "column":
        if rows.by is None:
            raise InvalidOption.at("/by", "is missing: conditional-coverage by column needs its values")
        member, names = conditional.bins_of(rows.by, rows.w, n_bins)
    else:
        low, high = scores.central(rows.forecasts, level)
        covariate = high - low if by == "width" else 0.5 * (low + high)
        member, names = conditional.equal_bins(covariate, rows.w, n_bins)
    return conditional.coverage_in_bins(
        rows.forecasts,
        rows.y,
        member,
        names,
        level=level,
        w=rows.w,
        squares=rows.squares if rows.weights_kind == "importance" else None,
        clusters=rows.clusters,
        seed=rows.seed,
    )


_MOMENTS, _QUANTILES = ("normal", "samples"), ("quantiles",)
_END = Option(None, choices=(None,), low=-1e300, high=1e300, real=True)
_NORM = Option(1, choices=(1, 2, "max"))
_OUTCOME = "at least 0, in the unit of the outcome"

#: Measures of predictive distributions, by name.
DISTRIBUTION_MEASURES = Catalogue[DistributionMeasure](
    "measure",
    {
        entry.name: entry
        for entry in (
            DistributionMeasure(
                "crps",
                "CRPS",
                "Continuous ranked probability score: the integral of (F(x) - 1{y <= x})^2. Closed form for normal "
                "distributions, the empirical distribution of samples (or unbiased: fair), and for quantiles an "
                "approximation, twice the mean pinball loss.",
                _OUTCOME,
                "Gneiting & Raftery 2007; Ferro 2014",
                _crps,
                ("normal", "quantiles", "samples"),
                {"estimator": Option("plain", choices=("plain", "fair"))},
            ),
            DistributionMeasure(
                "threshold-weighted-crps",
                "Threshold-weighted CRPS",
                "CRPS integrated from low to high alone: that of forecasts and outcomes clipped to this range.",
                _OUTCOME,
                "Gneiting & Ranjan 2011",
                _threshold_weighted,
                ("normal", "quantiles", "samples"),
                {"low": _END, "high": _END},
            ),
            DistributionMeasure(
                "weighted-interval-score",
                "Weighted interval score",
                "Sum of the pinball losses over K + 1/2 for K central intervals and the median; its parts are "
                "dispersion, underprediction and overprediction.",
                _OUTCOME,
                "Bracher et al. 2021",
                _weighted_interval,
                _QUANTILES,
            ),
            DistributionMeasure(
                "quantile-score",
                "Quantile score (mean pinball loss)",
                "Mean pinball loss (1{y < q} - tau) (q - y) over the declared levels, without a factor of 2.",
                _OUTCOME,
                "Koenker & Bassett 1978",
                _pinball,
                _QUANTILES,
            ),
            DistributionMeasure(
                "interval-score",
                "Interval score",
                "Width of the central interval plus 2 / (1 - level) times the distance of the outcome from it.",
                _OUTCOME,
                "Winkler 1972",
                _of_level(lambda rows, level: rows.mean(scores.interval_score(rows.forecasts, rows.y, level=level))),
                options={"level": _LEVEL},
            ),
            DistributionMeasure(
                "log-score",
                "Log score (nats)",
                "Minus the log density of the outcome, in nats.",
                "any number",
                "Good 1952",
                _score(scores.log_score),
                ("normal",),
            ),
            DistributionMeasure(
                "dawid-sebastiani",
                "Dawid-Sebastiani score",
                "(y - mean)^2 / variance + ln variance.",
                "any number",
                "Dawid & Sebastiani 1999",
                _score(scores.dawid_sebastiani),
                _MOMENTS,
            ),
            DistributionMeasure(
                "mae",
                "Mean absolute error",
                "Mean absolute error of the median.",
                _OUTCOME,
                "Gneiting 2011",
                _absolute,
            ),
            DistributionMeasure(
                "rmse",
                "Root mean squared error",
                "Root mean squared error of the mean (of quantiles and intervals, of the median or the midpoint).",
                _OUTCOME,
                "Gneiting 2011",
                lambda rows: rows.mean((rows.y - scores.point(rows.forecasts, "mean")) ** 2, root=True),
            ),
            DistributionMeasure(
                "bias",
                "Mean error",
                "Mean of the point forecast minus the outcome: 0 is best.",
                "any number, in the unit of the outcome",
                "Murphy 1988",
                lambda rows: rows.mean(scores.point(rows.forecasts, "mean") - rows.y),
            ),
            DistributionMeasure(
                "sharpness",
                "Mean width of intervals",
                "Mean width of the central interval of a level. It says nothing about calibration.",
                _OUTCOME,
                "Gneiting, Balabdaoui & Raftery 2007",
                _of_level(_sharpness),
                options={"level": _LEVEL},
            ),
            DistributionMeasure(
                "coverage",
                "Coverage",
                "Share of outcomes in the central interval of a level: the level is best.",
                "0 to 1",
                "Christoffersen 1998",
                _of_level(_coverage),
                options={"level": _LEVEL},
            ),
            DistributionMeasure(
                "quantile-calibration-error",
                "Calibration error of quantiles",
                "Norm over the levels of the observed share of outcomes at most the quantile, minus the level. With "
                "simultaneous 95 % bands, and the p-value of a Wald test of all levels. Here and in the tests of the "
                "probability integral transform, ties of outcomes with quantiles or samples are broken at random, and "
                "of more than 500 levels, 500 evenly chosen ones are used.",
                "0 to 1",
                "Kuleshov, Fenner & Ermon 2018",
                _calibration_error,
                options={"norm": _NORM},
                seconds=_seconds(row=3e-6, level=4e-4),
                is_error=True,
            ),
            DistributionMeasure(
                "pit-ks",
                "Kolmogorov-Smirnov distance of the PIT",
                "Largest difference between the distribution of the probability integral transform and the uniform "
                "one, over the levels, with its p-value.",
                "0 to 1",
                "Czado, Gneiting & Held 2009",
                _tested("ks"),
                seconds=_seconds(row=1.5e-5, level=1e-4),
            ),
            DistributionMeasure(
                "pit-kuiper",
                "Kuiper distance of the PIT",
                "Sum of the largest differences above and below, with its p-value.",
                "0 to 2",
                "Kuiper 1960",
                _tested("kuiper"),
                seconds=_seconds(row=1.5e-5, level=1e-4),
            ),
            DistributionMeasure(
                "pit-anderson-darling",
                "Anderson-Darling distance of the PIT",
                "n times the integral over the levels of the squared difference over tau (1 - tau), with its p-value.",
                "at least 0",
                "Anderson & Darling 1952",
                _tested("anderson-darling"),
                seconds=_seconds(row=1.7e-5, level=1e-4),
            ),
            DistributionMeasure(
                "calibration-evidence",
                "Evidence against calibration",
                "Natural logarithm of the largest value of an e-process against calibration, over the rows in the "
                "order given, which must be that of time. Its p-value, the horizon over the largest value, is valid "
                "although it looks at every row. The parts are the last logarithm, and the alarm: the first row, "
                "counted from 0, with a p-value of at most 0.05.",
                "any number, at most ln(1 / alpha) with probability 1 - alpha under calibration with horizon 1",
                "Arnold, Henzi & Ziegel 2023",
                _against_calibration,
                options={"horizon": Option(1, low=1, high=streams.MOST_LAGS)},
            ),
            DistributionMeasure(
                "exchangeability-evidence",
                "Evidence of a change of calibration",
                "As calibration-evidence, but against calibration, good or bad, that stays the same: an alarm says "
                "that it has changed.",
                "any number, at most ln(1 / alpha) with probability 1 - alpha without a change",
                "Vovk, Nouretdinov & Gammerman 2003; Shin, Ramdas & Rinaldo 2024",
                _against_exchangeability,
            ),
            DistributionMeasure(
                "variance-calibration-error",
                "Calibration error of variances",
                "ENCE: mean over bins of the predicted variance of the relative error of its root. The parts are the "
                "bins.",
                "at least 0",
                "Levi et al. 2022",
                _variance_error,
                _MOMENTS,
                {"n_bins": Option(10, low=1, high=1000)},
            ),
            DistributionMeasure(
                "variance-ratio",
                "Mean squared standardised error",
                "Mean squared standardised error: 1 is best, above 1 the variances are too small.",
                "at least 0",
                "Levi et al. 2022",
                _variance_ratio,
                _MOMENTS,
            ),
            DistributionMeasure(
                "skce",
                "Squared kernel calibration error",
                "Squared kernel calibration error of normal distributions, unbiased (it can be negative), with the "
                "p-value of a wild bootstrap.",
                "-1 to 1",
                "Widmann, Lindsten & Zachariah 2021",
                _skce,
                ("normal",),
                seconds=lambda size: _seconds()(size) + 4.0 * min(size.rows / spread.KERNEL_ROWS, 1.0) ** 2,
            ),
            DistributionMeasure(
                "decomposition",
                "Miscalibration in the decomposition of a score",
                "Score = miscalibration - discrimination + uncertainty; the value is the miscalibration. crps of "
                "normal distributions and samples: isotonic regression of the outcome on P(Y <= z) at 256 thresholds "
                "z. crps of quantiles and quantile-score: isotonic quantile regression at each level. log-score and "
                "dawid-sebastiani: the best mean a + b m and variance w v + c with b, w, c >= 0.",
                "at least 0, up to the error of the sum over thresholds",
                "Arnold, Walz, Ziegel & Gneiting 2024; Gneiting et al. 2023",
                _decomposition,
                ("normal", "quantiles", "samples"),
                {"score": Option("crps", choices=("crps", "quantile-score", "log-score", "dawid-sebastiani"))},
                seconds=_decomposition_seconds,
            ),
            DistributionMeasure(
                "upper-bound",
                "Upper bound of the calibration error of a score",
                "Upper bound of the calibration error of the Dawid-Sebastiani score: the score minus its infimum 1 + "
                "ln(least_variance) for outcomes whose variance given the forecast is at least least_variance.",
                "at least 0 if the bound of the variance holds",
                "Gruber & Buettner 2022, theorem 4.3",
                _bound,
                _MOMENTS,
                {"least_variance": Option(None, choices=(None,), low=1e-300, high=1e300, real=True)},
            ),
            DistributionMeasure(
                "recalibration-improvement",
                "Recalibration improvement",
                "Mean score before minus after a map that the method fits to the other of 3 folds: above 0 "
                "recalibration improves the score. It equals the change of the calibration error of the score if the "
                "map is injective (isotonic ones are not).",
                "any number",
                "Gruber & Buettner 2022, proposition 4.5",
                _improvement,
                ("normal",),
                {
                    "score": Option("dawid-sebastiani", choices=tuple(_SCORES)),
                    "method": Option(
                        "variance-platt",
                        choices=("variance-platt", "variance-scaling", "variance-isotonic", "location-scale"),
                    ),
                },
                seconds=_seconds(5.4e-3),
            ),
            DistributionMeasure(
                "conditional-coverage",
                "Largest difference of coverage, in standard errors",
                "Largest standardised difference between the coverage of the central interval and its level, with its "
                "p-value, over bins of about equal mass of its width, its centre or the column `by` of the rows; names "
                "in that column are groups. The parts are the bins, with simultaneous 95 % bands.",
                "at least 0",
                "Feldman, Bates & Romano 2021, for the bins of width",
                _of_level(_conditional),
                options={
                    "level": _LEVEL,
                    "by": Option("width", choices=("width", "centre", "column")),
                    "n_bins": Option(5, low=2, high=100),
                },
                seconds=_seconds(2.9e-3),
            ),
        )
    },
    public="DISTRIBUTION_MEASURES",
)

#: Measures that are computed unless others are chosen.
_DEFAULTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "normal": ("crps", "log-score", "rmse", "coverage", "quantile-calibration-error", "pit-ks"),
        "quantiles": ("quantile-score", "crps", "mae", "quantile-calibration-error", "pit-ks"),
        "samples": ("crps", "mae", "coverage", "quantile-calibration-error", "pit-ks"),
        "interval": ("interval-score", "coverage", "sharpness", "quantile-calibration-error"),
    }
)


def default_measures(kind: str) -> tuple[str, ...]:
    """Return the names of the measures that are computed for a kind of forecasts unless others are chosen."""
    return _DEFAULTS[kind]


Requests = Sequence[tuple[str, DistributionMeasure, dict[str, Any]]]


def read_measure_requests(measures: str | Sequence[str | Mapping[str, Any]]) -> Requests:
    """Read names of measures, or objects with options; raises ``UnknownMeasure`` or ``InvalidOption``."""
    return read_entries(measures, DISTRIBUTION_MEASURES, "measure", most=_MOST, unknown=UnknownMeasure)
