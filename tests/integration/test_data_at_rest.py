"""Data at rest: a cluster of two worker processes and DuckDB give the answers of one process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.bag
import dask.dataframe
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask.distributed import Client, LocalCluster

import calibrant
from calibrant import distributed
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidDocument,
    InvalidLabel,
    InvalidOption,
    NotANumber,
    NotFinite,
    OutOfRange,
)
from calibrant.distributed.arrow import Columns
from calibrant.distributed.parquet import count_piece, pieces_of
from calibrant.monitoring.event_tally import EventTally
from tests.commands import printed_by
from tests.tallies import assert_same_tally

N, FILES = 240_000, 6
COLUMNS: dict[str, Any] = {"prediction": "p", "label": "y", "group": "country", "fold": "fold"}
MEASURES = ["ece", {"name": "ece", "binning": "equal-width", "as": "width"}, "ks", "log-loss", "brier", "smooth-ece"]
ASKED: dict[str, Any] = {"measures": MEASURES, "interval": 0.9, "resamples": 100, "diagrams": ["reliability"]}
ENGINES = [distributed.dask, distributed.duckdb]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """Two processes, as Dask's current client."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Rows of which a third share a hundred scores: their ties must survive any partition."""
    random = np.random.default_rng(0)
    c = random.random(N)
    p = np.where(random.random(N) < 1 / 3, np.round(c**1.3, 2), c**1.3)
    return pa.table(
        {
            "p": p,
            "y": (random.random(N) < c).astype(np.int8),
            "country": pa.array(np.array(["no", "se", None], dtype=object)[random.integers(0, 3, N)]),
            "fold": random.integers(0, 5, N),
            "z": pa.FixedSizeListArray.from_arrays(random.normal(size=3 * N), 3),
            "unread": ["x"] * N,
        }
    )


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in files of several row groups, beside what is not to be read."""
    directory = tmp_path_factory.mktemp("rows")
    for i in range(FILES):
        part = table.slice(i * N // FILES, N // FILES)
        (directory / f"day={i}").mkdir()
        pq.write_table(part, directory / f"day={i}" / "part.parquet", row_group_size=15_000)
    pq.write_table(table.slice(0, 0), directory / "day=5" / "empty.parquet")
    (directory / "_SUCCESS").write_text("")
    (directory / "notes.txt").write_text("")
    return directory


@pytest.fixture(scope="module")
def whole(table: pa.Table) -> EventTally:
    """What one process counts of all rows at once."""
    p, y, fold = (table[name].to_numpy() for name in ("p", "y", "fold"))
    return calibrant.tally(p, y, groups=table["country"].to_pylist(), folds=fold)


@pytest.fixture(scope="module")
def wanted(whole: EventTally) -> calibrant.Report:
    """What one process answers."""
    return calibrant.evaluate_tally(whole, **ASKED)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_answers_are_those_of_one_process(engine: Any, cluster: Client, folder: Path, wanted: calibrant.Report) -> None:
    report = engine.evaluate(folder, **COLUMNS, **ASKED)
    assert report.n == wanted.n == N
    for key, estimate in wanted.measures.items():
        assert report.measures[key].value == pytest.approx(estimate.value, rel=0, abs=1e-12), key
        assert report.measures[key].interval == pytest.approx(estimate.interval, rel=0, abs=1e-12), key
    assert report.groups is not None
    assert wanted.groups is not None
    for name, group in wanted.groups.items():
        assert report.groups[name].n == group.n
        for key, estimate in group.measures.items():
            assert report.groups[name].measures[key].value == pytest.approx(estimate.value, rel=0, abs=1e-12)
    assert report.diagrams["reliability"]["data"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", ["isotonic", "beta", "spline"])
def test_maps_are_those_of_one_process(
    engine: Any, method: str, cluster: Client, folder: Path, whole: EventTally
) -> None:
    grid = np.linspace(0.0, 1.0, 101)
    fitted = engine.fit(folder, method, **COLUMNS)
    np.testing.assert_allclose(fitted.apply(grid), calibrant.fit_tally(whole, method).apply(grid), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_way_of_naming_files_reads_the_same_rows(
    engine: Any, cluster: Client, folder: Path, whole: EventTally
) -> None:
    files = sorted(folder.glob("day=*/part.parquet"))
    for source in (str(folder), str(folder / "*" / "*.parquet"), str(folder / "day=[0-9]" / "part.parquet"), files):
        assert_same_tally(engine.tally(source, **COLUMNS), whole)


@pytest.mark.parametrize("engine", ENGINES)
def test_folders_name_groups(engine: Any, cluster: Client, folder: Path) -> None:
    counted = engine.tally(folder, prediction="p", label="y", group="day")
    assert counted.groups == tuple("012345")
    assert len(counted.of_group("3")) == N // FILES


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_vectors_are_reduced_where_they_lie(engine: Any, cluster: Client, folder: Path, table: pa.Table) -> None:
    logits = table["z"].combine_chunks().flatten().to_numpy().reshape(-1, 3)
    labels = table["y"].to_numpy()
    counted = engine.tally(folder, prediction="z", label="y", scale="logit", reduction="class:2")
    assert_same_tally(counted, calibrant.tally(logits, labels, scale="logit", reduction="class:2"))


def test_large_files_are_divided_by_their_row_groups(folder: Path, whole: EventTally) -> None:
    pieces = pieces_of(folder, piece_bytes=300_000)
    assert len(pieces) > FILES + 1
    assert {piece.first_row for piece in pieces} > {0, 15_000}
    counted = [count_piece(piece, Columns.read(**COLUMNS)) for piece in pieces]
    assert_same_tally(calibrant.merge(part for part in counted if part is not None), whole)


def test_an_invalid_row_of_a_late_row_group_is_reported_by_its_number_in_the_file(
    table: pa.Table, tmp_path: Path
) -> None:
    part = table.select(["p", "y"]).slice(0, 20_000)
    labels = part["y"].to_pylist()
    labels[17_000] = None
    pq.write_table(part.set_column(1, "y", pa.array(labels, pa.int8())), tmp_path / "a.parquet", row_group_size=4000)
    asked = Columns.read(prediction="p", label="y")
    *others, last = pieces_of(tmp_path, piece_bytes=1)
    assert [len(rows) for piece in others if (rows := count_piece(piece, asked))] == [4000] * 4
    with pytest.raises(NotFinite, match=r"a\.parquet, row 17000: labels must be a finite number"):
        count_piece(last, asked)


@pytest.mark.slow
def test_collections_of_dask_are_counted(cluster: Client, folder: Path, table: pa.Table) -> None:
    some = table.slice(0, 30_000)
    wanted = calibrant.tally(some["p"].to_numpy(), some["y"].to_numpy(), groups=some["country"].to_pylist())
    asked: dict[str, Any] = {"prediction": "p", "label": "y", "group": "country"}
    frame = some.select(["p", "y", "country"]).to_pandas()
    assert_same_tally(distributed.dask.tally(dask.dataframe.from_pandas(frame, npartitions=3), **asked), wanted)
    records = some.select(["p", "y", "country", "unread"]).to_pylist()
    assert_same_tally(distributed.dask.tally(dask.bag.from_sequence(records, npartitions=3), **asked), wanted)
    with pytest.raises(InvalidOption, match="label names a column"):
        distributed.dask.tally(dask.dataframe.from_pandas(frame, npartitions=1), prediction="p", label="q")
    broken = dask.bag.from_sequence([{"p": 0.1, "y": 1}, {"p": "secret", "y": 0}], npartitions=1)
    with pytest.raises(NotANumber, match="partition 0") as caught:
        distributed.dask.tally(broken, prediction="p", label="y")
    assert "secret" not in str(caught.value)


def test_relations_of_duckdb_and_csv_are_counted(table: pa.Table, tmp_path: Path) -> None:
    some = table.slice(0, 30_000)
    chosen = some.filter(pa.compute.equal(some["fold"], 2))
    wanted = calibrant.tally(chosen["p"].to_numpy(), chosen["y"].to_numpy())
    with duckdb.connect() as connection:
        relation = connection.from_arrow(some).filter("fold = 2").project('p AS "the ""p""", y')
        assert_same_tally(distributed.duckdb.tally(relation, prediction='the "p"', label="y"), wanted)
        path = str(tmp_path / "it's.csv")
        relation.write_csv(path)
        assert_same_tally(
            distributed.duckdb.tally(path, prediction='the "p"', label="y", connection=connection), wanted
        )
        assert connection.sql("SELECT 1").fetchall() == [(1,)]  # the caller's stays open
        with pytest.raises(InvalidOption, match="prediction names a column"):
            distributed.duckdb.tally(relation, prediction="p", label="y")
        with pytest.raises(OutOfRange, match="the relation, row 1: predictions must be in"):
            distributed.duckdb.tally(
                connection.sql("FROM (VALUES (0.1, 1), (1.1, 0)) t(p, y)"), prediction="p", label="y"
            )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("error", "name", "cell", "message"),
    [
        (NotFinite, "p", None, "row 17000: predictions must be a finite number"),
        (OutOfRange, "p", 1.25, "row 17000: predictions must be in"),
        (InvalidLabel, "y", 3, "row 17000: labels must be 0 or 1"),
    ],
)
def test_an_invalid_row_is_reported_by_its_file_and_its_number_in_it(
    engine: Any,
    error: type[CalibrationError],
    name: str,
    cell: Any,
    message: str,
    cluster: Client,
    table: pa.Table,
    tmp_path: Path,
) -> None:
    part = table.select(["p", "y"]).slice(0, 20_000)
    pq.write_table(part, tmp_path / "a.parquet")
    cells = part[name].to_pylist()
    cells[17_000] = cell
    column = pa.array(cells, part.schema.field(name).type)
    pq.write_table(part.set_column(part.schema.get_field_index(name), name, column), tmp_path / "b.parquet")
    with pytest.raises(error, match=message) as caught:
        engine.tally(tmp_path, prediction="p", label="y")
    assert str(caught.value).startswith(f"{tmp_path / 'b.parquet'}, row")
    assert "1.25" not in str(caught.value)


def test_a_missing_file_or_one_that_is_not_parquet_is_reported(cluster: Client, folder: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"prediction": "p", "label": "y"}
    for engine in ENGINES:
        with pytest.raises(EmptyBatch):
            engine.tally(tmp_path, **asked)
        with pytest.raises(EmptyBatch):
            engine.tally(tmp_path / "nothing*.parquet", **asked)
        with pytest.raises(EmptyBatch):
            engine.tally([], **asked)
        with pytest.raises(EmptyBatch, match="has no rows"):
            engine.tally(folder / "day=5" / "empty.parquet", **asked)
    with pytest.raises(InvalidOption, match="the column for group does not exist"):
        distributed.dask.tally(folder, **asked, group="nothing")
    (tmp_path / "a.parquet").write_bytes(b"this is text")
    with pytest.raises(InvalidDocument, match=r"a\.parquet: not a readable Parquet file"):
        distributed.dask.tally(tmp_path, **asked)


@pytest.mark.slow
def test_values_that_arrow_cannot_hold_are_refused_and_not_echoed() -> None:
    frame = pd.DataFrame({"p": pd.Series([0.1, "secret"], dtype=object), "y": [0, 1]})
    with dask.config.set({"dataframe.convert-string": False}):
        partitioned = dask.dataframe.from_pandas(frame, npartitions=1)
        with pytest.raises(NotANumber, match="partition 0") as caught:
            distributed.dask.tally(partitioned, prediction="p", label="y")
    assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_every_example_of_the_page_runs(
    cluster: Client, folder: Path, table: pa.Table, whole: EventTally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows").mkdir()
    for i, file in enumerate(sorted(folder.glob("*/part.parquet"))):
        (tmp_path / "rows" / f"{i}.parquet").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    p, y = table["p"].to_numpy(), table["y"].to_numpy()
    there: dict[str, Any] = {"chunks": zip(np.array_split(p, 5), np.array_split(y, 5), strict=True)}
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "large-data.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    counts = []
    for block in blocks:
        here = block.replace("n_workers=2, threads_per_worker=1", repr(cluster.scheduler_info()["address"]))
        exec(compile(here, "large-data.md", "exec"), there)
        counts.append(len(there["everything"]))
    assert counts == [N] * 4
    by_sql = calibrant.evaluate_tally(there["by_sql"], measures=["ks"])
    assert by_sql.n == N
    assert by_sql.measures["ks"].value == pytest.approx(
        calibrant.evaluate_tally(whole, measures=["ks"]).measures["ks"].value, rel=0, abs=1e-6
    )


@pytest.mark.slow
def test_engines_are_imported_when_they_are_used_and_missing_ones_named() -> None:
    code = (
        "import sys\n"
        "import calibrant, calibrant.distributed\n"
        "print(sorted({'dask', 'distributed', 'duckdb', 'pyarrow', 'pandas'} & set(sys.modules)))\n"
        "for name in ('dask', 'duckdb'):\n"
        "    sys.modules[name] = None\n"
        "    try:\n"
        "        getattr(calibrant.distributed, name).tally('.', prediction='p', label='y')\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
    )
    assert printed_by(code).splitlines() == [
        "[]",
        "this needs dask, which is not installed: pip install 'calibrant[dask]'",
        "this needs duckdb, which is not installed: pip install 'calibrant[duckdb]'",
    ]
