"""``python -m benchmarks.cuda``: time fits on a processor and on a GPU; writes docs/benchmarks/cuda.md."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import calibrant
from benchmarks.records import publish
from benchmarks.timing import machine

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "cuda.md"
#: Rounds after a first one, which is not counted; fits that take longer than ``_LONG`` seconds have one round.
_ROUNDS, _LONG = 3, 10.0


class DeviceFit(NamedTuple):
    """One fit: ``n`` rows of ``K`` classes, or of one event if ``K`` is 1."""

    method: str
    n: int
    K: int = 1
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


CASES = (
    DeviceFit("sms", 5_000, 100),
    DeviceFit("sms", 50_000, 10),
    DeviceFit("sms", 50_000, 100),
    DeviceFit("sms", 50_000, 1_000),
    DeviceFit("matrix-odir", 5_000, 10),
    DeviceFit("matrix-odir", 5_000, 100),
    DeviceFit("matrix-odir", 50_000, 100),
    DeviceFit("dirichlet-odir", 5_000, 100),
    DeviceFit("multinomial", 50_000, 10),
    DeviceFit("averaged", 5_000, 10),
    DeviceFit("averaged", 50_000, 10),
    DeviceFit("averaged", 5_000, 100),
    DeviceFit("averaged", 50_000, 100),
    DeviceFit("pl", 10_000),
    DeviceFit("pl", 1_000_000),
    DeviceFit("averaged", 10_000),
)


def rows(case: DeviceFit, seed: int = 0) -> tuple[Any, Any]:
    """Miscalibrated predictions, logits in float32 for several classes, and their labels."""
    random = np.random.default_rng(seed)
    if case.K == 1:
        c = random.random(case.n)
        return c**1.3, (random.random(case.n) < c).astype(np.int64)
    z = (2.0 * random.standard_normal((case.n, case.K))).astype(np.float32)
    shift = 0.3 * np.random.default_rng(1).standard_normal(case.K)
    return z, (0.6 * z + shift + random.gumbel(size=z.shape)).argmax(axis=1)


def timed(case: DeviceFit, device: str) -> tuple[float, Any]:
    """Median seconds of a fit, and the calibrated predictions of other rows."""
    values, labels = rows(case)
    scale: Any = "probability" if case.K == 1 else "logit"
    fit = partial(calibrant.fit, case.method, values, labels, scale=scale, device=device, **case.options)
    began = time.perf_counter()
    map_ = fit()
    first = time.perf_counter() - began
    seconds = []
    for _ in range(_ROUNDS if first <= _LONG else 1):
        began = time.perf_counter()
        map_ = fit()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), map_.apply(rows(case._replace(n=1_000), seed=2)[0])


def line(case: DeviceFit) -> str:
    """A row of the table."""
    device, predictions = timed(case, "cuda")
    processor, expected = timed(case, "cpu")
    gap = float(np.abs(predictions - expected).max())
    classes = "one event" if case.K == 1 else f"{case.K:,}"
    return (
        f"| `{case.method}` | {case.n:,} | {classes} | {processor:.3g} | {device:.3g} "
        f"| {processor / device:.2f} | {gap:.0e} |"
    )


def main() -> None:
    """Time every case and write the page after each."""
    lines: list[str] = []
    for case in CASES:
        lines.append(line(case))
        print(lines[-1], flush=True)
        publish(PAGE, page(lines))


def page(lines: Sequence[str]) -> str:
    """The page with these rows of the table."""
    return f"""# GPU

`make cuda` ({machine()}; {torch.cuda.get_device_name()}; torch {torch.__version__}, {torch.get_num_threads()} threads
on the processor): medians of {_ROUNDS} fits after a first one, which also starts CUDA, or one fit if it takes longer
than {_LONG:.0f} s. Several classes are logits in float32. The difference is the largest one between calibrated
predictions of 1,000 other rows on the two devices.

A GPU helps with many rows of many classes. Passes over the rows of fewer than 20 million multiplications stay on the
processor, so that the two times of such fits differ by chance. `pl`, `pl3` and `averaged` of one event are slower on a
GPU: rows are counted in cells first, and a fit of cells consists of many small steps, whatever the number of rows.

| method | rows | classes | processor, s | GPU, s | ratio | difference |
|---|---|---|---|---|---|---|
""" + "".join(f"{text}\n" for text in lines)


if __name__ == "__main__":
    main()
