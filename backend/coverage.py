"""The coverage of prediction sets."""

from __future__ import annotations

from typing import Any

from backend.batches import reserve_work
from backend.kinds import Arrays, inline_bytes
from backend.requester import Requester
from backend.telemetry.observed import note_rows, traced
from calibrant.core.errors import InvalidOption, naming
from calibrant.io.errors import InvalidField
from calibrant.io.strict import CLASSIFICATION
from schemas.coverage import CoverageOptions


@traced("work")
def evaluate_sets(requester: Requester, arrays: Arrays, options: CoverageOptions) -> dict[str, Any]:
    """Evaluate the sets, which are rows of 0 and 1 or listed; raises a ``CalibrationError``, ``Busy``."""
    from calibrant.sets.evaluation import evaluate_covered
    from calibrant.sets.rows import read_sets

    matrix, listed = arrays.get("predictions"), options.sets
    if matrix is not None and listed is not None:
        raise InvalidField.at("/sets", "cannot be combined with predictions; send one of the two")
    if matrix is None and listed is None:
        raise InvalidField.at("/sets", "is missing: send sets, or predictions of 0 and 1")
    if "labels" not in arrays:
        raise InvalidField.at("/labels", "is missing")
    if "clusters" in arrays:
        raise InvalidOption.at("/clusters", "are not supported: intervals assume independent rows")
    if any(name.startswith(CLASSIFICATION.features) for name in arrays):
        raise InvalidOption.at("/features", "are not supported: no map is applied")
    reserve_work(requester, arrays)
    size = sum(map(len, listed)) if listed is not None else 0 if matrix is None else matrix.size
    requester.take_slot(1e-7 * size)
    requester.reserve(inline_bytes(len(arrays["labels"]), size))
    if matrix is not None:
        note_rows(matrix.shape)
    with naming({"sets": "sets" if matrix is None else "predictions"}):
        rows = read_sets(listed if matrix is None else matrix, arrays["labels"], options.class_names)
        return evaluate_covered(
            rows,
            groups=None if "groups" not in arrays else arrays["groups"].tolist(),
            weights=arrays.get("weights"),
            weights_kind=options.weights_kind,
            alpha=options.alpha,
            level=options.interval,
        ).to_dict()
