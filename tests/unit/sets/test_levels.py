"""Set maps that keep scores give sets at other levels, and follow a stream."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from tests.refusals import refused_at

RANDOM = np.random.default_rng(80)
PROBS = RANDOM.dirichlet(np.ones(4), 500)
LABELS = np.array([RANDOM.choice(4, p=row) for row in PROBS])
METHODS: dict[str, dict[str, Any]] = {"lac": {}, "aps": {}, "raps": {"penalty": 0.1, "k_reg": 1}}


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("method", METHODS)
def test_a_map_at_another_level_is_the_one_that_is_fitted_at_it(method: str, scale: Any) -> None:
    scores = PROBS if scale == "probability" else np.log(PROBS)
    options = METHODS[method] | {"method": method, "scale": scale}
    fitted = calibrant.fit_sets(scores, LABELS, adjustable=True, **options)
    for alpha in (0.01, 0.1, 0.37, 0.9):
        other = calibrant.fit_sets(scores, LABELS, alpha=alpha, **options)
        assert np.array_equal(fitted.at(alpha).apply(scores).members, other.apply(scores).members)
    assert fitted.at(0.0).apply(scores).members.all()
    assert fitted.at(-3.0).apply(scores).members.all()
    assert fitted.at(-1e308).apply(scores).members.all()
    assert not fitted.at(1e308).apply(scores).members.any()
    assert fitted.at(1e-9).apply(scores).members.all()
    assert not fitted.at(1.0).apply(scores).members.any()
    assert not fitted.at(7.5).apply(scores).members.any()


@pytest.mark.parametrize("method", METHODS)
def test_documents_keep_the_scores(method: str) -> None:
    fitted = calibrant.fit_sets(PROBS, LABELS, method=method, adjustable=True, **METHODS[method])
    for alpha in (0.1, -1.0, 2.0):
        again = calibrant.load_sets(json.loads(json.dumps(fitted.at(alpha).to_document())))
        assert again == fitted.at(alpha)
        assert again.at(0.1) == fitted


def test_many_rows_keep_a_thousand_scores_whose_levels_are_safe() -> None:
    p = np.random.default_rng(1).random(20_000)
    y = (np.random.default_rng(2).random(20_000) < p).astype(int)
    fitted = calibrant.fit_sets(p, y, adjustable=True)
    assert len(fitted.to_document()["parameters"]["scores"]["ranks"]) <= 1000
    for alpha in (0.0005, 0.05, 0.123, 0.5):
        exact = calibrant.fit_sets(p, y, alpha=alpha).function.thresholds[0]
        assert exact * 0.9 - 0.02 <= fitted.at(alpha).function.thresholds[0] <= exact


BAD: dict[str, Any] = {
    "no object": 3,
    "no ranks": {"n": 2, "values": [0.1, 0.2]},
    "fewer values": {"n": 2, "ranks": [1, 2], "values": [0.1]},
    "ranks that fall": {"n": 2, "ranks": [2, 1], "values": [0.1, 0.2]},
    "values that fall": {"n": 2, "ranks": [1, 2], "values": [0.2, 0.1]},
    "ranks above n": {"n": 2, "ranks": [1, 3], "values": [0.1, 0.2]},
    "ranks that are not whole": {"n": 2, "ranks": [1.5, 2], "values": [0.1, 0.2]},
    "no last rank": {"n": 3, "ranks": [1, 2], "values": [0.1, 0.2]},
    "n that is not whole": {"n": 2.5, "ranks": [1, 2], "values": [0.1, 0.2]},
    "text": {"n": 2, "ranks": ["1", 2], "values": [0.1, 0.2]},
    "too many": {"n": 1001, "ranks": list(range(1, 1002)), "values": [0.1] * 1001},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_scores_of_a_document_are_refused_with_their_place(name: str) -> None:
    document = calibrant.fit_sets(PROBS, LABELS, adjustable=True).to_document()
    document["parameters"]["scores"] = BAD[name]
    with refused_at("/parameters/scores", CalibrationError, below=True):
        calibrant.load_sets(document)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("conditional", ["class", "group"])
def test_every_threshold_has_its_own_scores(method: str, conditional: str) -> None:
    groups = ["a", "b", "a"] * (len(LABELS) // 3) + ["b"] * (len(LABELS) % 3) if conditional == "group" else None
    options: dict[str, Any] = METHODS[method] | {"method": method, "conditional": conditional, "groups": groups}
    fitted = calibrant.fit_sets(PROBS, LABELS, adjustable=True, **options)
    again = calibrant.load_sets(json.loads(json.dumps(fitted.to_document())))
    for alpha in (0.1, 0.37, 0.8):
        other = calibrant.fit_sets(PROBS, LABELS, alpha=alpha, **options)
        sets = again.at(alpha).apply(PROBS, groups=groups)
        assert np.array_equal(sets.members, other.apply(PROBS, groups=groups).members)
    assert fitted.at(0.0).apply(PROBS, groups=groups).members.all()
    assert not fitted.at(1.0).apply(PROBS, groups=groups).members.any()
    document = fitted.to_document()
    document["parameters"]["scores"] = document["parameters"]["scores"][:1]
    with refused_at("/parameters/scores", CalibrationError):
        calibrant.load_sets(document)


def test_a_class_without_rows_is_in_every_set_at_every_level_below_1() -> None:
    p, y = PROBS[LABELS != 3], LABELS[LABELS != 3]
    fitted = calibrant.fit_sets(p, y, conditional="class", adjustable=True)
    assert fitted.at(0.9).apply(p).members[:, 3].all()
    assert not fitted.at(1.0).apply(p).members[:, 3].any()
    assert calibrant.load_sets(json.loads(json.dumps(fitted.to_document()))) == fitted


def test_many_thresholds_keep_fewer_scores_each() -> None:
    random = np.random.default_rng(6)
    p, labels = random.dirichlet(np.ones(60), 30_000).astype(np.float32), np.arange(30_000) % 60
    fitted = calibrant.fit_sets(p, labels, conditional="class", adjustable=True)
    tables = fitted.to_document()["parameters"]["scores"]
    assert {len(table["ranks"]) for table in tables} == {333}
    exact = calibrant.fit_sets(p, labels, conditional="class", alpha=0.2).function.thresholds
    assert (fitted.at(0.2).function.thresholds <= exact).all()


def test_levels_that_are_no_numbers_and_maps_without_scores_are_refused() -> None:
    with pytest.raises(CalibrationError, match="adjustable"):
        calibrant.fit_sets(PROBS, LABELS, conditional="cluster", adjustable=True)
    with pytest.raises(CalibrationError, match="adjustable"):
        calibrant.fit_sets(PROBS, LABELS).at(0.2)
    fitted = calibrant.fit_sets(PROBS, LABELS, adjustable=True)
    for alpha in (None, "0.1", float("nan"), float("inf"), True, [0.1], 10**400, np.array([0.1])):
        with refused_at("/alpha", CalibrationError):
            fitted.at(alpha)  # type: ignore[arg-type]


@pytest.mark.parametrize("delay", [0, 7])
def test_the_misses_of_a_stream_are_within_the_bound_even_if_the_labels_are_adverse(delay: int) -> None:
    fitted = calibrant.fit_sets(PROBS, LABELS, adjustable=True)
    state = calibrant.start_adaptive(0.1, gamma=0.05)
    random, waiting = np.random.default_rng(3), list[bool]()
    for t in range(600):
        (members,) = fitted.at(state.value).apply(random.dirichlet(np.ones(4), 1)).members
        adverse = (t // 150) % 2 == 0  # a class outside the set if there is one, then one inside
        covered = bool(members.all()) if adverse else bool(members.any())
        waiting.append(covered)
        if len(waiting) > delay:
            state = state.update(waiting.pop(0))
        if state.labels and state.error is not None:
            assert abs(state.error - 0.1) <= state.bound(delay) + 1e-12
