from __future__ import annotations

import numpy as np
import pytest

from calibrant.batch import read_batch
from calibrant.measures.catalogue import read_requests
from calibrant.measures.repeated import repeated
from calibrant.reductions import subject

_WIDE = {"name": "ece", "binning": "equal-width", "closed": "right", "norm": 2, "as": "wide"}


@pytest.mark.parametrize("digits", [1, 2, 16])
@pytest.mark.parametrize("measure", ["ece", "ece-sweep", "ks", "ks-end", _WIDE])
def test_many_resamples_have_the_values_of_one_at_a_time(measure: object, digits: int) -> None:
    random = np.random.default_rng(digits)
    p = random.random(200).round(digits)
    y = (random.random(200) < p).astype(int)
    event = subject(read_batch(p, y), "binary")
    (request,) = read_requests([measure])  # type: ignore[list-item]
    rows = random.integers(0, 200, (20, 90))
    together = repeated(request, event, debiased=False)
    assert together is not None
    assert together(rows) == pytest.approx([request.compute(event.rows(own)).value for own in rows], abs=1e-12)
