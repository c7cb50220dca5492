from __future__ import annotations

import json
import pkgutil
from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel

import schemas
from backend.store.errors import LaterFormat, StorageError
from backend.store.formats import STEPS, newest_format, read_stored
from schemas.aliases import AliasRecord, StoredAlias
from schemas.audit import StoredFact
from schemas.audit_hooks import StoredHook
from schemas.backup import Header
from schemas.base import Document
from schemas.batches import BatchRecord, UploadRecord
from schemas.jobs import IdempotencyRecord, JobRecord, WorkersRecord
from schemas.keys import KeyRecord, SessionRecord, TokenMapping
from schemas.listing import ListedMap
from schemas.maps import DistributionMapDocument, MapDocument, MapIdentity, MapRecord, MapSummary
from schemas.monitor_alarms import DeliveryRecord, Standing
from schemas.monitor_answers import StoredLabelShifts
from schemas.monitors import StoredMonitor

STORED = (
    BatchRecord, DeliveryRecord, IdempotencyRecord, JobRecord, KeyRecord, ListedMap, MapRecord,
    SessionRecord, Standing, StoredAlias, StoredFact, StoredHook, StoredLabelShifts, StoredMonitor, TokenMapping,
    UploadRecord, WorkersRecord,
)  # fmt: skip
#: A line of a file, and what two stored documents have in common.
NOT_STORED = (DistributionMapDocument, Header, MapDocument, MapIdentity, MapSummary)


class _Third(Document):
    """A document whose name was a title in format 1, and whose size came in format 3."""

    format: int = 3
    name: str
    size: int = 0


_RENAMED = {1: lambda old: {"name": old["title"]}}


def _text(document: Any) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "stored",
    [
        {"title": "a"},
        {"format": 1, "title": "a"},
        {"format": 2, "name": "a"},
        {"format": 3, "name": "a", "size": 0},
    ],
)
def test_a_document_of_any_earlier_format_is_read_as_todays(stored: dict[str, Any]) -> None:
    assert read_stored(_Third, _text(stored), _RENAMED) == _Third(name="a")


@pytest.mark.parametrize("later", [{"format": 4, "name": "a"}, {"format": 4, "name": "a", "colour": "red"}])
def test_a_document_of_a_later_format_is_refused_even_where_it_could_be_read(later: dict[str, Any]) -> None:
    with pytest.raises(LaterFormat, match="format 4, but this version of Calibrant supports up to 3"):
        read_stored(_Third, _text(later), _RENAMED)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b'{"format": "x"}', b'{"format": 3}', b"{", b'{"format": 2.5}'])
def test_a_value_that_is_not_a_document_is_refused(text: bytes) -> None:
    with pytest.raises(StorageError) as refused:
        read_stored(_Third, text, _RENAMED)
    assert refused.value.code == "storage-error"


def test_every_stored_document_has_a_format_and_no_step_leads_past_it() -> None:
    for model in STORED:
        assert newest_format(model) >= 1
    for migrated, steps in STEPS.items():
        assert all(1 <= number < newest_format(migrated) for number in steps)


def test_every_document_with_a_format_is_known_here() -> None:
    modules = [import_module(module.name) for module in pkgutil.walk_packages(schemas.__path__, "schemas.")]
    models = {
        model
        for module in modules
        for model in vars(module).values()
        if isinstance(model, type) and issubclass(model, BaseModel) and "format" in model.model_fields
    }
    assert {model for model in models if model.model_fields["format"].annotation is int} == {*STORED, *NOT_STORED}


def test_a_batch_that_names_no_format_is_of_the_first() -> None:
    record = BatchRecord(
        id="batch_1", n=2, n_classes=None, scale="probability", weights_kind="frequency", arrays=["predictions"],
        clipped=0, renormalised=0, created_at="2026-01-01T00:00:00.000Z", expires_at="2026-01-02T00:00:00.000Z",
    )  # fmt: skip
    first = record.model_dump_json(exclude={"format", "parts", "label_counts", "positive_rate", "bytes"})
    assert read_stored(BatchRecord, first.encode()) == record


def test_an_alias_keeps_its_format_to_the_store() -> None:
    record = AliasRecord(name="m", alias="a", version=3, map="map_1", revision=2, updated_at="2026-01-01T00:00:00.000Z")
    stored = StoredAlias.of(record)
    assert json.loads(stored.model_dump_json())["format"] == 1
    assert read_stored(StoredAlias, stored.model_dump_json().encode()).record() == record
    assert "format" not in record.model_dump()


def test_evidence_of_earlier_versions_has_its_description() -> None:
    fields = {"log_e": 1.0, "largest": 2.0, "bound": 3.0, "level": 0.1, "since": None, "shape": "line", "delta": 0.1}
    fields |= {"spread": 0.0, "low": 0.0, "high": 1.0, "told": "predictions are too low"}
    state = {"rule": "drift", "kind": "evidence", "evidence": fields}
    standing = read_stored(Standing, json.dumps({"format": 1, "rules": {"drift": state}}).encode())
    evidence = standing.rules["drift"].evidence
    assert evidence is not None
    assert evidence.description == "predictions are too low"
    assert '"description"' in standing.model_dump_json()


def test_jobs_of_the_previous_format_name_their_creator() -> None:
    job = {"format": 2, "id": "job_1", "kind": "fit", "status": "queued", "created_at": "2026-01-01T00:00:00.000Z"}
    job |= {"ttl": 60, "spec": {"method": "pl", "name": "spam", "batch": "batch_1", "created_by": "ci"}}
    stored = read_stored(JobRecord, json.dumps(job | {"problem": None, "result": None}).encode())
    answer = stored.answer()
    assert (answer.created_by, answer.method, answer.map, answer.batch) == ("ci", "pl", "spam", "batch_1")
    evaluation = job | {"kind": "evaluate", "spec": {"batch": None, "batches": ["batch_1", "batch_2"], "map": None}}
    assert read_stored(JobRecord, json.dumps(evaluation).encode()).summary().batches == ["batch_1", "batch_2"]


def test_monitors_of_the_previous_format_have_times_in_seconds() -> None:
    hook = {"name": "hook", "url": "https://a.example.com", "secret": "whsec_QUFB", "old_secret_until": 1769860800.25}
    monitor = {"format": 1, "name": "m", "uid": "monitor_1", "created_at": "2026-01-01T00:00:00.000Z", "hooks": [hook]}
    monitor |= {"started_at": 1769860800.123456, "reference": {"start": 1769860800.0, "end": 1769864400.5}}
    stored = read_stored(StoredMonitor, json.dumps(monitor).encode())
    assert stored.reference is not None
    assert stored.id == "monitor_1"
    times = (stored.started_at, stored.reference.start, stored.reference.end, stored.hooks[0].old_secret_until)
    assert times == (1769860800.123456, 1769860800.0, 1769864400.5, 1769860800.25)
    written = stored.model_dump_json()
    assert '"started_at":"2026-01-31T12:00:00.123456Z"' in written
    assert read_stored(StoredMonitor, written.encode()) == stored


def test_standings_of_the_previous_format_have_times_in_seconds() -> None:
    state = {"rule": "ece", "kind": "threshold", "started_at": 1769860800.5}
    standing = {"format": 1, "rules": {"ece": state}, "last_asked": 1769860800.0}
    stored = read_stored(Standing, json.dumps(standing).encode())
    assert (stored.rules["ece"].started_at, stored.last_asked) == (1769860800.5, 1769860800.0)
    assert read_stored(Standing, stored.model_dump_json().encode()) == stored
    shifts = read_stored(StoredLabelShifts, b'{"format": 1, "at": 5.5, "seconds": 1, "predictions": 2, "windows": {}}')
    assert shifts.at == 5.5
