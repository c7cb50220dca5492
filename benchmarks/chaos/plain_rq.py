"""Plain RQ with empty jobs: the least cost of a queue of this kind."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from benchmarks.chaos.cluster import await_true
from benchmarks.chaos.parts import DeploymentProcess

_NAME = "plain"
WORKERS = 2
_SECONDS = 300.0


def plain_rate(redis: Redis, redis_url: str, jobs: int, folder: Path) -> float:
    """Jobs per second of two plain workers that fork as RQ's default worker does, from first to last job."""
    queue = Queue(_NAME, connection=redis, serializer=JSONSerializer)
    command = [str(Path(sys.executable).with_name("rq")), "worker", "--url", redis_url, "--quiet"]
    command += ["--serializer", "rq.serializers.JSONSerializer", _NAME]
    workers = [DeploymentProcess(f"plain-{i}", command, log=folder / f"plain-{i}.log") for i in range(WORKERS)]
    try:
        for worker in workers:
            worker.start()
        _run(queue, 10)
        return _run(queue, jobs)
    finally:
        for worker in workers:
            worker.end()


def _run(queue: Queue, jobs: int) -> float:
    """Queue all jobs at once, which takes a hundredth of their run time, and wait for their end."""
    with queue.connection.pipeline() as pipe:
        for _ in range(jobs):
            queue.enqueue_call("benchmarks.chaos.nothing.nothing", result_ttl=0, pipeline=pipe)
        pipe.execute()
    began = time.monotonic()
    key = queue.key
    wip = queue.started_job_registry.key
    await_true(lambda: not queue.connection.exists(key) and not queue.connection.zcard(wip), _SECONDS)
    return jobs / (time.monotonic() - began)
