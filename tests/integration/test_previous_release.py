"""What the release before the two distributions had queued is done by this one's workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis

from backend.store.server.embedded import embedded_server
from calibrant.client import Calibrant
from tests.integration.conftest import own_service
from tests.integration.stored import load_store

pytestmark = pytest.mark.slow


def test_jobs_and_chores_that_the_previous_release_queued_are_done(folder: Path) -> None:
    directory = folder / "previous"
    with (
        (folder / "previous.log").open("ab") as log,
        embedded_server(directory, log=log) as (url, _),
        Redis.from_url(url) as redis,
    ):
        stored = load_store(redis, "queue-8039883.json")
    with own_service(directory) as running, Calibrant(running.url) as client:
        jobs = {kind: client.wait(job, timeout=600) for kind, job in stored["jobs"].items()}
        assert {job.status for job in jobs.values()} == {"succeeded"}
        calibrated = stored["calibrated"]  # by a fit that ended a little above the optimum
        assert client.calibrate("late", calibrated["predictions"]) == pytest.approx(calibrated["result"], abs=1e-4)
        answer = jobs["evaluate"].result
        assert answer is not None
        for name, measure in stored["report"]["report"]["measures"].items():
            now = answer["report"]["measures"][name]["value"]
            # Measures by fits follow those, which end closer to their optimum than in that release.
            assert now == pytest.approx(measure["value"], abs=0.005 if name.startswith("ece-p") else 1e-9)
