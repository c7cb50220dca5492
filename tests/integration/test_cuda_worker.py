"""A worker with a GPU: long fits run on it, and agree with those of a processor. Skipped without CUDA."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import calibrant
from backend.store.jobs.leases import read_supervisors
from backend.store.server.connection import connect
from backend.store.store import Store
from calibrant.client import Calibrant
from service.stack import stack
from tests.integration.redis_server import until
from tests.store_folder import store_folder

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")

_RANDOM = np.random.default_rng(0)
Z = 2.0 * _RANDOM.standard_normal((5_000, 30))
LABELS = (0.6 * Z + _RANDOM.gumbel(size=Z.shape)).argmax(axis=1)
P = _RANDOM.random(4_000)
Y = (_RANDOM.random(4_000) < P**1.3).astype(int)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Store]]:
    with store_folder() as folder, (folder / "log").open("ab") as log:
        directory, settings = folder / "data", {**os.environ, "CALIBRANT_GPU_SECONDS": "0.01"}
        with stack(host="127.0.0.1", port=0, data=directory, log=log, device="auto", inherited=settings) as running:
            redis = connect((directory / "redis.url").read_text())
            until(lambda: any(worker.device == "cuda" for worker in read_supervisors(redis)))
            yield running.url, Store.of(redis)


def test_a_long_fit_of_vectors_runs_on_the_gpu(served: tuple[str, Store]) -> None:
    url, store = served
    expected = calibrant.fit("averaged", Z, LABELS, scale="logit").apply(Z)
    with Calibrant(url) as client:
        record = client.fit("averaged", predictions=Z, labels=LABELS, scale="logit", timeout=600)
        np.testing.assert_allclose(client.calibrate(record.id, Z, scale="logit"), expected, atol=1e-5)
        assert {store.jobs.get(job.id).queue for job in client.jobs()} == {"fits-gpu"}


def test_a_long_fit_of_an_event_runs_on_the_gpu(served: tuple[str, Store]) -> None:
    url, store = served
    with Calibrant(url) as client:
        record = client.fit("pl", predictions=P, labels=Y, timeout=600)
        np.testing.assert_allclose(client.calibrate(record.id, P), calibrant.fit("pl", P, Y).apply(P), atol=1e-6)
        assert {store.jobs.get(job.id).queue for job in client.jobs()} == {"fits-gpu"}
