from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.cells import Floats, Outcomes
from calibrant.reports.advice import improved
from calibrant.reports.verdict import verdict, worst_classes
from tests.unit.reports.worlds import draw, many_classes, report_of


def _headline(truth: str, n: int = 10_000) -> str:
    return verdict(report_of(*draw(truth, n))).headline


def test_too_extreme_predictions_are_overconfident_at_both_ends() -> None:
    headline = _headline("overconfident")
    assert re.fullmatch(
        r"Overconfident by \d+\.\d points above 0\.\d\d and by \d+\.\d points below 0\.\d\d; "
        r"temperature 1\.[5-7]; calibration rejected, p < 0\.001",
        headline,
    )


def test_too_timid_predictions_are_underconfident() -> None:
    headline = _headline("underconfident")
    assert headline.startswith("Underconfident by ")
    assert re.search(r"temperature 0\.6\d?; calibration rejected, p < 0\.001$", headline)


def test_too_high_on_both_sides_of_a_half_is_a_shift_and_not_a_matter_of_confidence() -> None:
    headline = _headline("shifted")
    assert headline.startswith("Too high by ")
    assert "onfident" not in headline
    assert "temperature" not in headline
    assert headline.endswith("calibration rejected, p < 0.001")
    random = np.random.default_rng(0)
    reasons = verdict(report_of(random.random(300), [1] * 300)).reasons
    assert not any("temperature" in sentence for sentence in reasons)


def test_over_above_and_under_below_pull_one_way() -> None:
    assert _headline("mixed").startswith("Too high by ")


def test_an_error_only_at_the_top_is_located_there() -> None:
    match = re.match(r"Too high by (\d+\.\d) points above (0\.\d\d); calibration", _headline("top"))
    assert match
    assert float(match[2]) >= 0.69


def test_one_region_has_its_ends_and_its_sign() -> None:
    match = re.match(r"Too high by (\d+\.\d) points between (0\.\d\d) and (0\.\d\d);", _headline("one-region"))
    assert match
    assert 0.3 < float(match[2]) < 0.45
    assert 0.5 < float(match[3]) < 0.65


def test_calibrated_predictions_get_what_could_hide_in_place_of_praise() -> None:
    conclusion = verdict(report_of(*draw("calibrated")))
    assert conclusion.tone == "not-rejected"
    assert re.fullmatch(
        r"No evidence of miscalibration in 10,000 rows; errors below \d\.\d points cannot be excluded",
        conclusion.headline,
    )
    assert not any("onfident" in sentence for sentence in conclusion.reasons)


def test_few_rows_are_reported_as_few() -> None:
    conclusion = verdict(report_of(*draw("calibrated", 40)))
    assert re.fullmatch(
        r"Too few rows for a verdict: 40 rows cannot exclude an error of up to \d\d\.\d points", conclusion.headline
    )
    assert conclusion.decisions == ("Collect more labelled rows before you trust or recalibrate these predictions.",)


def test_the_decision_is_stated_in_cases_and_agrees_with_the_region() -> None:
    conclusion = verdict(report_of(*draw("top")))
    promised, observed = (int(x) for x in re.findall(r"about (\d+)", conclusion.decisions[0]))
    average, happened = (float(x) for x in re.findall(r"(\d+\.\d) %(?: and|:)", conclusion.reasons[0]))
    assert promised == round(average)
    assert observed == round(happened)


@pytest.mark.slow
@pytest.mark.parametrize("truth", ["calibrated", "overconfident", "one-region"])
def test_the_verdict_depends_on_the_numbers_alone(truth: str) -> None:
    report = report_of(*draw(truth, 2_000))
    assert verdict(json.loads(json.dumps(report))) == verdict(report)


def _rare(factor: Callable[[Floats], Floats], n: int = 20_000, seed: int = 0) -> tuple[Floats, Outcomes]:
    """Draw an event of 0.5 % of the rows, and predictions that are its probability times a factor."""
    random = np.random.default_rng(seed)
    risk = random.beta(0.5, 100.0, n)
    return np.minimum(factor(risk) * risk, 1.0), (random.random(n) < risk).astype(np.int8)


def _double(risk: Floats) -> Floats:
    return np.full(len(risk), 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("factor", "way"), [(_double, "Too high"), (lambda risk: np.full(len(risk), 1 / 3), "Too low")]
)
def test_the_error_of_a_rare_event_is_that_of_its_risk_and_a_factor(factor: Any, way: str, seed: int) -> None:
    p, y = _rare(factor, seed=seed)
    report = report_of(p, y)
    headline = verdict(report).headline
    match = re.match(rf"{way} by a factor of (\d(?:\.\d)?) \(\d\.\d points\) above \S+; calibration", headline)
    assert match
    assert float(match[1]) == pytest.approx(2.0 if way == "Too high" else 3.0, rel=0.25)
    words = " ".join([headline, *verdict(report).reasons])
    assert "onfident" not in words
    assert "temperature" not in words


def test_a_rare_event_may_be_too_high_and_too_low_but_not_over_and_underconfident() -> None:
    p, y = _rare(lambda risk: np.where(risk < 0.006, 0.1, 3.0), 60_000)
    conclusion = verdict(report_of(p, y))
    assert re.match(r"Too high by a factor of \d.* and too low by a factor of \d.*; calibration", conclusion.headline)


def test_the_error_of_a_common_event_is_in_points() -> None:
    p, y = _rare(_double)
    assert re.match(
        r"Too low by 0\.\d points below 0\.99\d\d; calibration", verdict(report_of(1.0 - p, 1 - y)).headline
    )


def test_few_rows_without_an_event_have_no_factor() -> None:
    p, y = _rare(lambda risk: np.full(len(risk), 10.0), 300)
    assert re.match(r"Too high by \d+\.\d points", verdict(report_of(p, 0 * y)).headline)


def test_the_mean_error_of_an_event_without_a_range_is_that_of_its_risk() -> None:
    p, y = _rare(_double, 8_000, 1)
    report = report_of(p, y)
    report["diagrams"]["reliability"]["data"]["low"] = None  # dependent rows
    assert re.match(r"Too high by a factor of \d(\.\d)? \(\d\.\d points\) on average; cal", verdict(report).headline)
    del report["diagrams"]["reliability"]
    assert re.match(r"Too high by \d\.\d points on average; calibration", verdict(report).headline)


def test_the_temperature_of_an_event_has_no_verdict_on_confidence() -> None:
    p, y = _rare(_double)
    of_event, of_class = (
        calibrant.evaluate(*rows, reduction=name, measures=["optimal-temperature"]).measures["optimal-temperature"]
        for rows, name in (((p, y), "binary"), (many_classes(), "confidence"))
    )
    assert (of_event.parts["verdict"], of_class.parts["verdict"]) == ("too close to 1/2", "overconfident")


def test_claims_that_are_too_high_are_overconfident_in_any_range() -> None:
    conclusion = verdict(report_of(*many_classes()))
    assert conclusion.headline.startswith("Overconfident by ")
    assert "the accuracy is" in conclusion.reasons[0]
    assert "temperature 1.6" in conclusion.headline


def test_the_canonical_verdict_compares_confidence_with_accuracy() -> None:
    conclusion = verdict(report_of(*many_classes(), "canonical"))
    assert re.match(r"Overconfident by \d+\.\d points on average; temperature 1\.6", conclusion.headline)


def test_class_by_class_the_miscalibrated_ones_are_named() -> None:
    p, labels = many_classes(temperature=1.0)
    p = np.stack([p[:, 0] ** 2, p[:, 1] + p[:, 0] - p[:, 0] ** 2, p[:, 2], p[:, 3]], axis=1)
    conclusion = verdict(report_of(p, labels, "classwise"), classes=["ant", "bee", "cat", "dog"])
    assert conclusion.headline.startswith("2 of 4 classes are miscalibrated: class ")
    assert {"ant", "bee"} <= set(re.findall(r"class (\w+)", conclusion.headline))
    assert "cat" not in " ".join(conclusion.reasons)


def test_a_map_that_was_fitted_to_the_rows_has_no_test() -> None:
    p, y = draw("overconfident", 2_000)
    report = report_of(p, y, map=calibrant.fit("temperature", p, y)) | {"in_sample": True}
    conclusion = verdict(report, after=True)
    assert conclusion.tone == "unknown"
    assert conclusion.headline.endswith("the map was fitted to these rows")
    assert verdict(report).tone == "rejected"


def test_a_map_that_repairs_is_reported_as_repairing() -> None:
    p, y = draw("overconfident")
    report = report_of(p[5000:], y[5000:], map=calibrant.fit("temperature", p[:5000], y[:5000]))
    assert verdict(report).tone == "rejected"
    assert verdict(report, after=True).tone == "not-rejected"


def test_the_smooth_test_is_not_used_with_few_events() -> None:
    random = np.random.default_rng(0)
    p = random.beta(0.5, 75.0, 300)
    conclusion = verdict(report_of(p, (random.random(300) < p).astype(int)))
    assert any(sentence.startswith("The Kolmogorov-Smirnov test") for sentence in conclusion.reasons)


@pytest.mark.slow
def test_there_is_a_verdict_on_every_set_of_measures() -> None:
    every = report_of(*draw("overconfident", 500))["measures"]
    for names in (["brier"], ["ece"], ["ks"], ["ks-end"], ["log-loss", "auroc"]):
        measures = {name: answer for name, answer in every.items() if name in names}
        assert verdict({"n": 500, "reduction": "binary", "measures": measures}).headline


def test_ranges_next_to_certainty_are_stated_in_rows_or_as_1() -> None:
    random = np.random.default_rng(0)
    p = np.concatenate([random.uniform(0.6, 0.99, 3_000), np.full(1_000, 1.0 - 1e-9)])
    y = (random.random(4_000) < np.where(p < 0.999, p - 0.1, p)).astype(int)
    assert verdict(report_of(p, y)).headline.startswith("Too high by 10.1 points in the lower 75.0 % of rows;")
    p = np.concatenate([random.uniform(0.6, 0.99, 3_000), np.ones(1_000)])
    y = (random.random(4_000) < np.where(p < 0.999, p, 0.9)).astype(int)
    assert re.match(r"Too high by \d+\.\d points at 1; ", verdict(report_of(p, y)).headline)


def test_a_class_that_cannot_be_tested_is_left_aside() -> None:
    p, labels = many_classes()
    report = report_of(p, labels, "classwise")
    for key in ("smooth-test", "ece"):
        parts = report["measures"][key]["parts"]
        for name in ("classes", "classes_p_value", "classes_debiased"):
            if name in parts:
                parts[name][2] = None
    assert verdict(report).headline.startswith("3 of 4 classes are miscalibrated")
    assert "class 2" not in verdict(report).headline


@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
def test_wrong_certain_predictions_are_reported_at_0_and_at_1() -> None:
    p = np.repeat([0.0, 1.0], [154, 146])
    conclusion = verdict(report_of(p, 1 - p.astype(int)))
    assert conclusion.headline.startswith(
        "Overconfident by 100.0 points at 1 and by 100.0 points at 0; calibration rejected"
    )
    assert any(sentence.startswith("The predictions rank events below non-events") for sentence in conclusion.decisions)
    assert not any("hardly discriminate" in sentence for sentence in conclusion.decisions)


def test_a_narrow_range_has_two_different_ends() -> None:
    random = np.random.default_rng(1)
    p = random.uniform(0.4, 0.6, 6_000)
    y = (random.random(6_000) < np.where((p > 0.502) & (p < 0.514), 0.95, p)).astype(int)
    for start, end in re.findall(r"between (\S+) and ([\d.]+\d)", verdict(report_of(p, y)).headline):
        assert start != end


def test_an_error_below_its_expectation_under_calibration_is_reported_as_0() -> None:
    p, y = draw("calibrated", 300)
    report = report_of(p, y)
    for answer in report["measures"].values():
        if answer["definition"]["name"] == "ece":
            answer["debiased"] = -0.02
    reasons = " ".join(verdict(report).reasons)
    assert "The mean calibration error is estimated at 0 after debiasing (95 % interval" in reasons


def test_few_rows_give_no_statement_on_discrimination() -> None:
    conclusion = verdict(report_of(np.full(10, 0.5), [0, 1] * 5))
    assert conclusion.decisions == ("Collect more labelled rows before you trust or recalibrate these predictions.",)


def test_an_error_of_a_class_that_debiasing_removes_is_not_given_as_0() -> None:
    tested = {
        "value": 1.0,
        "p_value": 0.001,
        "definition": {"name": "smooth-test"},
        "parts": {"classes_p_value": [0.001] * 3},
    }
    errors = [0.02, -0.001, None]
    error = {"value": 0.01, "definition": {"name": "ece", "norm": 1}, "parts": {"classes_debiased": errors}}
    worst = worst_classes({"measures": {"smooth-test": tested, "ece": error}}, None)
    assert worst == [("class 0", 0.02), ("class 1", None), ("class 2", None)]


@pytest.mark.slow
@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("same_rows", [False, True])
def test_a_map_that_leaves_the_predictions_as_they_are_has_their_verdict(classes: bool, same_rows: bool) -> None:
    p, y = many_classes() if classes else draw("calibrated", 800)
    fitted = calibrant.fit("identity", *((p, y) if same_rows else (p[::2], y[::2])))
    report = report_of(*((p, y) if same_rows else (p[1::2], y[1::2])), map=fitted)
    assert report["in_sample"] is same_rows
    assert verdict(report, after=True) == verdict(report)
    assert improved(report) == ("The map leaves the predictions as they are.",)
    changed = report_of(p, y, map=calibrant.fit("temperature", p[::2], y[::2]))
    assert "leaves" not in improved(changed)[0]
