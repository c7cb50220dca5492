"""One RQ worker process: torch preloaded and unused before the fork, one task a fork."""

from __future__ import annotations

import logging
import os

from rq import Worker
from rq.serializers import JSONSerializer

from storage.connection import check_durability, connect, safe_url
from storage.jobs import FITS, TaskJob, fits_queue
from storage.processes import die_with_parent
from telemetry.tracing import check_telemetry
from workers.observe import OTLP_VARIABLE
from workers.tasks import DEVICE_VARIABLE

log = logging.getLogger(__name__)


class FitWorker(Worker):
    """An RQ worker whose forked task dies with it, instead of running on as an orphan."""

    def setup_work_horse_signals(self) -> None:
        """Set up the fork's signals."""
        super().setup_work_horse_signals()  # type: ignore[no-untyped-call]
        die_with_parent()


def run(
    redis_url: str,
    *,
    queues: tuple[str, ...] = (FITS,),
    device: str = "cpu",
    otlp_endpoint: str | None = None,
    burst: bool = False,
) -> None:
    """Work on the queues until told to stop; SIGTERM lets the task under way finish.

    Raises ``MissingTelemetry`` where traces are asked for without the extra ``telemetry``.
    """
    os.environ[DEVICE_VARIABLE] = device
    if otlp_endpoint is not None:
        os.environ[OTLP_VARIABLE] = otlp_endpoint
    preload()
    traced = check_telemetry(otlp_endpoint, os.environ)
    # A blocking pop must outlive the socket's time limit, so RQ sets its own.
    redis = connect(redis_url, traced=traced)
    check_durability(redis)
    log.info("worker: store %s, queues %s, device %s", safe_url(redis_url), ",".join(queues), device)
    worker = FitWorker(
        [fits_queue(redis, name) for name in queues],
        connection=redis,
        job_class=TaskJob,
        serializer=JSONSerializer,
    )
    worker.work(logging_level=logging.getLevelName(logging.getLogger().level), burst=burst)


def preload() -> None:
    """Import what every task needs, so that its fork has it; run nothing of torch.

    A thread pool that torch started before a fork would hang the child.
    """
    import calibrant.averaging.fitting  # noqa: F401
