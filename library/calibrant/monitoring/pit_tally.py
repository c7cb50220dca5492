"""Tallies of the probability integral transform (PIT) of predictive distributions, and what they answer.

A row counts in the bin between two levels that its outcome falls into. The sum of a tally's column ``p_sum`` is that of
the scores of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from calibrant.core.arrays import Compared
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidOption,
    OutOfRange,
    TooFewRows,
    UnknownMeasure,
    UnknownMethod,
)
from calibrant.core.options import read_entries, read_seed
from calibrant.core.results import counted, n_rows
from calibrant.diagrams.reliability import wilson
from calibrant.distributions import pit, scores
from calibrant.distributions.calibrators import fit_level_counts
from calibrant.distributions.forecasts import Forecasts, read_forecasts, read_observed
from calibrant.distributions.maps.distribution_map import DistributionMap
from calibrant.distributions.maps.levels import LevelMap
from calibrant.distributions.measures import DISTRIBUTION_MEASURES, DistributionMeasure
from calibrant.measures.measure import MeasureResult
from calibrant.monitoring.event_tally import Gain, check_groups, gain_of, numbered, read_folds, renumbered
from calibrant.monitoring.evidence import SIZES, Alternative, Evidence, evidence
from calibrant.monitoring.tally import CELLS, FOLDS, Counts, Keys, Tally, gathered, merged

# --- The bins of a tally: between consecutive levels

#: Levels between which the transforms of normal distributions are counted.
FINE = np.arange(1, 200) / 200.0
#: The most levels of quantiles, and samples of a row.
MOST_LEVELS = 200
#: Larger scores count as this, so that sums stay finite.
_LARGEST = 1e290
#: Levels that differ by less are the same.
_SAME = 1e-9


def bin_levels(forecasts: Forecasts) -> Floats:
    """Return the levels between which rows are counted ``(L,)``; raise ``OutOfRange`` for more than ``MOST_LEVELS``.

    The declared levels of quantiles and intervals, i / (S + 1) for S samples, and 1/200 to 199/200 for normal
    distributions.
    """
    if forecasts.kind == "normal":
        return FINE
    if forecasts.kind == "samples":
        S = forecasts.samples.shape[1]
        if S > MOST_LEVELS:
            raise OutOfRange.at("/samples", f"has {S} samples per row, but a tally counts at most {MOST_LEVELS}")
        return sample_levels(S)
    if len(forecasts.levels) > MOST_LEVELS:
        raise OutOfRange.at("/levels", f"are {len(forecasts.levels)}, but a tally has at most {MOST_LEVELS}")
    return pit.levels_of(forecasts)


def sample_levels(n_samples: int) -> Floats:
    """Return the levels of the ordered samples of a row: an outcome has rank i with probability 1 / (S + 1)."""
    return np.arange(1, n_samples + 1) / (n_samples + 1.0)


def bins_of(forecasts: Forecasts, y: Floats, levels: Floats, random: np.random.Generator) -> Integers:
    """Return the bin of each row ``(n,)``, 0 to L; drawn at random if the outcome equals tied quantiles. O(n Q)."""
    with np.errstate(over="ignore"):  # an infinite normal score is in an outermost bin
        low, high = pit.pit(forecasts, y)
    return np.searchsorted(levels, low + random.random(len(y)) * (high - low)).astype(np.int64)


def row_scores(forecasts: Forecasts, y: Floats) -> Floats:
    """Return the score of each row: the CRPS, or the interval score of intervals. O(n Q)."""
    with np.errstate(all="ignore"):
        if forecasts.kind == "interval":
            of_rows = scores.interval_score(forecasts, y, level=forecasts.level)
        else:
            of_rows = scores.crps(forecasts, y)
    return np.clip(np.nan_to_num(of_rows, nan=_LARGEST, posinf=_LARGEST), 0.0, _LARGEST)


def tally_of_bins(base: Integers, bins: Integers, row_score: Floats) -> Tally:
    """Count rows: ``base (n,)`` is group * FOLDS + fold. O(n)."""
    keys: Keys = ((base * CELLS + bins) * 2).astype(np.uint32)
    return Tally(*gathered(keys, np.ones(len(bins), np.int64), row_score))


def counts_of(tally: Tally, n_levels: int) -> Counts:
    """Return the rows of each bin ``(L + 1,)`` of all groups and folds. O(m)."""
    bins = (tally.keys % np.uint32(2 * CELLS)) >> np.uint32(1)
    return np.bincount(bins, tally.rows, n_levels + 1).astype(np.int64)


# --- Tallies of arrays


@dataclass(frozen=True, eq=False, repr=False)
class PitTally(Compared):
    """Counts of forecasts by the level that their outcome has; ``tally_pit`` creates it and ``merge_pit`` adds up.

    Attributes
    ----------
    tally : Tally
        Number of rows and sum of scores by group, fold and bin.
    levels : ndarray, shape (L,)
        Ascending levels between the L + 1 bins.
    kind : {"normal", "quantiles", "samples", "interval"}
        What the forecasts were given as.
    groups : tuple of str
        Names of groups 1, 2, ...; group 0 holds the rows without a group.
    """

    tally: Tally
    levels: Floats
    kind: str
    groups: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tally)

    def __repr__(self) -> str:
        groups = f", {counted(len(self.groups), 'group')}" if self.groups else ""
        return f"PitTally: {n_rows(len(self))}, {self.kind}, {counted(len(self.levels), 'level')}{groups}"

    @property
    def counts(self) -> Counts:
        """The number of rows of each bin, ``(L + 1,)``."""
        return counts_of(self.tally, len(self.levels))

    def of_group(self, name: str) -> PitTally:
        """Return the tally of one group; raises ``InvalidOption`` for an unknown one."""
        if name not in self.groups:
            raise InvalidOption.at("/group", "is not a group of this tally")
        return replace(self, tally=self.tally.of_group(1 + self.groups.index(name)))


def tally_pit(
    observed: Any,
    *,
    groups: Sequence[str | None] | None = None,
    folds: Any = None,
    seed: int = 0,
    **forecasts: Any,
) -> PitTally:
    """Count forecasts by the level that their outcome has, for data that does not fit in memory.

    Parameters
    ----------
    observed : array_like, shape (n,)
        Outcomes.
    groups : sequence of (str or None), shape (n,), optional
        Group names; None for rows without a group.
    folds : array_like of int, shape (n,), optional
        Folds from 0 to 4.
    seed : int, default 0
        Seed of the bins of outcomes that equal tied quantiles.
    **forecasts
        ``mean`` and ``variance``, ``quantiles`` and ``levels``, ``samples``, or ``lower``, ``upper`` and ``level``.

    Returns
    -------
    PitTally
        At most 201 counts for each group and fold, regardless of the number of rows.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or there are more than 200 levels or samples.

    See Also
    --------
    merge_pit : Adds up tallies of partitions.
    evaluate_pit : Evaluates a tally.

    Notes
    -----
    O(n Q). Use another ``seed`` for each partition.

    Examples
    --------
    >>> from calibrant.monitoring.pit_tally import tally_pit
    >>> counted = tally_pit([0.0, 3.0], lower=[-1.0, -1.0], upper=[1.0, 1.0], level=0.9)
    >>> counted.counts.tolist()
    [0, 1, 1]
    """
    read = read_forecasts(**forecasts)
    y = read_observed(observed, read)
    levels = bin_levels(read)
    names, members = numbered(groups, len(y))
    base = np.zeros(len(y), np.int64) if members is None else members * FOLDS
    fold = read_folds(folds, len(y))
    bins = bins_of(read, y, levels, np.random.default_rng(read_seed(seed)))
    tally = tally_of_bins(base if fold is None else base + fold, bins, row_scores(read, y))
    return PitTally(tally, levels, read.kind, tuple(names))


def merge_pit(tallies: Iterable[PitTally]) -> PitTally:
    """Add up tallies of the same forecasts; raises ``InvalidOption`` if their levels or kinds differ.

    Examples
    --------
    >>> from calibrant.monitoring.pit_tally import merge_pit, tally_pit
    >>> part = tally_pit([0.0, 3.0], lower=[-1.0, -1.0], upper=[1.0, 1.0], level=0.9)
    >>> merge_pit([part, part]).counts.tolist()
    [0, 2, 2]
    """
    parts = list(tallies)
    if not parts:
        raise EmptyBatch.at("/tallies", "must contain at least one tally")
    first = parts[0]
    for i, part in enumerate(parts):
        if part.kind != first.kind or not np.array_equal(part.levels, first.levels):
            raise InvalidOption.at(f"/tallies/{i}", "must have the same kind of forecasts and levels as the first")
    names = sorted({name for part in parts for name in part.groups})
    check_groups(names)
    whole = merged([renumbered(part.tally, part.groups, names) for part in parts])
    return replace(first, tally=whole, groups=tuple(names))


# --- Measures of a tally

#: Measures that counts of bins determine.
MEASURES = ("quantile-calibration-error", "coverage", "pit-ks", "pit-kuiper", "pit-anderson-darling")
#: The mean score of each kind.
_SCORES: Mapping[str, str] = {"normal": "crps", "quantiles": "crps", "samples": "crps", "interval": "interval-score"}
#: The options of measures that a tally knows; a measure with another one needs the rows.
_OPTIONS: Mapping[str, frozenset[str]] = {
    "crps": frozenset({"estimator"}),
    "interval-score": frozenset({"level"}),
    "coverage": frozenset({"level"}),
    "quantile-calibration-error": frozenset({"norm"}),
}
#: Central intervals of these levels are reported if both of their ends are levels of the bins.
_INTERVALS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
#: Levels of the calibration error of fine bins, as in ``evaluate_distribution``.
_COARSE = pit.LEVELS
#: The most bins of a histogram; more are put together.
_MOST_BINS = 25
_DRAWS = 400

#: The key of a measure, the measure and its options.
Request = tuple[str, DistributionMeasure, dict[str, Any]]


def read_pit_measures(measures: Sequence[str | Mapping[str, Any]], kind: str, levels: Floats) -> Sequence[Request]:
    """Read names of measures, or objects with options, that a tally of this kind and these levels has.

    Raises ``UnknownMeasure`` and ``InvalidOption`` at ``/measures/i``.
    """
    requests = read_entries(list(measures), DISTRIBUTION_MEASURES, "measure", most=100, unknown=UnknownMeasure)
    known = (*MEASURES, _SCORES[kind])
    for i, (_, measure, options) in enumerate(requests):
        if measure.name not in known:
            raise InvalidOption.at(f"/measures/{i}", f"must be one of {', '.join(known)}: other measures need the rows")
        if unknown := sorted(options.keys() - _OPTIONS.get(measure.name, frozenset())):
            raise InvalidOption.at(f"/measures/{i}/{unknown[0]}", "is not an option of measures of a tally")
        if measure.name == "crps" and options["estimator"] != "plain":
            raise InvalidOption.at(f"/measures/{i}/estimator", "must be plain: a tally has no fair score")
        if measure.name == "interval-score" and options["level"] is not None:
            raise InvalidOption.at(f"/measures/{i}/level", "must be left out: it is that of the intervals")
        if measure.name == "coverage" and _ends(levels, _level(levels, options["level"])) is None:
            raise InvalidOption.at(
                f"/measures/{i}/level", "must be the level of a central interval between two of the levels"
            )
    return requests


def default_pit_measures(kind: str, levels: Floats) -> list[str]:
    """Return the names of the measures of a tally unless others are chosen."""
    widest = ["coverage"] if _level(levels, None) is not None else []
    return ["quantile-calibration-error", *widest, _SCORES[kind]]


def _ends(levels: Floats, level: float | None) -> tuple[int, int] | None:
    """Return the indices of the levels at the ends of a central interval, if there are any."""
    if level is None:
        return None
    ends = [int(np.abs(levels - end).argmin()) for end in ((1.0 - level) / 2.0, (1.0 + level) / 2.0)]
    apart = np.abs(levels[ends] - np.array([1.0 - level, 1.0 + level]) / 2.0).max()
    return (ends[0], ends[1]) if apart <= _SAME and ends[0] < ends[1] else None


def _level(levels: Floats, level: float | None) -> float | None:
    """Return this level, else 0.9, else that of the widest central interval; None if there is none."""
    if level is not None or _ends(levels, 0.9) is not None:
        return 0.9 if level is None else level
    widths = [round(1.0 - 2.0 * float(low), 12) for low in levels if low < 0.5]
    return next((width for width in widths if _ends(levels, width) is not None), None)


def central_levels(levels: Floats) -> list[float]:
    """Return the levels of central intervals to report, ascending; if none is usual, the widest one."""
    usual = [level for level in _INTERVALS if _ends(levels, level) is not None]
    widest = _level(levels, None)
    return usual if usual or widest is None else [widest]


def covered(counts: Counts, levels: Floats, level: float) -> float:
    """Return the share of outcomes in the central interval of a level."""
    ends = _ends(levels, level)
    if ends is None:
        raise InvalidOption.at("/level", "is not that of a central interval")
    return float(counts[ends[0] + 1 : ends[1] + 1].sum() / counts.sum())


def _coverage(counts: Counts, levels: Floats) -> pit.Coverage:
    """Return the shares of outcomes at most each level."""
    edges = np.concatenate([[0.0], levels, [1.0]])
    return pit.coverage_at((edges[1:] + edges[:-1]) / 2.0, levels, counts.astype(np.float64))


def regrouped(counts: Counts, levels: Floats, wanted: Floats) -> tuple[Counts, Floats]:
    """Return the rows between those of the ``levels`` that are nearest to the ``wanted`` ones."""
    at = np.unique([int(np.abs(levels - level).argmin()) for level in wanted])
    return np.add.reduceat(counts, np.concatenate([[0], at + 1])), levels[at]


def measured(
    request: tuple[str, DistributionMeasure, dict[str, Any]], tally: PitTally, interval: float | None
) -> MeasureResult:
    """Return one measure of a tally; one that does not exist has a problem. O(L^2)."""
    _, measure, options = request
    counts, levels, n = tally.counts, tally.levels, len(tally)
    if not n:
        return MeasureResult(None, problem="no value: no row has an outcome yet")
    if measure.name == _SCORES[tally.kind]:
        mean = float(tally.tally.p_sum.sum()) / n
        return MeasureResult(mean) if mean < _LARGEST / n else MeasureResult(None, problem="no value: it is infinite")
    if measure.name == "coverage":
        level = _level(levels, options["level"]) or 0.0
        share = covered(counts, levels, level)
        definition = {"level": level}
        if interval is None:
            return MeasureResult(share, definition=definition)
        low, high = wilson(np.array([share]), np.array([float(n)]), interval)
        return MeasureResult(share, interval=(float(low[0]), float(high[0])), definition=definition)
    try:
        if measure.name == "quantile-calibration-error":
            if tally.kind == "normal":
                counts, levels = regrouped(counts, levels, _COARSE)
            return _calibration_error(counts, levels, options["norm"], interval)
        if tally.kind == "normal":
            counts, levels = regrouped(counts, levels, pit.FINE_LEVELS)
        value, p_value = pit.tested(_coverage(counts, levels), measure.name.removeprefix("pit-"), seed=0)
        return MeasureResult(value, p_value=p_value)
    except TooFewRows:
        return MeasureResult(None, problem="no value: there are fewer than 20 rows with outcomes")
    except CalibrationError as error:
        return MeasureResult(None, problem=f"no value: {error.detail}")


def _calibration_error(counts: Counts, levels: Floats, norm: Any, interval: float | None) -> MeasureResult:
    """Return the error of the shares, with an interval that is conservative.

    By the triangle inequality the error of the shares differs from that of their expectations by at most the norm of
    their noise, whose quantile is that of multinomial resamples.
    """
    size = np.inf if norm == "max" else float(norm)
    coverage = _coverage(counts, levels)
    value, debiased = pit.calibration_error(coverage, size)
    ends = None
    n = int(counts.sum())
    if interval is not None:
        drawn = np.random.default_rng(0).multinomial(n, counts / n, _DRAWS)[:, :-1]
        noise = np.abs(np.cumsum(drawn, axis=1) / n - coverage.share)
        sizes = noise.max(axis=1) if np.isinf(size) else np.mean(noise**size, axis=1) ** (1.0 / size)
        reach = float(np.quantile(sizes, interval))
        ends = max(value - reach, 0.0), min(value + reach, 1.0)
    return MeasureResult(value, debiased, interval=ends, p_value=pit.chi_square(coverage, seed=0))


def evaluate_pit(
    tally: PitTally, *, measures: Sequence[str | Mapping[str, Any]] | None = None, interval: float | None = None
) -> dict[str, MeasureResult]:
    """Measure how well the forecasts of a tally are calibrated.

    Parameters
    ----------
    tally : PitTally
        Result of ``tally_pit`` or ``merge_pit``.
    measures : sequence of str or mapping, optional
        ``quantile-calibration-error``, ``coverage``, ``pit-ks``, ``pit-kuiper``, ``pit-anderson-darling``, and
        ``crps`` or for intervals ``interval-score``; options as for ``evaluate_distribution``.
    interval : float, optional
        Level of confidence intervals, in (0, 1); those of the calibration error are conservative.

    Returns
    -------
    dict of str to MeasureResult
        The result of each measure.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    tally_pit : Counts rows.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.monitoring.pit_tally import evaluate_pit, tally_pit
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> counted = tally_pit(y, mean=np.zeros(1000), variance=np.full(1000, 0.25))
    >>> round(evaluate_pit(counted, measures=["coverage"])["coverage"].value, 2)
    0.61
    """
    wanted = default_pit_measures(tally.kind, tally.levels) if measures is None else measures
    requests = read_pit_measures(wanted, tally.kind, tally.levels)
    if interval is not None and not 0.0 < interval < 1.0:
        raise InvalidOption.at("/interval", "must be a number above 0 and below 1")
    return {request[0]: measured(request, tally, interval) for request in requests}


@dataclass(frozen=True)
class PitDensity:
    """Outcomes between levels ``edges (B + 1,)``: ``count``, ``density`` and a band ``(B,)``.

    Of calibrated forecasts, all densities lie between ``low`` and ``high`` with a probability of 95 %. ``distance`` is
    the largest difference of the share of outcomes at most a level from the level. ``intervals`` has the level, the
    share of outcomes and its 95 % interval (Wilson 1927) of central intervals.
    """

    edges: Floats
    count: Counts
    density: Floats
    low: Floats
    high: Floats
    distance: float
    intervals: list[tuple[float, float, float, float]]


def histogram(tally: PitTally) -> PitDensity:
    """Return the histogram of a tally with rows, of at most 25 bins; raises ``EmptyBatch``."""
    counts, levels, n = tally.counts, tally.levels, len(tally)
    if not n:
        raise EmptyBatch.at("/observed", "has no rows")
    intervals = []
    for level in central_levels(levels):
        share = covered(counts, levels, level)
        low, high = wilson(np.array([share]), np.array([float(n)]), 0.95)
        intervals.append((level, share, float(low[0]), float(high[0])))
    if len(counts) > _MOST_BINS:
        counts, levels = regrouped(counts, levels, _COARSE)
    edges = np.concatenate([[0.0], levels, [1.0]])
    width, coverage = np.diff(edges), _coverage(counts, levels)
    half = pit.bin_bands(coverage, 0.95) / width
    distance = float(np.abs(coverage.gap).max())
    return PitDensity(edges, counts, counts / n / width, np.maximum(1.0 - half, 0.0), 1.0 + half, distance, intervals)


# --- Evidence against calibration: an e-process of the counts
#
# If forecasts are calibrated, the bin of each row has the probabilities p of the widths between the levels, given all
# rows before it. An alternative with probabilities q bets q / p on each row, of mean 1, so the product over any rows in
# any order is a martingale: exp(sum counts log(q / p)). The mixture over alternatives and starts is that of
# ``calibrant.monitoring.evidence``.

#: Numbers of parts of the levels that get more or fewer outcomes, and the weight of all of them.
_PARTS, _PARTS_WEIGHT = (2, 4, 8), 0.3


@dataclass(frozen=True)
class PitShift(Alternative):
    """An alternative to calibration.

    ``line``: the normal score of the transform has mean ``delta`` and standard deviation exp(``spread``). ``part``: the
    odds of a transform from ``low`` to ``high`` are multiplied by exp(``delta``).
    """

    def message(self) -> str:
        """Return a description of the shift.

        Examples
        --------
        >>> PitShift("line", 0.0, 0.2).message()
        'forecasts are too narrow'
        """
        if self.shape == "part":
            often = "often" if self.delta > 0.0 else "seldom"
            return f"outcomes are too {often} between the quantiles of levels {self.low:g} and {self.high:g}"
        narrow = f"too {'narrow' if self.spread > 0.0 else 'wide'}"
        side = f"too {'low' if self.delta > 0.0 else 'high'}"
        if abs(self.delta) < 0.5 * abs(self.spread):
            return f"forecasts are {narrow}"
        return (
            f"forecasts are {side}"
            if abs(self.spread) < 0.5 * abs(self.delta)
            else f"forecasts are {side} and {narrow}"
        )


@lru_cache(maxsize=64)
def _alternatives(levels: tuple[float, ...]) -> tuple[tuple[PitShift, ...], Floats, Floats]:
    """Return the J alternatives, the logarithms of their weights ``(J,)``, and of their bets ``(J, L + 1)``."""
    edges = np.array([0.0, *levels, 1.0])
    p, z = np.diff(edges), ndtri(edges)
    lines, parts = PitShift.lines(), []
    bets = [np.diff(ndtr((z - line.delta) * math.exp(-line.spread))) for line in lines]
    middle = (edges[1:] + edges[:-1]) / 2.0
    for low, high in (pair for n in _PARTS for pair in pairwise(np.linspace(0.0, 1.0, n + 1).tolist())):
        inside = (middle > low) & (middle < high)
        if inside.all() or not inside.any():
            continue
        for delta in (sign * size for size in SIZES[2:] for sign in (1.0, -1.0)):
            parts.append(PitShift("part", delta, low=low, high=high))
            bets.append(p * np.exp(delta * inside))
    table = np.stack(bets)
    # A share of 1/1000 of the bet is on calibration, so that no bin is a ruin.
    table = 0.999 * table / table.sum(axis=1, keepdims=True) + 0.001 * p
    share = _PARTS_WEIGHT if parts else 0.0
    weights = [np.full(len(lines), (1.0 - share) / len(lines)), np.full(len(parts), share / max(len(parts), 1))]
    return (*lines, *parts), np.log(np.concatenate(weights)), np.log(table / p)


def log_pit_factors(tally: Tally, levels: Floats) -> Floats:
    """Return the logarithm of the bet of each alternative on the rows of one time bucket ``(J,)``. O(m + J L)."""
    return np.asarray(_alternatives(tuple(levels.tolist()))[2] @ counts_of(tally, len(levels)))


def log_pit_weights(levels: Floats) -> Floats:
    """Return the logarithms of the weights of the alternatives ``(J,)``, which sum to 1."""
    return _alternatives(tuple(levels.tolist()))[1]


def pit_evidence_of(factors: Floats, levels: Floats, first: int = 0) -> Evidence:
    """Return the evidence of consecutive time buckets from ``factors (B, J)``, rows of ``log_pit_factors``."""
    shifts, log_weights, _ = _alternatives(tuple(levels.tolist()))
    return evidence(factors, first, alternatives=shifts, log_prior=log_weights)


def pit_evidence(tallies: Sequence[PitTally]) -> Evidence:
    """Return the evidence against calibration of the tallies of consecutive times, valid at any time.

    Parameters
    ----------
    tallies : sequence of PitTally
        Tallies of the same forecasts, in time order; at least one.

    Returns
    -------
    Evidence
        Under calibration with independent transforms, the probability that ``log_e`` ever reaches log(1 / alpha) is
        at most alpha. Forecasts of overlapping horizons are dependent, and then this does not hold.

    Raises
    ------
    CalibrationError
        If there is no tally, or their levels differ.

    See Also
    --------
    tally_pit : Counts rows.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.monitoring.pit_tally import pit_evidence, tally_pit
    >>> y = np.random.default_rng(6).normal(size=5000)
    >>> found = pit_evidence([tally_pit(y, mean=np.zeros(5000), variance=np.full(5000, 0.25))])
    >>> found.level < 1e-6, found.shift.message()
    (True, 'forecasts are too narrow')
    """
    levels = merge_pit(tallies).levels
    return pit_evidence_of(np.stack([log_pit_factors(part.tally, levels) for part in tallies]), levels)


# --- Calibration maps fitted to counts

#: Forecasts whose bins determine a map of levels: samples and intervals have their own quantile functions.
RECALIBRATED = ("normal", "quantiles")


def fit_pit(tally: PitTally, /, **options: Any) -> DistributionMap:
    """Fit quantile recalibration to the counts of a tally.

    Parameters
    ----------
    tally : PitTally
        Counts of normal forecasts or of quantiles, from ``tally_pit`` or ``merge_pit``.
    **options
        ``shape``, ``tails``, ``scale``, ``support`` and ``output_levels`` of ``fit_distribution``.

    Returns
    -------
    DistributionMap
        A map of the method ``quantile-recalibration``. It differs from a fit to the rows in that outcomes are
        distributed within their bin as in the normal distribution that the counts make most likely.

    Raises
    ------
    CalibrationError
        If an option is invalid, or the tally is of samples or intervals.

    See Also
    --------
    tally_pit : Counts rows.
    pit_gain : Compares the map with the forecasts on other rows.

    Notes
    -----
    O(L), regardless of the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.monitoring.pit_tally import fit_pit, tally_pit
    >>> y = np.random.default_rng(0).normal(size=20000)
    >>> fitted = fit_pit(tally_pit(y, mean=np.zeros(20000), variance=np.full(20000, 0.25)), output_levels=[0.1, 0.9])
    >>> fitted.apply(mean=[0.0], variance=[0.25]).quantiles.round(1)
    array([[-1.3,  1.3]])
    """
    if tally.kind not in RECALIBRATED:
        raise UnknownMethod.at("/method", f"no map can be fitted to counts of {tally.kind} forecasts; send quantiles")
    scores = ndtri(tally.levels)[None]
    shown = (
        Forecasts("normal", mean=np.zeros(1), variance=np.ones(1))
        if tally.kind == "normal"
        else Forecasts("quantiles", quantiles=scores, levels=tally.levels)
    )
    return fit_level_counts(tally.counts, shown, tally.levels, options)


def pit_gain(tally: PitTally, fitted: DistributionMap, level: float = 0.95) -> Gain:
    """Compare a map of ``fit_pit`` with the forecasts as they are, on rows that it was not fitted to.

    Parameters
    ----------
    tally : PitTally
        Counts of other rows of the same forecasts, at least two.
    fitted : DistributionMap
        Result of ``fit_pit``.
    level : float, default 0.95
        Level of the confidence interval, in (0, 1).

    Returns
    -------
    Gain
        The mean gain in the logarithmic score of the bin of the outcome, in nats per row, with its interval for
        independent rows (Student 1908). Above 0 the map is better.

    Raises
    ------
    CalibrationError
        If there are fewer than two rows, or the map is not one of levels.

    See Also
    --------
    fit_pit : Fits the map.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.monitoring.pit_tally import fit_pit, pit_gain, tally_pit
    >>> y = np.random.default_rng(0).normal(size=20000)
    >>> halves = [tally_pit(half, mean=np.zeros(10000), variance=np.full(10000, 0.25)) for half in np.split(y, 2)]
    >>> found = pit_gain(halves[1], fit_pit(halves[0]))
    >>> round(found.value, 1), found.low > 0
    (0.6, True)
    """
    counts, rows = tally.counts.astype(np.float64), len(tally)
    if rows < 2:
        raise TooFewRows("a comparison needs at least two rows")
    if not isinstance(fitted.function, LevelMap):
        raise UnknownMethod.at("/method", "must be quantile-recalibration: a tally determines no other gain")
    edges = np.concatenate([[0.0], tally.levels, [1.0]])
    better = np.log(np.diff(fitted.function.heights_at(edges)) / np.diff(edges))
    value = float(counts @ better) / rows
    return gain_of(value, better - value, counts, rows, level)
