"""Calibration in segments of features: the search for segments, and the multicalibration error."""

from __future__ import annotations

from typing import Any

from backend.batches import find_rows
from backend.kinds import Arrays, inline_bytes
from backend.kinds.classes import reduction_by_number
from backend.requester import Requester
from backend.telemetry.observed import traced
from calibrant.core.errors import InvalidOption
from calibrant.core.features import Features
from calibrant.core.inputs import check_named_event
from calibrant.core.reductions import Event
from calibrant.decisions.segments import SegmentOptions, search
from calibrant.measures.intervals import Resampling
from calibrant.measures.multicalibration import error_of, independent_event
from schemas.segments import MulticalibrationOptions, SegmentsOptions

#: Estimated seconds per row and feature of a search, and per row and resample of the error.
_SEARCH, _RESAMPLE = 1e-6, 1e-7


@traced("work")
def search_segments(requester: Requester, arrays: Arrays, options: SegmentsOptions) -> dict[str, Any]:
    """Find segments of the rows in which the mean label differs from the mean prediction."""
    event, features = _rows(requester, arrays, options, _SEARCH, options.max_order)
    names = ("max_order", "n_bins", "min_rows", "n_segments", "confidence", "held_out", "seed")
    return search(event, features, SegmentOptions.read(*(getattr(options, name) for name in names))).to_dict()


@traced("work")
def multicalibration(requester: Requester, arrays: Arrays, options: MulticalibrationOptions) -> dict[str, Any]:
    """Measure the largest miscalibration over segments of the features."""
    event, features = _rows(requester, arrays, options, _RESAMPLE * (1 + (options.resamples or 0)), options.max_depth)
    names = ("max_depth", "max_values", "min_rows", "n_segments", "ties")
    resampling = None if options.resamples is None else Resampling.read(None, options.resamples, options.seed)
    arguments = {name: getattr(options, name) for name in names}
    return error_of(event, features, **arguments, resampling=resampling).to_dict()


def _rows(
    requester: Requester,
    arrays: Arrays,
    options: SegmentsOptions | MulticalibrationOptions,
    seconds: float,
    order: int,
) -> tuple[Event, Features]:
    """Return the event and the features of the rows; the work takes ``seconds`` for each row and ``order`` features."""
    rows = find_rows(requester, arrays, options)
    features = rows.predictions.features
    if features is None:
        raise InvalidOption.at("/features", "must be the features of the rows")
    requester.take_slot(seconds * len(rows) * len(features.columns) ** order)
    requester.reserve(inline_bytes(len(rows), rows.numbers + len(rows) * (len(features.columns) + 1)))
    reduction = reduction_by_number(options.reduction, rows.class_names)
    check_named_event(reduction, rows.class_names, rows.labelled.predictions.n_classes)
    return independent_event(rows.labelled, reduction, None), features
