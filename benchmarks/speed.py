"""The speed of the main job: measures and PL / PL3 fits, beside what bounds them. Writes docs/benchmarks.md."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

import calibrant
from benchmarks.timing import machine, medians

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
EQUAL_WIDTH = [{"name": "ece", "binning": "equal-width"}]

Array = npt.NDArray[np.float64]


def draw(n: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Predictions that are off by a power, and their labels."""
    random = np.random.default_rng(0)
    c = random.random(n)
    return c**1.3, (random.random(n) < c).astype(np.int64)


def bare_equal_width(p: Array, y: npt.NDArray[np.int64], n_bins: int = 15) -> float:
    """The formula of the error over equal-width bins with numpy alone: no checks, no debiasing, borders by rounding."""
    index = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    return float(np.abs(np.bincount(index, p, n_bins) - np.bincount(index, y, n_bins)).sum() / len(p))


def measure_rows() -> list[str]:
    """The rows of the measures at a million rows."""
    p, y = draw(1_000_000)
    taken = medians(
        {
            "bare": lambda: bare_equal_width(p, y),
            "equal-width": lambda: calibrant.evaluate(p, y, measures=EQUAL_WIDTH),
            "argsort": lambda: np.argsort(p),
            "panel": lambda: calibrant.evaluate(p, y),
        }
    )
    return [
        "| what, n = 1,000,000 | ms | beside it | ms | ratio | goal |",
        "|---|---|---|---|---|---|",
        _ratio("`evaluate`, equal-width error", taken["equal-width"], "numpy's bincount formula", taken["bare"], 2.0),
        _ratio(
            "`evaluate`, the panel of four", taken["panel"], "`np.argsort` of the predictions", taken["argsort"], 4.0
        ),
    ]


def _ratio(what: str, mine: float, beside: str, theirs: float, goal: float) -> str:
    ratio = mine / theirs
    return f"| {what} | {mine * 1e3:.1f} | {beside} | {theirs * 1e3:.1f} | {ratio:.2f} | at most {goal:g} |"


def fit_rows() -> list[str]:
    """The rows of the fits, from unsorted predictions to the map."""
    goals = {1_000: 0.06, 10_000: 0.2, 1_000_000: 0.3}
    lines = [
        "| n | candidates x folds | PL, s | PL3, s | goal, s |",
        "|---|---|---|---|---|",
    ]
    for n, goal in goals.items():
        p, y = draw(n)
        taken = medians({method: partial(calibrant.fit, method, p, y) for method in ("pl", "pl3")})
        candidates = min(n // 200, 15) + 1
        bound = "" if goal is None else f"at most {goal}"
        lines.append(f"| {n:,} | {candidates} x 10 | {taken['pl']:.3f} | {taken['pl3']:.3f} | {bound} |")
    return lines


def reference_rows() -> list[str]:
    """What the neural reference took for the same cross-validation at n = 1,000."""
    golden = json.loads((ROOT / "tests" / "golden" / "pl_reference.json").read_text("utf-8"))
    return [f"- {family.upper()}: {golden[family]['cv_seconds']:.0f} s" for family in ("pl", "pl3")]


def main() -> None:
    """Measure and write the page."""
    page = "\n".join(
        [
            "# Benchmarks",
            "",
            f"Made by `make bench` ({machine()}). Medians of 9 runs, contenders in turns.",
            "Compare ratios, not milliseconds.",
            "",
            "## Measures",
            "",
            *measure_rows(),
            "",
            "`evaluate` checks every value, debiases, and puts scores on a border where the border says.",
            "",
            "## Fits",
            "",
            "`calibrant.fit`, all in: checks, sort, compression to cells, every candidate outside every fold, the",
            "choice.",
            "",
            *fit_rows(),
            "",
            "The neural networks of the published code, 10 folds of 6 candidates at n = 1,000 on 2 cores",
            "(`tests/golden/pl_reference.json` says where the figures come from):",
            "",
            *reference_rows(),
            "",
        ]
    )
    PAGE.write_text(page, "utf-8")
    print(page)


if __name__ == "__main__":
    main()
