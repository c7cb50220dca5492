"""The pictures that the service draws, of real classifiers on scikit-learn's digits and of synthetic rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import calibrant
from benchmarks.compare.data import Predictions, shipped
from benchmarks.gallery.worlds import example
from benchmarks.tables.datasets import dataset
from pictures.by_size import draw_by_size
from pictures.cost_plane import draw_cost_plane
from pictures.diagram import draw
from pictures.drawn import About, Drawn, Format, Theme
from pictures.several import draw_several

_LEVEL = 0.95


@cache
def models() -> dict[str, Predictions]:
    """Four classifiers of digits, and what they predict of 1,079 digits that they were not trained on."""
    return {name.removeprefix("digits-"): found for name, found in shipped() if name.startswith("digits-")}


def reliability(form: Format, theme: Theme, width: int) -> Drawn:
    """A reliability diagram with diagonal filling."""
    return draw("reliability", *_confidence("random-forest", "reliability"), form=form, theme=theme, width=width)


def before_and_after(form: Format, theme: Theme, width: int) -> Drawn:
    """The same before and after a map that was fitted to the other half of the rows."""
    found = models()["random-forest"]
    fit, judged = np.array_split(np.random.default_rng(0).permutation(len(found.labels)), 2)
    fitted = calibrant.fit("averaged", found.values[fit], found.labels[fit], reduction="confidence")
    report = calibrant.evaluate(
        found.values[judged], found.labels[judged], measures=["ece"], diagrams=["reliability"], map=fitted
    )
    assert report.after is not None
    assert report.after_diagrams is not None
    about = (
        About(report.n, report.reduction, "random forest, digits", ("ECE", float(measure.debiased or 0.0)))
        for measure in (report.measures["ece"], report.after["ece"])
    )
    before, after = zip((report.diagrams["reliability"], report.after_diagrams["reliability"]), about, strict=True)
    return draw("reliability", *before, after=after, form=form, theme=theme, width=width)


def fit_on_test(form: Format, theme: Theme, width: int) -> Drawn:
    """A PL map fitted to the rows, with its knots and its band."""
    return _of_example({"name": "fit-on-test", "method": "pl"}, form, theme, width)


def corp(form: Format, theme: Theme, width: int) -> Drawn:
    """Isotonic regression within the band that calibrated predictions keep to."""
    return _of_example({"name": "corp"}, form, theme, width)


def logit_logit(form: Format, theme: Theme, width: int) -> Drawn:
    """Bins on logit axes."""
    return _of_example({"name": "logit-logit"}, form, theme, width)


def ks_graphs(form: Format, theme: Theme, width: int) -> Drawn:
    """The four graphs of the KS error."""
    return draw("ks-graphs", *_confidence("random-forest", "ks-graphs"), form=form, theme=theme, width=width)


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
    found = calibrant.measure_by_size(data.p, data.y, measures=measures)
    return draw_by_size(
        found, About(len(data.p), "binary", "Calibrated predictions"), form=form, theme=theme, width=width
    )


def cost_plane(form: Format, theme: Theme, width: int) -> Drawn:
    """Whose decisions cost less, where the least confident may be left to another at a price."""
    one, other = models()["random-forest"], models()["naive-bayes"]
    plane = calibrant.cost_plane(one.values, other.values, one.labels)
    return draw_cost_plane(
        plane,
        About(len(one.labels), "confidence"),
        names=("random forest", "naive Bayes"),
        form=form,
        theme=theme,
        width=width,
    )


@cache
def _confidence(name: str, diagram: str) -> tuple[dict[str, Any], About]:
    found = models()[name]
    report = calibrant.evaluate(
        found.values, found.labels, measures=["ece"], diagrams=[diagram], interval=_LEVEL, resamples=400
    )
    error = report.measures["ece"]
    told = name.replace("-", " ").replace("bayes", "Bayes") + ", digits"
    assert error.debiased is not None
    return report.diagrams[diagram], About(report.n, report.reduction, told, ("ECE", error.debiased), error.interval)


def _of_example(asked: dict[str, Any], form: Format, theme: Theme, width: int) -> Drawn:
    data = example()
    report = calibrant.evaluate(data.p, data.y, measures=["ks"], diagrams=[asked])
    return draw(
        asked["name"],
        report.diagrams[asked["name"]],
        About(report.n, report.reduction),
        form=form,
        theme=theme,
        width=width,
    )
