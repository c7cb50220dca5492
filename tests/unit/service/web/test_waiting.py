from __future__ import annotations

import pytest

from schemas.jobs import JobRecord
from service.web.jobs import JobView
from service.web.text import shortened

QUEUED = JobRecord(id="job_1", kind="fit", status="queued", created_at="2026-01-01T00:00:00Z", ttl=60, spec={})


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (None, "Waiting for a worker"),
        (0, "Waiting for a worker: next of your jobs"),
        (1, "Waiting for a worker: 1 of your jobs is ahead"),
        (1200, "Waiting for a worker: 1,200 of your jobs are ahead"),
    ],
)
def test_a_job_that_waits_says_how_many_are_before_it(before: int | None, words: str) -> None:
    assert JobView(QUEUED, before=before).summary == words


def test_a_long_title_is_cut_between_words() -> None:
    title = "PL, PL3 and simpler maps weighed by out-of-fold losses"
    assert shortened(title, 40) == "PL, PL3 and simpler maps weighed by\u2026"
    assert shortened(title, 100) == title
    assert len(shortened("x" * 50 + " y", 20)) <= 21
