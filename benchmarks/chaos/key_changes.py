"""API keys that are created, rotated and revoked during the faults, their entries in the audit log, and their use."""

from __future__ import annotations

import contextlib
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httpx
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from backend.store.errors import KeyConflict
from backend.store.keyspace import DEFAULT_TENANT
from backend.store.server.connection import UNAVAILABLE, connect, patiently
from benchmarks.chaos.cluster import Cluster
from benchmarks.chaos.repeated import Repeater
from calibrant.client import Calibrant
from schemas.audit import Actor, Author

#: Seconds between two changes.
_PAUSE_SECONDS = 0.5
#: Keys beyond these are revoked rather than created.
_LIVE_KEYS = 30
_AUTHOR = Author(actor=Actor(kind="command", name="chaos"))


@dataclass
class IssuedKey:
    """A key that was acknowledged: its text, those that no longer count, and its acknowledged changes.

    Without a text it is revoked. ``is_certain`` is false if the last change was not acknowledged.
    """

    text: str | None
    ended: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=lambda: ["key-created"])
    is_certain: bool = True


def first_key(running: Cluster) -> str:
    """A key of the clients; as soon as it exists, every request needs one."""
    running.await_store()
    with contextlib.closing(running.connect()) as redis:
        return ApiKeyStore(redis).create("chaos", tenant=DEFAULT_TENANT, scope="write", rate_limit=0).text


class KeyChanger(Repeater):
    """Changes API keys in the store, as ``calibrant keys`` does; runs as a context manager."""

    def __init__(self, redis_url: str, seed: int) -> None:
        super().__init__(_PAUSE_SECONDS)
        #: Id -> key.
        self.issued: dict[str, IssuedKey] = {}
        #: Refused changes that nothing forbids.
        self.refused: list[str] = []
        self._redis = connect(redis_url)
        self._keys = ApiKeyStore(self._redis, _AUTHOR)
        self._numbers = random.Random(seed)  # noqa: S311 - no secret

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop, and close the connection."""
        super().__exit__(kind, error, at)
        self._redis.close()

    def act(self) -> None:
        """Make a change, unless the store is away."""
        with contextlib.suppress(*UNAVAILABLE):
            self._change()

    def _change(self) -> None:
        live = [key_id for key_id, key in self.issued.items() if key.text is not None]
        action = self._numbers.choice(("create", "rotate", "revoke"))
        if not live or (action == "create" and len(live) < _LIVE_KEYS):
            issued = self._keys.create("chaos-churn", tenant=DEFAULT_TENANT, scope="read", rate_limit=0)
            self.issued[issued.record.id] = IssuedKey(issued.text)
        elif action == "rotate":
            self._rotate(self._numbers.choice(live))
        else:
            self._revoke(self._numbers.choice(live))

    def _rotate(self, key_id: str) -> None:
        key = self.issued[key_id]
        try:
            text = self._keys.rotate(key_id, grace=0).text
        except (*UNAVAILABLE, KeyConflict) as error:  # it may have been rotated, and its new text is lost
            if isinstance(error, KeyConflict):
                self.refused.append(f"{key_id} was not rotated: {error}")
            key.is_certain = False
            self._revoke(key_id)
            return
        key.ended.append(str(key.text))
        key.text = text
        key.actions.append("key-rotated")

    def _revoke(self, key_id: str) -> None:
        key = self.issued[key_id]
        patiently(lambda: self._keys.revoke(key_id))
        key.ended.append(str(key.text))
        key.text = None
        key.actions.append("key-revoked")


def key_entry_faults(client: Calibrant, redis: Redis, changer: KeyChanger) -> Iterator[str]:
    """What the entries of keys do not tell: a change without an entry, or an entry without a change."""
    yield from changer.refused
    histories: dict[str | None, list[Any]] = defaultdict(list)
    for entry in list(client.audit_log())[::-1]:
        if entry.action.startswith("key-"):
            histories[entry.key].append(entry)
    records = {record.id: record for record in ApiKeyStore(redis).all()}
    for key_id in sorted(records.keys() - histories.keys()):
        yield f"{key_id} has no entry"
    for key_id in sorted({str(key_id) for key_id in histories} - records.keys()):
        yield f"{key_id} has entries but does not exist"
    for key_id in sorted(records.keys() & histories.keys()):
        history, record = histories[key_id], records[key_id]
        actions = [entry.action for entry in history]
        key = changer.issued.get(key_id)
        if key is None and actions != ["key-created"]:
            yield f"{key_id}, whose creation was not acknowledged, has the entries {', '.join(actions)}"
        elif key is not None and not has_entries(actions, key):
            yield f"{key_id} has the entries {', '.join(actions)}, not {', '.join(key.actions)}"
        if [entry.before for entry in history] != [None, *(entry.after for entry in history[:-1])]:
            yield f"the entries of {key_id} do not follow each other"
        after = history[-1].after or {}
        if (after["revoked_at"], after["expires_at"]) != (record.revoked_at, [s.expires_at for s in record.secrets]):
            yield f"the last entry of {key_id} is not its record"


def has_entries(actions: Sequence[str], key: IssuedKey) -> bool:
    """Whether entries are the acknowledged changes; one that was not acknowledged may be among them."""
    if key.is_certain:
        return actions == key.actions
    return list(actions) in (key.actions, [*key.actions[:-1], "key-rotated", key.actions[-1]])


def key_use_faults(urls: Sequence[str], issued: Mapping[str, IssuedKey], ref: str) -> Iterator[str]:
    """Acknowledged keys that do not work, and those that work although they were rotated or revoked."""
    body = {"map": ref, "predictions": [0.5]}
    with httpx.Client(timeout=30) as http:
        for url in urls:
            for key_id, key in issued.items():
                texts = dict.fromkeys(key.ended, httpx.codes.UNAUTHORIZED)
                if key.text is not None:
                    texts[key.text] = httpx.codes.OK
                for text, expected in texts.items():
                    headers = {"Authorization": f"Bearer {text}"}
                    status = http.post(f"{url}/calibrate", json=body, headers=headers).status_code
                    if status != expected:
                        yield f"{key_id} was answered {status}, not {expected}"
