"""How often prediction sets have the label of their row, by class, size and group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, gammaln, xlog1py, xlogy

from calibrant.core.applied import input_of
from calibrant.core.arguments import explained
from calibrant.core.arrays import check_aligned, group_names
from calibrant.core.batch import Batch, read_weights
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.digest import digest, label_rows
from calibrant.core.errors import InvalidOption, naming
from calibrant.core.groups import Members, group_members
from calibrant.core.options import read_fraction
from calibrant.core.results import Framed, Table, above, interval_of, n_rows
from calibrant.sets.rows import CoveredRows, read_sets

SetDiagram = Literal["set-coverage", "set-sizes"]

#: The sizes that share a stratum of the violation: those of Angelopoulos et al. (2021), the last without an end.
SIZE_STRATA: tuple[tuple[int, int | None], ...] = ((0, 1), (2, 3), (4, 10), (11, 100), (101, None))
#: The note of sets of the rows of the fit.
IN_SAMPLE = "in-sample: the map was fitted to these rows or some of them, so this coverage says nothing about new rows"
#: The most classes, sizes and groups in the printed table: those with the lowest coverage.
MOST_SHOWN = 10


def clopper_pearson(covered: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the exact interval of Clopper & Pearson (1934) of the probability of ``covered`` of ``n`` > 0 rows.

    Both may be effective numbers, which are not whole (Korn & Graubard 1998).

    >>> low, high = clopper_pearson(np.array([10.0, 9.0]), np.array([10.0, 10.0]), 0.95)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.6915, 0.555], [1.0, 0.9975])
    """
    tail, missed = (1.0 - level) / 2.0, n - covered
    low = np.where(covered > 0.0, betaincinv(np.maximum(covered, 1e-300), missed + 1.0, tail), 0.0)
    high = np.where(missed > 0.0, betaincinv(covered + 1.0, np.maximum(missed, 1e-300), 1.0 - tail), 1.0)
    return low, high


@dataclass(frozen=True)
class StratumCoverage:
    """The coverage of the sets of some rows: those of a class, of sets of one size, or of a group.

    Attributes
    ----------
    name : str
        Name of the class or group, or the size.
    n : int
        Number of rows, or the sum of frequency weights.
    coverage : float
        Share of the sets that have the label of their row.
    low, high : float
        Lower and upper end of the interval of Clopper & Pearson (1934).
    mean_size : float
        Mean number of classes in a set.

    See Also
    --------
    evaluate_sets : Evaluates prediction sets.

    Examples
    --------
    >>> import calibrant
    >>> found = calibrant.evaluate_sets([[0], [0, 1, 2], [1, 2]], [0, 1, 0])
    >>> [(row.name, row.n, row.coverage) for row in found.by_class]
    [('0', 2, 0.5), ('1', 1, 1.0)]
    """

    name: str
    n: int
    coverage: float
    low: float
    high: float
    mean_size: float


@dataclass(frozen=True, repr=False)
class SetEvaluation(Framed):
    r"""Result of ``evaluate_sets``.

    Attributes
    ----------
    n : int
        Number of rows, or the sum of frequency weights.
    alpha : float or None
        Error level: the nominal coverage is 1 - alpha; None if it is unknown.
    level : float
        Level of the intervals.
    coverage : float
        Share of the sets that have the label of their row.
    low, high : float
        Lower and upper end of its interval (Clopper & Pearson 1934).
    mean_size : float
        Mean number of classes in a set.
    singletons : float
        Share of the sets with one class.
    empty : float
        Share of the sets without a class.
    size_violation : float or None
        Largest \|coverage - (1 - alpha)\| of sizes 0-1, 2-3, 4-10, 11-100 and above (Angelopoulos et al. 2021); None
        without alpha. It is large also by chance if a stratum has few rows.
    violating_sizes : str or None
        The sizes for which it is largest.
    class_gap : float or None
        Mean over the classes of \|coverage - (1 - alpha)\| (Ding et al. 2023), which other libraries give in
        percentage points; None without alpha.
    class_gap_by_chance : float or None
        Its expected value if every class had the nominal coverage; None without alpha, and for importance weights.
    by_class : list of StratumCoverage
        Coverage of the rows of each class.
    by_size : list of StratumCoverage
        Coverage of the sets of each size.
    by_group : list of StratumCoverage
        Coverage of each group; empty without groups.
    in_sample : bool or None
        Whether the sets are those of a map that was fitted to these rows, so that their coverage says nothing about new
        ones; None if it is unknown.

    See Also
    --------
    evaluate_sets : Returns this result.

    Examples
    --------
    >>> import calibrant
    >>> found = calibrant.evaluate_sets([[0], [0, 1, 2], [1, 2], [2]], [0, 1, 0, 2], alpha=0.2)
    >>> found.coverage, round(found.size_violation, 3), found.violating_sizes, round(found.class_gap, 3)
    (0.75, 0.3, '2-3', 0.233)
    """

    n: int
    alpha: float | None
    level: float
    coverage: float
    low: float
    high: float
    mean_size: float
    singletons: float
    empty: float
    size_violation: float | None
    violating_sizes: str | None
    class_gap: float | None
    class_gap_by_chance: float | None
    by_class: list[StratumCoverage]
    by_size: list[StratumCoverage]
    by_group: list[StratumCoverage]
    in_sample: bool | None = None

    def plot(self, diagram: SetDiagram = "set-coverage", ax: Any = None) -> Any:
        """Draw the coverage by class, size and group, or the sizes of the sets.

        Parameters
        ----------
        diagram : {"set-coverage", "set-sizes"}, default "set-coverage"
            What to draw.
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        Axes
            The axes.

        Raises
        ------
        CalibrationError
            If the diagram is unknown.

        See Also
        --------
        to_frame : Returns the numbers.

        Examples
        --------
        >>> import calibrant
        >>> calibrant.evaluate_sets([[0], [0, 1, 2]], [0, 1]).plot("set-sizes").get_xlabel()
        'classes in the set'
        """
        return above("plots.results.plot_sets")(self, diagram, ax)

    def _strata(self) -> list[tuple[str, list[StratumCoverage]]]:
        whole = StratumCoverage("all", self.n, self.coverage, self.low, self.high, self.mean_size)
        return [("all", [whole]), ("class", self.by_class), ("size", self.by_size), ("group", self.by_group)]

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return [{"by": kind, **asdict(row)} for kind, rows in self._strata() for row in rows]

    def _table(self) -> Table:
        lines, notes = list[tuple[str | float | None, ...]](), list[str]()
        for kind, rows in self._strata():
            for row in lowest(rows, MOST_SHOWN):
                name = row.name if kind == "all" else f"{kind} {row.name}"
                interval = interval_of((row.low, row.high))
                lines.append((name, f"{row.n:,}", row.coverage, interval, row.mean_size))
            if len(rows) > MOST_SHOWN:
                nouns = {"class": "classes"}.get(kind, f"{kind}s")
                notes.append(f"of {len(rows):,} {nouns}, the {MOST_SHOWN} with the lowest coverage are shown")
        notes += [IN_SAMPLE] if self.in_sample else []
        notes.append(f"sets of one class: {self.singletons:.1%}; empty sets: {self.empty:.1%}")
        if self.alpha is not None:
            chance = "" if self.class_gap_by_chance is None else f" ({self.class_gap_by_chance:.4f} by chance)"
            notes.append(f"size-stratified violation: {self.size_violation:.4f} (sizes {self.violating_sizes})")
            notes.append(f"class-conditional gap: {self.class_gap:.4f}{chance}")
        nominal = "" if self.alpha is None else f", nominal coverage {1.0 - self.alpha:.6g}"
        columns = ("", "rows", "coverage", f"{100.0 * self.level:.6g} % interval", "mean size")
        return Table(f"Coverage of prediction sets: {n_rows(self.n)}{nominal}", columns, lines, notes)


def lowest(rows: Sequence[StratumCoverage], most: int) -> list[StratumCoverage]:
    """Return the rows with the lowest coverage, in their order."""
    places = sorted(sorted(range(len(rows)), key=lambda i: rows[i].coverage)[:most])
    return [rows[i] for i in places]


# --- The evaluation


@dataclass(frozen=True)
class _WeightedRows:
    """Rows with their weights ``w (n,)``; of ``frequency`` weights the number of rows is their sum."""

    rows: CoveredRows
    w: Floats
    kind: WeightsKind
    level: float

    def strata(self, codes: npt.NDArray[np.int64], names: Sequence[str]) -> list[StratumCoverage]:
        """Return the coverage of the rows of each code, an index into ``names``."""
        mass, sizes, covered = (
            np.bincount(codes, self.w * of, len(names)).astype(np.float64)
            for of in (1.0, self.rows.sizes, self.rows.covered)
        )
        effective = mass if self.kind == "frequency" else mass**2 / np.bincount(codes, self.w**2, len(names))
        n = mass if self.kind == "frequency" else np.bincount(codes, minlength=len(names))
        coverage = np.clip(covered / mass, 0.0, 1.0)
        low, high = clopper_pearson(coverage * effective, effective, self.level)
        columns = (n, coverage, low, high, sizes / mass)
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        return [StratumCoverage(name, int(rows), *values) for name, (rows, *values) in zip(names, numbers, strict=True)]


def evaluate_covered(
    rows: CoveredRows,
    *,
    groups: Sequence[str] | None = None,
    weights: Any = None,
    weights_kind: WeightsKind = "importance",
    alpha: float | None = None,
    level: float = 0.95,
    in_sample: bool | None = None,
) -> SetEvaluation:
    """Evaluate checked rows; raises a ``CalibrationError`` for an invalid option. O(n log n)."""
    alpha, level = read_alpha(alpha, rows.alpha), read_fraction(level, "/interval")
    kind: WeightsKind = "frequency" if weights is None else weights_kind
    w = np.ones(len(rows)) if weights is None else read_weights(weights, len(rows), kind)
    has_weight = w > 0.0
    rows = CoveredRows(
        rows.sizes[has_weight], rows.covered[has_weight], rows.labels[has_weight], rows.class_names, rows.alpha
    )
    weighted = _WeightedRows(rows, w[has_weight], kind, level)
    (total,) = weighted.strata(np.zeros(len(rows), np.int64), ["all"])
    classes, of_class = np.unique(rows.labels, return_inverse=True)
    names = classes.astype(np.str_).tolist() if rows.class_names is None else [rows.class_names[k] for k in classes]
    by_class = weighted.strata(of_class, names)
    sizes, of_size = np.unique(rows.sizes, return_inverse=True)
    by_size = weighted.strata(of_size, sizes.astype(np.str_).tolist())
    share = np.bincount(np.minimum(rows.sizes, 2), w[has_weight], 3) / w[has_weight].sum()
    violation = gap = by_chance = sizes_of = None
    if alpha is not None:
        violation, sizes_of = _violation(weighted, alpha)
        coverage = np.array([row.coverage for row in by_class])
        gap = float(np.abs(coverage - (1.0 - alpha)).mean())
        if kind == "frequency":
            by_chance = float(_chance_gap(np.array([row.n for row in by_class]), alpha).mean())
    return SetEvaluation(
        **{name: value for name, value in asdict(total).items() if name != "name"},
        alpha=alpha,
        level=level,
        singletons=float(share[1]),
        empty=float(share[0]),
        size_violation=violation,
        violating_sizes=sizes_of,
        class_gap=gap,
        class_gap_by_chance=by_chance,
        by_class=by_class,
        by_size=by_size,
        by_group=[] if groups is None else _by_group(weighted, group_members(groups, len(has_weight)), has_weight),
        in_sample=in_sample,
    )


def read_alpha(alpha: float | None, own: float | None) -> float | None:
    """Return the error level of sets, of which ``own`` is theirs; raises ``InvalidOption``."""
    if alpha is None:
        return own
    read_fraction(alpha, "/alpha")
    if own is not None and own != alpha:
        raise InvalidOption.at("/alpha", "is not that of the sets; leave it out")
    return float(alpha)


def _violation(weighted: _WeightedRows, alpha: float) -> tuple[float, str]:
    """Return the largest distance of the coverage of a stratum of sizes from the nominal one, and the sizes."""
    starts = np.array([low for low, _ in SIZE_STRATA])
    strata, of_stratum = np.unique(np.searchsorted(starts, weighted.rows.sizes, side="right") - 1, return_inverse=True)
    names = [f"{low}-{high}" if high is not None else f"{low}+" for low, high in (SIZE_STRATA[k] for k in strata)]
    distances = [abs(row.coverage - (1.0 - alpha)) for row in weighted.strata(of_stratum, names)]
    place = int(np.argmax(distances))
    return distances[place], names[place]


def _chance_gap(n: Floats, alpha: float) -> Floats:
    """Return E|B / n - p| of B from the binomial distribution of n rows with p = 1 - alpha, by de Moivre's formula."""
    p = 1.0 - alpha
    k = np.floor(n * p) + 1.0  # above the mean
    choices = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    deviation: Floats = 2.0 * k * (1.0 - p) * np.exp(choices + xlogy(k, p) + xlog1py(n - k, -p)) / n
    return deviation


def _by_group(weighted: _WeightedRows, members: Members, has_weight: npt.NDArray[np.bool_]) -> list[StratumCoverage]:
    names = [name for name, rows in members.items() if has_weight[rows].any()]
    codes = np.empty(len(has_weight), np.int64)
    for code, name in enumerate(names):
        codes[members[name]] = code
    return weighted.strata(codes[has_weight], names)


@explained
def evaluate_sets(
    sets: Any,
    labels: Any,
    *,
    alpha: float | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    groups: Any = None,
    weights: Any = None,
    weights_kind: WeightsKind = "importance",
    interval: float = 0.95,
) -> SetEvaluation:
    """Measure how often prediction sets have the label of their row, by class, size and group, and how large they are.

    Parameters
    ----------
    sets : PredictionSets, array_like of bool, shape (n, K), or sequence of n collections
        Prediction sets: a matrix or frame of booleans or of 0 and 1, or the classes of each set, as numbers or names.
    labels : array_like, shape (n,)
        Number of the class of each row, or its name.
    alpha : float, optional
        Error level of the sets, in (0, 1), if they do not have one: about 1 - alpha of them have the label.
    class_names : sequence, optional
        Names of the classes in the order of their numbers; needed for names.
    groups : array_like, shape (n,), or frame, optional
        Group of each row.
    weights : array_like, shape (n,), optional
        Weights of the rows; with importance weights, intervals use the effective number of rows (Kish 1965).
    weights_kind : {"importance", "frequency"}, default "importance"
        Whether only ratios of weights matter, or weights are numbers of rows.
    interval : float, default 0.95
        Level of the intervals, in (0, 1).

    Returns
    -------
    SetEvaluation
        Coverage with intervals of Clopper & Pearson (1934), sizes, and the distances from the nominal coverage.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or may be read in two ways.

    See Also
    --------
    evaluate : Measures the calibration of probabilities.

    Notes
    -----
    Intervals assume independent rows and hold for each row of the result alone. Time is O(n K).

    Examples
    --------
    >>> import calibrant
    >>> sets = [["cat"], ["cat", "dog"], ["dog"], []]
    >>> found = calibrant.evaluate_sets(sets, ["cat", "dog", "cat", "dog"], class_names=["cat", "dog"], alpha=0.5)
    >>> found.coverage, found.mean_size, found.singletons, found.empty
    (0.5, 1.0, 0.5, 0.25)
    """
    check_aligned({"sets": sets, "labels": labels, "groups": groups, "weights": weights})
    rows = read_sets(sets, labels, class_names)
    named = None if groups is None else group_names(groups)
    with naming({"predictions": "sets"}):
        return evaluate_covered(
            rows,
            groups=named,
            weights=weights,
            weights_kind=weights_kind,
            alpha=alpha,
            level=interval,
            in_sample=_is_of_fit(sets, rows.labels),
        )


def _is_of_fit(sets: Any, labels: npt.NDArray[np.int64]) -> bool | None:
    """Return True if the sets are what a map that was fitted to exactly these rows returned, else None: unknown."""
    predictions, fitted_to = input_of(sets) or (None, "")
    if predictions is None or len(predictions) != len(labels):
        return None
    return digest(label_rows(Batch(predictions, labels, None))) == fitted_to or None
