"""Rows in the types that callers have, in every public function that takes predictions and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant.core.errors import InvalidLabel, InvalidOption, UnusableRows
from tests.commands import printed_by
from tests.refusals import refused_at

RANDOM = np.random.default_rng(0)
Q = RANDOM.random(400)
Y = (RANDOM.random(400) < Q).astype(int)
P = Q**1.5
MATRIX = RANDOM.dirichlet(np.ones(3), 400)
CLASSES = np.array([RANDOM.choice(3, p=row) for row in MATRIX])
NAMES = ["bird", "cat", "dog"]


def _by_size(p: Any, y: Any, **options: Any) -> Any:
    return calibrant.measure_by_size(p, y, measures=["ece"], start=50, start_repetitions=2, **options).curves


def _cost_plane(p: Any, y: Any, **options: Any) -> Any:
    return calibrant.cost_plane(p, p, y, abstention=[0.0], cost_ratios=[2.0], **options).first.tolist()


def _decision_curve(p: Any, y: Any, **options: Any) -> Any:
    return calibrant.decision_curve(p, y, thresholds=[0.2, 0.5], **options).to_dict()


def _threshold(p: Any, y: Any, **options: Any) -> Any:
    return calibrant.best_threshold(p, y, costs=(1, 3), **options).to_dict()


@pytest.mark.parametrize(
    ("function", "pointer"),
    [
        (lambda p, y, m, **o: calibrant.evaluate(p, y, map=m, **o), "/map"),
        (lambda p, y, m, **o: calibrant.compare(p, y, {"a": m}, resamples=100, **o), "/maps/0"),
        (lambda p, y, m, **o: calibrant.report(p, y, map=m, **o), "/map"),
        (lambda p, y, m, **o: calibrant.measure_by_size(p, y, map=m, **o), "/map"),
    ],
)
def test_a_map_of_other_classes_than_the_rows_is_refused(function: Any, pointer: str) -> None:
    labels = np.array(["ham", "spam"])[Y]
    fitted = calibrant.fit("platt", P, labels, pos_label="spam")
    with refused_at(pointer, InvalidOption, match="has the classes 'ham', 'spam', but the rows have 'spam', 'ham'"):
        function(1 - P, labels, fitted, pos_label="ham")
    several = calibrant.fit("temperature", MATRIX, CLASSES, class_names=NAMES)
    with pytest.raises(InvalidOption, match="'bird', 'cat', 'dog', but the rows have 'dog', 'cat', 'bird'"):
        function(MATRIX[:, ::-1], np.array(NAMES)[CLASSES], several, class_names=NAMES[::-1])


def test_a_single_label_does_not_contradict_the_classes_of_a_map() -> None:
    fitted = calibrant.fit("platt", P, np.array(["ham", "spam"])[Y], pos_label="spam")
    report = calibrant.evaluate(P[Y == 1], ["spam"] * int(Y.sum()), pos_label="spam", map=fitted)
    assert report.class_names == ("ham", "spam")


def _tally(p: Any, y: Any, **options: Any) -> Any:
    return calibrant.tally(p, y, **options).to_bytes()


def _estimator(p: Any, y: Any, **options: Any) -> Any:
    estimator = calibrant.fit_performance_estimator(p, y, windows=2, **options)
    return estimator.realised(estimator.estimate(p), p, y).to_dict()


def _label_shift(p: Any, y: Any, **options: Any) -> Any:
    return calibrant.estimate_label_shift(p, y, p, method="multinomial", **options).to_dict()


def _stream(p: Any, y: Any, **options: Any) -> Any:
    return calibrant.follow_stream(p[:50], y[:50], **options).probabilities.tolist()


OF_ONE_EVENT: list[Callable[..., Any]] = [
    _by_size,
    _cost_plane,
    _decision_curve,
    _threshold,
    _tally,
    _estimator,
    _stream,
]
OF_CLASSES: list[Callable[..., Any]] = [
    _by_size,
    _cost_plane,
    _decision_curve,
    _threshold,
    _tally,
    _estimator,
    _label_shift,
]


@pytest.mark.parametrize("function", OF_ONE_EVENT)
def test_a_series_with_another_index_than_the_labels_is_refused(function: Callable[..., Any]) -> None:
    shuffled = pd.Series(P).sample(frac=1.0, random_state=0)
    with pytest.raises(UnusableRows, match="predictions and labels have different indexes"):
        function(shuffled, pd.Series(Y))


@pytest.mark.parametrize("function", OF_ONE_EVENT)
def test_swapped_arguments_are_recognised(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidLabel, match="predictions are the first argument"):
        function(Y, P)


@pytest.mark.parametrize("function", OF_ONE_EVENT)
def test_a_positive_label_may_be_a_string(function: Callable[..., Any]) -> None:
    assert function(P, np.array(["no", "yes"])[Y], pos_label="yes") == function(P, Y)


@pytest.mark.parametrize("function", OF_CLASSES)
def test_labels_may_be_named(function: Callable[..., Any]) -> None:
    event = {"reduction": "confidence"} if function in (_decision_curve, _threshold) else {}
    expected, named = function(MATRIX, CLASSES, **event), np.array(NAMES)[CLASSES]
    assert function(MATRIX, named, class_names=NAMES, **event) == expected
    assert function(pd.DataFrame(MATRIX, columns=NAMES), named, **event) == expected


@pytest.mark.parametrize("function", [_by_size, _cost_plane, _decision_curve, _threshold, _tally])
def test_a_class_of_a_reduction_may_be_named(function: Callable[..., Any]) -> None:
    named = np.array(NAMES)[CLASSES]
    expected = function(MATRIX, CLASSES, reduction="class:1")
    parts = function(MATRIX, named, class_names=NAMES, reduction="class:cat")
    if function is _by_size:
        parts, expected = list(parts.values()), list(expected.values())
    assert parts == expected


@pytest.mark.parametrize("function", [_by_size, _cost_plane, _decision_curve, _threshold, _tally, _estimator])
def test_weights_have_two_names(function: Callable[..., Any]) -> None:
    weights = np.arange(400) % 2 + 1
    assert function(P, Y, sample_weight=weights) == function(P, Y, weights=weights)
    with pytest.raises(InvalidOption, match="another name of weights"):
        function(P, Y, sample_weight=weights, weights=weights)


def test_a_tally_takes_the_groups_of_an_evaluation() -> None:
    groups = np.array(["a", "b"])[Y]
    expected = calibrant.tally(P, Y, groups=list(groups))
    assert calibrant.tally(P, Y, groups=pd.Series(groups)).to_bytes() == expected.to_bytes()
    assert calibrant.tally(P, Y, groups=pd.Series(groups).where(Y == 1, None)).groups == ("b",)
    with pytest.raises(UnusableRows, match="groups"):
        calibrant.tally(pd.Series(P), Y, groups=pd.Series(groups, index=range(1, 401)))


def test_a_round_of_a_stream_may_have_named_labels() -> None:
    online = calibrant.start_online()
    first, other = (
        online.update([0.2, 0.7], [0, 1]),
        online.update([0.2, 0.7], ["no", "yes"], class_names=["no", "yes"]),
    )
    assert first.to_document() == other.to_document()


def test_an_estimator_keeps_the_names_of_the_classes() -> None:
    named = pd.DataFrame(MATRIX, columns=NAMES)
    estimator = calibrant.fit_performance_estimator(named, np.array(NAMES)[CLASSES], windows=2)
    assert estimator.class_names == tuple(NAMES)
    assert estimator.estimate(named[NAMES[::-1]]).to_dict() == estimator.estimate(MATRIX).to_dict()


def test_forecasts_with_another_index_than_the_outcomes_are_refused() -> None:
    observed, ones = pd.Series(Q), np.ones(400)
    rows = {"mean": pd.Series(P).sample(frac=1.0, random_state=0), "variance": ones}
    calls: list[Callable[[], Any]] = [
        lambda: calibrant.fit_distribution("variance-platt", observed, **rows),
        lambda: calibrant.recalibrate_in_order(observed, range(400), range(1, 401), half_life=9.0, **rows),
        lambda: calibrant.report_distribution(observed, **rows),
        lambda: calibrant.compare_distributions(observed, {"a": {"mean": observed, "variance": ones}, "b": rows}),
    ]
    for call in calls:
        with pytest.raises(UnusableRows, match="observed and mean have different indexes"):
            call()


@pytest.mark.parametrize("name", ["made", "known", "horizon"])
def test_times_with_another_index_than_the_outcomes_are_refused(name: str) -> None:
    times: dict[str, Any] = {"made": pd.Series(range(400)), "known": range(1, 401), "horizon": pd.Series(np.ones(400))}
    times[name] = pd.Series(times[name]).sample(frac=1.0, random_state=0)
    with pytest.raises(UnusableRows, match=f"observed and {name} have different indexes"):
        calibrant.recalibrate_in_order(pd.Series(Q), **times, half_life=9.0, mean=P, variance=np.ones(400))


def test_two_models_with_different_indexes_are_not_compared() -> None:
    first = pd.Series(P)
    with pytest.raises(UnusableRows, match="first and second have different indexes"):
        calibrant.cost_plane(first, first.sample(frac=1.0, random_state=0), Y)


def test_the_path_of_a_map_is_refused_with_a_remedy() -> None:
    path: Any = "map.json"
    calls: list[Callable[[], Any]] = [
        lambda: calibrant.report(P, Y, map=path),
        lambda: _by_size(P, Y, map=path),
        lambda: calibrant.evaluate_tally(calibrant.tally(P, Y), map=path),
    ]
    for call in calls:
        with pytest.raises(InvalidOption, match=r"map must be a calibration map; calibrant.load\(path\)"):
            call()
    with pytest.raises(InvalidOption, match=r"calibrant.load_distribution\(path\)"):
        calibrant.report_distribution(Q, mean=P, variance=np.ones(400), map=path)


def test_the_client_is_loaded_when_it_is_first_used() -> None:
    code = "import sys, calibrant; print('httpx' in sys.modules, calibrant.client.Calibrant.__name__)"
    assert printed_by(code).split() == ["False", "Calibrant"]
    for name in ("Client", "Calibrant"):
        with pytest.raises(AttributeError, match=f"{name}'; use calibrant.client.Calibrant"):
            getattr(calibrant, name)
