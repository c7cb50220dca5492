"""Answers: decoded from JSON by their type hints, frozen, and written back."""

from __future__ import annotations

import dataclasses
import pickle
import traceback
from typing import Any

import numpy as np
import orjson
import pytest

import calibrant
from calibrant.client import ProblemResponse
from calibrant.client.answers import (
    AlarmData,
    EvidenceRule,
    GapAnswer,
    HookSpec,
    HookTestData,
    JobAnswer,
    JobsAnswer,
    JobSummary,
    LimitsAnswer,
    MapRecord,
    MeasureReading,
    Mismatch,
    MonitorAnswer,
    MonitorEvent,
    Problem,
    Progress,
    RecalibrationData,
    ReportAnswer,
    ThresholdRule,
    decode,
)
from calibrant.client.declared import pages, result
from calibrant.client.events import follow
from calibrant.client.retries import Patience
from calibrant.client.rows import result_of, with_class_rows
from tests.unit.client.replies import answer, take

JOB: dict[str, Any] = {"id": "job_1", "kind": "fit", "status": "queued", "created_at": "t"}
MEASURE = {"value": 0.1, "definition": {"name": "ece"}}
REPORT: dict[str, Any] = {
    "n": 3,
    "reduction": "binary",
    "clipped": 0,
    "renormalised": 0,
    "measures": {"ece": MEASURE | {"interval": [0, 0.2]}},
    "groups": {"anna": {"n": 1, "measures": {"ece": MEASURE}}},
}
MONITOR: dict[str, Any] = {"name": "m", "id": "u", "created_at": "t", "started_at": "t"}
SECRET = "data-of-the-caller"


def test_missing_fields_have_their_defaults_and_new_fields_are_ignored() -> None:
    job = decode(JobSummary, JOB | {"progress": {"done": 3, "later": 1}, "later": {"a": 1}, "status": "paused"})
    assert job.progress == Progress(done=3, total=0, stage="")
    assert job.problem is None
    assert job.to_dict()["status"] == "paused"


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        (JobSummary, {}, "/id is missing"),
        (JobSummary, [SECRET], "the document must be an object"),
        (list[JobSummary], {}, "the document must be an array"),
        (list[JobSummary], [JOB, JOB, JOB | {"id": 3}], "/2/id must be a string"),
        (JobSummary, JOB | {"progress": {"done": SECRET}}, "/progress/done must be an integer"),
        (JobSummary, JOB | {"progress": {"done": True}}, "/progress/done must be an integer"),
        (JobSummary, JOB | {"progress": {"done": 0.5}}, "/progress/done must be an integer"),
        (JobSummary, JOB | {"progress": None}, "/progress must be an object"),
        (JobSummary, JOB | {"problem": SECRET}, "/problem must be null or an object"),
        (ReportAnswer, REPORT | {"measures": {SECRET: MEASURE | {"value": "x"}}}, "/measures/*/value must be a number"),
        (ReportAnswer, REPORT | {"measures": {"ece": MEASURE | {"interval": [0.1]}}}, "interval must be an array of 2"),
        (ReportAnswer, REPORT | {"measures": {"ece": MEASURE | {"interval": [0.1, "x"]}}}, "/interval/1 must be a num"),
        (ReportAnswer, REPORT | {"map": 3}, "/map must be a string or null"),
        (MonitorAnswer, MONITOR | {"rules": [{"kind": SECRET}]}, "/rules/0 must be one of: EvidenceRule, Threshold"),
        (MonitorAnswer, MONITOR | {"rules": [{"kind": "evidence", "alpha": "x"}]}, "/rules/0/alpha must be a number"),
        (MeasureReading, {"value": 0.1, "parts": {"a": [[{}]]}}, "/parts/*/0/0 must be a string or true or false"),
    ],
)
def test_a_field_of_a_wrong_type_is_named_and_its_value_is_not_echoed(
    kind: type[Any], document: object, message: str
) -> None:
    with pytest.raises(Mismatch) as caught:
        decode(kind, document)
    assert message in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_type_that_json_does_not_have_is_a_mistake_of_the_client() -> None:
    with pytest.raises(TypeError, match="cannot have a field of type"):
        decode(set, [])


def test_integers_become_numbers_where_a_number_is_declared_and_parts_stay_as_they_are() -> None:
    [limit] = decode(LimitsAnswer, {"limits": {"a": {"value": 3, "meaning": ""}}, "used": {}}).limits.values()
    assert isinstance(limit.value, float)
    interval = decode(ReportAnswer, REPORT).measures["ece"].interval
    assert interval == (0.0, 0.2)
    parts = {"n": 3, "p": 0.5, "kind": "a", "on": True, "none": None, "row": [1, 0.5, "a"], "table": [[1, 2], [None]]}
    read = decode(MeasureReading, {"value": None, "parts": parts})
    assert orjson.dumps(read.parts) == orjson.dumps(parts)


def test_a_document_of_a_union_is_read_as_its_kind() -> None:
    evidence, threshold = {"kind": "evidence"}, {"kind": "threshold", "window": "day", "above": 1}
    assert decode(MonitorAnswer, MONITOR | {"rules": [evidence, threshold]}).rules == [
        EvidenceRule(kind="evidence"),
        ThresholdRule(kind="threshold", window="day", above=1.0),
    ]
    event = {"id": "e", "type": "monitor.test", "timestamp": "t"}
    alarm = {"monitor": "m", "rule": "r", "kind": "evidence", "rows": 3}
    alarms = [alarm, {"monitor": "m", "hook": "h"}, {"monitor": "m", "rule": None, "rows": 3, "later": 1}]
    assert [decode(MonitorEvent, event | {"data": alarm}).data for alarm in alarms] == [
        AlarmData(monitor="m", rule="r", kind="evidence", rows=3),
        HookTestData(monitor="m", hook="h"),
        RecalibrationData(monitor="m", rows=3),
    ]


def test_answers_are_frozen_values_that_are_compared_copied_and_pickled() -> None:
    job = decode(JobAnswer, JOB | {"result": {"map": "map_1"}})
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.status = "failed"  # type: ignore[misc]
    assert job == decode(JobAnswer, JOB | {"result": {"map": "map_1"}})
    assert job != decode(JobAnswer, JOB)
    assert dataclasses.replace(job, status="failed").status == "failed"
    assert pickle.loads(pickle.dumps(job)) == job
    assert not hasattr(job, "__dict__")
    assert repr(job).startswith("JobAnswer(id='job_1', kind='fit', status='queued', progress=Progress(done=0")


def test_the_json_of_an_answer_has_every_field_and_shares_no_object_with_it() -> None:
    report = decode(ReportAnswer, REPORT)
    document = report.to_dict()
    assert document["measures"]["ece"]["interval"] == [0.0, 0.2]
    assert document["after"] is None
    document["measures"]["ece"]["definition"]["name"] = "changed"
    assert report.measures["ece"].definition == {"name": "ece"}
    assert decode(GapAnswer, decode(GapAnswer, {"between": ["a", "b"], "value": 1, "of": "value"}).to_dict()).value == 1


def test_the_secrets_of_a_hook_are_not_in_its_repr() -> None:
    hook = HookSpec(url=f"https://a/{SECRET}", secret=SECRET, old_secret=SECRET)
    assert repr(hook) == "HookSpec(name='hook', old_secret_until=None)"


def test_an_answer_of_another_type_is_unreadable_and_names_the_field() -> None:
    message = "200 Unexpected response: /status must be a string; check that the URL is that of a Calibrant server"
    with pytest.raises(ProblemResponse, match=message) as refusal:
        take(
            result(Patience(), "GET", "/jobs/job_1", JobAnswer),
            [answer(200, orjson.dumps(JOB | {"status": 3}), X_Request_Id="r")],
        )
    assert (refusal.value.problem.errors, refusal.value.request_id) == ([], "r")
    page = orjson.dumps({"items": [JOB, {}], "next": None})
    with pytest.raises(ProblemResponse, match="Unexpected response: /items/1/id is missing"):
        take(pages(Patience(), "/jobs", {}, JobsAnswer), [answer(200, page)])
    for body in (b"<html>", b"", b"\xff", b'"', b"NaN"):
        with pytest.raises(ProblemResponse, match="200 Unexpected response: check that the URL"):
            take(result(Patience(), "GET", "/jobs/job_1", JobAnswer), [answer(200, body)])


def test_an_unreadable_report_of_a_job_and_an_unreadable_event_name_the_field() -> None:
    ended = orjson.dumps(JOB | {"kind": "evaluate", "status": "succeeded", "result": {"report": REPORT | {"n": None}}})
    sent = with_class_rows(Patience(), "/evaluate", {}, {}, "batch_1")
    outcome = result_of(Patience(), sent, ReportAnswer, None, None)
    with pytest.raises(ProblemResponse, match="Unexpected response: /n must be an integer"):
        take(outcome, [answer(202, orjson.dumps(JOB)), answer(200, ended)])
    lines = ["id: 1-0", "event: status", 'data: {"id": 3}', ""]
    for broken, why in (
        (lines, "/id must be a string"),
        (lines[2:], "check that"),
        ([*lines[:2], "data: {", ""], "check that"),
    ):
        with pytest.raises(ProblemResponse, match=f"Unexpected response: {why}"):
            take(follow(Patience(), "/", None), [answer(), *broken])


def test_a_problem_document_is_read_if_it_is_one() -> None:
    document = {"type": "/problems/busy", "title": "Busy", "status": 503, "detail": "d", "later": 1}
    assert decode(Problem, document | {"errors": [{"pointer": "/a", "detail": "b"}]}).errors[0].pointer == "/a"
    with pytest.raises(Mismatch, match="/status must be an integer"):
        decode(Problem, document | {"status": "503"})


def test_a_map_is_shown_without_its_parameters() -> None:
    fields: dict[str, Any] = {
        **dict.fromkeys(("scale", "n_classes", "seed"), None),
        "id": "map-1",
        "method": "platt",
        "options": {},
        "created_at": "",
        "document": {"knots": [0.5] * 1000},
    }
    stored = MapRecord(**fields, name="spam", version=2, reduction="binary", n=1000)
    assert repr(stored) == "MapRecord: spam 2, platt, reduction binary, 1,000 rows, id 'map-1'"
    imported = MapRecord(**fields, name=None, version=None, reduction=None, n=None)
    assert repr(imported) == "MapRecord: platt, imported, id 'map-1'"


def test_a_report_becomes_the_result_of_the_library_with_all_its_fields() -> None:
    random = np.random.default_rng(0)
    p = random.random(400)
    y, groups = (random.random(400) < p).astype(int), np.repeat(["a", "b"], 200)
    fitted = calibrant.fit("platt", p[:200], y[:200])
    rows: Any = {"groups": groups, "interval": 0.9, "clusters": np.repeat(np.arange(100), 4)}
    report = calibrant.evaluate(p, y, measures=["ece", "calibration-slope"], map=fitted, **rows)
    sent: Any = decode(ReportAnswer, orjson.loads(orjson.dumps(report.to_dict())))
    assert dataclasses.replace(sent.to_report(), class_names=report.class_names, after_diagrams={}) == report
    compared: Any = calibrant.compare(p, y, {"platt": fitted}, groups=groups, measures=["brier"])
    sent = decode(ReportAnswer, orjson.loads(orjson.dumps(compared.to_dict())))
    assert repr(sent.to_report()) == repr(compared)
    assert sent.to_report().groups["b"].measures == compared.groups["b"].measures
