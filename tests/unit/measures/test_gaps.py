from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import read_batch
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from tests.rows import draw_event


def _draw(n: int, seed: int, shift: float = 0.0) -> tuple[Any, Any, list[str]]:
    """Two thirds of the rows in a, the rest in b, whose labels are ``shift`` likelier than predicted."""
    random = np.random.default_rng(seed)
    p, b = 0.1 + 0.6 * random.random(n), random.random(n) < 1 / 3
    y = (random.random(n) < p + shift * b).astype(int)
    return p, y, np.where(b, "b", "a").tolist()


def test_the_gap_is_between_the_smallest_and_the_largest_debiased_value() -> None:
    p, y, groups = _draw(600, 0, shift=0.2)
    report = calibrant.evaluate(p, y, groups=groups, measures=["ece", "ks"])
    assert report.groups is not None
    assert report.gaps is not None
    gap = report.gaps["ece"]
    a, b = (report.groups[name].measures["ece"].debiased or 0.0 for name in "ab")
    assert (gap.between, gap.of) == (("a", "b"), "debiased")
    assert gap.value == pytest.approx(b - a)
    assert gap.interval is None
    assert report.gaps["ks"].of == "value"


def test_a_real_gap_is_found_and_its_interval_holds_it() -> None:
    p, y, groups = _draw(1500, 1, shift=0.25)
    gap = (calibrant.evaluate(p, y, groups=groups, measures=["ks-end"], interval=0.95, resamples=200).gaps or {})[
        "ks-end"
    ]
    assert gap.p_value == pytest.approx(1 / 201)
    assert gap.interval is not None
    assert gap.interval[0] < 0.25 < gap.interval[1]
    assert gap.interval[0] > 0.1


def test_no_gap_is_rejected_as_often_as_the_level_says() -> None:
    rejected = 0
    for seed in range(100):
        p, y, groups = _draw(120, seed)
        gaps = calibrant.evaluate(p, y, groups=groups, measures=["ks-end"], interval=0.9, resamples=100).gaps
        rejected += ((gaps or {})["ks-end"].p_value or 1.0) <= 0.1
    assert rejected <= 10 + 3 * np.sqrt(100 * 0.1 * 0.9)


@pytest.mark.parametrize("reduction", ["binary", "pooled", "classwise", "canonical"])
def test_the_order_of_the_rows_does_not_change_the_draws(reduction: str) -> None:
    p, y, groups = _draw(200, 3)
    P = np.column_stack([1.0 - p, p])
    order = np.random.default_rng(0).permutation(200)
    options: dict[str, Any] = {"measures": ["brier", "ece"], "interval": 0.9, "resamples": 100, "reduction": reduction}
    first = calibrant.evaluate(P, y, groups=groups, **options).gaps or {}
    other = calibrant.evaluate(P[order], y[order], groups=[groups[i] for i in order], **options).gaps or {}
    for name, gap in first.items():
        assert gap.between == other[name].between
        assert gap.p_value == other[name].p_value
        assert (gap.interval or ()) == pytest.approx(other[name].interval or (), rel=1e-9)


def test_one_group_has_no_gap_and_fits_are_not_resampled() -> None:
    p, y, _ = _draw(100, 4)
    alone = calibrant.evaluate(p, y, groups=["a"] * 100, measures=["ks"], interval=0.9).gaps or {}
    assert alone["ks"].value is None
    assert "two groups" in (alone["ks"].problem or "")
    p, y, groups = _draw(400, 5)
    fitted = calibrant.evaluate(p, y, groups=groups, measures=["ece-platt"], interval=0.9).gaps or {}
    assert fitted["ece-platt"].value is not None
    assert fitted["ece-platt"].interval is None
    assert "long" in (fitted["ece-platt"].problem or "")


def test_a_map_has_gaps_before_and_after() -> None:
    p, y, groups = _draw(300, 6, shift=0.2)
    fitted = calibrant.fit("platt", p, y)
    report = calibrant.evaluate(p, y, groups=groups, map=fitted, measures=["ks-end"])
    assert report.gaps is not None
    assert report.gaps_after is not None
    assert report.gaps["ks-end"].value != report.gaps_after["ks-end"].value


def test_a_small_group_does_not_cause_a_gap_to_a_large_one() -> None:
    """Both calibrated: a small group's error is larger by chance, and resampling it adds to that."""
    excluded = 0
    for seed in range(30):
        p, y = draw_event(200, seed)
        groups = ["small"] * 30 + ["large"] * 170
        gaps = calibrant.evaluate(p, y, groups=groups, measures=["ece"], interval=0.95, resamples=100).gaps
        excluded += ((gaps or {})["ece"].interval or (1.0, 1.0))[0] > 0.0
    assert excluded <= 30 * 0.05 + 3.5 * np.sqrt(30 * 0.05 * 0.95)


def test_equal_groups_count_twice_and_groups_without_values_are_reported() -> None:
    gaps = calibrant.evaluate(
        [0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], groups=list("aabb"), measures=["auroc"], interval=0.95, resamples=100
    ).gaps
    assert gaps is not None
    assert gaps["auroc"].between == ("a", "b")
    assert gaps["auroc"].interval is None
    assert "no value" in (gaps["auroc"].problem or "")


def _seconds(n: int, groups: int, resamples: int = 100) -> float:
    p, y, _ = _draw(n, 2)
    names = [f"group {i % groups}" for i in range(n)]
    evaluation = Evaluation(read_requests(["ece", "ks-end"]), resampling=Resampling(0.95, resamples))
    return evaluation.seconds(evaluation.check(read_batch(p, y), names))


def test_a_few_groups_of_ten_thousand_rows_are_estimated_below_a_second() -> None:
    assert 0.1 < _seconds(10_000, 2) < _seconds(10_000, 5) < 1.0


def test_many_groups_or_resamples_are_estimated_as_long() -> None:
    assert _seconds(2_000, 1_000) > 3.0  # measured
    assert _seconds(10_000, 5, 10_000) > 10.0
    assert _seconds(1_000_000, 3) > 5.0


def test_ten_groups_of_three_hundred_rows_are_estimated_below_the_limit_of_a_request() -> None:
    assert _seconds(3_000, 10, 1_000) < 2.0


def test_groups_without_intervals_cost_about_as_much_as_the_whole() -> None:
    p, y, groups = _draw(100_000, 2)
    evaluation = Evaluation(read_requests(["ece", "ks-end"]))
    grouped = evaluation.check(read_batch(p, y), groups)
    assert evaluation.seconds(grouped) == pytest.approx(2.0 * evaluation.seconds(grouped.without_groups), rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["binary", "pooled", "classwise", "canonical"])
def test_rows_of_weight_0_change_no_gap(reduction: str) -> None:
    p, y, groups = _draw(200, 5, shift=0.2)
    P = np.column_stack([1.0 - p, p]) if reduction != "binary" else p
    w = np.where(np.arange(200) % 20 < 2, 1.0, 0.0)
    names = ["brier", "log-loss"] if reduction == "canonical" else ["ece", "ks", "smooth-ece"]

    def gaps(rows: Any) -> Any:
        return calibrant.evaluate(
            P[rows],
            y[rows],
            weights=w[rows],
            groups=[group for group, is_kept in zip(groups, rows, strict=True) if is_kept],
            reduction=reduction,
            measures=names,
            interval=0.9,
            resamples=100,
        ).gaps

    own, expected = gaps(np.ones(200, dtype=bool)), gaps(w > 0)
    for name in names:
        assert own[name].p_value == expected[name].p_value
        assert own[name].interval == pytest.approx(expected[name].interval)
    assert own[names[0]].p_value is not None
