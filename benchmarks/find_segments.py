"""Family-wise error, power and speed of ``find_segments``. Writes docs/benchmarks/find-segments.md."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from benchmarks.checks import PagePart, StoredRecord
from benchmarks.records import load, publish, save, usable
from calibrant.core.features import Feature, Features
from calibrant.core.reductions import Event
from calibrant.decisions.segments import SegmentOptions, SegmentSearch, search
from calibrant.measures.intervals import Resampling
from calibrant.measures.multicalibration import error_of

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "find-segments.md"
RESULTS = Path(__file__).with_suffix(".json")
LEVEL, GAP, SHARE = 0.05, 0.05, 0.02
POWER_RUNS, SIZE_RUNS = 150, 400

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CalibratedRows:
    """Calibrated rows: their number, the parameters of the beta distribution of p, and options of the search."""

    n: int
    a: float
    b: float
    options: Mapping[str, Any] = field(default_factory=dict)
    weights: bool = False
    runs: int = 300

    def name(self) -> str:
        """The case as text."""
        varied = [f"{name} {value}" for name, value in self.options.items()] + ["importance weights"] * self.weights
        return f"Beta({self.a:g}, {self.b:g})" + "".join(f", {text}" for text in varied)


SIZES = (
    CalibratedRows(2_000, 1, 3, runs=1000),
    CalibratedRows(2_000, 0.5, 50),
    CalibratedRows(2_000, 0.2, 0.2),
    CalibratedRows(500, 1, 1, {"min_rows": 20}),
    CalibratedRows(2_000, 1, 3, weights=True),
    CalibratedRows(2_000, 1, 3, {"held_out": 0.5}),
    CalibratedRows(10_000, 1, 3),
)
POWERS = (40_000, 60_000)


def features_of(p: Array, random: np.random.Generator) -> Features:
    """Two categories and two numbers, of which the last depends on the prediction."""
    n = len(p)
    site = random.choice(9, n, p=[SHARE, *[(1.0 - SHARE) / 8.0] * 8]).astype(np.int32)
    device = np.minimum(random.geometric(0.3, n) - 1, 5).astype(np.int32)
    return Features(
        (
            Feature("site", codes=site, categories=tuple("abcdefghi")),
            Feature("device", codes=device, categories=tuple("abcdef")),
            Feature("age", numbers=random.normal(size=n)),
            Feature("visits", numbers=p + 0.3 * random.normal(size=n)),
        )
    )


def calibrated_search(case: CalibratedRows, run: int) -> SegmentSearch:
    """The search among rows in which E[y | p, x] = p."""
    random = np.random.default_rng([3, run, case.n])
    p = random.beta(case.a, case.b, case.n)
    features = features_of(p, random)
    y = (random.random(case.n) < p).astype(np.int8)
    event = Event(p, y, random.gamma(2.0, 1.0, case.n), "importance") if case.weights else Event(p, y)
    return search(event, features, SegmentOptions.read(**case.options))


def size_of(case: CalibratedRows) -> dict[str, Any]:
    """The share of runs with any segment, over which the family-wise error is taken."""
    searches = [calibrated_search(case, run) for run in range(case.runs)]
    wrong = sum(result.significant > 0 for result in searches) / case.runs
    return {
        "case": case.name(),
        "n": case.n,
        "runs": case.runs,
        "error": wrong,
        "tested": float(np.mean([s.tested for s in searches])),
    }


def power_of(n: int) -> dict[str, Any]:
    """How often a site with a gap is found, by search with all rows, by a split, and by an oracle.

    The oracle knows the site and tests it alone, with the variance under calibration and Bonferroni's correction for
    the segments that the search tests.
    """
    hits = {"search": 0, "split": 0, "oracle": 0}
    for run in range(POWER_RUNS):
        random = np.random.default_rng([4, run, n])
        p = random.beta(1.0, 3.0, n)
        features = features_of(p, random)
        inside = features.by_name["site"].codes == 0
        truth = np.clip(p + GAP * inside, 0.0, 1.0)
        event = Event(p, (random.random(n) < truth).astype(np.int8))
        for name, held_out in (("search", None), ("split", 0.5)):
            result = search(event, features, SegmentOptions.read(held_out=held_out))
            hits[name] += any(_is_site(segment.conditions) for segment in result.segments)
        z = (event.y[inside] - p[inside]).sum() / np.sqrt((p[inside] * (1.0 - p[inside])).sum())
        hits["oracle"] += bool(abs(z) > -ndtri(LEVEL / (2 * result.tested)))
    return {"n": n, **{name: count / POWER_RUNS for name, count in hits.items()}}


def _is_site(conditions: Sequence[Any]) -> bool:
    """Whether a segment is the site with the gap, or a part of it."""
    return any(condition.feature == "site" and condition.category == "a" for condition in conditions)


def multicalibration_size(n: int = 500) -> dict[str, Any]:
    """The share of p-values of the multicalibration error below the level, simulated and uncorrected."""
    hits = {"p_value": 0, "uncorrected_p_value": 0}
    for run in range(SIZE_RUNS):
        random = np.random.default_rng([5, run, n])
        p = random.beta(1.0, 3.0, n)
        features = features_of(p, random)
        event = Event(p, (random.random(n) < p).astype(np.int8))
        result = error_of(event, features, resampling=Resampling(resamples=199, seed=run))
        for name in hits:
            hits[name] += getattr(result, name) <= LEVEL
    return {"n": n, **{name: count / SIZE_RUNS for name, count in hits.items()}}


def speed(n: int = 1_000_000, k: int = 20) -> dict[str, Any]:
    """Seconds and memory of a search among half numbers and half categories."""
    random = np.random.default_rng(6)
    p = random.beta(1.0, 3.0, n)
    codes = [random.integers(10, size=n).astype(np.int32) for _ in range(k // 2)]
    columns = [Feature(f"c{i}", codes=code, categories=tuple("abcdefghij")) for i, code in enumerate(codes)]
    columns += [Feature(f"x{i}", numbers=random.normal(size=n)) for i in range(k - k // 2)]
    event = Event(p, (random.random(n) < p).astype(np.int8))
    before, start = _peak(), time.process_time()
    result = search(event, Features(tuple(columns)), SegmentOptions())
    seconds = time.process_time() - start
    return {"n": n, "k": k, "tested": result.tested, "seconds": seconds, "gigabytes": (_peak() - before) / 1e6}


def _peak() -> int:
    """The largest resident memory of this process so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def page(results: Mapping[str, Any]) -> list[str]:
    """The lines of the page."""
    sizes = [row for name, row in results.items() if name.startswith("size")]
    powers = [row for name, row in results.items() if name.startswith("power")]
    lines = [
        "# Segments: family-wise error, power and speed",
        "",
        "Generated by `make find-segments`. Rows have four features: a site, one of which has 2 % of the rows, a "
        "device, an age, and visits that depend on the prediction.",
        "",
        "## Family-wise error of `find_segments`",
        "",
        "The share of runs in which any segment is found although E[y | p, x] = p. The standard error of a share of "
        "0.05 is 0.007 of 1,000 runs, and 0.013 of 300.",
        "",
        "| predictions | n | segments | runs | family-wise error |",
        "|---|---|---|---|---|",
        *(
            f"| {row['case']} | {row['n']:,} | {row['tested']:,.0f} | {row['runs']:,} | {row['error']:.3f} |"
            for row in sizes
        ),
        "",
        "## Power",
        "",
        f"The share of {POWER_RUNS} runs in which a site with {SHARE:.0%} of the rows and a gap of {GAP:g} is found, "
        "or a part of it; predictions are Beta(1, 3). The oracle knows the site, tests it alone with the variance "
        "under calibration, and has Bonferroni's correction for the number of segments. The split finds segments in "
        "half of the rows and tests them in the other half, with Holm's correction (`held_out=0.5`).",
        "",
        "| n | search | oracle | search / oracle | split |",
        "|---|---|---|---|---|",
    ]
    for row in powers:
        ratio = row["search"] / row["oracle"]
        lines.append(f"| {row['n']:,} | {row['search']:.3f} | {row['oracle']:.3f} | {ratio:.2f} | {row['split']:.3f} |")
    of_error, fast = results["multicalibration"], results["speed"]
    return [
        *lines,
        "",
        "## Size of the p-values of `multicalibration_error`",
        "",
        f"The share of {SIZE_RUNS} runs of {of_error['n']} calibrated rows with a p-value of at most {LEVEL:g}. The "
        "standard error is 0.011.",
        "",
        "| p-value | share |",
        "|---|---|",
        f"| `p_value`, from simulated labels | {of_error['p_value']:.3f} |",
        f"| `uncorrected_p_value`, as in MCGrad | {of_error['uncorrected_p_value']:.3f} |",
        "",
        "## Speed",
        "",
        f"A search among {fast['n']:,} rows with {fast['k']} features, half of them categories, tests "
        f"{fast['tested']:,} segments in {fast['seconds']:.0f} s of a processor and adds {fast['gigabytes']:.1f} GB to "
        "the memory in use.",
    ]


def all_parts() -> dict[str, Callable[[], Any]]:
    """Return what computes each part of the results."""
    return {
        **{f"size of {case.name()}, n = {case.n:,}": partial(size_of, case) for case in SIZES},
        **{f"power, n = {n:,}": partial(power_of, n) for n in POWERS},
        "multicalibration": multicalibration_size,
        "speed": speed,
    }


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the stored parts, each of which can be computed alone."""
    del data
    results = load(RESULTS, "make find-segments", older=True)
    return [
        StoredRecord(name, results[name], work)
        for name, work in all_parts().items()
        if name in results and name != "speed"
    ]


def main() -> None:
    """Run the parts that have no results yet, or those named, and write the page of all results."""
    results = usable(RESULTS)
    parts = all_parts()
    for name in sys.argv[1:] or [name for name in parts if name not in results]:
        results[name] = parts[name]()
        save(RESULTS, {name: results[name]}, merge=True)
    results = load(RESULTS, "make find-segments")
    if {"multicalibration", "speed"} <= results.keys():
        publish(PAGE, "\n".join(page(results)) + "\n")


if __name__ == "__main__":
    main()
