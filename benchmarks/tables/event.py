"""One event: fresh draws of the papers' shapes, and four shapes that are not in them; resumes a previous run.

``python -m benchmarks.tables.event`` writes docs/benchmarks/one-event.md. All methods get the same rows.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from benchmarks.laws import possible
from benchmarks.records import publish
from benchmarks.tables.binnings import roof
from benchmarks.tables.columns import MethodColumn, averages, debiased_errors, process_of
from benchmarks.tables.datasets import (
    DERIVATES,
    SHAPES,
    SIZES,
    Floats,
    SimulatedData,
    dataset,
    unseen_predictions,
    unseen_truth,
)
from benchmarks.tables.page import correlations
from benchmarks.tables.run import Key, Records, collect
from calibrant.core.cells import cells_of, sort_rows
from calibrant.core.validation import simplest
from calibrant.maps.beta import fit_beta
from calibrant.piecewise.families import Family
from calibrant.piecewise.fitting import cross_fit
from calibrant.piecewise.folds import fold_cells
from calibrant.piecewise.options import PiecewiseOptions

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "one-event.md"
TABLES = PAGE.with_name("tables.md")
#: Draws of this page begin here; tables.md has those from 1,000 on.
_FIRST = 5_000
_GRID = (np.arange(20_000) + 0.5) / 20_000
#: Every so many of the test points are compared with the truth.
_STEP = 250


def _ceiling(p: Floats) -> Floats:
    """Log odds that bend: predictions above 0.6 are worth ever less."""
    z: Floats = logit(p)
    bent: Floats = expit(np.where(z > 0.4, 0.4 + 0.25 * (z - 0.4), z) - 0.3)
    return bent


def _plateau(p: Floats) -> Floats:
    """All predictions from 0.3 to 0.75 are worth the same."""
    return np.interp(p, [0.0, 0.3, 0.75, 1.0], [0.0, 0.5, 0.5, 1.0])


def _wave(p: Floats) -> Floats:
    """Three waves around the identity."""
    return p + 0.1 * np.sin(6.0 * np.pi * p)


def _dip(p: Floats) -> Floats:
    """Predictions around 0.7 are worth less than smaller ones."""
    return p - 0.5 * np.exp(-0.5 * ((p - 0.7) / 0.08) ** 2)


#: Shapes that are not in the papers, as the true probability at a prediction. The last two are not monotone.
OWN: dict[str, Callable[[Floats], Floats]] = {
    "ceiling": _ceiling,
    "plateau": _plateau,
    "wave": _wave,
    "dip": _dip,
}
ALL = (*SHAPES, *OWN)
#: Derivates of the papers' shapes and of the others for which maps are fitted.
FEW = DERIVATES[::4]
METHODS = ("averaged", "averaged free", "process", "PL CE", "PL3 CE", "beta", "ES_15")
#: The methods whose calibration errors are compared.
ERRORS = ("averaged debiased", "ES_15", "oracle")
#: The largest mean distance and error, the least gain in rank correlation, and the label draws of the errors.
GOALS = {"distance": 11.0, "error": 6.3, "gain": 0.003, "draws": 600}
#: One-sided 95 % bound of a normal distribution, in standard errors.
_BOUND = 1.645
FAMILIES: Mapping[Family, str] = {"pl": "PL CE", "pl3": "PL3 CE"}


def truth(shape: str, derivate: str, p: Floats) -> Floats:
    """True probabilities at predictions ``p`` of a shape of ``OWN``, at the expected distance that names the derivate.

    The distance is that of uniform predictions; a strength above that of the full shape exaggerates it.
    """
    g = OWN[shape]
    strength = float(derivate) / float(np.abs(g(_GRID) - _GRID).mean())
    return np.clip(p + strength * (g(p) - p), 0.0, 1.0)


def fresh(key: Key) -> SimulatedData:
    """A dataset. A draw is the same for all derivates."""
    shape, derivate, n, seed = key
    if shape in SHAPES:
        return dataset(*key)
    random = np.random.default_rng([seed, n])
    p, u = np.sort(random.random(n)), random.random(n)
    c = truth(shape, derivate, p)
    return SimulatedData(shape, derivate, n, seed, c, p, (u < c).astype(np.int8))


def points_of(shape: str, derivate: str) -> tuple[Floats, Floats]:
    """Predictions at which maps are compared with the true probabilities, and these."""
    if shape in SHAPES:
        return unseen_predictions(shape, derivate, _STEP), unseen_truth()[::_STEP]
    return _GRID, truth(shape, derivate, _GRID)


def answers(key: Key) -> dict[str, Any]:
    """Mean distances of the maps from the truth."""
    data, (points, c) = fresh(key), points_of(*key[:2])
    cells = fold_cells(sort_rows(data.p, data.y), 10, 0)
    counts = PiecewiseOptions().piece_counts(data.n)
    fits = {family: cross_fit(family, cells, counts, PiecewiseOptions(), device="cpu") for family in FAMILIES}
    columns = averages(data.p, cells, list(fits.values()))
    for family, label in FAMILIES.items():
        chosen = simplest(counts, fits[family].held_out(cells, "brier").mean(axis=1))
        columns[label] = _plain(fits[family].refined([chosen]).curve(chosen), data.p)
    columns["beta"] = _plain(fit_beta(cells_of(sort_rows(data.p, data.y))), data.p)
    bins = roof("ES", data.p, data.y.astype(np.float64), 15)
    columns["ES_15"] = MethodColumn(bins, (bins.error(1), bins.error(2)))
    return {name: float(np.abs(columns[name].map(points) - c).mean()) for name in METHODS}


def errors(key: Key) -> dict[str, Any]:
    """The true calibration error, those that methods report, and for the papers' shapes the process's distance."""
    data = fresh(key)
    process = process_of(data)
    reported = debiased_errors(data, process)
    if key[0] in SHAPES:
        points, c = points_of(*key[:2])
        reported["process"] = float(np.abs(process.mean(points) - c).mean())
    return reported


def _plain(curve: Callable[[Floats], Floats], p: Floats) -> MethodColumn:
    off = curve(p) - p
    return MethodColumn(curve, (float(np.abs(off).mean()), float((off * off).mean())))


class Mean(NamedTuple):
    """A mean and its standard error, over label draws within sizes."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.error:.2f}"


def mean_of(records: Records, value: Callable[[Key, dict[str, Any]], float]) -> Mean:
    """The mean over sizes of the mean of each size; draws of a size, not datasets, are independent."""
    draws: dict[int, dict[int, list[float]]] = {}
    for key, record in records.items():
        draws.setdefault(key[2], {}).setdefault(key[3], []).append(value(key, record))
    means = [np.array([np.mean(values) for values in of_size.values()]) for of_size in draws.values()]
    variance = sum(float(np.var(m, ddof=1)) / len(m) if len(m) > 1 else np.nan for m in means)
    return Mean(float(np.mean([m.mean() for m in means])), float(np.sqrt(variance)) / len(means))


def of_shapes(records: Records, shapes: Sequence[str], derivates: Sequence[str] = DERIVATES) -> Records:
    """The records of some shapes and derivates."""
    return {key: record for key, record in records.items() if key[0] in shapes and key[1] in derivates}


def distances(records: Records, method: str, minus: str | None = None) -> Mean:
    """The mean distance of a map from the true one, or its paired difference to another, in thousandths."""

    def value(_: Key, record: dict[str, Any]) -> float:
        own, other = (float(record[name]) if name else 0.0 for name in (method, minus))
        possible(np.array([own, other]), f"distances of {method} and {minus}", low=0.0)
        return 1e3 * (own - other)

    return mean_of(records, value)


def distance_of_average(maps: Records, reported: Records) -> tuple[Mean, Mean, Mean]:
    """The mean distance of ``averaged``, by a difference estimator, and its two parts.

    These are the distance of its Gaussian process, which is fitted on many draws, and the paired difference of both on
    the few draws of the maps (Cochran 1977, Sampling Techniques, chapter 12: double sampling).
    """
    many, difference = distances(reported, "process"), distances(maps, "averaged", "process")
    return Mean(many.value + difference.value, float(np.hypot(many.error, difference.error))), many, difference


def error_of(records: Records, method: str) -> Mean:
    """The mean error of a reported calibration error, in thousandths."""
    return mean_of(records, lambda _, r: 1e3 * abs(possible(r[method] - r["truth"], f"error of {method}")))


def gain(records: Records, method: str = "averaged debiased", other: str = "ES_15") -> Mean:
    """How much higher the rank correlation with the true errors over the derivates is, paired, with its error."""
    own, others = correlations(records, method), correlations(records, other)
    paired = {(shape, "", n, seed): {"gain": own[shape, n, seed] - others[shape, n, seed]} for shape, n, seed in own}
    return mean_of(paired, lambda _, record: float(record["gain"]))


def verdict(mean: Mean, goal: float, *, most: bool) -> str:
    """Whether a goal, the most or the least value, is met: by 1.645 standard errors, or else not decided."""
    room = goal - mean.value if most else mean.value - goal
    if abs(room) < _BOUND * mean.error or np.isnan(mean.error):
        return f"not decided ({'within' if room >= 0 else 'outside'} the goal)"
    return "met" if room >= 0 else "missed"


def draws_of(records: Records) -> int:
    """The number of label draws."""
    return len({key[2:] for key in records})


def page(maps: Records, reported: Records) -> str:
    """The whole page."""
    theirs, reported_of_theirs = of_shapes(maps, tuple(SHAPES)), of_shapes(reported, tuple(SHAPES))
    first, many, difference = distance_of_average(theirs, reported_of_theirs)
    second, third = error_of(reported_of_theirs, "averaged debiased"), gain(reported_of_theirs)
    draws, of_own = draws_of(reported_of_theirs), draws_of(of_shapes(reported, tuple(OWN)))
    rows = (
        ("distance of `averaged` (F20)", str(first), f"at most {GOALS['distance']}",
         verdict(first, GOALS["distance"], most=True)),
        ("error of the debiased error (F21)", str(second), f"at most {GOALS['error']}",
         verdict(second, GOALS["error"], most=True)),
        ("rank correlation minus that of ES_15 (F23)", f"{third.value:+.4f} ± {third.error:.4f}",
         f"at least +{GOALS['gain']}", verdict(third, GOALS["gain"], most=False)),
    )  # fmt: skip
    goals = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"""# One event: fresh draws, other shapes

Generated by `make one-event`: the experiment of [Tables F20 to F23](tables.md) with label draws that are not in the
paper, and four more shapes. Values are in thousandths unless stated otherwise, ± standard errors over label draws.

Maps are fitted on {draws_of(maps)} label draws, and calibration errors estimated on {draws} for the papers' shapes
(wanted: {GOALS["draws"]:.0f}, {max(0, int(GOALS["draws"]) - draws)} are missing) and {
        of_own
    } for the others, a third of
them of each size. Maps have all {len(DERIVATES)} strengths of miscalibration of the papers' shapes and {len(FEW)} of
the others; errors have all.

The four shapes have uniform predictions p and the true probabilities c*(p) = p + s (g(p) - p), cut to [0, 1], with the
strength s that makes the mean distance of p from c* that of the derivate:

- `ceiling`: {_first_line(_ceiling)}
- `plateau`: {_first_line(_plateau)}
- `wave`, not monotone: {_first_line(_wave)}
- `dip`, not monotone: {_first_line(_dip)}

## Goals, on the papers' shapes

| quantity | measured | goal | |
|---|---|---|---|
{goals}

A goal is met or missed if the mean is more than {_BOUND} standard errors away from it. The distance of `averaged` is
that of its Gaussian process on all {draws} draws, {many}, plus the paired difference of both on the {
        draws_of(theirs)
    } draws of
maps, {difference}: a difference estimator (Cochran 1977, *Sampling Techniques*, chapter 12). What the labels of a draw
do to a map, they do to both, so that few draws tell the difference.

## Distance of the map from the true one

`averaged free` is `averaged` with `keep_order=False`: in order, a map cannot follow a shape that is not monotone.

{_distance_table(maps, tuple(SHAPES), DERIVATES)}
{_distance_table(maps, tuple(OWN), FEW)}
## Error and rank correlation of the calibration error

{_error_table(reported)}
## Why the paper's draws and fresh draws of tables.md differ

{explanation(theirs)}
"""


def _first_line(shape: Callable[[Floats], Floats]) -> str:
    text = (shape.__doc__ or "").strip()
    return text[0].lower() + text[1:]


def _distance_table(maps: Records, shapes: Sequence[str], derivates: Sequence[str]) -> str:
    part = of_shapes(maps, shapes, derivates)
    lines = [
        f"| method | {' | '.join(shapes)} | mean | `averaged` minus it, paired |",
        "|---|" + "---|" * (len(shapes) + 2),
    ]
    for method in METHODS:
        cells = [f"{distances(of_shapes(part, [shape]), method).value:.2f}" for shape in shapes]
        difference = distances(part, "averaged", method)
        paired = "" if method == "averaged" else f"{difference.value:+.2f} ± {difference.error:.2f}"
        lines.append(f"| {method} | {' | '.join(cells)} | {distances(part, method)} | {paired} |")
    return "\n".join([*lines, ""])


def _error_table(reported: Records) -> str:
    lines = [
        "| shape | " + " | ".join(f"error, {method}" for method in ERRORS) + " | gain in rank correlation over ES_15 |",
        "|---|" + "---|" * (len(ERRORS) + 1),
    ]
    for name, shapes in (
        *((shape, [shape]) for shape in ALL),
        ("the papers'", list(SHAPES)),
        ("the others", list(OWN)),
    ):
        part = of_shapes(reported, shapes)
        better = gain(part)
        cells = [str(error_of(part, method)) for method in ERRORS]
        lines.append(f"| {name} | {' | '.join(cells)} | {better.value:+.4f} ± {better.error:.4f} |")
    return "\n".join([*lines, ""])


def explanation(theirs: Records) -> str:
    """Why the F20 of ``averaged`` in tables.md on the paper's draws and on fresh ones differ, with the figures."""
    text = TABLES.read_text("utf-8")
    whole = re.search(r"^\| F20, averaged \| ([\d.]+) ", text, re.MULTILINE)
    few = re.findall(r"^\| averaged \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)
    if whole is None or not few:
        raise ValueError(f"{TABLES.name} lacks the figures of `averaged`")
    every = float(whole[1])
    fresh_mean, fresh_error, paper_mean, paper_error = map(float, few[-1])
    noise = float(np.hypot(fresh_error, paper_error))
    here, part = distances(theirs, "averaged"), distances(of_shapes(theirs, tuple(SHAPES), FEW), "averaged")
    calibrated = distances(of_shapes(theirs, tuple(SHAPES), DERIVATES[:1]), "averaged")
    return f"""[tables.md](tables.md) has a mean distance of {every} on the paper's draws and of {
        fresh_mean
    } on fresh ones. These
are not the same mean: the fresh draws have every fourth derivate only. The paper's draws have {paper_mean} on these, so
that {every - paper_mean:.2f} of the difference of {every - fresh_mean:.2f} is the choice of derivates. The rest,
{paper_mean - fresh_mean:+.2f} ± {noise:.2f}, is {
        "within chance" if abs(paper_mean - fresh_mean) < _BOUND * noise else "more than chance"
    }: the paper has five label draws of each size.

Every fourth derivate gives the calibrated predictions (derivate {
        DERIVATES[0]
    }), which all maps come closest to, a weight of
1/{len(FEW)} instead of 1/{len(DERIVATES)}. On the draws of this page, all derivates have {here}, every fourth
{part}, and the calibrated predictions {calibrated}.
"""


def map_keys(draws: int) -> list[Key]:
    """Datasets of maps, those of a draw before those of the next."""
    seeds = range(_FIRST, _FIRST + draws)
    return [
        (shape, derivate, n, seed)
        for seed in seeds
        for n in SIZES
        for shape in ALL
        for derivate in (DERIVATES if shape in SHAPES else FEW)
    ]


def error_keys(draws: int) -> list[Key]:
    """Datasets of calibration errors, those of a draw before those of the next; other shapes have a third of them."""
    return [
        (shape, derivate, n, seed)
        for seed in range(_FIRST, _FIRST + draws)
        for n in SIZES
        for shape in (ALL if seed < _FIRST + draws // 3 else SHAPES)
        for derivate in DERIVATES
    ]


def main() -> None:
    """Fit what has no record, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", type=int, default=10, help="label draws of each size for maps, at least 2")
    parser.add_argument("--errors", type=int, default=600, help="label draws of each size for calibration errors")
    options = parser.parse_args()
    maps = collect("one-event-maps", map_keys(options.maps), answers)
    publish(PAGE, page(maps, collect("one-event-errors", error_keys(options.errors), errors)))
    print(f"written: {PAGE.name}")


if __name__ == "__main__":
    main()
