"""How often a comparison of maps is wrong: family-wise errors, and coverage.

Writes docs/benchmarks/comparison-error.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calibrant.comparison.comparison import apart, ranked_values
from calibrant.comparison.pairs import Correction, Pair, Standing, compare_pairs
from calibrant.measures.catalogue import read_requests
from calibrant.measures.deviations import deviations
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest
from calibrant.reductions import Event

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "comparison-error.md"
RUNS, RESAMPLES, LEVEL = 200, 200, 0.95
SIZES = (1_000, 10_000)
MEASURES = ("ece", "ks", "brier")
CORRECTIONS: tuple[Correction, ...] = ("max-t", "holm")
#: Rows on which the true values are computed, and true differences of calibration errors below this count as none.
TRUTH_ROWS, NONE = 200_000, 2e-4

Array = npt.NDArray[np.float64]

HEAD = """# Comparing maps: how often it is wrong

`make comparing` writes this page. {runs} simulated batches of each kind, {resamples} resamples, level {level}: the
share with any false difference (a pair whose true values are equal, with an adjusted p-value of at most {error:.2f}),
and the share in which all intervals hold the true differences at once. One batch in {runs} is {one:.1%}; two standard
errors about 5 % are {two:.1%}.

- `coarse`: the true probabilities, and their means over 25, 40 and 60 classes of equal width: all calibrated, and so
  all differences of calibration errors are 0 (those of the Brier score are not).
- `mirror`: predictions too high by 0.03 sin(pi c), too low by as much, and too sure by as much.
- `ladder`: the true probabilities, logits times 1.1 and 1.5, and too high by 0.03 sin(pi c).

| world | rows | measure | false difference, max-t | holm | all intervals hold, max-t | holm |
|---|---|---|---|---|---|---|
"""

FOOT = """
Where no pair of a world is equal the share of false differences is empty. Calibration errors are compared in a way that
holds back where noise is as large as they are: there fewer false differences than 5 %, and more coverage than 95 %.
Intervals of `ece` and `ks` may hold a little less often than they say where true gaps are about as large as their
noise.
"""


def coarse(c: Array, classes: int, means: Array) -> Array:
    """The mean true probability of each one's class of equal width."""
    return means[np.minimum((c * classes).astype(np.int64), classes - 1)]


def equal(difference: float, measure: str) -> bool:
    """Whether a true difference is none; those of the Brier score are small, and exact."""
    return abs(difference) < (1e-9 if measure == "brier" else NONE)


def draw(n: int, random: np.random.Generator) -> Array:
    """True probabilities."""
    return np.clip(random.beta(1.2, 1.2, n), 1e-3, 1.0 - 1e-3)


def class_means(classes: int) -> Array:
    """The mean true probability in each class of equal width."""
    c = draw(2_000_000, np.random.default_rng(99))
    place = np.minimum((c * classes).astype(np.int64), classes - 1)
    return np.bincount(place, c, classes) / np.bincount(place, minlength=classes)


MEANS = {classes: class_means(classes) for classes in (25, 40, 60)}


def contestants(world: str, c: Array) -> list[Array]:
    """The predictions of each contestant for true probabilities ``c (n,)``."""
    bump = 0.03 * np.sin(np.pi * c)
    if world == "coarse":
        return [c, *(coarse(c, classes, means) for classes, means in MEANS.items())]
    if world == "mirror":
        return [c + bump, c - bump, c + bump * np.sign(c - 0.5)]
    logit = np.log(c / (1.0 - c))
    return [c, *(1.0 / (1.0 + np.exp(-factor * logit)) for factor in (1.1, 1.5)), c + bump]


def truths(world: str, request: MeasureRequest) -> Array:
    """The values that an endless sample would show: every row with both labels, weighed by the truth."""
    c = draw(TRUTH_ROWS, np.random.default_rng(5))
    y, w = np.repeat(np.array([0, 1], np.int8), len(c)), np.concatenate([1.0 - c, c])
    found = [request.compute(Event(np.tile(p, 2), y, w)).value for p in contestants(world, c)]
    return np.array([0.0 if value is None else value for value in found])


def compared(world: str, request: MeasureRequest, n: int, seed: int) -> dict[Correction, tuple[Pair, ...]]:
    """All pairs of one simulated batch, by each correction."""
    random = np.random.default_rng([seed, n])
    c = draw(n, random)
    y = (random.random(n) < c).astype(np.int8)
    order = np.argsort(c, kind="stable")
    events = {str(i): Event(p[order], y[order]) for i, p in enumerate(contestants(world, c))}
    results = [request.compute(event) for event in events.values()]
    of, values = ranked_values(results)
    resampling = Resampling(None, RESAMPLES, seed)
    moved = {
        name: deviations(request, result.value or 0.0, event, resampling, debiased=of == "debiased")
        for (name, event), result in zip(events.items(), results, strict=True)
    }
    standings = [
        Standing(name, value or 0.0, moved[name].draws, moved[name].bias)
        for name, value in zip(events, values, strict=True)
    ]

    def nearest(one: str, two: str) -> float:
        return apart(events[one], events[two], mean=moved[one].mean)

    return {how: compare_pairs(standings, level=LEVEL, correction=how, apart=nearest) for how in CORRECTIONS}


def wrong(pairs: Sequence[Pair], true: Array, measure: str) -> tuple[bool, bool]:
    """Whether an equal pair is called different, and whether all intervals hold the truth."""
    differences = [float(true[int(pair.between[0])] - true[int(pair.between[1])]) for pair in pairs]
    same = [equal(difference, measure) for difference in differences]
    told = [pair.p_value is not None and pair.p_value <= 1.0 - LEVEL for pair in pairs]
    held = [
        pair.interval is not None and pair.interval[0] - NONE <= difference <= pair.interval[1] + NONE
        for pair, difference in zip(pairs, differences, strict=True)
    ]
    return any(e and t for e, t in zip(same, told, strict=True)), all(held)


def line(world: str, n: int, request: MeasureRequest) -> str:
    """A line of the table."""
    true = truths(world, request)
    ranked = np.sort(true)
    some = any(equal(later - earlier, request.key) for earlier, later in pairwise(ranked.tolist()))
    found = [compared(world, request, n, seed) for seed in range(RUNS)]
    shares = {how: np.mean([wrong(run[how], true, request.key) for run in found], axis=0) for how in CORRECTIONS}
    false = [f"{shares[how][0]:.1%}" if some else "" for how in CORRECTIONS]
    held = [f"{shares[how][1]:.1%}" for how in CORRECTIONS]
    return f"| {world} | {n:,} | `{request.key}` | {' | '.join([*false, *held])} |\n"


def main() -> None:
    two = 2.0 * (0.05 * 0.95 / RUNS) ** 0.5
    page = HEAD.format(runs=RUNS, resamples=RESAMPLES, level=LEVEL, error=1.0 - LEVEL, one=1.0 / RUNS, two=two)
    for world in ("coarse", "mirror", "ladder"):
        for n in SIZES:
            for request in read_requests(list(MEASURES)):
                page += line(world, n, request)
                print(page.splitlines()[-1], flush=True)
    PAGE.write_text(page + FOOT, encoding="utf-8")


if __name__ == "__main__":
    main()
