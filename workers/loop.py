"""RQ's loop: it takes messages from queues, hears signals, and keeps none of RQ's registries."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from redis import Redis
from redis.client import Pipeline
from rq import Queue, Worker
from rq.job import Job
from rq.serializers import JSONSerializer

from storage.jobs.queues import MessageQueue

#: Seconds that RQ's record of a worker lasts without a heartbeat, beside the 60 that RQ adds.
_TTL_SECONDS = 20
#: RQ tells of a worker before and after every job; that often is enough.
_HEARTBEAT_SECONDS = 5.0


class Loop(Worker):
    """An RQ worker as far as it waits for messages; what it does with one is told by ``execute_job``."""

    queue_class = MessageQueue

    def __init__(self, queues: Sequence[Queue], *, name: str, connection: Redis, job_class: type[Job]) -> None:
        super().__init__(
            queues,
            name=name,
            connection=connection,
            job_class=job_class,
            serializer=JSONSerializer,
            worker_ttl=_TTL_SECONDS,
        )
        self._beat = float("-inf")

    @property
    def max_connection_wait_time(self) -> float:  # type: ignore[override]
        """Seconds between two attempts to reach the store: never the same for two workers."""
        return random.uniform(0.3, 1.5)  # noqa: S311 - jitter, not a secret

    def set_shutdown_requested_date(self) -> None:
        """Nothing: who is told to stop does so also while the store is away."""

    def set_state(self, state: str, pipeline: Pipeline | None = None) -> None:  # noqa: ARG002 - RQ's own
        """Note what the worker does, for its own signals: nobody else asks."""
        self._state = state

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Tell RQ that the worker is there, no more often than needed."""
        if time.monotonic() - self._beat > _HEARTBEAT_SECONDS:
            super().heartbeat(timeout, pipeline)
            self._beat = time.monotonic()

    def unsubscribe(self) -> None:
        """Nothing: the process ends, and its connection with it. RQ would wait a second for a thread that listens."""

    def run_maintenance_tasks(self) -> None:
        """Nothing: there are no registries to clean, and supervisors look after the rest."""
