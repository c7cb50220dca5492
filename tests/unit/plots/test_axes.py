"""Diagrams on matplotlib axes."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterator
from typing import Any, cast

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant
from calibrant.core.errors import CalibrationError

RANDOM = np.random.default_rng(0)
P = RANDOM.random(400)
Y = (RANDOM.random(400) < P**1.5).astype(int)


@pytest.fixture(autouse=True)
def _backend() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", calibrant.DIAGRAMS)
@pytest.mark.parametrize("with_map", [False, True])
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_every_diagram_is_drawn_on_given_axes(name: str, with_map: bool, style: str) -> None:
    fitted = calibrant.fit("platt", P[:200], Y[:200]) if with_map else None
    report = calibrant.evaluate(P[200:], Y[200:], map=fitted)
    with pyplot.style.context(style):
        _, own_axes = pyplot.subplots()
        ax = getattr(report.plot, name.replace("-", "_"))(ax=own_axes)
        assert ax is own_axes
        ax.figure.canvas.draw()
    assert ax.has_data()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    legend = [text.get_text() for text in cast(Any, ax.get_legend()).get_texts()]
    assert (legend[:2] == ["before the map", "after the map"]) == with_map


def test_a_diagram_on_the_rows_of_the_fit_says_so() -> None:
    ax = calibrant.evaluate(P, Y, map=calibrant.fit("platt", P, Y)).plot()
    legend = [text.get_text() for text in cast(Any, ax.get_legend()).get_texts()]
    assert legend == ["before the map", "after the map, in-sample", "perfect calibration"]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_report_keeps_its_rows(copied: Any) -> None:
    report = calibrant.evaluate(P, Y, groups=Y, map=calibrant.fit("platt", P, Y))
    copy_of = copied(report)
    assert copy_of == report
    assert copy_of is not report
    assert (copy_of.groups is report.groups) == (copied is copy.copy)
    assert len(copy_of.plot.corp().lines) == len(report.plot.corp().lines)
    forecasts = calibrant.evaluate_distribution(np.arange(30.0), mean=np.arange(30.0) + 1.0, std=np.ones(30))
    assert len(copied(forecasts).plot.pit().patches) == len(forecasts.plot.pit().patches)


def test_a_diagram_of_the_report_is_drawn_as_it_is() -> None:
    report = calibrant.evaluate(P, Y, diagrams=[{"name": "reliability", "n_bins": 3}])
    without_rows = pickle.loads(pickle.dumps(report))
    assert without_rows.source is None
    assert without_rows == report
    for source in (report, without_rows):
        assert len(source.plot().collections) == len(report.plot().collections)
    with pytest.raises(CalibrationError, match="rows"):
        without_rows.plot.corp()
    with pytest.raises(CalibrationError, match="did you mean corp"):
        report.plot("crp")
    with pytest.raises(CalibrationError, match="n_bins"):
        report.plot.reliability(n_bins=0)


@pytest.mark.parametrize(
    ("diagram", "options", "pointer"),
    [
        ("reliability", {"n_bins": 0}, "/n_bins"),
        ("fit-on-test", {"method": "pl", "folds": 0}, "/folds"),
        ("crp", {}, "/diagram"),
    ],
)
def test_errors_of_plots_name_the_argument(diagram: str, options: dict[str, Any], pointer: str) -> None:
    with pytest.raises(CalibrationError) as refused:
        calibrant.evaluate(P, Y).plot(diagram, **options)
    assert refused.value.offences[0].pointer == pointer
    assert refused.value.detail.startswith(f"{pointer[1:]} ")


def test_errors_of_plots_of_forecasts_name_the_argument() -> None:
    report = calibrant.evaluate_distribution(P, mean=P, std=P + 1.0)
    with pytest.raises(CalibrationError, match=r"^level must be a number from"):
        report.plot("pit", level=2)
    with pytest.raises(CalibrationError, match=r"^diagram must be one of: pit"):
        report.plot("nope")


def test_the_legend_shows_the_style_of_a_line_and_no_diagonal_that_is_not_drawn() -> None:
    report = calibrant.evaluate(P, Y)
    shown = calibrant.CalibrationDisplay(report, name="one").plot(marker="s", linestyle="--", color="green")
    (handle,) = cast(Any, shown.ax_.get_legend()).legend_handles
    assert (handle.get_marker(), handle.get_linestyle(), handle.get_color()) == ("s", "--", "green")
    bare = calibrant.CalibrationDisplay(report).plot(ref_line=False)
    assert "perfect calibration" not in _labels(bare.ax_)
    assert "perfect calibration" in _labels(report.plot())


def test_a_misspelt_diagram_names_the_nearest_one() -> None:
    plot: Any = calibrant.evaluate(P, Y).plot
    with pytest.raises(AttributeError, match="use reliability"):
        plot.relaibility()
    drawn: Any = calibrant.evaluate_distribution(P, mean=P, std=P + 1.0).plot
    with pytest.raises(AttributeError, match="use sharpness"):
        drawn.sharpnes()


def test_a_reduction_without_diagrams_says_why() -> None:
    p = RANDOM.dirichlet(np.ones(3), 100)
    report = calibrant.evaluate(p, RANDOM.integers(0, 3, 100), reduction="classwise")
    with pytest.raises(CalibrationError, match="one event") as caught:
        report.plot()
    assert caught.value.code == "nothing-to-draw"


def test_models_are_drawn_side_by_side_with_equal_limits() -> None:
    reports = {"one": calibrant.evaluate(P, Y), "two": calibrant.evaluate(P / 4, Y)}
    axes = calibrant.plot(reports)
    assert [ax.get_title() for ax in axes] == ["one", "two"]
    assert axes[0].get_xlim() == axes[1].get_xlim()
    assert len(calibrant.plot(list(reports.values()), "corp")) == 2
    _, own_axes = pyplot.subplots(1, 2)
    assert calibrant.plot(reports, axes=own_axes) == list(own_axes)
    assert len(calibrant.plot(reports["one"])) == 1
    wrong: Any
    for wrong in ({}, [], {"one": 5}, "reports", 5, None, [reports]):
        with pytest.raises(CalibrationError, match="reports"):
            calibrant.plot(wrong)
    with pytest.raises(CalibrationError, match="axes"):
        calibrant.plot(reports, axes=own_axes[:1])


def _labels(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_reports_that_share_axes_have_names_and_colours_of_their_own() -> None:
    first, second = calibrant.evaluate(P, Y), calibrant.evaluate(np.sqrt(P), Y)
    _, ax = pyplot.subplots()
    first.plot(ax=ax)
    second.plot(ax=ax)
    calibrant.CalibrationDisplay(first, name="third").plot(ax)
    assert _labels(ax) == ["model 1", "model 2", "third"]
    handles = cast(Any, ax.get_legend()).legend_handles
    shades = [np.array(mpl.colors.to_rgb(handle.get_color())) for handle in handles]
    assert all(np.abs(a - b).sum() > 0.6 for a, b in itertools.combinations(shades, 2))
    assert ax.get_title() == ""
    _, ax = pyplot.subplots()
    calibrant.evaluate(P, Y, map=calibrant.fit("platt", P, Y)).plot(ax=ax)
    second.plot(ax=ax)
    assert _labels(ax) == ["model 1, before the map", "model 1, after the map, in-sample", "model 2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"figsize": (4, 4)}, "no argument figsize; pass ax"),
        ({"kind": "corp"}, "no argument kind; pass the name of the diagram first"),
        ({"title": "x"}, "no argument title; .*set_title"),
        ({"color": "r"}, "no argument color; CalibrationDisplay"),
        ({"norm": "l1"}, "no argument norm; .*measure"),
        ({"n_binz": 3}, "no argument n_binz; did you mean n_bins"),
    ],
)
def test_an_unknown_option_of_a_plot_names_what_to_use(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        calibrant.evaluate(P, Y).plot(**options)


def test_a_plot_takes_the_binnings_of_scikit_learn() -> None:
    report = calibrant.evaluate(P, Y)
    strategies: Any = ({"strategy": "uniform"}, {"binning": "uniform"}, {"binning": "equal-width"})
    titles = {report.plot(**strategy).get_title() for strategy in strategies}
    assert len(titles) == 1
    assert titles != {report.plot(strategy="quantile").get_title()}
    with pytest.raises(CalibrationError, match="binning"):
        report.plot(strategy="other")


def test_a_value_that_is_not_axes_is_refused() -> None:
    report: Any = calibrant.evaluate(P, Y)
    for wrong in (pyplot, pyplot.figure(), [pyplot.gca()]):
        with pytest.raises(CalibrationError, match="ax must be matplotlib axes"):
            report.plot.reliability(ax=wrong)
    with pytest.raises(TypeError, match="no argument ax; pass axes"):
        calibrant.plot({"one": report}, ax=pyplot.gca())


def test_a_display_has_the_attributes_and_the_line_styles_of_scikit_learn() -> None:
    display = calibrant.CalibrationDisplay.from_predictions(Y, P, n_bins=4, name="model", color="red", ref_line=False)
    order = np.argsort(P).reshape(4, 100)
    np.testing.assert_allclose(display.prob_true, Y[order].mean(axis=1))
    np.testing.assert_allclose(display.prob_pred, P[order].mean(axis=1))
    assert repr(display) == "CalibrationDisplay: model, 400 rows, 4 bins"
    assert [line.get_color() for line in display.ax_.lines if line.get_marker() == "o"] == ["red"]
    assert len(calibrant.CalibrationDisplay.from_predictions(Y, P, c="k").ax_.lines) == len(display.ax_.lines) + 1
    for wrong, message in (("weights", "did you mean sample_weight"), ("strategi", "did you mean strategy")):
        wrong_option: Any = {wrong: "x"}
        with pytest.raises(TypeError, match=f"no argument {wrong}; {message}"):
            calibrant.CalibrationDisplay.from_predictions(Y, P, **wrong_option)
    with pytest.raises(CalibrationError, match="labels are the first argument"):
        calibrant.CalibrationDisplay.from_predictions(P, Y)


@pytest.mark.parametrize("options", [{"strategy": "other"}, {"n_bins": 0}, {"pos_label": 7}])
def test_a_display_refuses_invalid_arguments(options: dict[str, Any]) -> None:
    with pytest.raises(CalibrationError):
        calibrant.CalibrationDisplay.from_predictions(Y, P, **options)


def test_a_rare_event_has_logit_axes_and_a_display_has_those_of_scikit_learn() -> None:
    p = RANDOM.random(3000) * 0.02
    y = (RANDOM.random(3000) < p).astype(int)
    report = calibrant.evaluate(p, y)
    ax = report.plot()
    assert ax.get_xlabel() == "predicted probability (logit scale)"
    assert ax.get_xlim()[1] < 0.0
    low = ax.get_xlim()[0]
    calibrant.evaluate(p / 2.0, y).plot(ax=ax)  # over it
    overlaid = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert np.all(np.asarray(overlaid[0].get_xdata(), dtype=float) < 0.0)
    assert ax.get_xlim()[0] <= low
    assert report.plot(axes="linear").get_xlabel() == "predicted probability"
    plain = calibrant.CalibrationDisplay.from_predictions(y, p)
    red = calibrant.CalibrationDisplay.from_predictions(y, p, color="red")
    assert [display.ax_.get_xlabel() for display in (plain, red)] == ["predicted probability"] * 2
    both = calibrant.plot({"rare": report, "frequent": calibrant.evaluate(P, Y)})
    assert [ax.get_xlabel() for ax in both] == ["predicted probability (logit scale)"] * 2
    pyplot.close("all")


def test_a_title_names_the_kind_of_its_error() -> None:
    report = calibrant.evaluate(P, Y, measures=["ece"])
    debiased = report.measures["ece"].debiased
    assert f"debiased ECE {debiased:.3f}" in report.plot().get_title()
    assert f"debiased ECE {debiased:.3f}" in calibrant.CalibrationDisplay.from_predictions(Y, P).ax_.get_title()


@pytest.mark.parametrize("model", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_a_display_of_an_estimator_that_is_not_fitted_raises_the_error_of_scikit_learn(model: Any) -> None:
    with pytest.raises(NotFittedError):
        calibrant.CalibrationDisplay.from_estimator(model, P[:, None], Y)


def test_a_display_of_a_value_that_is_not_a_classifier_names_the_argument() -> None:
    for model in (LinearRegression().fit(P[:, None], Y), object()):
        with pytest.raises(CalibrationError, match="estimator must be a fitted classifier"):
            calibrant.CalibrationDisplay.from_estimator(model, P[:, None], Y)
