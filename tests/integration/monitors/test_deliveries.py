"""Deliveries to receivers that take them, and to those that do not, or mean harm."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import math
import os
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from redis import Redis

from backend.monitors.webhook_requests import Sender
from backend.monitors.webhook_targets import InvalidTargets, Targets
from backend.monitors.webhooks import Means, RetrySchedule, attempt, event_of, queue_deliveries
from backend.store.census import take_census
from backend.store.chores import MOST_TO_TARGET, Chore, begin, queue_due, queue_of
from backend.store.clock import now
from backend.store.errors import UnknownDelivery
from backend.store.jobs.queues import queue_key
from backend.store.keyspace import Shared, new_id
from backend.store.monitors.deliveries import Deliveries
from backend.store.pages import PageRequest
from backend.store.store import Store
from benchmarks.chaos.proc import children
from schemas.monitor_alarms import AlarmData, DeliveryRecord, MonitorEvent
from schemas.monitors import HookSpec, MonitorRecord
from service.app import create_app
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.monitors.receiver import Receiver, receiving, status
from tests.integration.monitors.stored import monitor
from tests.integration.responses import patched, text_of
from tests.integration.test_secrets import _run
from tests.integration.test_tls import _openssl
from tests.integration.test_workers import supervisor, until
from tests.known import known

NAME = "receiver.test"
SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes....").decode()
OTHER = "whsec_" + base64.b64encode(b"and another of 24 bytes.").decode()
HUSH = "hush-hush"
#: As a worker has them, but that nothing is waited for and that this machine is admitted under a name of its own.
HOSTS, PRIVATE = f"http://{NAME},http://127.0.0.1,{NAME}", "127.0.0.0/8"
PLAN = RetrySchedule((5.0, 30.0))


def means(
    resolver: Callable[[str, int], list[str]] | None = None, *, slow_seconds: float = math.inf, **more: Any
) -> Means:
    targets = Targets.read(HOSTS, more.pop("private", PRIVATE))
    return Means(
        Sender(targets, resolver or (lambda host, port: ["127.0.0.1"]), **more), PLAN, slow_seconds=slow_seconds
    )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as hooks:
        yield hooks


@pytest.fixture
def watched(store: Store, receiver: Receiver) -> MonitorRecord:
    return monitor(store, hooks=[hook(receiver)])


def hook(receiver: Receiver, name: str = "hook", **more: Any) -> dict[str, Any]:
    return {"name": name, "url": f"http://{NAME}:{receiver.port}/in?token={HUSH}", "secret": SECRET} | more


def event(watched: MonitorRecord, seed: str = "1") -> MonitorEvent:
    alarm = AlarmData(monitor=watched.name, rule="evidence", kind="evidence")
    return event_of(watched, seed, "monitor.alarm.raised", alarm, moment=1_700_000_000.0)


def asked(store: Store, watched: MonitorRecord, seed: str = "1") -> list[DeliveryRecord]:
    """The deliveries of one event, all of the monitor's hooks."""
    alarm = event(watched, seed)
    queue_deliveries(store, watched, alarm)
    every = of(store, watched).page(PageRequest(100), status=None, hook=None).items
    return [record for record in every if record.event == alarm]


def of(store: Store, watched: MonitorRecord) -> Deliveries:
    return Deliveries(store.redis, store.keys, watched.id)


def outcomes(store: Store, watched: MonitorRecord, record: DeliveryRecord) -> list[str | int | None]:
    """The error or the status of each attempt."""
    return [attempt.error or attempt.status for attempt in of(store, watched).get(record.id).attempts]


def signature(secret: str, headers: Any, body: bytes) -> str:
    """By hand, as a receiver computes it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def test_an_event_reaches_its_receiver_signed_and_once(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    assert asked(store, watched) == [record]
    assert record.status == "pending"
    assert attempt(store, watched.id, record.id, means()) is None
    got = receiver.next()
    assert json.loads(got.body) == {
        "type": "monitor.alarm.raised",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "data": record.event.data.model_dump(),
        "page": None,
    }
    assert got.headers["webhook-id"] == record.event.id
    assert abs(int(got.headers["webhook-timestamp"]) - now().timestamp()) < 30
    assert got.headers["webhook-signature"] == signature(SECRET, got.headers, got.body)
    assert got.headers["host"] == f"{NAME}:{receiver.port}"
    assert got.headers["content-type"] == "application/json"
    done = of(store, watched).get(record.id)
    assert (done.status, done.next_at, [attempt_record.status for attempt_record in done.attempts]) == (
        "succeeded",
        None,
        [204],
    )
    assert attempt(store, watched.id, record.id, means()) is None
    assert receiver.got.empty()


@pytest.mark.parametrize("url", ["https://calibrant.example.com", "https://calibrant.example.com/"])
def test_a_delivery_links_to_the_page_of_the_monitor(
    store: Store, watched: MonitorRecord, receiver: Receiver, url: str
) -> None:
    (record,) = asked(store, watched)
    attempt(store, watched.id, record.id, replace(means(), public_url=url))
    body = receiver.next().body
    assert json.loads(body)["page"] == "https://calibrant.example.com/ui/monitors/m"


def test_every_hook_gets_its_own_delivery_of_the_same_event(store: Store, receiver: Receiver) -> None:
    rotated = hook(receiver, "two", secret=OTHER, old_secret=SECRET, old_secret_until=now().timestamp() + 60)
    watched = monitor(store, hooks=[hook(receiver), rotated])
    for record in asked(store, watched):
        attempt(store, watched.id, record.id, means())
    first, two = sorted((receiver.next(), receiver.next()), key=lambda got: len(got.headers["webhook-signature"]))
    assert first.headers["webhook-id"] == two.headers["webhook-id"]
    assert two.headers["webhook-signature"].split() == [
        signature(OTHER, two.headers, two.body),
        signature(SECRET, two.headers, two.body),
    ]


def test_a_receiver_that_fails_is_tried_again_with_the_same_id_and_body(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    receiver.will(status(500), status(503, Retry_After="600"))
    assert 3.7 <= (attempt(store, watched.id, record.id, means()) or 0) <= 6.3
    assert attempt(store, watched.id, record.id, means()) == 600
    waiting = of(store, watched).get(record.id)
    assert (waiting.status, waiting.tried) == ("pending", 2)
    assert waiting.next_at is not None
    assert attempt(store, watched.id, record.id, means()) is None
    first, *others = [receiver.next() for _ in range(3)]
    assert all((got.headers["webhook-id"], got.body) == (first.headers["webhook-id"], first.body) for got in others)
    assert [attempt_record.status for attempt_record in of(store, watched).get(record.id).attempts] == [500, 503, 204]


def test_a_redirect_is_a_failure_and_nobody_goes_there(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    with receiving() as elsewhere:
        receiver.will(*(status(code, Location=f"http://127.0.0.1:{elsewhere.port}/") for code in (302, 307)))
        for _ in range(2):
            assert attempt(store, watched.id, record.id, means())
        assert elsewhere.got.empty()
    assert [attempt_record.status for attempt_record in of(store, watched).get(record.id).attempts] == [302, 307]


def _never(receiver: Receiver) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: assert_over(receiver)


def assert_over(receiver: Receiver) -> None:
    assert receiver.over.wait(600)


def _slowly(receiver: Receiver) -> Callable[[BaseHTTPRequestHandler], None]:
    def give(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(1000):
            if receiver.over.wait(0.005):
                return
            handler.wfile.write(b"x")

    return give


def _trickling(receiver: Receiver) -> Callable[[BaseHTTPRequestHandler], None]:
    """Send the bytes of a header without end."""

    def give(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not receiver.over.wait(0.05):
            handler.wfile.write(b"x")

    return give


def _without_end(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 3)
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65_536)


def _headers_without_end(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X-More: " + b"x" * 8000 + b"\r\n")


def _no_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\x00\x01 what?\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (_never, "timed-out"),
        (_slowly, "timed-out"),
        (lambda _: _headers_without_end, "broken-answer"),
        (lambda _: _no_http, "broken-answer"),
        (lambda _: _without_end, 200),
    ],
)
def test_no_receiver_holds_an_attempt_up_or_fills_the_memory(
    store: Store, watched: MonitorRecord, receiver: Receiver, answer: Any, outcome: str | int
) -> None:
    (record,) = asked(store, watched)
    receiver.will(answer(receiver))
    attempt(store, watched.id, record.id, means(whole_seconds=0.5 if outcome == "timed-out" else 60.0))
    (attempt_record,) = of(store, watched).get(record.id).attempts
    assert (attempt_record.error or attempt_record.status) == outcome
    assert known(attempt_record.seconds) < 30


def test_a_receiver_that_does_not_answer_holds_back_what_else_goes_to_it_alone(
    store: Store, receiver: Receiver
) -> None:
    with receiving() as quick:
        watched = monitor(store, hooks=[hook(receiver, "slow"), hook(quick, "quick")])
        receiver.will(_never(receiver))
        first = {record.hook: record for record in asked(store, watched)}
        second = {record.hook: record for record in asked(store, watched, "2")}
        assert attempt(store, watched.id, first["slow"].id, means(whole_seconds=0.3, slow_seconds=0.25))
        assert 0 < (attempt(store, watched.id, second["slow"].id, means()) or 0) <= 30
        assert of(store, watched).get(second["slow"].id).tried == 0
        assert attempt(store, watched.id, second["quick"].id, means()) is None
        assert quick.next()
        of(store, watched).resend(second["slow"].id)
        assert attempt(store, watched.id, second["slow"].id, means()) is None
        receiver.over.set()


def test_a_clock_that_was_set_back_holds_no_delivery_back(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    of(store, watched).keep_away(record.hook, 3600.0)  # as if the clock had been an hour ahead
    assert attempt(store, watched.id, record.id, means()) is None
    assert receiver.next()


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["::1", "0.0.0.0"], None]
)
def test_a_private_address_or_a_host_that_is_admitted_no_more_gets_nothing(
    store: Store, watched: MonitorRecord, receiver: Receiver, addresses: list[str] | None
) -> None:
    (record,) = asked(store, watched)
    resolved = means(lambda host, port: addresses or [], private="") if addresses else Means(Sender(Targets()), PLAN)
    assert attempt(store, watched.id, record.id, resolved)
    assert outcomes(store, watched, record) == ["address-refused" if addresses else "not-admitted"]
    assert receiver.got.empty()


def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    answers = [["10.0.0.1", "127.0.0.1"], ["10.0.0.1"]]
    # The name is nobody's: who resolved it once more could not connect.
    assert attempt(store, watched.id, record.id, means(lambda host, port: answers.pop(0))) is None
    assert len(answers) == 1
    assert receiver.next().headers["host"] == f"{NAME}:{receiver.port}"


def test_unresolvable_names_and_closed_ports_have_different_errors(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    def stuck(host: str, port: int) -> list[str]:
        assert_over(receiver)
        return []

    (record,) = asked(store, watched)
    tried = [means(unknown), means(stuck, connect_seconds=0.1), means(lambda host, port: ["127.0.0.2"])]
    for resolver in tried:
        assert attempt(store, watched.id, record.id, resolver) or resolver is tried[-1]
    assert outcomes(store, watched, record) == ["not-resolved", "timed-out", "not-connected"]


def test_proxies_of_the_environment_are_not_used(
    store: Store, watched: MonitorRecord, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        (record,) = asked(store, watched)
        assert attempt(store, watched.id, record.id, means()) is None
        assert receiver.next().path == f"/in?token={HUSH}"
        assert proxy.got.empty()


def test_a_delivery_is_dead_after_its_last_attempt_and_may_be_sent_again(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    receiver.will(*[status(500)] * 3)
    assert [bool(attempt(store, watched.id, record.id, means())) for _ in range(4)] == [True, True, False, False]
    dead = of(store, watched).get(record.id)
    assert (dead.status, dead.tried, dead.next_at) == ("dead", 3, None)
    assert dead.ended_at is not None
    assert take_census(store.redis).deliveries == {"dead": 1}
    store.redis.delete(Shared.chores_due())
    again = of(store, watched).resend(record.id)
    assert (again.status, again.tried, again.ended_at) == ("pending", 0, None)
    assert store.redis.zcard(Shared.chores_due()) == 1
    assert attempt(store, watched.id, record.id, means()) is None
    ids = {receiver.next().headers["webhook-id"] for _ in range(4)}
    assert ids == {record.event.id}
    assert [attempt_record.number for attempt_record in of(store, watched).get(record.id).attempts] == [1, 2, 3, 4]
    assert take_census(store.redis).deliveries == {"dead": 1, "succeeded": 1}


def test_a_delivery_that_is_resent_during_its_last_attempt_is_not_dead(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    receiver.will(lambda handler: (of(store, watched).resend(record.id), status(410)(handler))[1])
    assert attempt(store, watched.id, record.id, means()) is None
    assert of(store, watched).get(record.id).status == "pending"


def test_a_delivery_to_a_receiver_that_answers_410_ends_at_once(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    receiver.will(status(410))
    assert attempt(store, watched.id, record.id, means()) is None
    assert of(store, watched).get(record.id).status == "dead"


def test_deliveries_of_a_removed_hook_end_and_those_of_a_deleted_monitor_are_deleted(
    store: Store, watched: MonitorRecord, receiver: Receiver
) -> None:
    (record,) = asked(store, watched)
    store.monitors.patch(watched.name, lambda stored: stored.model_copy(update={"hooks": []}))
    assert attempt(store, watched.id, record.id, means()) is None
    assert outcomes(store, watched, record) == ["no-hook"]
    store.monitors.delete(watched.name)
    assert attempt(store, watched.id, record.id, means()) is None
    with pytest.raises(UnknownDelivery):
        of(store, watched).get(record.id)
    assert receiver.got.empty()


def test_an_attempt_whose_process_ended_counts(store: Store, watched: MonitorRecord, receiver: Receiver) -> None:
    (record,) = asked(store, watched)
    for _ in range(PLAN.attempts):
        assert of(store, watched).begin(record.id, PLAN.attempts) is not None
    assert attempt(store, watched.id, record.id, means()) is None
    dead = of(store, watched).get(record.id)
    assert (dead.status, {attempt_record.error for attempt_record in dead.attempts}) == ("dead", {"interrupted"})
    assert take_census(store.redis).deliveries == {"dead": 1}
    assert receiver.got.empty()


def test_deliveries_are_bounded_and_those_that_have_ended_go_first(store: Store, watched: MonitorRecord) -> None:
    alarm, today = event(watched), now().date()
    deliveries = Deliveries(store.redis, store.keys, watched.id, most=10)
    every = [
        DeliveryRecord(
            id=f"{i:02}",
            monitor="m",
            hook="hook",
            event=alarm,
            status="pending" if i == 0 else "dead",
            created_at=f"{today}T00:00:00.{i:03}Z",
        )
        for i in range(13)
    ]
    for record in every:
        deliveries.create(record)
    keys = store.keys.monitor(watched.id)
    left = cast(list[bytes], store.redis.zrange(keys.delivery_times(), 0, -1))
    assert len(left) == store.redis.hlen(keys.deliveries()) == 10
    assert left[:2] == [b"00", b"04"]
    deliveries.create(every[1].model_copy(update={"id": "old", "created_at": "2020-01-01T00:00:00.000Z"}))
    with pytest.raises(UnknownDelivery):
        deliveries.get("old")


def test_secrets_are_in_no_log_no_record_and_no_message(
    store: Store, watched: MonitorRecord, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.will(*[status(500)] * 3)
    (record,) = asked(store, watched)
    queue_due(store.redis)
    for _ in range(3):
        attempt(store, watched.id, record.id, means())
    assert "is dead" in caplog.text
    every = [key.decode() for key in cast(list[bytes], store.redis.keys("*"))]
    stored = "".join(_held(store.redis, key) for key in every if not key.endswith(":monitor-definitions"))
    assert record.id in stored
    everything = stored + caplog.text + of(store, watched).get(record.id).model_dump_json() + repr(watched)
    assert not [word for word in (HUSH, SECRET, SECRET.removeprefix("whsec_")) if word in everything]


def _held(redis: Redis, key: str) -> str:
    """All that stands under a key, and its name."""
    read: dict[bytes, Callable[[], object]] = {
        b"string": lambda: redis.get(key),
        b"hash": lambda: redis.hgetall(key),
        b"list": lambda: redis.lrange(key, 0, -1),
        b"set": lambda: redis.smembers(key),
        b"zset": lambda: redis.zrange(key, 0, -1),
    }
    return f"{key} {read[cast(bytes, redis.type(key))]()}"


@pytest.mark.slow
def test_an_event_of_a_tenant_is_sent_before_the_many_that_wait_for_another(
    store: Store, receiver: Receiver, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    other = Store.of(redis, "other")
    hooks = [{"url": f"http://127.0.0.1:{receiver.port}/{name}", "secret": SECRET} for name in ("many", "one")]
    many, few = monitor(store, "many", hooks=hooks[:1]), monitor(other, "one", hooks=hooks[1:])
    receiver.will(*[_never(receiver)] * MOST_TO_TARGET)
    for seed in range(20):
        asked(store, many, str(seed))
    flags = ("--webhook-hosts", HOSTS, "--webhook-private-addresses", PRIVATE)
    with supervisor(redis_url, tmp_path / "worker.log", *flags):
        assert {receiver.next().path for _ in range(MOST_TO_TARGET)} == {"/many"}
        (record,) = asked(other, few)
        assert receiver.next().path == "/one"
        until(redis, lambda: of(other, few).get(record.id).status == "succeeded")
        receiver.over.set()


@pytest.mark.slow
def test_targets_that_trickle_headers_to_one_tenant_delay_no_event_of_another(
    store: Store, receiver: Receiver, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    other = Store.of(redis, "other")
    monitors = [
        monitor(store, f"slow-{i}", hooks=[{"url": f"http://127.0.0.1:{receiver.port}/{i}", "secret": SECRET}])
        for i in range(8)
    ]
    receiver.will(*[_trickling(receiver)] * 80)
    for seed in range(10):
        for slow in monitors:
            asked(store, slow, str(seed))
    flags = ("--webhook-hosts", HOSTS, "--webhook-private-addresses", PRIVATE)
    with supervisor(redis_url, tmp_path / "worker.log", *flags), receiving() as quick:
        for _ in range(MOST_TO_TARGET):
            assert receiver.next()
        url = f"http://127.0.0.1:{quick.port}/"
        quiet = monitor(other, "one", hooks=[{"url": url, "secret": SECRET}])
        own = monitor(store, "own", hooks=[{"url": url, "secret": SECRET}])
        for seed in range(20):
            asked(other, quiet, str(seed))
            asked(store, own, str(seed))
        for _ in range(40):
            quick.next()
        # The other hooks of the target wait for the two attempts, and these for their time limit.
        assert receiver.got.qsize() <= MOST_TO_TARGET
        receiver.over.set()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of NAME by itself, with its key."""
    folder = tmp_path_factory.mktemp("webhook-tls")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    named = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}")
    _openssl("req", "-x509", *key, "-keyout", f"{folder}/key.pem", "-out", f"{folder}/own.pem", *named)
    return folder


def test_an_https_receiver_needs_a_certificate_for_its_name(store: Store, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "own.pem", certificate / "key.pem")
    asked_for: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked_for.append(name)
    trust = ssl.create_default_context(cafile=str(certificate / "own.pem"))
    with receiving(context) as receiver:
        url = f"https://{NAME}:{receiver.port}/"
        watched = monitor(store, hooks=[{"name": "by-name", "url": url, "secret": SECRET}])
        (record,) = asked(store, watched)
        assert attempt(store, watched.id, record.id, means())
        assert attempt(store, watched.id, record.id, means(trust=trust)) is None
        assert receiver.next().headers["host"] == f"{NAME}:{receiver.port}"
        assert set(asked_for) == {NAME}
        other = monitor(store, "other", hooks=[{"url": url.replace(NAME, "127.0.0.1"), "secret": SECRET}])
        (refused,) = asked(store, other)
        assert attempt(store, other.id, refused.id, means(trust=trust))
    assert outcomes(store, watched, record) == ["tls-failed", 204]
    assert outcomes(store, other, refused) == ["tls-failed"]


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_sends_leaves_it_to_the_next_under_the_same_id(
    store: Store, redis: Redis, redis_url: str, receiver: Receiver, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{receiver.port}/in?token={HUSH}"
    watched = monitor(store, hooks=[{"url": url, "secret": SECRET}])
    receiver.will(_never(receiver))
    (record,) = asked(store, watched)
    log = tmp_path / "worker.log"
    flags = ("--webhook-hosts", HOSTS, "--webhook-private-addresses", PRIVATE, "--log-level", "debug")
    with supervisor(redis_url, log, *flags) as worker:
        first = receiver.next()
        (owner,) = redis.hvals(Shared.chore_owners())
        for pid in children(worker.pid):
            os.kill(pid, 9)
        second = receiver.next()
        until(redis, lambda: of(store, watched).get(record.id).status == "succeeded")
        receiver.over.set()
    assert owner
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert second.headers["webhook-signature"] == signature(SECRET, second.headers, second.body)
    assert outcomes(store, watched, record) == ["interrupted", 204]
    text = log.read_text()
    assert "deliver" in text
    assert HUSH not in text
    assert SECRET not in text


PAGER = {"name": "pager", "url": f"https://{NAME}/in?token={HUSH}", "secret": SECRET}
BODY: dict[str, Any] = {"name": "live", "hooks": [PAGER]}


@pytest.fixture
def admitting(redis: Redis, redis_url: str) -> Iterator[httpx.Client]:
    settings = Settings(redis_url, webhook_hosts=NAME)
    with serving_client(settings) as http:
        yield http


def test_over_http_hooks_are_tested_and_dead_letters_listed_and_sent_again(
    admitting: httpx.Client, store: Store
) -> None:
    created = text_of(admitting.post("/monitors", json=BODY), 201)
    again = admitting.post("/monitors/live/hooks/pager/test", headers={"Idempotency-Key": "t"})
    first = admitting.post("/monitors/live/hooks/pager/test", headers={"Idempotency-Key": "t"}).json()
    assert (again.status_code, first) == (202, again.json())
    assert first["event"]["data"] == {"monitor": "live", "hook": "pager"}
    second = admitting.post("/monitors/live/hooks/pager/test").json()
    uid = store.monitors.get("live").id
    for _ in range(PLAN.attempts):
        attempt(store, uid, first["id"], Means(Sender(Targets()), PLAN))
    listed = admitting.get("/monitors/live/deliveries", params={"limit": 1})
    assert [delivery["id"] for delivery in listed.json()["items"]] == [second["id"]]
    (other,) = admitting.get(listed.links["next"]["url"]).json()["items"]
    assert (other["id"], other["status"], other["last"]["error"]) == (first["id"], "dead", "not-admitted")
    (dead,) = admitting.get("/monitors/live/deliveries", params={"status": "dead"}).json()["items"]
    assert dead == other
    assert admitting.get("/monitors/live/deliveries", params={"hook": "none"}).json()["items"] == []
    sent = admitting.post(f"/monitors/live/deliveries/{first['id']}/resend")
    assert (sent.status_code, sent.json()["status"]) == (202, "pending")
    assert admitting.get(f"/monitors/live/deliveries/{first['id']}").json() == sent.json()
    everything = [admitting.get(path).text for path in ("/monitors", "/monitors/live/definition", "/metrics")]
    everything += [created, sent.text, listed.text]
    assert not [text for text in everything if HUSH in text or SECRET in text]


def test_missing_hooks_and_deliveries_are_404(admitting: httpx.Client) -> None:
    admitting.post("/monitors", json=BODY)
    unknown = new_id("delivery")
    for method, path, code in (
        ("GET", "/monitors/none/deliveries", "unknown-monitor"),
        ("GET", f"/monitors/live/deliveries/{unknown}", "unknown-delivery"),
        ("POST", f"/monitors/live/deliveries/{unknown}/resend", "unknown-delivery"),
        ("POST", "/monitors/live/hooks/none/test", "unknown-hook"),
    ):
        response = admitting.request(method, path)
        assert (response.status_code, response.json()["type"]) == (404, f"/problems/{code}"), path
    assert admitting.get("/monitors/live/deliveries", params={"status": "lost"}).status_code == 422


def test_over_http_a_hook_that_is_not_admitted_is_refused_and_not_repeated(
    admitting: httpx.Client, api: httpx.Client
) -> None:
    assert admitting.post("/monitors", json=BODY).status_code == 201
    elsewhere = {"hooks": [{"url": f"https://{HUSH}.example.org/"}]}
    responses = [
        admitting.post("/monitors", json={"name": "other"} | elsewhere),
        patched(admitting, "/monitors/live", elsewhere),
        api.post("/monitors", json=BODY | {"name": "third"}),
    ]
    for answer in responses:
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/hook-refused")
        assert answer.json()["errors"][0]["pointer"] == "/hooks/0/url"
        assert HUSH not in answer.text
    assert "webhook_hosts is empty" in responses[-1].text
    for wrong in ({"secret": HUSH * 50}, {"secret": HUSH}, {"url": "https://x/" + HUSH * 300}):
        refused = text_of(patched(admitting, "/monitors/live", {"hooks": [PAGER | wrong]}), 422)
        assert HUSH not in refused


@pytest.mark.slow
def test_settings_that_cannot_be_read_are_refused_at_the_start(redis_url: str) -> None:
    with pytest.raises(InvalidTargets, match="webhook_hosts"):
        create_app(Settings(redis_url, webhook_hosts="*"))
    with pytest.raises(InvalidTargets, match="webhook_private_addresses"):
        create_app(Settings(redis_url, webhook_private_addresses="10.0.0.0/99"))
    run = _run("worker", "--webhook-hosts", "*", CALIBRANT_REDIS_URL=redis_url)
    assert run.returncode == 2
    assert "webhook_hosts" in run.stderr


def test_a_secret_that_the_service_makes_is_shown_once(admitting: httpx.Client, store: Store) -> None:
    body = {"name": "live", "hooks": [{"url": f"https://{NAME}/"}]}
    (shown,) = admitting.post("/monitors", json=body).json()["hooks"]
    assert shown["secret"] == store.monitors.get("live").hooks[0].secret
    (changed,) = patched(admitting, "/monitors/live", {"hooks": [{"url": f"https://{NAME}/new"}]}).json()["hooks"]
    assert (changed["url"], changed["secret"]) == (f"https://{NAME}/...", None)
    assert store.monitors.get("live").hooks == [
        HookSpec(url=f"https://{NAME}/new", secret=shown["secret"]),
    ]


def test_a_chore_that_is_due_is_this_delivery(store: Store, watched: MonitorRecord) -> None:
    (record,) = asked(store, watched)
    assert queue_due(store.redis) == ["deliver"]
    (message,) = cast(list[bytes], store.redis.lrange(queue_key(queue_of("deliver")), 0, -1))
    chore = known(Chore.read(message.decode()))
    assert (chore.kind, chore.tenant) == ("deliver", "default")
    assert chore.id.split("/")[1:] == [watched.id, record.id]
    assert begin(store.redis, chore, "w") == 1
