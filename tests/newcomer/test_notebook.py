"""Tasks in a notebook: Series, frames, text labels, diagrams and maps."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text
from sklearn.metrics import brier_score_loss, log_loss

import calibrant
from tests.known import known
from tests.rows import draw_event


def test_two_lines_show_the_first_reliability_diagram(scores: Any) -> None:
    """See whether a model is calibrated, two lines after the import."""
    report = calibrant.evaluate(scores["p"], scores["y"])
    ax = report.plot()
    assert isinstance(ax, Axes)
    assert ax.has_data()


def test_a_report_in_a_cell_is_short_and_answers_by_key(scores: Any) -> None:
    """Look at the result in a cell and read one number."""
    report = calibrant.evaluate(scores["p"], scores["y"], interval=0.95)
    assert report["ece"].value == report.measures["ece"].value
    assert report["ece"].interval is not None
    assert len(repr(report).splitlines()) <= 15
    assert len(repr(report)) < 1500
    assert f"{report['ece'].value:.3f}" in repr(report)
    assert "<table" in report._repr_html_()


def test_a_report_becomes_a_frame_with_one_row_per_measure(scores: Any) -> None:
    """Put the measures into a table of a paper."""
    report = calibrant.evaluate(scores["p"], scores["y"], measures=["ece", "ks", "brier"], interval=0.95)
    frame = report.to_frame()
    assert len(frame) == 3
    assert list(frame["value"]) == [report[key].value for key in ("ece", "ks", "brier")]


def test_every_diagram_is_a_method_of_plot(scores: Any) -> None:
    """Draw all diagrams into one figure, found by tab completion."""
    report = calibrant.evaluate(scores["p"], scores["y"])
    names = [name.replace("-", "_") for name in calibrant.DIAGRAMS]
    _, axes = plt.subplots(1, len(names))
    assert set(names) <= set(dir(report.plot))
    for name, ax in zip(names, axes, strict=True):
        assert getattr(report.plot, name)(ax=ax) is ax
        assert ax.has_data()


def test_models_side_by_side_and_before_and_after_a_map(scores: Any) -> None:
    """Compare two models in one figure, and one model before and after calibration."""
    train, test = scores[:300], scores[300:]
    _, (left, right) = plt.subplots(1, 2, sharex=True, sharey=True)
    calibrant.evaluate(test["p"], test["y"]).plot(ax=left)
    calibrant.evaluate(test["p"] ** 2, test["y"]).plot(ax=right)
    assert left.has_data()
    assert right.has_data()

    platt = calibrant.fit("platt", train["p"], train["y"])
    ax = calibrant.evaluate(test["p"], test["y"], map=platt).plot()
    words = " ".join(text.get_text().lower() for text in ax.figure.findobj(Text))
    assert "before" in words
    assert "after" in words


def test_a_shuffled_series_is_refused(scores: Any) -> None:
    """Evaluate a shuffled column against labels that were not shuffled, by mistake."""
    with pytest.raises(calibrant.CalibrationError, match="index"):
        calibrant.evaluate(scores["p"].sample(frac=1, random_state=0), scores["y"])

    shuffled = scores.sample(frac=1, random_state=0)
    report = calibrant.evaluate(shuffled["p"], shuffled["y"])
    assert report["ece"].value == pytest.approx(calibrant.evaluate(scores["p"], scores["y"])["ece"].value)


def test_text_labels_match_the_columns_of_a_frame(pets: Any) -> None:
    """Evaluate a frame of class probabilities against text labels, in whatever order the columns are."""
    numbers = pets["species"].map({"bird": 0, "cat": 1, "dog": 2})
    expected = calibrant.evaluate(pets[["bird", "cat", "dog"]].to_numpy(), numbers.to_numpy()).measures["ece"].value
    assert calibrant.evaluate(pets[["bird", "cat", "dog"]], pets["species"])["ece"].value == expected
    assert calibrant.evaluate(pets[["dog", "cat", "bird"]], pets["species"])["ece"].value == pytest.approx(expected)
    categories = pets["species"].astype("category")
    assert calibrant.evaluate(pets[["bird", "cat", "dog"]], categories)["ece"].value == expected


def test_pos_label_says_which_text_is_the_event(scores: Any) -> None:
    """Evaluate P(spam) against the labels spam and ham."""
    labels = scores["y"].map({0: "ham", 1: "spam"})
    report = calibrant.evaluate(scores["p"], labels, pos_label="spam")
    assert report["ece"].value == calibrant.evaluate(scores["p"], scores["y"])["ece"].value
    assert calibrant.evaluate(scores["p"], labels, class_names=["ham", "spam"])["ece"].value == report["ece"].value
    with pytest.raises(calibrant.CalibrationError, match="pos_label"):
        calibrant.evaluate(scores["p"], labels)


def test_groups_are_columns_as_they_are(scores: Any) -> None:
    """Measure fairness by integers, by a categorical and by two columns."""
    p, y = scores["p"], scores["y"]
    by_number = known(calibrant.evaluate(p, y, groups=scores.index % 3).groups)
    assert sorted(by_number) == ["0", "1", "2"]
    by_category = known(calibrant.evaluate(p, y, groups=scores["site"].astype("category")).groups)
    assert sorted(by_category) == ["north", "south"]
    by_both = known(calibrant.evaluate(p, y, groups=scores[["site", "sex"]]).groups)
    assert len(by_both) == 4
    assert all(any(site in name for site in ("north", "south")) for name in by_both)


def test_sample_weight_works_as_in_scikit_learn(scores: Any) -> None:
    """Weight rows by the name that scikit-learn gives to weights, with columns of polars."""
    frame = pl.DataFrame({"p": scores["p"].to_list(), "y": scores["y"].to_list()})
    frame = frame.with_columns(weight=pl.Series(np.arange(600) % 2 + 1))
    report = calibrant.evaluate(frame["p"], frame["y"], sample_weight=frame["weight"], measures=["brier"])
    expected = brier_score_loss(scores["y"], scores["p"], sample_weight=np.arange(600) % 2 + 1)
    assert report["brier"].value == pytest.approx(expected)


def test_swapped_arguments_are_recognised(scores: Any, pets: Any) -> None:
    """Pass (y_true, y_prob) in the order of scikit-learn's metrics, by habit."""
    with pytest.raises(calibrant.CalibrationError, match="predictions are the first argument"):
        calibrant.evaluate(scores["y"], scores["p"])
    with pytest.raises(calibrant.CalibrationError, match=r"swapped|order|first argument"):
        calibrant.evaluate(pets["species"], pets[["bird", "cat", "dog"]])


def test_names_of_other_libraries_work(scores: Any) -> None:
    """Use the names of methods and losses that scikit-learn uses."""
    p, y = scores["p"], scores["y"]
    for name, method in (("sigmoid", "platt"), ("hist", "histogram"), ("es_sweep", "es-sweep")):
        assert calibrant.fit(name, p, y).method == method
    report = calibrant.evaluate(p, y, measures=["brier_score", "log_loss", "nll", "ece_sweep"])
    assert report["nll"].value == report["log_loss"].value
    assert report["ece_sweep"].value is not None
    assert report["brier_score"].value == pytest.approx(brier_score_loss(y, p))
    assert report["log_loss"].value == pytest.approx(log_loss(y, p))


def test_a_map_is_saved_and_loaded_with_its_class_names(pets: Any) -> None:
    """Save a map in one notebook and apply it in another, where the columns have another order."""
    classes = ["bird", "cat", "dog"]
    calibrant.fit("temperature", pets[classes], pets["species"]).save("pets.json")

    loaded = calibrant.load("pets.json")
    assert loaded.class_names == tuple(classes)
    assert loaded.training_digest
    calibrated = loaded.apply(pets[classes])
    assert list(calibrated.columns) == classes
    np.testing.assert_allclose(calibrated, calibrant.load(Path("pets.json")).apply(pets[classes].to_numpy()))
    # Columns in another order are either matched by name or refused, never taken for other classes.
    with contextlib.suppress(calibrant.CalibrationError):
        np.testing.assert_allclose(loaded.apply(pets[["dog", "bird", "cat"]]), calibrated)


def test_evaluating_a_map_on_its_own_rows_says_so(scores: Any) -> None:
    """Evaluate a map on the rows that it was fitted to, without noticing."""
    p, y = scores["p"], scores["y"]
    own = calibrant.evaluate(p, y, map=calibrant.fit("isotonic", p, y))
    assert own.in_sample is True
    assert "in-sample" in repr(own)
    assert "in-sample" in own._repr_html_()
    new = calibrant.evaluate(p[300:], y[300:], map=calibrant.fit("isotonic", p[:300], y[:300]))
    assert "in-sample" not in repr(new)


def test_a_map_does_not_win_on_its_own_rows() -> None:
    """Compare a flexible map with calibrated predictions, on the rows that it was fitted to."""
    p, y = draw_event(600, dtype=bool)
    comparison = calibrant.compare(p, y, {"mine": calibrant.fit("isotonic", p, y)}, measures=["brier"])
    ranking = comparison.measures["brier"].ranking
    assert ranking is None or ranking[0] != "mine"
    assert "in-sample" in repr(comparison)


def test_a_report_is_shown_in_the_notebook_and_saved_for_a_colleague(scores: Any) -> None:
    """Send a colleague one HTML file."""
    report = calibrant.report(scores["p"], scores["y"], groups=scores["site"])
    assert len(report._repr_html_()) > 1000
    report.save("calibration.html")
    assert "<html" in Path("calibration.html").read_text("utf-8")


def test_measures_by_size_name_their_class(pets: Any) -> None:
    """Print the measures of one class, and of two reductions."""
    p, y = pets[["bird", "cat", "dog"]], pets["species"]
    options: Any = {"measures": ["ece"], "start": 400, "start_repetitions": 2}
    by_size = calibrant.measure_by_size(p, y, reduction="class:dog", **options)
    assert "reduction class:dog:" in repr(by_size)
    assert by_size.reduction == "class:2"
    several = calibrant.measure_by_size(p, y, reduction=["confidence", "class:dog"], **options)
    assert "reduction confidence, class:dog:" in repr(several)
    assert "ece (confidence)  ece (class:dog)" in repr(several)
    assert list(several.curves) == ["ece (confidence)", "ece (class:2)"]
