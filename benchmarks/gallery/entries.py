"""Every picture of the gallery, in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.gallery import bumps, forecasts, maps, own, same_bars, truth
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS
from calibrant.plots.canvas import Drawn, Format, Theme

_PAPER = "Kängsepp, Valk & Kull (2022)"


@dataclass(frozen=True)
class GalleryEntry:
    """A picture: its file's name, how it is drawn at which width, and what the page says of it."""

    name: str
    title: str
    text: str
    draw: Callable[[Format, Theme, int], Drawn]
    width: int = 560


def _over(shape: str, figure: int, text: str) -> GalleryEntry:
    return GalleryEntry(
        f"truth-{shape}",
        f"Eight methods over the known truth: {shape}",
        f"{text} After Figure {figure} of {_PAPER}: 10,000 rows, error 0.1. The area between each map and the diagonal "
        "shows the error that the method reports; *off by* is the mean distance from the true map.",
        partial(truth.over_the_truth, shape),
        900,
    )


PAPERS = (
    GalleryEntry(
        "row-errors",
        "The calibration error of rows, and of bins",
        f'Figure 1 of {_PAPER}, with the paper\'s rows: `calibrant.shaped_predictions(3000, shape="beta2", '
        "error=0.10329656755, seed=1)`. The error of a row is the distance from its prediction to the true "
        "probability, and the calibration error is the mean of these distances. A reliability diagram shows bins "
        "instead of rows.",
        truth.row_errors,
        720,
    ),
    GalleryEntry(
        "pl3-logit",
        "PL3 on logit axes",
        f"`logit-logit` with the method `pl3`: Figure 2c of {_PAPER}, with the paper's rows, of which cross-validation "
        "chooses two pieces, as in the paper. The map is piecewise linear on these axes.",
        maps.pl3_on_logit_axes,
    ),
    GalleryEntry(
        "chosen",
        "Bins and pieces by cross-validation",
        f"Figures 2a and 2b of {_PAPER}, and the map of 2c, with the paper's rows. The paper prints 14 bins, 0.0024 "
        "and 0.0398 for (a), and 3 pieces, 0.0045 and 0.0204 for (b), whose map it trains as a neural network.",
        truth.chosen_maps,
        820,
    ),
    GalleryEntry(
        "slopes",
        "Why a bin's roof has slope 1",
        f"After Figure 3 of {_PAPER}, with the rows and bins of the first picture. Binning is a map fitted to the "
        "test data. A map that is flat in each bin (b) has another mean distance from the diagonal than the gaps of "
        "the bins (a); a map of slope 1 in each bin (c) has the same (their theorem 2).",
        truth.slopes,
        720,
    ),
    GalleryEntry(
        "same-bars",
        "The same bars, three different errors",
        f"After Figure 4 of {_PAPER}, with numbers of our own: bars only, bars with mean predictions, the rows of each "
        "bin, and diagonal filling, which distinguishes the three classifiers.",
        same_bars.equal_bars,
        720,
    ),
    GalleryEntry(
        "two-spaces",
        "Maps of predictions near 0 and 1",
        f"After Figure 4 of the arXiv version of {_PAPER}, on synthetic rows whose true map is bent far from 1/2, "
        "where beta calibration has its bend. PL3 can place its bends.",
        maps.two_spaces,
        720,
    ),
    GalleryEntry(
        "beta-map",
        "Beta calibration in both spaces",
        f"After Figure E7 of the arXiv version of {_PAPER}: on logit axes the slope is a at the lower end and b at the "
        "upper end.",
        maps.beta_map,
        720,
    ),
    GalleryEntry(
        "base-shapes",
        "The shapes of the synthetic data",
        f"After Figure D1 of the arXiv version of {_PAPER}: the true calibration maps of the pictures below, drawn by "
        "`calibrant.shaped_predictions`.",
        maps.base_shapes,
        900,
    ),
    _over("square", 9, "Predictions that are too low everywhere."),
    _over("sqrt", 10, "Predictions that are too high everywhere."),
    _over("beta1", 11, "Underconfident predictions: too close to one half."),
    _over("beta2", 12, "Overconfident predictions: too far from one half."),
    _over("stairs", 13, "A map that Platt scaling and beta calibration cannot represent."),
    GalleryEntry(
        "orders",
        "How measures order calibrated models",
        f"After Figure 15 of {_PAPER}: three classifiers of the [experiment](../benchmarks/pseudo-real.md), each after "
        "six calibrators, ranked by several measures and by the true error, which was computed from a million rows. "
        "The best calibrator depends on the measure.",
        bumps.orders,
        760,
    ),
    GalleryEntry(
        "ece-by-size",
        "ECE of simulated models by number of rows",
        "After Figure 2 of Gruber & Buettner (2022), with the model of their appendix G.1: 100 classes, accuracy "
        "0.876, labels drawn from the predictions. The logits of two models are multiplied by 1.5 and 2; the paper "
        "does not state its factors. ECE has 15 bins of equal width, closed on the right, as in the paper. On 100 rows "
        "the calibrated model has an ECE nearly as large as the others.",
        own.ece_by_size,
    ),
)
OWN = (
    GalleryEntry(
        "reliability",
        "Reliability diagram with diagonal filling",
        "`reliability`. The line of each bin has slope 1 and passes through its mean prediction and observed "
        "frequency; the area between line and diagonal is the error. The size of a point is the weight of its bin; the "
        "histogram below shows the rows.",
        own.reliability,
    ),
    GalleryEntry(
        "before-after",
        "Before and after a map",
        "`reliability` with `map`: the map `averaged`, fitted to 3,000 other rows.",
        own.before_and_after,
    ),
    GalleryEntry(
        "fit-on-test",
        "Fit-on-test diagram",
        "`fit-on-test`: PL fitted to the evaluated rows, with the knots of the curves of its folds, and with its band. "
        "The rows are those of the first picture.",
        own.fit_on_test,
    ),
    GalleryEntry(
        "corp",
        "CORP",
        "`corp`: isotonic regression, and the band in which it would lie if the predictions were calibrated.",
        own.corp,
    ),
    GalleryEntry(
        "logit-logit",
        "Logit axes",
        "`logit-logit`: on logit axes, predictions near 0 and 1 have as much room as the others; Platt scaling is a "
        "line.",
        own.logit_logit,
    ),
    GalleryEntry(
        "ks-graphs",
        "The four graphs of the KS error",
        "`ks-graphs`, after Figure 1 of Gupta et al. (2021): cumulative score and label, and score and probability, "
        "each against the fractile and against the score.",
        own.ks_graphs,
        640,
    ),
    GalleryEntry(
        "ks-graphs-after",
        "The four graphs before and after a spline",
        "`ks-graphs` with `map`, after Figures 1 and 2 of Gupta et al. (2021): the map `spline`, fitted to 3,000 other "
        "rows.",
        own.ks_graphs_after,
        640,
    ),
    GalleryEntry(
        "several", "Several models", "`reliability` of four classifiers of the same digits.", own.several, 640
    ),
    GalleryEntry(
        "by-size",
        "A measure against the size of the test",
        "`calibrant.measure_by_size` of calibrated predictions, whose true error is 0. A curve that falls with the "
        "size shows bias (Gruber & Buettner 2022; Roelofs et al. 2022).",
        own.by_size,
    ),
    GalleryEntry(
        "cost-plane",
        "Whose decisions cost less",
        "`calibrant.cost_plane`, after Figure 12 of Minderer et al. (2021): the cost of the decisions of one model "
        "minus that of another, by abstention rate and by the cost of an error.",
        own.cost_plane,
    ),
)
FORECASTS = tuple(
    GalleryEntry(
        f"forecasts-{name}",
        diagram.title,
        f"`{name}`. {diagram.caption}",
        partial(forecasts.diagram_of, name),
        640 if name == "fan" else 560,
    )
    for name, diagram in DISTRIBUTION_DIAGRAMS.items()
)
ENTRIES = PAPERS + OWN + FORECASTS
