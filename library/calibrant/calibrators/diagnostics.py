"""Diagnostics of fits: what each of them means, and its unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Diagnostic(NamedTuple):
    """The meaning of a diagnostic, and its unit."""

    meaning: str
    unit: str = ""


DIAGNOSTICS: Mapping[str, Diagnostic] = {
    "accuracy_before": Diagnostic("accuracy on the rows of the fit, before the map"),
    "accuracy_after": Diagnostic("accuracy on the rows of the fit, after the map"),
    "bandwidth": Diagnostic("width of the kernel", "probability"),
    "bins": Diagnostic("number of bins; of several binnings, of the most probable"),
    "candidates": Diagnostic("numbers of pieces that were compared"),
    "cells": Diagnostic("number of distinct predictions"),
    "converged": Diagnostic("whether each fit converged"),
    "exponents": Diagnostic("exponents of the members in the log-linear pool"),
    "final": Diagnostic("how the maps of the folds are combined"),
    "fits": Diagnostic("number of fits"),
    "folds": Diagnostic("number of folds of the cross-validation"),
    "gradient": Diagnostic("largest derivative of the objective at the optimum"),
    "held_out_gain": Diagnostic(
        "cross-fitted decrease of the log loss by the map, and its approximate standard error", "nats"
    ),
    "held_out_log_loss": Diagnostic("log loss on held-out folds", "nats"),
    "identity_probability": Diagnostic("posterior probability that the predictions need no map"),
    "intercept_strength": Diagnostic("strength of the penalty on the intercepts"),
    "knot_values": Diagnostic("values of the spline at its knots"),
    "knots": Diagnostic("number of knots of the spline"),
    "likelihood_ratios": Diagnostic("likelihood-ratio statistics between updates: none, intercept, or both", "chi2"),
    "log_loss": Diagnostic("log loss on the rows of the fit", "nats"),
    "loss": Diagnostic("score that the fit minimises"),
    "models": Diagnostic("number of averaged binnings"),
    "monotone": Diagnostic("whether the map is forced to increase"),
    "objective": Diagnostic("log loss plus penalty on the rows of the fit", "nats"),
    "p_values": Diagnostic("p-values of the likelihood-ratio tests that choose the update"),
    "pieces": Diagnostic("chosen number of pieces"),
    "pool_share": Diagnostic("weight of the log-linear pool"),
    "process_share": Diagnostic("weight of the Gaussian process"),
    "scores": Diagnostic("held-out score of each number of pieces"),
    "segments": Diagnostic("number of segments; of terms of features, of their cells"),
    "select": Diagnostic("score that chooses the number of pieces"),
    "shrinkage": Diagnostic("factor of the update, below 1 with fewer than 100 events or non-events"),
    "smoothing": Diagnostic("how far predictions of exactly 0 or 1 are smoothed"),
    "starts": Diagnostic("starting points of each fit"),
    "steps": Diagnostic("steps of the optimiser"),
    "strength": Diagnostic("strength of the penalty"),
    "temperature": Diagnostic("temperature at which the fit started"),
    "tolerance": Diagnostic("fraction of the best score within which fewer pieces are chosen"),
    "terms": Diagnostic("terms of features that were chosen: features, shape, place along, and number of cells"),
    "thinning_error": Diagnostic("largest change by keeping fewer scores", "probability"),
    "update": Diagnostic("chosen update of the model: none, intercept, or intercept and slope"),
}
