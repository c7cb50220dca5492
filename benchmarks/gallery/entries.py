"""Every picture of the gallery, in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.gallery import bumps, own, same_bars, truth
from calibrant.plots.canvas import Drawn, Format, Theme

_PAPER = "Kängsepp, Valk & Kull (2022)"


@dataclass(frozen=True)
class Entry:
    """A picture: its file's name, how it is drawn at which width, and what the page says of it."""

    name: str
    title: str
    text: str
    draw: Callable[[Format, Theme, int], Drawn]
    width: int = 560


def _over(shape: str, figure: int, text: str) -> Entry:
    return Entry(
        f"truth-{shape}",
        f"Eight methods over the known truth: {shape}",
        f"{text} After Figure {figure} of {_PAPER}: 10,000 rows, error 0.1; each map is filled to the diagonal, so "
        "that "
        "the area reads as the error which the method reports. *off by* is the mean distance from the truth.",
        partial(truth.over_the_truth, shape),
        900,
    )


PAPERS = (
    Entry(
        "row-errors",
        "The calibration error of rows, and of bins",
        f"After Figure 1 of {_PAPER}. The error of a row is the distance from its prediction to the true "
        "probability; the "
        "calibration error is the mean of them. The bins of a reliability diagram stand for their rows.",
        truth.row_errors,
        720,
    ),
    Entry(
        "slopes",
        "Why a bin's roof has slope 1",
        f"After Figure 3 of {_PAPER}. Seen as a map that is fitted to the test data, flat roofs (b) give another error "
        "than the bins (a); roofs of slope 1 (c) give the same (their theorem 2).",
        truth.slopes,
        720,
    ),
    Entry(
        "same-bars",
        "The same bars, three different errors",
        f"After Figure 4 of {_PAPER}, with numbers of our own. Bars alone, mean predictions in them, the rows of "
        "each, and "
        "diagonal filling, which tells the three apart.",
        same_bars.equal_bars,
        720,
    ),
    _over("square", 9, "Predictions that are too low everywhere."),
    _over("sqrt", 10, "Predictions that are too high everywhere."),
    _over("beta1", 11, "Underconfident: too near the middle."),
    _over("beta2", 12, "Overconfident: too far from the middle."),
    _over("stairs", 13, "A shape that Platt's and the beta family do not have."),
    Entry(
        "orders",
        "How measures order calibrated models",
        f"After Figure 15 of {_PAPER}, with the truth beside: three classifiers of the "
        "[experiment](../benchmarks/pseudo-real.md) whose "
        "true error a million rows tell, each after six calibrators. The choice of the measure is a choice of the "
        "winner.",
        bumps.orders,
        760,
    ),
)
OWN = (
    Entry(
        "reliability",
        "Reliability diagram with diagonal filling",
        "`reliability`. The line of each bin has slope 1 and passes through its mean prediction and observed "
        "frequency; the area between line and diagonal is the error. The size of a point is the weight of its bin; the "
        "histogram below shows the rows.",
        own.reliability,
    ),
    Entry(
        "before-after",
        "Before a map and after it",
        "`reliability` with `map`: the average, fitted to 3,000 other rows.",
        own.before_and_after,
    ),
    Entry(
        "fit-on-test",
        "Fit-on-test diagram",
        "`fit-on-test`: PL fitted to the rows themselves, with the knots of its folds' curves and its band. These "
        "are the "
        "rows of the first picture, whose truth is drawn there.",
        own.fit_on_test,
    ),
    Entry(
        "corp", "CORP", "`corp`: isotonic regression, and the band that it keeps to where all is calibrated.", own.corp
    ),
    Entry(
        "logit-logit",
        "Logit axes",
        "`logit-logit`: both ends as wide as the middle; Platt scaling is a line.",
        own.logit_logit,
    ),
    Entry(
        "ks-graphs",
        "The four graphs of the KS error",
        "`ks-graphs`, after Figure 1 of Gupta et al. (2021): cumulative score and label, score and probability, "
        "against the "
        "fractile and the score.",
        own.ks_graphs,
        640,
    ),
    Entry("several", "Several models", "`reliability` of four classifiers of the same digits.", own.several, 640),
    Entry(
        "by-size",
        "A measure against the size of the test",
        "`calibrant.measure_by_size` of calibrated predictions, whose true error is 0. What falls with the size "
        "is bias "
        "(Gruber & Buettner 2022; Roelofs et al. 2022).",
        own.by_size,
    ),
    Entry(
        "cost-plane",
        "Whose decisions cost less",
        "`calibrant.cost_plane`, after Figure 12 of Minderer et al. (2021): the cost of one model's decisions less "
        "another's, by the share of rows left to somebody else and the price of an error.",
        own.cost_plane,
    ),
)
ENTRIES = PAPERS + OWN
