"""An option of a request to calibrate changes the answer, or is refused: none is ignored by a kind of map."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from schemas.base import Document
from schemas.maps import CalibrateDistributionOptions, CalibrateOptions, InOrder, InOrderOptions
from tests.integration.responses import body_of

RANDOM = np.random.default_rng(6)
N = 60
P = RANDOM.uniform(0.05, 0.95, N).round(3)
Y = (RANDOM.random(N) < P**1.5).astype(int)
PROBS = RANDOM.dirichlet(np.ones(3), N).round(3)
PROBS[:, 2] = 1.0 - PROBS[:, 0] - PROBS[:, 1]
CLASSES = [int(RANDOM.choice(3, p=row / row.sum())) for row in np.abs(PROBS)]
SITE = ["a" if i % 3 else "b" for i in range(N)]
LABELS = (RANDOM.random((N, 3)) < 0.5).astype(int)
MEANS: dict[str, Any] = {"mean": P.tolist(), "variance": [0.25] * N}
QUANTILES: dict[str, Any] = {
    "levels": [0.1, 0.5, 0.9],
    "quantiles": [[p - 0.5, p, p + 0.5] for p in P.round(1).tolist()],
}
INTERVALS: dict[str, Any] = {"level": 0.8, "lower": (P / 2.0).round(1).tolist(), "upper": (P + 0.5).round(1).tolist()}
OBSERVED = RANDOM.normal(P, 0.5).round(1)
IN_ORDER = {
    "prediction_kind": "regression",
    **INTERVALS,
    "observed": OBSERVED.clip(0.0).tolist(),
    "times": [str(i) for i in range(N)],
    "known": [str(i + 1) for i in range(N)],
}

#: Options that name what is calibrated, and by what.
NAMES = {"prediction_kind", "map", "batch", "in_order"}
#: Another value than the default of each other option.
VALUES: dict[str, Any] = {"scale": "logit", "bounds": True, "seed": 3, "alpha": 0.15}
VALUES_OF_FORECASTS: dict[str, Any] = {"level": 0.7, "seed": 3}
VALUES_IN_ORDER: dict[str, Any] = {"half_life": 3.0, "shift": 0.2, "widen": 0.1, "narrow": 1.5, "support": [0.0, None]}
VALUES_IN_ORDER |= {"scale": "log1p"}
#: The seed has a default, so that clients may send it with every map; only intervals with ties at random use it.
IGNORED = {("means", "seed"), ("quantiles", "seed")}


def _maps() -> dict[str, tuple[Any, dict[str, Any]]]:
    """A map of each kind, and a request with rows for it."""
    event, vectors = {"predictions": P.tolist()}, {"predictions": PROBS.tolist()}
    features: dict[str, Any] = {"features": {"site": SITE}}
    regression = {"prediction_kind": "regression"}
    random_sets = calibrant.fit_sets(PROBS, CLASSES, alpha=0.3, method="aps", randomised=True)
    ties = calibrant.fit_distribution("conformal", OBSERVED, ties="random", **INTERVALS)
    return {
        "event": (calibrant.fit("platt", P, Y), event),
        "bounds": (calibrant.fit("venn-abers", P, Y), event),
        "classes": (calibrant.fit("temperature", PROBS, CLASSES), vectors),
        "features": (calibrant.fit("segments", P, Y, **features), event | features),
        "sets": (calibrant.fit_sets(PROBS, CLASSES, alpha=0.3, method="lac", adjustable=True), vectors),
        "random sets": (random_sets, vectors | {"seed": 1}),
        "labels": (calibrant.fit_sets(PROBS, LABELS, alpha=0.3, method="crc"), vectors),
        "means": (calibrant.fit_distribution("variance-scaling", OBSERVED, **MEANS), regression | MEANS),
        "quantiles": (calibrant.fit_distribution("location-scale", OBSERVED, **QUANTILES), regression | QUANTILES),
        "intervals": (ties, regression | INTERVALS),
    }


def _values(rows: dict[str, Any]) -> dict[str, Any]:
    return VALUES_OF_FORECASTS if "prediction_kind" in rows else VALUES


def test_every_option_has_another_value() -> None:
    models: dict[type[Document], dict[str, Any]] = {
        CalibrateOptions: VALUES,
        CalibrateDistributionOptions: VALUES_OF_FORECASTS,
        InOrder: VALUES_IN_ORDER,
    }
    for model, choices in models.items():
        assert model.model_fields.keys() - NAMES == choices.keys()
    assert InOrderOptions.model_fields.keys() - NAMES == {"level"}


@pytest.fixture(scope="module")
def maps() -> dict[str, tuple[Any, dict[str, Any]]]:
    return _maps()


def test_an_option_changes_the_answer_or_is_refused(
    http: httpx.Client, maps: dict[str, tuple[Any, dict[str, Any]]]
) -> None:
    ignored, used = set[tuple[str, str]](), set[tuple[str, str]]()
    for kind, (fitted, rows) in maps.items():
        stored = body_of(http.post("/maps/import", json={"document": fitted.to_document()}), 201)
        body = {"map": stored["id"], **rows}
        before = body_of(http.post("/calibrate", json=body))
        for option, choice in _values(rows).items():
            answer = http.post("/calibrate", json=body | {option: choice})
            if answer.is_success:
                (ignored if answer.json() == before else used).add((kind, option))
    assert ignored == IGNORED
    assert {("bounds", "bounds"), ("sets", "alpha"), ("random sets", "seed"), ("intervals", "seed")} <= used


def test_every_option_of_the_order_of_time_changes_the_answer(http: httpx.Client) -> None:
    how = {"half_life": 10.0}
    before = body_of(http.post("/calibrate", json=IN_ORDER | {"in_order": how}))
    for option, choice in VALUES_IN_ORDER.items():
        assert body_of(http.post("/calibrate", json=IN_ORDER | {"in_order": how | {option: choice}})) != before, option
