"""Clients that keep a number of jobs in flight: each posts with an idempotency key until it is acknowledged."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import httpx

from benchmarks.chaos.asks import Ask
from benchmarks.chaos.ledger import ChaosLedger, Promise
from calibrant.client.retries import pause_of

CLIENTS = 8
#: Documented answers during faults: the key's request is running, too many jobs, store away.
EARLY = frozenset({409, 429, 503})
PAUSE, LONGEST_PAUSE = 0.1, 1.0
_LOOK_SECONDS = 0.1


class Load:
    """Posts requests of ``choose`` while fewer than ``target`` jobs are in flight; records every answer.

    Each try is sent to one of the APIs at random.
    """

    def __init__(
        self,
        urls: Sequence[str],
        ledger: ChaosLedger,
        choose: Callable[[random.Random], Ask],
        *,
        target: int,
        seed: int,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._urls = urls
        self._headers = dict(headers or {})
        self._ledger = ledger
        self._choose = choose
        self._target = target
        self._stopped = threading.Event()
        self._posting = 0
        self._lock = threading.Lock()
        self._posters = [
            threading.Thread(target=self._post_all, args=(random.Random(seed * 1000 + i),), daemon=True)  # noqa: S311
            for i in range(CLIENTS)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._posters:
            thread.start()

    def stop(self, seconds: float) -> None:
        """Stop posting; wait until every started request is acknowledged."""
        self._stopped.set()
        deadline = time.monotonic() + seconds
        for thread in self._posters:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._posters):
            raise TimeoutError("a request was not acknowledged")

    def _post_all(self, numbers: random.Random) -> None:
        with httpx.Client(timeout=30, headers=self._headers) as http:
            while not self._stopped.is_set():
                with self._lock:
                    room = self._ledger.under_way() + self._posting < self._target
                    self._posting += room
                if not room:
                    self._stopped.wait(_LOOK_SECONDS)
                    continue
                try:
                    self._post(http, self._choose(numbers), numbers)
                finally:
                    with self._lock:
                        self._posting -= 1

    def _post(self, http: httpx.Client, ask: Ask, numbers: random.Random) -> None:
        """Send a request until it is acknowledged."""
        headers = ask.headers | {"Idempotency-Key": uuid.uuid4().hex}
        while True:
            url = f"{numbers.choice(self._urls)}{ask.path}"
            response = sent(self._ledger, partial(http.post, url, json=ask.body, headers=headers))
            if response is not None and response.status_code == httpx.codes.ACCEPTED:
                self._ledger.promise(Promise(response.json()["id"], ask.kind, ask.name))
                return
            if response is not None and response.status_code not in EARLY:
                return
            time.sleep(PAUSE if response is None else min(pause_of(response), LONGEST_PAUSE))


def sent(ledger: ChaosLedger, send: Callable[[], httpx.Response]) -> httpx.Response | None:
    """The answer to a request, or None; the ledger records both."""
    try:
        response = send()
    except httpx.TransportError:
        ledger.answer(0)
        return None
    ledger.answer(response.status_code)
    return response
