"""Backfills that are repeated from any place, as after a kill between two writes: nothing is counted again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from redis import Redis

from backend.monitors.backfills import Backfill, FileRows
from backend.store.errors import MonitorFull
from backend.store.store import Store
from calibrant.core.errors import SourceChanged
from calibrant.core.progress import reporting
from calibrant.distributed.scan import Scan
from calibrant.distributed.storage import storage_of
from schemas.backfills import BackfillAnswer, MonitorColumns
from tests.integration.monitors.monitored import counted, monitored

N = 12_000
WITH_IDS = MonitorColumns(ids="id", predictions="p", labels="y", groups="g")
WITHOUT = MonitorColumns(predictions="p", labels="y")


class Killed(Exception):
    """What ends a run."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two files with an id that occurs twice, a contradiction, and rows that are refused."""
    ids = np.arange(N)
    ids[7_000] = 3
    ids[9_000] = 4
    y = (ids % 3 == 0).astype(float)
    y[9_000] = 1.0 - y[4]
    p = np.where(np.arange(N) % 1000 == 17, 2.0, (ids % 997) / 997)
    table = pa.table({"id": ids, "p": p, "y": y, "g": [f"g{i % 3}" for i in range(N)]})
    for i in range(2):
        parquet.write_table(table.slice(i * N // 2, N // 2), tmp_path / f"{i}.parquet", row_group_size=1100)
    return tmp_path


def _backfill(redis: Redis, name: str, root: Path, columns: MonitorColumns, job: str) -> BackfillAnswer:
    store = Store.of(redis, "default")
    record = store.monitors.get(name)
    rows = FileRows(record, columns)
    scan = Scan.of(storage_of(f"file://{root}"), "*.parquet", numbers=rows.numbers)
    return Backfill(store, record, rows, scan, job).run(name)


def _numbers(answer: BackfillAnswer) -> dict[str, Any]:
    """The numbers of an answer, and the refused rows; a contradicted one is only listed by the run that counts it."""
    listed = [row for row in answer.refusals if row.code != "contradicted"]
    return answer.model_dump(exclude={"monitor", "bytes", "refusals"}) | {"refusals": listed}


@pytest.mark.parametrize("columns", [WITH_IDS, WITHOUT])
def test_a_run_that_is_killed_anywhere_counts_rows_again_or_not_at_all(
    redis: Redis, root: Path, columns: MonitorColumns
) -> None:
    store = Store.of(redis, "default")
    whole, interrupted = (monitored(store, name, max_groups=2) for name in ("whole", "interrupted"))
    expected = _backfill(redis, "whole", root, columns, "job_1")
    assert expected.rows == N
    if columns.ids is None:
        assert _numbers(expected)["accepted"] == N - 12
    else:
        assert (expected.refused, expected.duplicates, expected.contradicted) == (12, 1, 1)
        assert expected.other_group == sum(i % 1000 != 17 for i in range(2, N, 3))
    key = store.keys.backfill("job_2")
    for at in range(1, 5):  # reports of a run: one for each block, and one for each file

        def end(_done: int, _total: int, _stage: str, left: list[int] = [at]) -> None:  # noqa: B006 - one for each run
            left[0] -= 1
            if not left[0]:
                raise Killed

        with pytest.raises(Killed), reporting(end):
            _backfill(redis, "interrupted", root, columns, "job_2")
        redis.hdel(key, "next-block", "rows-refused")  # as if it had ended before it noted its place
    answer = _backfill(redis, "interrupted", root, columns, "job_2")
    assert _numbers(answer) == _numbers(expected)
    assert interrupted.totals() == whole.totals()
    assert counted(interrupted) == counted(whole)
    assert _numbers(_backfill(redis, "interrupted", root, columns, "job_2")) == _numbers(expected)
    assert interrupted.totals() == whole.totals()


def test_a_run_continues_with_other_files_than_those_that_it_began_with(redis: Redis, root: Path) -> None:
    ledger = monitored(Store.of(redis, "default"), "m")
    first = _backfill(redis, "m", root, WITH_IDS, "job_1")
    parquet.write_table(pa.table({"id": [-1], "p": [0.5], "y": [1.0], "g": ["a"]}), root / "2.parquet")
    with pytest.raises(SourceChanged):
        _backfill(redis, "m", root, WITH_IDS, "job_1")
    assert counted(ledger) == first.joined


def test_a_run_does_not_begin_after_the_block_that_was_counted_last(redis: Redis, root: Path) -> None:
    monitored(Store.of(redis, "default"), "m")
    stages: list[str] = []

    def end(_done: int, _total: int, stage: str) -> None:
        stages.append(stage)
        if len(stages) == 4:  # two blocks of the first file, its end, and a block of the second
            raise Killed

    with pytest.raises(Killed), reporting(end):
        _backfill(redis, "m", root, WITH_IDS, "job_1")
    stages.clear()
    with reporting(lambda _done, _total, stage: stages.append(stage)):
        _backfill(redis, "m", root, WITH_IDS, "job_1")
    assert [stage.partition(",0")[0] for stage in stages] == ["11", "12", "12"]


def test_another_job_counts_rows_with_ids_again(redis: Redis, root: Path) -> None:
    store = Store.of(redis, "default")
    ledger = monitored(store, "m")
    first = _backfill(redis, "m", root, WITH_IDS, "job_1")
    again = _backfill(redis, "m", root, WITH_IDS, "job_2")
    assert (again.accepted, again.duplicates, again.contradicted) == (0, first.accepted + 1, 1)
    assert counted(ledger) == first.joined
    second = _backfill(redis, "m", root, WITHOUT, "job_3")
    assert counted(ledger) == first.joined + second.joined


def test_a_full_monitor_loses_what_it_has_counted_or_counts_more(redis: Redis, root: Path) -> None:
    ledger = monitored(Store.of(redis, "default"), "m", max_ids=6000)
    with pytest.raises(MonitorFull):
        _backfill(redis, "m", root, WITH_IDS, "job_1")
    assert counted(ledger) == 5994  # the first block, and the rest of the first file
    with pytest.raises(MonitorFull):
        _backfill(redis, "m", root, WITH_IDS, "job_1")
    assert counted(ledger) == 5994
