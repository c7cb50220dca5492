"""Tests of the default probabilities (PDs) of rating grades, and prudent PDs of grades with few or no defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import leggauss
from scipy.special import bdtrc, betainc, betaincinv, chdtrc, ndtr, ndtri

from calibrant.comparison.pairs import holm
from calibrant.core.arguments import explained
from calibrant.core.arrays import array_of, check_aligned
from calibrant.core.batch import Batch, InputScale, read_numbers, refuse_clusters
from calibrant.core.cells import Floats
from calibrant.core.choices import Light as Light
from calibrant.core.errors import InvalidLabel, InvalidOption, LengthMismatch, WrongShape, naming
from calibrant.core.groups import Groups
from calibrant.core.inputs import listing, read_rows
from calibrant.core.options import read_fraction
from calibrant.core.results import Framed, Table, counted, n_rows, plain_json
from calibrant.measures.clinical import LEAST_EXPECTED, LEAST_VARIANCE

#: P-values up to which a light is yellow and red: confidence of 95 % and 99.9 % (Tasche 2003).
_YELLOW, _RED = 0.05, 0.001

# --- Defaults that share a factor

#: Normal variables are integrated over equal panels, and over panels that halve towards a value where integrands have a
#: step, which is steeper with more obligors or less correlation.
_PANELS, _HALVES = np.linspace(-9.0, 9.0, 37), 0.5 ** np.arange(1, 24)
_NODES, _NODE_WEIGHTS = leggauss(8)
#: The most grades with prudent PDs, which take up to 5 ms each with a correlation.
_MOST_BOUNDED = 100
#: The least confidence that is distinguished: SciPy's quantiles of some beta distributions are NaN for much less.
_LEAST_CONFIDENCE = 1e-30
#: Normal quantiles between which that of a prudent PD is.
_LEAST, _MOST = -38.0, 38.0


def _normal_nodes(step: float) -> tuple[Floats, Floats]:
    """Return values of a normal variable and their probabilities ``(m,)``, for integrands with a ``step``."""
    panels = np.concatenate([_PANELS, step - _HALVES, [step], step + _HALVES])
    edges = np.unique(np.clip(panels, _PANELS[0], _PANELS[-1]))
    half = np.diff(edges)[:, None] / 2.0
    values = (edges[:-1, None] + half * (1.0 + _NODES)).ravel()
    return values, (half * _NODE_WEIGHTS).ravel() * np.exp(-(values**2) / 2.0) / math.sqrt(2.0 * math.pi)


def one_factor_tail(defaults: int, n: int, quantiles: Floats, shares: Floats, correlation: float) -> float:
    """Return P(D >= defaults) of ``n`` obligors whose defaults share a factor (Vasicek 2002).

    Given the factor z, obligors default independently with probability Phi((c - sqrt(r) z) / sqrt(1 - r)), for the
    normal quantile c of the PD and the asset correlation r. Of several PDs, ``shares`` of the obligors each, the mean
    of these probabilities is used, which makes a small tail larger, if anything (Hoeffding 1956).
    """
    from scipy.optimize import brentq

    loading, own = math.sqrt(correlation), math.sqrt(1.0 - correlation)

    def rates(factors: Floats) -> Floats:
        return np.asarray(shares @ ndtr((quantiles[:, None] - loading * factors) / own))

    ends, rate = _PANELS[[0, -1]], defaults / n
    most, least = rates(ends)
    step = ends[int(rate < most)]
    if least < rate < most:
        step = brentq(lambda factor: rates(np.array([factor]))[0] - rate, *ends)
    factors, mass = _normal_nodes(step)
    return min(float(mass @ bdtrc(defaults - 1, n, rates(factors))), 1.0)


def prudent_pd(defaults: int, n: int, confidence: float, correlation: float | None) -> float:
    """Return the PD with which more than the observed defaults have the probability ``confidence``.

    That probability is P(B <= rate) for B from Beta(D + 1, n - D) and the rate given the factor, so that B is
    integrated, whose distribution does not depend on the PD.
    """
    from scipy.optimize import brentq

    if defaults == n:
        return 1.0
    if correlation is None:
        return float(betaincinv(defaults + 1, n - defaults, max(confidence, _LEAST_CONFIDENCE)))
    loading, own = math.sqrt(correlation), math.sqrt(1.0 - correlation)
    values, mass = _normal_nodes(float(ndtri(confidence)))
    needed = own * ndtri(betaincinv(defaults + 1, n - defaults, ndtr(values)))

    def excess(quantile: float) -> float:
        return float(mass @ ndtr((quantile - needed) / loading) - confidence)

    if excess(_MOST) <= 0.0:  # the PD differs from 1 by less than floats do
        return 1.0
    return float(ndtr(_LEAST if excess(_LEAST) >= 0.0 else brentq(excess, _LEAST, _MOST)))


# --- Results


@dataclass(kw_only=True)
class GradeResult:
    """The tests of a grade, or of all grades as one; p-values are small if the PD is too low.

    Attributes
    ----------
    grade : str
        Name of the grade; of all grades as one: (all).
    n : int
        Number of obligors.
    defaults : int
        Number of defaults.
    pd : float
        Mean PD of the obligors.
    rate : float
        Observed rate of defaults.
    jeffreys_p : float
        P-value of Jeffreys' test.
    binomial_p : float
        P-value of the binomial test.
    one_factor_p : float or None
        P-value of the one-factor model; None without correlation.
    jeffreys_holm, binomial_holm, one_factor_holm : float or None
        The same, corrected for all grades; None for (all).
    light, one_factor_light : {"green", "yellow", "red"}, or None without correlation
        Traffic light of the test: yellow for p-values up to 0.05, red up to 0.001.
    prudent_pd, one_factor_prudent_pd : float or None
        Upper bound of the PD; None without confidence, for (all), and of the one-factor model without correlation.
    """

    grade: str
    n: int
    defaults: int
    pd: float
    rate: float
    jeffreys_p: float
    jeffreys_holm: float | None = None
    binomial_p: float
    binomial_holm: float | None = None
    light: Light
    one_factor_p: float | None = None
    one_factor_holm: float | None = None
    one_factor_light: Light | None = None
    prudent_pd: float | None = None
    one_factor_prudent_pd: float | None = None


@dataclass(frozen=True, repr=False)
class GradeTests(Framed):
    """Result of ``grade_tests``; ``to_frame`` has a row for each grade, without columns that were not requested.

    Attributes
    ----------
    grades : list of GradeResult
        From the lowest PD to the highest: ``grade``, ``n`` obligors, ``defaults``, mean ``pd`` and ``rate`` of
        defaults; p-values, small if the PD is too low, ``jeffreys_p``, ``binomial_p`` and with a correlation
        ``one_factor_p``; Holm's ``jeffreys_holm`` and so on; ``light`` and ``one_factor_light``; with a confidence
        ``prudent_pd`` and ``one_factor_prudent_pd``. What was not requested is None.
    total : GradeResult
        The tests of all grades as one, with their mean PD.
    hosmer_lemeshow : dict or None
        ``statistic``, ``degrees_of_freedom`` (the number of grades) and ``p_value`` for independent defaults, small if
        PDs are too low or too high; None if a PD is 1, or 0 or below 1e-150.
    notes : list of str
        Grades with several PDs, of which the mean is tested, and grades without obligors, which are left out.

    See Also
    --------
    grade_tests : Tests grades.

    Examples
    --------
    >>> import calibrant
    >>> result = calibrant.grade_tests([0.01, 0.05], ["A", "B"], [16, 17], n=[1000, 200])
    >>> [(row.grade, round(row.jeffreys_p, 5), row.light) for row in result.grades]
    [('A', 0.03577, 'yellow'), ('B', 0.01708, 'yellow')]
    """

    grades: list[GradeResult]
    total: GradeResult
    hosmer_lemeshow: dict[str, float] | None
    notes: list[str]

    def _records(self) -> list[dict[str, Any]]:
        return [{name: value for name, value in plain_json(row).items() if value is not None} for row in self.grades]

    def _table(self) -> Table:
        columns = [field.name for field in fields(GradeResult)]
        rows = [[_cell(getattr(row, name)) for name in columns] for row in (*self.grades, self.total)]
        test = self.hosmer_lemeshow or {}
        notes = [f"Hosmer-Lemeshow: {', '.join(f'{name} {_cell(x)}' for name, x in test.items())}"] if test else []
        return Table(f"Tests of {counted(len(self.grades), 'grade')}", columns, rows, [*notes, *self.notes])


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


# --- The tests


def grade_results(
    batch: Batch,
    grades: Groups | None,
    correlation: float | None,
    confidence: float | None,
    defaults: Floats | None = None,
) -> GradeTests:
    """Test the grades of rows, whose weights are numbers of obligors; ``defaults (n,)`` replace weighted labels.

    Raises a ``CalibrationError`` for invalid options, and for other predictions, weights or grades.
    """
    for name, value in {"correlation": correlation, "confidence": confidence}.items():
        if value is not None:
            read_fraction(value, f"/{name}")
    grades = check_grades(batch, grades)
    pd, n = batch.predictions.values, np.ones(len(batch)) if batch.weights is None else batch.weights
    defaults = batch.labels * n if defaults is None else defaults
    results, notes = list[GradeResult](), list[str]()
    for name, members in grades.members.items():
        rows = members[n[members] > 0.0]
        if not len(rows):
            notes.append(f"{name} is left out: it has no obligors")
            continue
        size, pds = int(n[rows].sum()), np.unique(pd[rows])
        if len(pds) > 1:
            notes.append(f"{name} has PDs from {pds[0]:.4g} to {pds[-1]:.4g}; their mean over its obligors is tested")
            pds = np.array([n[rows] @ pd[rows] / size])
        results.append(_tested(name, size, int(defaults[rows].sum()), pds, np.ones(1), correlation))
    results.sort(key=lambda result: result.pd)
    for test in ("jeffreys", "binomial", *(() if correlation is None else ("one_factor",))):
        adjusted = holm(np.array([getattr(result, f"{test}_p") for result in results]))
        for result, p_value in zip(results, adjusted.tolist(), strict=True):
            setattr(result, f"{test}_holm", p_value)
    if confidence is not None:
        _add_prudent_pds(results, confidence, correlation)
    size, pds = int(n.sum()), np.array([result.pd for result in results])
    shares = np.array([result.n for result in results]) / size
    total = _tested("(all)", size, int(defaults.sum()), pds, shares, correlation)
    statistic = _hosmer_lemeshow(results)
    least = min(results, key=lambda result: result.n * min(result.pd, 1.0 - result.pd))
    expected = least.n * min(least.pd, 1.0 - least.pd)
    if statistic is not None and expected < LEAST_EXPECTED:
        few = f"{least.grade} expects {expected:.2g} defaults or other obligors, and {LEAST_EXPECTED} are advised"
        notes.append(f"the p-value of Hosmer-Lemeshow may be too small: {few}")
    return GradeTests(results, total, statistic, notes)


def check_grades(batch: Batch, grades: Groups | None) -> Groups:
    """Return the grades of rows; raise a ``CalibrationError`` if their PDs cannot be tested."""
    refuse_clusters(batch, "tests of grades")
    if grades is None:
        raise InvalidOption.at("/groups", "must be the grade of each row")
    if len(grades) != len(batch):
        raise LengthMismatch.at("/groups", f"has {n_rows(len(grades))}, but predictions have {len(batch):,}")
    if batch.predictions.n_classes is not None:
        raise WrongShape.at("/predictions", "must be (n,), the PD of each row")
    if batch.counts_as != "frequency":
        raise InvalidOption.at("/weights_kind", "must be frequency: weights are numbers of obligors")
    if batch.weights is None and len(grades.members) == len(batch):
        raise InvalidOption.at("/groups", "have one row each: numbers of obligors are missing")
    return grades


def _tested(name: str, n: int, defaults: int, pds: Floats, shares: Floats, correlation: float | None) -> GradeResult:
    """Test obligors as one grade, with the mean of the PDs that ``shares`` of them have."""
    pd = float(pds[0]) if len(pds) == 1 else float(shares @ pds)
    binomial = float(bdtrc(defaults - 1, n, pd))
    result = GradeResult(
        grade=name,
        n=n,
        defaults=defaults,
        pd=pd,
        rate=defaults / n,
        jeffreys_p=float(betainc(defaults + 0.5, n - defaults + 0.5, pd)),
        binomial_p=binomial,
        light=_light(binomial),
    )
    if correlation is not None:
        result.one_factor_p = one_factor_tail(defaults, n, ndtri(pds), shares, correlation)
        result.one_factor_light = _light(result.one_factor_p)
    return result


def _light(p_value: float) -> Light:
    return "red" if p_value <= _RED else "yellow" if p_value <= _YELLOW else "green"


def _add_prudent_pds(results: Sequence[GradeResult], confidence: float, correlation: float | None) -> None:
    """Pool each grade with all worse ones; raises ``InvalidOption`` for grades of the same PD, and for too many."""
    if len(results) > _MOST_BOUNDED:
        raise InvalidOption.at("/confidence", f"needs at most {_MOST_BOUNDED} grades")
    for better, worse in pairwise(results):
        if better.pd == worse.pd:
            names = listing([better.grade, worse.grade])
            raise InvalidOption.at("/confidence", f"needs PDs that rise from grade to grade; {names} have the same")
    n = defaults = 0
    for result in reversed(results):
        n, defaults = n + result.n, defaults + result.defaults
        result.prudent_pd = prudent_pd(defaults, n, confidence, None)
        if correlation is not None:
            result.one_factor_prudent_pd = prudent_pd(defaults, n, confidence, correlation)


def _hosmer_lemeshow(results: Sequence[GradeResult]) -> dict[str, float] | None:
    variances = [result.n * result.pd * (1.0 - result.pd) for result in results]
    if min(variances) < LEAST_VARIANCE:
        return None
    squares = [(result.defaults - result.n * result.pd) ** 2 for result in results]
    statistic = sum(square / variance for square, variance in zip(squares, variances, strict=True))
    p_value = float(chdtrc(len(results), statistic))
    return {"statistic": statistic, "degrees_of_freedom": len(results), "p_value": p_value}


@explained
def grade_tests(
    pd: Any,
    grades: Any,
    defaults: Any,
    *,
    n: Any = None,
    correlation: float | None = None,
    confidence: float | None = None,
    scale: InputScale = "probability",
) -> GradeTests:
    """Test whether the default probabilities (PDs) of rating grades are too low.

    Parameters
    ----------
    pd : array_like, shape (n,)
        PD of each row. Of several PDs within a grade, the mean over its obligors is tested (ECB 2019).
    grades : array_like, shape (n,)
        Name of the grade of each row.
    defaults : array_like, shape (n,)
        Whether the obligor of each row defaulted, 0 or 1; or with ``n``, how many defaulted.
    n : array_like, shape (n,), optional
        Number of obligors of each row, needed for a table with one row for each grade; by default 1.
    correlation : float, optional
        Asset correlation in (0, 1), for p-values of the one-factor model beside those of independent defaults.
    confidence : float, optional
        Confidence in (0, 1) of prudent PDs, such as 0.75, of at most 100 grades; by default there are none.
    scale : {"probability", "percent", "logit"}, default "probability"
        Scale of ``pd``.

    Returns
    -------
    GradeTests
        The tests of each grade, with Holm's correction, and of all.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or prudent PDs are requested and two grades have the same PD.

    See Also
    --------
    evaluate : Measures calibration, with ``groups`` also of each grade.

    Notes
    -----
    ``jeffreys_p`` is the distribution function of Beta(D + 1/2, N - D + 1/2) at the PD (ECB 2019, section 2.5.3.1),
    ``binomial_p`` is P(D or more defaults). A light is yellow up to 0.05 and red up to 0.001 (Tasche 2003). A prudent
    PD is the upper bound of a grade pooled with all worse ones (Pluto & Tasche 2005). Time is O(n log n).

    Examples
    --------
    >>> import calibrant
    >>> pds, names = [0.001, 0.002, 0.01], ["A", "B", "C"]
    >>> result = calibrant.grade_tests(pds, names, [0, 0, 0], n=[100, 400, 300], confidence=0.5)
    >>> [round(row.prudent_pd, 8) for row in result.grades]
    [0.00086606, 0.00098972, 0.00230782]
    """
    with naming({"predictions": "pd", "labels": "defaults", "weights": "n", "groups": "grades"}):
        check_aligned({"predictions": pd, "groups": grades, "labels": defaults, "weights": n})
        labels = np.zeros(array_of(pd, "predictions").shape[:1], np.int64)
        rows = read_rows(pd, labels, weights=n, weights_kind="frequency", groups=grades, scale=scale)
        groups = None if rows.groups is None else Groups(rows.groups)
        counts = _numbers_of_defaults(array_of(defaults, "labels"), rows.batch.weights, len(labels))
        return grade_results(rows.batch, groups, correlation, confidence, counts)


def _numbers_of_defaults(defaults: npt.NDArray[Any], weights: Floats | None, n: int) -> Floats:
    """Check how many of the obligors of each of ``n`` rows defaulted."""
    numbers = read_numbers(defaults.astype(np.float64) if defaults.dtype.kind == "b" else defaults, "/labels")
    if numbers.shape != (n,):
        raise LengthMismatch.at("/labels", f"must be ({n},), like predictions")
    most = 1.0 if weights is None else weights
    bad = np.flatnonzero((numbers != np.floor(numbers)) | ~((numbers >= 0.0) & (numbers <= most)))
    if len(bad):
        wanted = "must be a whole number from 0 to the number of obligors"
        if weights is None:
            wanted = "must be 0 or 1; if these are numbers of defaults, pass n, the number of obligors of each row"
        raise InvalidLabel.at_places("/labels", bad, wanted, f"{len(bad)} of {n} {wanted}")
    return numbers
