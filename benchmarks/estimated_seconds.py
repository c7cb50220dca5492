"""Estimated seconds of measures and fits beside those that they take, which decide what runs in a request.

``python -m benchmarks.estimated_seconds [LEAST]`` prints the lines whose ratio is outside [1 / LEAST, LEAST], by
default 3, or whose estimate is on the other side of the limit of a request.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from backend.jobs import INLINE_SECONDS
from calibrant.calibrators import METHODS, FitContext, Fitting
from calibrant.core.batch import Batch, read_batch
from calibrant.core.errors import CalibrationError
from calibrant.core.reductions import subject
from calibrant.measures.catalogue import MEASURES, read_requests
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import extent_of

#: Rows and classes; 1 for events. Longer estimates are not run.
SIZES = ((50, 1), (1_000, 1), (50_000, 1), (300, 10), (5_000, 10), (500, 100))
LONGEST = 5.0
#: Seconds below which neither is of interest.
SHORTEST = 0.02

#: What is measured, its estimate, and the work.
Entry = tuple[str, float, Callable[[], object]]


def drawn(n: int, K: int) -> Batch:
    """Overconfident predictions of n rows."""
    random = np.random.default_rng(0)
    logits = 2.0 * random.normal(size=(n, max(K, 2)))
    probs, true = (np.exp(scale * logits) for scale in (1.0, 0.6))
    probs, true = (of / of.sum(axis=1, keepdims=True) for of in (probs, true))
    labels = (true.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    labels[: max(K, 2)] = np.arange(max(K, 2))
    return read_batch(probs if K > 1 else probs[:, 1], labels)


def fits(batch: Batch) -> Iterator[Entry]:
    """Fits with default options."""
    for name in METHODS:
        try:
            fitting = Fitting.read(name, {}, None)
            fitting.check(batch)
        except CalibrationError:
            continue
        yield name, fitting.seconds(batch), partial(fitting.run, batch, FitContext(0, "cpu", None))


def measures(batch: Batch) -> Iterator[Entry]:
    """Measures of one event and of each class, with and without intervals."""
    reduction = "binary" if batch.predictions.n_classes is None else "classwise"
    for name, entry in MEASURES.items():
        if entry.event is None:
            continue
        for level in (None, 0.95):
            (request,) = read_requests([name], reduction)
            resampling = Resampling.read(level, 1000, 0)
            of, seconds = subject(batch, reduction), request.seconds(extent_of(batch, reduction), resampling)
            shown = f"{name} {reduction}" + (" with interval" if level else "")
            yield shown, seconds, partial(request.compute, of, resampling)


def main() -> None:
    least = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    warnings.simplefilter("ignore")
    for n, K in SIZES:
        batch = drawn(n, K)
        for name, estimate, work in (*fits(batch), *measures(batch)):
            if estimate > LONGEST:
                continue
            begun = time.process_time()
            work()
            taken = time.process_time() - begun
            wrong = (estimate > INLINE_SECONDS) != (taken > INLINE_SECONDS)
            near = 1.0 / least <= taken / estimate <= least
            if wrong or (not near and max(taken, estimate) > SHORTEST):
                print(f"{name:44} n {n:6} K {K:3} estimated {estimate:8.4f} s, took {taken:8.4f} s")


if __name__ == "__main__":
    main()
