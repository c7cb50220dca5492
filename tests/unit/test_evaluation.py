from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import read_batch
from calibrant.core.errors import CalibrationError, InvalidOption, InvalidWeight, UnknownReduction
from calibrant.core.groups import Groups
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from tests.refusals import refused_at
from tests.rows import draw_distorted


@pytest.fixture(scope="module")
def batch() -> tuple[Any, Any]:
    return draw_distorted(2000)


def test_the_default_report_has_an_error_with_its_interval_scores_and_one_p_value(batch: tuple[Any, Any]) -> None:
    report = calibrant.evaluate(*batch)
    assert list(report.measures) == ["ece", "squared-ece", "log-loss", "brier", "auroc", "smooth-test"]
    assert [key for key, measure in report.measures.items() if measure.interval is None] == ["smooth-test"]
    assert [key for key, measure in report.measures.items() if measure.p_value is not None] == ["smooth-test"]
    assert [measure.problem for measure in report.measures.values()] == [None] * 6
    assert report.n == 2000
    assert report.reduction == "binary"
    assert report.after is None
    assert report.groups is None


def test_every_answer_carries_the_definition_used(batch: tuple[Any, Any]) -> None:
    report = calibrant.evaluate(*batch, measures=[{"name": "ece", "n_bins": 7, "norm": 2, "as": "mine"}, "ece-sweep"])
    assert report.measures["mine"].definition == {
        "name": "ece",
        "binning": "equal-mass",
        "n_bins": 7,
        "closed": "left",
        "norm": 2,
        "bins_used": 7,
    }
    assert report.measures["ece-sweep"].definition["n_bins"] > 1


def test_measures_before_and_after_a_map_are_reported(batch: tuple[Any, Any]) -> None:
    p, y = batch
    fitted = calibrant.fit("isotonic", p[:1000], y[:1000])
    report = calibrant.evaluate(p[1000:], y[1000:], map=fitted)
    after = calibrant.evaluate(fitted.apply(p[1000:]), y[1000:])
    assert report.after == after.measures
    assert report.measures == calibrant.evaluate(p[1000:], y[1000:]).measures


def test_a_confidence_map_keeps_its_event(batch: tuple[Any, Any]) -> None:
    random = np.random.default_rng(1)
    probs = random.dirichlet([0.5] * 4, 500)
    labels = np.array([random.choice(4, p=row) for row in probs])
    fitted = calibrant.fit("platt", probs, labels)
    fitted = replace(fitted, training_digest=None)  # as a map of other rows
    report = calibrant.evaluate(probs, labels, map=fitted)
    right = (probs.argmax(axis=1) == labels).astype(int)
    assert report.reduction == "confidence"
    expected = calibrant.evaluate(fitted.apply(probs), right, measures=["ece", "ks", "smooth-test"], interval=0.95)
    assert calibrant.evaluate(probs, labels, map=fitted, measures=list(expected.measures), interval=0.95).after == (
        expected.measures
    )


def test_a_map_of_another_event_or_scale_is_refused(batch: tuple[Any, Any]) -> None:
    p, y = batch
    probs = np.column_stack([1 - p, p])
    fitted = calibrant.fit("platt", probs, y, reduction="class:0")
    with pytest.raises(CalibrationError) as wrong_event:
        calibrant.evaluate(probs, y, reduction="class:1", map=fitted)
    assert wrong_event.value.code == "wrong-shape"
    with pytest.raises(CalibrationError) as wrong_scale:
        calibrant.evaluate(4 * p - 2, y, scale="logit", map=fitted)
    assert wrong_scale.value.code == "scale-mismatch"


def test_groups_are_reported_beside_the_whole(batch: tuple[Any, Any]) -> None:
    p, y = batch
    names = ["odd" if i % 2 else "even" for i in range(len(p))]
    report = calibrant.evaluate(p, y, groups=names)
    assert report.groups is not None
    assert sorted(report.groups) == ["even", "odd"]
    assert report.groups["even"].n == 1000
    # Default intervals are those of all rows; of groups they are computed on request.
    assert report["ece"].interval is not None
    assert report.groups["even"].measures == calibrant.evaluate(p[::2], y[::2], measures=[*report.measures]).measures


@pytest.mark.parametrize(
    ("weight", "kind"),
    [(w, "importance") for w in (1e-320, 1e-200, 1e-8, 1.0, 1e17, 1e150)]
    + [(w, "frequency") for w in (1.0, 3.0, 1e12)],
)
def test_weights_of_any_size_give_finite_answers(batch: tuple[Any, Any], weight: float, kind: Any) -> None:
    p, y = batch
    evaluation = Evaluation(read_requests(None), resampling=Resampling(0.9, 100, 0))
    measures = evaluation.run(evaluation.check(read_batch(p, y, np.full(len(p), weight), kind=kind))).measures
    plain = calibrant.evaluate(p, y).measures
    for key, answer in measures.items():
        # A denormal weight such as 1e-320 has three or four digits left.
        # The statistic of the test grows with the number of rows, by which bins of equal mass are cut too.
        if key not in ("smooth-test", "squared-ece") or kind == "importance":
            assert answer.value == pytest.approx(plain[key].value, rel=1e-4 if weight < 1e-300 else 1e-9)
        assert answer.debiased is None or -1 <= answer.debiased <= 1
        assert answer.debiased is not None or key != "ece" or answer.problem


@pytest.mark.parametrize("kind", ["frequency", "importance"])
def test_groups_of_rows_without_weight_are_left_out(kind: Any) -> None:
    p, y, w = [0.2, 0.4, 0.6, 0.8, 0.3], [0, 1, 1, 1, 0], [0, 0, 1, 1, 2]
    options: dict[str, Any] = {"groups": list("aabbc"), "weights": w, "weights_kind": kind}
    report = calibrant.evaluate(p, y, measures=["brier", "auroc"], interval=0.9, **options)
    assert report.groups is not None
    assert list(report.groups) == ["b", "c"]
    compared = calibrant.compare({"first": p, "second": p[::-1]}, y, measures=["brier"], **options)
    assert compared.groups is not None
    assert list(compared.groups) == ["b", "c"]


def test_groups_that_were_found_once_are_those_of_their_names(batch: tuple[Any, Any]) -> None:
    p, y = batch
    names = ["even", "odd"] * 1000
    groups = Groups(names)
    assert calibrant.evaluate(p, y, groups=groups) == calibrant.evaluate(p, y, groups=names)
    evaluation, rows = Evaluation(read_requests(["ks"])), read_batch(p, y)
    assert evaluation.check(rows, groups).members is evaluation.check(rows, groups).members


@pytest.mark.slow
def test_a_thousand_groups_are_the_most(batch: tuple[Any, Any]) -> None:
    p, y = batch
    report = calibrant.evaluate(p[:1000], y[:1000], groups=[str(i) for i in range(1000)])
    assert len(report.groups or {}) == 1000
    with pytest.raises(CalibrationError):
        calibrant.evaluate(p[:1001], y[:1001], groups=[str(i) for i in range(1001)])


@pytest.mark.parametrize("groups", [["a"], "ab", b"ab", 5])
def test_bad_groups_are_refused(groups: Any) -> None:
    with refused_at("/groups", CalibrationError, below=True):
        calibrant.evaluate([0.1, 0.9], [0, 1], groups=groups)


def test_intervals_are_computed_on_request(batch: tuple[Any, Any]) -> None:
    measures = ["ece", "ks", "brier", "auroc"]
    report = calibrant.evaluate(*batch, measures=measures, interval=0.95)
    for measure in report.measures.values():
        assert measure.interval is not None
        assert 0 <= measure.interval[0] <= measure.interval[1] <= 1
    assert all(m.interval is None for m in calibrant.evaluate(*batch, measures=measures).measures.values())


def test_the_front_contains_the_undominated_maps() -> None:
    assert all(hasattr(calibrant, name) for name in calibrant.__all__)
    assert set(calibrant.__all__) >= {"evaluate", "fit", "load"}


@pytest.mark.parametrize("weight", [1e-320, 0.5, 1e14, 1e150])
def test_frequencies_that_are_no_numbers_of_rows_or_more_than_there_can_be_are_refused(
    batch: tuple[Any, Any], weight: float
) -> None:
    with pytest.raises(InvalidWeight):
        calibrant.evaluate(*batch, weights=np.full(len(batch[0]), weight), weights_kind="frequency")
    assert calibrant.evaluate(*batch, weights=np.full(len(batch[0]), weight)).n == len(batch[0])


def test_one_column_is_no_class_of_many_and_a_number_is_no_map(batch: tuple[Any, Any]) -> None:
    for name in ("class:0", "top:2", "within-top:2"):
        with pytest.raises(UnknownReduction):
            calibrant.evaluate(*batch, reduction=name)
    wrong: Any = 3
    with pytest.raises(InvalidOption):
        calibrant.evaluate(*batch, map=wrong)
