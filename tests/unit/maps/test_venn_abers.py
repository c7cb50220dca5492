from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import isotonic_regression

import calibrant
from calibrant.core.cells import WeightsKind
from calibrant.core.reductions import Event
from calibrant.maps.isotonic import fit_venn_abers
from tests.rows import draw_event
from tests.unit.maps.drawn import assert_refused

GRID = np.linspace(0, 1, 1001)
Floats = npt.NDArray[np.float64]


def _refitted(p: Floats, y: Any, w: Floats, score: float, label: int) -> float:
    """Isotonic regression with the score itself added under a label, at the score."""
    scores, cell = np.unique(np.append(p, score), return_inverse=True)
    mass = np.bincount(cell, np.append(w, 1.0))
    mean = np.bincount(cell, np.append(w * y, label)) / mass
    return float(isotonic_regression(mean, weights=mass).x[np.searchsorted(scores, score)])


@pytest.mark.parametrize("kind", [None, "frequency", "importance"])
@pytest.mark.parametrize("decimals", [1, 2, 5])
def test_both_bounds_are_isotonic_regressions_with_the_score_added(kind: WeightsKind | None, decimals: int) -> None:
    random = np.random.default_rng(decimals)
    for n, power in ((2, 1.0), (7, 1.0), (40, 0.2), (60, 3.0), (60, -0.3)):
        p = np.round(random.random(n), decimals)
        p[:2] = [0.0, 1.0]
        y = (random.random(n) < np.minimum(1.0, 0.4 * np.maximum(p, 0.05) ** power)).astype(np.int8)
        y[:2] = [1, 0]
        w = None if kind is None else 3 * random.random(n) + 0.01
        fitted = fit_venn_abers(Event(p, y, w, kind or "frequency").cells)
        mass = np.ones(n) if w is None else w if kind == "frequency" else w * w.sum() / (w @ w)
        scores = np.unique(p)
        probe = np.concatenate([scores, (scores[1:] + scores[:-1]) / 2, [0.0, 1e-300, 1.0, 1 - 1e-9]])
        for label, bound in enumerate(fitted.bounds(probe)):
            np.testing.assert_allclose(bound, [_refitted(p, y, mass, s, label) for s in probe], atol=1e-12)


def test_between_and_beyond_the_scores_the_row_alone_decides() -> None:
    fitted = fit_venn_abers(Event(np.array([0.3, 0.6]), np.array([0, 1], np.int8)).cells)
    p0, p1 = fitted.bounds(np.array([0.1, 0.3, 0.5, 0.6, 0.9]))
    np.testing.assert_allclose(p0, [0, 0, 0, 0.5, 0.5])
    np.testing.assert_allclose(p1, [0.5, 0.5, 1, 1, 1])


@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_scores_that_differ_by_rounding_are_one_score(scale: Any) -> None:
    random = np.random.default_rng(3)
    p = random.integers(1, 20, 400) / 20
    y = (random.random(400) < p**2).astype(np.int8)
    exact = p if scale == "probability" else np.log(p / (1 - p))
    rounded = exact * (1 + random.integers(-2, 3, 400) * np.finfo(np.float64).eps)
    expected = calibrant.fit("venn-abers", exact, y, scale=scale)
    fitted = calibrant.fit("venn-abers", rounded, y, scale=scale)
    assert len(np.unique(rounded)) > 2 * len(np.unique(exact))
    np.testing.assert_allclose(fitted.apply(rounded), expected.apply(exact), atol=1e-12)
    np.testing.assert_allclose(fitted.apply(exact), expected.apply(exact), atol=1e-12)


def test_the_pair_is_merged_for_either_loss() -> None:
    p, y = draw_event(200, 0, 2)
    fitted = calibrant.fit("venn-abers", p, y)
    p0, p1 = fitted.function.bounds(GRID)  # type: ignore[union-attr]
    assert np.all(p0 < p1)
    np.testing.assert_allclose(fitted.apply(GRID), p1 / (1 - p0 + p1), atol=1e-15)
    brier = calibrant.fit("venn-abers", p, y, merge="brier").apply(GRID)
    np.testing.assert_allclose(brier, p1 + p0**2 / 2 - p1**2 / 2, atol=1e-15)
    for merged in (fitted.apply(GRID), brier):
        assert np.all(np.diff(merged) >= 0)
        assert np.all((p0 <= merged) & (merged <= p1))


def test_more_rows_leave_less_between_the_bounds_and_the_truth_inside_on_average() -> None:
    random = np.random.default_rng(0)
    widths = []
    for n in (100, 1000, 10000):
        p = random.random(n)
        y = (random.random(n) < p**2).astype(np.int8)
        p0, p1 = fit_venn_abers(Event(p, y).cells).bounds(GRID)
        widths.append((p1 - p0).mean())
    assert widths[0] > 2 * widths[1] > 4 * widths[2]
    assert p0.mean() - 0.01 < 1 / 3 < p1.mean() + 0.01


def test_a_constant_prediction_is_a_rate_with_one_more_row() -> None:
    fitted = fit_venn_abers(Event(np.full(9, 0.4), np.array([1] * 3 + [0] * 6, np.int8)).cells)
    p0, p1 = fitted.bounds(np.array([0.4]))
    assert (p0[0], p1[0]) == (0.3, 0.4)


def test_documents_are_checked() -> None:
    document = calibrant.fit("venn-abers", *draw_event(100, dtype=bool)).to_document()
    scores, p0, p1 = (document["parameters"][name] for name in ("scores", "p0", "p1"))
    damages: list[tuple[dict[str, Any], str]] = [
        ({"scores": scores[::-1]}, "scores"),
        ({"p0": p0[:-1]}, "p0"),
        ({"p1": [*p1[:-1], 0.0]}, "p1"),
        ({"p0": [1.0] * len(p0)}, "p0"),
        ({"merge": "mean"}, "merge"),
        ({"merge": None}, "merge"),
    ]
    assert_refused(document, damages)
