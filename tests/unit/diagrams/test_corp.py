from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibrant.core.cells import Floats
from calibrant.core.reductions import Event
from calibrant.diagrams.fitted import Corp, corp, thinned
from calibrant.maps.isotonic import fit_isotonic
from calibrant.measures.intervals import PLAIN, Resampling
from tests.known import known


def _curve(picture: Corp, p: Any) -> Floats:
    ends = np.column_stack([picture.start, picture.end]).ravel()
    curve: Floats = np.interp(p, ends, np.repeat(picture.calibrated, 2))
    return curve


def _pooled(p: list[float], y: list[int]) -> list[float]:
    """Pool adjacent violators, the textbook's way."""
    blocks: list[tuple[float, int]] = []
    for label in np.array(y)[np.argsort(p, kind="stable")].tolist():
        blocks.append((float(label), 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, m), (b, n) = blocks[-2:]
            blocks[-2:] = [((a * m + b * n) / (m + n), m + n)]
    return [level for level, count in blocks for _ in range(count)]


def test_the_curve_is_the_isotonic_regression(event: Event) -> None:
    picture = corp(event, PLAIN, level=0.9)
    np.testing.assert_allclose(_curve(picture, event.p), fit_isotonic(event.cells)(event.p), atol=1e-12)
    assert picture.blocks == len(picture.start)
    assert np.all(np.diff(picture.calibrated) > 0)
    assert np.all(picture.start <= picture.end)
    assert np.all(picture.end[:-1] < picture.start[1:])


def test_the_curve_is_that_by_hand() -> None:
    random = np.random.default_rng(2)
    p = random.random(40).tolist()
    y = (random.random(40) < p).astype(int).tolist()
    picture = corp(Event(np.array(p), np.array(y, np.int8)), PLAIN, level=0.9)
    np.testing.assert_allclose(_curve(picture, np.sort(p)), _pooled(p, y), atol=1e-12)


def test_the_curve_on_golden_rows_is_scikit_learn_s(golden_event: Event, golden: dict[str, list[float]]) -> None:
    picture = corp(golden_event, PLAIN, level=0.9)
    grid = np.linspace(0, 1, 1001)
    np.testing.assert_allclose(_curve(picture, grid), golden["isotonic_grid1001"], atol=1e-9)


def test_the_decomposition_adds_up(event: Event) -> None:
    w = np.random.default_rng(0).random(len(event))
    for weighted in (event, replace(event, w=w), replace(event, w=w, kind="importance")):
        picture = corp(weighted, PLAIN, level=0.9)
        of_rows = np.ones(len(event)) if weighted.w is None else weighted.w
        brier = np.average((event.p - event.y) ** 2, weights=of_rows)
        rate = np.average(event.y, weights=of_rows)
        assert picture.brier == pytest.approx(brier, abs=1e-12)
        assert picture.uncertainty == pytest.approx(rate * (1 - rate), abs=1e-12)
        whole = picture.miscalibration - picture.discrimination + picture.uncertainty
        assert whole == pytest.approx(brier, abs=1e-12)
        assert min(picture.miscalibration, picture.discrimination) > 0
        fitted = fit_isotonic(weighted.cells)(event.p)
        after = np.average((fitted - event.y) ** 2, weights=of_rows)
        assert picture.miscalibration == pytest.approx(brier - after, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "kind"), [(300, "plain"), (4000, "plain"), (3000, "importance"), (1500, "ties")])
def test_the_band_holds_the_curve_of_calibrated_labels_as_often_as_it_says(n: int, kind: str) -> None:
    random = np.random.default_rng(n)
    p = random.beta(0.7, 1.2, n)
    p = np.round(p, 2) if kind == "ties" else p
    w = random.exponential(size=n) if kind == "importance" else None
    event = Event(p, np.zeros(n, np.int8), w, "importance" if kind == "importance" else "frequency")
    picture = corp(event, Resampling(None, 400, 7), level=0.9)
    assert picture.band_p is not None
    assert picture.band_low is not None
    assert picture.band_high is not None
    inside = []
    for _ in range(150):
        drawn = corp(replace(event, y=(random.random(n) < p).astype(np.int8)), Resampling(None, 100, 0), level=0.9)
        curve = _curve(drawn, picture.band_p)
        inside.append((picture.band_low - 1e-9 <= curve) & (curve <= picture.band_high + 1e-9))
    share = np.mean(inside, axis=0)
    assert np.mean(share) == pytest.approx(0.9, abs=0.03)
    assert np.quantile(share, 0.1) > 0.8


def test_the_curve_of_uncalibrated_labels_leaves_the_band(event: Event) -> None:
    picture = corp(event, PLAIN, level=0.99)
    assert np.mean(_curve(picture, known(picture.band_p)) > known(picture.band_high)) > 0.3


def test_the_band_holds_the_diagonal(event: Event) -> None:
    picture = corp(event, PLAIN, level=0.9)
    assert picture.band_p is not None
    assert picture.band_low is not None
    within = (picture.band_low <= picture.band_p) & (picture.band_p <= known(picture.band_high))
    assert within[5:-5].all()
    wide = corp(event, PLAIN, level=0.99)
    assert np.all(known(wide.band_low) <= picture.band_low)


def test_the_band_is_the_seed_s(event: Event) -> None:
    first, again, other = (corp(event, Resampling(None, 100, seed), level=0.9).to_document() for seed in (1, 1, 2))
    assert first == again
    assert first["band_low"] != other["band_low"]


def test_certain_predictions_have_a_band_without_width() -> None:
    p = np.repeat([0.0, 1.0], 20)
    picture = corp(Event(p, p.astype(np.int8)), PLAIN, level=0.9)
    assert known(picture.band_low).tolist() == [0.0, 1.0]
    assert (picture.brier, picture.miscalibration, picture.discrimination) == (0.0, 0.0, 0.25)


def test_thinning_keeps_both_ends_and_no_more_than_asked() -> None:
    mass = np.random.default_rng(0).exponential(size=5000) ** 3
    places = thinned(np.append(0.0, np.cumsum(mass)), 100)
    assert (places[0], places[-1]) == (0, 4999)
    assert 50 < len(places) <= 100
    assert thinned(np.array([0.0, 1.0, 2.0]), 100).tolist() == [0, 1]
