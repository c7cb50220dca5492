"""Whether fits are optima: conditions of convex ones, and other searches for PL and PL3.

Writes docs/benchmarks/optimality.md.

The rows have the five shapes of Kangsepp, Valk & Kull (2022). Fits of PL and PL3
resume a previous run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import differential_evolution, minimize
from scipy.special import expit, log_expit, logit

from benchmarks.checks import PageCheck, PagePart
from benchmarks.provenance import Pool
from benchmarks.records import append, current, publish, read
from benchmarks.tables.datasets import DERIVATES, SHAPES, dataset
from calibrant.calibrators.fitting import Fitting
from calibrant.calibrators.method import FitContext
from calibrant.core.batch import Scale, read_batch
from calibrant.core.cells import sort_rows
from calibrant.core.errors import CalibrationError
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.piecewise.families import Family, abscissa, bounds, cell_losses
from calibrant.piecewise.fitting import CrossFit, cross_fit
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions, Starts
from calibrant.piecewise.refinement import refine

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "optimality.md"
SIZES, SIZES_APART = (20, 50, 100, 200, 500, 1_000), (20, 100, 1_000)
SEEDS = 5
#: The strengths of a shape: calibrated, the middle one and the largest one.
STRENGTHS = (DERIVATES[0], DERIVATES[len(DERIVATES) // 2], DERIVATES[-1])
#: What a gradient of the mean loss, relative to the size of its term, and a loss above the lowest may be.
GOAL = 1e-8
#: Gradients below are rounding, which depends on the processor.
_ROUNDING = 1e-11
#: Numbers of pieces; sizes and strengths of fits of PL and PL3, for which many searches run.
PIECES, SEARCHED_SIZES, SEARCHED_STRENGTH = (1, 2, 3), (20, 100, 1_000), DERIVATES[len(DERIVATES) // 2]
#: Random starts, and generations and members of differential evolution, for each number of inner knots.
RANDOM_STARTS, GENERATIONS, MEMBERS = 20, 12, 8
#: Factors of logits; the largest of rows with uniform probabilities is then about 7,000.
FACTORS = (10.0, 100.0, 1_000.0)
LOGIT_ROWS = 1_000

Array = npt.NDArray[np.float64]


class LogitRows(NamedTuple):
    """Predictions ``p``, their logits ``z`` and labels ``y (n,)``."""

    p: Array
    z: Array
    y: Array


def rows_of(shape: str, strength: str, n: int, seed: int) -> LogitRows:
    """Return rows of a shape of the papers."""
    drawn = dataset(shape, strength, n, seed)
    return LogitRows(drawn.p, np.asarray(logit(drawn.p)), drawn.y.astype(np.float64))


def separable(rows: LogitRows) -> bool:
    """Return whether a threshold of the prediction separates the labels, so that the loss has no finite optimum."""
    ones, zeros = rows.p[rows.y == 1.0], rows.p[rows.y == 0.0]
    return not len(ones) or not len(zeros) or bool(ones.min() >= zeros.max() or zeros.min() >= ones.max())


def fit(method: str, values: Array, y: Array, scale: Scale = "probability", **options: Any) -> CalibrationMap:
    """Fit a map, without its cross-fitted gain."""
    return Fitting.read(method, options, None).run(read_batch(values, y.astype(np.int64), scale=scale), FitContext())


# --- Convex fits


class Convex(NamedTuple):
    """A convex fit: its method and options, and how far it is from its optimality conditions on some rows."""

    title: str
    method: str
    options: Mapping[str, Any]
    gradient: Callable[[CalibrationMap, LogitRows], float]


def _relative(terms: Array, residual: Array, penalty: Array | float = 0.0) -> Array:
    """The gradient of the mean loss by each term ``(n, D)``, relative to the root mean square of the term."""
    size = np.maximum(np.sqrt(np.mean(terms**2, axis=0)), 1e-300)
    gradient: Array = (residual @ terms / len(residual) + penalty) / size
    return gradient


def of_logistic(fitted: CalibrationMap, rows: LogitRows, *, smoothed: bool = False, strength: float = 0.0) -> float:
    """The largest derivative of the log loss by slope, intercept and square."""
    values = fitted.function.parameters()
    theta = np.array([values["intercept"], values["slope"], values.get("square", 0.0)])
    terms = np.column_stack([np.ones_like(rows.z), rows.z, rows.z**2])
    used = 3 if "square" in values else 2
    ones, zeros = rows.y.sum(), (1.0 - rows.y).sum()
    targets = np.where(rows.y == 1.0, (ones + 1) / (ones + 2), 1 / (zeros + 2)) if smoothed else rows.y
    penalty = 2.0 * strength * (theta - [0.0, 1.0, 0.0]) / len(rows.y)
    derivatives = _relative(terms, expit(terms @ theta) - targets, penalty)
    return float(np.abs(derivatives[:used]).max())


def of_temperature(fitted: CalibrationMap, rows: LogitRows) -> float:
    """The derivative of the log loss by the inverse temperature."""
    residual = expit(rows.z / fitted.function.parameters()["temperature"]) - rows.y
    return float(np.abs(_relative(rows.z[:, None], residual)).max())


#: Prior precision of the coefficients of beta calibration.
_PRECISION = 1e-6


def of_beta(fitted: CalibrationMap, rows: LogitRows) -> float:
    """The largest derivative of the log loss by a, b and c; at a bound of 0 only if the loss falls inwards."""
    values = fitted.function.parameters()
    theta = np.array([values[name] for name in "abc"])
    terms = np.column_stack([log_expit(rows.z), -log_expit(-rows.z), np.ones_like(rows.z)])
    derivatives = _relative(terms, expit(terms @ theta) - rows.y, _PRECISION * theta / len(rows.y))
    at_bound = (theta == 0.0) & np.array([True, True, False])
    return float(np.where(at_bound, np.maximum(-derivatives, 0.0), np.abs(derivatives)).max())


def of_isotonic(fitted: CalibrationMap, rows: LogitRows) -> float:
    """The largest violation of the conditions of isotonic regression, a row.

    With ascending predictions, the partial sums of y - c are not negative, and 0 where c rises.
    """
    p, first = np.unique(rows.p, return_index=True)
    c = fitted.apply(p)
    counts = np.diff(np.append(first, len(rows.p)))
    partial_sums = np.cumsum(np.add.reduceat(rows.y, first) - counts * c)
    rises = np.append(np.diff(c) > 1e-12, True)
    falls = np.maximum(-np.diff(c), 0.0).max(initial=0.0)
    return float(max(-partial_sums.min(), np.abs(partial_sums[rises]).max()) / len(rows.y) + falls)


CONVEX = (
    Convex("`platt`", "platt", {}, partial(of_logistic, smoothed=True)),
    Convex("`platt`, `target_smoothing=False`", "platt", {"target_smoothing": False}, of_logistic),
    Convex("`affine`, `strength=1`", "affine", {"strength": 1.0}, partial(of_logistic, strength=1.0)),
    Convex("`quadratic`, `strength=1`", "quadratic", {"strength": 1.0}, partial(of_logistic, strength=1.0)),
    Convex("`temperature`", "temperature", {}, of_temperature),
    Convex("`beta`", "beta", {}, of_beta),
    Convex("`isotonic`", "isotonic", {}, of_isotonic),
)
#: Fits with a finite optimum for separable labels too.
_FINITE = ("`platt`", "`affine`, `strength=1`", "`quadratic`, `strength=1`", "`beta`", "`isotonic`")


class ConvexFits(NamedTuple):
    """What the convex fits of a number of rows had: the largest gradient, and counts of fits and of errors."""

    gradient: float
    fits: int
    refused: int


def convex_column(family: Convex, n: int, seeds: int, *, apart: bool) -> ConvexFits:
    """Fit the family to all shapes and strengths with this number of rows.

    If ``apart``, the labels are those that the median prediction separates. Otherwise separable draws are left out.
    """
    largest, fits, refused = 0.0, 0, 0
    for shape, strength, seed in product(SHAPES, STRENGTHS, range(seeds)):
        rows = rows_of(shape, strength, n, seed)
        if apart:
            rows = rows._replace(y=(rows.p > np.median(rows.p)).astype(np.float64))
        if separable(rows) is not apart:
            continue
        try:
            fitted = fit(family.method, rows.p, rows.y, **family.options)
        except CalibrationError:
            if not apart or family.title in _FINITE:
                raise
            refused += 1
            continue
        fits += 1
        largest = max(largest, family.gradient(fitted, rows))
    return ConvexFits(largest, fits, refused)


def size_of(value: float) -> str:
    """A gradient as text; rounding is not shown, and values above the goal are bold."""
    if value <= _ROUNDING:
        return f"{_ROUNDING:.0e} or less"
    return f"**{value:.0e}**" if value > GOAL else f"{value:.0e}"


def convex_table(families: Sequence[Convex], sizes: Sequence[int], seeds: int, *, apart: bool = False) -> list[str]:
    """The rows of some families, with the head."""
    lines = [
        "| fit | " + " | ".join(f"n = {n:,}" for n in sizes) + " | fits | refused |",
        "|---|" + "---|" * (len(sizes) + 2),
    ]
    for family in families:
        columns = [convex_column(family, n, seeds, apart=apart) for n in sizes]
        counts = [sum(getattr(column, name) for column in columns) for name in ("fits", "refused")]
        cells = [*(size_of(column.gradient) if column.fits else "" for column in columns), *map(str, counts)]
        lines.append(f"| {family.title} | {' | '.join(cells)} |")
    return lines


# --- PL and PL3


Key = tuple[str, str, int, str, int, int]


def keys(sizes: Sequence[int], seeds: int) -> list[Key]:
    """Family, loss, pieces, shape, n and seed of each fit."""
    fits = product(("pl", "pl3"), ("log-loss", "brier"), PIECES, SHAPES, sizes, range(seeds))
    return sorted(fits, key=lambda key: key[-1])


def searches(key: Key) -> dict[str, float]:
    """The mean loss on the rows that each search ends with; rows of one class have none."""
    family, loss, pieces, shape, n, seed = key
    rows = rows_of(shape, SEARCHED_STRENGTH, n, seed)
    if rows.y.min() == rows.y.max():
        return {}
    problem = PieceFit.of(rows, "pl" if family == "pl" else "pl3", "brier" if loss == "brier" else "log-loss", pieces)
    own: dict[Starts, tuple[Array, Array]] = {name: problem.own(name) for name in ("quantiles", "several")}
    losses: dict[str, float] = {name: problem.loss(*curve) for name, curve in own.items()}
    random = np.random.default_rng([53, n, seed, pieces])
    losses["random starts"] = problem.from_random_starts(*own["quantiles"], random)
    if pieces > 1:
        losses["differential evolution"] = problem.by_evolution(random)
    else:
        losses["minimize of SciPy"] = problem.heights_for(np.zeros(0))[0]
    return losses


class PieceFit(NamedTuple):
    """A fit of some pieces to rows."""

    family: Family
    objective: Loss
    pieces: int
    cells: FoldCells
    crossed: CrossFit

    @classmethod
    def of(cls, rows: LogitRows, family: Family, objective: Loss, pieces: int) -> PieceFit:
        """Return the problem of rows."""
        cells = fold_cells(sort_rows(rows.p, rows.y.astype(np.int8)), 2, 0)
        crossed = cross_fit(family, cells, (pieces,), PiecewiseOptions(loss=objective), device="cpu", all_rows=True)
        return cls(family, objective, pieces, cells, crossed)

    def own(self, starts: Starts) -> tuple[Array, Array]:
        """Knots and heights by the library, with its starts."""
        options = PiecewiseOptions(loss=self.objective, starts=starts)
        fits = cross_fit(self.family, self.cells, (self.pieces,), options, device="cpu", all_rows=True).refined([0])
        return fits.knots[0][0], fits.heights[0][0]

    def loss(self, knots: Array, heights: Array) -> float:
        """The mean loss of a curve on the rows."""
        w, wy = (part[-1:] for part in self.cells.training())
        f = np.interp(abscissa(self.family, self.cells), knots, heights)
        return float(cell_losses(self.family, self.objective, f[None], w, wy).sum() / w.sum())

    def from_random_starts(self, knots: Array, heights: Array, random: np.random.Generator) -> float:
        """The lowest loss of curves whose inner knots start at random cells, refined as the library's."""
        x, size = self.crossed.data.x, RANDOM_STARTS
        inner = np.sort(random.choice(x, (size, self.pieces - 1)), axis=1)
        started = np.column_stack([np.full(size, knots[0]), inner, np.full(size, knots[-1])])
        apart = (np.diff(started, axis=1) > 1e-5 * (knots[-1] - knots[0])).all(axis=1)
        started = started[apart]
        if not len(started):
            return self.loss(knots, heights)
        values = np.array([np.interp(own, knots, heights) for own in started])
        lines = np.zeros(len(started), np.int64)
        return float(refine(self.crossed.data, lines, started, values, GOAL)[2].min())

    def heights_for(self, inner: Array) -> tuple[float, Array]:
        """The lowest loss with these inner knots, and its heights: a bounded problem of SciPy, convex but for one."""
        low, high = self.crossed.data.ends
        knots = np.concatenate([[low], np.sort(inner), [high]])
        if (np.diff(knots) <= 1e-9 * (high - low)).any():
            return np.inf, np.zeros(len(knots))
        x = abscissa(self.family, self.cells)
        hats = np.array([np.interp(x, knots, unit) for unit in np.eye(len(knots))]).T
        w, wy = (part[-1] for part in self.cells.training())
        total = w.sum()

        def objective(h: Array) -> tuple[float, Array]:
            f = hats @ h
            c = f if self.family == "pl" else expit(f)
            if self.objective == "brier":
                loss = w * c**2 - 2.0 * wy * c + wy
                slope = 2.0 * (w * c - wy) * (1.0 if self.family == "pl" else c * (1.0 - c))
            elif self.family == "pl":
                c = np.clip(c, 1e-16, 1.0 - 1e-16)
                loss, slope = -wy * np.log(c) - (w - wy) * np.log1p(-c), (w - wy) / (1.0 - c) - wy / c
            else:
                loss, slope = -wy * log_expit(f) - (w - wy) * log_expit(-f), w * c - wy
            return float(loss.sum() / total), np.asarray(slope @ hats / total)

        start = np.clip(knots, 0.02, 0.98) if self.family == "pl" else np.clip(knots, -4.0, 4.0)
        limits = [bounds(self.family)] * len(knots)
        end = minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-13, "gtol": 1e-9}
        )
        return self.loss(knots, end.x), end.x

    def by_evolution(self, random: np.random.Generator) -> float:
        """The lowest loss of differential evolution of the inner knots."""
        x = self.crossed.data.x
        limits = [(float(x[0]), float(x[-1]))] * (self.pieces - 1)
        end = differential_evolution(
            lambda inner: min(self.heights_for(inner)[0], 1e3),
            limits,
            maxiter=GENERATIONS,
            popsize=MEMBERS,
            rng=random,
            polish=False,
            tol=0.0,
        )
        return float(end.fun)


def search_table(losses: Mapping[Key, Mapping[str, float]]) -> list[str]:
    """The table of PL and PL3: how often and by how much another search ends lower."""
    lines = [
        "| fit | loss | pieces | fits | lowest, default | mean excess | largest excess | of n | lowest, several "
        "| largest excess, several | others |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for family, loss, pieces in product(("pl", "pl3"), ("log-loss", "brier"), PIECES):
        part = [(key, of) for key, of in losses.items() if key[:3] == (family, loss, pieces) and of]
        if not part:
            continue
        least = np.array([min(of.values()) for _, of in part])
        default, several = (np.array([of[name] for _, of in part]) - least for name in ("quantiles", "several"))
        better = {
            name: sum(of[name] < min(of["quantiles"], of["several"]) - GOAL for _, of in part)
            for name in part[0][1]
            if name not in ("quantiles", "several")
        }
        others = ", ".join(f"{name} {count}" for name, count in better.items() if count) or "none"
        cells = [
            f"`{family}`",
            loss,
            str(pieces),
            f"{len(part):,}",
            f"{np.mean(default <= GOAL):.3f}",
            f"{default.mean():.1e}",
            f"{default.max():.1e}",
            f"{part[int(default.argmax())][0][4]:,}",
            f"{np.mean(several <= GOAL):.3f}",
            f"{several.max():.1e}",
            others,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


# --- Logits of any size


SCALED = ("platt", "temperature", "isotonic", "beta", "pl3")


#: What is compared, if it is not the calibrated values.
_COMPARED = {"beta": "gradient", "pl3": "log loss above"}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {"pl3": {"candidates": (2,), "final": "refit", "starts": "several"}}


def of_logits(method: str, z: Array, y: Array) -> CalibrationMap:
    """Fit to logits."""
    return fit(method, z, y, "logit", **_OPTIONS.get(method, {}))


def mean_log_loss(q: Array, y: Array) -> float:
    """The mean log loss of probabilities, clipped where a row would have an infinite one."""
    q = np.clip(q, 1e-16, 1.0 - 1e-16)
    return float(-np.mean(np.where(y == 1.0, np.log(q), np.log1p(-q))))


def as_probabilities(method: str) -> float:
    """The largest difference of a map of logits from that of their probabilities, where these are exact."""
    farthest = 0.0
    for shape in SHAPES:
        rows = rows_of(shape, STRENGTHS[1], LOGIT_ROWS, 0)
        usual = fit(method, rows.p, rows.y, **_OPTIONS.get(method, {}))
        difference = of_logits(method, rows.z, rows.y).apply(rows.z) - usual.apply(rows.p)
        farthest = max(farthest, float(np.abs(difference).max()))
    return farthest


def scaled_column(method: str, factor: float) -> float:
    """How far the map of logits times a factor is from what it must be.

    Logistic and isotonic curves of scaled logits have the same values. For beta calibration it is the gradient, with
    logarithms computed from the logits. The curves of PL3 are not the same, since their outer knots are at -36.8 and
    36.8 or at the outermost rows: for them it is the loss above that without a factor.
    """
    farthest = 0.0
    for shape in SHAPES:
        rows = rows_of(shape, STRENGTHS[1], LOGIT_ROWS, 0)
        large = of_logits(method, rows.z * factor, rows.y)
        if method == "beta":
            distance = of_beta(large, rows._replace(z=rows.z * factor))
        else:
            values, usual = large.apply(rows.z * factor), of_logits(method, rows.z, rows.y).apply(rows.z)
            distance = float(np.abs(values - usual).max())
            if method == "pl3":
                distance = mean_log_loss(values, rows.y) - mean_log_loss(usual, rows.y)
        farthest = max(farthest, distance)
    return farthest


def scaled_table(methods: Sequence[str]) -> list[str]:
    """The rows of some methods, with the head."""
    lines = [
        "| fit | as probabilities | compared | " + " | ".join(f"times {factor:g}" for factor in FACTORS) + " |",
        "|---|---|---|" + "---|" * len(FACTORS),
    ]
    for method in methods:
        cells = [size_of(as_probabilities(method)), _COMPARED.get(method, "values")]
        cells += [size_of(scaled_column(method, factor)) for factor in FACTORS]
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return lines


_CONVEX, _APART, _SEARCHES, _LOGITS = "Convex fits", "Separable labels", "PL and PL3", "Logits of any size"
_HEAD = """# Optimality of fits

Generated by `make optimality`: rows of the five shapes of Kangsepp, Valk & Kull (2022), of {strengths} expected
distance between predictions and true probabilities, {seeds} draws each.
[Optima](optima.md) has the losses of other libraries on real predictions.
"""
_CONVEX_TEXT = """
The largest derivative of the mean objective by a parameter, relative to the root mean square of the term that it
multiplies; for `isotonic` the largest violation of the conditions of isotonic regression, a row. The goal is at most
{goal:g}; values above it are bold. These families have the log loss alone; for `isotonic` the optimum of the Brier
loss is the same.
"""
_APART_TEXT = """
The same if the labels are those that the median prediction separates. Then the log loss has no finite optimum, and a
fit is *refused* with an error, unless a penalty, a prior (`beta`), smoothed labels (`platt`) or the bounds of values
(`isotonic`) give a finite optimum; that of `temperature` is finite if a prediction is on the wrong side of 0.5. A fit
of Platt scaling without smoothed labels that is not refused ended at a curve so steep that the derivatives vanish.
"""
_SEARCH_TEXT = """
The loss of {fits:,} fits to all rows, with {sizes} rows and a distance of {strength}, beside the lowest of all searches
that were tried: the library's with `starts="quantiles"` (the default) and `starts="several"`, {random} random starts of
the inner knots with the library's refinement, and SciPy: for one piece the bounded minimisation of the heights, which
is convex except for the Brier loss of `pl3`, and otherwise differential evolution of the knots around it. *Lowest* is
the share of fits at most {goal:g} above the lowest; the excess is in units of the loss, and the largest one of the
default occurs at this n. *Others* counts the fits in which a search ends more than {goal:g} below both of ours.
"""
_LOGITS_TEXT = """
The first column has the largest difference between the map of logits and that of their probabilities. The others are
of logits that are multiplied by a factor; the largest is then {largest:,.0f}, and almost all probabilities round to 0
or 1. Logistic and isotonic curves of scaled logits have the same values. For `beta` the table has the largest relative
derivative at the fit, with ln p and ln(1 - p) computed exactly from the logits. For `pl3`, with two pieces and
`starts="several"`, it is the largest log loss above that without a factor: its outer knots are at logits of -36.8 and
36.8 or at the outermost rows, so that scaled curves are not the same. Rows are {rows:,} of each shape.
"""


def page(losses: Mapping[Key, Mapping[str, float]], sizes: Sequence[int], seeds: int) -> str:
    """The page."""
    largest = max(float(np.abs(rows_of(shape, STRENGTHS[1], LOGIT_ROWS, 0).z).max()) for shape in SHAPES) * FACTORS[-1]
    counts = ", ".join(f"{n:,}" for n in sorted({key[4] for key in losses}))
    head = _HEAD.format(strengths=", ".join(STRENGTHS), seeds=seeds)
    searched = _SEARCH_TEXT.format(
        fits=len(losses), sizes=counts, strength=SEARCHED_STRENGTH, random=RANDOM_STARTS, goal=GOAL
    )
    parts = [head, f"## {_CONVEX}", _CONVEX_TEXT.format(goal=GOAL), *convex_table(CONVEX, sizes, seeds)]
    apart = convex_table(CONVEX, SIZES_APART, seeds, apart=True)
    parts += ["", f"## {_APART}", _APART_TEXT, *apart]
    parts += ["", f"## {_SEARCHES}", searched, *search_table(losses)]
    parts += ["", f"## {_LOGITS}", _LOGITS_TEXT.format(largest=largest, rows=LOGIT_ROWS), *scaled_table(SCALED)]
    return "\n".join(parts) + "\n"


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the rows of convex fits and of logits; what is close to rounding is compared by its order of size."""
    del data
    parts: list[PagePart] = [
        PageCheck(family.title, partial(convex_table, [family], SIZES, SEEDS), _CONVEX, tolerance=100.0)
        for family in CONVEX
    ]
    parts += [
        PageCheck(
            f"{family.title}, separable",
            partial(convex_table, [family], SIZES_APART, SEEDS, apart=True),
            _APART,
            tolerance=100.0,
        )
        for family in CONVEX
    ]
    return parts + [
        PageCheck(f"scaled {method}", partial(scaled_table, [method]), _LOGITS, tolerance=100.0) for method in SCALED
    ]


def main() -> None:
    """Run the fits of PL and PL3 without a record, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="draws of each shape (default: 5)")
    parser.add_argument("--searched-seeds", type=int, default=1, help="those of PL and PL3 (default: 1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="processes at the same time")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    path, wanted = current("searches", __file__), keys(SEARCHED_SIZES, options.searched_seeds)
    losses: dict[Key, dict[str, float]] = {tuple(key): of for key, of in read(path)}
    with Pool(options.processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(searches, key): key for key in wanted if key not in losses}
        for count, finished in enumerate(as_completed(running), 1):
            losses[running[finished]] = finished.result()
            append(path, [running[finished], finished.result()])
            print(f"{count} of {len(running)}: {running[finished]}", flush=True)
    publish(PAGE, page({key: losses[key] for key in wanted}, SIZES, options.seeds))


if __name__ == "__main__":
    main()
