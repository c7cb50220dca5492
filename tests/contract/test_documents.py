"""Documents of earlier versions are read and give the same results."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

import calibrant
from schemas.aliases import AliasRecord
from schemas.jobs import JobRecord
from schemas.maps import About, MapRecord

STORED = Path(__file__).parent / "stored"


@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        ("map", calibrant.METHODS),
        ("sets", calibrant.SET_METHODS),
        ("distribution", calibrant.DISTRIBUTION_METHODS),
    ],
)
def test_every_method_has_a_stored_document(kind: str, methods: Collection[str]) -> None:
    assert {path.name.split("-", 2)[2].split(".")[0] for path in STORED.glob(f"{kind}-*.json")} == set(methods)


def test_documents_of_every_earlier_format_still_load_and_apply() -> None:
    """The files were written by the version in their name and are never written again."""
    for path in sorted(STORED.glob("map-*.json")):
        stored = json.loads(path.read_text("utf-8"))
        record = MapRecord.model_validate(stored["record"])
        fitted = calibrant.load(record.document)
        calibrated = fitted.apply(stored["predictions"], features=stored.get("features"))
        np.testing.assert_allclose(calibrated, stored["calibrated"], rtol=0, atol=1e-12)


def test_records_of_the_registry_still_hold_what_they_held() -> None:
    stored = {path.stem.split(".")[-1]: json.loads(path.read_text("utf-8"))["record"] for path in STORED.glob("map-*")}
    for name in ("registry", "canonical-registry", "canonical-imported"):
        held = json.loads(json.dumps(stored[name]).replace('"label_share"', '"observed_frequency"'))  # its earlier name
        for scores in (held["in_sample"] or {}).values():  # the same name as in reports
            scores["log-loss"] = scores.pop("log_loss")
        later = {"class_names": None, "prediction_kind": "classification"}
        later |= dict.fromkeys(("accepts", "returns", "held_out_gain", "warning"))
        assert MapRecord.model_validate(stored[name]).model_dump() == About().about() | later | held
    before = MapRecord.model_validate(stored["canonical"])
    assert (before.about(), before.created_by, before.digest, before.in_sample, before.imported) == (
        About().about(),
        None,
        None,
        None,
        False,
    )


def test_stored_aliases_round_trip() -> None:
    stored = {
        "name": "m",
        "alias": "champion",
        "version": 3,
        "map": "map_1",
        "revision": 2,
        "updated_at": "2026-01-01T00:00:00.000Z",
        "updated_by": "ci",
    }
    assert AliasRecord.model_validate(stored).model_dump() == stored


def test_stored_jobs_round_trip() -> None:
    record = JobRecord(id="job_1", kind="fit", status="queued", created_at="2026-01-01T00:00:00.000Z", ttl=60, spec={})
    assert JobRecord.model_validate_json(record.model_dump_json()) == record
    assert "spec" not in record.answer().model_dump()


@pytest.mark.parametrize("path", sorted(STORED.glob("sets-v1-*.json")), ids=lambda path: path.stem)
def test_a_stored_set_map_gives_the_same_sets(path: Path) -> None:
    stored = json.loads(path.read_text("utf-8"))
    fitted = calibrant.load_sets(stored["document"])
    assert fitted.to_document() == stored["document"]
    sets = fitted.apply(stored["predictions"], groups=stored["groups"], seed=stored["seed"])
    assert sets.to_lists() == stored["sets"]


@pytest.mark.parametrize("path", sorted(STORED.glob("distribution-v1-*.json")), ids=lambda path: path.stem)
def test_a_stored_document_gives_the_same_results(path: Path) -> None:
    stored = json.loads(path.read_text("utf-8"))
    fitted = calibrant.load_distribution(stored["document"])
    assert fitted.to_document() == stored["document"]
    calibrated = fitted.apply(by=stored["by"], **stored["forecasts"])
    for name, column in stored["calibrated"].items():
        np.testing.assert_allclose(getattr(calibrated, name), column, rtol=1e-12, atol=1e-12)
