"""The audit log: what it states about each change, to whom, for how long, and what it refuses."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from redis import Redis
from typer.testing import CliRunner

from backend.monitors.recalibration import request_challenger
from backend.store.api_keys import ApiKeyStore, NewKey
from backend.store.audit import AuditBounds, AuditTrail
from backend.store.backup.contents import write_backup
from backend.store.backup.restoring import restore
from backend.store.budget import Quotas
from backend.store.keyspace import Keyspace, Shared
from backend.store.pages import PageRequest, Place, write_cursor
from backend.store.server.connection import connect
from backend.store.store import Store
from calibrant.cli.main import app
from calibrant.client import Calibrant
from schemas.audit import Actor, AuditFact, AuditQuery, Author, ChangeAction
from service.settings import Settings
from tests.commands import invoked, succeeded
from tests.integration.conftest import serving
from tests.integration.lossy_proxy import lossy_proxy
from tests.integration.monitors.stored import monitor
from tests.integration.redis_server import redis_server
from tests.integration.responses import body_of
from tests.integration.visiting import Visitor

FIT = {"method": "identity", "name": "spam", "predictions": [0.1, 0.9], "labels": [0, 1]}
NOTE = "Quartalsprüfung Q3, Ticket RISK-42"
HOOK = {"name": "pager", "url": "https://alerts.example.com/token-of-the-path", "secret": "whsec_" + "c2VjcmV0" * 4}


@pytest.fixture
def keys(redis: Redis) -> ApiKeyStore:
    return ApiKeyStore(redis, Author(actor=Actor(kind="command", name="root"), note="first keys"))


@pytest.fixture
def team(keys: ApiKeyStore) -> dict[str, NewKey]:
    scopes = {"training": "maps:read maps:write", "approver": "maps:read maps:promote", "auditor": "maps:read"}
    return {name: keys.create(name, tenant="default", scope=scope) for name, scope in scopes.items()}


@pytest.fixture
def url(team: dict[str, NewKey], redis_url: str) -> Iterator[str]:
    settings = Settings(redis_url, sign_in_rate=0, trusted_proxies="127.0.0.1", webhook_hosts="alerts.example.com")
    with serving(settings) as url:
        yield url


def _call(url: str, key: NewKey | None, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-").encode(): text.encode() for name, text in headers.items()}
    sent[b"Content-Type"] = b"application/merge-patch+json" if method == "PATCH" else b"application/json"
    if key is not None:
        sent[b"Authorization"] = f"Bearer {key.text}".encode()
    while True:
        response = httpx.request(method, url + path, json=body, headers=sent, timeout=600)
        if response.status_code != 401:  # the process reads a new key soon
            return response


def _entries(url: str, key: NewKey | None, query: str = "") -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = body_of(_call(url, key, "GET", f"/audit{query}"))["items"]
    return entries


def test_the_five_questions_of_an_auditor_are_answered_by_the_log_alone(url: str, team: dict[str, NewKey]) -> None:
    for _ in range(2):
        assert _call(url, team["training"], "POST", "/maps", FIT).status_code == 201
    alias = "/maps/spam/aliases/champion"
    assert _call(url, team["approver"], "PUT", alias, {"version": 1}).status_code == 200
    moved = _call(url, team["approver"], "PUT", alias, {"version": 2}, calibrant_note=NOTE, x_request_id="req-7")
    assert moved.status_code == 200
    latest = _entries(url, team["auditor"], "?map=spam&alias=champion&limit=1")[0]
    assert (latest["action"], latest["actor"]["name"], latest["actor"]["id"]) == (
        "alias-moved",
        "approver",
        team["approver"].record.id,
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", latest["at"])
    assert (latest["before"]["version"], latest["after"]["version"]) == (1, 2)
    assert (latest["note"], latest["request_id"]) == (NOTE, "req-7")
    assert [key["name"] for key in latest["permitted"]] == ["approver"]
    fitted = _entries(url, team["auditor"], "?map=spam&action=map-fitted&limit=1")[0]
    assert (fitted["actor"]["name"], fitted["after"]["version"]) == ("training", 2)
    assert fitted["after"]["id"] == latest["after"]["id"]


def test_every_change_of_a_map_has_an_entry_and_the_log_outlives_the_map(service: Any, redis: Redis) -> None:
    url = service.url
    assert _call(url, None, "POST", "/maps", FIT | {"name": "life"}, calibrant_note="a fit").status_code == 201
    document = _call(url, None, "GET", "/maps/life/document").json()
    imported = _call(url, None, "POST", "/maps/import", {"document": document, "name": "life"})
    assert imported.status_code == 201
    assert _call(url, None, "PATCH", "/maps/life:1", {"description": "first"}).status_code == 200
    assert _call(url, None, "PATCH", "/maps/life:1", {"description": "first"}).status_code == 200  # changes nothing
    for version in (1, 2, 2):  # the last one changes nothing
        assert _call(url, None, "PUT", "/maps/life/aliases/champion", {"version": version}).status_code == 200
    assert _call(url, None, "DELETE", "/maps/life/aliases/champion").status_code == 204
    for version in (1, 2):
        assert _call(url, None, "DELETE", f"/maps/life:{version}", calibrant_note="no longer used").status_code == 204
    assert _call(url, None, "POST", "/maps", FIT | {"name": "life"}).status_code == 201
    entries = _entries(url, None, "?map=life&limit=100")
    assert [entry["action"] for entry in reversed(entries)] == [
        *("map-fitted", "map-imported", "map-described", "alias-moved", "alias-moved", "alias-deleted"),
        *("map-deleted", "map-deleted", "map-fitted"),
    ]
    assert entries[0]["after"]["version"] == 3
    assert [entry["note"] for entry in entries[1:3]] == ["no longer used"] * 2
    described = next(entry for entry in entries if entry["action"] == "map-described")
    assert (described["before"]["description"], described["after"]["description"]) == (None, "first")
    assert {entry["actor"]["kind"] for entry in entries} == {"local"}
    assert len({entry["request_id"] for entry in entries}) == len(entries)
    assert [entry["id"] for entry in entries] == sorted((entry["id"] for entry in entries), reverse=True)


def test_changes_of_keys_are_in_the_log_of_their_tenant_without_secrets(
    keys: ApiKeyStore, redis: Redis, redis_url: str
) -> None:
    created = keys.create("ci", tenant="a", scope="maps:promote", rate_limit=5)
    rotated = keys.rotate(created.record.id, grace=60)
    keys.revoke(created.record.id)
    keys.revoke(created.record.id)  # changes nothing
    arguments = ["keys", "create", "other", "--tenant", "b", "--note", "new team", "--redis-url", redis_url]
    succeeded(None, *arguments)
    entries = list(reversed(_page(redis, "a")))
    assert [entry.action for entry in entries] == ["key-created", "key-rotated", "key-revoked"]
    assert {entry.key for entry in entries} == {created.record.id}
    assert (entries[0].after or {})["scope"] == "maps:promote"
    assert (entries[1].before or {})["expires_at"] == [None]
    assert (entries[1].after or {})["expires_at"][0] is not None
    assert (entries[2].after or {})["revoked_at"] is not None
    assert {entry.note for entry in entries} == {"first keys"}
    stored = b"".join(redis.hvals(Keyspace("a").audit_entries()))  # type: ignore[arg-type]
    for new in (created, rotated):
        assert new.text.split("_", 2)[2].encode() not in stored
        assert all(secret.digest.encode() not in stored for secret in new.record.secrets)
    other = _page(redis, "b")
    assert [(entry.action, entry.note, entry.actor.kind) for entry in other] == [("key-created", "new team", "command")]


def test_changes_of_a_monitor_are_in_the_log_without_the_secrets_of_its_hooks(
    url: str, keys: ApiKeyStore, redis: Redis
) -> None:
    writer = keys.create("operator", tenant="default", scope="write")
    created = _call(url, writer, "POST", "/monitors", {"name": "inbox", "hooks": [HOOK]}, calibrant_note="go live")
    assert created.status_code == 201
    assert _call(url, writer, "PATCH", "/monitors/inbox", {"description": "mail"}).status_code == 200
    for _ in range(2):  # the second one changes nothing
        assert _call(url, writer, "POST", "/monitors/inbox/recalibrate", {}).status_code == 202
    assert _call(url, writer, "DELETE", "/monitors/inbox", calibrant_note="replaced").status_code == 204
    entries = _entries(url, writer, "?monitor=inbox")
    assert [(entry["action"], entry["note"]) for entry in entries] == [
        ("monitor-deleted", "replaced"),
        ("recalibration-requested", None),
        ("monitor-changed", None),
        ("monitor-created", "go live"),
    ]
    assert {entry["actor"]["id"] for entry in entries} == {writer.record.id}
    assert (entries[2]["before"]["description"], entries[2]["after"]["description"]) == (None, "mail")
    assert entries[3]["after"]["hooks"][0]["url"] == "https://alerts.example.com/..."
    stored = b"".join(redis.hvals(Keyspace().audit_entries()))  # type: ignore[arg-type]
    assert HOOK["secret"].encode() not in stored
    assert b"token-of-the-path" not in stored


def test_a_repeated_definition_changes_nobody_who_configured_the_monitor(
    url: str, keys: ApiKeyStore, redis: Redis
) -> None:
    first, second = (keys.create(name, tenant="default", scope="write") for name in ("first", "second"))
    definition = {"description": "mail", "hooks": [HOOK], "recalibration": {"least_rows": 500}}
    assert _call(url, first, "POST", "/monitors", {"name": "inbox", **definition}).status_code == 201
    monitors = Store.of(redis).monitors
    before = monitors.get("inbox")
    for body in (definition, {"description": "mail"}, {}):
        assert _call(url, second, "PATCH", "/monitors/inbox", body).status_code == 200
        assert monitors.get("inbox") == before
    assert [entry["action"] for entry in _entries(url, first, "?monitor=inbox")] == ["monitor-created"]
    assert _call(url, second, "PATCH", "/monitors/inbox", {"description": "post"}).status_code == 200
    assert (before.configured_by, monitors.get("inbox").configured_by) == (first.record.id, second.record.id)


def test_no_tenant_reads_the_log_of_another(url: str, keys: ApiKeyStore, team: dict[str, NewKey]) -> None:
    stranger = keys.create("stranger", tenant="other", scope="admin")
    assert _call(url, team["training"], "POST", "/maps", FIT).status_code == 201
    assert [entry["action"] for entry in _entries(url, stranger)] == ["key-created"]
    assert _entries(url, stranger, "?map=spam") == []
    first = _call(url, team["auditor"], "GET", "/audit?limit=1").json()
    assert [entry["key"] for entry in _entries(url, stranger, f"?cursor={first['next']}")] in ([], [stranger.record.id])
    assert _call(url, keys.create("m", tenant="other", scope="monitors:read"), "GET", "/audit").status_code == 403


@pytest.mark.parametrize(
    ("note", "status"),
    [
        ("x" * 500, 200),
        ("ü" * 500, 200),
        ("", 200),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", 200),
        ("x" * 501, 422),
        ("tab\there", 422),
        ("\x1b[31mred", 400),
        ("right\u202eleft", 422),
        ("two\u2028lines", 422),
        ("bell\x07", 400),
    ],
)
def test_a_note_is_one_line_of_at_most_500_characters(service: Any, note: str, status: int) -> None:
    assert _call(service.url, None, "POST", "/maps", FIT | {"name": "noted"}).status_code == 201
    body = {"version": _call(service.url, None, "GET", "/maps/noted").json()["version"]}
    moved = _call(service.url, None, "PUT", "/maps/noted/aliases/champion", body, calibrant_note=note)
    assert moved.status_code == status
    if status == 200:
        entry = _entries(service.url, None, "?map=noted&alias=champion&limit=1")[0]
        assert (entry["note"] or "") == note.strip()
    else:
        assert note.strip() not in moved.text


@pytest.mark.parametrize("note", [b"\xff\xfe", b"caf\xe9"])
def test_a_note_that_is_not_utf_8_is_refused_and_changes_nothing(service: Any, note: bytes) -> None:
    before = _entries(service.url, None, "?limit=1")
    refused = body_of(httpx.post(service.url + "/maps", json=FIT, headers={b"Calibrant-Note": note}, timeout=600), 422)
    assert refused["errors"][0]["header"] == "Calibrant-Note"
    assert _entries(service.url, None, "?limit=1") == before


def test_two_notes_are_refused(service: Any) -> None:
    headers = [("Calibrant-Note", "one"), ("Calibrant-Note", "two")]
    assert httpx.post(service.url + "/maps", json=FIT, headers=headers, timeout=600).status_code == 400


def test_headers_and_bodies_cannot_forge_the_actor(url: str, team: dict[str, NewKey]) -> None:
    forged = {
        "calibrant_actor": "ceo",
        "x_forwarded_user": "ceo",
        "calibrant_author": '{"kind":"service"}',
        "from": "c",
    }
    assert _call(url, team["training"], "POST", "/maps", FIT, **forged).status_code == 201
    for field in ("author", "actor", "created_by", "note", "request_id"):
        refused = _call(url, team["training"], "POST", "/maps", FIT | {field: "ceo"})
        assert refused.status_code == 422
    assert [entry["actor"]["name"] for entry in _entries(url, team["auditor"], "?map=spam")] == ["training"]


@pytest.mark.parametrize(
    "query",
    [
        *("action=nothing", "action=", "actor=", "map=", "limit=0", "limit=101", "limit=x", "note=x", "cursor=%00"),
        *("created_after=yesterday", "created_before=1", "cursor=" + "A" * 201, "monitor=" + "x" * 65, "alias="),
        "cursor=" + write_cursor(Place(1.0, b"\xff\xfe")) + "!",
    ],
)
def test_an_invalid_query_is_refused(service: Any, query: str) -> None:
    refused = _call(service.url, None, "GET", f"/audit?{query}")
    assert refused.status_code == 422, refused.text


@pytest.mark.parametrize("place", [Place(1e300, b"x"), Place(-1.0, b"\xff\xfe\x00"), Place(5e-324, b"audit_")])
def test_a_forged_cursor_reads_nothing_but_the_log(service: Any, place: Place) -> None:
    assert _call(service.url, None, "POST", "/maps", FIT).status_code == 201
    for entry in _entries(service.url, None, f"?cursor={write_cursor(place)}"):
        assert entry["id"].startswith("audit_")


def test_pages_filters_and_the_export_agree(service: Any) -> None:
    url = service.url
    for _ in range(7):
        assert _call(url, None, "POST", "/maps", FIT | {"name": "paged"}).status_code == 201
    whole = _entries(url, None, "?map=paged&limit=100")
    with Calibrant(url) as client:
        paged = list(client.audit_log(map="paged"))
    assert [entry.id for entry in paged] == [entry["id"] for entry in whole]
    cursor, ids = "", []
    while cursor is not None:
        page = _call(url, None, "GET", f"/audit?map=paged&limit=2{cursor and f'&cursor={cursor}'}").json()
        ids += [entry["id"] for entry in page["items"]]
        cursor = page["next"]
    assert ids == [entry["id"] for entry in whole]
    lines = _call(url, None, "GET", "/audit?map=paged&limit=1", accept="application/jsonl")
    assert lines.headers["content-type"] == "application/jsonl"
    assert [json.loads(line) for line in lines.text.splitlines()] == whole
    after = whole[3]["at"]
    later = _entries(url, None, f"?map=paged&limit=100&created_after={after}")
    assert [entry["id"] for entry in later] == [entry["id"] for entry in whole if entry["at"] >= after]
    earlier = _entries(url, None, f"?map=paged&limit=100&created_before={after}")
    assert [entry["id"] for entry in earlier] == [entry["id"] for entry in whole if entry["at"] < after]
    assert _call(url, None, "GET", "/audit", accept="text/csv").status_code == 406
    assert _call(url, None, "POST", "/audit").status_code == 405
    assert _call(url, None, "DELETE", "/audit").status_code == 405


def test_the_command_prints_a_table_and_json_lines_and_the_client_sends_a_note(service: Any) -> None:
    with Calibrant(service.url, note="ünder review") as client:
        client.fit("identity", name="typed", predictions=[0.1, 0.9], labels=[0, 1])
    arguments = ["audit", "--map", "typed", "--server", service.url]
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert "map-fitted" in shown.stdout
    assert "ünder review" in shown.stdout
    lines = invoked(None, *arguments, "--json", "--most", "1").stdout.splitlines()
    assert [json.loads(line)["note"] for line in lines] == ["ünder review"]
    described = CliRunner().invoke(
        app, ["maps", "alias", "typed", "champion", "1", "--server", service.url], env={"CALIBRANT_NOTE": "go"}
    )
    assert described.exit_code == 0, described.stderr
    assert _entries(service.url, None, "?map=typed&action=alias-moved")[0]["note"] == "go"
    assert invoked(None, "audit", "--action", "x", "--server", service.url).exit_code == 1


def _trail(redis: Redis, tenant: str, entries: int = 100, days: int = 400) -> AuditTrail:
    return AuditTrail(redis, Keyspace(tenant), bounds=AuditBounds(entries, days))


def _page(redis: Redis, tenant: str, limit: int = 1000) -> Any:
    return AuditTrail(redis, Keyspace(tenant)).page(PageRequest(limit), AuditQuery()).items


def _add(redis: Redis, trail: AuditTrail, *facts: AuditFact) -> None:
    with redis.pipeline() as pipe:
        trail.add(pipe, *facts)
        pipe.execute()


@pytest.mark.parametrize(
    "action",
    ["monitor-created", "monitor-changed", "monitor-deleted", "recalibration-requested", "alarm-acknowledged"],
)
def test_a_key_for_monitors_does_not_push_out_promotions_and_keys(redis: Redis, action: ChangeAction) -> None:
    trail = _trail(redis, "crowded")
    lasting: tuple[ChangeAction, ...] = ("alias-moved", "key-created", "proposal-accepted", "audit-hook-set")
    _add(redis, trail, *(AuditFact(action=other) for other in lasting * 10))
    for _ in range(2):
        _add(redis, trail, *(AuditFact(action=action, monitor="m") for _ in range(100)))
    actions = [entry.action for entry in _page(redis, "crowded")]
    assert (len(actions), sum(action in lasting for action in actions)) == (100, 40)


def test_the_log_is_bounded_and_fits_do_not_push_out_promotions(redis: Redis) -> None:
    trail = _trail(redis, "bounded")
    _add(redis, trail, *(AuditFact(action="alias-moved", map="m", after={"version": i}) for i in range(40)))
    for _ in range(30):
        _add(redis, trail, *(AuditFact(action="map-fitted", map="m") for _ in range(10)))
    actions = [entry.action for entry in _page(redis, "bounded")]
    assert (len(actions), actions.count("alias-moved")) == (100, 40)
    _add(redis, trail, *(AuditFact(action="key-created", key=str(i)) for i in range(100)))
    _add(redis, trail, AuditFact(action="key-created"))
    actions = [entry.action for entry in _page(redis, "bounded")]
    assert (len(actions), actions.count("alias-moved")) == (100, 0)
    keys = Keyspace("bounded")
    assert redis.hlen(keys.audit_entries()) == redis.zcard(keys.audit()) == 100
    assert redis.zcard(keys.audit_routine()) <= 50


def test_commands_and_decisions_do_not_remove_what_the_service_keeps(
    redis: Redis, keys: ApiKeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBRANT_AUDIT_ENTRIES", "100")
    store = Store.of(redis, "wide", Quotas(audit=AuditBounds(1000, 400)))
    record = monitor(store)
    _add(redis, store.audit, *(AuditFact(action="key-created", key="k") for _ in range(150)))
    keys.create("one", tenant="wide", scope="read")
    request_challenger(store, record, None, 0.0)
    file = io.BytesIO()
    write_backup(redis, file)
    redis.delete(Shared.api_keys())
    restore(redis, file, merge=True, author=Author())
    entries = _page(redis, "wide")
    latest = [entry.action for entry in entries[:3]]
    assert (len(entries), latest) == (155, ["backup-restored", "restore-started", "recalibration-requested"])


def test_entries_that_are_too_old_are_removed(redis: Redis) -> None:
    keys = Keyspace("aged")
    trail = _trail(redis, "aged", days=1)
    _add(redis, trail, AuditFact(action="key-created", key="old"))
    entry = cast(list[bytes], redis.zrange(keys.audit(), 0, -1))[0]
    redis.zadd(keys.audit(), {entry.decode(): 1.0})
    _add(redis, trail, AuditFact(action="key-created", key="new"))
    assert [entry.key for entry in _page(redis, "aged")] == ["new"]


def test_a_change_that_fails_has_no_entry(service: Any) -> None:
    url = service.url
    assert _call(url, None, "POST", "/maps", FIT | {"name": "kept"}).status_code == 201
    assert _call(url, None, "PUT", "/maps/kept/aliases/champion", {"version": 1}).status_code == 200
    before = _entries(url, None, "?limit=1")
    assert _call(url, None, "DELETE", "/maps/kept:1").status_code == 409
    assert _call(url, None, "PUT", "/maps/kept/aliases/champion", {"version": 9}).status_code == 422
    refused = _call(url, None, "PUT", "/maps/kept/aliases/champion", {"version": 1}, if_match='"other"')
    assert refused.status_code == 412
    assert _call(url, None, "DELETE", "/maps/kept/aliases/none").status_code == 404
    assert _entries(url, None, "?limit=1") == before


def test_a_backup_has_the_log_and_its_restoration_is_an_entry(redis: Redis, keys: ApiKeyStore) -> None:
    keys.create("one", tenant="a", scope="write")
    _add(redis, _trail(redis, "a"), *(AuditFact(action="map-fitted", map="m", after={"n": None}) for _ in range(3)))
    before = _page(redis, "a")
    file = io.BytesIO()
    assert write_backup(redis, file)["audit"] == 4
    redis.flushdb()
    author = Author(actor=Actor(kind="command", name="root"), note="after the fire")
    restored = restore(redis, file, merge=False, author=author)
    assert restored.written["audit"] == 4
    after = _page(redis, "a")
    assert after[2:] == before
    assert [entry.action for entry in after[:2]] == ["backup-restored", "restore-started"]
    assert [(entry.after, entry.note) for entry in after[:2]] == [({"key": 1}, "after the fire")] * 2
    again = restore(redis, file, merge=True)
    assert (again.left["audit"], again.written["audit"]) == (4, 0)
    assert _page(redis, "a") == after


def test_an_interrupted_restore_has_its_entry_before_anything_that_it_wrote(
    redis: Redis, keys: ApiKeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.create("one", tenant="a", scope="write")
    file = io.BytesIO()
    write_backup(redis, file)
    redis.flushdb()

    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(ApiKeyStore, "restore", interrupt)
    with pytest.raises(KeyboardInterrupt):
        restore(redis, file, merge=False, author=Author(note="after the fire"))
    entries = [(entry.action, entry.after, entry.note) for entry in _page(redis, "a")]
    assert entries[:1] == [("restore-started", {"key": 1}, "after the fire")]
    assert not redis.exists(Shared.api_keys())


def test_the_page_of_a_map_shows_its_history_and_sends_a_note(
    url: str, team: dict[str, NewKey], keys: ApiKeyStore
) -> None:
    assert _call(url, team["training"], "POST", "/maps", FIT, calibrant_note="<b>bold</b>").status_code == 201
    with Visitor(url) as visitor:
        assert visitor.sign_in(team["approver"].text, "/ui/maps").status_code == 303
        form = {"alias": "champion", "version": "1", "seen": "", "note": "approved by the board"}
        assert visitor.submit("/ui/maps/spam/aliases", form).status_code == 303
        page = visitor.get("/ui/maps/spam").text
        assert "History" in page
        assert "approved by the board" in page
        assert "&lt;b&gt;bold&lt;/b&gt;" in page
        refused = visitor.submit("/ui/maps/spam/aliases", form | {"note": "x" * 501, "version": "1"})
        assert refused.status_code == 422
    entry = _entries(url, team["auditor"], "?action=alias-moved")[0]
    assert (entry["note"], entry["actor"]["name"]) == ("approved by the board", "approver")


def test_the_store_counts_entries_to_their_tenant(redis: Redis) -> None:
    keys = Keyspace("counted")
    for key in (keys.audit(), keys.audit_entries(), keys.audit_routine(), keys.audit_serial()):
        assert key.startswith("calibrant:counted:")
    assert Shared.api_keys().startswith("calibrant::")


def test_a_view_of_the_store_writes_for_its_author(redis: Redis) -> None:
    store = Store.of(redis, "authors").by(Author(actor=Actor(kind="monitor", name="inbox", configured_by="k1")))
    _add(redis, store.audit, AuditFact(action="alias-moved", map="m"))
    with contextlib.suppress(StopIteration):
        entry = _page(redis, "authors")[0]
    assert entry.actor == Actor(kind="monitor", name="inbox", configured_by="k1")


def test_a_change_of_a_key_whose_answer_is_lost_has_one_entry(tmp_path: Path) -> None:
    with (
        redis_server(tmp_path) as server,
        lossy_proxy(server.port) as proxy,
        contextlib.closing(connect(proxy.url, timeout=600)) as redis,
    ):
        keys = ApiKeyStore(redis)
        proxy.lose()
        created = keys.create("lost", tenant="default", scope="read")
        proxy.lose()
        rotated = keys.rotate(created.record.id, grace=60)
        proxy.lose()
        keys.revoke(created.record.id)
        assert proxy.lost == 3
        assert rotated.text != created.text
        entries = AuditTrail(redis, Keyspace()).page(PageRequest(100), AuditQuery()).items[::-1]
        assert [entry.action for entry in entries] == ["key-created", "key-rotated", "key-revoked"]
        assert [entry.before for entry in entries] == [None, *(entry.after for entry in entries[:-1])]
