"""Moves of an alias during the faults, and the entries of the audit log that must tell them all."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import httpx

from benchmarks.chaos.asks import NAMES
from benchmarks.chaos.load import PAUSE
from calibrant.client import Calibrant

ALIAS = "live"


class Mover:
    """Moves the alias of every name to random versions; runs as a context manager."""

    def __init__(self, http: httpx.Client, seed: int) -> None:
        self._http = http
        self._numbers = random.Random(seed)  # noqa: S311 - no secret
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._move_on, daemon=True)
        #: Name -> revision of its alias, and version, as last acknowledged.
        self.acknowledged: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> Self:
        """Start moving."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop."""
        self._stopped.set()
        self._thread.join()

    def _move_on(self) -> None:
        while not self._stopped.wait(PAUSE):
            name, version = self._numbers.choice(NAMES), self._numbers.randint(1, 20)
            try:
                response = self._http.put(f"/maps/{name}/aliases/{ALIAS}", json={"version": version})
            except httpx.TransportError:
                continue
            if response.is_success:
                self.acknowledged[name] = (response.json()["revision"], version)


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
