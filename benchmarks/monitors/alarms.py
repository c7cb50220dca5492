"""False alarms and delays of the test by betting, compared with KS. Writes docs/benchmarks/alarms.md."""

from __future__ import annotations

from functools import partial
from itertools import islice, product
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from benchmarks.calibration_test import SHAPES, calibrated, miscalibrated
from benchmarks.checks import PageCheck, PagePart
from benchmarks.monitors.streams import SPREADS, Stream
from benchmarks.monitors.watching import BATCH, BUCKET, Betting, Windows
from benchmarks.provenance import Pool
from benchmarks.records import publish

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "alarms.md"
ALPHAS = (0.05, 0.01)
RUNS, ROWS = 2_000, 1_000_000
#: For the delays; the drift starts inside a bucket and inside every window.
DELAY_RUNS, ERRORS, DRIFT = 100, (0.02, 0.05, 0.1), 203_000
WINDOWS = (1_000, 5_000, 20_000, 50_000)
#: Alpha of the KS test.
LEVEL = 0.01
PROCESSES = 2
_SOON, _LATE = "Error from the first row", f"Error after {DRIFT:,} calibrated rows"

Delays = dict[str, list[int | None]]


def highest(run: int) -> tuple[str, float]:
    """The distribution of a calibrated stream, and its highest evidence over all checks."""
    name = list(SPREADS)[run % len(SPREADS)]
    watch, random = Betting(), np.random.default_rng([21, run])
    for p, y in islice(Stream(calibrated(SPREADS[name])).chunks(BUCKET, random), ROWS // BUCKET):
        watch.take(p, y)
    if not watch.agrees():
        raise AssertionError("the incremental evidence differs from the test")
    return name, max(watch.log_e)


def delays(shape: str, error: float, sound: int) -> Delays:
    """Rows from the start of an error until the first alarm, or None; earlier alarms are listed apart."""
    first_alarms: Delays = {"early": []}
    for run in range(DELAY_RUNS):
        random = np.random.default_rng([22, run, sound])
        watch, windows = Betting(), [Windows(rows, ROWS) for rows in WINDOWS]
        tests: list[tuple[Betting | Windows, float]] = [
            (watch, min(ALPHAS)),
            *((watched_windows, LEVEL) for watched_windows in windows),
        ]
        stream = Stream(miscalibrated(shape, error), sound)
        for p, y in islice(stream.chunks(BUCKET, random), ROWS // BUCKET):
            waiting = [test for test, alpha in tests if not test.first(alpha)]
            if not waiting:
                break
            for watched_windows in waiting:
                watched_windows.take(p, y)
        rows = {f"betting {alpha}": watch.first(alpha) for alpha in ALPHAS}
        rows |= {f"KS {window.rows}": window.first(LEVEL) for window in windows}
        for name, first in rows.items():
            if first is not None and first <= sound:
                first_alarms["early"].append(first)
            else:
                first_alarms.setdefault(name, []).append(None if first is None else first - sound)
    return first_alarms


def delay_cell(run_delays: list[int | None]) -> str:
    """Median and 90th percentile, and the share of runs with an alarm if it is below 1."""
    rows = np.array([ROWS * 10 if first is None else first for first in run_delays], dtype=np.float64)
    share = np.mean([first is not None for first in run_delays])
    numbers = [f"{q:,.0f}" if q <= ROWS else "never" for q in np.quantile(rows, (0.5, 0.9), method="higher")]
    return " / ".join(numbers) + ("" if share == 1.0 else f" ({share:.0%})")


def false_lines(pool: Pool) -> list[str]:
    """The table of false alarms."""
    runs = list(pool.map(highest, range(RUNS), chunksize=20))
    header = [f"alpha = {alpha:g}" for alpha in ALPHAS]
    lines = ["| predictions | runs | " + " | ".join(header) + " |", "|---|---|" + "---|" * len(ALPHAS)]
    by_spread = {name: [log_e for spread, log_e in runs if spread == name] for name in SPREADS}
    by_spread["**all**"] = [log_e for _, log_e in runs]
    return lines + [_false_line(name, log_e) for name, log_e in by_spread.items()]


def _false_line(name: str, log_e: list[float]) -> str:
    cells = []
    for alpha in ALPHAS:
        count = int(np.sum(np.array(log_e) >= -np.log(alpha)))
        low, high = binomtest(count, len(log_e)).proportion_ci(0.95, "exact")
        cells.append(f"{count / len(log_e):.4f} ({low:.4f} to {high:.4f})")
    return f"| {name} | {len(log_e):,} | {' | '.join(cells)} |"


def delay_head() -> list[str]:
    """The head of a table of delays."""
    titles = [f"betting, alpha = {alpha:g}" for alpha in ALPHAS] + [f"KS, W = {rows:,}" for rows in WINDOWS]
    return ["| error | shape | " + " | ".join(titles) + " |", "|---|---|" + "---|" * len(titles)]


def delay_row(shape: str, error: float, rows: Delays) -> str:
    """The row of one error."""
    names = [f"betting {alpha}" for alpha in ALPHAS] + [f"KS {rows}" for rows in WINDOWS]
    return f"| {error:.2f} | {shape} | " + " | ".join(delay_cell(rows[name]) for name in names) + " |"


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the rows of delays, each of which can be computed alone; the others need every stream."""
    del data

    def lines(shape: str, error: float, sound: int) -> list[str]:
        return [*delay_head(), delay_row(shape, error, delays(shape, error, sound))]

    return [
        PageCheck(f"{title}, {error}, {shape}", partial(lines, shape, error, sound), title, keys=2)
        for title, sound in ((_SOON, 0), (_LATE, DRIFT))
        for error, shape in product(ERRORS, SHAPES)
    ]


def delay_lines(pool: Pool, sound: int) -> list[str]:
    """The table of delays after this number of calibrated rows."""
    settings = [(shape, error, sound) for error in ERRORS for shape in SHAPES]
    delays_of_settings = list(pool.map(delays, *zip(*settings, strict=True)))
    lines = delay_head()
    for (shape, error, _), rows in zip(settings, delays_of_settings, strict=True):
        lines.append(delay_row(shape, error, rows))
    early = sum(len(rows["early"]) for rows in delays_of_settings)
    excluded = f"Alarms of any test before the start of the error, excluded above: {early} in"
    return [*lines, "", f"{excluded} {len(settings) * DELAY_RUNS:,} runs."] if sound else lines


def page(false: list[str], soon: list[str], late: list[str]) -> str:
    """The page."""
    lines = [
        "# Alarms: false alarm rate and delay",
        "",
        "Generated by `make alarms`. The test by betting ([why it is valid](../adr/0026-evidence-from-tallies.md)) is",
        f"checked after every batch of {BATCH:,} rows; a time bucket "
        f"has {BUCKET:,} rows. Evidence of 1 / alpha raises an alarm.",
        "",
        "## False alarms",
        "",
        f"{RUNS:,} calibrated streams of {ROWS:,} rows, checked "
        f"{ROWS // BATCH:,} times each: the share of streams with",
        "at least one alarm, and its 95 % interval (Clopper and Pearson).",
        "",
        *false,
        "",
        "## Delay until an alarm",
        "",
        "Rows from the start of the error until the alarm: median "
        f"/ 90th percentile of {DELAY_RUNS} runs, in streams of",
        f"{ROWS:,} rows. If some runs have no alarm, the share with an alarm is in brackets. Predictions are",
        "p = (1 - w) c + w f(c) for uniform true probabilities c, with w such that the expected |p - c| is the error;",
        "the shapes f are those of [the smooth test](calibration-test.md).",
        "",
        f"For comparison: the KS test of consecutive windows of W rows at alpha = {LEVEL:g}, corrected over the whole",
        f"stream by Bonferroni (each window at {LEVEL:g} W / "
        f"{ROWS:,}). It tests a window only when the window is full,",
        "and needs the length of the stream in advance.",
        "",
        f"### {_SOON}",
        "",
        *soon,
        "",
        f"### {_LATE}",
        "",
        "The drift starts inside a bucket and inside the longer windows.",
        "",
        *late,
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Simulate and write the page."""
    with Pool(PROCESSES) as pool:
        soon, late = delay_lines(pool, 0), delay_lines(pool, DRIFT)
        false = false_lines(pool)
    publish(PAGE, page(false, soon, late))


if __name__ == "__main__":
    main()
