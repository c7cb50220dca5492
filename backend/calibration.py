"""Applications of maps to the predictions of a request, and recalibrations in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from backend.batches import find_rows, reserve_work
from backend.held_map import HeldMap
from backend.kinds import Arrays, Calibrated, kind_of
from backend.kinds.sets import SetsRequest
from backend.requester import Scorer
from backend.telemetry.observed import note_rows, traced
from calibrant.core.batch import Predictions
from calibrant.io.errors import InvalidField
from calibrant.io.strict import CLASSIFICATION
from schemas.maps import CalibrateDistributionOptions, CalibrateOptions, InOrderOptions


@traced("work")
def calibrate(
    requester: Scorer,
    arrays: Arrays,
    options: CalibrateOptions | CalibrateDistributionOptions,
    held: HeldMap | None = None,
) -> Calibrated:
    """Apply the map of a request (``held`` if already loaded) to its predictions or its batch.

    Raises ``TooLarge`` for a large result.
    """
    kind = kind_of(options.prediction_kind)
    request = kind.calibration(held or requester.find_map(options.map), cast(Any, options))
    _refuse_fields(arrays, kind.applied)
    if isinstance(request, SetsRequest) and request.takes_labels(arrays):
        return request.on_labels(requester, arrays)
    return request.on(requester, find_rows(requester, arrays, request.options, labelled=False))


@traced("work")
def calibrate_few(held: HeldMap, predictions: list[float]) -> list[float]:
    """Apply a map of a classifier to a few probabilities in [0, 1]."""
    note_rows((len(predictions),))
    checked = Predictions(np.array(predictions, dtype=np.float64), "probability")
    calibrated: list[float] = held.map.apply_checked(checked, clip=False).tolist()
    if min(calibrated) > 0.0 and max(calibrated) <= 1.0:
        return calibrated
    return held.map.apply_checked(checked).tolist()  # type: ignore[no-any-return]


@traced("work")
def calibrate_in_order(requester: Scorer, arrays: Arrays, options: InOrderOptions) -> Calibrated:
    """Recalibrate the forecasts of a request in the order of time."""
    from backend.kinds.distributions import DISTRIBUTIONS, recalibrate

    _refuse_fields(arrays, (*DISTRIBUTIONS.applied, "observed", "times", "known"))
    for name in ("observed", "times", "known"):
        if name not in arrays:
            raise InvalidField.at(f"/{name}", "is missing")
    reserve_work(requester, arrays)
    row_arrays = {name: array for name, array in arrays.items() if name != "known"}
    rows = DISTRIBUTIONS.check(row_arrays, options, labelled=True)
    recalibrated = recalibrate(requester, replace(rows, known=arrays["known"].tolist()), options.in_order)
    corrections = {"shifts": recalibrated.shifts, "factors": recalibrated.factors, "n_known": recalibrated.n_known}
    return Calibrated({"n_repaired": rows.forecasts.n_repaired}, {**recalibrated.forecasts, **corrections})


def _refuse_fields(arrays: Arrays, known: Sequence[str]) -> None:
    for name in arrays:
        if name not in known and not ("features" in known and CLASSIFICATION.is_feature(name)):
            raise InvalidField.at(f"/{name}", "is not a field of this request")
