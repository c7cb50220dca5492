"""Laws that hold for any batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from tests.drawn import examples

# Drawn predictions may look like those of the other class.
pytestmark = pytest.mark.filterwarnings("ignore:predictions are clearly lower")

Rows = list[tuple[float, int, int]]

#: Rows of a prediction, a label and a whole weight; rounded ones make ties.
predictions = st.one_of(
    st.floats(0.0, 1.0), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0.0, 1.0).map(lambda p: round(p, 1))
)
rows = st.lists(st.tuples(predictions, st.integers(0, 1), st.integers(1, 4)), min_size=1, max_size=60)


def _columns(batch: Rows) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    p, y, w = zip(*batch, strict=True)
    return np.array(p), np.array(y), np.array(w)


def _values(*arguments: Any, **options: Any) -> dict[str, tuple[float | None, ...]]:
    measures = calibrant.evaluate(*arguments, **options).measures
    return {key: (m.value, m.debiased, m.p_value) for key, m in measures.items()}


#: Measures on no bounded scale, compared to a share of the value.
UNBOUNDED = ["smooth-test", {"name": "smooth-test", "n_terms": 3, "as": "smooth-test-3"}]


def _close(a: dict[str, Any], b: dict[str, Any], tolerance: float = 1e-9) -> None:
    for key in a:
        for x, y in zip(a[key], b[key], strict=True):
            assert (x is None) == (y is None)
            assert x is None or abs(x - y) <= tolerance * max(1.0, abs(x)), key


@pytest.mark.slow
@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_cannot_matter(batch: Rows, random: Any) -> None:
    shuffled = batch[:]
    random.shuffle(shuffled)
    p, y, _ = _columns(batch)
    q, z, _ = _columns(shuffled)
    for measures in (None, UNBOUNDED):
        _close(_values(p, y, measures=measures), _values(q, z, measures=measures))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
@given(rows)
def test_a_frequency_weight_is_the_row_repeated(batch: Rows) -> None:
    p, y, w = _columns(batch)
    for measures in (None, UNBOUNDED):
        one, other = (
            _values(p, y, weights=w, weights_kind="frequency", measures=measures),
            _values(np.repeat(p, w), np.repeat(y, w), measures=measures),
        )
        _close(one, other)


@given(rows)
def test_plain_errors_lie_between_0_and_1_and_p_values_too(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    for value, _, p_value in _values(p, y).values():
        assert value is not None
        assert -1e-12 <= value <= 1 + 1e-12
        assert p_value is None or 0.0 <= p_value <= 1.0


@given(rows)
def test_a_smooth_test_has_a_value_from_0_up_and_a_p_value_that_falls_to_0_without_one(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    for value, _, p_value in _values(p, y, measures=UNBOUNDED).values():
        assert p_value is not None
        assert 0.0 <= p_value <= 1.0
        assert p_value == 0.0 if value is None else 0.0 <= value < np.inf


@given(rows)
def test_the_smooth_test_cannot_tell_the_event_from_its_opposite(batch: Rows) -> None:
    p, y, w = _columns(batch)
    p = np.round(p, 6)  # so that 1 - (1 - p) is p
    one, other = (_values(q, z, weights=w, measures=UNBOUNDED) for q, z in ((p, y), (1.0 - p, 1 - y)))
    _close(one, other, tolerance=1e-6)


@given(rows)
def test_single_precision_changes_nothing_beyond_its_rounding(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    # Scores on the edges of equal-width bins are exempt, and ties are made or broken by rounding.
    narrow = p.astype(np.float32)
    measures = ["ks"]
    _close(
        _values(narrow, y, measures=measures), _values(narrow.astype(np.float64), y, measures=measures), tolerance=1e-6
    )


@given(rows)
def test_ks_is_at_most_the_error_over_exact_cells_and_ece_at_most_its_refinements(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    report = calibrant.evaluate(
        p,
        y,
        measures=[
            "ks",
            *({"name": "ece", "binning": "equal-width", "n_bins": b, "as": str(b)} for b in (1, 2, 4, 8)),
        ],
    )
    value = {key: m.value or 0.0 for key, m in report.measures.items()}
    exact = sum(abs((p[p == c] - y[p == c]).sum()) for c in np.unique(p)) / len(p)
    assert value["ks"] <= exact + 1e-9
    assert value["1"] <= value["2"] + 1e-9 <= value["4"] + 2e-9 <= value["8"] + 3e-9


@pytest.mark.slow
@given(rows)
@settings(max_examples=examples(50))
def test_maps_answer_probabilities_and_isotonic_never_decreases(batch: Rows) -> None:
    p, y, w = _columns(batch)
    grid = np.linspace(0, 1, 101)
    for method in ("identity", "platt", "isotonic"):
        if method != "identity" and len(set(y.tolist())) < 2:
            continue
        fitted = calibrant.fit(method, p, y, weights=w)
        calibrated = fitted.apply(grid)
        assert np.all((calibrated >= 0) & (calibrated <= 1))
        if method == "isotonic":
            assert np.all(np.diff(calibrated) >= 0)


@given(rows)
@settings(max_examples=examples(50))
def test_isotonic_is_never_worse_than_identity_in_sample(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    if len(set(y.tolist())) == 2:
        after = calibrant.fit("isotonic", p, y).apply(p)
        assert np.mean((after - y) ** 2) <= np.mean((p - y) ** 2) + 1e-12
