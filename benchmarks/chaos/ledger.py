"""What clients were promised: every job that was acknowledged, every end that was told, every map that was seen."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Promise:
    """A job that the service acknowledged: its kind, and the name that its map was to have."""

    job_id: str
    kind: str
    name: str | None = None
    at: float = field(default_factory=time.time)


class Ledger:
    """Written by every client, read once they have stopped."""

    def __init__(self) -> None:
        self.promises: dict[str, Promise] = {}
        #: Job -> the status in which it was first seen to have ended.
        self.ends: dict[str, str] = {}
        #: Map -> its document when it was first read.
        self.documents: dict[str, bytes] = {}
        #: Jobs that two requests were given.
        self.doubled: list[str] = []
        #: What requests were answered, by status; 0 is no answer.
        self.answers: Counter[int] = Counter()
        self._open: set[str] = set()
        self._lock = threading.Lock()

    def promise(self, promise: Promise) -> None:
        """Note a job that was acknowledged."""
        with self._lock:
            if promise.job_id in self.promises:
                self.doubled.append(promise.job_id)
            else:
                self._open.add(promise.job_id)
            self.promises[promise.job_id] = promise

    def end(self, job_id: str, status: str) -> None:
        """Note that a job was seen to have ended."""
        with self._lock:
            self.ends.setdefault(job_id, status)
            self._open.discard(job_id)

    def read(self, map_id: str, document: bytes) -> None:
        """Note a map's document as it was first read."""
        self.documents.setdefault(map_id, document)

    def answer(self, status: int) -> None:
        """Note how a request was answered; 0 is no answer."""
        with self._lock:
            self.answers[status] += 1

    def open(self) -> list[str]:
        """The jobs that were not seen to have ended."""
        with self._lock:
            return list(self._open)

    def under_way(self) -> int:
        """How many they are."""
        return len(self._open)
