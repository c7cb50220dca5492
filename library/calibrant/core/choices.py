"""Words of options that calls of the service have too: the library and the wire types take them from here."""

from __future__ import annotations

from typing import Literal

Scale = Literal["probability", "logit"]
#: How predictions may be passed; percentages, from 0 to 100, are divided by 100.
InputScale = Literal["probability", "percent", "logit"]
WeightsKind = Literal["importance", "frequency"]
#: CR2 (Bell & McCaffrey 2002), CR0 with the factor G / (G - 1) (N - 1) / (N - k), and CR0, for G clusters of N rows.
ClusterVariance = Literal["cr2", "cr1", "cr0"]
#: Where the service computes something: within a request, or as a job.
Runs = Literal["inline", "job"]
ForecastKind = Literal["normal", "quantiles", "samples", "interval"]
ForecastScale = Literal["identity", "log1p"]
#: What results of a source are computed from: rows, counts of distinct predictions, or tallies of 2,048 cells.
SourceForm = Literal["rows", "distinct", "tally"]
Engine = Literal["local", "dask"]
#: The scale on which values of groups are pooled.
PoolingScale = Literal["identity", "log", "logit"]
#: What rows for a monitor contain: predictions with labels, or one of them.
What = Literal["rows", "predictions", "labels"]

# --- Jobs

JobKind = Literal["fit", "evaluate", "recommend", "score", "backfill"]
JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
#: Statuses that never change again.
FINAL: frozenset[JobStatus] = frozenset({"succeeded", "failed", "cancelled"})

# --- Comparisons

#: The scores that rank models, the default first: proper scores, which the true probabilities minimise.
RankingScore = Literal["log-loss", "brier"]
#: The scores by which forecasts are compared.
ForecastScore = Literal[
    "crps", "log-score", "dawid-sebastiani", "quantile-score", "interval-score", "squared-error", "absolute-error"
]
Correction = Literal["max-t", "holm"]
#: What is compared.
Of = Literal["value", "debiased"]
#: Values to compare: debiased ones if every contestant with a value has one, or always plain ones.
RankedValues = Literal["debiased", "plain"]

# --- Decisions, grades, monitors and pictures

#: What determines a threshold.
Criterion = Literal["costs", "capacity", "precision", "recall"]
#: The light of a grade.
Light = Literal["green", "yellow", "red"]
#: The shape of a calibration error: a line in the logit, a curve, or a range of predictions.
ErrorShape = Literal["line", "curve", "part"]
AxesScale = Literal["linear", "logit"]
PictureFormat = Literal["svg", "png"]
#: An SVG with ``auto`` follows the colour scheme of the viewer; a PNG with ``auto`` is light.
Theme = Literal["auto", "light", "dark"]
