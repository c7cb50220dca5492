"""How long a picture takes to draw, once its data are there. Writes docs/benchmarks/picture-speed.md."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from benchmarks.timing import machine
from calibrant.plots.by_size import draw_by_size
from calibrant.plots.canvas import About, Drawn
from calibrant.plots.cost_plane import draw_cost_plane
from calibrant.plots.diagram import PLOTS, draw, draw_several

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "picture-speed.md"
N = 10_000
#: Milliseconds that the median of a single diagram may take, and pictures of each that are timed.
GOAL, ROUNDS = 150, 60
_FIRST = """
import time
began = time.perf_counter()
from calibrant.plots.diagram import draw
from calibrant.plots.canvas import About
imported = time.perf_counter()
half = [0.25, 0.75]
data = {"start": [0.0, 0.5], "end": [0.5, 1.0], "count": [5, 5], "rows": [5, 5], "share": [0.5, 0.5],
        "mean_prediction": half, "observed_frequency": half, "gap": [0, 0], "low": half, "high": half,
        "roof_start": [0, 0.5], "roof_end": [0.5, 1], "ece": 0.0, "ece_debiased": 0.0,
        "histogram": {"edges": [0, 0.5, 1], "count": [5, 5], "share": half}}
draw("reliability", {"data": data, "definition": {}, "problem": None}, About(10, "binary"), form=FORM)
print(time.perf_counter() - imported)
"""


def pictures() -> Mapping[str, Callable[..., Drawn]]:
    """Every kind of picture of 10,000 rows; each takes the form."""
    random = np.random.default_rng(0)
    c = random.random(N)
    p, y = c**1.5, (random.random(N) < c).astype(np.int64)
    asked: list[str | dict[str, Any]] = [
        {"name": "fit-on-test", "method": "pl"} if name == "fit-on-test" else name for name in PLOTS
    ]
    shown = calibrant.evaluate(p, y, measures=["ece"], diagrams=asked).diagrams or {}
    about = About(N, "binary", "spam-filter:3", ("ECE", 0.1), (0.09, 0.11))
    told: dict[str, Callable[..., Drawn]] = {}
    for name in PLOTS:
        told[name] = lambda form, name=name: draw(name, shown[name], about, form=form)
        told[f"{name}, before and after"] = lambda form, name=name: draw(
            name, shown[name], about, after=(shown[name], about), form=form
        )
    sizes = calibrant.measure_by_size(p, y, measures=["ece", "ks", "brier"], start_repetitions=16)
    plane = calibrant.cost_plane(p, p**0.6, y)
    told["reliability of 6 models"] = lambda form: draw_several(
        "reliability", [(shown["reliability"], about)] * 6, form=form
    )
    told["3 measures by size"] = lambda form: draw_by_size(sizes, about, form=form)
    told["cost plane, 20 by 7"] = lambda form: draw_cost_plane(plane, about, form=form)
    return told


def timed(draw_one: Callable[[], Drawn]) -> tuple[float, float, int]:
    """Median and 95th percentile in milliseconds, and bytes, after one unmeasured picture."""
    content = draw_one().content
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        draw_one()
        taken.append(1000.0 * (time.perf_counter() - began))
    return statistics.median(taken), statistics.quantiles(taken, n=20)[-1], len(content)


def first(form: str) -> float:
    """Milliseconds of the first picture of a process, which loads matplotlib: the median of five processes."""
    taken = []
    for _ in range(5):
        done = subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", _FIRST.replace("FORM", repr(form))], capture_output=True, text=True, check=True
        )
        taken.append(1000.0 * float(done.stdout))
    return statistics.median(taken)


def main() -> None:
    load = os.getloadavg()[0]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines = [
        "# How long a picture takes",
        "",
        f"Made by `make pictures-speed` ({machine().rpartition(',')[0]}, one core; load average {load:.1f} before the "
        f"run). Of {N:,} rows, 560 pixels wide, once the diagram's data are there; {ROUNDS} times each after the "
        f"first. The goal is a median of at most {GOAL} ms.",
        "",
        "| picture | SVG, median ms | p95 | kB | PNG, median ms | p95 | kB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, picture in pictures().items():
        cells = []
        for form in ("svg", "png"):
            median, p95, size = timed(lambda picture=picture, form=form: picture(form=form))  # type: ignore[misc]
            cells.append(f"{median:.1f} | {p95:.1f} | {size / 1000:.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        f"The first picture of a process loads matplotlib: SVG {first('svg'):.0f} ms, PNG {first('png'):.0f} ms.",
        "",
    ]
    PAGE.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
