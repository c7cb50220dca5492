"""Every measure and every fit answers, or refuses by an error of its own, whatever the data are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.core.errors import CalibrationError
from tests.drawn import examples

# Drawn predictions may look like those of the other class.
pytestmark = pytest.mark.filterwarnings("ignore:predictions are clearly lower")

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

#: Predictions at and next to the ends of [0, 1], and plain ones.
EDGES = [0.0, 5e-324, 1e-300, 2.0**-53, 2.0**-52, 0.1, 0.5, 0.9, 1.0 - 2.0**-52, 1.0 - 2.0**-53, 1.0]
#: Logits of which exponentials and squares overflow or vanish.
LOGITS = [-1e300, -1e155, -800.0, -40.0, -1e-300, 0.0, 1e-9, 1.0, 40.0, 800.0, 1e155, 1e300]
#: How predictions follow from labels: they separate them, to the last digit or by a margin, or get each of them wrong.
LED: dict[str, Callable[[Array], Array]] = {
    "exact": lambda truth: truth,
    "separated": lambda truth: 0.1 + 0.8 * truth,
    "nearly exact": lambda truth: np.where(truth > 0.0, 1.0 - 1e-9, 1e-9),
    "wrong": lambda truth: 1.0 - truth,
}
REDUCTIONS = ("confidence", "pooled", "classwise", "canonical", "class:1", "top:2", "within-top:2")
#: Jobs that take minutes for some of these data.
LONG = {"pl-de", "pl", "pl3", "averaged"}
MEASURES = [name for name, entry in calibrant.MEASURES.items() if entry.runs == "inline"]
METHODS = [name for name in calibrant.METHODS if name not in LONG]
#: Measures that fit a method and compare its map with the predictions.
OF_FITS = [name for name in MEASURES if name.removeprefix("ece-") in METHODS]
OTHERS = [name for name in MEASURES if name not in OF_FITS]

rows = st.integers(1, 30)


@st.composite
def events(draw: st.DrawFn) -> tuple[Array, Labels, dict[str, Any]]:
    """Predictions of an event, its labels, and how they are given."""
    n = draw(rows) * draw(st.sampled_from([1, 4]))
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    y = random.integers(0, 2, n) if draw(st.booleans()) else np.arange(n) % 2
    if draw(st.integers(0, 5)) == 0:
        y = np.full(n, draw(st.integers(0, 1)))
    kind = draw(st.sampled_from(["edges", "logits", "constant", "tied", "plain", *LED]))
    if kind in LED:
        return LED[kind](y.astype(np.float64)), y, _weights(draw, n)
    if kind == "logits":
        return random.choice(LOGITS, n), y, {"scale": "logit", **_weights(draw, n)}
    given_ = {
        "edges": random.choice(EDGES, n),
        "constant": np.full(n, draw(st.sampled_from(EDGES))),
        "tied": random.choice([0.2, 0.5, 0.7], n),
        "plain": random.random(n),
    }
    return given_[kind], y, _weights(draw, n)


@st.composite
def vectors(draw: st.DrawFn) -> tuple[Array, Labels, dict[str, Any]]:
    """Predictions of three classes, their labels, and how they are given."""
    n = draw(rows) * draw(st.sampled_from([1, 4]))
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    y = random.integers(0, 3, n) if draw(st.booleans()) else np.arange(n) % 3
    if draw(st.integers(0, 5)) == 0:
        y = np.full(n, draw(st.integers(0, 2)))
    hot = np.eye(3)[y]
    kind = draw(
        st.sampled_from(["logits", "right logits", "constant", "one class", "votes", "plain", "right", "wrong"])
    )
    given_ = {
        "logits": random.choice(LOGITS, (n, 3)),
        "right logits": draw(st.sampled_from([1e-9, 30.0, 1e4])) * hot,
        "constant": np.full((n, 3), 1.0 / 3.0),
        "one class": np.tile([1.0, 0.0, 0.0], (n, 1)),
        "votes": random.multinomial(3, [0.2, 0.3, 0.5], n) / 3.0,
        "plain": random.dirichlet(np.ones(3), n),
        "right": hot,
        "wrong": np.roll(hot, 1, axis=1),
    }
    kind = draw(st.sampled_from(sorted(given_)))
    scale = {"scale": "logit"} if "logits" in kind else {}
    return given_[kind], y, {**scale, **_weights(draw, n)}


def _weights(draw: st.DrawFn, n: int) -> dict[str, Any]:
    kind = draw(st.sampled_from(["none", "whole", "importance"]))
    if kind == "none":
        return {}
    if kind == "whole":
        return {"weights": np.arange(n) % 3, "weights_kind": "frequency"}
    return {"weights": np.logspace(-3.0, 3.0, n), "weights_kind": "importance"}


def _measured(name: str, batch: tuple[Array, Labels, dict[str, Any]], reduction: str | None) -> None:
    predictions, labels, options = batch
    try:
        report = calibrant.evaluate(predictions, labels, measures=[name], reduction=reduction, **options)
    except CalibrationError:
        return
    for measure in report.measures.values():
        for number in (measure.value, measure.debiased, measure.p_value):
            assert number is None or not np.isnan(number), name


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
@given(events())
@settings(max_examples=examples(10, 600))
def test_every_measure_of_an_event_answers_or_refuses(name: str, batch: tuple[Array, Labels, dict[str, Any]]) -> None:
    _measured(name, batch, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
@given(vectors(), st.sampled_from(REDUCTIONS))
@settings(max_examples=examples(10, 600))
def test_every_measure_of_a_vector_answers_or_refuses(
    name: str, batch: tuple[Array, Labels, dict[str, Any]], reduction: str
) -> None:
    _measured(name, batch, reduction)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_FITS)
@given(st.tuples(events(), st.none()) | st.tuples(vectors(), st.sampled_from(REDUCTIONS)))
@settings(max_examples=examples(8, 1200))
def test_every_error_of_a_fit_answers_or_refuses(
    name: str, case: tuple[tuple[Array, Labels, dict[str, Any]], str | None]
) -> None:
    """The laws of the fits below draw more data for the maps themselves."""
    _measured(name, *case)


def _fitted(name: str, batch: tuple[Array, Labels, dict[str, Any]]) -> None:
    predictions, labels, options = batch
    if name == "prior-shift":
        options = options | {
            "class_weights": np.geomspace(1e-9, 1e9, predictions.shape[1] if predictions.ndim == 2 else 2).tolist()
        }
    try:
        calibrated = calibrant.fit(name, predictions, labels, **options).apply(predictions)
    except CalibrationError:
        return
    assert np.isfinite(calibrated).all()
    assert calibrated.min() >= 0.0
    assert calibrated.max() <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@given(events())
@settings(max_examples=examples(10, 600))
def test_every_fit_to_an_event_is_a_map_or_refused(name: str, batch: tuple[Array, Labels, dict[str, Any]]) -> None:
    _fitted(name, batch)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@given(vectors())
@settings(max_examples=examples(10, 600))
def test_every_fit_to_a_vector_is_a_map_or_refused(name: str, batch: tuple[Array, Labels, dict[str, Any]]) -> None:
    _fitted(name, batch)


#: Predictions in ascending order, at the edges, next to them and between, and the logits of the inner ones.
ASCENDING = np.unique([*EDGES, 1e-15, 1e-9, 1e-3, 1 - 1e-3, 1 - 1e-9, 1 - 1e-15, *np.linspace(0.01, 0.99, 99)])


@pytest.mark.slow
@given(events())
@settings(max_examples=examples(10, 600))
def test_the_default_map_of_an_event_never_decreases(batch: tuple[Array, Labels, dict[str, Any]]) -> None:
    predictions, labels, options = batch
    try:
        fitted = calibrant.fit("averaged", predictions, labels, **options)
    except CalibrationError:
        return
    calibrated = fitted.apply(np.sort(LOGITS) if "scale" in options else ASCENDING)
    assert np.all(np.diff(calibrated) >= 0.0)
    order = np.argsort(predictions, kind="stable")
    assert np.all(np.diff(fitted.apply(predictions[order])) >= 0.0)
