from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression

import calibrant
from calibrant.core.errors import NotConverged, OneClass
from calibrant.core.reductions import Event
from calibrant.maps.beta import Beta, Parameters, features, fit_beta, fit_beta_event
from calibrant.maps.curves import interpolate
from calibrant.maps.many_rows import MANY, many_rows
from calibrant.maps.platt import fit_platt, fit_platt_event
from tests.refusals import refused_at

Floats = npt.NDArray[np.float64]


def _drawn(n: int, power: float = 1.4, seed: int = 0) -> tuple[Floats, npt.NDArray[np.int8]]:
    random = np.random.default_rng(seed)
    p = random.beta(0.7, 0.9, n)
    return p, (random.random(n) < p**power).astype(np.int8)


def _shapes() -> dict[str, tuple[Floats, npt.NDArray[np.int8]]]:
    n, random = MANY + 5, np.random.default_rng(5)
    p, y = _drawn(n)
    certain = np.where(random.random(n) < 0.2, np.round(p), p)
    near = 0.999 + 1e-3 * p
    return {
        "plain": (p, y),
        "tied": (np.round(p, 2), y),
        "certain": (certain, y),
        "close together": (near, (random.random(n) < 0.3 + 0.4 * p).astype(np.int8)),
        "steep": (0.5 + 0.02 * (p - 0.5), (random.random(n) < 1 / (1 + np.exp(-20 * (p - 0.5)))).astype(np.int8)),
        "falling": (p, 1 - y),
        "single": (p.astype(np.float32).astype(np.float64), y),
    }


SHAPES = _shapes()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target_smoothing", [True, False])
def test_platt_of_many_rows_is_that_of_sorted_cells(shape: str, target_smoothing: bool) -> None:
    event = Event(*SHAPES[shape])
    assert many_rows(event) is not None
    rows, gradient = fit_platt_event(event, target_smoothing=target_smoothing)
    assert gradient <= 1e-9
    cells = fit_platt(event.cells, target_smoothing=target_smoothing)
    assert (rows.slope, rows.intercept) == pytest.approx((cells.slope, cells.intercept), rel=1e-6, abs=1e-7)
    np.testing.assert_allclose(rows(event.p), cells(event.p), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("parameters", ["abm", "am", "ab"])
def test_beta_of_many_rows_is_that_of_sorted_cells(shape: str, parameters: Parameters) -> None:
    event = Event(*SHAPES[shape])
    (rows, gradient), cells = fit_beta_event(event, parameters), fit_beta(event.cells, parameters)
    assert gradient <= 1e-8
    np.testing.assert_allclose(rows(event.p), cells(event.p), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["platt", "beta"])
def test_the_order_of_many_rows_does_not_matter(method: str) -> None:
    p, y = SHAPES["certain"]
    order = np.random.default_rng(1).permutation(len(p))
    first = calibrant.fit(method, p, y).function.parameters()
    assert calibrant.fit(method, p[order], y[order]).function.parameters() == first


def test_many_rows_without_an_optimum_or_a_class_are_refused() -> None:
    p = np.linspace(0.01, 0.99, MANY)
    with pytest.raises(NotConverged):
        fit_platt_event(Event(p, (p > 0.5).astype(np.int8)), target_smoothing=False)
    assert fit_platt_event(Event(p, (p > 0.5).astype(np.int8)))[0].slope > 10
    fits: tuple[Any, ...] = (fit_platt_event, fit_beta_event)
    for fit in fits:
        with pytest.raises(OneClass):
            fit(Event(p, np.ones(MANY, np.int8)))
    constant = Event(np.full(MANY, 0.3), (np.arange(MANY) % 4 == 0).astype(np.int8))
    assert many_rows(constant) is None
    assert fit_beta_event(constant)[0](np.array([0.3]))[0] == pytest.approx(0.25, abs=1e-6)
    assert many_rows(Event(p, (p > 0.5).astype(np.int8), np.ones(MANY))) is None


@pytest.mark.parametrize("parameters", ["abm", "am", "ab"])
def test_beta_is_no_worse_than_scikit_learn_on_its_features(parameters: Parameters) -> None:
    for seed, power in ((0, 1.4), (1, 0.5)):
        p, y = _drawn(1500, power, seed)
        ours = fit_beta(Event(p, y).cells, parameters)
        basis = features(p)
        columns = {
            "abm": basis[:, :2],
            "am": basis[:, :1] + basis[:, 1:2],
            "ab": basis[:, :2] + np.array([np.log(2), -np.log(2)]),
        }[parameters]
        model = LogisticRegression(C=1e10, fit_intercept=parameters != "ab", tol=1e-10, max_iter=1000).fit(columns, y)
        theirs = model.predict_proba(columns)[:, 1]
        losses = [-np.mean(np.where(y == 1, np.log(c), np.log1p(-c))) for c in (ours(p), theirs)]
        assert losses[0] <= losses[1] + 1e-9
        np.testing.assert_allclose(ours(p), theirs, atol=1e-4)


def test_the_variants_of_beta_keep_what_they_promise() -> None:
    p, y = _drawn(2000)
    am, ab = fit_beta(Event(p, y).cells, "am"), fit_beta(Event(p, y).cells, "ab")
    assert am.a == am.b
    assert ab(np.array([0.5]))[0] == pytest.approx(0.5, abs=1e-15)
    platt = fit_platt(Event(p, y).cells, target_smoothing=False)
    assert (am.a, am.c) == pytest.approx((platt.slope, platt.intercept), abs=1e-5)
    falling = Event(p, 1 - y).cells
    assert fit_beta(falling, "am").a == 0.0
    np.testing.assert_allclose(fit_beta(falling, "ab")(p), 0.5)


def test_a_negative_coefficient_of_beta_is_the_one_left_out() -> None:
    random = np.random.default_rng(0)
    p = np.concatenate([random.beta(0.3, 3, 3000), random.beta(3, 0.5, 3000)])
    c = np.where(p < 0.5, 0.55 - 0.5 * p, 0.3 + 0.5 * p**4)
    cells = Event(p, (random.random(6000) < c).astype(np.int8)).cells
    fitted = fit_beta(cells)
    assert fitted.a == 0.0 < fitted.b

    def loss(curve: Beta) -> float:
        q = curve(cells.p)
        return float(-(cells.wy @ np.log(q) + (cells.w - cells.wy) @ np.log1p(-q)) / cells.mass)

    best = loss(fitted)
    for a, b, shift in ((1e-3, 0, 0), (0, 1e-3, 0), (0, -1e-3, 0), (0, 0, 1e-3), (0, 0, -1e-3), (1e-3, 1e-3, 0)):
        assert loss(Beta(fitted.a + a, fitted.b + b, fitted.c + shift)) >= best


def test_the_options_of_beta_are_checked() -> None:
    with refused_at("/parameters", calibrant.CalibrationError):
        calibrant.fit("beta", [0.2, 0.8], [0, 1], parameters="bm")


@pytest.mark.parametrize("count", [1, 2, 3, 400, 5000, 30000])
def test_the_look_up_is_numpys_interpolation(count: int) -> None:
    random = np.random.default_rng(count)
    knots = np.unique(np.concatenate([random.beta(0.05, 0.05, count), [5e-324, 1e-12, 1.1e-12][: count - 1]]))
    heights = random.random(len(knots))
    beside = [np.nextafter(knots, 2), np.nextafter(knots, -2).clip(0, 1), [0, 1]]
    x = np.concatenate([random.random(50_000), knots, *beside])
    np.testing.assert_array_equal(interpolate(x, knots, heights), np.interp(x, knots, heights))
    z, places = 40 * random.standard_normal(50_000), np.unique(60 * knots - 30)
    heights = heights[: len(places)]
    np.testing.assert_array_equal(interpolate(z, places, heights), np.interp(z, places, heights))
