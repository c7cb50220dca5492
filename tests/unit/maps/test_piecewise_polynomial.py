from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pwlf
import pytest

import calibrant
from calibrant.core.cells import cells_of, sort_rows
from calibrant.core.errors import CalibrationError
from calibrant.maps.break_search import Subsets, find_breaks
from calibrant.maps.piecewise_polynomial import PiecewisePolynomial
from tests.unit.maps.drawn import assert_refused

GRID = np.linspace(0, 1, 1001)
Floats = npt.NDArray[np.float64]


def _drawn(n: int = 120) -> tuple[Floats, npt.NDArray[np.int64]]:
    random = np.random.default_rng(0)
    p = 0.05 + 0.9 * random.random(n)
    return p, (random.random(n) < np.where(p < 0.4, 0.1, 0.9)).astype(np.int64)


@pytest.mark.parametrize(("degree", "segments"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
def test_the_map_is_the_librarys_through_its_breaks(degree: int, segments: int) -> None:
    p, y = _drawn()
    fitted = calibrant.fit("pl-de", p, y, degree=degree, segments=segments)
    curve: Any = fitted.function
    assert curve.coefficients.shape == (segments, degree + 1)
    assert (curve.breaks[0], curve.breaks[-1]) == (p.min(), p.max())
    model = pwlf.PiecewiseLinFit(p, y.astype(float), degree=degree)
    model.fit_with_breaks(curve.breaks)
    np.testing.assert_allclose(fitted.apply(GRID, clip=False), model.predict(GRID), atol=1e-9)
    assert 0 <= fitted.apply(GRID).min() <= fitted.apply(GRID).max() <= 1


def test_its_squared_error_is_the_least_of_a_grid_of_breaks() -> None:
    p, y = _drawn()
    fitted = calibrant.fit("pl-de", p, y, segments=2)
    ours = float(np.sum((fitted.apply(p, clip=False) - y) ** 2))
    model = pwlf.PiecewiseLinFit(p, y.astype(float))
    assert ours <= min(model.fit_with_breaks([p.min(), b, p.max()]) for b in np.linspace(0.06, 0.94, 200)) + 1e-6


@pytest.mark.parametrize("degree", [1, 2])
def test_the_error_of_given_breaks_is_that_of_the_regression(degree: Literal[1, 2]) -> None:
    random, (p, y) = np.random.default_rng(1), _drawn(400)
    w = random.integers(1, 4, 400)
    cells = cells_of(sort_rows(np.round(np.sort(p), 3).astype(np.float64), y.astype(np.int8), w.astype(float)))
    drawn_rows = (random.random((3, len(cells))) < 0.7).astype(float)
    subsets = Subsets(cells.p, drawn_rows * cells.w, drawn_rows * cells.wy, degree)
    breaks = np.sort(np.rint(random.random((3, 20, 4)) * subsets.units), axis=2)
    errors = subsets.errors(breaks, np.arange(3))
    for i in range(3):
        rows = drawn_rows[i] > 0
        rounded = np.rint((cells.p[rows] - subsets.low) / subsets.width * subsets.units) / subsets.units
        root = np.sqrt(cells.w[rows])
        target = root * (cells.wy / cells.w)[rows]
        within = float((cells.wy - cells.wy**2 / cells.w)[rows].sum())  # of labels around the mean of their cell
        for ends, error in zip(breaks[i], errors[i], strict=True):
            if len({0.0, *ends, subsets.units}) < 6:  # coincident breaks
                assert error == (drawn_rows[i] * cells.wy).sum()
                continue
            starts = np.concatenate(([0.0], ends / subsets.units))
            powers = [np.maximum(rounded - start, 0.0) ** k for start in starts for k in range(1, degree + 1)]
            design = np.column_stack([np.ones(len(rounded)), *powers]) * root[:, None]
            off = design @ np.linalg.lstsq(design, target, rcond=None)[0] - target
            assert error == pytest.approx(off @ off + within, rel=1e-7)


@pytest.mark.parametrize(("segments", "degree"), [(3, 1), (2, 2)])
def test_no_squared_error_is_above_that_of_the_published_search(segments: int, degree: int) -> None:
    p, y = _drawn(300)
    fitted = calibrant.fit("pl-de", p, y, segments=segments, degree=degree)
    model = pwlf.PiecewiseLinFit(p, y.astype(float), degree=degree, seed=0)
    model.fit(segments)
    assert float(np.sum((fitted.apply(p, clip=False) - y) ** 2)) <= model.ssr * (1 + 1e-4)


def test_a_subset_has_the_same_breaks_alone() -> None:
    p, y = _drawn(200)
    order = np.argsort(p)
    w = (np.random.default_rng(3).random((20, 200)) < 0.9).astype(float)
    together = find_breaks(Subsets(p[order], w, w * y[order], 1), 3, 7)
    alone = find_breaks(Subsets(p[order], w[18:19], w[18:19] * y[order], 1), 3, 7)
    np.testing.assert_allclose(together[18], alone[0], atol=1e-4)


def test_one_segment_is_the_weighted_regression_line() -> None:
    p, y = _drawn(80)
    p, w = np.round(p, 2), np.random.default_rng(1).integers(1, 4, 80)
    line = calibrant.fit("pl-de", p, y, segments=1, weights=w, weights_kind="frequency")
    slope, shift = np.polyfit(p, y, 1, w=np.sqrt(w))
    np.testing.assert_allclose(line.apply(GRID, clip=False), slope * GRID + shift, atol=1e-12)


def test_cross_validation_chooses_the_segments_and_the_seed_decides() -> None:
    p, y = _drawn(60)
    stages: list[tuple[int, int, str]] = []
    fitted = calibrant.fit("pl-de", p, y, max_segments=2, folds=3, seed=5, progress=lambda *stage: stages.append(stage))
    losses = fitted.diagnostics["held_out_losses"]
    assert set(losses) == {"1", "2"}
    assert losses[str(fitted.diagnostics["segments"])] <= 1.001 * min(losses.values())
    assert {stage for _, _, stage in stages} == {"candidates", "done"}
    assert [done for done, _, _ in stages] == sorted(done for done, _, _ in stages)
    assert stages[-1] == (1000, 1000, "done")
    assert len(stages) > 8  # the search can be cancelled in every generation
    state: Any = np.random.get_state()  # noqa: NPY002 - that it is left alone
    before = state[1].copy()
    again = calibrant.fit("pl-de", p, y, max_segments=2, folds=3, seed=5)
    assert again.to_document() == fitted.to_document()
    state = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(state[1], before)


@pytest.mark.parametrize("options", [{"segments": 2}, {"max_segments": 2, "folds": 3}])
def test_logits_whose_probabilities_round_to_1_are_one_prediction(options: dict[str, Any]) -> None:
    p, y = _drawn()
    logits = np.concatenate([np.log(p / (1.0 - p)), 40.0 + np.arange(60.0)])
    labels = np.concatenate([y, np.arange(60) % 3 > 0]).astype(np.int64)
    of_logits = calibrant.fit("pl-de", logits, labels, scale="logit", **options)
    probabilities = 1.0 / (1.0 + np.exp(-logits))
    of_probabilities = calibrant.fit("pl-de", probabilities, labels, **options)
    np.testing.assert_allclose(of_logits.apply(logits), of_probabilities.apply(probabilities), atol=1e-9)
    with pytest.raises(CalibrationError) as caught:
        calibrant.fit("pl-de", logits[-60:], labels[-60:], scale="logit", **options)
    assert caught.value.code == "one-prediction"


def test_documents_are_checked() -> None:
    document = calibrant.fit("pl-de", *_drawn(), degree=2, segments=2).to_document()
    breaks, rows = document["parameters"]["breaks"], document["parameters"]["coefficients"]
    damages = [
        ({"breaks": breaks[::-1]}, "breaks"),
        ({"breaks": breaks[1:]}, "coefficients"),
        ({"coefficients": [rows[0], rows[1][:-1]]}, "coefficients/1"),
        ({"coefficients": [rows[0], [0.0, float("nan"), 0.0]]}, "coefficients/1/1"),
        ({"coefficients": [1.0, 2.0]}, "coefficients/0"),
    ]
    assert_refused(document, damages)


def test_the_segments_meet_and_a_break_belongs_to_the_left_one() -> None:
    curve = PiecewisePolynomial(np.array([0.2, 0.5, 0.8]), np.array([[0.1, 1.0], [0.4, -1.0]]))
    np.testing.assert_allclose(curve(np.array([0.0, 0.2, 0.5, 0.6, 1.0])), [-0.1, 0.1, 0.4, 0.3, -0.1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "size", "options"), [("pl-de", "segments", {"max_segments": 3}), ("spline", "knots", {"knots": None})]
)
def test_the_tolerance_is_how_far_the_simplest_candidate_may_be_from_the_best(
    method: str, size: str, options: dict[str, Any]
) -> None:
    random = np.random.default_rng(8)
    p = random.random(400)
    y = (random.random(400) < np.where(p < 0.5, 0.1, 0.8)).astype(int)
    by_tolerance = {
        tolerance: calibrant.fit(method, p, y, tolerance=tolerance, **options).diagnostics for tolerance in (0.0, 1.0)
    }
    losses = {int(count): loss for count, loss in by_tolerance[0.0]["held_out_losses"].items()}
    best = min(losses, key=losses.__getitem__)
    assert best > min(losses)  # otherwise this shows nothing
    assert by_tolerance[0.0][size] == best
    assert by_tolerance[1.0][size] == min(losses)
