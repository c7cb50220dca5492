"""The catalogue of diagrams by name, and parsing of requests for diagrams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.calibrators import METHODS
from calibrant.core.cells import Floats
from calibrant.core.errors import UnknownDiagram
from calibrant.core.options import Catalogue, Option, read_entries, read_values
from calibrant.core.reductions import Event
from calibrant.diagrams.clinical import FLEXIBLE, calibration_belt, calibration_curve
from calibrant.diagrams.cumulative import ks_graphs
from calibrant.diagrams.diagram import Diagram, DiagramRequest, Picture, Runs, no_intervals
from calibrant.diagrams.fitted import corp, fitted_curve
from calibrant.diagrams.reliability import MAX_BARS, RARE, logit_reliability, reliability
from calibrant.measures.fitted import EVALUATORS, fit_options
from calibrant.measures.intervals import Resampling
from calibrant.measures.net_benefit import EVENTS, Estimates, combined, net_benefit, outcome_shares, weighted_sum
from calibrant.piecewise.options import MAX_FOLDS

# --- Curves over the threshold of decisions: net benefit, and the mean elementary score


@dataclass(frozen=True)
class ThresholdCurve(Picture):
    """Data of a curve over thresholds, arrays ``(t,)``; ``reference`` is the curve without a model."""

    thresholds: Floats
    value: Floats
    low: Floats | None
    high: Floats | None
    reference: Floats
    prevalence: float


def decision_curve(event: Event, _: Resampling, *, points: int, highest: float, level: float) -> ThresholdCurve:
    """Compute the net benefit of decisions p >= t, with that of treating all rows as reference. O(n log t)."""
    at = highest * np.arange(1, points + 1) / points
    of = outcome_shares(event, at)
    rate = float(weighted_sum(of, EVENTS)[0])
    curve = net_benefit(of, at, level)
    return _curve(event, at, curve, rate - at / (1.0 - at) * (1.0 - rate), rate)


def murphy(event: Event, _: Resampling, *, points: int, level: float) -> ThresholdCurve:
    """Compute the mean elementary score of mean-values (Ehm et al. 2016): |y - t| if t separates p and y.

    It separates them if min(p, y) < t <= max(p, y). The reference predicts the rate of events for all rows. O(n log t).
    """
    at = np.arange(1, points + 1) / (points + 1)
    of = outcome_shares(event, at)
    rate = float(weighted_sum(of, EVENTS)[0])
    zero = np.zeros_like(at)
    curve = combined(of, np.stack([zero, at, 1.0 - at, zero]), level)
    return _curve(event, at, curve, np.where(at <= rate, at * (1.0 - rate), rate * (1.0 - at)), rate)


def _curve(event: Event, at: Floats, of: Estimates, reference: Floats, rate: float) -> ThresholdCurve:
    if problem := no_intervals(event):
        return ThresholdCurve(at, of.value, None, None, reference, rate, problem=problem)
    return ThresholdCurve(at, of.value, of.low, of.high, reference, rate)


# --- The catalogue of diagrams by name, and parsing of requests for diagrams

#: The most diagrams of a report.
MAX_DIAGRAMS = 16

#: How a reliability diagram is read.
ON_DIAGONAL = "Calibrated predictions are on the diagonal; below it, predictions are too high."
_KANGSEPP = "Kangsepp, Valk & Kull (2022)"
#: Folds and options of the fit of a diagram of a fitted map. Null folds are those of the measure ``ece-METHOD``.
_FOLDS = Option(None, choices=(None,), low=2, high=MAX_FOLDS, whole=True)
_FIT_OPTIONS = Option(None, members="options of the method, without folds")
_LEVEL = Option(0.95, low=0.5, high=0.999, real=True)
_CUT = {
    "binning": Option("equal-mass", choices=("equal-mass", "equal-width", "adaptive")),
    "count": Option("fixed", choices=("fixed", "sweep", "cross-validated")),
    "n_bins": Option(15, high=MAX_BARS),
}
_CUTS = (
    "Binning: equal-mass (borders between distinct predictions), equal-width, or adaptive (borders at ranks "
    f"round(i n / b)). Number of bins: fixed (n_bins), sweep (as ece-sweep, at most {MAX_BARS}) or cross-validated (as "
    "ece-cv)."
)


def _fit_runs(options: Mapping[str, Any]) -> Runs:
    return METHODS[options["method"]].runs


def _cut_seconds(n: int, options: Mapping[str, Any], _: Resampling) -> float:
    return 3e-7 * n + (0.1 + 1.2e-6 * n if options["count"] == "cross-validated" else 0.0)


DIAGRAMS: Mapping[str, Diagram] = Catalogue(
    "diagram",
    {
        entry.name: entry
        for entry in (
            Diagram(
                "reliability",
                "Reliability diagram, flat and with diagonal filling",
                "Observed frequency ybar against mean prediction pbar of each bin, with Wilson's interval at level for "
                "the effective rows. Flat: bars of height ybar. Diagonal filling: the line p + ybar - pbar in each "
                f"bin, whose mean distance from the diagonal over the rows is the ECE of the bins. {_CUTS} The axes "
                f"auto are logit, without filling, if less than {RARE:.0%} of the labels are 1, and otherwise linear.",
                f"{_KANGSEPP}, section 4.5 and theorem 2; Wilson (1927)",
                reliability,
                {
                    "start": "lower end of the bin",
                    "end": "upper end of the bin",
                    "count": "rows in the bin",
                    "rows": "effective rows in the bin",
                    "share": "fraction of the mass",
                    "mean_prediction": "mean prediction pbar",
                    "observed_frequency": "observed frequency ybar, the height of the flat bar",
                    "gap": "ybar - pbar",
                    "low": "lower end of the interval of ybar",
                    "high": "upper end of the interval of ybar",
                    "roof_start": "height of the line of slope 1 at start",
                    "roof_end": "height of the line of slope 1 at end",
                    "ece": "expected calibration error, the sum of share |gap|",
                    "ece_debiased": "the same, debiased as in the measure ece",
                    "histogram": "edges of equal width, with the count and share of the rows between them",
                    "axes": "axes on which the diagram is drawn: linear or logit",
                },
                "O(n log n)",
                {
                    **_CUT,
                    "closed": Option("left", choices=("left", "right")),
                    "level": _LEVEL,
                    "histogram": Option(20, high=MAX_BARS),
                    "axes": Option("auto", choices=("auto", "linear", "logit")),
                },
                seconds=_cut_seconds,
                caption=f"Observed frequency against mean prediction of each bin. {ON_DIAGONAL} The filled area is the "
                "calibration gap, lighter where there are few rows. The histogram shows the distribution of the "
                "predictions.",
                caption_on_logit_axes="Observed frequency against mean prediction of each bin, on logit axes, because "
                f"the event is rare: less than {RARE:.0%} of the labels are positive. {ON_DIAGONAL}",
            ),
            Diagram(
                "fit-on-test",
                "Fit-on-test diagram",
                "The map c that the method fits to these rows, at predictions of equal mass and at evenly spaced "
                "predictions, with a pointwise band at level from the posterior of a Gaussian process, centred on the "
                "map. Errors: mean |c(p) - p| and mean (c(p) - p)^2. The default, isotonic, is fast and assumes only "
                "that the map is increasing; pl, pl3 and averaged run as jobs. The object options has those of the "
                'fit, as of the measure ece-METHOD: {"method": "pl", "options": {"loss": "brier"}}. Null folds are the '
                "default of that measure, such as 10 for pl and 3 for iop-op.",
                f"{_KANGSEPP}, sections 3 and 4.5; docs/explanation/averaging.md",
                fitted_curve,
                {
                    "predictions": "predictions p, from the smallest to the largest",
                    "calibrated": "calibrated probabilities c(p)",
                    "low": "lower end of the band",
                    "high": "upper end of the band",
                    "identity_probability": "posterior probability that the predictions are calibrated",
                    "family": "family of the curve",
                    "parameters": "parameters of the curve if they are few; for pl and pl3 the knots and heights",
                    "alpha_1": "mean |c(p) - p|",
                    "alpha_1_debiased": "the same, debiased as in the measure ece-METHOD",
                    "alpha_2": "mean (c(p) - p)^2",
                },
                "O(n log n) and a fit to a few hundred cells",
                {
                    "method": Option("isotonic", choices=EVALUATORS),
                    "folds": _FOLDS,
                    "level": _LEVEL,
                    "options": _FIT_OPTIONS,
                },
                runs=_fit_runs,
                seconds=lambda n, _options, _resampling: 0.1 + 3e-7 * n,
                caption="The calibration map fitted to these rows, with its uncertainty band. Where the band does not "
                "contain the diagonal, the predictions are miscalibrated.",
            ),
            Diagram(
                "corp",
                "CORP reliability diagram with consistency band",
                "Isotonic regression of the labels, with a pointwise consistency band at level: the range of such "
                "curves for labels drawn from the predictions. Brier score = miscalibration - discrimination + "
                "uncertainty.",
                "Dimitriadis, Gneiting & Jordan (2021)",
                corp,
                {
                    "start": "first prediction of the block",
                    "end": "last prediction of the block",
                    "calibrated": "observed frequency of the block, increasing from block to block",
                    "share": "fraction of the mass of the block",
                    "blocks": "number of blocks; at most 250 are listed",
                    "band_p": "predictions of the band",
                    "band_low": "lower end of the band",
                    "band_high": "upper end of the band",
                    "brier": "Brier score, mean (p - y)^2",
                    "miscalibration": "brier minus the Brier score of the curve",
                    "discrimination": "uncertainty minus the Brier score of the curve",
                    "uncertainty": "r (1 - r) for the fraction r of positives",
                },
                "O(n log n + 1000 resamples)",
                {"level": Option(0.9, low=0.5, high=0.999, real=True)},
                seconds=lambda n, _options, resampling: 2e-7 * n + 1e-4 * resampling.resamples,
                caption="Isotonic regression of the labels. For calibrated predictions, the curve is within the "
                "consistency band.",
            ),
            Diagram(
                "logit-logit",
                "Reliability diagram on logit axes, with a fitted map",
                "Logit of (k + 1/2) / (m + 1) for k positives of m effective rows, against the logit of the mean "
                "prediction of each bin, with the interval -+ z (1 / (k + 1/2) + 1 / (m - k + 1/2))^(1/2) at level, "
                "and the map that the method fits to these rows: by default the line of Platt scaling. pl, pl3 and "
                "averaged run as jobs. The object options has those of the fit, and null folds are the default of "
                f"the method, as of fit-on-test. Predictions and maps are clipped at 2^-52 and 1 - 2^-52. {_CUTS}",
                f"Platt (1999); Gart & Zweifel (1967); {_KANGSEPP}, E.2",
                logit_reliability,
                {
                    "x": "logit of the mean prediction of the bin",
                    "y": "logit of the corrected observed frequency",
                    "low": "lower end of the interval of y",
                    "high": "upper end of the interval of y",
                    "count": "rows in the bin",
                    "share": "fraction of the mass",
                    "slope": "slope of the line of Platt scaling; null for another method",
                    "intercept": "intercept of the line of Platt scaling; null for another method",
                    "curve_x": "logits of 201 predictions, evenly spaced from the smallest to the largest",
                    "curve_y": "logits of the fitted map at curve_x",
                    "start_slope": "slope of the first piece of the curve",
                    "end_slope": "slope of the last piece of the curve",
                    "clipped": "rows whose prediction is clipped",
                },
                "O(n log n) and a fit to a few hundred cells",
                {
                    **_CUT,
                    "method": Option("platt", choices=EVALUATORS),
                    "folds": _FOLDS,
                    "level": _LEVEL,
                    "options": _FIT_OPTIONS,
                },
                runs=_fit_runs,
                seconds=lambda n, options, resampling: (
                    0.1 * (options["method"] != "platt") + _cut_seconds(n, options, resampling)
                ),
                caption="The reliability diagram on logit axes, which spread out the ends. Platt scaling can correct "
                "deviations along a straight line; temperature scaling, along a line through the centre.",
            ),
            Diagram(
                "ks-graphs",
                "KS graphs",
                "Cumulative score and label, (a) against the fractile and (b) against the cumulative score; score and "
                "probability, (c) against the fractile and (d) against the score. The probability is the score plus "
                "the slope of a natural cubic spline with evenly spaced knots, fitted to cumulative label minus score, "
                "clipped to [0, 1].",
                "Gupta et al. (2021), Figure 1 and section 4",
                ks_graphs,
                {
                    "fractile": "fraction of the mass up to the point; the first point is before all rows",
                    "score": "prediction at the point",
                    "cumulative_score": "sum of w p up to the point, divided by the mass",
                    "cumulative_label": "sum of w y up to the point, divided by the mass",
                    "probability": "estimate of P(Y=1) at the score",
                    "ks": "KS error",
                    "signed": "KS error with the sign of label minus score",
                    "reached_fractile": "fractile at which the KS error is reached",
                    "reached_score": "score at which the KS error is reached",
                    "end": "cumulative label minus score at the end",
                },
                "O(n log n)",
                {"points": Option(400, low=10, high=1000), "knots": Option(6, low=3, high=30)},
                caption="Cumulative predictions and cumulative labels, from the lowest prediction upwards. Where the "
                "curves diverge, the predictions are miscalibrated. No bins are needed.",
            ),
            Diagram(
                "decision-curve",
                "Decision curve",
                "Net benefit TP / n - FP / n t / (1 - t) of the decisions p >= t, with pointwise intervals at level, "
                "and that of a positive decision for all rows; that of none is 0. Thresholds are evenly spaced up to "
                "highest. A model is useful at a threshold if its curve is above both. "
                "calibrant.decision_curve compares several models",
                "Vickers & Elkin (2006); Vickers, van Calster & Steyerberg (2019)",
                decision_curve,
                {
                    "thresholds": "thresholds t, ascending",
                    "value": "net benefit",
                    "low": "lower end of its interval",
                    "high": "upper end of its interval",
                    "reference": "net benefit of treating all rows",
                    "prevalence": "rate of events",
                },
                "O(n log points)",
                {
                    "points": Option(99, low=10, high=1000),
                    "highest": Option(0.99, low=0.001, high=0.99, real=True),
                    "level": _LEVEL,
                },
                caption="Net benefit of positive decisions from each threshold up: true positives per row, less the "
                "false positives at the odds of the threshold. The model is useful where its curve is above both "
                "treat all and 0.",
            ),
            Diagram(
                "murphy",
                "Murphy diagram",
                "Mean elementary score by threshold t, with pointwise intervals at level: |y - t| if min(p, y) < t <= "
                "max(p, y), the loss of decisions p >= t with the costs t of a false positive and 1 - t of a false "
                "negative. Its integral is half the Brier score, and divided by t (1 - t) the log loss: a model whose "
                "curve is below another everywhere is better by every proper score",
                "Ehm, Gneiting, Jordan & Kruger (2016)",
                murphy,
                {
                    "thresholds": "thresholds t, ascending",
                    "value": "mean elementary score",
                    "low": "lower end of its interval",
                    "high": "upper end of its interval",
                    "reference": "mean elementary score of the rate of events as prediction for all rows",
                    "prevalence": "rate of events",
                },
                "O(n log points)",
                {"points": Option(99, low=10, high=1000), "level": _LEVEL},
                caption="Mean loss of the decisions at each threshold, whose costs it balances. A model whose curve "
                "is below another everywhere is better by every proper score.",
            ),
            Diagram(
                "calibration-belt",
                "Calibration belt",
                "Logistic regression of the outcome on powers of logit p, of predictions made before these rows: from "
                "degree 1 to at most 4, as long as a likelihood ratio test at .95 rejects the smaller degree. A belt "
                "holds the curves of this degree that the likelihood ratio test does not reject at level, from its "
                "distribution given the degree. The p-value is that of the predictions; the belt at level holds the "
                "diagonal if it is at least 1 - level. Importance weights count as their effective number of rows.",
                "Nattino, Finazzi & Bertolini (2014, 2016)",
                calibration_belt,
                {
                    "predictions": "predictions p, from the smallest to the largest",
                    "calibrated": "the recalibrated probabilities",
                    "low": "lower end of the belt at level",
                    "high": "upper end of the belt at level",
                    "inner_low": "lower end of the belt at inner_level",
                    "inner_high": "upper end of the belt at inner_level",
                    "degree": "degree of the polynomial",
                    "statistic": "twice the gain in log likelihood over the predictions",
                    "p_value": "p-value of calibrated predictions, given the degree",
                },
                "O(n log n) and the belt of about 1,000 groups",
                {"level": _LEVEL, "inner_level": Option(0.8, low=0.5, high=0.999, real=True)},
                seconds=lambda n, _options, _resampling: 0.5 + 5e-6 * n,
                caption="Polynomial logistic recalibration with its belts. Where a belt is above the diagonal, "
                "predictions are too low; where it is below, too high.",
            ),
            Diagram(
                "calibration-curve",
                "Smooth calibration curve",
                "A smooth estimate c(p) of P(Y = 1), with a pointwise band at level from the squares of residuals. "
                "Curves as of the measure ici (loess, loess-direct and rcs), or logistic: logit P(Y = 1) = a + b logit "
                f"p. Null is loess to 2,000 rows and rcs beyond, with at least {FLEXIBLE} events and {FLEXIBLE} other "
                "rows, and logistic with fewer. Values are clipped to [0, 1].",
                "Austin & Steyerberg (2014); Van Calster et al. (2016)",
                calibration_curve,
                {
                    "predictions": "predictions p, from the smallest to the largest",
                    "calibrated": "the curve c(p)",
                    "low": "lower end of the band",
                    "high": "upper end of the band",
                    "curve": "the smoother",
                    "events": "events; of importance weights their effective number",
                    "non_events": "the same of other rows",
                    "ici": "mean |c(p) - p| over the rows, without clipping",
                },
                "O(n log n); loess-direct O(n^2)",
                {
                    "curve": Option(None, choices=(None, "loess", "loess-direct", "rcs", "logistic")),
                    "level": _LEVEL,
                },
                seconds=lambda n, options, _: 0.02 + 5e-6 * n + 2e-7 * (options["curve"] == "loess-direct") * n**2,
                caption="A smooth estimate of the observed frequency, with its pointwise band.",
            ),
        )
    },
    public="DIAGRAMS",
)


def caption_of_groups(side: str = "") -> str:
    """Return the caption of the reliability diagrams of groups; ``side`` says which side of a map they show."""
    return f"Reliability diagram of each group{side}. {ON_DIAGONAL}"


def read_diagrams(diagrams: str | Sequence[str | Mapping[str, Any]] | None) -> tuple[DiagramRequest, ...]:
    """Parse a request for diagrams.

    Parameters
    ----------
    diagrams : sequence of str or mapping, or None
        Names, or objects with ``name``, options and ``as``, the key of the result. None requests no diagrams.

    Returns
    -------
    tuple of DiagramRequest
        The requests with all options.

    Raises
    ------
    UnknownDiagram, InvalidOption
        With a JSON Pointer to the invalid place; also for duplicate keys.
    """
    requested = () if diagrams is None else diagrams
    entries = read_entries(requested, DIAGRAMS, "diagram", most=MAX_DIAGRAMS, unknown=UnknownDiagram)
    return tuple(
        DiagramRequest(key, entry, _with_fit(options, f"/diagrams/{i}") if "options" in options else options)
        for i, (key, entry, options) in enumerate(entries)
    )


def _with_fit(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read the folds and the options of the fit in the options of a diagram."""
    method, folds = options["method"], options["folds"]
    known = dict(fit_options(method))
    of_folds = known.pop("folds")
    stated = {} if folds is None else {"folds": folds}
    return {
        **options,
        **read_values(stated, {"folds": of_folds}, method, where=where),
        "options": read_values(options["options"] or {}, known, method, where=f"{where}/options"),
    }
