"""Which threshold, which base rate, is the risk right: questions of medicine, credit, fraud and advertising."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from tests.commands import error_of, notes_of, output_of, succeeds
from tests.newcomer.conftest import Typed, values_of


@pytest.fixture
def table(scores: Any) -> pd.DataFrame:
    """The scores as a file ``scores.csv``, with a patient for every three rows and a second model."""
    frame = scores.assign(patient=[f"p{i // 3}" for i in range(600)], other=scores["p"] ** 3)
    frame.to_csv("scores.csv", index=False)
    return frame


# --- Thresholds


def test_costs_have_a_threshold_with_its_cost_and_net_benefit(typed: Typed, table: pd.DataFrame) -> None:
    """A missed event costs five times as much as a false alarm."""
    best = calibrant.best_threshold(table["p"], table["y"], costs=(1, 5))
    assert best.threshold == pytest.approx(1 / 6)
    assert best["net-benefit"].interval is not None
    printed = output_of(typed("calibrant decide scores.csv --prediction p --label y --costs 1,5"))
    assert "threshold 0.1666666667" in printed
    assert {"cost", "excess-cost", "net-benefit"} <= {line.split()[0] for line in printed.splitlines()[1:] if line}


@pytest.mark.parametrize("costs", [{"fp": 1, "fn": 5}, 5, (1,), "1,5", "15", (1, 0)])
def test_costs_in_another_form_are_refused_with_the_right_one(table: pd.DataFrame, costs: Any) -> None:
    """Pass the costs as a mapping, a ratio or a text."""
    with pytest.raises(calibrant.CalibrationError, match="of a false positive and of a false negative"):
        calibrant.best_threshold(table["p"], table["y"], costs=costs)


def test_costs_with_a_colon_name_the_flag(typed: Typed, table: pd.DataFrame) -> None:
    """Type the costs as a ratio."""
    del table
    blank = typed("calibrant decide scores.csv --prediction p --label y --costs 1 5")
    assert "separated by commas, without blanks, such as 1,5" in " ".join(blank.stderr.replace("│", " ").split())
    single = typed("calibrant decide scores.csv --prediction p --label y --threshold 0.1")
    assert "did you mean --thresholds 0.1,0.2?" in " ".join(single.stderr.replace("│", " ").split())
    assert "--costs" in error_of(typed("calibrant decide scores.csv --prediction p --label y --costs 1:5"), 2)


def test_the_top_hundred_rows_have_a_threshold(typed: Typed, table: pd.DataFrame) -> None:
    """Investigators can look at 100 cases."""
    best = calibrant.best_threshold(table["p"], table["y"], capacity=100)
    assert int((table["p"] >= best.threshold).sum()) == 100
    printed = json.loads(typed("calibrant decide scores.csv --prediction p --label y --capacity 100 --json").stdout)
    assert printed["threshold"] == pytest.approx(best.threshold)


def test_a_required_recall_is_guaranteed_or_refused_with_what_is_missing(table: pd.DataFrame) -> None:
    """At most one event in ten may be missed; then one in ten thousand."""
    assert (calibrant.best_threshold(table["p"], table["y"], recall=0.9)["recall"].value or 0.0) > 0.9
    with pytest.raises(calibrant.CalibrationError, match="needs at least"):
        calibrant.best_threshold(table["p"], table["y"], recall=0.9999)


def test_no_criterion_is_answered_by_the_names_of_all(table: pd.DataFrame) -> None:
    """Ask for the best threshold, without saying what is best."""
    with pytest.raises(calibrant.CalibrationError, match="costs, capacity, precision and recall"):
        calibrant.best_threshold(table["p"], table["y"])


def test_a_decision_curve_is_a_frame_and_a_picture(table: pd.DataFrame) -> None:
    """Judge two models over a range of thresholds."""
    models = {"first": table["p"], "second": table["other"]}
    curve = calibrant.decision_curve(models, table["y"], thresholds=[0.1, 0.3])
    frame = curve.to_frame()
    assert set(frame["model"]) >= {"first", "second", "treat all", "treat none", "first - second"}
    assert curve.plot() is not None


def test_a_decision_curve_of_two_columns_is_a_table(typed: Typed, table: pd.DataFrame) -> None:
    """Type the columns of both models."""
    del table
    command = "calibrant decide scores.csv --prediction p --prediction other --label y --thresholds 0.1,0.3"
    printed = output_of(typed(command))
    assert "p - other" in printed
    assert "treat all" in printed


def test_decisions_about_patients_have_longer_intervals(typed: Typed, table: pd.DataFrame) -> None:
    """Say which rows are of one patient."""
    rows = calibrant.best_threshold(np.repeat(table["p"], 3), np.repeat(table["y"], 3), costs=(1, 5))["cost"]
    patients = np.repeat(np.arange(600), 3)
    alike = calibrant.best_threshold(
        np.repeat(table["p"], 3), np.repeat(table["y"], 3), costs=(1, 5), clusters=patients
    )
    (low, high), (start, end) = rows.interval or (0.0, 0.0), alike["cost"].interval or (0.0, 0.0)
    assert end - start > 1.5 * (high - low)
    command = "calibrant decide scores.csv --prediction p --label y --costs 1,5 --cluster patient"
    assert typed(command).exit_code == 0


# --- Base rates


def test_kept_negatives_are_corrected(typed: Typed, table: pd.DataFrame) -> None:
    """The model was trained on a tenth of the negatives."""
    assert calibrant.shift_prior([0.1, 0.5, 0.9], kept_negatives=0.1) == pytest.approx([1 / 91, 1 / 11, 9 / 19])
    line = "calibrant fit scores.csv --prediction p --label y --method prior-shift"
    succeeds(typed(f"{line} --option kept_negatives=0.1 --out m.json"))
    succeeds(typed("calibrant calibrate scores.csv --prediction p --map m.json --out calibrated.csv"))
    column = pd.read_csv("calibrated.csv").filter(like="calibrated").iloc[:, 0]
    expected = calibrant.shift_prior(table["p"], kept_negatives=0.1)
    assert column.to_numpy() == pytest.approx(expected.to_numpy(), abs=1e-9)


def test_the_weight_of_positives_is_corrected() -> None:
    """The model was trained with ``scale_pos_weight=9``, and its name is tried first."""
    for name in ("scale_pos_weight", "pos_weight"):
        weight: dict[str, Any] = {name: 9}
        with pytest.raises(TypeError, match="pass positive_weight"):
            calibrant.shift_prior([0.5], **weight)
    with pytest.raises(TypeError, match="pass class_weights"):
        calibrant.shift_prior([0.5], class_weight=[1, 9])  # type: ignore[call-arg]
    assert calibrant.shift_prior([0.5], positive_weight=9) == pytest.approx([0.1])


def test_a_new_base_rate_of_classes_is_corrected(pets: Any) -> None:
    """The frequencies of three classes are known."""
    probs = np.full((3, 3), 1 / 3)
    del pets
    corrected = calibrant.shift_prior(probs, rate=[1 / 3] * 3, new_rate=[0.5, 0.3, 0.2])
    assert corrected == pytest.approx(np.tile([0.5, 0.3, 0.2], (3, 1)))


def test_two_changes_at_once_are_refused(table: pd.DataFrame) -> None:
    """State the kept negatives and a new rate."""
    with pytest.raises(ValueError, match="kept_negatives"):
        calibrant.shift_prior(table["p"], kept_negatives=0.1, new_rate=0.2)


def test_an_update_of_patients_who_come_again_is_more_careful(table: pd.DataFrame) -> None:
    """Update a model of another hospital, once with the patients of the rows and once without."""
    often = {"labels": np.repeat(table["y"], 5), "predictions": np.repeat(table["p"].clip(0.01, 0.99), 5)}
    alone = calibrant.update(**often).diagnostics["p_values"]["intercept_to_both"]
    alike = calibrant.update(**often, clusters=np.repeat(np.arange(600), 5)).diagnostics["p_values"]
    assert alike["intercept_to_both"] > alone


# --- Clinical validation, and rates


def test_the_names_of_the_field_are_measures(typed: Typed, table: pd.DataFrame) -> None:
    """Ask for calibration in the large, the slope and O/E."""
    del table
    line = "calibrant evaluate scores.csv --prediction p --label y"
    printed = values_of(
        typed, f"{line} --measure calibration-in-the-large --measure calibration-slope --measure oe-ratio"
    )
    assert list(printed) == ["calibration-in-the-large", "calibration-slope", "oe-ratio"]
    assert printed["oe-ratio"] < 1.0


def test_an_integrated_calibration_index_names_its_smoother(table: pd.DataFrame) -> None:
    """Ask for the ICI, and look which curve it is from."""
    measure = calibrant.evaluate(table["p"], table["y"], measures=["ici"], interval=0.95)["ici"]
    assert measure.definition["curve"] == "loess"
    assert measure.interval is not None


def test_a_validation_is_planned(typed: Typed) -> None:
    """Ask how many patients are needed."""
    assert "events" in output_of(typed("calibrant sample-size --logit-normal -1.5 1"))


def test_a_validation_with_few_events_warns(table: pd.DataFrame) -> None:
    """Validate on 60 rows."""
    report = calibrant.evaluate(table["p"][:60], table["y"][:60], measures=["calibration-slope"])
    assert "100 of each are advised" in (report["calibration-slope"].problem or "")


def test_rows_of_patients_have_longer_intervals_on_the_command_line(typed: Typed, table: pd.DataFrame) -> None:
    """Name the column of the patients, and choose the variance of other software."""
    del table
    line = "calibrant evaluate scores.csv --prediction p --label y --measure calibration-slope --interval 0.95"
    succeeds(typed(f"{line} --cluster patient --cluster-variance cr1"))
    compared = "calibrant compare scores.csv --prediction p --prediction other --label y"
    assert typed(f"{compared} --cluster patient --cluster-variance cr1").exit_code == 0
    assert "needs --cluster" in typed(f"{compared} --cluster-variance cr1").stderr


def test_click_rates_are_checked_by_site(typed: Typed, table: pd.DataFrame) -> None:
    """Predicted over observed clicks, in all and by site."""
    del table
    line = "calibrant evaluate scores.csv --prediction p --label y --group site --measure pcoc"
    printed = json.loads(typed(f"{line} --measure normalised-entropy --json").stdout)
    assert printed["measures"]["pcoc"]["value"] > 1.0
    assert set(printed["groups"]) == {"north", "south"}


# --- Honest defaults


def test_the_first_screen_has_one_error_three_scores_and_one_test(typed: Typed, table: pd.DataFrame) -> None:
    """Evaluate a file, and read what is printed."""
    del table
    printed = json.loads(typed("calibrant evaluate scores.csv --prediction p --label y --json").stdout)["measures"]
    assert list(printed) == ["ece", "squared-ece", "log-loss", "brier", "auroc", "smooth-test"]
    assert printed["ece"]["interval"] is not None
    assert [name for name, measure in printed.items() if measure["p_value"] is not None] == ["smooth-test"]


def test_percentages_and_missing_rows_need_a_flag(typed: Typed, table: pd.DataFrame) -> None:
    """Read a spreadsheet with percentages and gaps."""
    percent = table[["p", "y"]].assign(p=100 * table["p"])
    percent.loc[3, "y"] = None
    percent.to_csv("percent.csv", index=False)
    line = "calibrant evaluate percent.csv --prediction p --label y"
    assert typed(line).exit_code != 0
    assert typed(f"{line} --scale percent").exit_code != 0
    assert "rows: 1 of 600 left out" in notes_of(typed(f"{line} --scale percent --drop-missing"))


@pytest.mark.parametrize(
    "line",
    [
        "compare gaps.csv --prediction p --prediction other --label y",
        "decide gaps.csv --prediction p --label y --costs 1,5",
        "decide gaps.csv --prediction p --prediction other --label y",
        "grades gaps.csv --prediction p --label y --group grade",
        "recommend gaps.csv --prediction p --label y",
        "report gaps.csv --prediction p --prediction other --label y --costs 1,5",
        "sample-size gaps.csv --prediction p",
    ],
)
def test_every_question_has_the_flag_that_leaves_out_missing_rows(typed: Typed, table: pd.DataFrame, line: str) -> None:
    """Ask the other questions of a spreadsheet with gaps."""
    gaps = table.assign(p=table["p"].round(4), grade=np.where(table["p"] > 0.5, "C", "D"))
    gaps.loc[[3, 5], "p"] = None
    gaps.to_csv("gaps.csv", index=False)
    assert "--drop-missing" in error_of(typed(f"calibrant {line}"), 1)
    assert "rows: 2 of 600 left out" in notes_of(typed(f"calibrant {line} --drop-missing"))


def test_a_diagram_of_a_rare_event_has_logit_axes(table: pd.DataFrame) -> None:
    """Draw the diagram of an event in a hundred rows."""
    y = (table["y"].to_numpy() == 1) & (np.arange(600) % 50 == 0)
    report = calibrant.evaluate(table["p"], y, diagrams=["reliability"])
    assert report.diagrams["reliability"]["data"]["axes"] == "logit"


def test_a_recommendation_has_its_reason(typed: Typed, table: pd.DataFrame) -> None:
    """Ask what to do."""
    recommendation = calibrant.recommend(table["p"], table["y"])
    assert recommendation.method in calibrant.METHODS
    assert any("Log loss" in reason for reason in recommendation.reasons)
    shown = typed("calibrant recommend scores.csv --prediction p --label y")
    assert recommendation.headline in shown.stdout
    fit = f"fit scores.csv --prediction p --label y --method {recommendation.method} --reduction binary"
    assert fit in " ".join(shown.stderr.split())


@pytest.mark.parametrize(
    ("call", "argument", "remedy"),
    [
        (calibrant.report, "top_k", "pass capacity"),
        (calibrant.best_threshold, "min_precision", "pass precision"),
        (calibrant.best_threshold, "sensitivity", "pass recall"),
    ],
)
def test_criteria_by_the_names_of_other_tools_are_answered_with_ours(call: Any, argument: str, remedy: str) -> None:
    """Ask for the top 100, or for a sensitivity."""
    with pytest.raises(TypeError, match=f"no argument {argument}; {remedy}"):
        call([0.1, 0.9], [0, 1], **{argument: 0.5})


def test_a_report_for_a_capacity_names_the_model_that_reaches_more_events() -> None:
    """Which of two models finds more churners, if 100 customers a day can be called?"""
    random = np.random.default_rng(7)
    p = random.beta(1.0, 3.0, 2000)
    y = random.random(2000) < p
    noisy = 1.0 / (1.0 + (1.0 / p - 1.0) * np.exp(random.normal(0.0, 2.0, 2000)))
    report = calibrant.report({"good": p, "noisy": noisy}, y, capacity=100)
    assert "The decisions of good include the most events here" in report.html
    (difference,) = report.document["decisions"]["differences"].values()
    hits = [int(y[np.argsort(-q)[:100]].sum()) for q in (p, noisy)]
    assert difference["value"] == pytest.approx((hits[0] - hits[1]) / y.sum())
    assert difference["interval"][0] > 0.0
