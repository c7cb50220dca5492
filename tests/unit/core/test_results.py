"""Results as text, HTML and frames."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant
from calibrant.client.frames import by_number
from calibrant.core.errors import CalibrationError
from calibrant.core.results import frame_of
from calibrant.distributions.forecasts import read_forecasts
from calibrant.evaluation import report_document
from calibrant.monitoring.pit_tally import tally_pit
from tests.known import known

RANDOM = np.random.default_rng(0)
P = RANDOM.random(400)
Y = (RANDOM.random(400) < P**1.5).astype(int)
#: For arguments that do not exist.
_any: Any = calibrant


def test_a_report_is_a_mapping_of_its_measures() -> None:
    report = calibrant.evaluate(P, Y, measures=["ece", "log-loss"])
    assert report["log_loss"] is report["log-loss"] is report.measures["log-loss"]
    assert list(report) == ["ece", "log-loss"]
    assert "ece" in report
    assert "log_loss" in report
    assert "ks" not in report
    assert 3 not in report
    assert dict(report) == report.measures
    for key, message in (("ecee", "did you mean ece"), ("x", "there are: ece, log-loss"), (3, "there are")):
        with pytest.raises(KeyError, match=message):
            report[key]  # type: ignore[index]


def test_a_report_finds_measures_by_other_names_and_the_nearest_ones() -> None:
    report = calibrant.evaluate(P, Y, measures=["ece", "nll", "brier"], groups=["cat", "dog"] * 200)
    assert report["ECE"] is report["calibration_error"] is report["ece"]
    assert report["log-loss"] is report["LogLoss"] is report["nll"]
    assert report["brier_score"] is report["brier"]
    assert "log_loss" in report
    assert report.groups is not None
    assert report.groups["cat"]["log-loss"] is report.groups["cat"]["nll"]
    with pytest.raises(KeyError, match="no such group; did you mean cat"):
        report.groups["cta"]
    assert copy.deepcopy(report.groups) == pickle.loads(pickle.dumps(report)).groups == report.groups
    many = known(calibrant.evaluate(P, Y, groups=[f"{i % 50}" for i in range(400)], measures=["brier"]).groups)
    assert many[7] is many["7"]  # type: ignore[index]
    with pytest.raises(KeyError, match=r"there are: 0, 1, .*, \.\.\."):
        many["x"]


@pytest.mark.parametrize("name", [name for name in calibrant.__all__ if name.isupper()])
def test_catalogues_and_their_entries_are_pickled_and_copied_as_references(name: str) -> None:
    catalogue = getattr(calibrant, name)
    for entry in (catalogue, *catalogue.values()):
        assert pickle.loads(pickle.dumps(entry)) is copy.deepcopy(entry) is copy.copy(entry) is entry


def test_a_pickled_or_copied_display_draws_the_same_diagram() -> None:
    fitted = calibrant.fit("platt", P, Y)
    for report in (calibrant.evaluate(P, Y), calibrant.evaluate(P, Y, map=fitted)):
        display = calibrant.CalibrationDisplay(report, name="model", options={"n_bins": 7}).plot()
        for again in (pickle.loads(pickle.dumps(display)), copy.deepcopy(display), copy.copy(display)):
            again.plot()
            assert repr(again) == repr(display)
            drawn = [
                [np.asarray(line.get_xydata()).tolist() for line in display_drawn.ax_.lines]
                for display_drawn in (again, display)
            ]
            assert drawn[0] == drawn[1]


def test_reports_without_a_name_have_the_default_name() -> None:
    for page, name in (
        (calibrant.report(P, Y, name=None), "predictions"),
        (calibrant.report_distribution(Y, mean=P, std=P, name=None), "forecasts"),
    ):
        assert f" of {name}</title>" in page.html


def test_catalogues_name_the_nearest_entry() -> None:
    for catalogue, name, message in (
        (calibrant.METHODS, "betta", "the method is unknown; did you mean beta"),
        (calibrant.METHODS, "sigmoidal", "did you mean platt"),
        (calibrant.MEASURES, "eec", r"did you mean ece\?"),
        (calibrant.DIAGRAMS, "relability", "did you mean reliability"),
        (calibrant.DIAGRAMS, "zzz", "must be one of: reliability"),
    ):
        with pytest.raises(KeyError, match=message):
            catalogue[name]
        assert name not in catalogue


def test_results_are_compared_with_numbers_and_with_each_other() -> None:
    report = calibrant.evaluate(P, Y, measures=["ece", "brier"])
    ece, brier = report["ece"], report["brier"]
    assert 0 < ece < 1
    assert ece <= float(ece) <= ece
    assert ece >= np.float64(0.0)
    assert (ece < brier) is (float(ece) < float(brier))
    mixed: list[Any] = [1.0, ece, -1.0]
    assert sorted(mixed) == [-1.0, ece, 1.0]
    with pytest.raises(TypeError, match="not supported between"):
        assert ece < "0.1"
    missing = calibrant.evaluate([0.2, 0.4], [1, 1], measures=["auroc"])["auroc"]
    with pytest.raises(TypeError, match="there is no value"):
        assert missing > 0.5


def test_results_are_added_multiplied_and_rounded_as_numbers() -> None:
    report = calibrant.evaluate(P, Y, measures=["ece", "brier"])
    ece, brier = report["ece"], report["brier"]
    x, z = float(ece), float(brier)
    assert (ece * 100, 100 * ece, ece / 2, 1 / ece) == (x * 100, 100 * x, x / 2, 1 / x)
    assert (ece - brier, 1 - ece, ece + brier, -ece) == (x - z, 1 - x, x + z, -x)
    assert abs(ece - brier) == abs(x - z)
    assert abs(ece) == x
    assert sum([ece, brier]) == x + z
    assert np.round(ece, 2) == round(x, 2)
    assert np.mean([ece, brier]) == pytest.approx((x + z) / 2)
    assert (ece * np.ones(2)).tolist() == (np.ones(2) * ece).tolist() == [x, x]
    assert report.get("ECE") is ece
    assert report.get("ks", 0.5) == 0.5
    missing = calibrant.evaluate([0.2, 0.4], [1, 1], measures=["auroc"])["auroc"]
    with pytest.raises(TypeError, match="there is no value"):
        missing - 1
    for name, use in (("ci", "interval"), ("pvalue", "p_value"), ("statistic", "value")):
        with pytest.raises(AttributeError, match=f"use {use}"):
            getattr(ece, name)


def test_a_report_is_the_json_of_the_service() -> None:
    fitted = calibrant.fit("platt", P[:200], Y[:200])
    report = calibrant.evaluate(P, Y, groups=["a", "b"] * 200, map=fitted, interval=0.9, resamples=100)
    document = json.loads(json.dumps(report.to_dict()))
    assert document == report_document(report, None)
    assert document["measures"]["ece"]["value"] == report["ece"].value
    assert set(document["groups"]) == {"a", "b"}
    assert document["after"]["measures"]["brier"]["interval"] == list(report.after["brier"].interval or ())  # type: ignore[index]


def test_the_text_has_no_empty_columns_and_the_in_sample_note() -> None:
    report = calibrant.evaluate(P, Y, measures=["brier", "ks"])
    assert repr(report).splitlines()[1].split() == ["measure", "value", "p-value"]
    own = calibrant.evaluate(P, Y, map=calibrant.fit("isotonic", P, Y), measures=["brier"], interval=0.95)
    assert "in-sample" in repr(own)
    assert "improvement, cross-fitted" in repr(own)
    assert "in-sample" not in repr(calibrant.evaluate(P[200:], Y[200:], map=calibrant.fit("platt", P[:200], Y[:200])))


def test_the_text_says_why_a_value_is_missing() -> None:
    assert "auroc: " in repr(calibrant.evaluate([0.2, 0.4], [1, 1], measures=["auroc"]))


def test_groups_are_tables_and_mappings() -> None:
    report = calibrant.evaluate(P, Y, groups=["a", "b"] * 200, measures=["brier", "log-loss"])
    group = known(report.groups)["a"]
    assert list(group) == ["brier", "log-loss"]
    assert group["log_loss"] is group.measures["log-loss"]
    assert repr(group).splitlines()[0] == "Group: 200 rows"
    assert len(repr(group).splitlines()) == 4


def test_frames_have_numbers_even_if_all_are_missing() -> None:
    records = calibrant.evaluate(P, Y, measures=["brier"]).to_frame()
    assert records[["value", "debiased", "low", "p_value"]].dtypes.tolist() == [np.dtype(float)] * 4


def test_frames_of_polars_have_numbers_whose_first_rows_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pandas")
    frame = frame_of([{"value": None, "problem": None}] * 200 + [{"value": 0.5, "problem": "none"}])
    assert isinstance(frame, pl.DataFrame)
    assert frame.schema == {"value": pl.Float64, "problem": pl.String}
    assert frame_of([{"low": None}]).schema == {"low": pl.Float64}


def test_sizes_and_costs_are_tables() -> None:
    sizes = calibrant.measure_by_size(P, Y, measures=["ece", "brier"], start_repetitions=4)
    assert len(repr(sizes).splitlines()) == 12
    assert len(sizes.to_frame()) == 20
    plane = calibrant.cost_plane(P, P**1.5, Y)
    assert len(plane.to_frame()) == plane.first.size
    assert plane.to_frame()["relative"].tolist() == plane.relative.ravel().tolist()
    assert "<table" in plane._repr_html_()


def test_scores_of_several_classes_name_their_event_if_no_reduction_was_given() -> None:
    p = RANDOM.dirichlet(np.ones(3), 300)
    y = (RANDOM.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)
    note = 'log_loss, brier: of the event that the predicted class is the label; pass reduction="canonical"'
    report = calibrant.evaluate(p, y, measures=["log_loss", "brier", "ece"])
    assert note in repr(report)
    assert "of the event that the predicted class" in report._repr_html_()
    with_map = calibrant.evaluate(p, y, measures=["brier"], map=calibrant.fit("vector", p[:200], y[:200]))
    assert "predicted class" in repr(with_map)
    event = calibrant.fit("platt", p[:200], y[:200])
    for other in (
        calibrant.evaluate(p, y, measures=["ece"]),
        calibrant.evaluate(p, y, measures=["brier"], reduction="confidence"),
        calibrant.evaluate(p, y, measures=["brier"], reduction="canonical"),
        calibrant.evaluate(p, y, measures=["brier"], map=event),
        calibrant.evaluate(P, Y, measures=["brier"]),
    ):
        assert "predicted class" not in repr(other)


def test_html_is_escaped() -> None:
    key = "<script>alert(1)</script>"
    report = calibrant.evaluate(P, Y, measures=[{"name": "ece", "as": key}])
    assert "<script>" not in report._repr_html_()
    assert "&lt;script&gt;" in report._repr_html_()


def test_estimates_without_labels_are_frames() -> None:
    p = np.random.default_rng(0).uniform(size=1000)
    estimate = calibrant.fit_performance_estimator(p, np.random.default_rng(1).uniform(size=1000) < p).estimate(p[:300])
    figures = estimate.to_frame()
    assert figures["figure"].tolist() == list(estimate.figures)
    assert figures["value"].tolist() == [figure.value for figure in estimate.figures.values()]
    assert figures["realised"].dtype == float
    assert len(replace(estimate, figures={}, withheld="labels are late").to_frame()) == 0


def test_class_frequencies_are_frames() -> None:
    logits, labels, _ = calibrant.logistic_normal(2000, n_classes=3, seed=1)
    options: dict[str, Any] = {"scale": "logit", "class_names": ["cat", "dog", "bird"]}
    estimate = calibrant.estimate_label_shift(logits[:1000], labels[:1000], logits[1000:], **options)
    frame = estimate.to_frame()
    assert frame["class"].tolist() == ["cat", "dog", "bird"]
    assert frame["estimated"].tolist() == known(estimate.estimated).tolist()
    withheld = replace(estimate, estimated=None, low=None, high=None, bbse=None, class_names=None).to_frame()
    assert withheld["class"].tolist() == [0, 1, 2]
    assert withheld["reference"].tolist() == estimate.reference.tolist()
    assert withheld[["estimated", "low", "high", "bbse"]].isna().all(axis=None)
    assert withheld["bbse"].dtype == float


def test_frames_have_the_groups_and_the_results_after_a_map() -> None:
    fitted = calibrant.fit("platt", P[:200], Y[:200])
    report = calibrant.evaluate(P[200:], Y[200:], map=fitted, groups=["a", "b"] * 100, measures=["brier"])
    frame = report.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["value_after"].tolist() == [known(report.after)["brier"].value]
    groups = report.to_frame(groups=True)
    assert groups[["group", "n"]].to_numpy().tolist() == [["a", 100], ["b", 100]]
    with pytest.raises(CalibrationError, match="groups"):
        calibrant.evaluate(P, Y).to_frame(groups=True)


def test_a_comparison_is_a_table() -> None:
    maps = {name: calibrant.fit(name, P[:200], Y[:200]) for name in ("platt", "isotonic")}
    comparison = calibrant.compare(P[200:], Y[200:], maps, measures=["brier"], resamples=100)
    assert "best first" in repr(comparison)
    assert comparison["brier"] is comparison.measures["brier"]
    assert list(comparison) == ["brier"]
    assert "brier" in comparison
    assert "ece" not in comparison
    assert "uncalibrated - platt" in repr(comparison["brier"])
    assert comparison.contestants[1]["brier"] is comparison.contestants[1].measures["brier"]
    assert repr(comparison.contestants[1]).startswith("platt")
    assert len(comparison.to_frame()) == 3
    assert "<table" in comparison._repr_html_()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
@pytest.mark.parametrize("options", [{}, {"groups": ["a", "b"] * 200}, {"map": "platt"}, {"pos_label": 0}])
def test_a_report_is_made_in_one_call(options: dict[str, Any], tmp_path: Any) -> None:
    if "map" in options:
        options = {"map": calibrant.fit(options["map"], P[:200], Y[:200])}
    report = calibrant.report(P, Y, name="model <1>", **options)
    assert "srcdoc=" in report._repr_html_()
    assert "<script" not in report.html
    assert "model &lt;1&gt;" in report.html
    assert ("recommendation" in report.document) == ("map" not in options)
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == report.html


def test_the_event_of_a_class_is_shown_by_its_name() -> None:
    p, names = RANDOM.dirichlet(np.ones(3), 300), ["cat", "dog", "bird"]
    y = np.array(names)[(RANDOM.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)]
    options: dict[str, Any] = {"class_names": names, "reduction": "class:bird"}
    report = calibrant.evaluate(p, y, **options)
    fitted = calibrant.fit("platt", p, y, **options)
    compared = calibrant.compare(p, y, {"a": fitted}, measures=["brier"], resamples=100, **options)
    page = calibrant.report(p, y, groups=y, **options).html
    unpickled = pickle.loads(pickle.dumps(report))
    for shown in (repr(report), report._repr_html_(), repr(unpickled), repr(compared), repr(compared.report), page):
        assert "reduction class:bird" in shown
        assert "reduction class:2" not in shown
    assert "Log loss, class:2" not in page
    assert "class:bird" in fitted._repr_html_()
    assert report.reduction == report.to_dict()["reduction"] == "class:2"
    assert fitted.to_document()["reduction"] == "class:2"


def test_the_event_of_a_chosen_class_is_found_by_its_name() -> None:
    p, names = RANDOM.dirichlet(np.ones(3), 300), ["cat", "dog", "bird"]
    y = np.array(names)[(RANDOM.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)]
    options: dict[str, Any] = {"class_names": names, "classes": ["bird", "cat"], "measures": ["ece", "ks"]}
    named = calibrant.evaluate(p, y, reduction="class:cat", **options)
    assert named == calibrant.evaluate(p, y, reduction="class:1", **options)
    assert (named.reduction, named.reduction_name) == ("class:1", "class:cat")
    request = by_number({"reduction": "class:cat", "classes": ["bird", "cat"]}, names)
    assert request == {"reduction": "class:1", "classes": [2, 0]}


def test_shifted_frequencies_are_those_of_named_classes() -> None:
    p, names = RANDOM.dirichlet(np.ones(3), 900), ["cat", "dog", "bird"]
    y = np.array(names)[(RANDOM.random((900, 1)) > p.cumsum(axis=1)).sum(axis=1)]
    shift = calibrant.estimate_label_shift(p[:600], y[:600], p[600:], class_names=names)
    assert shift.class_names == tuple(names)
    assert [line.split()[0] for line in repr(shift).splitlines()[2:5]] == names


def test_a_report_of_several_classes_names_them() -> None:
    p = RANDOM.dirichlet(np.ones(3), 300)
    y = np.array(["bird", "cat", "dog"])[(RANDOM.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)]
    assert "bird" in calibrant.report(p, y, class_names=["bird", "cat", "dog"]).html


@pytest.mark.parametrize("name", ["reliability_diagram", "reliability", "calibration_curve", "plot_calibration_curve"])
def test_a_diagram_is_under_plot(name: str) -> None:
    with pytest.raises(AttributeError, match=r"; use plot\.reliability\(\)"):
        getattr(calibrant.evaluate(P, Y), name)


def test_catalogues_know_the_names_that_functions_accept() -> None:
    assert calibrant.METHODS["sigmoid"] is calibrant.METHODS["platt"]
    assert calibrant.MEASURES["log_loss"] is calibrant.MEASURES["log-loss"]
    for name, method in (("ir", "isotonic"), ("pav", "isotonic"), ("none", "identity")):
        assert calibrant.fit(name, P, Y).method == method
    assert calibrant.evaluate(P, Y, measures="max_ece")["mce"].definition["name"] == "mce"
    assert "sigmoid" not in calibrant.METHODS
    assert len(list(calibrant.METHODS)) == len(calibrant.METHODS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("adaptive_ece", "ece has bins of equal mass"), ("classwise_ece", 'reduction="classwise"')],
)
def test_a_measure_by_another_name_is_explained(name: str, hint: str) -> None:
    with pytest.raises(CalibrationError, match=hint):
        calibrant.evaluate(P, Y, measures=name)
    with pytest.raises(KeyError, match=hint):
        calibrant.MEASURES[name]


def test_a_method_is_recommended_by_a_report() -> None:
    with pytest.raises(CalibrationError, match=r"calibrant\.report"):
        calibrant.fit("auto", P, Y)
    with pytest.raises(KeyError, match=r"calibrant\.report"):
        calibrant.METHODS["auto"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _any.evaluate(P, Y, norm="l2"), r'measures=\[\{"name": "ece", "norm": 2\}\]'),
        (lambda: _any.evaluate(P, Y, bins=5), r'measures=\[\{"name": "ece", "n_bins": 20\}\]'),
        (lambda: _any.evaluate(P, Y, strategy="uniform"), '"binning": "equal-width"'),
        (lambda: _any.CalibrantClassifier(foo=1), "the arguments are: estimator, "),
        (lambda: calibrant.CalibrationDisplay.from_predictions(Y, P, foo=1), "the arguments are: y_true, y_prob, "),
        (
            lambda: calibrant.CalibrantClassifier(cv=3).fit(np.c_[P, P], Y, groups=Y),
            r"sklearn\.set_config\(enable_metadata_routing=True\)",
        ),
    ],
)
def test_an_unknown_argument_names_what_to_pass(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_tallies_streams_and_entries_of_catalogues_are_shown_in_a_few_lines() -> None:
    assert repr(calibrant.tally(P, Y)) == "EventTally: 400 rows, reduction binary"
    assert repr(calibrant.tally(P, Y, groups=Y)) == "EventTally: 400 rows, reduction binary, 2 groups"
    assert repr(tally_pit(P, mean=P, std=P + 1.0)).startswith("PitTally: 400 rows, normal, ")
    assert repr(calibrant.follow_stream(P, Y)).startswith("OnlinePredictions: 400 rows, ")
    for catalogue in ("MEASURES", "METHODS", "DIAGRAMS", "DISTRIBUTION_MEASURES", "DISTRIBUTION_METHODS"):
        for name, entry in getattr(calibrant, catalogue).items():
            shown = repr(entry)
            assert name in shown.splitlines()[0]
            assert "0x" not in shown
            assert len(shown.splitlines()) <= 3
    assert "n_bins=15" in repr(calibrant.MEASURES["ece"])


def test_class_wise_measures_of_the_confidence_have_a_note() -> None:
    p = RANDOM.dirichlet(np.ones(3), 300)
    y = (RANDOM.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)
    shown = repr(calibrant.evaluate(p, y, measures=["ece", "sce", "ace", "cwce", "auc", "brier"]))
    event = "of the event that the predicted class is the label"
    assert f'brier: {event}; pass reduction="canonical"' in shown
    assert f'\nsce, ace, cwce, auc: {event}; pass reduction="classwise" for the mean over the classes' in shown
    assert event not in repr(calibrant.evaluate(p, y, measures=["sce"], reduction="confidence"))
    assert event not in repr(calibrant.evaluate(P, Y, measures=["sce"]))


@pytest.mark.parametrize("shape", [(200,), (200, 2), (200, 3)])
def test_predicted_classes_are_warned_of_for_any_number_of_classes(shape: tuple[int, ...]) -> None:
    y = np.arange(200) % (shape[1] if len(shape) == 2 else 2)
    hard = y if len(shape) == 1 else np.eye(shape[1])[y]
    with pytest.warns(UserWarning, match="all predictions are 0 or 1"):
        calibrant.evaluate(hard, y, measures=["accuracy"])


def test_checkers_of_types_know_the_names_of_the_library() -> None:
    """mypy, which finds superfluous comments, finds the unknown name here."""
    with pytest.raises(AttributeError, match=r"use calibrant\.evaluate"):
        calibrant.evalute([0.5], [1])  # type: ignore[attr-defined]
    assert callable(calibrant.client.Calibrant)


@pytest.mark.slow
def test_improvements_by_a_map_of_the_whole_vector_say_so_in_reports_of_one_event() -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet([1.0, 1.0, 1.0], 400)
    y = (p + 0.3 * random.gumbel(size=p.shape)).argmax(axis=1)
    fitted = calibrant.fit("temperature", p[:200], y[:200], reduction="canonical")
    of_vector = calibrant.evaluate(p[200:], y[200:], map=fitted, reduction="canonical", measures=["brier"])
    assert "improvement: brier" in repr(of_vector)
    for rows, title in ((slice(200, None), "whole vector: brier"), (slice(200), "whole vector, cross-fitted: brier")):
        report = calibrant.evaluate(p[rows], y[rows], map=fitted, reduction="confidence", measures=["brier"])
        assert f"improvement of the {title}" in repr(report)
        assert known(report.improvement)["brier"].definition["reduction"] == "canonical"
        html = calibrant.report(p[rows], y[rows], map=fitted, reduction="confidence").html
        assert "the log loss of the whole vector by" in html


def test_one_row_is_singular() -> None:
    report = calibrant.evaluate([0.7, 0.2, 0.3], [1, 0, 1], groups=["a", "b", "b"])
    assert repr(known(report.groups)["a"]).startswith("Group: 1 row\n")
    assert repr(calibrant.evaluate([0.7], [1])).startswith("Report: 1 row, ")
    of_number = calibrant.report_distribution([1.0], mean=[1.0], variance=[1.0])
    assert repr(of_number).startswith("HtmlReport: 1 row;")
    assert "on 1 rows" not in of_number.html


def test_one_group_level_sample_and_bin_are_singular() -> None:
    single: dict[str, Any] = {"mean": [1.0], "variance": [1.0], "groups": ["a"]}
    shown = {
        "1 group:": calibrant.evaluate([0.7], [1], groups=["a"]),
        "1 group: ": calibrant.evaluate_distribution([1.0], **single),
        ", 1 group": calibrant.tally([0.7], [1], groups=["a"]),
        ", 1 level, 1 group": tally_pit([1.0], quantiles=[[1.0]], levels=[0.5], groups=["a"]),
        "at 1 level": read_forecasts(quantiles=[[1.0]], levels=[0.5]),
        ", 1 sample each": read_forecasts(samples=[[1.0]]),
        ", 1 bin": calibrant.CalibrationDisplay.from_predictions([1], [0.7]),
    }
    for wanted, shown_result in shown.items():
        assert wanted in repr(shown_result) + "\n"
        assert f"{wanted.rstrip(' :')}s" not in repr(shown_result)
