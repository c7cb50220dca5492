"""Simulated batches are counted in portions that a later run of the same code reuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import records
from benchmarks.portions import BATCHES, Goal, SimulationJob, counts, fewer


@pytest.fixture(autouse=True)
def _empty_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(records, "KEPT", tmp_path / "kept")
    yield
    records._used.clear()


def _job(key: str, runs: int, computed: list[range]) -> SimulationJob:
    def count(batches: range) -> Counter[str]:
        computed.append(batches)
        return Counter({"even": sum(run % 2 == 0 for run in batches)})

    return SimulationJob(key, runs, count)


def test_a_second_run_computes_nothing_again() -> None:
    computed: list[range] = []
    first = counts([_job("a", 120, computed)], __file__)
    assert first == {"a": Counter({"even": 60, BATCHES: 120})}
    assert [list(batches) for batches in computed] == [[*range(50)], [*range(50, 100)], [*range(100, 120)]]
    assert counts([_job("a", 120, computed)], __file__) == first
    assert len(computed) == 3
    assert counts([_job("a", 130, computed)], __file__)["a"][BATCHES] == 130
    assert computed[3:] == [range(100, 130)]


def test_the_job_with_the_smallest_share_of_its_batches_is_next() -> None:
    computed: list[range] = []
    counts([_job("few", 100, computed), _job("many", 200, computed)], __file__)
    assert [batches.start for batches in computed] == [0, 0, 50, 50, 100, 150]


def test_nothing_is_computed_without_time_and_the_page_says_so() -> None:
    totals = counts([_job("a", 100, [])], __file__, seconds=0.0)
    assert totals["a"][BATCHES] == 0
    assert fewer(totals, 100) == ["Fewer batches so far: a: 0.", ""]


def test_all_batches_at_once_have_the_counts_of_the_portions() -> None:
    assert _job("a", 120, []).whole() == counts([_job("a", 120, [])], __file__)["a"]


@pytest.mark.parametrize(
    ("share", "runs", "text"),
    [(0.95, 2_000, "0.950"), (0.9, 2_000, "**0.900**"), (0.915, 2_000, "0.915"), (1.0, 2_000, "**1.000**")],
)
def test_a_share_is_bold_if_it_misses_the_goal_by_more_than_two_standard_errors(
    share: float, runs: int, text: str
) -> None:
    assert Goal(0.92, 0.97).text(share, runs) == text
