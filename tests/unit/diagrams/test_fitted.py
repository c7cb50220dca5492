from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Event
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.diagrams.fitted import FittedCurve, fitted_curve
from calibrant.measures.catalogue import read_requests
from calibrant.measures.fitted import EVALUATORS
from calibrant.measures.intervals import PLAIN
from tests.refusals import refused_at
from tests.rows import draw_event


def _drawn(event: Event, method: str, level: float = 0.95) -> FittedCurve:
    return fitted_curve(event, PLAIN, method=method, folds=5, level=level, options={})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["platt", "beta", "isotonic", "pl", "pl3", "averaged"])
def test_the_curve_and_its_errors_are_those_of_the_map(event: Event, method: str) -> None:
    few = event.rows(np.arange(0, 2000, 3))
    picture = _drawn(few, method)
    options: dict[str, Any] = {"folds": 5} if method in ("pl", "pl3", "averaged") else {}
    fitted = calibrant.fit(method, few.p, few.y, **options)
    np.testing.assert_allclose(picture.calibrated, fitted.apply(picture.predictions), atol=1e-12)
    assert picture.alpha_1 == pytest.approx(np.mean(np.abs(fitted.apply(few.p) - few.p)), abs=1e-12)
    assert picture.alpha_2 == pytest.approx(np.mean((fitted.apply(few.p) - few.p) ** 2), abs=1e-12)
    measure = read_requests([{"name": f"ece-{method}", "folds": 5}])[0].compute(few)
    assert picture.alpha_1_debiased == pytest.approx(measure.debiased, abs=1e-12)
    assert picture.family == fitted.curve.family
    if method in ("isotonic", "averaged"):
        assert picture.parameters is None
    else:
        assert picture.parameters == fitted.curve.parameters()
    assert (picture.predictions[0], picture.predictions[-1]) == (few.p.min(), few.p.max())


@pytest.mark.slow
def test_the_band_lies_about_the_map_and_holds_the_truth() -> None:
    random = np.random.default_rng(1)
    held = []
    for _ in range(20):
        c = random.random(1500)
        event = Event(c**1.5, (random.random(1500) < c).astype(np.int8))
        picture = _drawn(event, "platt", level=0.9)
        assert picture.low is not None
        assert picture.high is not None
        assert np.all((picture.low <= picture.calibrated) & (picture.calibrated <= picture.high))
        true = picture.predictions ** (1 / 1.5)
        held.append(np.mean((picture.low <= true) & (true <= picture.high)))
    assert 0.8 < np.mean(held) < 0.99


def test_a_higher_level_makes_a_wider_band(event: Event) -> None:
    narrow, wide = (_drawn(event, "isotonic", level=level) for level in (0.5, 0.99))
    for picture in (narrow, wide):
        assert picture.low is not None
        assert picture.high is not None
    assert narrow.low is not None
    assert wide.low is not None
    assert np.all(wide.low <= narrow.low)
    assert wide.low.mean() < narrow.low.mean() - 0.01


def test_dependent_rows_have_no_band(event: Event) -> None:
    picture = _drawn(replace(event, per_row=2), "platt")
    assert picture.low is None
    assert picture.problem is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("histogram", {"n_bins": 4}),
        ("pl-de", {"degree": 2, "segments": 2}),
        ("pl", {"loss": "brier", "final": "refit", "tolerance": 0.0}),
        ("iop-oi", {"n_knots": 3}),
        ("pl3", {"candidates": [3, 1]}),
        ("averaged", {"candidates": [2], "keep_order": True}),
    ],
)
def test_options_of_the_fit_are_those_of_the_measure(method: str, options: dict[str, Any]) -> None:
    p, y = draw_event(500, 4, 1.5)
    request = {"name": "fit-on-test", "method": method, "folds": 5, "options": options}
    measure = {"name": f"ece-{method}", "folds": 5, **options}
    report = calibrant.evaluate(p, y, measures=[measure], diagrams=[request])
    shown = report.diagrams["fit-on-test"]
    assert options.items() <= shown["definition"]["options"].items()
    assert json.loads(json.dumps(shown["definition"])) == shown["definition"]
    assert shown["data"]["alpha_1"] == pytest.approx(report[f"ece-{method}"].value, abs=1e-12)
    with refused_at("/diagrams/0/options", InvalidOption):
        read_diagrams([request | {"options": {"width": 3}}])


@pytest.mark.slow
@pytest.mark.parametrize(("method", "folds"), [("iop-op", 3), ("iop-oi", 3), ("mli-spline", 5), ("isotonic", 10)])
def test_folds_are_by_default_those_of_the_method(method: str, folds: int) -> None:
    p, y, _ = calibrant.shaped_predictions(1000, shape="beta2", error=0.05, seed=1)
    variants: list[dict[str, Any]] = [{"as": "default"}, {"as": "null", "folds": None}]
    requests = [{"name": "fit-on-test", "method": method, **variant} for variant in variants]
    report = calibrant.evaluate(p, y, measures=[f"ece-{method}"], diagrams=requests)
    assert report.diagrams["default"]["definition"]["folds"] == folds
    assert report.diagrams["default"]["data"]["alpha_1"] == pytest.approx(report[f"ece-{method}"].value, abs=1e-12)
    assert report.diagrams["null"]["data"] == report.diagrams["default"]["data"]


@pytest.mark.parametrize("name", ["fit-on-test", "logit-logit"])
def test_every_method_has_the_default_folds_of_its_measure(name: str) -> None:
    for method in EVALUATORS:
        (request,) = read_diagrams([{"name": name, "method": method}])
        assert request.options["folds"] == calibrant.MEASURES[f"ece-{method}"].options["folds"].default
