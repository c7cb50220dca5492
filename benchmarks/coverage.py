"""Coverage of the intervals of calibration errors. Writes docs/benchmarks/interval-coverage.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.provenance import Pool
from benchmarks.records import publish
from calibrant.averaging.process import fit_process
from calibrant.core.reductions import Classes, Event, Subject, Vector
from calibrant.measures.catalogue import read_requests
from calibrant.measures.fitted import debiased, fitted_error, interval_about, process_belief
from calibrant.measures.intervals import Resampling
from calibrant.piecewise.folds import fold_cells

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "interval-coverage.md"
RUNS = 200
RESAMPLES = 400
LEVEL = 0.95
#: Fits take longer and have fewer runs.
FITTED: tuple[str, ...] = ("pl3", "pl")
FITTED_RUNS = 60
#: Depends on the number of training rows, and so has no true value for an infinite sample.
UNSHOWN = frozenset({"recalibration-improvement"})
#: Simulated measures; those recomputed on resampled rows are too slow here.
MEASURES = [
    m.name
    for m in calibrant.MEASURES.values()
    if m.runs == "inline" and m.event and (m.distance or m.influence) and m.name not in UNSHOWN
]
#: Has no interval under classwise.
EVENT_ONLY = frozenset({"decomposition"})
#: Gaps between groups, which are recomputed for every resample.
GAP_MEASURES, GAP_RUNS, GAP_RESAMPLES, GAP_ROWS = ("ece", "ks", "ks-end", "brier"), 100, 200, 1_000
#: Measures that choose their number of bins by the labels.
ADAPTIVE = frozenset({"ece-sweep", "ece-cv"})
_CLASS_WISE = (
    "Under `classwise`: three classes, with uniform true probabilities raised to the powers 1, 1.25 and 2. Whole rows",
    "are resampled.",
    "",
)
_RARE = (
    "True probabilities are c = 0.1 u^2 for uniform u, so that 3.3 % of the labels are positive: 10 of 300.",
    "Predictions are 0.5, 1 and 2 times the true probabilities. Of the samples of 60 rows, 13 % have no positive, so",
    "that many measures have no interval; it counts as one that does not cover.",
    "",
)
_FEW_ROWS = ("Errors with 15 bins have 4 and 10 rows in each bin.", "")
#: Powers of the true probabilities of classes, by the approximate error that they cause.
_POWERS = {0.0: 1.0, 0.03: 1.25, 0.1: 2.0}

_FITS, _GAPS = "Fitted calibration errors", "Gaps between groups"
ERRORS, SIZES = (0.0, 0.03, 0.1), (300, 1_000, 10_000)

Array = npt.NDArray[np.float64]
#: A calibration error and a number of rows.
Setting = tuple[float, int]


def draw(error: float, n: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Predictions and their true probabilities c, uniform: p = (1 - a) c + a c^2 with a = 6 x error."""
    c = random.random(n)
    return (1 - 6 * error) * c + 6 * error * c**2, c


def world(kind: str, error: float, n: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Predictions and true probabilities.

    ``event`` as ``draw``; ``rare``: up to 0.1, with predictions ``error`` times as large; ``classes``: three
    overconfident classes, whose powers give approximately the requested class-wise errors.
    """
    if kind == "event":
        return draw(error, n, random)
    if kind == "rare":
        truth = 0.1 * random.random(n) ** 2
        return error * truth, truth
    truth = random.dirichlet(np.ones(3), n)
    sharp = truth ** _POWERS[error]
    return sharp / sharp.sum(axis=1, keepdims=True), truth


def labelled(kind: str, p: Array, truth: Array, random: np.random.Generator) -> Subject:
    """The subject with labels drawn from the true probabilities."""
    if kind != "classes":
        return Event(p, (random.random(len(p)) < truth).astype(np.int8))
    labels = (random.random(len(p))[:, None] > np.cumsum(truth, axis=1)).sum(axis=1)
    return Classes(Vector(p, labels))


def noiseless(kind: str, p: Array, truth: Array) -> Subject:
    """The subject of an infinite sample: every row with all labels, weighted by the true probabilities."""
    if kind != "classes":
        y = np.repeat(np.array([0, 1], np.int8), len(p))
        return Event(np.tile(p, 2), y, np.concatenate([1.0 - truth, truth]))
    return Classes(Vector(np.tile(p, (3, 1)), np.repeat(np.arange(3), len(p)), truth.T.ravel()))


def covered(kind: str, error: float, n: int) -> dict[str, float]:
    """Share of runs in which each measure's interval covers the true value."""
    requests = read_requests([name for name in MEASURES if kind != "classes" or name not in EVENT_ONLY])
    truth = noiseless(kind, *world(kind, error, 100_000, np.random.default_rng(1)))
    # Without noise, measures that choose their number of bins would choose infinitely many.
    true = {r.key: 0.0 if r.key in ADAPTIVE else r.compute(truth).value or 0.0 for r in requests}
    # An unbiased estimate of 0 can be slightly below 0.
    true |= {r.key: max(true[r.key], 0.0) for r in requests if r.measure.lowest is None}
    true |= dict.fromkeys(ADAPTIVE & set(true), true["ece"])
    hits = dict.fromkeys(true, 0)
    for run in range(RUNS):
        random = np.random.default_rng([7, run, n])
        subject = labelled(kind, *world(kind, error, n, random), random)
        for request in requests:
            low, high = request.compute(subject, Resampling(LEVEL, RESAMPLES, run)).interval or (1.0, 0.0)
            hits[request.key] += low <= true[request.key] + 1e-9 and true[request.key] <= high + 1e-9
    return {key: count / RUNS for key, count in hits.items()}


def covered_by_fits(error: float, n: int) -> tuple[list[float], float]:
    """Shares of runs in which the intervals of ``ece-averaged``, ``ece-pl3`` and ``ece-pl`` cover the true value."""
    p, c = draw(error, 2_000_000, np.random.default_rng(1))
    truth = float(np.abs(p - c).mean())
    hits, fits, width = 0, [0, 0], 0.0
    for run in range(RUNS):
        random = np.random.default_rng([8, run, n])
        p, c = draw(error, n, random)
        event = Event(p, (random.random(n) < c).astype(np.int8))
        # The interval of the average is that of its Gaussian process; the other half need not be fitted.
        belief = process_belief(fit_process(fold_cells(event.counted_rows, 10, 0)))
        low, high = interval_about(belief, debiased(belief, 1), 1, LEVEL)
        hits += low <= truth <= high
        width += (high - low) / RUNS
        if run < FITTED_RUNS:
            for i, name in enumerate(FITTED):
                low, high = fitted_error(event, name, norm=1, folds=10, level=LEVEL).interval or (1.0, 0.0)
                fits[i] += low <= truth <= high
    return [hits / RUNS, *(count / FITTED_RUNS for count in fits)], width


def fit_lines() -> list[str]:
    """The table of fitted calibration errors."""
    return [
        f"## {_FITS}",
        "",
        f"The same for the mean of |p - c|, without bins; PL and PL3 in {FITTED_RUNS} runs (standard error "
        f"{np.sqrt(LEVEL * (1 - LEVEL) / FITTED_RUNS):.3f}).",
        "",
        *fit_table(list(product(ERRORS, SIZES))),
    ]


def fit_table(settings: Sequence[Setting]) -> list[str]:
    """The rows of some settings, with the head."""
    lines = [
        "| calibration error | n | ece-averaged | ece-pl3 | ece-pl | mean width, ece-averaged |",
        "|---|---|---|---|---|---|",
    ]
    for error, n in settings:
        shares, width = covered_by_fits(error, n)
        lines.append(f"| {error:g} | {n:,} | {' | '.join(f'{s:.3f}' for s in shares)} | {width:.4f} |")
    return lines


def covered_gaps(error: float) -> dict[str, tuple[float, float]]:
    """For calibrated rows and half as many with this error: shares of intervals covering the gap, and of p <= 0.05."""
    large = [noiseless("event", *draw(e, 100_000, np.random.default_rng(1))) for e in (0.0, error)]
    requests = read_requests(GAP_MEASURES)
    true = {r.key: abs((r.compute(large[0]).value or 0.0) - (r.compute(large[1]).value or 0.0)) for r in requests}
    hits, rejected = dict.fromkeys(true, 0), dict.fromkeys(true, 0)
    for run in range(GAP_RUNS):
        random = np.random.default_rng([9, run])
        parts = [draw(e, n, random) for e, n in ((0.0, 2 * GAP_ROWS // 3), (error, GAP_ROWS // 3))]
        p, c = (np.concatenate(both) for both in zip(*parts, strict=True))
        groups = ["a"] * len(parts[0][0]) + ["b"] * len(parts[1][0])
        y = (random.random(len(p)) < c).astype(int)
        report = calibrant.evaluate(
            p, y, measures=GAP_MEASURES, groups=groups, interval=LEVEL, resamples=GAP_RESAMPLES, seed=run
        ).gaps
        for key, gap in (report or {}).items():
            low, high = gap.interval or (1.0, 0.0)
            hits[key] += low <= true[key] + 1e-9 and true[key] <= high + 1e-9
            rejected[key] += gap.p_value is not None and gap.p_value <= 1.0 - LEVEL
    return {key: (hits[key] / GAP_RUNS, rejected[key] / GAP_RUNS) for key in true}


def gap_lines() -> list[str]:
    """The table of the gaps between two groups."""
    with Pool(2) as pool:
        table = gap_table(ERRORS, pool.map)
    return [
        f"## {_GAPS}",
        "",
        f"Two groups: {2 * GAP_ROWS // 3} calibrated rows and {GAP_ROWS // 3} rows with a calibration error, in "
        f"{GAP_RUNS} runs of {GAP_RESAMPLES} resamples.",
        "Each figure is the share of intervals that cover the true gap; in "
        f"brackets, the share of permutation p-values of at most {1 - LEVEL:.2f}.",
        f"At error 0 the groups do not differ. The standard error is {np.sqrt(LEVEL * (1 - LEVEL) / GAP_RUNS):.3f}.",
        "",
        *table,
    ]


def gap_table(errors: Sequence[float], mapped: Callable[..., Iterable[Any]] = map) -> list[str]:
    """The columns of some errors, with the head."""
    covered_shares = list(mapped(covered_gaps, errors))
    return [
        "| measure | " + " | ".join(f"error {error:g}" for error in errors) + " |",
        "|---|" + "---|" * len(errors),
        *(
            f"| `{key}` | "
            + " | ".join(f"{share[key][0]:.2f} ({share[key][1]:.2f})" for share in covered_shares)
            + " |"
            for key in covered_shares[0]
        ),
    ]


class MeasuredKind(NamedTuple):
    """A table of measures: the kind of rows, its title, numbers of rows, an introduction, and errors."""

    kind: str
    title: str
    sizes: tuple[int, ...]
    introduction: tuple[str, ...] = ()
    errors: tuple[float, ...] = ERRORS

    def settings(self) -> list[Setting]:
        """The columns."""
        return list(product(self.errors, self.sizes))

    def lines(self) -> list[str]:
        """The section."""
        with Pool(2) as pool:
            return [
                f"## {self.title}",
                "",
                *self.introduction,
                *measure_table(self.kind, self.settings(), pool.map),
                "",
            ]


SECTIONS = (
    MeasuredKind("event", "One event", SIZES),
    MeasuredKind("event", "One event, few rows", (60, 150), _FEW_ROWS),
    MeasuredKind("rare", "One rare event", (60, 300, 1_000), _RARE, (0.5, 1.0, 2.0)),
    MeasuredKind("classes", "Class-wise", (1_000,), _CLASS_WISE),
)


def measure_table(kind: str, settings: Sequence[Setting], mapped: Callable[..., Iterable[Any]] = map) -> list[str]:
    """The columns of some settings, with the head."""
    covered_shares = list(mapped(covered, [kind] * len(settings), *zip(*settings, strict=True)))
    return [
        "| measure | " + " | ".join(f"{error:g}, n = {n:,}" for error, n in settings) + " |",
        "|---|" + "---|" * len(settings),
        *(
            f"| `{key}` | " + " | ".join(f"{share[key]:.3f}" for share in covered_shares) + " |"
            for key in covered_shares[0]
        ),
    ]


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the columns and rows that can be computed alone."""
    del data
    parts: list[PagePart] = [
        PageCheck(f"{s.title}, {setting}", partial(measure_table, s.kind, [setting]), s.title)
        for s in SECTIONS
        for setting in s.settings()
    ]
    parts += [PageCheck(f"{_FITS}, {s}", partial(fit_table, [s]), _FITS, keys=2) for s in product(ERRORS, SIZES)]
    return parts + [PageCheck(f"{_GAPS}, {error}", partial(gap_table, [error]), _GAPS) for error in ERRORS]


def main() -> None:
    """Simulate and write the page."""
    lines = [
        "# Coverage of intervals",
        "",
        "Generated by `make coverage`. Each figure is the share of "
        f"{RUNS} simulated batches whose {LEVEL:.0%} interval, from",
        f"{RESAMPLES} resamples, covers the true value, at calibration errors 0, 0.03 and "
        f"0.1. The binomial standard error is {np.sqrt(LEVEL * (1 - LEVEL) / RUNS):.3f}.",
        "Predictions are p = (1 - a) c + a c^2 for uniform true "
        "probabilities c. The true value of a measure is its value on",
        "100,000 rows that each count with both labels, weighted "
        "by c and 1 - c. For measures that choose their number of",
        "bins it is the true value of `ece`.",
        "",
        *(line for section in SECTIONS for line in section.lines()),
        *fit_lines(),
        "",
        *gap_lines(),
        "",
    ]
    publish(PAGE, "\n".join(lines))


if __name__ == "__main__":
    main()
