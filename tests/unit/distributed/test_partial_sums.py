"""The parts of a source, counted apart and added, are the source counted at once; errors come back as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import csv, parquet

from calibrant.core.errors import (
    CalibrationError,
    EngineUnavailable,
    InvalidLabel,
    InvalidOption,
    SourceChanged,
    UnknownReduction,
)
from calibrant.distributed.accumulation import DistinctCounts, GatheredRows
from calibrant.distributed.arrow import Columns
from calibrant.distributed.partial_sums import answer_of, parts_of, read_answer, sum_of_part
from calibrant.distributed.scan import Scan
from calibrant.distributed.sources import gather
from calibrant.distributed.storage import storage_of
from calibrant.monitoring.event_tally import EventTally, merge
from tests.refusals import refused_at

COLUMNS = Columns.read(prediction="score", label="outcome", group="country")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Files of two formats, in folders of countries."""
    random = np.random.default_rng(3)
    for i, country in enumerate(("de", "no", "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / "rows" / f"country={country}"
        folder.mkdir(parents=True)
        for k, write in enumerate((parquet.write_table, csv.write_csv)):
            p = random.random(500)
            table = pa.table({"score": p, "outcome": (random.random(500) < p).astype(np.int64), "day": [i] * 500})
            write(table, folder / ("a.parquet", "b.csv")[k])
    return tmp_path / "rows"


def _scan(root: Path, pattern: str = "**/*", **options: Any) -> Scan:
    return Scan.of(storage_of(f"file://{root}"), pattern, numbers=["score", "outcome"], **options)


def _added(root: Path, scan: Scan, columns: Columns = COLUMNS) -> tuple[EventTally, int, int]:
    """Return the counts of all parts, and the numbers of rows and parts."""
    parts = list(parts_of(scan, {"root": f"file://{root}"}, columns, "probability"))
    answers = [read_answer(sum_of_part(part.request)) for part in parts]
    return merge(tally for tally, _ in answers if tally is not None), sum(rows for _, rows in answers), len(parts)


@pytest.mark.parametrize("where", [None, [["country", "in", ["no"]]], [["day", ">=", 1], ["score", "<", 0.5]]])
def test_parts_of_a_source_add_up_to_other_counts_than_the_source(root: Path, where: Any) -> None:
    whole = gather(_scan(root, where=where), COLUMNS, kind="frequency", memory=1 << 12)
    assert not isinstance(whole.value, GatheredRows | DistinctCounts)
    tally, rows, parts = _added(root, _scan(root, where=where))
    assert (rows, tally.groups) == (whole.basis.rows, whole.value.groups)
    assert parts == (2 if where is not None and where[0][0] == "country" else 6)
    assert_array_equal(tally.tally.keys, whole.value.tally.keys)
    assert_array_equal(tally.tally.rows, whole.value.tally.rows)
    assert_allclose(tally.tally.p_sum, whole.value.tally.p_sum, rtol=1e-12)


def test_vectors_in_columns_are_not_counted(tmp_path: Path) -> None:
    table = {"a": [0.2, 0.7], "b": [0.8, 0.3], "y": [1, 0]}
    parquet.write_table(pa.table(table), tmp_path / "rows.parquet")
    columns = Columns.read(prediction=["a", "b"], label="y", reduction="class:1")
    tally, rows, _ = _added(tmp_path, _scan(tmp_path), columns)
    assert (rows, tally.n_classes, tally.reduction) == (2, 2, "class:1")
    with pytest.raises(UnknownReduction):
        _added(tmp_path, _scan(tmp_path), Columns.read(prediction=["a", "b"], label="y", reduction="class:5"))


def test_an_error_of_a_part_loses_its_class_or_its_place(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"score": [0.5, 0.5], "outcome": [0, 3]}), tmp_path / "bad.parquet")
    columns = Columns.read(prediction="score", label="outcome")
    with pytest.raises(InvalidLabel, match=r"bad\.parquet, row 1: labels") as caught:
        _added(tmp_path, _scan(tmp_path), columns)
    with pytest.raises(InvalidLabel) as local:
        gather(_scan(tmp_path), columns)
    assert (caught.value.detail, caught.value.offences) == (local.value.detail, local.value.offences)
    with refused_at("/prediction", InvalidOption):
        _added(tmp_path, _scan(tmp_path), Columns.read(prediction="absent", label="outcome"))


def test_a_file_that_changed_since_it_was_listed_is_counted(root: Path) -> None:
    scan = _scan(root, "country=de/a.parquet")
    parquet.write_table(pa.table({"score": [0.5], "outcome": [0]}), root / "country=de" / "a.parquet")
    with pytest.raises(SourceChanged):
        _added(root, scan)


def test_a_worker_of_another_version_counts(root: Path) -> None:
    (part,) = parts_of(_scan(root, "country=de/a.parquet"), {"root": f"file://{root}"}, COLUMNS, "probability")
    with pytest.raises(EngineUnavailable, match="version"):
        read_answer(sum_of_part(json.dumps(json.loads(part.request) | {"version": "0.0.1"})))


def test_an_error_of_the_machine_ends_as_one_of_the_request() -> None:
    def fail() -> Any:
        raise ConnectionResetError("secret")

    with pytest.raises(OSError, match="ConnectionResetError") as caught:
        read_answer(answer_of(fail))
    assert not isinstance(caught.value, CalibrationError)
    assert "secret" not in str(caught.value)
