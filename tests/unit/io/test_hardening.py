"""Files and bodies that would take more memory or time than their size suggests."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from calibrant.io.csv import layout_of
from calibrant.io.declared_sizes import ThriftReader
from calibrant.io.errors import DamagedFile, FileTooLarge, NotLabels, TabularError, UnmatchedArrays
from calibrant.io.files import FileOptions, Sheet, read_forecast_sheet, read_sheet
from calibrant.io.limits import FileLimits, Limits
from calibrant.io.strict import read_arrow, read_csv, read_npz
from tests.commands import printed_by
from tests.packed import arrow
from tests.unit.io.memory import peak_of
from tests.unit.io.refused import refused

ROWS = b"label,p\n0,0.25\n", b"1,0.5\n"


def read(content: bytes) -> Sheet:
    return read_sheet(io.BytesIO(content), name="a", max_rows=None)


def test_members_of_gzip_are_one_file_and_zeros_after_them_are_padding() -> None:
    members = [gzip.compress(part) for part in ROWS]
    assert len(read(b"".join(members) + bytes(512))) == 2
    assert len(read(members[0] + bytes(7) + members[1])) == 2
    with pytest.raises(DamagedFile):
        read(b"".join(members) + b"x")


def test_a_file_of_empty_members_is_refused() -> None:
    flood = gzip.compress(b"") * 70_000
    with pytest.raises(DamagedFile, match="gzip"):
        read(gzip.compress(ROWS[0]) + flood)


def _archive_of_many() -> bytes:
    """An archive with 5 MB of names, whose members are empty."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for i in range(100):
            archive.writestr(f"{i:03}".ljust(50_000, "a") + ".npy", b"")
    return file.getvalue()


def test_an_archive_whose_list_of_members_is_long_is_refused_before_it_is_read() -> None:
    content = _archive_of_many()
    with pytest.raises(FileTooLarge, match="list of members"):
        read(content)
    assert refused(lambda: read_npz(content, Limits(1 << 30, None, 10))) == ("too-large", "")


def test_stored_arrays_of_a_body_are_not_copied() -> None:
    # The names are so long that the numbers begin at a multiple of eight.
    for extra in range(8):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            member = zipfile.ZipInfo("predictions.npy")
            member.extra = b"\0\0" + (extra + 1).to_bytes(2, "little") + bytes(extra + 1)
            array = io.BytesIO()
            np.save(array, np.linspace(0, 1, 100))
            archive.writestr(member, array.getvalue())
        body = file.getvalue()
        predictions = read_npz(body, Limits(1 << 20, 100, 10))["predictions"]
        np.testing.assert_array_equal(predictions, np.linspace(0, 1, 100))
        if np.shares_memory(predictions, np.frombuffer(body, np.uint8)):
            return
    pytest.fail("every array was copied")


def test_the_readers_are_imported_with_numpy_alone() -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(('pyarrow', 'zstandard'))\n"
        "import calibrant.io.files, calibrant.io.strict as strict\n"
        "from calibrant.core.errors import MissingExtra\n"
        "from calibrant.io.limits import Limits\n"
        "print(strict.read_csv(b'labels\\n1\\n', Limits(99, 9, 2))['labels'])\n"
        "for read in (strict.read_arrow, strict.read_parquet):\n"
        "    try: read(b'', Limits(99, 9, 2))\n"
        "    except MissingExtra as error: print(\"pip install 'calibrant[files]'\" in error.detail)\n"
    )
    assert printed_by(code).split() == ["[1.]", "True", "True"]


def _coded(*texts: str | None) -> pa.DictionaryArray:
    """A long column of codes of the first text."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int8)), pa.array(texts))


def test_a_missing_name_in_a_dictionary_does_not_repeat_the_others() -> None:
    columns = {"predictions": np.full(100_000, 0.5), "groups": _coded("x" * 1000, None)}
    body = arrow(columns, compression="zstd")
    bound = Limits(1 << 30, None, 10)
    assert peak_of(lambda: refused(lambda: read_arrow(body, bound))) < 20 << 20
    assert refused(lambda: read_arrow(body, bound)) == ("invalid-option", "/groups/0")


@pytest.mark.parametrize("code", [np.int8, np.uint8, np.uint64])
def test_missing_names_in_a_dictionary_are_found(code: type) -> None:
    groups = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], type=pa.from_numpy_dtype(code)), pa.array(["a", None]))
    body = arrow({"predictions": [0.5, 0.5, 0.5], "groups": groups}, compression="zstd")
    assert refused(lambda: read_arrow(body, Limits(1 << 20, None, 10))) == ("not-a-number", "/groups/1")


def test_a_long_name_of_forecasts_is_refused_and_not_repeated() -> None:
    zeros = np.zeros(100_000)
    body = arrow({"y": zeros, "mean": zeros, "std": zeros + 1, "time": _coded("x" * 1000)}, compression="zstd")
    options = FileOptions(times="time")

    def read_it() -> None:
        with pytest.raises(NotLabels, match="more than 256 characters"):
            read_forecast_sheet(io.BytesIO(body), name="a", options=options, max_rows=None)

    assert peak_of(read_it) < 60 << 20


def _page_of_many_values(depth: int) -> bytes:
    """A Parquet file with an unknown list in the header of its page."""
    file = io.BytesIO()
    table = pa.table({"predictions": np.full(8, 0.5)})
    pa.parquet.write_table(table, file, compression="none", use_dictionary=False)
    body = file.getvalue()
    # PageHeader: the type of the page, then a list of empty structs as field 20.
    header = b"\x15\0" + b"\x09\x28" + b"\xfc" + b"\x80\x80\x04" + bytes(depth)
    return body[:4] + header + body[4:]


def test_the_header_of_a_page_has_few_values() -> None:
    body = memoryview(_page_of_many_values(1 << 16))[4:]
    with pytest.raises(FileTooLarge, match="too many values"):
        ThriftReader(body, 64).struct(0)


def test_decimals_of_variable_length_are_refused_with_their_column() -> None:
    file = io.BytesIO()
    pa.parquet.write_table(pa.table({"label": [1, 0], "pd": pa.array([b"\x05", b"\x02"])}), file)
    content = file.getvalue()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    # After the name: the converted type DECIMAL (5), the scale 1 and the precision 2, each as a zigzag.
    named = b"\x18\x02pd"
    changed = footer.replace(named + b"\0", named + b"\x25\x0a\x15\x02\x15\x04\0", 1)
    assert len(changed) == len(footer) + 6
    body = content[: -8 - len(footer)] + changed + len(changed).to_bytes(4, "little") + content[-4:]
    with pytest.raises(DamagedFile, match="column 'pd' has values of variable length"):
        read(body)


def test_a_row_over_many_lines_has_bounded_cells() -> None:
    for head in (b"y,p\n", b""):
        with pytest.raises(FileTooLarge, match="1,048,576 characters"):
            read(head + b'"a\n",' * 300_000 + b"1\n")
    with pytest.raises(FileTooLarge, match="columns"):
        read(b'"a\n",' * 20_000 + b"1\n0\n")
    long = b"predictions,labels\n" + b'"a\n",' * 300_000 + b"1\n"
    assert refused(lambda: read_csv(long, Limits(1 << 30, None, 10))) == ("too-large", "")


def test_the_first_rows_of_a_wide_file_have_bounded_cells() -> None:
    width = 5_000
    header = ",".join(f"c{k}" for k in range(width)).encode() + b"\n"
    layout = layout_of(io.BytesIO(header + (b"11," * (width - 1) + b"11\n") * 1000), FileLimits())
    assert len(layout.sample) == 209


def test_blank_lines_beyond_one_per_row_are_bounded() -> None:
    assert len(read(b"label,p\n\n" + b"0,0.25\n\n1,0.5\n\n" * 60_000)) == 120_000
    for end in (b"\n", b"\r"):
        with pytest.raises(FileTooLarge, match="blank lines"):
            read(b"label,p\n" + end * 200_000)


@pytest.mark.slow
def test_json_lines_with_many_numbers_are_converted_before_all_are_read() -> None:
    line = b'{"p":[%b],"label":1}\n' % b",".join([b"0.1"] * 10_000)
    content = b'{"p":[%b],"label":1}\n' % b",".join([b"[]"] * 300_000)
    assert peak_of(lambda: _refused_file(line + content * 20)) < 200 << 20
    with pytest.raises(FileTooLarge, match="columns"):
        read(b'{"p":[%b],"label":1}\n' % b",".join([b"0"] * 10_001))


def _refused_file(content: bytes) -> None:
    with pytest.raises(UnmatchedArrays):
        read(content)


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["_", "0_", "0", "1.", "q_"])
@pytest.mark.parametrize("read", [read_sheet, read_forecast_sheet])
def test_names_of_many_separators_and_digits_are_refused(read: Callable[..., Any], mark: str) -> None:
    """One megabyte of such names took half a minute when the time grew with the square of their length."""
    names = [(mark * 250)[:250] + f"{i:04d}x" for i in range(500)]
    rows = (",".join(["y", *names]), ",".join(["1"] + ["0.5"] * 500), ",".join(["0"] + ["0.25"] * 500))
    with pytest.raises(TabularError):
        read(io.BytesIO("\n".join(rows).encode()), name="a.csv", max_rows=None)


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_file_of_polars_is_refused_or_read(seed: int) -> None:
    file = io.BytesIO()
    labels = pl.Series(["a", "b"] * 9, dtype=pl.Categorical)
    pl.DataFrame({"label": labels, "p_a": 0.5, "p_b": 0.5}).write_ipc(file, compression="lz4")
    random = np.random.default_rng(seed)
    for _ in range(200):
        content = bytearray(file.getvalue())
        for place in random.integers(random.choice([0, len(content) - 400]), len(content), random.integers(1, 4)):
            content[place] = random.integers(256)
        try:
            assert len(read(bytes(content))) == 18
        except TabularError:
            continue


def test_blocks_of_an_arrow_file_do_not_overlap() -> None:
    file = io.BytesIO()
    frame = pl.DataFrame({"label": [0, 1], "p": [0.25, 0.5]})
    frame.write_ipc(file)
    content = file.getvalue()
    longer = content.replace((128).to_bytes(8, "little"), (1 << 20).to_bytes(8, "little"))
    assert longer != content
    with pytest.raises(DamagedFile):
        read(longer)
