"""Work in a request whose estimate is far too short becomes a job; estimates count measures, events and groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from redis import Redis

from backend import jobs
from calibrant.core.batch import read_batch
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import MAX_MEASURES, read_requests
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import Extent
from service.settings import Settings
from tests.integration.conftest import serving_client

RANDOM = np.random.default_rng(0)
P = RANDOM.dirichlet(np.ones(4), 200)
VECTORS = {"predictions": P.tolist(), "labels": [*range(4), *RANDOM.integers(0, 4, 196).tolist()]}
FORECASTS = {
    "prediction_kind": "regression",
    "observed": RANDOM.normal(size=200).tolist(),
    "mean": [0.0] * 200,
    "std": [1.0] * 200,
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("/maps", VECTORS | {"method": "iop-oi"}),
    ("/maps", VECTORS | {"method": "dirichlet-odir"}),
    ("/evaluate", VECTORS | {"reduction": "classwise"}),
    ("/evaluate", FORECASTS),
]


def test_work_that_takes_much_longer_than_its_estimate_is_queued(
    redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_client(Settings(redis_url)) as http:
        direct = [http.post(path, json=body).status_code for path, body in CALLS]
        assert direct == [201, 201, 200, 200]
        monkeypatch.setattr(jobs, "OVERDUE_SECONDS", -1.0)
        queued = [http.post(path, json=body) for path, body in CALLS]
    assert [answer.status_code for answer in queued] == [202] * len(CALLS), [answer.text for answer in queued]
    assert {answer.json()["status"] for answer in queued} == {"queued"}


def test_estimates_count_measures_and_groups() -> None:
    p = RANDOM.random(1000)
    batch = read_batch(p, (RANDOM.random(1000) < p).astype(int))
    names = [{"name": "brier", "as": f"m{i}"} for i in range(MAX_MEASURES)]
    evaluation = Evaluation(read_requests(names))
    assert evaluation.seconds(evaluation.check(batch)) < jobs.INLINE_SECONDS
    assert evaluation.seconds(evaluation.check(batch, [f"g{i}" for i in range(1000)])) > jobs.INLINE_SECONDS


@pytest.mark.parametrize("name", ["mmce", "skce", "kde-ece", "ece-platt", "recalibration-improvement"])
def test_measures_of_few_rows_have_a_short_estimate(name: str) -> None:
    (request,) = read_requests([name])
    few, many = (request.seconds(Extent(n), PLAIN) for n in (10, 100_000))
    assert few < 0.05
    assert few < many
