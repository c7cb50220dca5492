"""The command that writes the stored document of a calibrator."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from benchmarks.stored_map import stored_map
from schemas.maps import MapRecord


@pytest.mark.parametrize("method", ["platt", "matrix"])
def test_a_stored_document_is_a_record_whose_map_calibrates_as_it_says(method: str) -> None:
    stored = stored_map(method)
    record = MapRecord.model_validate(stored["record"])
    calibrated = calibrant.load(dict(record.document)).apply(np.array(stored["predictions"]))
    assert np.asarray(calibrated) == pytest.approx(np.array(stored["calibrated"]), abs=0.0)
