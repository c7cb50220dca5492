"""Every measure: requests, values under every reduction, and the published code."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from benchmarks.agreement import ReferenceAnswer, answers
from calibrant.core.batch import read_batch
from calibrant.core.errors import CalibrationError, InvalidOption, UnknownMeasure
from calibrant.core.options import Option
from calibrant.core.reductions import Event, subject
from calibrant.measures.catalogue import level_of, read_requests
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Extent, MeasureResult
from tests.refusals import refused_at
from tests.rows import draw_classes

K, N = 3, 100


@pytest.fixture(scope="module")
def batch() -> tuple[Any, Any]:
    return draw_classes(N, K)


def _same(a: float | None, b: float | None, rel: float, abs: float) -> bool:
    return a is b is None or (a is not None and b is not None and a == pytest.approx(b, rel=rel, abs=abs))


REDUCTIONS = ["confidence", "class:1", "top:2", "within-top:2", "pooled", "classwise", "canonical"]
QUICK = [name for name, measure in calibrant.MEASURES.items() if measure.runs == "inline"]
#: The same without most measures that fit a method, which see the event of a reduction as any other event.
WITH_FEW_FITS = [name for name in QUICK if name.removeprefix("ece-") not in {*calibrant.METHODS} - {"platt", "ets"}]
#: Measures whose rows are not in folds, also with options that change their sums.
WITHOUT_FOLDS: list[Any] = [
    *(name for name in QUICK if "folds" not in calibrant.MEASURES[name].options),
    {"name": "ece", "binning": "equal-width", "n_bins": 9, "as": "ece of 9 bins"},
    {"name": "skce", "estimator": "biased", "as": "biased skce"},
    {"name": "upper-bound", "score": "spherical", "as": "spherical upper bound"},
    {"name": "sharpness", "score": "log-loss", "as": "sharpness by log loss"},
    {"name": "decomposition", "method": "binned", "as": "binned decomposition"},
]


@functools.cache
def _answers(reduction: str) -> Mapping[str, MeasureResult]:
    """Every quick measure of the same rows. Measured together, they share what they need."""
    return calibrant.evaluate(*draw_classes(N, K), measures=QUICK, reduction=reduction).measures


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in QUICK if calibrant.MEASURES[name].event is not None])
def test_a_measure_of_an_event_needs_nothing_else_unless_its_entry_says_so(name: str) -> None:
    event = subject(read_batch(*draw_classes(60, 3)), "confidence")
    assert isinstance(event, Event)
    (request,) = read_requests([name])
    numbers = [request.compute(of).value for of in (event, replace(event, whole=None, origin=None))]
    uses_more = numbers[0] != numbers[1]
    assert request.measure.needs_vectors >= uses_more, "state needs_vectors in its entry: monitors store no vectors"


def _tied() -> tuple[Any, Any]:
    """Rows with tied predictions."""
    P, y = draw_classes(N, K)
    P = np.round(P, 2) + 0.001
    return P / P.sum(axis=1, keepdims=True), y


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_every_measure_answers_under_every_reduction_or_says_why_not(reduction: str) -> None:
    answers = _answers(reduction)
    assert list(answers) == QUICK
    for name, answer in answers.items():
        entry = calibrant.MEASURES[name]
        defined = entry.vector if reduction == "canonical" else entry.event
        if defined is None:
            assert answer.value is None, name
            assert "use reduction" in (answer.problem or ""), name
            assert ("within-top:r" in (answer.problem or "")) == (reduction == "canonical"), name
            continue
        assert answer.value is not None, (name, answer.problem)
        assert entry.lowest is None or answer.value >= entry.lowest - 1e-12, name
        assert entry.highest is None or answer.value <= entry.highest + 1e-12, name
        assert answer.definition["name"] == name


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_measure_alone_is_the_measure_beside_others(reduction: str) -> None:
    for name in QUICK[::5]:
        alone = calibrant.evaluate(*draw_classes(N, K), measures=[name], reduction=reduction).measures[name]
        assert alone == _answers(reduction)[name], name


@pytest.mark.slow
def test_class_wise_values_are_those_of_the_classes() -> None:
    of_classes = [_answers(f"class:{k}") for k in range(K)]
    for name in QUICK:
        if calibrant.MEASURES[name].event is None:
            continue
        whole = _answers("classwise")[name]
        alone = np.array([answers[name].value for answers in of_classes], dtype=np.float64)
        assert whole.parts["classes"] == pytest.approx(alone.tolist()), name
        assert whole.parts["sum"] == pytest.approx(alone.sum()), name
        if name != "cwce":
            assert whole.value == pytest.approx(alone.mean()), name


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_order_of_the_rows_cannot_matter(reduction: str) -> None:
    P, y = _tied()
    order = np.random.default_rng(1).permutation(N)
    measures = QUICK if reduction in ("confidence", "canonical") else WITH_FEW_FITS
    options: dict[str, Any] = {"measures": measures, "interval": 0.9, "resamples": 100, "reduction": reduction}
    others = calibrant.evaluate(P[order], y[order], **options).measures
    for name, first in calibrant.evaluate(P, y, **options).measures.items():
        other = others[name]
        assert _same(first.value, other.value, rel=1e-9, abs=1e-12), name
        assert _same(first.p_value, other.p_value, rel=1e-6, abs=1e-9), name
        assert (first.interval is None) == (other.interval is None), name
        assert first.interval is None or first.interval == pytest.approx(other.interval, rel=1e-6, abs=1e-9), name


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_frequencies_are_repeated_rows_and_only_ratios_of_importance_weights_matter(reduction: str) -> None:
    P, y = _tied()
    w: Any = np.random.default_rng(4).integers(0, 4, N)
    repeated = [np.repeat(P, w, axis=0), np.repeat(y, w)]
    options: dict[str, Any] = {"measures": WITHOUT_FOLDS, "reduction": reduction}
    frequency = calibrant.evaluate(P, y, weights=w, weights_kind="frequency", **options)
    others = calibrant.evaluate(*repeated, **options).measures
    for key, plain in frequency.items():
        other = others[key]
        assert _same(plain.value, other.value, rel=1e-9, abs=1e-12), key
        assert _same(plain.debiased, other.debiased, rel=1e-7, abs=1e-10), key
        assert _same(plain.p_value, other.p_value, rel=1e-6, abs=1e-9), key
        for name, part in other.parts.items():
            if isinstance(part, float):
                assert plain.parts[name] == pytest.approx(part, rel=1e-8, abs=1e-12), (key, name)
    rest = [measure for measure in WITHOUT_FOLDS if measure != "tace"]
    for measures, scale in ((rest, 7.5), (["tace"], 8.0)):  # a rounded weight moves a border of the bins of tace
        drawn: dict[str, Any] = {"interval": 0.9, "resamples": 100, "measures": measures, "reduction": reduction}
        important = [calibrant.evaluate(P, y, weights=c * (w + 0.3), **drawn).measures for c in (1.0, scale)]
        for key, plain in important[0].items():
            other = important[1][key]
            assert _same(plain.value, other.value, rel=1e-9, abs=1e-12), key
            assert _same(plain.debiased, other.debiased, rel=1e-7, abs=1e-10), key
            assert _same(plain.p_value, other.p_value, rel=1e-6, abs=1e-9), key
            assert (plain.interval or ()) == pytest.approx(other.interval or (), rel=1e-6, abs=1e-9), key


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["confidence", "canonical", "classwise"])
def test_single_precision_changes_nothing_beyond_its_rounding(reduction: str) -> None:
    P, y = draw_classes(N, K)
    measures = QUICK if reduction in ("confidence", "canonical") else WITH_FEW_FITS
    for name, measure in calibrant.evaluate(P.astype(np.float32), y, measures=measures, reduction=reduction).items():
        assert _same(measure.value, _answers(reduction)[name].value, rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("name", QUICK)
def test_one_outcome_only_and_one_prediction_only_answer_or_say_why_not(name: str) -> None:
    for p, y in [(np.linspace(0.1, 0.9, 50), np.ones(50, int)), (np.full(50, 0.3), np.arange(50) % 2), ([0.4], [1])]:
        for reduction in ("binary", "canonical"):
            answer = calibrant.evaluate(p, y, measures=[name], reduction=reduction).measures[name]
            assert (answer.value is None) == (answer.problem is not None and "no value" in answer.problem)


@pytest.mark.parametrize("name", QUICK)
def test_a_measure_that_needs_more_than_labels_says_so_in_its_entry(name: str) -> None:
    entry, p = calibrant.MEASURES[name], np.linspace(0.1, 0.9, 50)
    for y in (np.zeros(50, int), np.ones(50, int)):
        for reduction, compute in (("binary", entry.event), ("canonical", entry.vector)):
            if compute is not None and entry.needs == "labels":
                answer = calibrant.evaluate(p, y, measures=[name], reduction=reduction)[name]
                assert answer.value is not None, f"state needs in its entry: {answer.problem}"


def test_an_option_takes_what_it_names_and_nothing_else() -> None:
    real = Option(None, choices=(None,), low=0.5, high=2.0, real=True)
    assert [real.accepts(x) for x in (None, 0.5, 1, 2.5, True, "1", float("nan"))] == [True, True, True] + [False] * 4
    assert real.allowed == "null or a number from 0.5 to 2"
    whole = Option(3, low=1, high=9)
    assert [whole.accepts(x) for x in (1, 9, 10, 2.0, True)] == [True, True, False, False, False]
    listed = Option(None, low=1, high=9, most=3)
    assert all(listed.accepts(x) for x in (None, [1], [9, 1, 2], (3, 4)))
    refused: list[Any] = [[], [1, 1], [1, 2, 3, 4], [0], [10], [1.0], [True], ["1"], [None], [[1]], [{}], {1}, "123", 1]
    assert not any(listed.accepts(x) for x in refused)
    assert listed.allowed == "null or a list of 1 to 3 distinct values, each an integer from 1 to 9"
    several = Option(None, low=0.5, high=9, real=True, per_class=True)
    assert all(several.accepts(x) for x in (None, 1, 0.5, [1], [2, 2.5, 2], (9, 9)))
    assert not any(several.accepts(x) for x in ([], [None], [0.1], [True], [[1]], "1", 10, {1: 2}, float("nan")))
    assert several.allowed == "null, a number from 0.5 to 9, or a list of such numbers, one for each class"
    named = Option("a", choices=("a", "b", 2), most=2)
    assert all(named.accepts(x) for x in (["a"], ["b", 2]))
    assert not any(named.accepts(x) for x in (None, "a", ["c"], ["a", "a"], ["a", "b", 2], [2.0], [["a"]]))
    assert named.allowed == "a list of 1 to 2 distinct values, each one of a, b, 2"


def test_a_list_of_an_option_is_copied_and_has_numbers_of_python() -> None:
    candidates: Any = [np.int64(2), 1]
    (request,) = read_requests([{"name": "ece-pl", "candidates": candidates}])
    candidates.append("later")
    assert request.options["candidates"] == [2, 1]
    assert json.dumps(request.options["candidates"]) == "[2, 1]"
    for candidates in ((3, 1), np.array([3, 1])):
        (request,) = read_requests([{"name": "ece-pl", "candidates": candidates}])
        assert request.options["candidates"] == [3, 1]
        assert json.dumps(request.options["candidates"]) == "[3, 1]"


def test_only_measures_that_know_the_rows_have_p_values_of_pooled_events(batch: tuple[Any, Any]) -> None:
    measures = calibrant.evaluate(*batch, measures=["ks", "mmce", "confidence-gap"], reduction="pooled").measures
    assert measures["ks"].p_value is None
    assert measures["mmce"].p_value is None
    assert measures["confidence-gap"].p_value is not None


def test_the_estimate_includes_the_cost_of_intervals() -> None:
    for name in ("ece", "accuracy", "kde-ce"):
        (request,) = read_requests([name])
        plain, resampled = (request.seconds(Extent(10**6), Resampling(level)) for level in (None, 0.95))
        assert resampled > plain or not (request.measure.resampled or request.measure.distance)


@pytest.mark.parametrize(
    ("entry", "reduction", "level"),
    [
        ({"name": "ks", "law": "resampling"}, "binary", None),
        ({"name": "kuiper", "law": "resampling"}, "classwise", None),
        ({"name": "ks-by-predicted-class", "law": "resampling"}, "canonical", None),
        ({"name": "ece", "binning": "exact"}, "binary", 0.9),
        ({"name": "tce", "p": 2.5}, "classwise", 0.9),
        ({"name": "ece-by-chance"}, "binary", 0.9),
        ({"name": "decomposition", "method": "binned"}, "classwise", 0.9),
        ({"name": "smooth-ece"}, "binary", 0.9),
        ({"name": "kde-ece"}, "binary", 0.9),
    ],
)
def test_many_resamples_of_few_rows_are_no_quick_request(
    entry: dict[str, Any], reduction: str, level: float | None
) -> None:
    (request,) = read_requests([entry])
    extent = Extent(150, 1, 10) if reduction == "classwise" else Extent(150, 10 if reduction == "canonical" else 1)
    few, many = (request.seconds(extent, Resampling(level, resamples=draws)) for draws in (1_000, 100_000))
    assert few < 2.0 < many


def test_the_panel_is_the_default_of_a_request() -> None:
    assert [r.key for r in read_requests(None)] == ["ece", "squared-ece", "log-loss", "brier", "auroc", "smooth-test"]


def test_only_the_default_measures_have_intervals_unless_a_level_is_stated() -> None:
    assert level_of(None, None) == 0.95
    assert level_of(None, ["ece"]) is None
    assert level_of(0.5, None) == level_of(0.5, ["ece"]) == 0.5


@pytest.mark.parametrize(
    ("measures", "error", "pointer"),
    [
        (["nope"], UnknownMeasure, "/measures/0"),
        (["ks", {"name": "nope"}], UnknownMeasure, "/measures/1"),
        (["ks", "ece_equal_width"], UnknownMeasure, "/measures/1"),
        ([{"name": "ece-equal-width", "n_bins": 20}], UnknownMeasure, "/measures/0"),
        ([{"name": "ece", "n_bins": 0}], InvalidOption, "/measures/0/n_bins"),
        ([{"name": "ece", "n_bins": True}], InvalidOption, "/measures/0/n_bins"),
        ([{"name": "ece", "n_bins": 2.0}], InvalidOption, "/measures/0/n_bins"),
        ([{"name": "ece", "norm": 3}], InvalidOption, "/measures/0/norm"),
        ([{"name": "ece", "norm": True}], InvalidOption, "/measures/0/norm"),
        ([{"name": "ece", "binning": "wide"}], InvalidOption, "/measures/0/binning"),
        ([{"name": "ks", "norm": 1}], InvalidOption, "/measures/0"),
        ([{"name": "ks", "as": ""}], InvalidOption, "/measures/0/as"),
        (["ks", "ks"], InvalidOption, "/measures/1"),
        ([{}], InvalidOption, "/measures/0"),
        ([3], InvalidOption, "/measures/0"),
        ([], InvalidOption, "/measures"),
        (b"ece", InvalidOption, "/measures"),
    ],
)
def test_an_invalid_request_is_refused_at_its_place(measures: Any, error: type[CalibrationError], pointer: str) -> None:
    with refused_at(pointer, error):
        read_requests(measures)


@pytest.mark.parametrize("answer", answers(), ids=lambda a: f"{a.producer}: {a.what} ({a.input}, {a.reduction})")
def test_every_measure_agrees_with_its_reference(answer: ReferenceAnswer) -> None:
    assert answer.ours() == pytest.approx(answer.value, abs=answer.tolerance, rel=0.0)
    assert (answer.tolerance == 1e-9) == (answer.note is None)
