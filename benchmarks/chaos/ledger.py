"""Acknowledgements to the clients: jobs, their reported ends, and the maps that were read."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Promise:
    """An acknowledged job: its kind, and the requested name of its map."""

    job_id: str
    kind: str
    name: str | None = None
    at: float = field(default_factory=time.time)


class ChaosLedger:
    """Written by every client, read after they have stopped."""

    def __init__(self) -> None:
        self.promises: dict[str, Promise] = {}
        #: Job -> the first final status that was reported.
        self.ends: dict[str, str] = {}
        #: Map -> its document when it was first read.
        self.documents: dict[str, bytes] = {}
        #: Jobs that were returned to two requests.
        self.doubled: list[str] = []
        #: Number of answers by status; 0 is no answer.
        self.answers: Counter[int] = Counter()
        self._open: set[str] = set()
        self._lock = threading.Lock()

    def promise(self, promise: Promise) -> None:
        """Record an acknowledged job."""
        with self._lock:
            if promise.job_id in self.promises:
                self.doubled.append(promise.job_id)
            else:
                self._open.add(promise.job_id)
            self.promises[promise.job_id] = promise

    def end(self, job_id: str, status: str) -> None:
        """Record the reported end of a job."""
        with self._lock:
            self.ends.setdefault(job_id, status)
            self._open.discard(job_id)

    def read(self, map_id: str, document: bytes) -> None:
        """Record the first document of a map."""
        self.documents.setdefault(map_id, document)

    def answer(self, status: int) -> None:
        """Record the answer to a request; 0 is no answer."""
        with self._lock:
            self.answers[status] += 1

    def open(self) -> list[str]:
        """The jobs without a reported end."""
        with self._lock:
            return list(self._open)

    def under_way(self) -> int:
        """The number of open jobs."""
        return len(self._open)
