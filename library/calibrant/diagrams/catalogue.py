"""The catalogue of diagrams: every one by name, and how a request for some of them is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from calibrant.calibrators import METHODS
from calibrant.diagrams.corp import corp
from calibrant.diagrams.cumulative import ks_graphs
from calibrant.diagrams.diagram import Diagram, DiagramRequest, Runs
from calibrant.diagrams.fitted import fitted_curve
from calibrant.diagrams.reliability import MAX_BARS, logit_reliability, reliability
from calibrant.errors import UnknownDiagram
from calibrant.measures.intervals import Resampling
from calibrant.options import Option, read_entries
from calibrant.piecewise.options import MAX_FOLDS

#: A report draws at most this many diagrams.
MAX_DIAGRAMS = 16

_KANGSEPP = "Kangsepp, Valk & Kull (2022)"
_FITTED = tuple(name for name, m in METHODS.items() if m.event is not None and m.evaluates)
_LEVEL = Option(0.95, low=0.5, high=0.999, real=True)
_CUT = {
    "binning": Option("equal-mass", choices=("equal-mass", "equal-width", "adaptive")),
    "count": Option("fixed", choices=("fixed", "sweep", "cross-validated")),
    "n_bins": Option(15, high=MAX_BARS),
}
_CUTS = (
    "bins: equal-mass, borders between distinct predictions; equal-width; adaptive, from ranks round(i n / b); count: "
    f"fixed, n_bins; sweep, as ece-sweep, at most {MAX_BARS}; cross-validated, as ece-cv"
)


def _fit_runs(options: Mapping[str, Any]) -> Runs:
    return METHODS[options["method"]].runs


def _cut_seconds(n: int, options: Mapping[str, Any], _: Resampling) -> float:
    return 3e-7 * n + (0.1 + 1.2e-6 * n if options["count"] == "cross-validated" else 0.0)


DIAGRAMS: Mapping[str, Diagram] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Diagram(
                "reliability",
                "Reliability diagram, flat and with diagonal filling",
                "label share against mean prediction of bins, with Wilson's interval at level of effective rows; flat: "
                "bars of height ybar; diagonal filling: the roof p + ybar - pbar of each bin, whose mean distance "
                f"from the diagonal over the rows is the ECE of the bins. {_CUTS}",
                f"{_KANGSEPP}, section 4.5 and theorem 2; Wilson (1927)",
                reliability,
                {
                    "start": "where a bin begins on the axis of predictions",
                    "end": "where it ends",
                    "count": "rows in it",
                    "rows": "effective rows",
                    "share": "its share of the mass",
                    "mean_prediction": "pbar",
                    "observed_frequency": "ybar, the height of its flat bar",
                    "gap": "ybar - pbar",
                    "low": "lower end of the interval of ybar",
                    "high": "upper end",
                    "roof_start": "height of the diagonal filling at start",
                    "roof_end": "height at end",
                    "ece": "sum of share |gap|",
                    "ece_debiased": "the same, debiased as ece",
                    "histogram": "edges of equal width, with count and share of the rows between them",
                },
                "O(n log n)",
                {
                    **_CUT,
                    "closed": Option("left", choices=("left", "right")),
                    "level": _LEVEL,
                    "histogram": Option(20, high=MAX_BARS),
                },
                seconds=_cut_seconds,
            ),
            Diagram(
                "fit-on-test",
                "Fit-on-test diagram",
                "the map c that the method fits to these rows, at predictions of equal mass and evenly spaced ones, "
                "with a pointwise band at level from a Gaussian process's posterior, moved to the map; its errors "
                "mean |c(p) - p| and mean (c(p) - p)^2. isotonic by default: quick, and of no assumed shape but "
                "rising; pl, pl3 and averaged are jobs",
                f"{_KANGSEPP}, sections 3 and 4.5; docs/explanation/averaging.md",
                fitted_curve,
                {
                    "predictions": "p, from the smallest seen to the largest",
                    "calibrated": "c(p)",
                    "low": "lower end of the band",
                    "high": "upper end",
                    "identity_probability": "posterior probability that the predictions are calibrated as they are",
                    "family": "of the curve",
                    "parameters": "of the curve where they are few: of pl and pl3 the knots and heights",
                    "alpha_1": "mean |c(p) - p|",
                    "alpha_1_debiased": "the same, debiased as ece-METHOD",
                    "alpha_2": "mean (c(p) - p)^2",
                },
                "O(n log n) and a fit to a few hundred cells",
                {
                    "method": Option("isotonic", choices=_FITTED),
                    "folds": Option(10, low=2, high=MAX_FOLDS),
                    "level": _LEVEL,
                },
                runs=_fit_runs,
                seconds=lambda n, _options, _resampling: 0.1 + 3e-7 * n,
            ),
            Diagram(
                "corp",
                "CORP reliability diagram with consistency band",
                "isotonic regression of the labels; at each prediction the band that such a curve of labels drawn from "
                "the predictions keeps to at level; Brier score = miscalibration - discrimination + uncertainty",
                "Dimitriadis, Gneiting & Jordan (2021)",
                corp,
                {
                    "start": "first prediction of a block",
                    "end": "last prediction of it",
                    "calibrated": "its label share, rising from block to block",
                    "share": "its share of the mass",
                    "blocks": "how many there are; at most 250 are listed",
                    "band_p": "predictions at which the band is given",
                    "band_low": "its lower end",
                    "band_high": "its upper end",
                    "brier": "mean (p - y)^2",
                    "miscalibration": "brier less that of the curve",
                    "discrimination": "uncertainty less the curve's brier",
                    "uncertainty": "r (1 - r), r the share of positives",
                },
                "O(n log n + 1000 resamples)",
                {"level": Option(0.9, low=0.5, high=0.999, real=True)},
                seconds=lambda n, _options, resampling: 2e-7 * n + 1e-4 * resampling.resamples,
            ),
            Diagram(
                "logit-logit",
                "Reliability on logit axes, with the Platt line",
                "logit of (k + 1/2) / (m + 1), k positives of m effective rows, against logit of the mean prediction "
                "of bins, interval -+ z (1 / (k + 1/2) + 1 / (m - k + 1/2))^(1/2) at level; the line of Platt scaling; "
                f"logits of predictions clip at 2^-52. {_CUTS}",
                "Platt (1999); Gart & Zweifel (1967)",
                logit_reliability,
                {
                    "x": "logit of a bin's mean prediction",
                    "y": "logit of its corrected label share",
                    "low": "lower end of the interval of y",
                    "high": "upper end",
                    "count": "rows in it",
                    "share": "its share of the mass",
                    "slope": "of the Platt line",
                    "intercept": "of the Platt line",
                    "clipped": "rows whose prediction is beyond the clip",
                },
                "O(n log n)",
                {**_CUT, "level": _LEVEL},
                seconds=_cut_seconds,
            ),
            Diagram(
                "ks-graphs",
                "The four graphs of the KS error",
                "cumulative score and label, (a) against the fractile, (b) against the cumulative score; score and "
                "probability, (c) against the fractile, (d) against the score; probability: score plus the slope of a "
                "natural cubic spline, of evenly spaced knots, fitted to cumulative label less score; in [0, 1]",
                "Gupta et al. (2021), Figure 1 and section 4",
                ks_graphs,
                {
                    "fractile": "share of the mass up to a place; the first is before all rows",
                    "score": "the prediction there",
                    "cumulative_score": "sum of w p up to it over the mass",
                    "cumulative_label": "sum of w y up to it over the mass",
                    "probability": "estimate of P(Y=1) at this score",
                    "ks": "the KS error",
                    "signed": "the same with the sign of labels less scores",
                    "reached_fractile": "where it is reached",
                    "reached_score": "the prediction there",
                    "end": "cumulative label less score at the end",
                },
                "O(n log n)",
                {"points": Option(400, low=10, high=1000), "knots": Option(6, low=3, high=30)},
            ),
        )
    }
)


def read_diagrams(diagrams: Sequence[str | Mapping[str, Any]] | None) -> tuple[DiagramRequest, ...]:
    """Read a request for diagrams: names, or objects of a name, options and ``as``; none for None.

    Raises ``UnknownDiagram`` or ``InvalidOption``, each naming the place; equal keys are refused.
    """
    entries = read_entries(
        () if diagrams is None else diagrams, DIAGRAMS, "diagram", most=MAX_DIAGRAMS, unknown=UnknownDiagram
    )
    return tuple(DiagramRequest(*parts) for parts in entries)
