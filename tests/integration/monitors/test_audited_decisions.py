"""The audit log of decisions about challengers: by the monitor itself, or by whoever accepted them."""

from __future__ import annotations

import pytest

from backend.monitors.alarms import acknowledge
from backend.monitors.challengers import accept, reject
from backend.monitors.recalibration import recalibrate_at
from backend.store.api_keys import ApiKeyStore
from backend.store.audit import AuditTrail
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.standings import StandingChange, Standings
from backend.store.pages import PageRequest
from backend.store.store import Store
from schemas.audit import Actor, AuditQuery, Author, ChangeRecord
from schemas.keys import TokenMapping
from schemas.monitors import MonitorRecord
from tests.integration.monitors.test_recalibrating import NOW, alarmed

pytestmark = pytest.mark.slow

ANNA = Author(actor=Actor(kind="key", id="k1", name="anna", scope="write"), note="looks right", request_id="r1")


def _log(store: Store) -> list[ChangeRecord]:
    page = AuditTrail(store.redis, store.keys).page(PageRequest(100), AuditQuery())
    return [entry for entry in reversed(page.items) if not entry.action.startswith(("monitor-", "key-"))]


def _configured(store: Store, record: MonitorRecord) -> MonitorRecord:
    change = {"configured_by": "k0"}
    return Definitions(store.redis, store.keys).patch(record.name, lambda before: before.model_copy(update=change))


def test_a_move_that_a_monitor_decides_is_by_the_monitor_and_names_who_configured_it(store: Store) -> None:
    record = _configured(store, alarmed(store))
    recalibrate_at(store, record, NOW)
    entries = _log(store)
    assert [entry.action for entry in entries] == ["map-fitted", "challenger-proposed", "alias-moved"]
    actor = Actor(kind="monitor", id=record.id, name="m", configured_by="k0")
    assert {entry.actor.model_dump_json() for entry in entries} == {actor.model_dump_json()}
    alias = store.aliases.get("m", "champion")
    moved, proposed = entries[2], entries[1]
    assert (moved.before, (moved.after or {})["id"], moved.alias) == (None, alias.map, "champion")
    assert (proposed.after or {})["challenger"] == alias.map
    assert (proposed.after or {})["low"] > 0


def test_a_move_by_a_worker_states_keys_claims_of_tokens_and_the_monitor_as_those_who_could_move(store: Store) -> None:
    keys = ApiKeyStore(store.redis)
    for name, scope in (("approver", "maps:promote"), ("auditor", "read")):
        keys.create(name, tenant=store.keys.tenant, scope=scope)
    scopes = {"approvers": "maps:promote", "viewers": "read"}
    about = {"tenant_claim": "/org/team", "scopes_claim": "roles"}
    keys.set_tokens(TokenMapping(issuer="https://id.example.com", scopes=scopes, **about))
    record = alarmed(store)
    recalibrate_at(store, record, NOW)
    permitted = _log(store)[-1].permitted or []
    assert [(promoter.kind, promoter.name, promoter.claims) for promoter in permitted] == [
        ("key", "approver", None),
        ("tokens", None, {"roles": "approvers", "/org/team": store.keys.tenant}),
        ("monitor", "m", None),
    ]


def test_an_accepted_challenger_is_moved_in_the_name_of_who_accepted_it(store: Store) -> None:
    record = alarmed(store, "propose")
    recalibrate_at(store, record, NOW)
    accept(store.by(ANNA), record, "anna", NOW + 5)
    accepted, moved = _log(store)[-2:]
    assert [accepted.action, moved.action] == ["proposal-accepted", "alias-moved"]
    assert [accepted.actor, moved.actor] == [ANNA.actor] * 2
    assert [accepted.note, moved.note] == ["looks right"] * 2
    assert [accepted.request_id, moved.request_id] == ["r1"] * 2


def test_a_worker_that_completes_a_move_does_so_in_the_name_of_who_accepted_it(store: Store) -> None:
    record = alarmed(store, "propose")
    recalibrate_at(store, record, NOW)
    standings = Standings(store.redis, store.keys, record)
    # As if the process that accepted it had ended before it moved the alias.
    standings.change(
        lambda _, standing: StandingChange(
            standing.model_copy(update={"moving": standing.proposal, "proposal": None, "moved_for": ANNA})
        )
    )
    recalibrate_at(store, record, NOW + 6)
    moved = _log(store)[-1]
    assert (moved.action, moved.actor, moved.note) == ("alias-moved", ANNA.actor, "looks right")
    assert standings.read().moved_for is None


def test_a_rejection_and_an_acknowledgement_are_by_their_caller_and_alarms_are_not_in_the_log(store: Store) -> None:
    record = alarmed(store, "propose")
    recalibrate_at(store, record, NOW)
    reject(store.by(ANNA), record, "anna", NOW + 5)
    acknowledge(store.by(ANNA), record, "evidence", "anna", NOW + 6)
    entries = _log(store)
    assert [entry.action for entry in entries] == [
        "map-fitted",
        "challenger-proposed",
        "proposal-rejected",
        "alarm-acknowledged",
    ]
    assert [entry.actor for entry in entries[2:]] == [ANNA.actor] * 2
