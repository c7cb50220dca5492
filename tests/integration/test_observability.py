"""Lines, metrics and traces of a run of the whole service, with nothing in them that is secret."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from backend.store.census import take_census
from backend.store.keyspace import Keyspace, Shared
from backend.store.processes import stop
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from backend.store.store import Store
from calibrant.client import Calibrant
from schemas.problems import Problem
from tests.integration.conftest import claimed, job_record, patient, submitted
from tests.integration.redis_server import until
from tests.integration.threads import in_thread
from tests.rows import draw_event
from tests.warm_service import stack

PASSWORD, NAME, GROUP = "hunter2-of-the-store", "name-of-a-map", "group-of-a-row"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
P, Y = draw_event(400, 5)


class Collector(ThreadingHTTPServer):
    """A collector of traces: OTLP over HTTP, on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: queue.Queue[dict[str, Any]] = queue.Queue()
        self.received = b""

    def until(self, *names: str) -> list[dict[str, Any]]:
        """The spans of the one trace, once all that are named have come."""
        spans: list[dict[str, Any]] = []
        while missing := set(names) - {span["name"] for span in spans}:
            try:
                span = self.spans.get(timeout=600)
            except queue.Empty:
                pytest.fail(f"no span came that is named {' or '.join(sorted(missing))}")
            if span["trace"] == TRACE:
                spans.append(span)
        return spans


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.server.spans.put(
                        {
                            "name": span.name,
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "service": named["service.name"],
                            "attributes": {a.key for a in span.attributes},
                        }
                    )
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@dataclass
class Observed:
    """A service on a store with a password, with API keys, debug lines and traces."""

    url: str
    key: str
    log: Path
    collector: Collector

    @contextlib.contextmanager
    def http(self) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=600) as http:
            yield http

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_bytes().splitlines() if line.startswith(b"{")]

    def line(self, request_id: str, message: str) -> dict[str, Any]:
        """The line of a request, once it is there: it is written after the answer."""

        def lines_of_request() -> list[dict[str, Any]]:
            return [
                line for line in self.lines() if line.get("request_id") == request_id and line["message"] == message
            ]

        until(lambda: bool(lines_of_request()))
        (only,) = lines_of_request()
        return only

    def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        with self.http() as http:
            answer = http.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                samples.setdefault(sample.name, {})[tuple(label for _, label in sorted(sample.labels.items()))] = (
                    sample.value
                )
        return samples


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with in_thread(Collector()) as collector:
        yield collector


@pytest.fixture(scope="module")
def observed(folder: Path, collector: Collector) -> Iterator[Observed]:
    path = folder / "observed.log"
    environment = patient() | {
        "CALIBRANT_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "60",
        "CALIBRANT_TRUSTED_PROXIES": "127.0.0.1",
    }
    with (
        path.open("ab") as log,
        embedded_server(folder / "observed", log=log) as (url, _),
        contextlib.closing(connect(url)) as redis,
    ):
        key = ApiKeyStore(redis).create("watcher", tenant="default", scope="admin").text
        redis.config_set("requirepass", PASSWORD)
        with stack(
            host="127.0.0.1",
            port=0,
            data=folder / "observed",
            log=log,
            redis_url=url.replace("unix://", f"unix://:{PASSWORD}@"),
            level="debug",
            log_format="json",
            inherited=environment,
        ) as running:
            yield Observed(running.url, key, path, collector)


def _fit(http: httpx.Client, request_id: str, *, method: str = "pl", **headers: str) -> httpx.Response:
    body = {"method": method, "name": NAME, "predictions": P.tolist(), "labels": Y.tolist(), "seed": 1}
    return http.post("/maps", json=body, headers={"X-Request-Id": request_id, **headers})


def _finished(observed: Observed, job_id: str) -> None:
    with Calibrant(observed.url, api_key=observed.key) as client:
        client.wait(job_id, timeout=600)


@pytest.mark.slow
def test_a_request_its_wait_in_the_queue_and_its_task_are_one_trace(observed: Observed) -> None:
    with observed.http() as http:
        queued = _fit(http, "traced", **TRACEPARENT)
    assert queued.status_code == 202
    spans = observed.collector.until("POST /maps", "work", "parse", "queue", "task fit", "compute")
    by_name = {span["name"]: span for span in spans}
    assert by_name["POST /maps"]["parent"] == "b7ad6b7169203331"
    assert by_name["POST /maps"]["service"] == "calibrant-api"
    assert by_name["parse"]["parent"] == by_name["POST /maps"]["id"]
    assert by_name["task fit"]["service"] == "calibrant-worker"
    assert by_name["queue"]["parent"] == by_name["compute"]["parent"] == by_name["task fit"]["id"]
    assert by_name["task fit"]["parent"] == by_name["work"]["id"]
    assert by_name["work"]["parent"] == by_name["POST /maps"]["id"]
    assert any(span["name"] == "store" and span["service"] == "calibrant-worker" for span in spans)
    _finished(observed, queued.json()["id"])
    request, task = observed.line("traced", "request"), observed.line("traced", "task")
    assert request["trace_id"] == task["trace_id"] == TRACE


@pytest.mark.slow
def test_the_log_lines_of_a_request_and_its_task_have_shapes_and_outcomes(observed: Observed) -> None:
    with observed.http() as http:
        queued = _fit(http, "queued")
        assert queued.headers["x-request-id"] == "queued"
        http.get(f"/maps/{NAME}:99", headers={"X-Request-Id": "unknown"})
        http.get("/health/live", headers={"X-Request-Id": "probe"})
        _finished(observed, queued.json()["id"])
    line = observed.line("queued", "request")
    assert line["level"] == "info"
    assert (line["method"], line["route"], line["status"]) == ("POST", "/maps", 202)
    assert (line["n"], line["tenant"]) == (400, "default")
    assert line["bytes_in"] == len(queued.request.content)
    assert line["bytes_out"] == len(queued.content)
    assert 0 < line["seconds"] < 60
    task = observed.line("queued", "task")
    assert (task["kind"], task["outcome"], task["n"], task["tenant"]) == ("fit", "succeeded", 400, "default")
    assert task["job"] == queued.json()["id"]
    assert (line["client"], line["key"], line["key_id"]) == ("127.0.0.1", "watcher", observed.key.split("_")[1])
    assert "problem" not in line
    unknown = observed.line("unknown", "request")
    assert (unknown["route"], unknown["status"], unknown["problem"]) == ("/maps/{map}", 404, "unknown-map")
    assert observed.line("probe", "request")["level"] == "debug"


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/maps/x", "/maps/{map}"),
        ("POST", "/calibrate", "/calibrate"),
        ("GET", "/v2/models/m", "/v2/models/{name}"),
    ],
)
def test_a_refused_key_has_a_line_with_its_client_and_without_a_tenant(
    observed: Observed, method: str, path: str, route: str
) -> None:
    headers = {"X-Request-Id": f"refused-{route}", "X-Forwarded-For": "10.9.8.7, 192.0.2.7"}
    assert httpx.request(method, observed.url + path, headers=headers, timeout=600).status_code == 401
    line = observed.line(f"refused-{route}", "request")
    assert (line["client"], line["route"], line["problem"]) == ("192.0.2.7", route, "unauthorized")
    assert not {"tenant", "key", "key_id"} & set(line)


def test_a_head_that_is_refused_counts_under_its_route(observed: Observed) -> None:
    def count() -> float:
        return observed.metrics()["calibrant_http_requests_total"].get(("POST", "/calibrate", "400"), 0)

    before = count()
    head = b"POST /calibrate?x HTTP/1.1\r\nHost: a\r\nHost: a\r\nX-Forwarded-For: 192.0.2.8\r\n\r\n"
    address = httpx.URL(observed.url)
    with socket.create_connection((address.host, address.port or 80), timeout=600) as connection:
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert count() == before + 1
    lines = [line for line in observed.lines() if line.get("client") == "192.0.2.8"]
    assert [(line["message"], line["route"], line["problem"]) for line in lines] == [
        ("request", "/calibrate", "bad-request")
    ]


def test_metrics_count_requests_rows_jobs_maps_and_workers(observed: Observed) -> None:
    before = observed.metrics()
    with observed.http() as http:
        _finished(observed, _fit(http, "counted").json()["id"])
        assert _fit(http, "inline", method="platt").status_code == 201
    httpx.get(f"{observed.url}/maps/x", timeout=600)
    after = observed.metrics()

    def gained(name: str, *labels: str) -> float:
        return after[name][labels] - before.get(name, {}).get(labels, 0)

    assert gained("calibrant_http_requests_total", "POST", "/maps", "202") == 1
    assert gained("calibrant_http_requests_total", "POST", "/maps", "201") == 1
    assert gained("calibrant_http_requests_total", "GET", "/maps/{map}", "401") == 1
    assert gained("calibrant_http_request_duration_seconds_count", "POST", "/maps") == 2
    assert gained("calibrant_rows_total", "/maps") == 800
    assert gained("calibrant_jobs_total", "fit", "succeeded") == 1
    assert gained("calibrant_job_duration_seconds_count", "fit", "succeeded") == 1
    assert gained("calibrant_maps") == 2
    assert after["calibrant_workers"][()] == 1
    assert after["calibrant_queue_jobs"][("fits",)] == 0
    assert after["calibrant_store_up"][()] == 1


def test_nothing_secret_and_no_value_reaches_a_line_a_metric_or_a_span(observed: Observed) -> None:
    with observed.http() as http:
        _finished(observed, _fit(http, "secret").json()["id"])
        rows = {"predictions": P.tolist(), "labels": Y.tolist(), "groups": [GROUP] * len(P)}
        others = rows | {"labels": (1 - Y).tolist()}  # not those of the fit, which would be fitted again by a job
        assert http.post("/evaluate", json=others | {"map": NAME}).status_code == 200
        assert http.post("/batches", json=rows).status_code == 201
        assert http.post("/calibrate", json={"map": NAME, "predictions": P.tolist()}).status_code == 200
        for wrong in ({"predictions": [P[0], 7.654321]}, {"map": NAME, GROUP: 7.654321}, {"predictions": ["7.654321"]}):
            assert http.post("/calibrate", json=wrong, headers=TRACEPARENT).status_code == 422
        assert http.post(f"/{NAME}", content=b"7.654321").status_code == 404
        http.get("/health/ready", headers={"Authorization": "Bearer hunter3", "X-Request-Id": "7.654321 x"})
        metrics = http.get("/metrics").text
    observed.collector.until("POST /calibrate")
    everything = observed.log.read_bytes() + observed.collector.received + metrics.encode()
    assert b"POST /calibrate" in everything
    # As long that no number of seconds is one of them by chance.
    scores = {repr(score)[:10] for score in P.tolist()} | {"7.654321"}
    for secret in (PASSWORD, observed.key.split("_", 2)[2], NAME, GROUP, "hunter3", *scores):
        assert secret.encode() not in everything, secret


@pytest.mark.slow
def test_a_scrape_is_answered_while_the_store_is_away(folder: Path) -> None:
    with (folder / "away.log").open("ab") as log, contextlib.ExitStack() as started:
        url, store = started.enter_context(embedded_server(folder / "away", log=log))
        running = started.enter_context(
            stack(host="127.0.0.1", port=0, data=folder / "away", log=log, redis_url=url, log_format="text")
        )
        until(lambda: "calibrant_store_up 1.0" in httpx.get(f"{running.url}/metrics", timeout=600).text)
        stop(store, patience=20)
        scraped = httpx.get(f"{running.url}/metrics", timeout=600)
    assert scraped.status_code == 200
    assert "calibrant_store_up 0.0" in scraped.text
    assert "calibrant_maps" not in scraped.text
    assert 'calibrant_http_requests_total{method="GET",route="/metrics",status="200"} ' in scraped.text


@pytest.mark.slow
def test_a_job_that_ends_in_any_way_is_counted_once(store: Store, redis: Redis) -> None:
    problem = Problem(type="/problems/one-class", title="x", status=422, detail="x")
    failed, never_ran, running = job_record(), job_record(), job_record()
    for job in (failed, never_ran, running):
        store.jobs.submit(job)
    claimed(store, running.id)
    run = claimed(store, failed.id)
    for _ in range(3):
        run.fail(problem)
        assert store.jobs.status(failed.id) == "failed"
        assert store.jobs.status(running.id) == "running"
        store.jobs.cancel(never_ran.id)
    assert store.jobs.status("job_x") == "forgotten"
    ended = take_census(redis).ended
    assert {of: counter.number for of, counter in ended.items()} == {("fit", "failed"): 1, ("fit", "cancelled"): 1}
    assert sum(ended["fit", "cancelled"].seconds.counts) == 0
    assert sum(ended["fit", "failed"].seconds.counts) == 1


@pytest.mark.slow
def test_a_census_counts_the_maps_and_waiting_jobs_of_every_tenant(store: Store, redis: Redis) -> None:
    submitted(Store.of(redis, "other"))
    submitted(store)
    for tenant, maps in (("other", 2), ("default", 1)):
        redis.zadd(Keyspace(tenant).maps(), {f"map_{i}": i for i in range(maps)})
    redis.sadd(Shared.supervisors(), "whose-last-word-is-over")
    census = take_census(redis)
    assert census.queued == {"fits-gpu": 0, "fits": 2, "evaluations": 0}
    assert (census.maps, census.workers) == (3, 0)
