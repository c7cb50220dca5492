from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import read_batch
from calibrant.core.options import Option
from calibrant.core.reductions import Event, subject
from calibrant.measures.catalogue import MEASURES, read_requests
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.measures.repeated import repeated

_WIDE = {"name": "ece", "binning": "equal-width", "closed": "right", "norm": 2, "as": "wide"}


@pytest.mark.parametrize("digits", [1, 2, 16])
@pytest.mark.parametrize("measure", ["ece", "ece-sweep", "ks", "ks-end", _WIDE])
def test_many_resamples_have_the_values_of_one_at_a_time(measure: object, digits: int) -> None:
    random = np.random.default_rng(digits)
    p = random.random(200).round(digits)
    y = (random.random(200) < p).astype(int)
    event = subject(read_batch(p, y), "binary")
    (request,) = read_requests([measure])  # type: ignore[list-item]
    rows = random.integers(0, 200, (20, 90))
    together, alone = repeated([request], event, {request.key: False})
    assert not alone
    expected = [request.compute(event.rows(own)).value for own in rows]
    assert together(rows)[request.key] == pytest.approx(expected, abs=1e-12)


def test_measures_share_resamples_of_each_class() -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), 150).round(2)
    p /= p.sum(axis=1, keepdims=True)
    classes = subject(read_batch(p, random.integers(0, 3, 150)), "classwise")
    requests = read_requests(["ece", "ece-sweep", "ks", "brier", _WIDE])
    rows = random.integers(0, 150, (10, 80))
    together, alone = repeated(requests, classes, {request.key: request.key == "ece" for request in requests})
    assert [request.key for request in alone] == ["brier"]
    found = together(rows)
    assert list(found) == ["ece", "ece-sweep", "ks", "wide"]
    for request in requests:
        if request.key in found:
            results = [request.compute(classes.rows(own)) for own in rows]
            expected = [result.debiased if request.key == "ece" else result.value for result in results]
            assert found[request.key] == pytest.approx(expected, abs=1e-12)


def test_weights_need_one_resample_at_a_time() -> None:
    event = subject(read_batch([0.1, 0.6, 0.7], [0, 1, 1], weights=[1.0, 2.0, 1.5]), "binary")
    requests = read_requests(["ece", "ks"])
    assert repeated(requests, event, {"ece": False, "ks": False})[1] == list(requests)


def _above(measure: Measure) -> Measure:
    """Return the measure with a new option: only rows with predictions above it count."""
    compute = measure.event
    assert compute is not None

    def event(rows: Event, resampling: Resampling, *, above: float, **options: Any) -> MeasureResult:
        return compute(rows.rows(np.flatnonzero(rows.p > above)), resampling, **options)

    options = {**measure.options, "above": Option(0.0, low=0.0, high=1.0, real=True)}
    return replace(measure, options=options, event=event, distance=None, influence=None)


@pytest.mark.parametrize("name", ["ece", "ece-sweep", "ks", "ks-end"])
def test_a_measure_with_a_new_option_is_right_between_groups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = _above(MEASURES[name])
    monkeypatch.setitem(vars(MEASURES)["_entries"], name, entry)
    monkeypatch.setitem(vars(MEASURES)["_entries"], "new", replace(entry, name="new"))
    random = np.random.default_rng(5)
    p, groups = random.random(120), np.repeat(["a", "b"], 60)
    y = (random.random(120) < np.where((p > 0.5) & (groups == "b"), p**3, p)).astype(int)
    requests = [{"name": of, "above": 0.5} for of in (name, "new")]
    report = calibrant.evaluate(p, y, groups=groups, measures=requests, interval=0.9, resamples=100, seed=1)
    gap, expected = (report.gaps or {})[name], (report.gaps or {})["new"]
    assert (gap.value, gap.p_value, gap.interval) == (expected.value, expected.p_value, expected.interval)
    without = calibrant.evaluate(p, y, groups=groups, measures=[name], interval=0.9, resamples=100, seed=1)
    assert gap.p_value != (without.gaps or {})[name].p_value


@pytest.mark.parametrize("value", [3, "median"])
def test_a_new_value_of_an_option_needs_one_resample_at_a_time(value: object) -> None:
    event = subject(read_batch([0.1, 0.6, 0.7, 0.2], [0, 1, 1, 0]), "binary")
    (request,) = read_requests(["ece"])
    changed = replace(request, options={**request.options, "norm": value})
    assert repeated([changed], event, {"ece": False})[1] == [changed]
