from __future__ import annotations

import numpy as np
import pytest

from calibrant.batch import read_batch
from calibrant.measures.catalogue import read_requests
from calibrant.measures.repeated import repeated
from calibrant.reductions import subject

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
