from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import calibrant
from calibrant.core.reductions import Event, Vector
from calibrant.measures.kernel import Kernel, block_means, event_pairs, event_sums, vector_sums

GOLDEN = Path(__file__).parents[2] / "golden" / "pycalibration_examples.json"
KERNELS: tuple[Kernel, ...] = ("gaussian", "laplacian")

Array = npt.NDArray[np.float64]


def _of_squares(square: Array, kernel: Kernel, h: float) -> Array:
    kernel_of_squares: Array = np.exp(-square / (2 * h * h)) if kernel == "gaussian" else np.exp(-np.sqrt(square) / h)
    return kernel_of_squares


def _ask(p: Any, y: Any, *, reduction: str | None = None, interval: float | None = None, **options: Any) -> Any:
    request = {"name": options.pop("name", "skce"), **options, "as": "it"}
    weights = {name: request.pop(name) for name in ("weights", "weights_kind") if name in request}
    report = calibrant.evaluate(
        p, y, measures=[request], reduction=reduction, interval=interval, resamples=200, **weights
    )
    return report.measures["it"]


def _classes(n: int, K: int, seed: int, power: float = 1.0) -> tuple[Array, npt.NDArray[np.int64]]:
    """Predictions of power 1 are calibrated."""
    random = np.random.default_rng(seed)
    truth = random.dirichlet(np.ones(K), n)
    labels = (random.random(n)[:, None] > truth.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    sharp = truth**power
    return sharp / sharp.sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_values_are_those_of_the_examples_of_the_authors(number: int) -> None:
    example = json.loads(GOLDEN.read_text("utf-8"))["examples"][number]
    predictions = np.array(example["predictions"])
    reduction = "binary" if predictions.ndim == 1 else "canonical"
    for estimator, published in (("unbiased", example["published"]), ("biased", example["biased"])):
        answer = _ask(predictions, example["labels"], reduction=reduction, kernel="laplacian", estimator=estimator)
        assert answer.value == pytest.approx(published, abs=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("h", [0.05, 0.3, 1.0, 20.0])
def test_sums_without_pairs_are_those_over_all_pairs(kernel: Kernel, h: float) -> None:
    random = np.random.default_rng(0)
    p = np.concatenate([random.random(150), np.round(random.random(50), 1), [0.0, 1.0]])
    y, w = random.integers(0, 2, len(p)).astype(np.int8), random.random(len(p))
    k = _of_squares((p[:, None] - p) ** 2, kernel, h)
    r = y - p
    sums = event_sums(Event(p, y).cells, kernel, h)
    assert sums.all == pytest.approx(r @ k @ r, abs=1e-11)
    assert sums.own == pytest.approx(r @ r)
    weighted = event_sums(Event(p, y, w, "importance").cells, kernel, h)
    assert weighted.all == pytest.approx((w * r) @ k @ (w * r), abs=1e-11)
    assert weighted.own == pytest.approx((w * r) @ (w * r))
    off = np.outer(w * r, w * r) * k
    expected = (off.sum() - np.trace(off)) / (w.sum() ** 2 - (w**2).sum())
    assert weighted.unbiased == pytest.approx(expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_blocks_of_vectors_are_all_pairs_of_them(kernel: Kernel) -> None:
    P, y = _classes(1300, 3, 1, 3.0)
    w = np.random.default_rng(2).random(1300)
    k = _of_squares(((P[:, None] - P) ** 2).sum(axis=2), kernel, 0.7)
    r = np.eye(3)[y] - P
    inner = r @ r.T * np.outer(w, w)
    sums = vector_sums(Vector(P, y, w, "importance"), kernel, 0.7)
    assert sums.all == pytest.approx((k * inner).sum(), rel=1e-9)
    assert sums.own == pytest.approx(np.trace(inner), rel=1e-12)
    assert 0.0 <= sums.p_value < 1e-6
    np.testing.assert_allclose(sums.by_row, (k * (r @ r.T)) @ w, rtol=1e-9, atol=1e-9)


def test_the_mean_and_the_spread_under_calibration_are_those_of_drawn_labels() -> None:
    """What the gamma law is fitted to: checked through the p-value's median and tail on drawn labels."""
    P, _ = _classes(150, 4, 3)
    random = np.random.default_rng(4)
    p_values = []
    for _ in range(300):
        y = (random.random(150)[:, None] > P.cumsum(axis=1)).sum(axis=1).clip(0, 3)
        p_values.append(vector_sums(Vector(P, y), "gaussian", 1.0).p_value)
    steps = (np.arange(300) + 0.5) / 300
    assert np.abs(np.sort(p_values) - steps).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"name": "mmce"},
        {"kernel": "gaussian"},
        {"kernel": "laplacian", "bandwidth": 0.2},
        {"estimator": "block", "block_size": 10},
    ],
    ids=str,
)
def test_p_values_of_calibrated_rows_are_uniform_and_those_of_others_small(options: dict[str, Any]) -> None:
    random = np.random.default_rng(5)
    p_values = []
    for _ in range(300):
        p = random.random(300)
        p_values.append(_ask(p, (random.random(300) < p).astype(int), **options).p_value)
    steps = (np.arange(300) + 0.5) / 300
    assert np.abs(np.sort(p_values) - steps).max() < 0.1
    p = random.random(3000)
    assert _ask(p**2, (random.random(3000) < p).astype(int), **options).p_value < 1e-3


def test_a_block_is_the_unbiased_estimate_of_its_rows() -> None:
    random = np.random.default_rng(8)
    event = Event(random.random(25), random.integers(0, 2, 25).astype(np.int8))
    order = random.permutation(25)
    mean, error, blocks = block_means(25, event_pairs(event, "laplacian", 0.5), 8, order)
    of_blocks = [
        event_sums(Event(event.p[rows], event.y[rows]).cells, "laplacian", 0.5).unbiased
        for rows in order[:24].reshape(3, 8)
    ]
    assert blocks == 3
    assert mean == pytest.approx(np.mean(of_blocks))
    assert error == pytest.approx(np.std(of_blocks, ddof=1) / np.sqrt(3))


def test_blocks_take_rows_that_count_alike_and_enough_of_them() -> None:
    p, y = [0.1, 0.6, 0.9], [0, 1, 1]
    unequal = _ask(p, y, estimator="block", weights=[1.0, 2.0, 1.0])
    assert unequal.value is None
    assert "equal weights" in (unequal.problem or "")
    assert _ask(p, y, estimator="block", weights=[2.0, 2.0, 2.0]).value is not None
    few = _ask(p, y, estimator="block", block_size=4)
    assert few.value is None
    alone = _ask([0.4], [1])
    assert alone.value is None
    assert "two rows" in (alone.problem or "")


def test_certain_and_right_predictions_have_no_error_and_wrong_ones_are_refuted() -> None:
    for name in ("mmce", "skce"):
        right, wrong = _ask([0.0, 1.0, 1.0], [0, 1, 1], name=name), _ask([0.0, 1.0, 1.0], [0, 0, 1], name=name)
        assert (right.value, right.p_value) == (0.0, 1.0)
        assert wrong.p_value == 0.0
    assert _ask([0.0, 1.0], [1, 0], name="mmce").value > 0.1
    vectors = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    assert _ask(vectors, [0, 2], reduction="canonical").p_value == 1.0
    assert _ask(vectors, [1, 2], reduction="canonical").p_value == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"name": "mmce"}, {"estimator": "biased"}], ids=str)
def test_the_interval_holds_the_truth_of_a_power(options: dict[str, Any]) -> None:
    """The truth counts every row with both labels in the shares of its true probability."""
    random = np.random.default_rng(9)
    c = random.random(20_000)
    for power in (1.0, 1.5):
        p = np.tile(c**power, 2)
        shares = np.concatenate([1 - c, c]).tolist()
        truth = _ask(p, np.repeat([0, 1], 20_000), weights=shares, **options).value
        hits = 0
        for _ in range(60):
            c_small = random.random(400)
            answer = _ask(c_small**power, (random.random(400) < c_small).astype(int), interval=0.9, **options)
            hits += answer.interval[0] <= truth + 1e-6 and truth <= answer.interval[1]
        assert hits >= 60 * 0.9 - 3.5 * np.sqrt(60 * 0.09)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_the_interval_of_a_vector_holds_the_truth_of_a_power(estimator: str) -> None:
    random = np.random.default_rng(11)
    c = random.dirichlet(np.ones(3), 1500)
    sharp = c**2 / (c**2).sum(axis=1, keepdims=True)
    shares = c.T.ravel().tolist()
    labels = np.repeat(np.arange(3), 1500)
    truth = _ask(np.tile(sharp, (3, 1)), labels, reduction="canonical", weights=shares, estimator="biased").value
    hits = 0
    for seed in range(60):
        answer = _ask(*_classes(300, 3, seed, 2.0), reduction="canonical", interval=0.9, estimator=estimator)
        hits += answer.interval[0] <= truth <= answer.interval[1]
    assert hits >= 60 * 0.9 - 3.5 * np.sqrt(60 * 0.09)


def test_a_vector_takes_no_gaussian_label_kernel_and_its_blocks_have_no_interval() -> None:
    P, y = _classes(50, 3, 10)
    assert _ask(P, y, reduction="canonical", label_kernel="gaussian").value is None
    assert "no interval" in (_ask(P, y, reduction="canonical", interval=0.9, estimator="block").problem or "")


def test_skce_is_a_proper_u_score_without_entropy_and_sharpness() -> None:
    """Gruber & Buettner (2022), (50) to (54), with the true probabilities of every row known."""
    random = np.random.default_rng(5)
    n = 1500
    p = random.random(n)
    truth = p**2
    y = (random.random(n) < truth).astype(int)
    p_y = 1 / 3  # E p^2
    pairs = ~np.eye(n, dtype=bool)
    kernel = np.exp(-((p[:, None] - p) ** 2) / 2)

    def mean(off: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> float:
        return float(2 * (np.outer(off, off) * weights)[pairs].mean())

    measure = calibrant.evaluate(p, y, measures=["skce"])["skce"]
    assert measure.value == pytest.approx(mean(y - p, kernel))
    assert measure.parts == {"entropy": 0.0, "calibration": measure.value, "sharpness": 0.0}
    calibration, sharpness = mean(p - truth, kernel), mean(p_y - truth, np.ones_like(kernel))
    assert calibration > 0.02
    assert measure.value == pytest.approx(calibration, abs=0.01)
    assert sharpness == pytest.approx(0.0, abs=2e-3)
