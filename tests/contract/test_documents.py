from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import calibrant
from schemas.jobs import JobRecord
from schemas.maps import MapRecord

STORED = Path(__file__).parent / "stored"


def test_documents_of_every_earlier_format_still_load_and_apply() -> None:
    """The files were written by the version in their name and are never written again."""
    files = sorted(STORED.glob("map-*.json"))
    assert {path.stem.split("-", 2)[2].split(".")[0] for path in files} == set(calibrant.METHODS)
    for path in files:
        stored = json.loads(path.read_text("utf-8"))
        record = MapRecord.model_validate(stored["record"])
        fitted = calibrant.load(record.document)
        np.testing.assert_allclose(fitted.apply(stored["predictions"]), stored["calibrated"], rtol=0, atol=1e-12)


def test_stored_jobs_round_trip() -> None:
    record = JobRecord(id="job_1", kind="fit", status="queued", created_at="2026-01-01T00:00:00.000Z", ttl=60, spec={})
    assert JobRecord.model_validate_json(record.model_dump_json()) == record
    assert "spec" not in record.answer().model_dump()
