"""Laws of the options of measures: each way to compute a value uses every option."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import MEASURES
from calibrant.core.batch import read_batch
from calibrant.core.errors import CalibrationError
from calibrant.core.options import Option
from calibrant.core.reductions import Event, subject
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import MeasureRequest
from calibrant.measures.repeated import repeated

#: Values of options without choices that change something for a few hundred rows, as far as they are allowed.
NUMBERS = (1, 2, 3, 5, 10, 20, 40, 0.02, 0.1, 0.25, 0.5, 0.9, 1.5)
#: Options of distances that change nothing without another option, for one event, or but the p-value.
INDIRECT = {"block_size", "closed", "form", "law"}
INDIRECT_OF = {"decomposition": {"binning", "n_bins"}}
#: Measures whose influence takes fitted maps, or the rows without a decision, as given.
FITTED = ("recalibration-improvement", "selective-cost")
#: How far the gaps of intervals are from the value: those on a grid, with random features, or without a debiased value.
APPROXIMATE = {
    **dict.fromkeys(("smooth-ece", "kde-ece", "mmce", "ici", "e50", "e90", "emax"), 1e-3),
    "skce": 2e-3,
}


def values_of(option: Option) -> Iterator[Any]:
    """Other values than the default, which need no package, name or members."""
    for choice in (*option.choices, *NUMBERS):
        listed = [choice] if option.most else choice
        if choice is not None and listed != option.default and option.accepts(listed):
            yield listed


def variants(name: str) -> list[dict[str, Any]]:
    """Requests of a measure, each with one option that is not the default."""
    return [
        {"name": name, option: choice}
        for option, about in MEASURES[name].options.items()
        for choice in values_of(about)
    ]


def event_of(n: int, digits: int, seed: int, *, logits: bool = False) -> Event:
    """Rows of an event with ties, and bins with few rows."""
    random = np.random.default_rng(seed)
    p = random.beta(0.5, 1.2, n).round(digits)
    y = (random.random(n) < 0.1 + 0.7 * p).astype(int)
    batch = read_batch(np.log((p + 0.01) / (1.01 - p)), y, scale="logit") if logits else read_batch(p, y)
    event = subject(batch, "binary")
    assert isinstance(event, Event)
    return event


def request_of(chosen: dict[str, Any]) -> MeasureRequest:
    (request,) = read_requests([chosen])
    return request


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("name", [name for name in MEASURES if MEASURES[name].event is not None])
def test_resamples_at_once_have_the_values_of_one_at_a_time_with_every_option(name: str, logits: bool) -> None:
    event = event_of(120, 2, 0, logits=logits)
    rows = np.random.default_rng(1).integers(0, 120, (4, 90))
    for chosen in variants(name):
        request = request_of(chosen)
        together, alone = repeated([request], event, {request.key: False})
        if not alone:
            expected = [request.compute(event.rows(own)).value for own in rows]
            assert together(rows)[request.key] == pytest.approx(expected, abs=1e-12), chosen


@pytest.mark.slow
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize(
    "name", [name for name in MEASURES if MEASURES[name].distance is not None and MEASURES[name].event is not None]
)
def test_the_size_of_the_gaps_is_the_value_with_every_option(name: str, logits: bool) -> None:
    event = event_of(400, 3, 2, logits=logits)
    default = request_of({"name": name}).compute(event).value
    unchanged = set(MEASURES[name].options) - INDIRECT - INDIRECT_OF.get(name, set())
    for chosen in ({"name": name}, *variants(name)):
        request = request_of(chosen)
        measure = request.compute(event)
        if measure.value not in (None, default):
            unchanged -= set(chosen)
        if measure.value is not None:
            with contextlib.suppress(CalibrationError):  # these options have no gaps, and the interval is refused
                distance = request.distance_of(event, PLAIN)
                size = float(distance.size(distance.gap))
                assert size == pytest.approx(measure.value, abs=APPROXIMATE.get(name, 1e-9)), chosen
    assert not unchanged, "add values of these options that change the value to NUMBERS"


@pytest.mark.parametrize(
    ("name", "reduction"),
    [
        (name, reduction)
        for name, entry in MEASURES.items()
        for reduction, compute in (("binary", entry.event), ("canonical", entry.vector))
        if entry.influence is not None and compute is not None and name not in FITTED
    ],
)
def test_the_influence_of_a_row_is_the_derivative_by_its_weight_with_every_option(name: str, reduction: str) -> None:
    random = np.random.default_rng(4)
    P = random.dirichlet(np.ones(2 if reduction == "binary" else 3), 60).round(4)
    y = (random.random(60)[:, None] > P.cumsum(axis=1)).sum(axis=1).clip(0, P.shape[1] - 1)
    P = P[:, 1] if reduction == "binary" else P
    w, step = random.uniform(0.5, 1.5, 60), np.where(np.arange(60) == 17, 1e-4, 0.0)
    rows, more, fewer = (subject(read_batch(P, y, weights=own), reduction) for own in (w, w + step, w - step))
    for chosen in ({"name": name}, *variants(name)):
        request = request_of(chosen)
        if request.options.get("likelihood") != "firth":  # whose prior counts as rows that have no influence
            errors = [request.compute(of).value for of in (more, fewer)]
            slope = (errors[0] - errors[1]) / 2e-4 * w.sum()  # type: ignore[operator]
            assert slope == pytest.approx(request.influence_of(rows, PLAIN)[17], rel=1e-4, abs=1e-6), chosen


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MEASURES if MEASURES[name].better != "neither"])
def test_true_probabilities_are_not_worse_than_distorted_ones(name: str) -> None:
    """A ratio that is best at 1, for example, is neither better if it is smaller nor if it is larger."""
    entry, random = MEASURES[name], np.random.default_rng(3)
    truth = random.beta(1.0, 1.0, 1_500)
    y = (random.random(1_500) < truth).astype(int)
    reduction = "binary" if entry.event is not None else "canonical"
    true, *distorted = (
        calibrant.evaluate(truth**power, y, measures=[name], reduction=reduction, interval=None)[name].value
        for power in (1.0, 0.5, 2.0)
    )
    for loss in distorted:
        if true is not None and loss is not None:
            assert loss - true >= -1e-3 if entry.better == "smaller" else true - loss >= -1e-3
