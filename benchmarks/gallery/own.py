"""The pictures that the service draws, of real classifiers on scikit-learn's digits and of synthetic rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import calibrant
from benchmarks.by_size import ECE
from benchmarks.compare.data import FilePredictions, shipped
from benchmarks.gallery.worlds import example
from benchmarks.tables.datasets import SimulatedData, dataset
from calibrant.by_size import MeasuresBySize
from calibrant.measures.measure import MeasureResult
from calibrant.plots.by_size import draw_by_size
from calibrant.plots.canvas import Caption, Drawn, Format, Theme
from calibrant.plots.cost_plane import draw_cost_plane
from calibrant.plots.diagram import draw, draw_several

_LEVEL = 0.95
#: Subsets of 100 rows of a simulated model; the standard error of their mean is below 0.001.
_REPETITIONS = 2_000


@cache
def models() -> dict[str, FilePredictions]:
    """Four classifiers of digits, and what they predict of 1,079 digits that they were not trained on."""
    return {name.removeprefix("digits-"): classifier for name, classifier in shipped() if name.startswith("digits-")}


def reliability(form: Format, theme: Theme, width: int) -> Drawn:
    """A reliability diagram with diagonal filling."""
    return diagram_of({"name": "reliability"}, form, theme, width)


def before_and_after(form: Format, theme: Theme, width: int) -> Drawn:
    """The same before and after a map that was fitted to other rows."""
    return _before_and_after("reliability", "averaged", "0.050", form, theme, width)


def fit_on_test(form: Format, theme: Theme, width: int) -> Drawn:
    """A PL map fitted to the rows, with its knots and its band."""
    return diagram_of({"name": "fit-on-test", "method": "pl"}, form, theme, width)


def corp(form: Format, theme: Theme, width: int) -> Drawn:
    """Isotonic regression within the band that calibrated predictions keep to."""
    return diagram_of({"name": "corp"}, form, theme, width)


def logit_logit(form: Format, theme: Theme, width: int) -> Drawn:
    """Bins on logit axes."""
    return diagram_of({"name": "logit-logit"}, form, theme, width)


def ks_graphs(form: Format, theme: Theme, width: int) -> Drawn:
    """The four graphs of the KS error."""
    return diagram_of({"name": "ks-graphs"}, form, theme, width)


def ks_graphs_after(form: Format, theme: Theme, width: int) -> Drawn:
    """The same before and after a spline that was fitted to other rows (Gupta et al. 2021, Figure 2)."""
    return _before_and_after("ks-graphs", "spline", "0.100", form, theme, width)


def several(form: Format, theme: Theme, width: int) -> Drawn:
    """Four models side by side."""
    return draw_several(
        "reliability",
        [_confidence(name, "reliability") for name in models()],
        title="Four classifiers of the same digits",
        form=form,
        theme=theme,
        width=width,
    )


def by_size(form: Format, theme: Theme, width: int) -> Drawn:
    """What the size of the test does to measures of calibrated predictions, whose true error is 0."""
    data = dataset("beta2", "0.000", 10_000, 0)
    measures: list[Any] = [
        {"name": "ece", "as": "ECE, 15 bins"},
        {"name": "ece", "n_bins": 100, "as": "ECE, 100 bins"},
        {"name": "ece-sweep", "as": "ECE, sweep"},
        {"name": "ks", "as": "KS"},
    ]
    measured_curves = calibrant.measure_by_size(data.p, data.y, measures=measures)
    return draw_by_size(
        measured_curves, Caption(len(data.p), "binary", "Calibrated predictions"), form=form, theme=theme, width=width
    )


def ece_by_size(form: Format, theme: Theme, width: int) -> Drawn:
    """ECE of a calibrated and of two overconfident models of 100 classes (Gruber & Buettner 2022, Figure 2)."""
    curves, n = simulated_ece(), 10_000
    about = Caption(n, curves.reduction, "ECE of a calibrated and of two overconfident models, 100 classes")
    return draw_by_size(curves, about, form=form, theme=theme, width=width)


@cache
def simulated_ece() -> MeasuresBySize:
    """ECE of 15 equal-width bins by number of rows: the model of their appendix G.1, and logits times 1.5 and 2."""
    curves = {
        name: _ece_by_size(factor)
        for name, factor in (("calibrated", 1.0), ("logits times 1.5", 1.5), ("logits times 2", 2.0))
    }
    return replace(
        curves["calibrated"], curves={name: measured_curves.curves["ece"] for name, measured_curves in curves.items()}
    )


def _ece_by_size(factor: float) -> MeasuresBySize:
    logits, labels, _ = calibrant.logistic_normal(10_000, accuracy=0.876, temperature=factor, seed=0)
    return calibrant.measure_by_size(
        logits, labels, measures=[ECE], reduction="confidence", scale="logit", start_repetitions=_REPETITIONS
    )


def cost_plane(form: Format, theme: Theme, width: int) -> Drawn:
    """Whose decisions cost less, where the least confident may be left to another at a price."""
    first, other = models()["random-forest"], models()["naive-bayes"]
    plane = calibrant.cost_plane(first.values, other.values, first.labels)
    return draw_cost_plane(
        plane,
        Caption(len(first.labels), "confidence"),
        names=("random forest", "naive Bayes"),
        form=form,
        theme=theme,
        width=width,
    )


def _before_and_after(diagram: str, method: str, error: str, form: Format, theme: Theme, width: int) -> Drawn:
    data, other = (dataset("beta2", error, 3_000, draw) for draw in (0, 1))
    fitted = calibrant.fit(method, other.p, other.y)
    report = calibrant.evaluate(data.p, data.y, measures=["ece"], diagrams=[diagram], map=fitted)
    about = (
        Caption(report.n, report.reduction, error=_ece(of) if diagram == "reliability" else None)
        for of in (report.measures, report.after or {})
    )
    drawn = (diagrams[diagram] for diagrams in (report.diagrams, report.after_diagrams or {}))
    before, after = zip(drawn, about, strict=True)
    return draw(diagram, *before, after=after, form=form, theme=theme, width=width)


@cache
def _confidence(name: str, diagram: str) -> tuple[dict[str, Any], Caption]:
    classifier = models()[name]
    report = calibrant.evaluate(
        classifier.values, classifier.labels, measures=["ece"], diagrams=[diagram], interval=_LEVEL, resamples=400
    )
    label = name.replace("-", " ").replace("bayes", "Bayes") + ", digits"
    about = Caption(report.n, report.reduction, label, _ece(report.measures), report.measures["ece"].interval)
    return report.diagrams[diagram], about


def _ece(measures: Mapping[str, MeasureResult]) -> tuple[str, float]:
    debiased = measures["ece"].debiased
    if debiased is None:
        raise ValueError(measures["ece"].problem)
    return "ECE", debiased


def diagram_of(
    asked: dict[str, Any], form: Format, theme: Theme, width: int, rows: Callable[[], SimulatedData] = example
) -> Drawn:
    """A diagram of rows, by default of those of the first picture of the papers."""
    data = rows()
    report = calibrant.evaluate(data.p, data.y, measures=["ece"], diagrams=[asked], interval=_LEVEL, resamples=400)
    error = report.measures["ece"]
    diagram, own = report.diagrams[asked["name"]], asked["name"] != "reliability"
    about = Caption(report.n, report.reduction, None, None if own else _ece(report.measures), error.interval)
    return draw(asked["name"], diagram, about, form=form, theme=theme, width=width)
