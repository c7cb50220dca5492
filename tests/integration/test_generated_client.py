"""The client that openapi-python-client makes of the document, used against the real service."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from benchmarks.examples.record import Recorder, admitting
from calibrant.client import Calibrant
from service.app import create_app
from service.examples.calls import all_examples
from service.formats.catalogue import FORMATS
from service.openapi import operations
from service.settings import Settings
from service.stack import Stack
from tests.integration.conftest import own_service
from tests.openapi.python import Generated, generate
from tests.openapi.through import GeneratedClient

pytestmark = pytest.mark.slow

#: Bodies of these types are sent by libraries. The generator knows one binary type, which its configuration says.
BINARY = {body_format.media_type for body_format in FORMATS if not body_format.options_in_body} - {"application/x-npz"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(Settings(redis_url="unix:///nowhere")).openapi()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("generated") / "calibrant_generated"


@pytest.fixture(scope="module")
def generated(document: dict[str, Any], package: Path) -> Generated:
    return generate(document, package)


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Stack]:
    """A service of its own: the examples name what they make."""
    with own_service(folder / "generated", admitting()) as service:
        yield service


@pytest.fixture(scope="module")
def client(document: dict[str, Any], generated: Generated, package: Path, running: Stack) -> GeneratedClient:
    return GeneratedClient(package, document, running.url)


def test_every_call_is_generated_and_only_content_types_are_passed_over(
    document: dict[str, Any], generated: Generated
) -> None:
    assert generated.left_out == []
    assert generated.calls == {operation["operationId"] for _, _, operation in operations(document)}
    assert generated.content_types == BINARY
    # With items, the generated function tells bodies apart by a class that Python refuses.
    assert len(generated.others) == 1
    assert generated.others[0].startswith("POST /monitors/{name}/events")


def test_every_call_is_generated_without_any_configuration(document: dict[str, Any], tmp_path: Path) -> None:
    plain = generate(document, tmp_path / "plain", config=None)
    assert plain.left_out == []
    assert plain.calls == {operation["operationId"] for _, _, operation in operations(document)}
    assert len(plain.others) == 1


def test_every_example_is_sent_and_its_answer_parsed_by_the_generated_client(
    document: dict[str, Any], client: GeneratedClient, running: Stack
) -> None:
    with httpx.Client(transport=client, base_url=running.url, timeout=600) as http, Calibrant(running.url) as ours:
        recorder = Recorder(http, ours.wait)
        statuses = [(example.call, example.name, recorder.send(example).status_code) for example in all_examples()]
    assert statuses == [(example.call, example.name, example.status) for example in all_examples()]
    without = {operation["operationId"] for _, _, operation in operations(document)} - client.called
    assert without == {"index", "docs", "metrics", "get_events"}


def test_pages_metrics_and_events_are_text(client: GeneratedClient, running: Stack) -> None:
    job = _job_of(client, client.call("evaluate", body=_rows(client), prefer="respond-async"))
    with Calibrant(running.url) as ours:
        ours.wait(job)
    for name, wanted in (("index", "<title>"), ("docs", "openapi.json"), ("metrics", "# HELP")):
        assert wanted in client.call(name).parsed
    events = client.call("get_events", job=job).parsed
    assert events.count("event: status") >= 2
    last = [line.removeprefix("id: ") for line in events.splitlines() if line.startswith("id: ")][-1]
    assert client.call("get_events", job=job, last_event_id=last).status_code == 204


def test_results_of_jobs_are_parsed_as_models(client: GeneratedClient, running: Stack) -> None:
    models = client.models
    batch = client.call("post_batch", body=models.BatchBody([0.1, 0.4, 0.6, 0.9] * 20, labels=[0, 1, 0, 1] * 20)).parsed
    started = {
        "FitResult": client.call(
            "post_map", body=models.FitBatch(batch=batch.id, method=models.MethodName.PLATT), prefer="respond-async"
        ),
        "ReportAnswer": client.call("evaluate", body=models.EvaluateBatch(batch=batch.id), prefer="respond-async"),
        "ReportsAnswer": client.call(
            "evaluate", body=models.EvaluateBatches(batches=[batch.id, _second(client)]), prefer="respond-async"
        ),
        "PictureReport": client.call(
            "post_diagram",
            body=models.DiagramBatch(batch=batch.id, diagram=models.BySizePicture("by-size", start=10)),
            prefer="respond-async",
        ),
    }
    for name, answer in started.items():
        assert answer.status_code == 202
        with Calibrant(running.url) as ours:
            ours.wait(answer.parsed.id)
        answered = client.call("get_job", job=answer.parsed.id).parsed.result
        report = answered if name == "FitResult" else answered.report
        assert type(report).__name__ == name
    with Calibrant(running.url) as ours:
        assert ours.job(started["FitResult"].parsed.id).status == "succeeded"


def test_a_map_is_fitted_at_once_and_applied_to_numpys_own_format(client: GeneratedClient) -> None:
    models = client.models
    rows = models.FitRows([0.1, 0.4, 0.6, 0.9] * 20, [0, 1, 0, 1] * 20, method=models.MethodName.PLATT, name="by-hand")
    fitted = client.call("post_map", body=rows)
    assert (fitted.status_code, fitted.parsed.version) == (201, 1)
    archive = io.BytesIO()
    np.savez(archive, predictions=np.array([0.2, 0.7]))
    archive.seek(0)
    sent = client.call("calibrate", body=client.types.File(archive), map_="by-hand").parsed
    by_json = client.call("calibrate", body=models.CalibrateRows(map_="by-hand", predictions=[0.2, 0.7])).parsed
    assert sent.predictions == by_json.predictions


def test_events_are_sent_as_one_cloudevent(client: GeneratedClient) -> None:
    models = client.models
    client.call("post_monitor", body=models.MonitorBody(name="events"))
    event = models.EventBody.from_dict(
        {
            "specversion": "1.0",
            "id": "1",
            "source": "/tests",
            "type": "com.calibrant.rows",
            "data": {"prediction": 0.4, "label": 1},
        }
    )
    taken = client.call("post_monitor_events", name="events", body=event).parsed
    assert (taken.accepted, taken.joined) == (1, 1)


def test_an_unchanged_map_is_304(client: GeneratedClient) -> None:
    models = client.models
    client.call("post_monitor", body=models.MonitorBody(name="unchanged"))
    tag = client.call("get_definition", name="unchanged").headers["etag"]
    assert client.call("get_definition", name="unchanged", if_none_match=tag).status_code == 304
    stale = client.call("patch_monitor", name="unchanged", body=models.MonitorPatch(description="x"), if_match='"old"')
    assert (stale.status_code, stale.parsed.type_) == (412, "/problems/precondition-failed")


def test_refusals_are_problems(client: GeneratedClient) -> None:
    answer = client.call("get_map", map="nowhere")
    assert (answer.status_code, answer.parsed.type_, answer.parsed.status) == (404, "/problems/unknown-map", 404)
    refused = client.call("evaluate", body=client.models.EvaluateRows([0.2, 1.4], [0, 1]))
    assert refused.status_code == 422
    assert refused.parsed.errors[0].pointer == "/predictions/1"


def _rows(client: GeneratedClient) -> Any:
    return client.models.EvaluateRows([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


def _second(client: GeneratedClient) -> str:
    batch = client.call("post_batch", body=client.models.BatchBody([0.2, 0.3, 0.7, 0.8], labels=[0, 0, 1, 1])).parsed
    identifier: str = batch.id
    return identifier


def _job_of(client: GeneratedClient, answer: Any) -> str:
    assert (answer.status_code, type(answer.parsed)) == (202, client.models.JobAnswer)
    assert answer.headers["location"] == f"/jobs/{answer.parsed.id}"
    identifier: str = json.loads(answer.content)["id"]
    return identifier
