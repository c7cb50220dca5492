"""Clients that score a held map through the API replicas while faults are injected, and the checks of each response."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

import httpx

from benchmarks.chaos.connections import Connections
from benchmarks.chaos.load import PAUSE
from benchmarks.chaos.parts import DeploymentProcess
from benchmarks.chaos.scored import ALIAS, MODEL, MOVE_SECONDS, SEEN_SECONDS, ScoredModel, ScoringRequest

#: Requests per second, and how often one is tried: on the other replica each time, as by a balancer.
RATE, TRIES = 50, 3
_ANSWER_SECONDS = 10.0


class Refusal(NamedTuple):
    """A try without a result: its replica, when that last answered before, and the time of the try."""

    api: DeploymentProcess
    answered: float
    began: float
    ended: float
    reason: str

    def __str__(self) -> str:
        return f"{self.api.name} after {self.ended - self.began:.2f} s: {self.reason}"


@dataclass
class ScoringEvidence:
    """What the clients got."""

    requests: int = 0
    #: Responses of a replica that did not reach the store, and the most seconds since one did.
    stale: int = 0
    oldest: int = 0
    moves: int = 0
    #: Tries on another replica, by the reason.
    retried: Counter[str] = field(default_factory=Counter)
    #: Requests that no replica answered; refusals of a replica that had answered since its start; wrong responses.
    failed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Scorer:
    """Sends requests at a fixed rate to the replicas in turn, and moves the alias; runs as a context manager."""

    def __init__(self, apis: Sequence[DeploymentProcess], urls: Sequence[str], key: str) -> None:
        self.evidence = ScoringEvidence()
        #: When each replica last answered, by the monotonic clock.
        self.answered = {api.name: 0.0 for api in apis}
        self._apis, self._urls, self._key = apis, urls, key
        self._model: ScoredModel | None = None
        self._refusals: list[Refusal] = []
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (lambda: asyncio.run(self._score()), self._move_on)
        ]

    @property
    def model(self) -> ScoredModel:
        """The map of the requests."""
        assert self._model is not None  # noqa: S101 - it is there before the clients
        return self._model

    def start(self, model: ScoredModel) -> None:
        """Begin."""
        self._model = model
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        """Wait until every replica has answered."""
        while not all(self.answered.values()):
            time.sleep(PAUSE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop, and judge the refusals."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        evidence = self.evidence
        evidence.moves = len(self.model.moves.done)
        evidence.retried = Counter(refusal.reason for refusal in self._refusals)
        evidence.refused = [
            str(refusal) for refusal in self._refusals if not refusal.api.was_away(refusal.answered, refusal.ended)
        ]

    # --- Requests

    async def _score(self) -> None:
        requests, began = self.model.requests(), time.monotonic()
        connections = [Connections(url, self._key) for url in self._urls]
        tasks: set[asyncio.Task[None]] = set()
        for number in itertools.count():
            await asyncio.sleep(max(began + number / RATE - time.monotonic(), 0))
            if self._stopped.is_set():
                break
            task = asyncio.create_task(self._request(next(requests), number, connections))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            task.add_done_callback(self._end)
        await asyncio.gather(*tasks, return_exceptions=True)
        for of_api in connections:
            of_api.forget()

    def _end(self, task: asyncio.Task[None]) -> None:
        error = task.exception()
        if error is not None:
            self.evidence.wrong.append(f"not a documented response: {error!r}")

    async def _request(self, request: ScoringRequest, number: int, connections: Sequence[Connections]) -> None:
        self.evidence.requests += 1
        refusals: list[Refusal] = []
        for attempt in range(TRIES):
            place = (number + attempt) % len(connections)
            refusal = await self._try(request, self._apis[place], connections[place])
            if refusal is None:
                return
            refusals.append(refusal)
            self._refusals.append(refusal)
        self.evidence.failed.append(f"{request.path}: {', '.join(map(str, refusals))}")

    async def _try(self, request: ScoringRequest, api: DeploymentProcess, connections: Connections) -> Refusal | None:
        answered, began = self.answered[api.name], time.monotonic()
        try:
            answer = await asyncio.wait_for(connections.post(request.path, request.body), _ANSWER_SECONDS)
        except (OSError, EOFError, TimeoutError) as error:
            return Refusal(api, answered, began, time.monotonic(), type(error).__name__)
        ended, evidence = time.monotonic(), self.evidence
        if answer.status != httpx.codes.OK:
            reason = f"{answer.status} {answer.body.get('type') or answer.body.get('error')}"
            return Refusal(api, answered, began, ended, reason)
        self.answered[api.name] = ended
        if answer.stale is not None:
            evidence.stale += 1
            evidence.oldest = max(evidence.oldest, answer.stale)
        known = began - (answer.stale or 0) - SEEN_SECONDS
        fault = self.model.fault(request, answer, self.model.moves.accepted(known, ended))
        if fault is not None:
            evidence.wrong.append(f"{api.name}, stale {answer.stale}: {fault}")
        return None

    # --- Moves of the alias

    def _move_on(self) -> None:
        headers = {"Authorization": f"Bearer {self._key}"}
        with httpx.Client(timeout=30, headers=headers) as http:
            for version in itertools.cycle((2, 1)):
                if self._stopped.wait(MOVE_SECONDS):
                    return
                with self.model.moves.moving(version):
                    self._move(http, version)

    def _move(self, http: httpx.Client, version: int) -> None:
        """Repeat the move until it is acknowledged: one that is lost with its replica may take effect later."""
        for url in itertools.cycle(self._urls):
            try:
                if http.put(f"{url}/maps/{MODEL}/aliases/{ALIAS}", json={"version": version}).is_success:
                    return
            except httpx.TransportError:
                pass
            time.sleep(PAUSE)
