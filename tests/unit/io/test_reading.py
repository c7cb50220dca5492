"""Files of every kind give the same sheet, whatever they are called and wherever they are read from."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import subprocess
import sys
import threading
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from calibrant.core.arrays import group_names
from calibrant.core.errors import CalibrationError
from calibrant.io.cells import periods
from calibrant.io.errors import (
    BadMapping,
    FileTooLarge,
    MissingValue,
    TabularError,
    TextInNumbers,
    TooManyGroups,
    UnclearColumns,
    UnknownColumn,
    UnmatchedArrays,
    UnreadableFile,
)
from calibrant.io.files import FileOptions, Sheet, read_forecast_sheet, read_sheet
from tests.known import known
from tests.packed import arrow, feather, parquet, zipped
from tests.traced import PeakOf
from tests.unit.io import files
from tests.unit.io.sheets import labels_of, weights_of


def read(content: bytes, **more: Any) -> Sheet:
    return read_sheet(io.BytesIO(content), name="a.bin", max_rows=more.pop("max_rows", None), **more)


@pytest.mark.parametrize("content", files.ALL.values(), ids=files.ALL.keys())
def test_every_kind_of_file_gives_the_same_arrays(content: bytes) -> None:
    weights = next(note.split("'")[1] for note in read(content).notes if note.startswith("weights: none; column "))
    sheet = read(content, options=FileOptions(weights=weights))
    assert sheet.predictions.dtype == np.float64
    assert sheet.predictions.tolist() == files.PROBS
    assert sheet.labels is not None
    assert sheet.labels.dtype == np.int64
    assert sheet.labels.tolist() == files.LABELS
    assert weights_of(sheet) == files.WEIGHTS
    assert sheet.groups == files.GROUPS
    assert (sheet.scale, sheet.classes, len(sheet)) == ("probability", None, 4)


@pytest.mark.parametrize("content", files.ALL.values(), ids=files.ALL.keys())
def test_every_kind_of_file_refuses_more_rows_than_the_limit(content: bytes) -> None:
    assert len(read(content, max_rows=4)) == 4
    with pytest.raises(FileTooLarge, match="3"):
        read(content, max_rows=3)


def _in_every_format(columns: Mapping[str, Sequence[Any]]) -> dict[str, bytes]:
    rows = list(zip(*columns.values(), strict=True))
    archive = io.BytesIO()
    arrays: dict[str, Any] = {name: np.array(column) for name, column in columns.items()}
    np.savez(archive, **arrays)
    return {
        "csv": "\n".join(",".join(map(str, row)) for row in [tuple(columns), *rows]).encode(),
        "json lines": "\n".join(json.dumps(dict(zip(columns, row, strict=True))) for row in rows).encode(),
        "npz": archive.getvalue(),
        "parquet": parquet(columns),
        "arrow": arrow(columns, chunk=3),
    }


def test_the_group_of_a_row_is_the_combination_of_the_values_of_several_columns() -> None:
    columns: dict[str, list[Any]] = {
        "y": [1, 0, 1, 0],
        "p": [0.5, 0.25, 0.75, 0.5],
        "site": ["b", "a", "b", "a"],
        "age": [30, 9, 4, 9],
    }
    options = FileOptions(groups=("age", "site"))
    for name, content in _in_every_format(columns).items():
        assert read(content, options=options).groups == ["30, b", "9, a", "4, b", "9, a"], name
    # pyarrow reads plain CSV files; a quoted cell that spans lines takes the other path.
    rows = b'y,p,site,age\n1,.5,"b\nb",30\n0,.5,a,9\n'
    assert read(rows, options=options).groups == ["30, b\nb", "9, a"]
    mean = io.BytesIO(b"y,mean,std,site,age\n1,1,1,b,2\n2,1,1,a,2\n")
    forecasts = read_forecast_sheet(mean, name="f.csv", options=FileOptions(groups=("site", "age")), max_rows=None)
    assert forecasts.groups == ["b, 2", "a, 2"]


def test_several_columns_of_groups_have_one_bound_and_no_missing_value() -> None:
    n = 1200
    columns: dict[str, list[Any]] = {
        "y": [0, 1] * (n // 2),
        "p": [0.5] * n,
        "a": [i % 40 for i in range(n)],
        "b": [i // 40 for i in range(n)],
    }
    for content in _in_every_format(columns).values():
        assert len(set(read(content, options=FileOptions(groups=("a",))).groups or ())) == 40
        with pytest.raises(TooManyGroups, match="columns 'a', 'b' together have more than 1,000 distinct groups"):
            read(content, options=FileOptions(groups=("a", "b")))
        with pytest.raises(UnclearColumns, match="'a' cannot be used for both groups and groups"):
            read(content, options=FileOptions(groups=("a", "a")))
        with pytest.raises(UnknownColumn, match=r"no column 'c'"):
            read(content, options=FileOptions(groups=("a", "c")))
    assert read(b"y,p,a,b\n1,.5,x,y\n0,.5,x,\n", options=FileOptions(groups=("a", "b"))).groups == [
        "x, y",
        "x, (missing)",
    ]
    archive = io.BytesIO()
    np.savez(archive, y=[0, 1], p=[0.5, 0.5], a=[1, 2], b=[1, 2, 3])
    with pytest.raises(UnmatchedArrays, match="groups has length 3"):
        read(archive.getvalue(), options=FileOptions(groups=("a", "b")))


class _Counted(io.BytesIO):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        read_bytes = super().read(size)
        self.count += len(read_bytes)
        return read_bytes

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer)
        self.count += count
        return count

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.count += len(line)
        return line


@pytest.mark.parametrize("kind", ["csv", "json lines"])
def test_missing_values_of_many_columns_are_counted_in_one_pass(kind: str) -> None:
    columns: dict[str, list[Any]] = {"y": [0, 1] * 20} | {f"prob_{k}": ["", "nan"] * 20 for k in range(500)}
    content = _in_every_format(columns)[kind]
    file = _Counted(content)
    with pytest.raises(MissingValue, match=r"40 rows of column 'prob_0', .* those of 492 more columns, first in row 1"):
        read_sheet(file, name="a.bin", max_rows=None)
    assert len(content) < file.count < 8 * len(content)


def test_ambiguous_columns_are_refused_with_their_readings() -> None:
    assert read(files.ALL["csv in UTF-16"]).notes[:2] == ("the text is UTF-16", "the columns are separated by tabs")
    assert read(b"y;p\n0.0;0.5\n1.0;1\n").notes == (
        "the columns are separated by semicolons",
        "labels: column 'y' (inferred from its name)",
        "predictions: column 'p', the probability of class 1 (inferred from its name)",
        "labels: written as 0.0 and 1.0, read as integers",
    )


def test_names_are_shortened_and_without_unprintable_characters() -> None:
    with pytest.raises(TabularError) as refused:
        read(f"a\x1b[31mb,{'n' * 500},c\u202ed\n1,2,3\n".encode())
    assert refused.value.detail.isprintable()
    assert len(refused.value.detail) < 250


def test_logits_are_read_on_request() -> None:
    sheet = read(b"label,logit\n1,-3.5\n0,2\n", options=FileOptions(scale="logit"))
    assert sheet.predictions.tolist() == [-3.5, 2]
    assert sheet.scale == "logit"


def test_rounding_of_real_classifiers_is_handled_by_the_library() -> None:
    assert read(b"label,p\n1,1.00001\n0,-0.00001\n").predictions.tolist() == [1.00001, -0.00001]


def test_a_mapping_gives_the_labels_and_the_names_of_the_classes() -> None:
    sheet = read(b"label,p\nspam,0.5\nham,1\n", options=FileOptions(mapping={"spam": 1, "ham": 0}))
    assert labels_of(sheet) == [1, 0]
    assert sheet.classes == ("ham", "spam")


def test_a_mapping_of_all_labels_to_one_class_is_refused_and_of_one_label_is_not() -> None:
    options = FileOptions(mapping={"spam": 1, "ham": 1, "1": 1})
    with pytest.raises(BadMapping, match="same class"):
        read(b"label,p\nspam,0.5\nham,1\n", options=options)
    for same in (b"label,p\nspam,0.5\nspam,1\n", b"label,p\n1,0.5\n1.0,1\n"):
        sheet = read(same, options=options)
        assert labels_of(sheet) == [1, 1]


def test_a_mapping_matches_a_number_in_every_notation() -> None:
    sheet = read(b"label,p\n-1.0,0.5\n1.0,1\n", options=FileOptions(mapping={"-1": 0, "1": 1}))
    assert labels_of(sheet) == [0, 1]


def test_labels_are_not_inferred_if_they_are_not_needed() -> None:
    assert read(b"label,p\nhm,0.5\n", labelled=False).labels is None


def test_a_path_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(files.ALL["parquet"])
    assert len(read_sheet(path, name=path.name, max_rows=None)) == 4
    with pytest.raises(UnreadableFile, match="No such file"):
        read_sheet(tmp_path / "none", name="none", max_rows=None)


def test_a_pipe_is_read() -> None:
    code = (
        "import sys; from calibrant.io.files import read_sheet\n"
        "print(len(read_sheet(sys.stdin.buffer, name='-', max_rows=None)))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=files.ALL["npz"], capture_output=True, check=True)
    assert done.stdout == b"4\n"


@pytest.mark.parametrize(
    "content", [files.ALL["csv"], files.ALL["npz"], files.ALL["parquet"], b"\x89PNG\r\n\x1a\n", b"p,p\n1,1"]
)
def test_a_stream_stays_open_with_any_content(content: bytes) -> None:
    stream = io.BytesIO(content)
    for _ in range(2):
        try:
            read_sheet(stream, name="a", max_rows=None)
        except TabularError as error:
            assert error.detail  # noqa: PT017
    stream.seek(0)
    assert stream.read() == content


def test_a_million_rows_take_the_library_and_the_standard_reader_to_the_same_numbers() -> None:
    lines = "".join(f"{i % 2},{i / 200_000!r}\n" for i in range(200_000))
    sheet = read(b"label,p\n" + lines.encode())
    assert np.array_equal(sheet.predictions, np.arange(200_000) / 200_000)
    assert np.array_equal(known(sheet.labels), np.arange(200_000) % 2)


class _Watched(io.BytesIO):
    """Bytes that record which threads read them."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.readers: set[int] = set()

    def read(self, size: int | None = -1, /) -> bytes:
        self.readers.add(threading.get_ident())
        return super().read(size)


@pytest.mark.parametrize(
    "content", [*files.ALL.values(), b"y,p\n0,x\n" + b"1,0.5\n" * 500_000], ids=[*files.ALL, "large"]
)
def test_the_calling_thread_alone_reads_a_file(content: bytes) -> None:
    """A thread that still reads ahead would move the file for the next reader, and abort the process as it exits."""
    stream = _Watched(content)
    with contextlib.suppress(TabularError):
        read_sheet(stream, name="a", max_rows=None)
    assert stream.readers == {threading.get_ident()}


@pytest.mark.slow
def test_a_large_text_file_is_read_from_a_path_and_packed(tmp_path: Path) -> None:
    zeros, pairs = b"0" * 90, 170_000  # more than 32 MiB, which are read another way, in few rows
    content = b"y,p\n" + b"1,0.123456%b\n0,0.654321%b\n" % (zeros, zeros) * pairs
    assert len(content) > 32 << 20
    (tmp_path / "large.csv").write_bytes(content)
    (tmp_path / "large.csv.gz").write_bytes(gzip.compress(content, 1))
    for name in ("large.csv", "large.csv.gz"):
        sheet = read_sheet(tmp_path / name, name=name, max_rows=None)
        assert np.array_equal(sheet.predictions, np.tile([0.123456, 0.654321], pairs))
        assert np.array_equal(known(sheet.labels), np.tile([1, 0], pairs))
    (tmp_path / "large.csv").write_bytes(content + b"1,x\n")
    with pytest.raises(TextInNumbers, match=f"row {2 * pairs + 1}"):
        read_sheet(tmp_path / "large.csv", name="large.csv", max_rows=None)


def _archive_of(size: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("probs.npy", "w") as member:
        header = {"descr": "|u1", "fortran_order": False, "shape": (size,)}
        np.lib.format.write_array_header_1_0(member, header)
        member.write(bytes(size))
    return file.getvalue()


BOMBS = {
    "gzip": lambda: gzip.compress(bytes(64 << 20)),
    "bzip2": lambda: bz2.compress(bytes(64 << 20)),
    "xz": lambda: lzma.compress(bytes(64 << 20)),
    "zip": lambda: zipped({"a.csv": bytes(64 << 20)}, zipfile.ZIP_DEFLATED),
    "npz": lambda: _archive_of(64 << 20),
    "csv": lambda: b"label,p\n" + b"1,0.5\n" * 1_000_000,
    "line": lambda: b"label,p\n" + b"1" * (5 << 20),
}


def _refused_as_too_large(content: bytes) -> None:
    with pytest.raises(FileTooLarge):
        read(content, max_bytes=4 << 20, labelled=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
def test_a_file_that_unpacks_beyond_the_limit_is_refused_in_little_memory(peak_of: PeakOf, kind: str) -> None:
    assert peak_of(_refused_as_too_large, BOMBS[kind]()) < 24 << 20


def test_text_is_read_without_pyarrow_and_parquet_names_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_bytes(files.ALL["csv"])
    (tmp_path / "p.parquet").write_bytes(files.ALL["parquet"])
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path; from calibrant.core.errors import MissingExtra\n"
        "from calibrant.io.files import read_sheet\n"
        "print(len(read_sheet(Path('p.csv'), name='p', max_rows=None)))\n"
        "try: read_sheet(Path('p.parquet'), name='p', max_rows=None)\n"
        "except MissingExtra as error: print(error.detail)\n"
    )
    root = Path(__file__).parents[3] / "library"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
    )
    assert done.stdout == (
        "4\na Parquet file needs pyarrow, which is not installed: pip install 'calibrant[files]'; "
        "or save it as CSV or NPZ\n"
    )


class _Heavy(CalibrationError):
    """Raised where heavy work would begin."""


class _Budget:
    """A budget of 1 MiB."""

    def __init__(self) -> None:
        self.left = 1 << 20

    def __call__(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise _Heavy("not now")


def _many() -> dict[str, bytes]:
    shown = pa.table({"p": np.full(200_000, 0.5), "y": np.zeros(200_000, dtype=np.int64)})
    arrays = io.BytesIO()
    np.savez_compressed(arrays, p=np.full(200_000, 0.5), y=np.zeros(200_000, dtype=np.int64))
    lines = b"p,y\n" + b"0.5,0\n" * 200_000
    return {
        "csv": lines,
        "csv.gz": gzip.compress(lines),
        "csv.zst": zstandard.compress(lines),
        "csv of Windows.gz": gzip.compress(lines.replace(b"\n", b"\r\n")),
        "npz": arrays.getvalue(),
        "parquet": parquet(shown),
        "feather": feather(shown),
    }


def _refused_as_heavy(content: bytes) -> None:
    with pytest.raises(_Heavy):
        read(content, budget=_Budget())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "content"), _many().items(), ids=_many().keys())
def test_memory_is_reserved_before_a_file_is_unpacked(peak_of: PeakOf, kind: str, content: bytes) -> None:
    assert peak_of(_refused_as_heavy, content) < 8 << 20 or kind == "csv"


@pytest.mark.parametrize("content", files.ALL.values(), ids=files.ALL.keys())
def test_a_small_file_needs_little_memory_with_every_compression(content: bytes) -> None:
    assert len(read(content, budget=_Budget())) == 4


@pytest.mark.parametrize("form", ["npz", "shortest", "exact"])
def test_rows_of_half_precision_are_divided_by_their_sum(form: str) -> None:
    random = np.random.default_rng(0)
    probs, labels = random.dirichlet(np.ones(4), 100).astype(np.float16), random.integers(0, 4, 100)
    probs[0] = [-0.0, 0.25, 0.25, 0.5]
    file = io.BytesIO()
    if form == "npz":
        np.savez(file, probs=probs, labels=labels)
    else:
        cells = [[str(p) if form == "shortest" else repr(float(p)) for p in row] for row in probs]
        rows = [",".join([str(label), *row]) for label, row in zip(labels, cells, strict=True)]
        file.write("\n".join(["label,prob_0,prob_1,prob_2,prob_3", *rows]).encode())
    columns = read_sheet(file, name="half", max_rows=None)
    assert np.abs(probs.sum(axis=1, dtype=float) - 1).max() > 1e-4
    np.testing.assert_allclose(columns.predictions.sum(axis=1), 1.0, atol=1e-12)
    assert columns.notes[-1] == "predictions: of half precision (float16); each row is divided by its sum"


def test_rows_of_full_precision_are_not_divided_by_their_sum() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 100) * 1.0005
    file = io.BytesIO()
    np.savez(file, probs=probs, labels=np.arange(100) % 4)
    assert read_sheet(file, name="full", max_rows=None).predictions.tolist() == probs.tolist()


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (pa.date32(), "2026-01-01"),
        (pa.date64(), "2026-01-01"),
        (pa.timestamp("us", tz="Europe/Berlin"), "2026-01-01T01:00:00+01:00"),
        (pa.timestamp("ns"), "2026-01-01T00:00:00"),
    ],
    ids=str,
)
def test_times_of_a_file_with_types_may_be_dates_or_have_a_zone(kind: pa.DataType, first: str) -> None:
    days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=k) for k in (0, 31, 90)]
    times = pa.array(days, pa.timestamp("us", tz="UTC")).cast(kind, safe=False)
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"y": [0, 1, 1], "p": [0.25, 0.5, 0.75], "t": times}), file)
    columns = read_sheet(file, name="dates", options=FileOptions(times="t"), max_rows=None)
    assert columns.times is not None
    assert columns.times[0] == first
    assert periods(columns.times, "column 't'") == ["2026-01", "2026-02", "2026-04"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("1 - 0 -", "2 rows of column 'p', 2 of column 'y', first in row 2"),
        ("+ - + -", "2 rows of column 'p', first in row 2"),
        ("cat . dog .", "2 rows of column 'p', first in row 2"),
    ],
)
def test_labels_that_are_missing_as_predictions_are_counted(labels: str, message: str) -> None:
    rows = zip(labels.split(), ["0.5", "-", "0.25", "-"], strict=True)
    text = "\n".join(["y,p", *(f"{label},{p}" for label, p in rows)])
    with pytest.raises(MissingValue, match=message):
        read_sheet(io.BytesIO(text.encode()), name="dashes.csv", max_rows=None)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["north", None, "south", None]),
        pa.array(["north", None, "south", None]).dictionary_encode(),
        pa.array([1, None, 2, None]),
        pa.array([True, None, False, None]),
        pa.array([None] * 4, pa.string()),
        pa.array(["a", "", "b", ""]),
    ],
    ids=str,
)
def test_rows_without_a_group_are_a_group_as_in_the_library(column: pa.Array) -> None:
    table = pa.table({"y": [0, 1, 1, 0], "p": [0.25, 0.5, 0.75, 0.5], "site": column})
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    expected = group_names([cell or None if isinstance(cell, str) else cell for cell in column.to_pylist()])
    options = FileOptions(groups=("site",))
    assert read_sheet(file, name="groups", options=options, max_rows=None).groups == expected
    lines = io.BytesIO("\n".join(map(json.dumps, table.to_pylist())).encode())
    assert read_sheet(lines, name="groups", options=options, max_rows=None).groups == expected
