"""Catalogue entry of maps that are calibrated within segments of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.calibrators.method import FitContext, FittedCurve, Method, Traits
from calibrant.core.cells import Floats, effective, take
from calibrant.core.errors import InvalidOption, OneClass, OutOfRange, TooFewRows, token
from calibrant.core.options import Option
from calibrant.core.progress import report, step
from calibrant.core.reductions import Event
from calibrant.core.results import n_rows
from calibrant.core.validation import folds_of, mean_gain
from calibrant.maps.curves import PROBABILITY_CLIP, logit_of
from calibrant.maps.segment_search import (
    SCREENED_ROWS,
    CandidateTerm,
    SegmentRows,
    estimated_seconds,
    knots_of_logits,
    read_feature,
    rows_of,
    search,
    settled,
)
from calibrant.maps.segments import LARGEST_KNOT, Segments, SegmentTerm

#: The fewest rows of a fit, and the largest size of a number, whose knots are below the largest one of a document.
_FEWEST, _LARGEST = 50, LARGEST_KNOT / 10.0
#: Folds that show whether the terms improve predictions, and the most rows of which folds are made.
_FOLDS, _MOST_IN_FOLDS = 5, 30_000


def _weighted(event: Event) -> Event:
    """Return the event without rows of weight 0, which change nothing."""
    return event if event.w is None or event.w.all() else event.rows(np.flatnonzero(event.w > 0.0))


def _check(event: Event, *, order: int) -> None:
    """Raise the errors of features and of few rows."""
    for feature in event.features or ():
        numbers = np.zeros(0) if feature.numbers is None else feature.numbers
        large = np.flatnonzero(np.abs(numbers) > _LARGEST)
        if len(large):
            where = f"/features/{token(feature.name)}/{large[0]}"
            raise OutOfRange.at(where, f"must be between {-_LARGEST:g} and {_LARGEST:g}")
    event = _weighted(event)
    features = event.features
    if features is None:
        raise InvalidOption.at("/features", "are missing; segments needs named columns that tell rows apart")
    if len(event) < _FEWEST:
        raise TooFewRows.at("/predictions", f"have {n_rows(len(event))}, but segments needs at least {_FEWEST}")
    for feature in features:
        if feature.is_constant:
            raise InvalidOption.at(f"/features/{token(feature.name)}", "has the same value in every row; leave it out")


def _segments(event: Event, context: FitContext, *, order: int) -> FittedCurve:
    if context.diagnose:
        _check(event, order=order)
    event = _weighted(event)
    if event.features is None:
        raise InvalidOption.at("/features", "are missing")
    names, y = event.features.names, event.y.astype(np.float64)
    if y.min() == y.max():
        raise OneClass.at("/labels", "contain one class, but a fit needs both")
    w = None if event.w is None else event.w if event.kind == "frequency" else effective(event.w)
    clip = _clip_of(event)
    z = logit_of(event, clip)
    reading = Segments(clip, knots_of_logits(z), tuple(map(read_feature, event.features)), ())
    rows = rows_of(reading, z, y, w, event.features)
    diagnostics: dict[str, Any] = {}
    improves = True
    if len(rows) <= _MOST_IN_FOLDS:
        gain = _held_out_gain(rows, event, context.seed, order)
        improves = gain["log_loss"] > gain["standard_error"]
        diagnostics["held_out_gain"] = gain if improves else {**gain, "log_loss": 0.0, "standard_error": 0.0}
    with step(_FOLDS, _FOLDS + 1):
        terms = settled(_search(rows, order, context.seed), rows) if improves else ()
        report(1, 1, "done")
    diagnostics["segments"] = sum(len(term.cells) for term in terms if term.features)
    diagnostics["terms"] = [
        {"features": [names[f] for f in term.features], "shape": term.shape, "cells": len(term.cells)}
        | ({} if term.shape == "level" else {"along": None if term.along is None else names[term.along]})
        for term in terms
    ]
    if not terms:  # predictions stay as they are, also those of 0 and 1
        return replace(reading, clip=PROBABILITY_CLIP), diagnostics
    return replace(reading, terms=terms), diagnostics


def _clip_of(event: Event) -> float:
    """Return the distance from 0 and 1 at which predictions are clipped: that of the closest one, if some are equal."""
    inside = np.minimum(event.p, 1.0 - event.p)
    extreme = inside <= 0.0
    if event.logit is not None or not extreme.any() or extreme.all():
        return PROBABILITY_CLIP
    return float(max(PROBABILITY_CLIP, min(inside[~extreme].min(), 1.0 / (len(event) + 2.0))))


def _search(rows: SegmentRows, order: int, seed: int) -> list[CandidateTerm]:
    """Choose the terms, from some of many rows."""
    if len(rows) > SCREENED_ROWS:
        rows = rows.rows(np.sort(np.random.default_rng(seed).choice(len(rows), SCREENED_ROWS, replace=False)))
    return search(rows, order)


def _held_out_gain(rows: SegmentRows, event: Event, seed: int, order: int) -> dict[str, float | int]:
    """Return the cross-fitted gain in log-likelihood by row, and its standard error."""
    fold = folds_of(event, _FOLDS, seed)
    gain = np.zeros(len(rows))
    for k in range(_FOLDS):
        with step(k, _FOLDS + 1):
            inside = rows.rows(np.flatnonzero((fold >= 0) & (fold != k)))
            terms = settled(search(inside, order), inside)
            gain[fold == k] = _gain(terms, rows.rows(np.flatnonzero(fold == k)))
    scored = fold >= 0
    return mean_gain(gain[scored], take(rows.w, scored), take(event.clusters, scored), _FOLDS, event.kind)


def _gain(terms: Sequence[SegmentTerm], rows: SegmentRows) -> Floats:
    """Return how much the terms add to the log-likelihood of each row."""
    f = rows.z.copy()
    for term in terms:
        cell = term.places_of(rows.sizes, rows.codes) if term.features else None
        places = None if term.shape == "level" else rows.along[term.along]
        f += term.effect(cell, places, rows.n_knots.get(term.along, 2))
    sign = np.where(rows.y > 0.0, -1.0, 1.0)
    return np.logaddexp(0.0, sign * rows.z) - np.logaddexp(0.0, sign * f)


def _seconds(n: int, features: int, options: Mapping[str, Any]) -> float:
    """Estimate the seconds of a fit, and of those in folds."""
    fits = 1 + (_FOLDS if n <= _MOST_IN_FOLDS else 0)
    return fits * estimated_seconds(n, features, options.get("order", 3))


METHODS = (
    Method(
        "segments",
        "Segments of features",
        f"c(p, x) = {Segments.formula}; terms are levels, slopes and curves in cells of up to order features, chosen "
        "by their evidence and shrunk by empirical Bayes; none if they do not improve the log loss in "
        f"{_FOLDS} folds, which are made of at most {_MOST_IN_FOLDS:,} rows; of more rows all chosen terms stay",
        "Hebert-Johnson et al. (2018) for the aim; Stephens (2017) for the shrinkage",
        Traits(
            "the probability of an event, or its logit, with the features of its row",
            "categories that the fit has not seen add nothing; numbers beyond the outer knots count as the knots",
            "no",
            "for events only",
            "between knots",
        ),
        maps=(Segments,),
        featured=_segments,
        evaluates=False,
        options={"order": Option(3, low=1, high=3)},
        seconds=_seconds,
        check=_check,
    ),
)
