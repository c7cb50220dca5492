from __future__ import annotations

import datetime as dt
import io

import numpy as np
import pyarrow as arrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from calibrant.io.errors import MissingValue, NotLabels, TabularError, UnknownColumn, UnmatchedArrays
from calibrant.io.files import read_columns
from tests.packed import feather, npz, parquet

IDS, TIMES = ["a 1", "b;2", "c"], [1.5, 2.0, 3.25]


FILES = {
    "csv": b'id,p,t\n"a 1",0.5,1.5\nb;2,0.5,2.0\n c ,0.5,3.25\n',
    "tsv": b"id\tt\na 1\t1.5\nb;2\t2.0\nc\t3.25\n",
    "npz": npz(id=np.array(IDS), t=np.array(TIMES)),
    "parquet": parquet({"id": IDS, "t": TIMES}),
    "feather": feather({"id": arrow.array(IDS).dictionary_encode(), "t": TIMES}),
}


@pytest.mark.parametrize("kind", FILES)
def test_columns_are_read_unchanged_from_every_kind_of_file(kind: str) -> None:
    times, ids = read_columns(io.BytesIO(FILES[kind]), ["t", "id"], name=kind)
    assert ids == IDS
    assert [float(time) for time in times] == TIMES


def test_more_different_ids_than_there_may_be_labels_are_read() -> None:
    text = "id\n" + "\n".join(f"row-{i}" for i in range(30_000))
    (ids,) = read_columns(io.BytesIO(text.encode()), ["id"], name="ids.csv")
    assert len(set(ids)) == 30_000


def test_dates_of_parquet_have_their_zone() -> None:
    noon = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
    (times,) = read_columns(io.BytesIO(parquet({"t": [noon]})), ["t"], name="x")
    assert dt.datetime.fromisoformat(times[0]) == noon


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"id,p\na,1\n,2\n", MissingValue, "row 2 of column 'id' is empty"),
        (b"key,p\na,1\n", UnknownColumn, "no column 'id'; it has 'key', 'p'"),
        (npz(id=np.zeros((2, 2))), UnmatchedArrays, "column 'id' has vectors; one string or number per row is"),
        (parquet({"id": ["a", None]}), MissingValue, "row 2"),
        (
            parquet({"id": [[1.0], [2.0, 3.0]]}),
            NotLabels,
            "has the type list; it must be numbers or strings",
        ),
    ],
)
def test_an_unreadable_column_is_refused(content: bytes, error: type[TabularError], message: str) -> None:
    with pytest.raises(error) as refusal:
        read_columns(io.BytesIO(content), ["id"], name="x")
    assert message in refusal.value.detail
