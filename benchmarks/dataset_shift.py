"""Maps and evaluators fitted before a known shift, and measured after it. Writes docs/benchmarks/dataset-shift.md.

Kangsepp, Valk & Kull (2022) leave the benefits of map families under dataset shift to future work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from scipy.stats import spearmanr

import calibrant
from benchmarks.checks import CellComparison, PagePart
from benchmarks.markdown import tables
from benchmarks.records import publish
from benchmarks.timing import machine
from calibrant.calibrators.fitting import Fitting
from calibrant.calibrators.method import FitContext
from calibrant.core.batch import read_batch

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "dataset-shift.md"
Floats = npt.NDArray[np.float64]

METHODS = ("identity", "platt", "beta", "isotonic", "es-cv", "histogram", "kde", "spline", "pl", "pl3")
SEEDS, ROWS, TESTED = 10, 3_000, 20_000
#: Nodes and weights of the mean over the feature that the classifier does not use.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


@dataclass(frozen=True)
class ShiftedWorld:
    """Two normal features, P(Y = 1 | x) = logistic(bias + slope x_1 + x_2), and a classifier that uses x_1 alone.

    The classifier predicts logistic(2 x_1), which is overconfident. ``mean``, ``deviation`` and ``hidden`` are the mean
    and the deviation of x_1 and the mean of x_2. ``odds`` multiplies the odds of Y = 1 while p(x | y) stays.
    """

    name: str
    mean: float = 0.0
    deviation: float = 1.5
    hidden: float = 0.0
    bias: float = 0.0
    slope: float = 1.0
    odds: float = 1.0

    def truth(self, p: Floats) -> Floats:
        """The true probability of label 1 given each prediction ``p (n,)``."""
        x = logit(p) / 2.0
        both = expit(self.bias + self.slope * x[:, None] + self.hidden + _NODES)
        plain = both @ (_WEIGHTS / _WEIGHTS.sum())
        probability: Floats = self.odds * plain / (self.odds * plain + 1.0 - plain)
        return probability

    def drawn(self, n: int, random: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw predictions and labels; with ``odds`` rows are kept with a probability that depends on the label."""
        keep = (1.0, self.odds) if self.odds < 1.0 else (1.0 / self.odds, 1.0)
        x, y = np.zeros(0), np.zeros(0, dtype=np.int64)
        while len(x) < n:
            own = random.normal(self.mean, self.deviation, n)
            hidden = random.normal(self.hidden, 1.0, n)
            labels = (random.random(n) < expit(self.bias + self.slope * own + hidden)).astype(np.int64)
            is_drawn = random.random(n) < np.where(labels == 1, keep[1], keep[0])
            x, y = np.append(x, own[is_drawn]), np.append(y, labels[is_drawn])
        return expit(2.0 * x[:n]), y[:n]


BEFORE = ShiftedWorld("no shift")
SHIFTS = (
    BEFORE,
    replace(BEFORE, name="p(x), used feature", mean=1.5, deviation=1.0),
    replace(BEFORE, name="p(x), unused feature", hidden=1.0),
    replace(BEFORE, name="p(y)", odds=0.25),
    replace(BEFORE, name="p(y given x)", slope=0.5, bias=-0.5),
)
#: method -> shift -> thousandths, one for each seed.
Errors = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class ShiftErrors:
    """Mean distances of maps from the truth, and errors of evaluators, in thousandths.

    ``kept`` estimates the calibration error by that before the shift, ``moved`` by the old map at the new predictions,
    and ``refitted`` by a map of new rows. ``truth`` has the calibration error of the classifier by shift.
    """

    maps: Errors
    kept: Errors
    moved: Errors
    refitted: Errors
    truth: dict[str, list[float]]


def experiment(seeds: int = SEEDS, methods: tuple[str, ...] = METHODS, rows: int = ROWS) -> ShiftErrors:
    """Fit every method before the shift and measure it after each, and refit it after each."""
    shift_errors = ShiftErrors(_empty(methods), _empty(methods), _empty(methods), _empty(methods), {})
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        p, y = BEFORE.drawn(rows, random)
        fitted = {method: _fitted(method, p, y) for method in methods}
        for shift in SHIFTS:
            tested, _ = shift.drawn(TESTED, random)
            new, labels = shift.drawn(rows, random)
            truth = shift.truth(tested)
            error = _distance(truth, tested)
            shift_errors.truth.setdefault(shift.name, []).append(error)
            for method, before in fitted.items():
                calibrated = before.apply(tested)
                shift_errors.maps[method][shift.name].append(_distance(calibrated, truth))
                shift_errors.kept[method][shift.name].append(abs(_distance(before.apply(p), p) - error))
                shift_errors.moved[method][shift.name].append(abs(_distance(calibrated, tested) - error))
                after = _fitted(method, new, labels).apply(new)
                shift_errors.refitted[method][shift.name].append(abs(_distance(after, new) - error))
    return shift_errors


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the rows of each method, which can be computed alone."""
    del data

    def lines(method: str) -> list[str]:
        shift_errors = experiment(methods=(method,))
        errors = (shift_errors.maps, shift_errors.kept, shift_errors.moved, shift_errors.refitted)
        return list(chain.from_iterable([*_table(of).splitlines(), ""] for of in errors))

    return [MethodCheck(method, partial(lines, method)) for method in METHODS]


@dataclass(frozen=True)
class MethodCheck:
    """The rows of a method in the tables of a page, which have the same head."""

    name: str
    compute: Callable[[], Sequence[str]]

    def compare(self, page: str) -> CellComparison:
        """Compare each computed table with that of the page at the same place."""
        comparison = CellComparison()
        shown = [table for table in tables(page) if table.head[0] == "method"]
        for own, table in zip(tables("\n".join(self.compute())), shown, strict=True):
            row = next(row for row in table.rows if row[0] == own.rows[0][0])
            for head, old, new in list(zip(own.head, row, own.rows[0], strict=True))[1:]:
                comparison.add(f"{table.section}, {self.name}, {head}", old, new, 0.0)
        return comparison


def _empty(methods: tuple[str, ...]) -> Errors:
    return {method: {shift.name: [] for shift in SHIFTS} for method in methods}


def _fitted(method: str, p: Floats, y: npt.NDArray[np.int64]) -> calibrant.CalibrationMap:
    options = {"slope": "unit"} if method == "histogram" else {}
    return Fitting.read(method, options, None).run(read_batch(p, y), FitContext())


def _distance(first: Floats, other: Floats) -> float:
    return 1000.0 * float(np.abs(first - other).mean())


_HEAD = """# Maps and evaluators under dataset shift

Generated by `make dataset-shift` ({machine}). Kängsepp, Valk & Kull (2022) leave the benefits of map families under
dataset shift to future work. Here the truth is known before and after: two normal features, P(Y = 1 | x) =
logistic(x_1 + x_2), and an overconfident classifier that uses x_1 alone and predicts logistic(2 x_1). The shifts are
of p(x) in the used feature (x_1 from mean 0 and deviation 1.5 to 1.5 and 1), of p(x) in the unused feature (x_2 from
mean 0 to 1), of p(y) (the odds of label 1 divided by 4, p(x | y) unchanged) and of p(y | x) (logistic(x_1 / 2 + x_2 -
1/2)).

Methods are fitted to {rows:,} rows; errors are means over {seeds} draws, on 20,000 rows, in thousandths. `histogram`
has 15 bins of equal mass with slope 1, the usual ECE. `identity` does nothing as a map, and as an evaluator reports an
error of 0. The lowest error is bold.
"""


def page(shift_errors: ShiftErrors) -> str:
    """The page: maps first, then three ways to evaluate after the shift."""
    seeds = len(next(iter(shift_errors.truth.values())))
    parts = [
        _HEAD.format(machine=machine(), rows=ROWS, seeds=seeds),
        "| calibration error of the classifier | " + " | ".join(shift_errors.truth) + " |",
        "|---|" + "---|" * len(shift_errors.truth),
        "| thousandths | " + " | ".join(f"{np.mean(values):.1f}" for values in shift_errors.truth.values()) + " |",
        "\n## Maps fitted before\n",
        "Mean distance of the map from the true calibration map after the shift.\n",
        _table(shift_errors.maps),
        _map_text(shift_errors.maps),
        "\n## Evaluators: the estimate from before\n",
        "The distance of the estimate from before, without any new row, from the calibration error after the shift.\n",
        _table(shift_errors.kept),
        "## Evaluators: the map from before at the new predictions\n",
        "The estimate is the mean distance between the old map and the new predictions. It needs no new labels.\n",
        _table(shift_errors.moved),
        "## Evaluators: refitted\n",
        f"The estimate is that of a map fitted to {ROWS:,} labelled rows from after the shift (fit-on-test).\n",
        _table(shift_errors.refitted),
        _evaluator_text(shift_errors),
    ]
    return "\n".join([*parts, ""])


def _means(errors: Errors) -> dict[str, dict[str, float]]:
    return {method: {shift: float(np.mean(v)) for shift, v in by.items()} for method, by in errors.items()}


def _table(errors: Errors) -> str:
    means = _means(errors)
    shifts = list(next(iter(means.values())))
    least = {shift: min(by[shift] for by in means.values()) for shift in shifts}
    lines = [f"| method | {' | '.join(shifts)} |", "|---|" + "---|" * len(shifts)]
    for method, by in means.items():
        cells = [f"**{by[s]:.1f}**" if by[s] == least[s] else f"{by[s]:.1f}" for s in shifts]
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _map_text(maps: Errors) -> str:
    means = _means(maps)
    fitted = [method for method in means if method != "identity"]
    base = [means[method][BEFORE.name] for method in fitted]
    texts = []
    for shift in SHIFTS[1:]:
        after = [means[method][shift.name] for method in fitted]
        order = spearmanr(base, after).statistic
        worse = [f"`{method}`" for method in fitted if means[method][shift.name] > means["identity"][shift.name]]
        harm = f"; worse than no map: {', '.join(worse)}" if worse else "; every map is better than none"
        texts.append(f"- {shift.name}: errors of {min(after):.1f} to {max(after):.1f}, correlation {order:.2f}{harm}.")
    return "\n".join(
        [
            f"Without a shift the fitted maps have errors of {min(base):.1f} to {max(base):.1f}. After each shift, "
            "with Spearman's correlation of the methods' order with that before:\n",
            *texts,
            "\nA shift of p(x) in the used feature leaves the true map as it is, and the families that fit best before "
            "remain useful; the other shifts move the true map by far more than families differ.",
        ]
    )


def _evaluator_text(shift_errors: ShiftErrors) -> str:
    unmoved, moved, again = (
        _means(errors) for errors in (shift_errors.kept, shift_errors.moved, shift_errors.refitted)
    )
    fitted = [method for method in unmoved if method != "identity"]

    def over(means: Mapping[str, Mapping[str, float]], shift: str) -> float:
        return float(np.mean([means[method][shift] for method in fitted]))

    lines = [
        "Mean over the fitted methods:\n",
        "| shift | from before | old map, new predictions | refitted |",
        "|---|---|---|---|",
    ]
    for shift in SHIFTS:
        cells = " | ".join(f"{over(means, shift.name):.1f}" for means in (unmoved, moved, again))
        lines.append(f"| {shift.name} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Run the experiment and write the page."""
    publish(PAGE, page(experiment()))


if __name__ == "__main__":
    main()
