"""The evidence over time of a monitor's page."""

from __future__ import annotations

import numpy as np
import pytest

from backend.monitors.timeline import evidence_path, frequency_interval
from backend.monitors.windows import Gathered, Span
from calibrant.monitoring.evidence import evidence, log_factors
from calibrant.monitoring.tally import Tally, merged, tally_of
from schemas.base import HOUR
from schemas.monitors import MonitorBody, MonitorRecord

START = 1_000


def record(start: int = START) -> MonitorRecord:
    body = MonitorBody(name="m", bucket=HOUR)
    own = {"id": "monitor_0", "created_at": "2026-01-01T00:00:00Z", "started_at": float(start * HOUR)}
    return MonitorRecord(**body.model_dump(), **own)


def buckets(n: int, shift: float = 0.2) -> list[Tally]:
    random = np.random.default_rng(3)
    p = random.uniform(0.1, 0.7, (n, 50))
    return [tally_of(mean, (random.random(50) < mean + shift).astype(np.int8)) for mean in p]


def spans_of(tallies: list[Tally], width: int = 1, first: int = START) -> list[tuple[Span, Gathered]]:
    return [
        (Span(first + i, first + i + width - 1, HOUR), Gathered(merged(tallies[i : i + width]), None))
        for i in range(0, len(tallies), width)
    ]


def test_the_path_over_single_buckets_is_the_evidence_after_each_of_them() -> None:
    tallies = buckets(12)
    factors = np.stack([log_factors(tally) for tally in tallies])
    exact = [evidence(factors[: i + 1]).log_e for i in range(len(tallies))]
    assert evidence_path(record(), spans_of(tallies)) == pytest.approx(exact, rel=1e-9)


def test_empty_buckets_between_spans_keep_the_weights_of_starts() -> None:
    tallies = buckets(3)
    spans = [spans_of([tally], first=START + bucket)[0] for tally, bucket in zip(tallies, (0, 4, 9), strict=True)]
    factors = np.zeros((10, len(log_factors(tallies[0]))))
    for tally, bucket in zip(tallies, (0, 4, 9), strict=True):
        factors[bucket] = log_factors(tally)
    assert evidence_path(record(), spans)[-1] == pytest.approx(evidence(factors).log_e, rel=1e-9)


def test_wider_spans_have_about_the_same_evidence() -> None:
    tallies = buckets(60)
    exact = evidence_path(record(), spans_of(tallies))[-1]
    wide = evidence_path(record(), spans_of(tallies, 6))[-1]
    assert exact is not None
    assert wide is not None
    assert exact > 10
    assert wide == pytest.approx(exact, rel=0.1)


def test_spans_before_the_start_of_the_evidence_have_none() -> None:
    path = evidence_path(record(START + 3), spans_of(buckets(6)))
    assert [point is None for point in path] == [True, True, True, False, False, False]
    assert evidence_path(record(), []) == []


def test_an_interval_of_a_frequency_needs_rows() -> None:
    assert frequency_interval(None, 0) is None
    assert frequency_interval(0.5, 0) is None
    low, high = frequency_interval(0.5, 100) or (0.0, 1.0)
    assert (low, high) == pytest.approx((0.4038, 0.5962), abs=1e-4)
