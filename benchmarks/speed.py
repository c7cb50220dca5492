"""Speed of PL and PL3 fits, compared with other implementations. Writes docs/benchmarks/speed.md."""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pwlf

import calibrant
from benchmarks.records import publish
from benchmarks.timing import machine, medians
from calibrant.core.cells import sort_rows
from calibrant.piecewise.families import Family
from calibrant.piecewise.fitting import fit_cells, fit_piecewise
from calibrant.piecewise.folds import CellStream
from calibrant.piecewise.options import PiecewiseOptions

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "speed.md"

Array = npt.NDArray[np.float64]


def draw(n: int, seed: int = 0) -> tuple[Array, npt.NDArray[np.int64]]:
    """Predictions that are off by a power, and their labels."""
    random = np.random.default_rng(seed)
    c = random.random(n)
    return c**1.3, (random.random(n) < c).astype(np.int64)


def fit_rows() -> list[str]:
    """The rows of the fits, from unsorted predictions to the map."""
    goals = {1_000: 0.06, 10_000: 0.2, 1_000_000: 0.3}
    lines = [
        "| n | candidates x folds | PL, s | PL3, s | goal, s | averaged, s | averaged / PL | goal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for n, goal in goals.items():
        p, y = draw(n)
        taken = medians({method: partial(calibrant.fit, method, p, y) for method in ("pl", "pl3", "averaged")})
        ratio = taken["averaged"] / taken["pl"]
        lines.append(
            f"| {n:,} | {min(n // 200, 15) + 1} x 10 | {taken['pl']:.3f} | {taken['pl3']:.3f} | at most {goal} "
            f"| {taken['averaged']:.3f} | {ratio:.2f} | at most 2.5 |"
        )
    return lines


def backend_rows() -> list[str]:
    """The engine on NumPy, and on PyTorch with one thread of the processor."""
    if find_spec("torch") is None:
        return ["PyTorch is not installed."]
    import torch

    torch.set_num_threads(1)
    lines = ["| n | family | NumPy, s | PyTorch, s | ratio |", "|---|---|---|---|---|"]
    families: tuple[Family, ...] = ("pl", "pl3")
    for n, family in product((1_000, 10_000, 1_000_000), families):
        p, y = draw(n)
        fit = partial(fit_piecewise, family, sort_rows(p, y.astype(np.int8)), PiecewiseOptions())
        taken = medians({device: partial(fit, device=device) for device in ("cpu", "cpu:0")})
        lines.append(
            f"| {n:,} | {family} | {taken['cpu']:.3f} | {taken['cpu:0']:.3f} | {taken['cpu'] / taken['cpu:0']:.2f} |"
        )
    return lines


def stream_rows() -> list[str]:
    """A hundred million rows in chunks, in a separate process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        counted, fitted, megabytes = pool.submit(_stream).result()
    return [
        "| rows | counting, s | fit of PL, s | total, s | goal, s | peak memory, MB | goal |",
        "|---|---|---|---|---|---|---|",
        f"| {_STREAMED * len(_CHUNKS):,} | {counted:.2f} | {fitted:.2f} | {counted + fitted:.2f} | at most 5 "
        f"| {megabytes:.0f} | at most 2,000 |",
    ]


_STREAMED, _CHUNKS = 1_000_000, range(100)


def _stream() -> tuple[float, float, float]:
    """Seconds of counting and of fitting, and the peak memory of the process in MB."""
    chunks = [draw(_STREAMED, seed) for seed in range(10)]
    stream = CellStream()
    began = time.perf_counter()
    for i in _CHUNKS:
        stream.add(*chunks[i % 10])
    counted = time.perf_counter() - began
    options = PiecewiseOptions()
    began = time.perf_counter()
    fit_cells("pl", stream.cells(), options.piece_counts(len(stream)), options)
    fitted = time.perf_counter() - began
    return counted, fitted, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peer_rows() -> list[str]:
    """One curve of four pieces by pwlf, and eleven of ours."""
    p, y = draw(1_000)
    ours = medians({"ours": lambda: calibrant.fit("pl", p, y, candidates=(4,), final="refit")})["ours"]
    began = time.perf_counter()
    pwlf.PiecewiseLinFit(p, y.astype(np.float64), seed=0).fit(4)
    theirs = time.perf_counter() - began
    return [
        "| n = 1,000, four pieces | s |",
        "|---|---|",
        f"| pwlf {pwlf.__version__}: one curve, least squares by differential evolution, run once | {theirs:.2f} |",
        f"| `calibrant.fit`: ten folds and one fit to all rows | {ours:.3f} |",
    ]


def reference_rows() -> list[str]:
    """Time of the neural reference for the same cross-validation at n = 1,000."""
    golden = json.loads((ROOT / "tests" / "golden" / "pl_reference.json").read_text("utf-8"))
    return [f"- {family.upper()}: {golden[family]['cv_seconds']:.0f} s" for family in ("pl", "pl3")]


def main() -> None:
    """Measure and write the page."""
    page = "\n".join(
        [
            "# Speed of fits",
            "",
            f"Generated by `make bench` ({machine()}). Medians of 9 interleaved runs.",
            "Compare ratios, not milliseconds.",
            "",
            "For measures see [the comparison with other libraries](peers.md).",
            "",
            "## Fits",
            "",
            "The time of `calibrant.fit` includes checks, sorting, "
            "compression to cells, the fit of every candidate without every",
            "fold, and the selection.",
            "",
            *fit_rows(),
            "",
            "## NumPy and PyTorch",
            "",
            "On a processor the engine uses NumPy. PyTorch, which a GPU needs, runs here on one thread of the "
            "processor. Times exclude",
            "checks and sorting.",
            "",
            *backend_rows(),
            "",
            "## A hundred million rows",
            "",
            "`CellStream` counts ten random chunks of a million rows, ten times each. PL is fitted to the cells.",
            "",
            *stream_rows(),
            "",
            "## Other implementations",
            "",
            *peer_rows(),
            "",
            "The neural networks of the published code, with 10 folds of 6 candidates at n = 1,000 on 2 cores",
            "(source of the figures: `tests/golden/pl_reference.json`):",
            "",
            *reference_rows(),
            "",
        ]
    )
    publish(PAGE, page)
    print(page)


if __name__ == "__main__":
    main()
