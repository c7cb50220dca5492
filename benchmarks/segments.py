"""Maps of segments on synthetic rows with known probabilities, beside MCGrad. Writes docs/benchmarks/segments.md.

``python -m benchmarks.segments [--seconds SECONDS]`` resumes a previous run: a record is a seed of a set. MCGrad is a
column if it is installed, as by ``make segments``.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from scipy.stats import t as student

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.records import append, current, publish, read

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "segments.md"
#: Rows of a fit, and new rows, by set; seeds; the fewest rows of a segment in which the excess is measured.
ROWS, SEEDS, SEGMENT = 10_000, 10, 500
#: The level of the bounds of differences from MCGrad; the goals for the difference of the log loss, the bound of that
#: of the multicalibration error, and the excess of a segment.
LEVEL, LOSS_MARGIN, ERROR_MARGIN, SEGMENT_MARGIN = 0.95, 0.0005, 0.1, 0.002

Array = npt.NDArray[Any]


class SegmentSample(NamedTuple):
    """Predictions ``p``, labels ``y`` and true probabilities ``truth (n,)``, with features by name."""

    p: Array
    y: Array
    truth: Array
    features: dict[str, Array]


def _sample(p: Array, f: Array, features: dict[str, Array], random: np.random.Generator) -> SegmentSample:
    truth = expit(f)
    named = {name: column if column.dtype.kind == "f" else column.astype(str) for name, column in features.items()}
    return SegmentSample(p, (random.random(len(p)) < truth).astype(int), truth, named)


def of_services(n: int, random: np.random.Generator) -> SegmentSample:
    """Draw rows of a model that ignores four categories, a pair of them, an age, and a slope by content."""
    effects = np.random.default_rng(42)
    country = random.choice(8, n, p=np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.07, 0.05, 0.03]))
    surface, device = random.choice(4, n, p=[0.5, 0.25, 0.15, 0.1]), random.choice(3, n, p=[0.6, 0.3, 0.1])
    content, age, tenure = random.choice(5, n), random.gamma(4.0, 10.0, n), random.exponential(2.0, n)
    z = random.normal(0.0, 1.3, n)
    f = z - 1.0 + effects.normal(0, 0.35, 8)[country] + effects.normal(0, 0.3, 4)[surface]
    f += effects.normal(0, 0.15, 3)[device] + effects.normal(0, 0.35, (8, 3))[country, device]
    f += 0.5 * np.tanh((age - 40.0) / 15.0) + effects.normal(0, 0.25, 5)[content] * z * 0.6
    columns = {"country": country, "surface": surface, "device": device, "content": content}
    return _sample(expit(1.15 * z - 0.9), f, {**columns, "age": age, "tenure": tenure}, random)


def of_noise(n: int, random: np.random.Generator) -> SegmentSample:
    """Draw predictions that are noise, with two categories that matter, as in MCGrad's quick start."""
    country, content, surface = (random.integers(0, 2, n) for _ in range(3))
    p = np.clip(random.uniform(0.3, 0.7, n), 0.01, 0.99)
    f = logit(0.5 + 0.15 * country + 0.1 * content)
    return _sample(p, f, {"country": country, "content": content, "surface": surface}, random)


def of_slopes(n: int, random: np.random.Generator) -> SegmentSample:
    """Draw rows with another slope for each of ten categories, and a curve within one of four."""
    effects = np.random.default_rng(7)
    z, a, b, c = random.normal(-0.5, 1.3, n), random.choice(10, n), random.choice(4, n), random.choice(30, n)
    x = random.normal(size=n)
    f = z * effects.uniform(0.5, 1.4, 10)[a] + effects.normal(0, 0.3, 4)[b] + 0.4 * np.sin(2.0 * x) * (b == 2)
    return _sample(expit(z), f + effects.normal(0, 0.2, 30)[c], {"a": a, "b": b, "c": c, "x": x}, random)


def of_boxes(n: int, random: np.random.Generator) -> SegmentSample:
    """Draw rows that are wrong only in four small boxes: of two and three categories, of two numbers, and by score."""
    z, x, t = random.normal(-1.0, 1.2, n), random.normal(size=n), random.uniform(size=n)
    a, b, c, d = (random.choice(k, n) for k in (6, 4, 3, 10))
    f = z + 0.8 * ((a == 2) & (b == 1)) - 0.9 * ((a == 1) & (c == 0) & (b > 1))
    f += 0.7 * ((x > 0.5) & (t < 0.4)) - 0.5 * ((d == 3) & (z > -1.0))
    return _sample(expit(z), f, {"a": a, "b": b, "c": c, "d": d, "x": x, "t": t}, random)


def of_calibrated(n: int, random: np.random.Generator) -> SegmentSample:
    """Draw calibrated predictions beside many categories."""
    z = random.normal(-1.0, 1.2, n)
    columns = {"a": random.choice(60, n), "b": random.choice(20, n), "c": random.choice(5, n)}
    return _sample(expit(z), z, {**columns, "x": random.normal(size=n), "t": random.exponential(size=n)}, random)


SETS: Mapping[str, tuple[Callable[[int, np.random.Generator], SegmentSample], int]] = {
    "services": (of_services, ROWS),
    "noise": (of_noise, ROWS),
    "slopes": (of_slopes, ROWS),
    "boxes": (of_boxes, ROWS),
    "calibrated": (of_calibrated, ROWS),
    "calibrated, 500 rows": (of_calibrated, 500),
}


def with_segments(fit: SegmentSample, new: SegmentSample) -> Array:
    """Return the probabilities of new rows by a map of segments."""
    fitted = calibrant.fit("segments", fit.p, fit.y, features=fit.features)
    return np.asarray(fitted.apply(new.p, features=new.features))


def with_one_curve(method: str) -> Callable[[SegmentSample, SegmentSample], Array]:
    """Return a method that ignores features."""
    return lambda fit, new: np.asarray(calibrant.fit(method, fit.p, fit.y).apply(new.p))


def with_mcgrad(fit: SegmentSample, new: SegmentSample) -> Array:
    """Return the probabilities of new rows by MCGrad with its defaults."""
    import pandas as pd
    from mcgrad.methods import MCGrad

    logging.disable(logging.CRITICAL)
    frames = [pd.DataFrame({**sample.features, "p": sample.p, "y": sample.y}) for sample in (fit, new)]
    names = {
        "categorical_feature_column_names": [name for name, own in fit.features.items() if own.dtype.kind != "f"],
        "numerical_feature_column_names": [name for name, own in fit.features.items() if own.dtype.kind == "f"] or None,
    }
    model = MCGrad()
    model.fit(df_train=frames[0], prediction_column_name="p", label_column_name="y", **names)
    return np.asarray(model.predict(frames[1], "p", **names))


def excess(truth: Array, q: Array) -> Array:
    """Return the Kullback-Leibler divergence of each row, in nats: what log loss expects beyond the truth's."""
    q = np.clip(q, 1e-12, 1.0 - 1e-12)
    divergence: Array = truth * np.log(truth / q) + (1.0 - truth) * np.log((1.0 - truth) / (1.0 - q))
    return divergence


def largest_excess(sample: SegmentSample, values: Array) -> float:
    """Return the largest mean in a segment of enough rows: categories, tenths of numbers and of p, and their pairs."""
    tenths = np.arange(1, 10) / 10.0
    columns = {**sample.features, "p": sample.p}
    codes = []
    for column in columns.values():
        cut = np.searchsorted(np.quantile(column, tenths), column) if column.dtype.kind == "f" else column
        codes.append(np.unique(cut, return_inverse=True)[1])
    largest = 0.0
    for i, first in enumerate(codes):
        for second in [np.zeros_like(first), *codes[i + 1 :]]:
            _, cell, count = np.unique(first * 1000 + second, return_inverse=True, return_counts=True)
            means = np.bincount(cell, values) / count
            largest = max(largest, float(means[count >= SEGMENT].max(initial=0.0)))
    return largest


class SegmentExcess(NamedTuple):
    """Of a method and a seed: mean excess, that of the worst segment, the multicalibration error, and seconds."""

    mean: float
    worst: float
    error: float
    seconds: float


def upper_bound(differences: Array) -> float:
    """Return the one-sided upper bound of the mean of paired differences, as if they were independent."""
    quantile: float = student.ppf(LEVEL, len(differences) - 1)
    return float(differences.mean() + quantile * differences.std(ddof=1) / np.sqrt(len(differences)))


def methods() -> Mapping[str, Callable[[SegmentSample, SegmentSample], Array]]:
    """Return the methods that are compared."""
    compared: dict[str, Callable[[SegmentSample, SegmentSample], Array]] = {
        "as given": lambda _fit, new: new.p,
        "isotonic": with_one_curve("isotonic"),
        "segments": with_segments,
    }
    if importlib.util.find_spec("mcgrad") is not None:
        compared["MCGrad"] = with_mcgrad
    return compared


def measured(name: str, seed: int) -> dict[str, SegmentExcess]:
    """Return the outcome of each method on the same rows."""
    draw, rows = SETS[name]
    fit, new = draw(rows, np.random.default_rng(seed)), draw(ROWS, np.random.default_rng(1_000 + seed))
    outcomes = {}
    for method, run in methods().items():
        start = time.perf_counter()
        q = run(fit, new)
        seconds = time.perf_counter() - start
        values = excess(new.truth, q)
        error = calibrant.multicalibration_error(q, new.y, new.features, max_depth=2, resamples=None).value or 0.0
        outcomes[method] = SegmentExcess(float(values.mean()), largest_excess(new, values), error, seconds)
    return outcomes


def by_method(outcomes: Sequence[Mapping[str, SegmentExcess]]) -> dict[str, list[SegmentExcess]]:
    """Return the outcomes of the seeds by method."""
    return {method: [of_seed[method] for of_seed in outcomes] for method in outcomes[0]}


def table_head(names: Sequence[str]) -> list[str]:
    """Return the head of the table of some methods."""
    columns = [f"{name}: {what}" for name in names for what in ("mean", "worst segment")]
    return ["| set | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]


def table_row(name: str, names: Sequence[str], outcomes: Mapping[str, Sequence[SegmentExcess]]) -> str:
    """Return the row of a set."""
    cells = [f"{1e3 * np.mean([getattr(o, of) for o in outcomes[m]]):.2f}" for m in names for of in ("mean", "worst")]
    return f"| {name} | " + " | ".join(cells) + " |"


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the rows, each of which can be computed alone; MCGrad's cells only where it is installed."""
    del data

    def lines(name: str) -> list[str]:
        outcomes = by_method([measured(name, seed) for seed in range(SEEDS)])
        return [*table_head(list(methods())), table_row(name, list(methods()), outcomes)]

    return [PageCheck(name, partial(lines, name)) for name in SETS]


def speed(n: int = 1_000_000, k: int = 20) -> dict[str, float]:
    """Return the seconds and the memory of a fit, half of whose features are categories, and microseconds of a row."""
    random = np.random.default_rng(6)
    z = random.normal(-1.0, 1.2, n)
    features: dict[str, Array] = {f"c{i}": random.choice(list("abcdefghij"), n) for i in range(k // 2)}
    features |= {f"x{i}": random.normal(size=n) for i in range(k - k // 2)}
    f = z + 0.5 * (features["c0"] == "a") - 0.4 * (features["c1"] == "b") * (features["c2"] == "c")
    y = (random.random(n) < expit(f + 0.3 * np.sin(features["x0"]))).astype(int)
    before, start = _peak(), time.process_time()
    fitted = calibrant.fit("segments", expit(z), y, features=features)
    seconds, gigabytes, start = time.process_time() - start, (_peak() - before) / 1e6, time.process_time()
    fitted.apply(expit(z), features=features)
    applied = 1e6 * (time.process_time() - start) / n
    terms = len(fitted.diagnostics["terms"])
    return {"n": n, "k": k, "seconds": seconds, "gigabytes": gigabytes, "microseconds": applied, "terms": terms}


def _peak() -> int:
    """Return the largest resident memory of this process so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def page_of(results: Mapping[str, Mapping[str, Sequence[SegmentExcess]]], fast: Mapping[str, float]) -> str:
    """Return the page."""
    names = list(methods())
    lines = [
        "# Segments",
        "",
        "Generated by `make segments`. What log loss expects beyond that of the true probabilities, in",
        f"thousandths of a nat, on {ROWS:,} new rows, over {SEEDS} seeds: the mean, and the",
        f"largest mean in a segment of at least {SEGMENT} rows: categories, tenths of numbers and of predictions, and",
        f"their pairs. MCGrad 0.1.5 has its defaults. Fits are to {ROWS:,} rows unless the name says another number.",
        f"The goal of `segments` in the worst segment is {1e3 * SEGMENT_MARGIN:g}.",
        "",
        *table_head(names),
        *(table_row(name, names, outcomes) for name, outcomes in results.items()),
        "",
        f"A fit to {fast['n']:,} rows with {fast['k']} features, half of them categories, takes",
        f"{fast['seconds']:.0f} s of a processor and adds {fast['gigabytes']:.1f} GB to the memory in use; its map of",
        f"{fast['terms']} terms takes {fast['microseconds']:.1f} microseconds a row.",
        "",
    ]
    if "MCGrad" not in names:
        return "\n".join(lines)
    lines += [
        "`segments` minus MCGrad on the same rows: means over the seeds and one-sided upper bounds of the means at",
        f"{LEVEL:.0%}, of the excess and of the multicalibration error with at most two features; and how many times",
        "longer MCGrad takes to fit and apply. The goals are a difference of the excess of at most",
        f"{1e3 * LOSS_MARGIN:g}, and a bound of the multicalibration error of at most {ERROR_MARGIN:g}.",
        "",
        "| set | excess | its bound | multicalibration error | its bound | times as long |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, outcomes in results.items():
        pairs = list(zip(outcomes["segments"], outcomes["MCGrad"], strict=True))
        excesses = np.array([1e3 * (ours.mean - theirs.mean) for ours, theirs in pairs])
        errors = np.array([ours.error - theirs.error for ours, theirs in pairs])
        times = sum(theirs.seconds for _, theirs in pairs) / sum(ours.seconds for ours, _ in pairs)
        cells = [f"{own.mean():+.2f} | {upper_bound(own):+.2f}" for own in (excesses, errors)]
        lines.append(f"| {name} | {' | '.join(cells)} | {times:.1f} |")
    return "\n".join([*lines, ""])


def main(seconds: float) -> None:
    """Measure what no record has until the seconds are over, and write the page if nothing is missing."""
    path, end, names = current("seeds", __file__), time.monotonic() + seconds, list(methods())
    records = list(read(path))
    results = {
        (record["set"], record["seed"]): {name: SegmentExcess(*own) for name, own in record["outcomes"].items()}
        for record in records
        if list(record.get("outcomes", ())) == names
    }
    fast = next((record["speed"] for record in records if "speed" in record), None)
    if fast is None:
        fast = speed()
        append(path, {"speed": fast})
        print(fast, file=sys.stderr)
    for seed in range(SEEDS):
        for name in SETS:
            if (name, seed) in results:
                continue
            if time.monotonic() > end:
                sys.stderr.write(f"{len(results)} of {len(SETS) * SEEDS} seeds are measured: run again\n")
                return
            results[name, seed] = measured(name, seed)
            append(path, {"set": name, "seed": seed, "outcomes": results[name, seed]})
            means = {method: round(1e3 * own.mean, 2) for method, own in results[name, seed].items()}
            print(name, seed, means, file=sys.stderr)
    of_sets = {name: by_method([results[name, seed] for seed in range(SEEDS)]) for name in SETS}
    publish(PAGE, page_of(of_sets, fast))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    main(parser.parse_args().seconds)
