"""Laws that hold for any batch, and that tie the measures to one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.core.binning import equal_mass
from calibrant.core.reductions import Event
from calibrant.measures.binned import expected_calibration_error
from tests.drawn import examples

# Drawn predictions may look like those of the other class.
pytestmark = pytest.mark.filterwarnings("ignore:predictions are clearly lower")

Array = npt.NDArray[np.float64]
Rows = list[tuple[float, int, int]]

predictions = st.one_of(
    st.floats(0.0, 1.0), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0.0, 1.0).map(lambda p: round(p, 1))
)
rows = st.lists(st.tuples(predictions, st.integers(0, 1), st.integers(1, 4)), min_size=1, max_size=60)
#: Rows of a vector of three classes from a few values, so that vectors repeat, and a label.
vectors = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=40
)
#: Measures at once, neither by folds nor by draws.
PLAIN = [name for name, entry in calibrant.MEASURES.items() if entry.runs == "inline" and "folds" not in entry.options]


def _columns(batch: Rows) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    p, y, w = zip(*batch, strict=True)
    return np.array(p), np.array(y), np.array(w)


def _vectors(batch: list[tuple[int, int, int, int]]) -> tuple[Array, npt.NDArray[np.int64]]:
    rows = np.array(batch, dtype=np.float64)
    return rows[:, :3] / rows[:, :3].sum(axis=1, keepdims=True), rows[:, 3].astype(np.int64)


def _close(a: Any, b: Any, name: str, tolerance: float = 1e-7) -> None:
    assert (a is None) == (b is None), name
    assert a is None or a == b or abs(a - b) <= tolerance * max(1.0, abs(a)), name  # O/E of 5e-324 is infinite


@given(rows)
@settings(max_examples=examples(10, 500))
def test_a_frequency_weight_is_the_row_repeated_for_every_measure(batch: Rows) -> None:
    p, y, w = _columns(batch)
    first = calibrant.evaluate(p, y, weights=w, weights_kind="frequency", measures=PLAIN).measures
    other = calibrant.evaluate(np.repeat(p, w), np.repeat(y, w), measures=PLAIN).measures
    for name in PLAIN:
        for part in ("value", "debiased", "p_value"):
            _close(getattr(first[name], part), getattr(other[name], part), f"{name} {part}")


@pytest.mark.slow
@given(vectors, st.randoms(use_true_random=False))
@settings(max_examples=examples(10, 500))
def test_the_order_of_the_rows_cannot_matter_to_any_measure(
    batch: list[tuple[int, int, int, int]], random: Any
) -> None:
    shuffled = batch[:]
    random.shuffle(shuffled)
    for reduction in ("confidence", "pooled", "classwise", "canonical"):
        first = calibrant.evaluate(*_vectors(batch), measures=PLAIN, reduction=reduction).measures
        other = calibrant.evaluate(*_vectors(shuffled), measures=PLAIN, reduction=reduction).measures
        for name in PLAIN:
            _close(first[name].value, other[name].value, f"{name}, {reduction}")
            _close(first[name].p_value, other[name].p_value, f"{name}, {reduction}")


@given(vectors)
@settings(max_examples=examples(20, 1000))
def test_the_error_of_the_vector_is_at_least_that_of_the_classes(batch: list[tuple[int, int, int, int]]) -> None:
    """CE_p >= CWCE_p (Gruber & Buettner 2022, Theorem 3.1), over the distinct vectors and the distinct numbers."""
    P, labels = _vectors(batch)
    _, own = np.unique(np.round(P, 12), axis=0, return_inverse=True)
    hit = np.eye(3)[labels]
    for p in (1, 2):
        error = 0.0
        for v in np.unique(own):
            here = own == v
            error += here.mean() * (np.abs(P[here][0] - hit[here].mean(axis=0)) ** p).sum()
        requests = [{"name": "cwce", "binning": "exact", "p": p}]
        measure = calibrant.evaluate(np.round(P, 15), labels, measures=requests, reduction="classwise").measures["cwce"]
        assert measure.value is not None
        assert measure.value <= error ** (1 / p) + 1e-9


@given(rows, st.integers(1, 12))
@settings(max_examples=examples(20, 1000))
def test_ks_at_the_borders_of_bins_is_at_most_their_error(batch: Rows, count: int) -> None:
    p, y, _ = _columns(batch)
    bins = equal_mass(Event(p, y.astype(np.int8)).cells, count)
    path = np.cumsum(bins.mass * (bins.mean_y - bins.mean_p)) / bins.mass.sum()
    assert np.abs(path).max() <= expected_calibration_error(bins, 1)[0] + 1e-12


@given(rows)
@settings(max_examples=examples(20, 1000))
def test_ks_is_at_most_kuiper_and_kuiper_at_most_twice_ks(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    tests = {
        k: m.value or 0.0 for k, m in calibrant.evaluate(p, y, measures=["ks", "kuiper", "ks-end"]).measures.items()
    }
    assert tests["ks"] <= tests["kuiper"] + 1e-12 <= 2 * tests["ks"] + 2e-12
    assert abs(tests["ks-end"]) <= tests["ks"] + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    "measure", ["ks", "kuiper", "ks-end", "smooth-test", {"name": "ks", "law": "resampling"}], ids=str
)
def test_p_values_of_calibrated_rows_are_uniform(measure: Any) -> None:
    random = np.random.default_rng(0)
    name, n = (measure, 400) if isinstance(measure, str) else (measure["name"], 100)  # that of drawn labels is exact
    p_values = []
    for seed in range(300):
        p = random.beta(2.0, 1.0, n)
        y = (random.random(n) < p).astype(int)
        p_values.append(
            calibrant.evaluate(p, y, measures=[measure], resamples=199, seed=seed).measures[name].p_value or 0.0
        )
    # Kolmogorov's distance of 300 uniform numbers passes .1 once in 200 times; the laws are asymptotic besides.
    steps = (np.arange(300) + 0.5) / 300
    assert np.abs(np.sort(p_values) - steps).max() < 0.1


def _values(*arguments: Any, **options: Any) -> dict[str, tuple[float | None, ...]]:
    measures = calibrant.evaluate(*arguments, **options).measures
    return {key: (m.value, m.debiased, m.p_value) for key, m in measures.items()}


#: Errors between 0 and 1, with p-values and debiased values.
BOUNDED = ["ece", {"name": "ece", "binning": "equal-width", "as": "ece-equal-width"}, "ece-sweep", "ks"]
#: Measures on no bounded scale, compared to a share of the value.
UNBOUNDED = ["smooth-test", {"name": "smooth-test", "n_terms": 3, "as": "smooth-test-3"}]


def _close_values(a: dict[str, Any], b: dict[str, Any], tolerance: float = 1e-9) -> None:
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
    for measures in (BOUNDED, UNBOUNDED):
        _close_values(_values(p, y, measures=measures), _values(q, z, measures=measures))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
@given(rows)
def test_a_frequency_weight_is_the_row_repeated(batch: Rows) -> None:
    p, y, w = _columns(batch)
    for measures in (BOUNDED, UNBOUNDED):
        first, other = (
            _values(p, y, weights=w, weights_kind="frequency", measures=measures),
            _values(np.repeat(p, w), np.repeat(y, w), measures=measures),
        )
        _close_values(first, other)


@given(rows)
def test_plain_errors_lie_between_0_and_1_and_p_values_too(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    for error, _, p_value in _values(p, y, measures=BOUNDED).values():
        assert error is not None
        assert -1e-12 <= error <= 1 + 1e-12
        assert p_value is None or 0.0 <= p_value <= 1.0


@given(rows)
def test_a_smooth_test_has_a_value_from_0_up_and_a_p_value_that_falls_to_0_without_one(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    for error, _, p_value in _values(p, y, measures=UNBOUNDED).values():
        assert p_value is not None
        assert 0.0 <= p_value <= 1.0
        assert p_value == 0.0 if error is None else 0.0 <= error < np.inf


@given(rows)
def test_the_smooth_test_cannot_tell_the_event_from_its_opposite(batch: Rows) -> None:
    p, y, w = _columns(batch)
    p = np.round(p, 6)  # so that 1 - (1 - p) is p
    first, other = (_values(q, z, weights=w, measures=UNBOUNDED) for q, z in ((p, y), (1.0 - p, 1 - y)))
    _close_values(first, other, tolerance=1e-6)


@given(rows)
def test_single_precision_changes_nothing_beyond_its_rounding(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    # Scores on the edges of equal-width bins are exempt, and ties are made or broken by rounding.
    narrow = p.astype(np.float32)
    measures = ["ks"]
    _close_values(
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
    errors = {key: m.value or 0.0 for key, m in report.measures.items()}
    exact = sum(abs((p[p == c] - y[p == c]).sum()) for c in np.unique(p)) / len(p)
    assert errors["ks"] <= exact + 1e-9
    assert errors["1"] <= errors["2"] + 1e-9 <= errors["4"] + 2e-9 <= errors["8"] + 3e-9


@pytest.mark.slow
@given(rows)
@settings(max_examples=examples(20, 1000))
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
@settings(max_examples=examples(20, 1000))
def test_isotonic_is_never_worse_than_identity_in_sample(batch: Rows) -> None:
    p, y, _ = _columns(batch)
    if len(set(y.tolist())) == 2:
        after = calibrant.fit("isotonic", p, y).apply(p)
        assert np.mean((after - y) ** 2) <= np.mean((p - y) ** 2) + 1e-12
