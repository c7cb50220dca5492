"""Files of folders: formats, conditions, the three forms of their rows, and data sets that are written."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from pyarrow import csv, feather, parquet

import calibrant
from benchmarks.pages.by_reference import METHODS_OF_FOLDS, OTHER_FOLDS
from calibrant.calibrators import METHODS
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidOption,
    OutOfRange,
    RefusedPath,
    SourceChanged,
    SourceTooLarge,
    SourceUnreadable,
    TargetExists,
)
from calibrant.distributed.accumulation import Accumulation, DistinctCounts
from calibrant.distributed.arrow import BYTES, Columns, check_order
from calibrant.distributed.scan import Scan, read_conditions
from calibrant.distributed.sources import gather, gather_models
from calibrant.distributed.storage import Folder, Remote, StoredFile
from calibrant.distributed.target import Scoring
from calibrant.measures.catalogue import MEASURES as MEASURES_
from calibrant.measures.measure import MeasureResult
from calibrant.monitoring.event_tally import EventTally
from tests.hostile_paths import hostile_paths
from tests.known import known
from tests.refusals import refused_at

N = 6000
MEASURES = ["ece", "brier", "log-loss", "auroc", "ks"]
#: Bytes in which the rows, only the counts of distinct predictions, and only a tally fit.
MEMORY = {"rows": 400 << 20, "distinct": 1 << 20, "tally": 1 << 16}
NAMED: dict[str, Any] = {"prediction": "p", "label": "y"}


def _value(measure: MeasureResult) -> float:
    return known(measure.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of rounded predictions, one of another type."""
    random = np.random.default_rng(3)
    p = random.random(N).round(3)
    rows = {
        "p": p,
        "y": (random.random(N) < p**1.2).astype(np.int64),
        "g": np.array(["a", "b", None], dtype=np.object_)[random.integers(0, 3, N)],
        "w": random.integers(0, 4, N),
        "id": np.arange(N),
    }
    table = pa.table(rows)
    (tmp_path / "rows").mkdir()
    for i in range(3):
        part = table.slice(2000 * i, 2000)
        parquet.write_table(part, tmp_path / "rows" / f"{i}.parquet", row_group_size=700)
    return tmp_path / "rows"


def _table(folder: Path) -> pa.Table:
    return parquet.read_table(folder)


@pytest.mark.parametrize("form", MEMORY)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_source_has_other_results_than_its_rows(folder: Path, form: str, weighted: bool) -> None:
    rows = _table(folder)
    options: dict[str, Any] = {"weights_kind": "frequency"}
    memory = (MEMORY | {"distinct": 2 << 20})[form]  # groups have more counts
    report = calibrant.evaluate_source(
        str(folder), **NAMED, group="g", weight="w" if weighted else None, measures=MEASURES, memory=memory, **options
    )
    groups = ["(missing)" if name is None else name for name in rows["g"].to_pylist()]
    weights = rows["w"].to_numpy() if weighted else None
    expected = calibrant.evaluate(
        rows["p"].to_numpy(), rows["y"].to_numpy(), measures=MEASURES, groups=groups, weights=weights, **options
    )
    assert report.basis is not None
    assert (report.basis.form, report.basis.files, report.basis.rows) == (form, 3, N)
    assert (report.basis.tolerance is None) == (form != "tally")
    assert report.groups is not None
    assert expected.groups is not None
    assert set(report.groups) == set(expected.groups)
    for name in MEASURES:
        assert_allclose(_value(report[name]), _value(expected[name]), rtol=0, atol=1e-12)
        for group in expected.groups:
            ours, theirs = _value(report.groups[group].measures[name]), _value(expected.groups[group].measures[name])
            assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", MEMORY)
def test_the_number_of_rows_depends_on_their_form_if_files_have_no_weight(tmp_path: Path, form: str) -> None:
    random = np.random.default_rng(6)
    p = random.random(N).round(3)
    y = (random.random(N) < p).astype(np.int64)
    for i, weight in enumerate((0, 1, 0)):
        table = pa.table({"p": p, "y": y, "w": np.full(N, weight)})
        parquet.write_table(table, tmp_path / f"{i}.parquet")
    gathered = gather(
        Scan.of(Folder(tmp_path), "*.parquet"),
        Columns.read(**NAMED, weight="w"),
        kind="frequency",
        memory=MEMORY[form],
    )
    assert (gathered.basis.form, gathered.basis.rows) == (form, 3 * N)
    models = {"a": Columns.read(**NAMED, weight="w")}
    assert gather_models(Scan.of(Folder(tmp_path), "*.parquet"), models)[1].rows == 3 * N
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(EmptyBatch):
        gather(Scan.of(Folder(tmp_path), "*.parquet"), Columns.read(**NAMED, weight="w"), kind="frequency")


def test_the_values_of_a_tally_differ_by_more_than_its_tolerance(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    p = random.random(40_000)
    y = (random.random(len(p)) < p).astype(np.int64)
    parquet.write_table(pa.table({"p": p, "y": y}), tmp_path / "x.parquet")
    report = calibrant.evaluate_source(str(tmp_path), **NAMED, measures=MEASURES, memory=1 << 16)
    assert report.basis is not None
    tolerance = report.basis.tolerance
    assert report.basis.form == "tally"
    assert tolerance is not None
    assert tolerance < 0.00077
    expected = calibrant.evaluate(p, y, measures=MEASURES)
    by_engine = calibrant.evaluate_tally(calibrant.tally(p, y), measures=MEASURES)
    for name in MEASURES:
        assert_allclose(_value(report[name]), _value(by_engine[name]), rtol=1e-12)
        assert_allclose(_value(report[name]), _value(expected[name]), rtol=0, atol=tolerance)


@pytest.mark.parametrize("form", MEMORY)
def test_logits_are_probabilities_in_another_form(tmp_path: Path, form: str) -> None:
    random = np.random.default_rng(2)
    z = random.normal(size=N).round(2) * 4
    y = (random.random(N) < 1 / (1 + np.exp(-z))).astype(np.int64)
    parquet.write_table(pa.table({"p": z, "y": y}), tmp_path / "x.parquet")
    report = calibrant.evaluate_source(
        str(tmp_path), **NAMED, scale="logit", measures=["auroc", "log-loss"], memory=MEMORY[form]
    )
    expected = calibrant.evaluate(z, y, scale="logit", measures=["auroc", "log-loss"])
    within = 1e-12 if form != "tally" else 1e-3
    assert_allclose(_value(report["auroc"]), _value(expected["auroc"]), rtol=0, atol=within)
    assert_allclose(_value(report["log-loss"]), _value(expected["log-loss"]), rtol=0, atol=within)


def test_vectors_are_read_as_one_event_or_refused_without_a_reason(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    vectors = random.dirichlet([1, 2, 3], N)
    labels = random.integers(0, 3, N)
    parquet.write_table(pa.table({"p": vectors.tolist(), "y": labels}), tmp_path / "x.parquet")
    whole = calibrant.evaluate_source(str(tmp_path), **NAMED, reduction="canonical", measures=["log-loss"])
    assert_allclose(
        _value(whole["log-loss"]),
        _value(calibrant.evaluate(vectors, labels, reduction="canonical", measures=["log-loss"])["log-loss"]),
        rtol=1e-12,
    )
    with pytest.raises(SourceTooLarge, match="canonical"):
        calibrant.evaluate_source(str(tmp_path), **NAMED, reduction="canonical", memory=1 << 20)
    counted = calibrant.evaluate_source(str(tmp_path), **NAMED, measures=["brier"], memory=1 << 20)
    expected = calibrant.evaluate(vectors, labels, measures=["brier"])
    assert_allclose(_value(counted["brier"]), _value(expected["brier"]), atol=1e-3)
    assert counted.reduction == "confidence"


@pytest.mark.parametrize("form", ["distinct", "tally"])
def test_vectors_wait_in_more_than_their_memory(form: str) -> None:
    random = np.random.default_rng(5)
    vectors = np.zeros((500, 200))
    vectors[:, 1] = random.integers(0, 100, 500) / 128 if form == "distinct" else random.random(500)
    vectors[:, 0] = 1 - vectors[:, 1]
    labels = random.integers(0, 2, 500)
    memory = 4 << 20 if form == "distinct" else 1 << 17
    held = Accumulation(Columns.read(**NAMED, reduction="class:1"), memory=memory)
    tracemalloc.start()
    for _ in range(30):
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.flatten()), 200)
        held.add(pa.record_batch({"p": lists, "y": pa.array(labels)}), {})
    held_rows = held.result()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20  # the rows have 24 MB
    assert held.form == form
    tally = held_rows.tally() if isinstance(held_rows, DistinctCounts) else held_rows
    assert isinstance(tally, EventTally)
    expected = calibrant.evaluate(vectors[:, 1], labels, measures=["brier"])
    report = calibrant.evaluate_tally(tally, measures=["brier"])
    assert report.n == 30 * 500
    assert_allclose(_value(report["brier"]), _value(expected["brier"]), rtol=0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "memory"), [("distinct", 80_000), ("tally", 1 << 14)])
def test_the_page_promises_a_measure_of_counts_that_has_no_value(tmp_path: Path, form: str, memory: int) -> None:
    names = [name for name, measure in MEASURES_.items() if measure.runs == "inline" and measure.event is not None]
    random = np.random.default_rng(8)
    p = random.integers(1, 80, 300) / 80
    y = (random.random(300) < p).astype(np.int64)
    parquet.write_table(pa.table({"p": p, "y": y}), tmp_path / "x.parquet")
    report = calibrant.evaluate_source(str(tmp_path), **NAMED, measures=names, memory=memory)
    assert known(report.basis).form == form
    expected = calibrant.evaluate(p, y, measures=names)
    assert {name: report[name].value is None for name in names} == {
        name: expected[name].value is None for name in names
    }
    exact = [name for name in names if expected[name].value is not None and form == "distinct"]
    # Most agree to rounding; those that contain a fit, as far as it converges.
    different = [n for n in exact if _value(report[n]) != pytest.approx(_value(expected[n]), rel=1e-5, abs=1e-6)]
    assert different == []  # folds are others from 10,000 rows on
    assert all("folds" in MEASURES_[name].options for name in OTHER_FOLDS)


@pytest.mark.slow
def test_the_page_promises_a_method_of_counts_that_has_the_map_of_the_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    p = random.integers(1, 200, 2000) / 200
    y = (random.random(2000) < p**1.3).astype(np.int64)
    parquet.write_table(pa.table({"p": p, "y": y}), tmp_path / "x.parquet")
    names = [name for name, method in METHODS.items() if method.event is not None and name != "prior-shift"]
    grid, different = np.linspace(0.01, 0.99, 99), set()
    for name in names:
        fitted = calibrant.fit_source(str(tmp_path), name, **NAMED, memory=120_000)
        if np.abs(fitted.apply(grid) - calibrant.fit(name, p, y).apply(grid)).max() > 1e-7:
            different.add(name)
    assert different == set()  # folds are others from 10,000 rows on
    assert set(METHODS_OF_FOLDS) <= set(names)


def test_importance_weights_are_counted_as_frequencies(folder: Path) -> None:
    with pytest.raises(SourceTooLarge, match="importance weights"):
        calibrant.evaluate_source(str(folder), **NAMED, weight="w", memory=1 << 20)


@pytest.mark.parametrize("form", ["rows", "distinct"])
def test_a_fit_to_a_source_is_another_than_that_to_its_rows(folder: Path, form: str) -> None:
    rows = _table(folder)
    for method in ("platt", "isotonic", "beta"):
        fitted = calibrant.fit_source(str(folder), method, **NAMED, memory=MEMORY[form])
        expected = calibrant.fit(method, rows["p"].to_numpy(), rows["y"].to_numpy())
        p = np.linspace(0.001, 0.999, 50)
        assert_allclose(fitted.apply(p), expected.apply(p), rtol=0, atol=1e-7)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "ndjson", "jsonl.gz", "arrow", "feather"])
def test_a_format_has_other_rows_than_parquet(folder: Path, tmp_path: Path, suffix: str) -> None:
    table = _table(folder).drop_columns("w")
    path = tmp_path / f"x.{suffix}"
    if suffix.startswith("csv"):
        with pa.output_stream(str(path)) as sink:
            csv.write_csv(table, sink)
    elif suffix == "feather":
        feather.write_feather(table, str(path))
    elif suffix == "arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.output_stream(str(path)) as sink:
            sink.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
    where: list[list[Any]] = [["p", ">", 0.25], ["g", "=", "a"]]
    report = calibrant.evaluate_source(str(path), **NAMED, group="g", where=where, measures=["brier"])
    expected = calibrant.evaluate_source(str(folder), **NAMED, group="g", where=where, measures=["brier"])
    assert report.n == expected.n > 0
    assert_allclose(_value(report["brier"]), _value(expected["brier"]), rtol=1e-12)


def test_one_of_several_columns_of_a_name_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("p,p,y\n.5,.6,1\n.25,.1,0\n")
    with pytest.raises(InvalidOption, match="does not exist or is not unique"):
        calibrant.evaluate_source(str(tmp_path), **NAMED, measures=["brier"])
    fitted = calibrant.fit("platt", [0.1, 0.9, 0.4], [0, 1, 1])
    with pytest.raises(CalibrationError, match=r"x\.csv has several columns of one name|not unique"):
        Scoring(Folder(tmp_path), "out", "job_1").run(
            Scan.of(Folder(tmp_path), "x.csv"), Columns.read(prediction="p", label=""), fitted
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p,y\n.5,1\nprivate,0\n", r"x\.csv, row 1: column 'p' must have only numbers with a"),
        ("p,y\n.5,1\n.5,True\n", r"x\.csv, row 1: column 'y' must have only numbers with a decimal point"),
        ("p,y\n50%,1\n", r"x\.csv, row 0: column 'p' must have only numbers"),
        ("a,p,y\nx,.5,1\ny,.5,NA\n", r"x\.csv, row 1: column 'y' must have only numbers"),
        ("p,y\n.5,1\n.5,1,private\n", r"x\.csv, row 1: has 3 cells, but the header has 2"),
        ("p;y\n0,5;1\n", r"x\.csv, row 0: has 2 cells, but the header has 1"),
        (".5,1\n" * 3, r"x\.csv: prediction names a column that does not exist or is not unique"),
    ],
)
def test_a_cell_of_a_text_file_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    error = InvalidOption if "does not exist" in message else SourceUnreadable
    with pytest.raises(error, match=message) as caught:
        calibrant.evaluate_source(str(tmp_path), **NAMED, measures=["brier"])
    assert "private" not in str(caught.value)


def test_a_text_of_json_that_looks_like_a_time_is_no_text(tmp_path: Path) -> None:
    rows = [{"p": 0.1, "y": 0, "day": "2026-11-01"}, {"p": 0.9, "y": 1, "day": "2026-11-02T00:00:00+02:00"}]
    (tmp_path / "x.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    where = [["day", "<", "2026-11-02"]]
    assert calibrant.evaluate_source(str(tmp_path), **NAMED, where=where, measures=["brier"]).n == 1
    groups = calibrant.evaluate_source(str(tmp_path), **NAMED, group="day", measures=["brier"]).groups
    assert set(groups or ()) == {row["day"] for row in rows}


def test_a_text_of_csv_such_as_that_of_namibia_is_missing(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("p,y,g\n.1,0,NA\n.5,1,null\n.9,1,nan\n.4,0,\n")
    report = calibrant.evaluate_source(str(tmp_path), **NAMED, group="g", measures=["brier"])
    assert set(report.groups or ()) == {"NA", "null", "nan", "(missing)"}


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ([["n", "in", [1, 3]]], 2),
        ([["n", "=", 2]], 1),
        ([["n", "!=", 2.0], ["n", "<", 9]], 2),
        ([["s", "=", "1"]], 2),
        ([["s", "in", ["1", "x"]]], 3),
        ([["b", "=", True]], 2),
        ([["b", "in", [False]]], 2),
        ([["s", "!=", None]], 4),
    ],
)
def test_a_condition_compares_csv_as_another_type_than_its_value(tmp_path: Path, where: Any, rows: int) -> None:
    (tmp_path / "x.csv").write_text("p,y,n,s,b\n.1,0,1,1,true\n.5,1,2,01,false\n.9,1,3,x,True\n.4,0,,1,false\n")
    assert calibrant.evaluate_source(str(tmp_path), **NAMED, where=where, measures=["brier"]).n == rows


@pytest.mark.parametrize(
    "where",
    [[["s", "=", "1"], ["s", "<", 3]], [["p", "=", "0.5"]], [["b", "=", True], ["b", "=", 1]], [["n", "=", 2**53 + 1]]],
)
def test_a_column_of_csv_is_read_as_one_of_two_types(tmp_path: Path, where: Any) -> None:
    (tmp_path / "x.csv").write_text("p,y,n,s,b\n.1,0,1,1,true\n")
    with refused_at("/where/", InvalidOption, below=True):
        calibrant.evaluate_source(str(tmp_path), **NAMED, where=where)


@pytest.mark.parametrize(
    ("columns", "classes", "refused"),
    [
        (("p_dog", "p_cat"), ("cat", "dog"), True),
        (("dog_p", "cat_p"), ("cat", "dog"), True),
        (("P_Cat", "P_Dog"), ("cat", "dog"), False),
        (("a", "b"), ("cat", "dog"), False),
        (("p_1", "p_0"), None, True),
        (("p_0", "p_1"), None, False),
        (("p_1", "p_2"), None, False),
        (("p2", "p0", "p1"), None, True),
        (("p",), None, False),
    ],
)
def test_columns_in_another_order_than_the_classes_are_read(columns: Any, classes: Any, refused: bool) -> None:
    named = Columns.read(prediction=columns if len(columns) > 1 else columns[0], label="y")
    if refused:
        with pytest.raises(InvalidOption, match="another order"):
            check_order(named, classes)
    else:
        check_order(named, classes)


def test_a_map_is_applied_to_columns_in_another_order(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    p = random.dirichlet([1, 2], 300)
    fitted = calibrant.fit("temperature", p, random.integers(0, 2, 300), class_names=["cat", "dog"])
    parquet.write_table(pa.table({"p_cat": p[:, 0], "p_dog": p[:, 1]}), tmp_path / "x.parquet")
    scored: dict[str, Any] = {"target": str(tmp_path / "scored"), "map": fitted}
    with pytest.raises(InvalidOption, match="another order"):
        calibrant.calibrate_source(str(tmp_path / "x.parquet"), **scored, prediction=["p_dog", "p_cat"])
    assert calibrant.calibrate_source(str(tmp_path / "x.parquet"), **scored, prediction=["p_cat", "p_dog"]).rows == 300


def test_models_of_a_source_are_compared_otherwise_than_their_rows(folder: Path) -> None:
    table = _table(folder).append_column("q", pa.array(_table(folder)["p"].to_numpy() ** 2))
    for file in folder.iterdir():
        file.unlink()
    parquet.write_table(table, folder / "x.parquet")
    models = {"p": "p", "q": "q"}
    named: dict[str, Any] = {"label": "y", "group": "g", "measures": ["log-loss", "ece"], "resamples": 100}
    comparison = calibrant.compare_source(str(folder), prediction=models, **named)
    groups = ["(missing)" if name is None else name for name in table["g"].to_pylist()]
    rows = {name: table[name].to_numpy() for name in models}
    options: dict[str, Any] = {"measures": ["log-loss", "ece"], "resamples": 100}
    assert comparison.to_dict() == calibrant.compare(rows, table["y"].to_numpy(), groups=groups, **options).to_dict()
    with pytest.raises(SourceTooLarge, match="comparisons"):
        calibrant.compare_source(str(folder), prediction=models, memory=1 << 20, **named)
    fitted = {"platt": calibrant.fit("platt", rows["p"], table["y"].to_numpy())}
    mapped = calibrant.compare_source(str(folder), prediction="p", maps=fitted, label="y", **options)
    assert mapped.to_dict() == calibrant.compare(rows["p"], table["y"].to_numpy(), fitted, **options).to_dict()
    refused: list[dict[str, Any]] = [{"prediction": "p"}, {"prediction": models, "maps": fitted}, {"prediction": {}}]
    for wrong in refused:
        with pytest.raises(CalibrationError):
            calibrant.compare_source(str(folder), label="y", **wrong)


# --- Memory


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["list", "columns", "arrow"])
def test_wide_rows_are_read_in_batches_of_more_bytes(tmp_path: Path, kind: str) -> None:
    k, n = 500, 20_000
    predictions = np.full((n, k), 1 / k, np.float32)
    if kind == "columns":
        table = pa.table({f"p{j}": predictions[:, j] for j in range(k)})
    else:
        table = pa.table({"p": pa.FixedSizeListArray.from_arrays(pa.array(predictions.ravel()), k)})
    if kind == "arrow":
        feather.write_feather(table, str(tmp_path / "x.arrow"), compression="uncompressed", chunksize=n)
    else:
        parquet.write_table(table, tmp_path / "x.parquet")
    scan = Scan.of(Folder(tmp_path), "*")
    sizes = [batch.nbytes for _, batch in scan.read(table.column_names) if batch is not None]
    assert sum(sizes) >= predictions.nbytes
    assert max(sizes) <= BYTES


def test_an_empty_row_group_makes_others_be_read_row_by_row(tmp_path: Path) -> None:
    rows = pa.table({"p": np.linspace(0, 1, 1000), "y": [1] * 1000})
    with parquet.ParquetWriter(tmp_path / "x.parquet", rows.schema) as file:
        for part in (rows, rows.slice(0, 0)):
            file.write_table(part)
    scan = Scan.of(Folder(tmp_path), "x.parquet")
    (piece,) = scan.pieces()
    assert [batch.num_rows for batch in scan.batches(piece, ["p"])] == [1000]


def test_an_arrow_file_has_a_record_batch_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.distributed.scan._ARROW_BATCH", 1000)
    rows = pa.table({"p": np.linspace(0, 1, 1000), "y": [1] * 1000})
    feather.write_feather(rows, str(tmp_path / "x.arrow"), compression="uncompressed")
    with pytest.raises(SourceUnreadable, match="record batches"):
        calibrant.evaluate_source(str(tmp_path), **NAMED)


def test_a_record_batch_that_does_not_fit_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.distributed.scan._ARROW_BATCH", 10_000)
    rows = pa.table({"p": [0.5] * 3000, "y": [1] * 3000})
    path = tmp_path / "x.arrow"
    feather.write_feather(rows, str(path), compression="zstd")
    assert path.stat().st_size < 10_000
    with pytest.raises(SourceUnreadable, match="record batches"):
        calibrant.evaluate_source(str(tmp_path), **NAMED)
    feather.write_feather(rows, str(path), compression="zstd", chunksize=500)
    assert calibrant.evaluate_source(str(tmp_path), **NAMED, measures=["brier"]).n == 3000


def test_a_pattern_of_too_many_files_is_listed_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.distributed.storage.MOST_FILES", 2)
    with pytest.raises(SourceTooLarge, match="more than 2 files"):
        Scan.of(Folder(folder), "*.parquet")


@pytest.mark.parametrize(
    ("where", "mask"),
    [
        ([["id", "<", 10]], lambda t: t["id"].to_numpy() < 10),
        ([["id", ">=", 10], ["id", "<=", 20]], lambda t: (t["id"].to_numpy() >= 10) & (t["id"].to_numpy() <= 20)),
        ([["g", "in", ["a", "b"]]], lambda t: np.array([g is not None for g in t["g"].to_pylist()])),
        ([["g", "=", None]], lambda t: np.array([g is None for g in t["g"].to_pylist()])),
        ([["g", "!=", "a"]], lambda t: np.array([g == "b" for g in t["g"].to_pylist()])),
    ],
)
def test_a_condition_selects_other_rows(folder: Path, where: Any, mask: Any) -> None:
    report = calibrant.evaluate_source(str(folder), **NAMED, where=where, measures=["brier"])
    assert report.n == int(mask(_table(folder)).sum())


@pytest.mark.parametrize(
    "where",
    [
        "id < 3", [["id"]], [["id", "like", 3]], [["id", "<", None]], [["id", "in", 3]], [["id", "in", []]],
        [["id", "=", [3]]], [[1, "=", 3]], [["id", "in", [{}]]], [["id", "=", 1]] * 33, [["id", "in", [1] * 1001]],
        [["id", "in", ["a", 1]]], [["id", "=", 2**70]], [["id", "in", [-(2**70)]]], [["\ud800", "=", 1]],
        [["id", "=", "\ud800"]], [["id", "in", [True, 1]]],
    ],
)  # fmt: skip
def test_a_condition_that_is_none_is_accepted(where: Any) -> None:
    with pytest.raises(InvalidOption):
        read_conditions(where)


@pytest.mark.parametrize(
    ("sign", "bound"),
    [("=", None), ("!=", None), ("=", "a"), ("!=", "a"), ("<", "a"), (">=", "a"), ("in", ["a"]), ("not in", ["a"])],
)
def test_a_null_in_the_name_of_a_folder_meets_other_conditions_than_in_a_column(
    tmp_path: Path, sign: str, bound: Any
) -> None:
    for name, key in (("a", "a"), ("b", "b"), ("__HIVE_DEFAULT_PARTITION__", None)):
        (tmp_path / f"folder={name}").mkdir()
        rows = pa.table({"p": [0.5], "y": [1], "column": pa.array([key], pa.string())})
        parquet.write_table(rows, tmp_path / f"folder={name}" / "x.parquet")
    met = []
    for name in ("folder", "column"):
        scan = Scan.of(Folder(tmp_path), "**/*.parquet", where=[[name, sign, bound]])
        batches = [batch for piece in scan.pieces() for batch in scan.batches(piece, ["column"])]
        met.append([batch["column"].to_pylist() for batch in batches if batch.num_rows])
    assert met[0] == met[1]


def test_a_bad_row_is_not_named_by_its_file_and_number(folder: Path) -> None:
    parquet.write_table(pa.table({"p": [0.5, 1.5], "y": [0, 1]}), folder / "9.parquet")
    with pytest.raises(OutOfRange, match=r"9\.parquet, row 1"):
        calibrant.evaluate_source(str(folder), **NAMED)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"not parquet at all"])
def test_a_damaged_file_is_read_or_raises_another_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(SourceUnreadable):
        calibrant.evaluate_source(str(tmp_path), **NAMED)


@pytest.mark.parametrize("kind", ["string", "dictionary"])
def test_an_arrow_file_makes_the_process_read_outside_of_its_buffers(tmp_path: Path, kind: str) -> None:
    names = pa.array(["ab" * 50, "c", "d"])
    indices = pa.array([0, 1 << 30, 2], pa.int32())
    groups = names if kind == "string" else pa.DictionaryArray.from_arrays(indices, names, safe=False)
    table = pa.table({"p": [0.1, 0.5, 0.9], "y": [0, 1, 1], "g": groups})
    feather.write_feather(table, str(tmp_path / "x.arrow"), compression="uncompressed")
    content = (tmp_path / "x.arrow").read_bytes()
    if kind == "string":
        offsets = np.array([0, 100, 101, 102], np.int32).tobytes()
        assert content.count(offsets) == 1
        content = content.replace(offsets, np.array([0, 1 << 30, 101, 102], np.int32).tobytes())
        (tmp_path / "x.arrow").write_bytes(content)
    with pytest.raises(SourceUnreadable):
        calibrant.evaluate_source(str(tmp_path), **NAMED, group="g")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_that_changes_while_it_is_read_is_not_noticed(folder: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "csv":
        csv.write_csv(_table(folder), path)
    else:
        parquet.write_table(_table(folder), path)
    scan = Scan.of(Folder(tmp_path), path.name)
    (piece,) = scan.pieces()
    batches = scan.batches(piece, None)
    next(batches)
    os.utime(path, ns=(0, 0))
    with pytest.raises(SourceChanged):
        list(batches)


def test_a_boolean_is_compared_with_a_text_in_the_name_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "c=de").mkdir()
    parquet.write_table(pa.table({"p": [0.5], "y": [1]}), tmp_path / "c=de" / "x.parquet")
    with pytest.raises(InvalidOption, match="text in the names of folders"):
        calibrant.evaluate_source(str(tmp_path), **NAMED, where=[["c", "<", True]])


@pytest.mark.parametrize(
    ("sign", "bound", "met"),
    [("=", 2**53, [2**53]), ("in", [2**53 + 1], [2**53 + 1]), ("!=", 2**53, [2**53 + 1]), ("<=", 2**53, [2**53])],
)
def test_large_integers_in_the_names_of_folders_are_compared_as_floats(
    tmp_path: Path, sign: str, bound: Any, met: list[int]
) -> None:
    for key in (2**53, 2**53 + 1):
        (tmp_path / f"id={key}").mkdir()
        parquet.write_table(pa.table({"p": [0.5], "y": [1]}), tmp_path / f"id={key}" / "x.parquet")
    scan = Scan.of(Folder(tmp_path), "**/*.parquet", where=[["id", sign, bound]])
    assert [piece.file.path for piece in scan.pieces()] == [f"id={key}/x.parquet" for key in met]


@pytest.mark.parametrize("key", ["1_000", " 1", "nan", "inf", "1.", "0x1", "\u0661"])
def test_a_text_in_the_name_of_a_folder_is_compared_as_a_number(tmp_path: Path, key: str) -> None:
    (tmp_path / f"id={key}").mkdir()
    parquet.write_table(pa.table({"p": [0.5], "y": [1]}), tmp_path / f"id={key}" / "x.parquet")
    scan = Scan.of(Folder(tmp_path), "**/*.parquet", where=[["id", "<", 2000]])
    with pytest.raises(InvalidOption, match="text in the names of folders"):
        list(scan.pieces())


def test_a_group_that_is_not_unicode_is_an_internal_error(tmp_path: Path) -> None:
    groups = pa.array([b"\xff", b"a"]).view(pa.string())
    parquet.write_table(pa.table({"p": [0.5, 0.6], "y": [1, 0], "g": groups}), tmp_path / "x.parquet")
    with pytest.raises(InvalidOption, match="UTF-8"):
        calibrant.evaluate_source(str(tmp_path), **NAMED, group="g")


# --- Delta tables


def _delta(path: Path) -> pa.Table:
    """A table of two commits, of which rows were then deleted."""
    rows = pa.table({"p": [0.1, 0.2, 0.3, 0.9], "y": [0, 1, 0, 1], "c": ["de", "no", "de", "no"]})
    for _ in range(2):
        deltalake.write_deltalake(path, rows, mode="append", partition_by=["c"])
    deltalake.DeltaTable(path).delete("p < 0.15")
    return pa.table(deltalake.DeltaTable(path).to_pyarrow_table())


def test_a_delta_table_has_deleted_rows_or_lacks_its_partitions(tmp_path: Path) -> None:
    rows = _delta(tmp_path / "table")
    report = calibrant.evaluate_source(
        str(tmp_path / "table"), **NAMED, group="c", format="delta", measures=["brier"], where=[["p", "<", 0.5]]
    )
    assert report.n == int((rows["p"].to_numpy() < 0.5).sum()) == 4
    assert set(known(report.groups)) == {"de", "no"}
    evaluated = calibrant.evaluate_source(str(tmp_path / "table"), **NAMED, format="delta", where=[["c", "=", "no"]])
    assert evaluated.n == 4


@pytest.mark.parametrize(
    "change",
    [
        {"add": {"path": "../secret.parquet"}},
        {"add": {"path": "/etc/passwd"}},
        {"add": {"path": "file:///etc/passwd"}},
        {"add": {"path": "%2e%2e/secret.parquet"}},
        {"add": {"path": "absent.parquet"}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                      "writerFeatures": ["deletionVectors"]}},
    ],
)  # fmt: skip
def test_a_delta_log_leads_out_of_its_table(tmp_path: Path, change: dict[str, Any]) -> None:
    root = tmp_path / "root"
    root.mkdir()
    _delta(root / "table")
    (tmp_path / "secret.parquet").write_bytes((next((root / "table").glob("c=no/*.parquet"))).read_bytes())
    if "add" in change:
        change["add"] |= {
            "size": 5, "partitionValues": {"c": "no"}, "modificationTime": 0, "dataChange": True, "stats": None
        }  # fmt: skip
    (root / "table" / "_delta_log" / f"{3:020}.json").write_text(json.dumps(change))
    with pytest.raises((RefusedPath, SourceChanged, SourceUnreadable)):
        Scan.of(Folder(root), "table", format="delta")


def test_a_delta_log_with_a_symbolic_link_is_read(tmp_path: Path) -> None:
    _delta(tmp_path / "theirs")
    (tmp_path / "root" / "table").mkdir(parents=True)
    (tmp_path / "root" / "table" / "_delta_log").symlink_to(tmp_path / "theirs" / "_delta_log")
    with pytest.raises((RefusedPath, SourceUnreadable)):
        Scan.of(Folder(tmp_path / "root"), "table", format="delta")


# --- A folder whose files never lead out of it


@pytest.fixture
def closed(tmp_path: Path) -> Folder:
    """A root with links out of it, beside a file that no one may read."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "x.parquet").write_bytes(b"inside")
    (tmp_path / "secret.parquet").write_bytes(b"outside")
    (root / "link.parquet").symlink_to(tmp_path / "secret.parquet")
    (root / "up").symlink_to(tmp_path)
    return Folder(root)


@pytest.mark.parametrize("path", [*hostile_paths(), "link.parquet", "up/secret.parquet", "up", "up/*", "*"], ids=ascii)
def test_a_path_that_was_not_checked_leads_out_of_a_folder(closed: Folder, path: str) -> None:
    """The folder is the second defence: it opens name by name, without links and ``..``."""
    try:
        contents = [closed.read(file.path) for file in closed.files(path)]
        direct = closed.read(path)
    except (CalibrationError, OSError, ValueError):
        return
    assert set(contents) <= {b"inside"}
    assert direct in (None, b"inside")


def test_a_file_that_vanishes_while_a_folder_is_listed_ends_the_list(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("a/3.parquet", "a/b/4.parquet"):
        (folder / name).write_bytes(b"")
    listed = Folder(folder.parent).below("rows")
    first = next(listed)
    left = {f"rows/{i}.parquet" for i in range(3)} - {first.path}
    gone = min(left)
    (folder.parent / gone).unlink()
    assert {file.path for file in listed} == (left - {gone}) | {"rows/a/3.parquet", "rows/a/b/4.parquet"}


# --- Data sets


def _scored(folder: Path, target: Path, job: str = "job_1", pattern: str = "*.parquet") -> Any:
    fitted = calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    columns = Columns.read(prediction="p", label="")
    return Scoring(Folder(target.parent), target.name, job).run(Scan.of(Folder(folder), pattern), columns, fitted)


def test_a_repeated_run_writes_files_again_that_are_complete(folder: Path, tmp_path: Path) -> None:
    (folder / "2.parquet").rename(tmp_path / "2.parquet")
    (folder / "2.parquet").write_bytes(b"damaged")
    with pytest.raises(SourceUnreadable):
        _scored(folder, tmp_path / "scored")
    staged = tmp_path / ".calibrant-job_1"
    first = {file.name: file.stat().st_mtime_ns for file in staged.glob("part-0000[01].*")}
    assert len(first) == 4
    assert not (tmp_path / "scored").exists()
    (tmp_path / "2.parquet").replace(folder / "2.parquet")
    with pytest.raises(SourceChanged):
        _scored(folder, tmp_path / "scored")
    plan = json.loads((staged / "_plan.json").read_text())
    status = os.stat(folder / "2.parquet")
    plan["pieces"][2][1:3] = [status.st_size, str(status.st_mtime_ns)]
    (staged / "_plan.json").write_text(json.dumps(plan))
    assert _scored(folder, tmp_path / "scored").rows == N
    times = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "scored").glob("part-0000[01].parquet")}
    assert times.items() <= first.items()
    assert not staged.exists()


@pytest.mark.parametrize("change", [{"where": [["id", "<", 10]]}, {"scale": "percent"}, {"format": "parquet"}])
def test_a_job_continues_with_other_options(folder: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    (folder / "2.parquet").write_bytes(b"damaged")
    fitted = calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    scored: dict[str, Any] = {"target": str(tmp_path / "scored"), "map": fitted, "prediction": "p", "job": "job_1"}
    with pytest.raises(SourceUnreadable):
        calibrant.calibrate_source(str(folder), **scored)
    with pytest.raises(SourceChanged):
        calibrant.calibrate_source(str(folder), **scored, **change)


class _KilledFolder(Folder):
    """A folder whose process ends when it begins to publish."""

    def publish(self, staged: str, folder: str, names: Sequence[str]) -> None:
        raise KeyboardInterrupt


def _scored_rows(folder: Path) -> tuple[Scan, Columns, calibrant.CalibrationMap]:
    """All files of a folder, the column of their predictions, and a map to apply."""
    scan, columns = Scan.of(Folder(folder), "*.parquet"), Columns.read(prediction="p", label="")
    return scan, columns, calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


def test_a_file_that_arrives_after_a_kill_in_publication_doubles_rows(folder: Path, tmp_path: Path) -> None:
    (folder / "1.parquet").rename(tmp_path / "1.parquet")
    with pytest.raises(KeyboardInterrupt):
        Scoring(_KilledFolder(tmp_path), "scored", "job_1").run(*_scored_rows(folder))
    (tmp_path / "1.parquet").rename(folder / "1.parquet")
    assert _scored(folder, tmp_path / "scored").rows == 4000
    ids = _table(tmp_path / "scored")["id"].to_pylist()
    assert sorted(ids) == [*range(2000), *range(4000, 6000)]
    assert not (tmp_path / ".calibrant-job_1").exists()


def test_a_target_that_exists_is_written_over(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "scored"
    target.mkdir()
    (target / "theirs.txt").write_text("theirs")
    with pytest.raises(TargetExists):
        _scored(folder, target)
    assert [file.name for file in target.iterdir()] == ["theirs.txt"]
    (tmp_path / "file").write_text("theirs")
    with pytest.raises(TargetExists):
        _scored(folder, tmp_path / "file")


def _scored_in(base: Path, path: str, job: str = "job_2") -> Any:
    fitted = calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    scan, columns = Scan.of(Folder(base / "rows"), "*.parquet"), Columns.read(prediction="p", label="")
    return Scoring(Folder(base), path, job).run(scan, columns, fitted)


def test_a_data_set_in_a_data_set_doubles_its_rows(folder: Path, tmp_path: Path) -> None:
    _scored(folder, tmp_path / "scored")
    for path in ("scored/inner", "scored/a/b"):
        with pytest.raises(TargetExists, match="in a data set"):
            _scored_in(tmp_path, path)
    assert _table(tmp_path / "scored").num_rows == N
    with pytest.raises(KeyboardInterrupt):
        Scoring(_KilledFolder(tmp_path), "other/inner", "job_2").run(
            Scan.of(Folder(folder), "*.parquet"),
            Columns.read(prediction="p", label=""),
            calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]),
        )
    (tmp_path / "other" / "_manifest.json").write_text("{}")  # by another job, in the meantime
    with pytest.raises(TargetExists, match="in a data set"):
        _scored_in(tmp_path, "other/inner")
    assert not (tmp_path / "other" / "inner").exists()


def test_a_target_below_a_file_is_an_internal_error(folder: Path) -> None:
    for path in ("rows/0.parquet/x", "rows/0.parquet/x/y"):
        with pytest.raises(RefusedPath, match="through a file"):
            _scored_in(folder.parent, path)
        assert not Scoring(Folder(folder.parent), path, "job_2").discard()


class _ForbiddenFolder(Folder):
    """A folder that the process may read only, whatever its user may."""

    def create(self, path: str) -> Any:
        raise PermissionError(path)

    def remove(self, folder: str) -> bool:
        raise PermissionError(folder)


def test_a_target_that_may_not_be_written_is_an_internal_error(folder: Path) -> None:
    scoring = Scoring(_ForbiddenFolder(folder.parent), "scored", "job_1")
    with refused_at("/target/path", InvalidOption, match="may not be written"):
        scoring.run(*_scored_rows(folder))
    assert not scoring.discard()


def test_a_source_without_rows_becomes_a_data_set(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    parquet.write_table(_table(folder).slice(0, 0), empty / "x.parquet")
    with pytest.raises(EmptyBatch):
        _scored(empty, tmp_path / "scored")
    with pytest.raises(EmptyBatch):
        gather(Scan.of(Folder(empty), "*.parquet"), Columns.read(prediction="p", label="y"))


def test_files_with_other_columns_become_one_data_set(folder: Path, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"p": [0.5], "extra": [1]}), folder / "9.parquet")
    with pytest.raises(InvalidOption, match="different columns"):
        _scored(folder, tmp_path / "scored")


def test_a_column_named_calibrated_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    parquet.write_table(pa.table({"p": [0.5], "calibrated": [1]}), tmp_path / "rows" / "x.parquet")
    with pytest.raises(InvalidOption, match="calibrated"):
        _scored(tmp_path / "rows", tmp_path / "scored")


def test_a_link_in_the_path_of_a_target_is_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "up").symlink_to(tmp_path)
    with pytest.raises((RefusedPath, TargetExists)):
        Scoring(Folder(tmp_path / "root"), "up/scored", "job_1").run(*_scored_rows(folder))
    assert not (tmp_path / "scored").exists()


# --- Data sets that are not finished


def _interrupted(base: Path, copies: int) -> Remote:
    """Files of an object store, in which a run of ``job_1`` ended after some copies of its files."""
    from pyarrow import fs

    class Killed(Remote):
        copied = 0

        def file(self, path: str) -> StoredFile | None:
            if path.startswith(".calibrant-job_1/part") and path.endswith("parquet") and self._publishes():
                if self.copied == copies:
                    raise KeyboardInterrupt
                self.copied += 1
            return super().file(path)

        def _publishes(self) -> bool:
            return super().file(".calibrant-job_1/_publishing.json") is not None

    for name in (".calibrant-job_1", "scored"):  # which object stores do not need
        (base / name).mkdir()
    storage = Killed(fs.LocalFileSystem(), str(base))
    fitted = calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    scan, columns = Scan.of(Folder(base / "rows"), "*.parquet"), Columns.read(prediction="p", label="")
    with pytest.raises(KeyboardInterrupt):
        Scoring(storage, "scored", "job_1").run(scan, columns, fitted)
    return Remote(fs.LocalFileSystem(), str(base))


@pytest.mark.parametrize("copies", [0, 2])
def test_an_unfinished_data_set_stays_in_an_object_store(folder: Path, copies: int) -> None:
    base = folder.parent
    storage = _interrupted(base, copies)
    (base / "scored" / "theirs.parquet").write_bytes(b"theirs")
    assert len(list((base / "scored").iterdir())) == copies + 1
    scoring = Scoring(storage, "scored", "job_1")
    assert scoring.discard()
    assert [file.name for file in (base / "scored").iterdir()] == ["theirs.parquet"]
    assert not (base / ".calibrant-job_1").exists()
    assert not scoring.discard()


def test_a_data_set_that_is_whole_is_withdrawn(folder: Path) -> None:
    _scored(folder, folder.parent / "scored")
    assert not Scoring(Folder(folder.parent), "scored", "job_1").discard()
    assert _table(folder.parent / "scored").num_rows == N


def test_a_large_file_is_copied_with_other_content(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    monkeypatch.setattr("calibrant.distributed.storage._MOST_COPIED", 100)
    monkeypatch.setattr("calibrant.distributed.storage._COPIED_AT_ONCE", 7)
    for name in (".calibrant-job_1", "scored"):
        (folder.parent / name).mkdir()
    storage = Remote(fs.LocalFileSystem(), str(folder.parent))
    assert Scoring(storage, "scored", "job_1").run(*_scored_rows(folder)).rows == N
    assert _table(folder.parent / "scored")["id"].to_pylist() == list(range(N))
