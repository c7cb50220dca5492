"""Moves of an alias and changes of monitors during the faults, and their entries in the audit log."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator

import httpx

from benchmarks.chaos.asks import NAMES
from benchmarks.chaos.load import PAUSE
from benchmarks.chaos.repeated import Repeater
from calibrant.client import Calibrant

ALIAS = "live"
#: Monitors that are created, changed and deleted.
MONITORS = ("chaos-a", "chaos-b")


class Mover(Repeater):
    """Moves the alias of every name to random versions, and changes monitors; runs as a context manager."""

    def __init__(self, http: httpx.Client, seed: int) -> None:
        super().__init__(PAUSE)
        self._http = http
        self._numbers = random.Random(seed)  # noqa: S311 - no secret
        #: Name -> revision of its alias, and version, as last acknowledged.
        self.acknowledged: dict[str, tuple[int, int]] = {}

    def act(self) -> None:
        """Make a move and a change, unless the API is away."""
        for change in (self._move, self._change_monitor):
            with contextlib.suppress(httpx.TransportError):
                change()

    def _move(self) -> None:
        name, version = self._numbers.choice(NAMES), self._numbers.randint(1, 20)
        response = self._http.put(f"/maps/{name}/aliases/{ALIAS}", json={"version": version})
        if response.is_success:
            self.acknowledged[name] = (response.json()["revision"], version)

    def _change_monitor(self) -> None:
        name, described = self._numbers.choice(MONITORS), {"description": f"number {self._numbers.random()}"}
        match self._numbers.randrange(3):
            case 0:
                self._http.post("/monitors", json={"name": name} | described)
            case 1:
                patch = {"Content-Type": "application/merge-patch+json"}
                self._http.patch(f"/monitors/{name}", content=json.dumps(described), headers=patch)
            case _:
                self._http.delete(f"/monitors/{name}")


def move_faults(client: Calibrant, acknowledged: dict[str, tuple[int, int]]) -> Iterator[str]:
    """What the entries of a name do not tell: a move without an entry, or an entry without a move."""
    for name, (revision, version) in sorted(acknowledged.items()):
        entries = list(client.audit_log(map=name, alias=ALIAS))[::-1]
        states = [entry.after or {} for entry in entries]
        if [state["revision"] for state in states] != list(range(1, len(states) + 1)):
            yield f"the entries of {name} have gaps or repetitions"
        if [entry.before for entry in entries] != [None, *states][: len(states)]:
            yield f"the entries of {name} do not follow each other"
        current = next(alias for alias in client.aliases(name) if alias.alias == ALIAS)
        if not states or (states[-1]["revision"], states[-1]["version"]) != (current.revision, current.version):
            yield f"the last entry of {name} is not its alias"
        if current.revision < revision or (current.revision == revision and current.version != version):
            yield f"an acknowledged move of {name} is lost"


def monitor_faults(client: Calibrant) -> Iterator[str]:
    """What the entries of a monitor do not tell: each begins with what the previous one ended with."""
    stored = {monitor.name: monitor.description for monitor in client.monitors()}
    for name in MONITORS:
        described = None
        for entry in list(client.audit_log(monitor=name))[::-1]:
            if (entry.before or {}).get("description") != described:
                yield f"the entries of {name} do not follow each other"
            described = (entry.after or {}).get("description")
        if described != stored.get(name):
            yield f"the last entry of {name} is not its definition"
