"""What a tally says of the measures of its rows is true, wherever in their cells they lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.monitoring.bounds import (
    MeasureBounds,
    brier_bounds,
    equal_mass_bounds,
    equal_width_bounds,
    ks_bounds,
    log_loss_bounds,
)
from calibrant.monitoring.tally import tally_of

# Drawn predictions may look like those of the other class.
pytestmark = pytest.mark.filterwarnings("ignore:predictions are clearly lower")

#: Crowded, so that cells hold many rows.
predictions = st.one_of(
    st.floats(0.0, 1.0),
    st.floats(0.3328, 0.3345),
    st.floats(0.0, 1e-6),
    st.floats(1.0 - 1e-6, 1.0 - 1e-7),
    st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.6, 1.0]),
)
rows = st.lists(st.tuples(predictions, st.integers(0, 1)), min_size=1, max_size=80)
BOUNDED: list[tuple[str | dict[str, object], Callable[..., MeasureBounds]]] = [
    ("ks", ks_bounds),
    ("log-loss", log_loss_bounds),
    ("brier", brier_bounds),
    ("ece", equal_mass_bounds),
    ({"name": "ece", "binning": "equal-width"}, equal_width_bounds),
]


@pytest.mark.slow
@pytest.mark.parametrize(("measure", "bounds"), BOUNDED, ids=["ks", "log-loss", "brier", "equal-mass", "equal-width"])
@given(of=rows)
@example(of=[(0.2, 1)] * 3 + [(0.2000001, 0)] * 2)
@settings(deadline=None)
def test_the_measures_of_the_rows_lie_within_the_bounds(
    measure: str | dict[str, object], bounds: Callable[..., MeasureBounds], of: list[tuple[float, int]]
) -> None:
    p, y = np.array([row[0] for row in of]), np.array([row[1] for row in of], dtype=np.int8)
    tally = tally_of(p, y)
    bound = bounds(tally)
    (request,) = read_requests([measure])
    exact, read = (request.compute(event).value for event in (Event(p, y), tally.event()))
    assert exact is not None
    assert read is not None
    assert bound.low - 1e-7 <= exact <= bound.high + 1e-7
    assert abs(exact - read) <= bound.apart(read) + 1e-7
    if bounds in (ks_bounds, equal_mass_bounds, equal_width_bounds):
        assert bound.low - 1e-7 <= read <= bound.high + 1e-7
