"""Maps of segments on synthetic rows with known probabilities, beside MCGrad. Writes docs/benchmarks/segments.md.

MCGrad is a column if it is installed: ``pip install mcgrad``.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.records import publish

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "segments.md"
#: Rows of a fit, and new rows, by set; seeds; the fewest rows of a segment in which the excess is measured.
ROWS, SEEDS, SEGMENT = 10_000, 3, 500

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
    found: Array = truth * np.log(truth / q) + (1.0 - truth) * np.log((1.0 - truth) / (1.0 - q))
    return found


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
    """Of a method and a seed: mean excess, that of the worst segment, and seconds."""

    mean: float
    worst: float
    seconds: float


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


def measured(name: str, seeds: int) -> dict[str, list[SegmentExcess]]:
    """Return the outcomes of each method on the same rows."""
    draw, rows = SETS[name]
    outcomes: dict[str, list[SegmentExcess]] = {method: [] for method in methods()}
    for seed in range(seeds):
        fit, new = draw(rows, np.random.default_rng(seed)), draw(ROWS, np.random.default_rng(1_000 + seed))
        for method, run in methods().items():
            start = time.perf_counter()
            q = run(fit, new)
            seconds = time.perf_counter() - start
            values = excess(new.truth, q)
            outcomes[method].append(SegmentExcess(float(values.mean()), largest_excess(new, values), seconds))
    return outcomes


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
        return [*table_head(list(methods())), table_row(name, list(methods()), measured(name, SEEDS))]

    return [PageCheck(name, partial(lines, name)) for name in SETS]


def main() -> None:
    """Measure, and write the page."""
    names = list(methods())
    lines = [
        "# Segments",
        "",
        "Generated by `python -m benchmarks.segments`. What log loss expects beyond that of the true probabilities, in",
        f"thousandths of a nat, on {ROWS:,} new rows, over {SEEDS} seeds: the mean, and the",
        f"largest mean in a segment of at least {SEGMENT} rows: categories, tenths of numbers and of predictions, and",
        f"their pairs. MCGrad has its defaults. Fits are to {ROWS:,} rows unless the name says another number.",
        "",
        *table_head(names),
    ]
    paired = []
    for name in SETS:
        outcomes = measured(name, SEEDS)
        lines.append(table_row(name, names, outcomes))
        print(lines[-1], file=sys.stderr)
        if "MCGrad" in outcomes:
            gap = np.array([a.mean - b.mean for a, b in zip(outcomes["segments"], outcomes["MCGrad"], strict=True)])
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            ours, theirs = (sum(one.seconds for one in outcomes[method]) for method in ("segments", "MCGrad"))
            paired.append(f"| {name} | {1e3 * gap.mean():+.2f} | {1e3 * error:.2f} | {theirs / ours:.1f} |")
    if paired:
        lines += [
            "",
            "`segments` minus MCGrad on the same rows, with the standard error of the mean, and how many times longer",
            "MCGrad takes to fit and apply:",
            "",
            "| set | difference | standard error | times as long |",
            "|---|---:|---:|---:|",
            *paired,
        ]
    publish(PAGE, "\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
