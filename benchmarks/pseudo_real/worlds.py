"""Events whose true maps are known and have kinks, plateaus and steps: ``python -m benchmarks.pseudo_real.worlds``.

Resumes a previous run; writes docs/benchmarks/pseudo-real-worlds.md. The predictions are distributed like those of a
classifier, and the labels are drawn from a map that no calibrator has, so that none is right from the start, and the
predictions as they are miss the truth by several hundredths.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks.laws import possible
from benchmarks.provenance import ROOT
from benchmarks.pseudo_real.arrays import agreement, mean_ranks
from benchmarks.pseudo_real.calibrators import BINARY, CALIBRATORS, fitted_curve
from benchmarks.pseudo_real.evaluators import estimates
from benchmarks.pseudo_real.experiment import CALIBRATION_ROWS, SIZES
from benchmarks.pseudo_real.page import PUBLISHED, TEN
from benchmarks.records import append, current, publish, read
from calibrant import METHODS
from calibrant.calibrators import FitContext
from calibrant.core.cells import Floats
from calibrant.core.reductions import Event

PAGE = ROOT / "docs" / "benchmarks" / "pseudo-real-worlds.md"
RECORDS = "pseudo-real/worlds"
#: Points at which maps are compared with the truth.
POINTS = 20_000
#: Random samples of each world in a whole run.
SEEDS = 5
#: The paper's calibrators of one event; the others of its 20 map whole vectors.
OF_EVENT = tuple(name for name in CALIBRATORS if name in BINARY)
#: Columns that the paper does not have.
OURS = ("averaged", "identity")
#: The calibrator that the paper finds best.
CLAIMED = "PL3 CE"

Random = np.random.Generator


def _one_of_ten(random: Random, n: int) -> Floats:
    """Log odds of one class among ten: nine in ten rows are far below even odds."""
    rest = random.normal(-4.0, 1.8, n)
    return np.where(random.random(n) < 0.1, random.normal(3.0, 2.0, n), rest)


def _confidence(random: Random, n: int) -> Floats:
    """Log odds of a confident network's prediction being right."""
    return random.normal(2.5, 1.8, n)


def _undecided(random: Random, n: int) -> Floats:
    """Log odds of a hard task."""
    return random.normal(0.0, 1.6, n)


PREDICTIONS: dict[str, Callable[[Random, int], Floats]] = {
    "one of ten": _one_of_ten,
    "confidence": _confidence,
    "undecided": _undecided,
}
#: Quantiles of the predictions at which the slope of the true map changes, and the slope of each part.
SLOPES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "kinks": ((0.3, 0.7), (1.1, 0.3, 1.2)),
    "ceiling": ((0.6,), (0.9, 0.15)),
    "plateau": ((0.35, 0.75), (0.7, 0.0, 0.9)),
}
#: Those of probabilities, the family of PL; the others are of log odds, the family of PL3.
OF_PROBABILITIES = ("plateau",)
#: The map that is constant between quantiles of the predictions: their places, and by how much log odds are shrunk.
STEPS, LEVELS, SHRUNK = (0.25, 0.5, 0.8), (0.125, 0.375, 0.65, 0.9), 0.7
MAPS = (*SLOPES, "steps")


class SimulatedWorld(NamedTuple):
    """A distribution of predictions and a true map."""

    predictions: str
    map: str

    def __str__(self) -> str:
        return f"{self.map}, {self.predictions}"

    def draw(self, seed: int, n: int) -> tuple[Event, Floats]:
        """An event of ``n`` rows and their true probabilities."""
        random = np.random.default_rng([seed, list(PREDICTIONS).index(self.predictions), MAPS.index(self.map)])
        z = PREDICTIONS[self.predictions](random, n)
        c = self.truth(z)
        return Event(expit(z), (random.random(n) < c).astype(np.int8)), c

    def truth(self, z: Floats) -> Floats:
        """True probabilities at log odds ``z``, whose mean is that of the predictions, as of a trained model."""
        return _shifted(self._shape(z), _offset(self), self.map)

    def _shape(self, z: Floats) -> Floats:
        """The true map up to a constant."""
        places = STEPS if self.map == "steps" else SLOPES[self.map][0]
        knots = np.quantile(_many(self.predictions), places)
        if self.map == "steps":
            levels: Floats = SHRUNK * np.quantile(_many(self.predictions), LEVELS)
            return levels[np.searchsorted(knots, z, side="right")]
        slopes = SLOPES[self.map][1]
        x, knots = (expit(z), expit(knots)) if self.map in OF_PROBABILITIES else (z, knots)
        value: Floats = knots[0] + slopes[0] * np.minimum(x - knots[0], 0.0)
        for low, high, slope in zip(knots, (*knots[1:], np.inf), slopes[1:], strict=True):
            value = value + slope * np.clip(x - low, 0.0, high - low)
        return value


WORLDS = tuple(SimulatedWorld(*names) for names in product(PREDICTIONS, MAPS))


@cache
def _many(predictions: str) -> Floats:
    return PREDICTIONS[predictions](np.random.default_rng(0), 200_000)


@cache
def _offset(world: SimulatedWorld) -> float:
    z = _many(world.predictions)
    shape, mean = world._shape(z), float(expit(z).mean())
    return float(brentq(lambda offset: float(_shifted(shape, offset, world.map).mean()) - mean, -10.0, 10.0))


def _shifted(shape: Floats, offset: float, map: str) -> Floats:
    return np.clip(shape + offset, 0.0, 1.0) if map in OF_PROBABILITIES else expit(shape + offset)


class WorldTask(NamedTuple):
    """``kind`` is ``calibrators`` or ``evaluators``."""

    kind: str
    predictions: str
    map: str
    seed: int


def tasks(seeds: int) -> list[WorldTask]:
    """Those of a seed come before those of the next."""
    return [WorldTask(kind, *world, seed) for seed in range(seeds) for kind in ("calibrators", "evaluators")
            for world in WORLDS]  # fmt: skip


def run(task: WorldTask) -> dict[str, Any]:
    """Distances from the truth by calibrator, or by size and evaluator with the reported and true errors."""
    world = SimulatedWorld(task.predictions, task.map)
    points, c = world.draw(1_000_000, POINTS)
    if task.kind == "calibrators":
        training, _ = world.draw(task.seed, CALIBRATION_ROWS)
        return {name: float(np.abs(_curve(name, training)(points.p) - c).mean()) for name in (*OF_EVENT, *OURS)}
    answer: dict[str, Any] = {}
    for n in SIZES:
        event, true = world.draw(10_000 + task.seed, n)
        answer[str(n)] = {"truth": float(np.abs(event.p - true).mean())}
        for name, estimate in estimates(event, (*TEN, *OURS), task.seed).items():
            distance = float(np.abs(estimate.map(points.p) - c).mean())
            answer[str(n)][name] = {"distance": distance, "error": estimate.errors[0]}
    return answer


def _curve(name: str, training: Event) -> Callable[[Floats], Floats]:
    if name == "identity":
        return lambda p: p
    if name == "averaged":
        entry = METHODS[name]
        return entry.curve(training, FitContext(), entry.read_options({}))[0]
    return fitted_curve(name, training)


Answers = Mapping[WorldTask, Mapping[str, Any]]


def distances(answers: Answers, names: Sequence[str]) -> Floats:
    """Distances of calibrators, in thousandths, mean over seeds: ``(world, calibrator)``."""
    of_seeds = [
        [[answer[name] for name in names] for task, answer in answers.items() if task[:3] == ("calibrators", *world)]
        for world in WORLDS
    ]
    means = np.array([np.mean(rows, axis=0) for rows in of_seeds])
    possible(means, "distance of maps", low=0.0)
    return 1e3 * means


def evaluated(answers: Answers, names: Sequence[str], what: str) -> Floats:
    """Distances of evaluators or errors of their errors, in thousandths, mean over seeds: ``(world x size, name)``."""
    rows = []
    for world, n in product(WORLDS, map(str, SIZES)):
        of_seeds = [answer[n] for task, answer in answers.items() if task[:3] == ("evaluators", *world)]
        rows.append(np.mean([[_value(answer, name, what) for name in names] for answer in of_seeds], axis=0))
    possible(np.array(rows), what, low=0.0)
    return 1e3 * np.array(rows)


def _value(answer: Mapping[str, Any], name: str, what: str) -> float:
    if what == "distance":
        return float(answer[name]["distance"])
    return abs(float(answer[name]["error"] - answer["truth"]))


def claim(values: Floats, names: Sequence[str]) -> str:
    """Whether the calibrator that the paper finds best is so here, by mean ranks and by paired distances."""
    ranks, own = mean_ranks(values), names.index(CLAIMED)
    order = [names[at] for at in np.argsort(ranks, kind="stable")]
    other = next(name for name in order if name != CLAIMED)
    rivals = [at for at in range(len(names)) if at != own]
    rival = min(rivals, key=lambda at: values[:, at].mean())
    gap = values[:, own] - values[:, rival]
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    decided = "" if abs(gap.mean()) > 2.0 * error else ", which is within chance"
    closest = int((values.argmin(axis=1) == own).sum())
    return (
        f"**{'Yes' if order[0] == CLAIMED else 'No'}** by mean rank: {CLAIMED} has place {order.index(CLAIMED) + 1} of "
        f"{len(names)} with {ranks[own]:.1f}, and the best of the others is {other} with "
        f"{ranks[names.index(other)]:.1f}. It is the closest of all in {closest} of {len(values)} worlds. Its mean "
        f"distance is {values[:, own].mean():.2f}, and that of {names[rival]}, the best of the others, "
        f"{values[:, rival].mean():.2f}: a paired difference of {gap.mean():+.2f} ± {error:.2f} over worlds{decided}."
    )


def _paper_rank(name: str) -> float:
    return float(PUBLISHED["mean ranks"]["F1"][CALIBRATORS.index(name)])


def table(header: Sequence[str], rows: Sequence[tuple[str, Floats]]) -> str:
    """Values with two digits, the smallest of each row in bold."""
    lines = [f"| {' | '.join(['', *header])} |".replace("|  |", "| |"), "|" + "---|" * (len(header) + 1)]
    for name, values in rows:
        cells = [f"**{v:.2f}**" if v == values.min() else f"{v:.2f}" for v in values]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def page(answers: Answers) -> str:
    """The whole page."""
    seeds = {kind: len({task.seed for task in answers if task.kind == kind}) for kind in ("calibrators", "evaluators")}
    values = distances(answers, OF_EVENT)
    beside = distances(answers, (*OF_EVENT, *OURS))
    paper = [_paper_rank(name) for name in OF_EVENT]
    kinds = [(kind, beside[[world.map == kind for world in WORLDS]].mean(axis=0)) for kind in MAPS]
    rows = [(str(world), beside[at]) for at, world in enumerate(WORLDS)]
    ranks = [("mean rank", mean_ranks(values)), ("mean rank, paper", np.array(paper))]
    far, off = (evaluated(answers, (*TEN, *OURS), what) for what in ("distance", "error"))
    published = [PUBLISHED["T2"][name] for name in TEN]
    closest = TEN[int(far[:, : len(TEN)].mean(axis=0).argmin())]
    worse = int((far[:, -1:] < far[:, : len(TEN)].min(axis=1, keepdims=True)).sum())
    by_size = [
        (f"{title}, n = {n:,}", part[at :: len(SIZES)].mean(axis=0))
        for title, part in (("abs(c_hat - c*)", far), ("abs(ECE - CE)", off))
        for at, n in enumerate(SIZES)
    ]
    return f"""# Pseudo-real worlds with known maps

Generated by `make pseudo-real-worlds`. The models of [the pseudo-real tables](pseudo-real.md) are nearly calibrated and
their true maps nearly straight, so that these tables cannot tell calibrators apart. Here the labels of an event are
drawn from {len(WORLDS)} true maps, for predictions distributed like those of one class among ten, of a network's
confidence, and of a hard task. **The data are simulated**; the distributions are shaped like those of classifiers. Maps
with kinks and a ceiling are piecewise linear in log odds, the family of PL3; those with a plateau are piecewise linear
in probabilities, the family of PL; those with steps are constant in parts, as bins are. The predictions are right on
average and lie {beside[:, -1].min():.0f} to {beside[:, -1].max():.0f} thousandths from the truth. Distances are in
thousandths, for {POINTS:,} predictions.

**This is a part of the run**: {seeds["calibrators"]} of {SEEDS} samples for calibrators, and {seeds["evaluators"]} of
{SEEDS} for evaluators.

## Is {CLAIMED} the best calibrator?

Each of the paper's {len(OF_EVENT)} calibrators of one event is fitted to {CALIBRATION_ROWS:,} rows. The paper's other
calibrators map whole vectors. In the paper {CLAIMED} has mean rank {_paper_rank(CLAIMED):g}, the best of 20.

{claim(values, OF_EVENT)}

{table(OF_EVENT, ranks)}
Spearman's correlation of the two orders: {agreement(mean_ranks(values), paper):.2f}.

With the two columns that the paper does not have: {claim(beside, (*OF_EVENT, *OURS))}

## Distance of calibrators by kind of map

{table((*OF_EVENT, *OURS), kinds)}
## Distance of calibrators by world

{table((*OF_EVENT, *OURS), rows)}
## Evaluators

The ten evaluators of the paper's Table 2 (journal: 3), on the predictions as they are. The closest to the truth in the
mean is {closest}; the identity is closer than all ten in {worse} of {len(far)} worlds and sizes. Spearman's correlation
of the order of the mean distances with the paper's: {agreement(far.mean(axis=0)[: len(TEN)], published):.2f}.

{table((*TEN, *OURS), by_size)}"""


def main() -> None:
    """Run what has no record, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=SEEDS, choices=range(1, SEEDS + 1), help="samples")
    seeds = parser.parse_args().repetitions
    path = current(RECORDS, __file__)
    answers = {WorldTask(*task): answer for task, answer in read(path)}
    for task in tasks(seeds):
        if task not in answers:
            answers[task] = run(task)
            append(path, [task, answers[task]])
            print(*task, flush=True)
    publish(PAGE, page(answers))
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
