"""The work on the rows of a request takes no more memory than is reserved for it."""

from __future__ import annotations

import numpy as np
import pytest

from backend.kinds import inline_bytes
from calibrant.core.batch import read_batch
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import MEASURES, read_requests
from calibrant.measures.intervals import Resampling
from tests.unit.io.memory import peak_of

#: Bytes of what is not of the rows, such as modules.
_FIXED = 2 << 20
#: Measures of one event whose loops make numbers of Python, which tracing slows down twentyfold, and by what the
#: rows are divided: what they take grows with the rows.
_DIVISORS = {"ece-venn-abers": 8}


def _rows(n: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    if width == 1:
        p = random.random(n)
        return p, (random.random(n) < p).astype(np.int64)
    return random.dirichlet(np.ones(width), n), random.integers(0, width, n)


@pytest.mark.slow
@pytest.mark.parametrize("measure", [None, *MEASURES])
@pytest.mark.parametrize(
    ("n", "width", "reduction"), [(200_000, 1, None), (40_000, 10, "canonical"), (40_000, 10, "classwise")]
)
def test_the_work_on_rows_takes_no_more_copies_than_are_reserved(
    n: int, width: int, reduction: str | None, measure: str | None
) -> None:
    divisor = _DIVISORS.get(measure or "", 1) if width == 1 else 1
    p, y = _rows(n // divisor, width)
    measures = read_requests(None if measure is None else [measure], reduction)
    evaluation = Evaluation(measures, reduction, None, Resampling.read(None, 200, 0), None, ())

    def evaluate() -> None:
        batch = read_batch(p, y, None, scale="probability", kind="frequency")
        evaluation.run(evaluation.check(batch), device="cpu")

    batch = read_batch(p, y, None, scale="probability", kind="frequency")
    if evaluation.seconds(evaluation.check(batch)) > 2.0 or not evaluation.inline:
        return  # a job
    assert divisor * peak_of(evaluate) <= inline_bytes(n, divisor * (p.size + y.size)) + _FIXED
