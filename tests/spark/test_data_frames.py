"""Data frames of Spark Connect: two executor processes, some of which are killed, give the counts of one process."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("pyspark", reason="of make spark")

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession

import calibrant
from calibrant.core.errors import EmptyBatch, InvalidOption, OutOfRange
from calibrant.distributed import spark
from calibrant.monitoring.event_tally import EventTally
from tests.rows import draw_event
from tests.spark.connect_server import connect_server
from tests.tallies import assert_same_tally

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

N, FILES = 60_000, 4
COLUMNS: dict[str, Any] = {"prediction": "p", "label": "y", "group": "country"}
Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with connect_server(tmp_path_factory.mktemp("server"), 2) as address:
        session = SparkSession.builder.remote(address).getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rows with a third group that is null, and a column that is not read."""
    folder, (p, y) = tmp_path_factory.mktemp("rows"), draw_event(N, 11, 1.3)
    countries = np.array(["no", "se", None], dtype=object)[np.arange(N) % 3]
    for i in range(FILES):
        part = slice(i * N // FILES, (i + 1) * N // FILES)
        table = {"p": p[part], "y": y[part], "country": pa.array(countries[part]), "unread": ["x"] * (N // FILES)}
        parquet.write_table(pa.table(table), folder / f"part-{i}.parquet")
    return folder


@pytest.fixture(scope="module")
def whole() -> EventTally:
    p, y = draw_event(N, 11, 1.3)
    return calibrant.tally(p, y, groups=np.array(["no", "se", None], dtype=object)[np.arange(N) % 3].tolist())


def test_rows_on_executors_are_counted_otherwise_than_in_one_process(
    session: Any, folder: Path, whole: EventTally
) -> None:
    rows = session.read.parquet(str(folder))
    assert_same_tally(spark.tally(rows, **COLUMNS), whole)
    assert_same_tally(spark.tally(rows.repartition(7), **COLUMNS), whole)
    report = spark.evaluate(rows, **COLUMNS, measures=["ece", "brier"], interval=0.9)
    expected = calibrant.evaluate_tally(whole, measures=["ece", "brier"], interval=0.9)
    for key, estimate in expected.measures.items():
        assert report.measures[key].value == pytest.approx(estimate.value, rel=1e-12, abs=1e-15)
        assert report.measures[key].interval == pytest.approx(estimate.interval, rel=1e-12, abs=1e-15)
    fitted, local = spark.fit(rows, "beta", prediction="p", label="y"), calibrant.fit_tally(whole, "beta")
    assert_allclose(fitted.apply([0.2, 0.8]), local.apply([0.2, 0.8]), rtol=1e-9)


def _killing(folder: Path, times: int) -> Batches:
    """Return a function that kills its executor after the first batch of a partition, so often in the whole cluster.

    It passes the rows on unchanged. ``folder`` has a file for each kill.
    """

    def passed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal
        from pathlib import Path

        for batch in batches:
            yield batch
            for i in range(times):
                try:
                    (Path(folder) / f"kill-{i}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text()  # of Python, whose parent is the executor
                os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

    return passed


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the executors in /proc")
def test_rows_on_killed_executors_are_lost_or_counted_twice(
    session: Any, folder: Path, whole: EventTally, tmp_path: Path
) -> None:
    rows = session.read.parquet(str(folder))
    # The partitions of the shuffle that the killed executors hold are lost with them, and are made again.
    killed = rows.repartition(6).mapInArrow(_killing(tmp_path, 2), rows.schema)
    assert_same_tally(spark.tally(killed, **COLUMNS), whole)
    assert sorted(os.listdir(tmp_path)) == ["kill-0", "kill-1"]


def test_an_invalid_row_of_a_partition_is_reported_without_its_place_or_with_its_value(
    session: Any, tmp_path: Path
) -> None:
    table = pa.table({"p": [0.5, 7.25], "y": [0, 1], "a.b`c": ["x", "y"]})
    parquet.write_table(table, tmp_path / "bad.parquet")
    rows = session.read.parquet(str(tmp_path))
    with pytest.raises(OutOfRange, match="partition 0, row 1: predictions") as caught:
        spark.tally(rows, prediction="p", label="y")
    assert "7.25" not in str(caught.value)
    assert spark.tally(rows.filter("p < 1"), prediction="p", label="y", group="a.b`c").groups == ("x",)
    with pytest.raises(EmptyBatch):
        spark.tally(rows.filter("p < 0"), prediction="p", label="y")
    with pytest.raises(InvalidOption, match="label names a column"):
        spark.tally(rows, prediction="p", label="absent")


def test_the_examples_of_the_page_do_not_run(
    session: Any, folder: Path, whole: EventTally, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "large-data.md").read_text("utf-8")
    (block,) = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    there: dict[str, Any] = {"session": session}
    exec(compile(block.replace('"rows"', f'"{folder}"'), "large-data.md", "exec"), there)
    assert_same_tally(there["everything"], whole)
