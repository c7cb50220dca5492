"""Tests and intervals with importance weights that depend on outcomes, or of which a few are large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.core.cells import Floats, chance_variances
from calibrant.core.reductions import Classes, Event, Subject, Vector
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling, influence_draws

SAMPLES, ROWS, KEPT = 60, 800, 0.25
EVENT_TESTS: list[Any] = [
    "ks",
    "kuiper",
    "ks-end",
    "mmce",
    "skce",
    "smooth-test",
    "confidence-gap",
    {"name": "ks", "law": "resampling", "as": "drawn ks"},
]


def sampled_by_outcome(random: np.random.Generator, *, common: bool) -> Event:
    """Calibrated rows, of which a quarter of those with outcome 0 are kept; outcome 1 is rare, or else outcome 0."""
    rare = random.uniform(0.02, 0.18, 5 * ROWS)
    p = 1.0 - rare if common else rare
    y = (random.random(len(p)) < p).astype(np.int8)
    rows = np.flatnonzero(random.random(len(p)) < np.where(y == 1, 1.0, KEPT))[:ROWS]
    return Event(p[rows], y[rows], np.where(y[rows] == 1, KEPT, 1.0), "importance")


def sampled_by_class(random: np.random.Generator) -> Vector:
    """Calibrated vectors, of which a quarter of those with the frequent class are kept."""
    p = random.dirichlet([8.0, 1.0, 1.0], 4 * ROWS)
    labels = (random.random(len(p))[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    rates = np.array([KEPT, 1.0, 1.0])[labels]
    rows = np.flatnonzero(random.random(len(p)) < rates)[: ROWS // 2]
    return Vector(p[rows], labels[rows], KEPT / rates[rows], "importance")


def p_values(request: Any, subjects: list[Subject]) -> Floats:
    request_of = read_requests([request])[0]
    answers = [request_of.compute(subject, Resampling(None, 100, i)).p_value for i, subject in enumerate(subjects)]
    return np.array([np.nan if p is None else p for p in answers])


def is_uniform(p: Floats) -> bool:
    """Whether the mean is within 2.6 standard errors of 1/2, and about 5 % are at most 0.05."""
    return bool(abs(p.mean() - 0.5) < 2.6 / np.sqrt(12.0 * len(p)) and (p <= 0.05).mean() <= 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("request_", EVENT_TESTS, ids=lambda r: r if isinstance(r, str) else r["as"])
@pytest.mark.parametrize("common", [False, True])
def test_p_values_are_uniform_if_weights_undo_a_sampling_by_outcome(request_: Any, common: bool) -> None:
    subjects: list[Subject] = [
        sampled_by_outcome(np.random.default_rng([common, i]), common=common) for i in range(SAMPLES)
    ]
    assert is_uniform(p_values(request_, subjects))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["skce", "confidence-gap", "ks-by-predicted-class"])
def test_p_values_of_vectors_are_uniform_if_weights_undo_a_sampling_by_class(name: str) -> None:
    vectors: list[Subject] = [sampled_by_class(np.random.default_rng([2, i])) for i in range(SAMPLES)]
    assert is_uniform(p_values(name, vectors))


@pytest.mark.slow
@pytest.mark.parametrize("law", ["asymptotic", "resampling"])
def test_classwise_p_values_are_valid_if_weights_undo_a_sampling_by_class(law: str) -> None:
    classes: list[Subject] = [Classes(sampled_by_class(np.random.default_rng([3, i]))) for i in range(SAMPLES)]
    p = p_values({"name": "ks", "law": law}, classes)
    assert (p <= 0.05).mean() <= 0.15
    assert np.median(p) < 0.9  # Bonferroni's are large, but a variance that is too large gives 1


def test_the_p_value_of_a_pooled_gap_is_uniform_if_weights_undo_a_sampling_by_class() -> None:
    events: list[Subject] = []
    for i in range(SAMPLES):
        vector = sampled_by_class(np.random.default_rng([4, i]))
        y = (vector.labels[:, None] == np.arange(3)).astype(np.int8).ravel()
        assert vector.w is not None
        events.append(Event(vector.p.ravel(), y, np.repeat(vector.w, 3), "importance", per_row=3))
    assert is_uniform(p_values("confidence-gap", events))


@pytest.mark.parametrize("name", ["ks", "ks-end", "smooth-test", "skce", "confidence-gap"])
def test_a_sample_with_few_events_by_chance_is_not_rejected(name: str) -> None:
    subjects: list[Subject] = []
    for i in range(SAMPLES):
        random = np.random.default_rng([5, i])
        p = random.beta(1.0, 199.0, ROWS)  # two events are expected, and often there is none
        y = (random.random(ROWS) < p).astype(np.int8)
        subjects.append(Event(p, y, np.exp(random.normal(size=ROWS)), "importance"))
    assert (p_values(name, subjects) <= 0.05).mean() <= 0.15


def test_the_variance_under_calibration_follows_weights_of_outcomes() -> None:
    random = np.random.default_rng(6)
    p = random.uniform(0.02, 0.3, 400_000)
    y = random.random(len(p)) < p
    rows = random.random(len(p)) < np.where(y, 1.0, KEPT)
    p, y = p[rows], y[rows]
    w = np.where(y, KEPT, 1.0)
    likely = p * (1.0 - p)
    variance = chance_variances(p, w, w * w, w * w * y, "importance").sum()
    assert variance == pytest.approx(KEPT * likely.sum(), rel=0.02)
    assert chance_variances(p, w, w * w, w * w * y, "frequency").tolist() == (w * likely).tolist()
    assert (w * w) @ likely > 2.0 * variance  # the variance of labels drawn from p with fixed weights


def test_a_few_large_weights_make_the_draws_of_a_mean_students() -> None:
    random = np.random.default_rng(7)
    p = random.random(500)
    y = (random.random(500) < p).astype(np.int8)
    off = y - p

    def drawn(w: Floats | None) -> tuple[Floats, float]:
        event = Event(p, y, w, "frequency" if w is None else "importance")
        influence = off - np.average(off, weights=w)
        share = np.full(500, 1.0 / 500.0) if w is None else w / w.sum()
        rows = 1.0 / float(share @ share)
        error = float(np.linalg.norm(share * influence)) * np.sqrt(rows / (rows - 1.0))
        return influence_draws(influence, event, Resampling(0.95, 20_000, 0)), error

    w = np.exp(1.2 * random.normal(size=500))
    degrees = 1.0 / ((w**4).sum() / (w**2).sum() ** 2 - 1.0 / 500.0)
    draws, error = drawn(w)
    assert 8.0 < degrees < 30.0
    assert np.std(draws) / error == pytest.approx(np.sqrt(degrees / (degrees - 2.0)), rel=0.02)
    even, plain = drawn(np.full(500, 3.0)), drawn(None)
    assert np.allclose(even[0], plain[0], rtol=1e-9)
    assert np.std(plain[0]) / plain[1] == pytest.approx(1.0, rel=0.02)
