"""Runs the comparison with other libraries, each part in a separate process. Writes docs/benchmarks/peers.md."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks.peers import agreement, memory, speed
from benchmarks.peers.data import save_matrix
from benchmarks.records import publish
from benchmarks.timing import machine

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "peers.md"
PEERS = ("netcal", "relplot", "scikit-learn", "torchmetrics", "uncertainty-calibration", "numpy", "scipy", "torch")
#: Rows and classes of the large matrix, and rows for measures of all pairs.
ROWS, CLASSES, PAIRED = 50_000, 1_000, 10_000

Result = TypeVar("Result")


class Goal(NamedTuple):
    """A goal and its measured value."""

    what: str
    measured: float
    at_most: float
    unit: str

    def row(self) -> str:
        """Its row of the table."""
        verdict = "met" if self.measured <= self.at_most else "**missed**"
        return f"| {self.what} | {self.measured:,.3g}{self.unit} | {self.at_most:g}{self.unit} | {verdict} |"


def in_child(work: Callable[..., Result], *arguments: object) -> Result:
    """The result of ``work`` in a fresh process with its own peak memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _quiet) as pool:
        return pool.submit(work, *arguments).result()


def _quiet() -> None:
    warnings.simplefilter("ignore")


def _beside(title: str, seconds: speed.Seconds, names: dict[str, str], ours: str = "calibrant") -> list[str]:
    lines = [f"| {title} | ms | relative to calibrant |", "|---|---|---|"]
    for key, name in names.items():
        lines.append(f"| {name} | {seconds[key] * 1e3:,.1f} | {seconds[key] / seconds[ours]:.2f} |")
    return [*lines, ""]


def equal_width() -> tuple[list[str], list[Goal]]:
    """The table of equal-width bins, and its goal."""
    seconds = in_child(speed.equal_width)
    names = {
        "calibrant": "`calibrant.evaluate`: with checks and the debiased value",
        "bare": "numpy: only the bincount formula",
        "torchmetrics": "torchmetrics `BinaryCalibrationError`",
        "netcal": "netcal `ECE`",
        "uncertainty-calibration": "uncertainty-calibration `get_ece`",
        "scikit-learn": "scikit-learn `calibration_curve`: bins without an error",
    }
    goal = Goal(
        "ECE, equal-width, relative to the bincount formula", seconds["calibrant"] / seconds["bare"], 1.5, " times"
    )
    return _beside("ECE, 15 equal-width bins", seconds, names), [goal]


def sorted_panel() -> tuple[list[str], list[Goal]]:
    """The table of measures that sort rows, and its goal."""
    seconds = in_child(speed.sorted_panel)
    names = {
        "calibrant": "`calibrant.evaluate`: equal-mass ECE, sweep and KS with its p-value",
        "bare": "only `np.argsort`",
        "netcal": "netcal `ECE(equal_intervals=False)`: only equal-mass",
        "uncertainty-calibration": "uncertainty-calibration `get_ece_em`: only equal-mass",
        "scikit-learn": "scikit-learn `calibration_curve(strategy='quantile')`: bins without an error",
    }
    ratio = seconds["calibrant"] / seconds["bare"]
    return _beside("sorted rows", seconds, names), [
        Goal("equal-mass, sweep and KS, relative to argsort", ratio, 2.5, " times")
    ]


def bootstrap() -> tuple[list[str], list[Goal]]:
    """The table of intervals, and its goals."""
    seconds = in_child(speed.bootstrap)
    peers = {
        "numpy": "numpy: resampled rows, the bincount formula",
        "uncertainty-calibration": "uncertainty-calibration: `resample` and `get_ece`",
    }
    lines = [
        f"| {speed.RESAMPLES:,} resamples of the ECE | s | without the interval, s |",
        "|---|---|---|",
        *(
            f"| `calibrant.evaluate(interval=0.95)`, {name} | {seconds[name]:.3f} | {seconds[f'{name} alone']:.3f} |"
            for name in speed.BINNINGS
        ),
        *(
            f"| {title}; {speed.TIMED} timed, the rest extrapolated | {seconds[name]:,.0f} | |"
            for name, title in peers.items()
        ),
        "",
    ]
    return lines, [Goal(f"1,000 resamples of the ECE, {name}", seconds[name], 0.3, " s") for name in speed.BINNINGS]


def smooth() -> tuple[list[str], list[Goal]]:
    """The table of the smooth error and its goal; a note if the catalogue has no such measure."""
    seconds = in_child(speed.smooth)
    if seconds is None:
        return ["Smooth ECE: not measured, the catalogue has no `smooth-ece` yet.", ""], []
    names = {"calibrant": "`calibrant.evaluate`", "relplot": "relplot `smECE`"}
    ratio = seconds["calibrant"] / seconds["relplot"]
    return _beside("smooth ECE", seconds, names), [Goal("smooth ECE, relative to relplot", ratio, 1.0, " times")]


def kernel() -> tuple[list[str], list[Goal]]:
    """The table of the kernel errors and its goals; a note if the catalogue has no such measure."""
    lines = ["| measure of all pairs of rows | s | peak, MB |", "|---|---|---|"]
    goals: list[Goal] = []
    for what, work in (("binary", memory.kernel_binary), ("canonical, K = 10", memory.kernel_canonical)):
        cost = in_child(work, PAIRED)
        if cost is None:
            lines.append(f"| SKCE, {what}: not measured, the catalogue has no `skce` yet | | |")
            continue
        taken = cost.seconds["skce"]
        lines.append(f"| `calibrant.evaluate`, SKCE, unbiased, {what} | {taken:.3f} | {cost.megabytes:,.0f} |")
        goals += [
            Goal(f"SKCE, unbiased, {what}", taken, 1.0, " s"),
            Goal(f"SKCE, unbiased, {what}, peak", cost.megabytes, 500, " MB"),
        ]
    peer = in_child(memory.netcal_kernel, PAIRED)
    lines.append(
        "| netcal `MMCE` of the confidence, biased: the closest "
        f"counterpart | {peer.seconds['mmce']:.2f} | {peer.megabytes:,.0f} |"
    )
    return [*lines, ""], goals


def panels() -> tuple[list[str], list[Goal]]:
    """The table of the large matrix, and its goals."""
    lines = ["| library | confidence, s | class-wise, s | peak with the input, MB |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_child(save_matrix, folder, ROWS, CLASSES)
        ours = in_child(memory.panels, folder)
        peers = {
            "torchmetrics `MulticlassCalibrationError`: one error": memory.torchmetrics_confidence,
            "netcal `ECE`: one error": memory.netcal_confidence,
            f"uncertainty-calibration `get_ece`: one error; {memory.TIMED} classes timed, the rest extrapolated": (
                memory.uncertainty_calibration
            ),
        }
        costs = {"`calibrant.evaluate`, the default measures": ours}
        costs |= {name: in_child(work, folder) for name, work in peers.items()}
    for name, cost in costs.items():
        by_class = f"{cost.seconds['classwise']:.2f}" if "classwise" in cost.seconds else ""
        lines.append(f"| {name} | {cost.seconds['confidence']:.3f} | {by_class} | {cost.megabytes:,.0f} |")
    goals = [
        Goal("default measures, confidence and class-wise, K = 1,000", sum(ours.seconds.values()), 3.0, " s"),
        Goal("default measures, confidence and class-wise, K = 1,000, peak", ours.megabytes, 1_000, " MB"),
    ]
    return [*lines, ""], goals


_PAGE = """# Comparison with other libraries

Generated by `make peers` ({machine}; load average {load:.1f} before the run).
Medians of {rounds} interleaved runs after a warm-up. Compare ratios, not milliseconds.
Versions: {versions}.
torch uses every core, calibrant uses one.

## Goals

| quantity | measured | at most | result |
|---|---|---|---|
{goals}

## A million rows, binary

{binary}
calibrant's interval inverts tests of the size of the gaps. The percentile interval of plain resampling never covers the
true value of a calibrated classifier ([coverage](interval-coverage.md)).

## All pairs of {paired_rows:,} rows

{paired}
## {rows:,} rows of {classes:,} classes, float32

The input alone is {megabytes:.0f} MB. Each peak is that of a process that does nothing else.

{large}
## Agreement

{shared_rows:,} rows and {bins} bins unless stated otherwise. With classes: 20,000 rows of 10 classes, 2,000 of them for
the MMCE. The difference is theirs minus ours.

| definition | library | theirs | ours | difference | reason |
|---|---|---|---|---|---|
{agreement}

netcal's `ACE` is not the adaptive error of Nixon et al. (2019), which is `ace` here: it weights all equal-width bins
equally, however many rows they have.

## Edge cases

The ECE of each library, with equal-width bins unless stated otherwise. uncertainty-calibration and scikit-learn close
bins on the right, which is another convention, not an error.

| rows | by definition | {columns} |
|{rule}
{edges}

netcal and relplot assign a score on a bin edge by rounding errors: numpy's linspace has 0.6000000000000001 for 3/5, and
0.6 / 0.2 is 2.9999999999999996.
torchmetrics puts p = 1 into a bin of its own, and treats all values as logits if any value is outside [0, 1] or NaN.
netcal clips values outside [0, 1], and omits NaN from the bins.
"""


def page() -> str:
    """Measure everything and return the page."""
    load = os.getloadavg()[0]
    million = [equal_width(), sorted_panel(), bootstrap(), smooth()]
    paired, large = kernel(), panels()
    return _PAGE.format(
        machine=machine(),
        load=load,
        rounds=speed.ROUNDS,
        versions=", ".join(f"{name} {version(name)}" for name in PEERS),
        goals="\n".join(goal.row() for _, goals in [*million, paired, large] for goal in goals),
        binary="\n".join(line for lines, _ in million for line in lines),
        paired_rows=PAIRED,
        paired="\n".join(paired[0]),
        rows=ROWS,
        classes=CLASSES,
        megabytes=ROWS * CLASSES * 4 / 1e6,
        large="\n".join(large[0]),
        shared_rows=agreement.N,
        bins=agreement.BINS,
        agreement="\n".join(in_child(agreement.rows)),
        columns=" | ".join(agreement.EDGE_COLUMNS),
        rule="---|" * (2 + len(agreement.EDGE_COLUMNS)),
        edges="\n".join(in_child(agreement.edges)),
    )


def main() -> None:
    """Measure and write the page."""
    text = page()
    publish(PAGE, text)
    print(text)


if __name__ == "__main__":
    main()
