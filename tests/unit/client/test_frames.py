from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibrant
from calibrant.client import Calibrant, UnusableRows
from calibrant.client.frames import labels_of, names_of, numbers_of, split_rows
from calibrant.client.packing import pack, unpack
from calibrant.core.arrays import like
from tests.commands import printed_by

P, PROBS = [0.25, 0.5, 1.0], [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]]
INDEX = pd.Index(["a", "b", "c"])
VECTORS = [
    P,
    tuple(P),
    np.array(P),
    np.array(P, dtype=np.float32),
    np.ma.array(P),
    pd.Series(P),
    pd.Series(P, dtype="Float64"),
    pd.Series(P, dtype="float64[pyarrow]"),
    pl.Series(P),
    pl.Series(P, dtype=pl.Float32),
    pa.array(P),
    pa.chunked_array([P[:1], P[1:]]),
]
MATRICES = [
    PROBS,
    np.array(PROBS),
    pd.DataFrame(PROBS),
    pd.DataFrame(PROBS).astype({0: "Float64", 1: "float32"}),
    pl.DataFrame(PROBS, orient="row"),
    pl.DataFrame(PROBS, orient="row", schema={"a": pl.Float32, "b": pl.Float64}),
    pl.Series(PROBS, dtype=pl.Array(pl.Float64, 2)),
    pa.table({"a": [row[0] for row in PROBS], "b": [row[1] for row in PROBS]}),
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda container: type(container).__name__)
def test_numbers_of_a_vector_are_the_same_in_every_container(vector: Any) -> None:
    np.testing.assert_array_equal(numbers_of(vector, "predictions"), P)


@pytest.mark.parametrize("matrix", MATRICES, ids=lambda container: type(container).__name__)
def test_columns_are_classes_in_order(matrix: Any) -> None:
    np.testing.assert_array_equal(numbers_of(matrix, "predictions"), PROBS)


@pytest.mark.parametrize(
    "predictions", [np.array(P, np.float32), pd.Series(P, dtype="float32"), pl.Series(P, dtype=pl.Float32)]
)
def test_single_precision_stays_single_precision_on_the_wire(predictions: Any) -> None:
    arrays, _ = split_rows({"predictions": predictions})
    assert unpack(pack(arrays))["predictions"].dtype == np.float32


MISSING = [
    ([0.5, None], "predictions: 1 value is missing, first in row 1"),
    (np.ma.array([0.5, 0.25, 0.5], mask=[False, True, True]), "predictions: 2 values are missing, first in row 1"),
    (pd.Series([0.5, float("nan")]), "predictions: 1 value is missing, first in row 1"),
    (pd.Series([None, 0.5], dtype="Float64"), "predictions: 1 value is missing, first in row 0"),
    (pd.DataFrame({"a": [0.5, 0.5], "b": [0.5, None]}), "predictions: 1 value is missing, first in row 1"),
    (pl.Series([0.5, None]), "predictions: 1 value is missing, first in row 1"),
    (pl.DataFrame({"a": [0.5, 0.5], "b": [None, 0.5]}), "predictions: 1 value is missing, first in row 0"),
    (pa.array([0.5, None]), "predictions: 1 value is missing"),
    (pa.table({"a": [0.5, None]}), "predictions: 1 value is missing"),
]


@pytest.mark.parametrize(("predictions", "message"), MISSING)
def test_missing_values_are_refused_with_their_place_before_sending(predictions: Any, message: str) -> None:
    with pytest.raises(UnusableRows) as refusal:
        split_rows({"predictions": predictions})
    assert str(refusal.value).startswith(message)


UNUSABLE = [
    ("predictions", ["0.5"], "predictions: must hold numbers, not text"),
    ("predictions", pd.Series(["x"]), "predictions: must hold numbers"),
    ("predictions", [1j], "predictions: must hold numbers, not complex"),
    ("predictions", pl.LazyFrame({"a": [1.0]}), "predictions: is a lazy frame; call collect() first"),
    ("labels", ["spam"], "labels: must be integers, 0/1 or 0..K-1, not text; map them to integers first"),
    ("labels", pd.Series([1, None]), "labels: 1 value is missing"),
]


@pytest.mark.parametrize(("field", "container", "message"), UNUSABLE)
def test_unsendable_values_are_refused_with_a_readable_error(field: str, container: Any, message: str) -> None:
    with pytest.raises(UnusableRows) as refusal:
        split_rows({field: container})
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("container", "dtype"),
    [
        ([True, False], np.uint8),
        (np.array([0, 1]), np.uint8),
        (pd.Series([0, 999], dtype="Int64"), np.uint16),
        (pl.Series([0, 70_000]), np.uint32),
        ([-1, 200], np.int16),
        ([0.0, 1.0], np.float64),
    ],
)
def test_labels_travel_in_the_fewest_bytes_that_hold_them(container: Any, dtype: type) -> None:
    labels = labels_of(container)
    assert labels.dtype == dtype
    np.testing.assert_array_equal(labels, np.asarray(container))


@pytest.mark.parametrize(
    "names_in",
    [
        ["x", "yy"],
        np.array(["x", "yy"]),
        pd.Series(["x", "yy"]),
        pd.Series(["x", "yy"], dtype="category"),
        pl.Series(["x", "yy"]),
        pl.Series(["x", "yy"], dtype=pl.Categorical),
        pa.array(["x", "yy"]),
    ],
)
def test_names_of_groups_are_text_in_every_container(names_in: Any) -> None:
    names = names_of(names_in)
    assert (names.dtype.kind, names.tolist()) == ("U", ["x", "yy"])


def test_rows_of_different_indexes_are_no_rows() -> None:
    p, y = pd.Series(P, index=INDEX), pd.Series([0, 1, 1], index=INDEX)
    split_rows({"predictions": p, "labels": y})
    split_rows({"predictions": p, "labels": y.to_numpy()})
    with pytest.raises(UnusableRows, match="predictions and labels have different indexes"):
        split_rows({"predictions": p, "labels": y.sort_index(ascending=False)})
    with pytest.raises(TypeError, match="'label'"):
        split_rows({"predictions": p, "label": y})


def test_an_answer_has_the_container_type_of_its_argument() -> None:
    vector, matrix, answer = np.array(P), np.array(PROBS), partial(like, columns=None, name=None)
    series = answer(pd.Series([0, 0, 0], index=INDEX, name="p"), vector)
    pd.testing.assert_series_equal(series, pd.Series(P, index=INDEX, name="p"))
    frame = pd.DataFrame(0.0, index=INDEX, columns=["x", "y"])
    pd.testing.assert_frame_equal(answer(frame, matrix), pd.DataFrame(PROBS, index=INDEX, columns=["x", "y"]))
    pd.testing.assert_series_equal(answer(frame, vector), pd.Series(P, index=INDEX))
    assert answer(pl.Series("p", [0, 0, 0]), vector).equals(pl.Series("p", P), check_names=True)
    columns = pl.DataFrame({"x": [0, 0, 0], "y": [0, 0, 0]})
    assert answer(columns, matrix).equals(pl.DataFrame(PROBS, schema=["x", "y"], orient="row"))
    assert answer(columns, vector).equals(pl.Series("", P))
    assert answer(P, vector) is vector


def test_using_the_client_imports_no_library_of_frames() -> None:
    code = (
        "import sys, calibrant.client; from calibrant.client.frames import split_rows\n"
        "split_rows({'predictions': [0.5], 'labels': [1], 'groups': ['a']})\n"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'torch', 'service', 'scipy'} & set(sys.modules)))"
    )
    assert printed_by(code).strip() == "[]"


def test_an_argument_that_a_call_does_not_have_is_explained() -> None:
    p, y = np.full(4, 0.5), np.arange(4) % 2
    with Calibrant("http://127.0.0.1:1", tries=1) as client:
        with pytest.raises(TypeError, match=r"'weigths'; did you mean weights\?"):
            client.evaluate(p, y, weigths=p)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"'stdd'; did you mean std\?"):
            client.evaluate_distribution(p, mean=p, stdd=p)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match='the first argument is the method: fit\\("averaged"'):
            client.fit(p, y)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="the first argument is the method: fit_distribution"):
            client.fit_distribution(p, mean=p, std=p)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the order is fit_distribution\\(method, observed\\)"):
        calibrant.fit_distribution(p, mean=p, std=p)  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize(
    ("call", "options", "message"),
    [
        ("evaluate", {"measure": "ece"}, "'measure'; did you mean measures?"),
        ("evaluate", {"confidence": 0.9}, "'confidence'; pass interval"),
        ("compare", {"random_state": 1}, "'random_state'; pass seed"),
        ("report_html", {"reductions": "binary"}, "'reductions'; did you mean reduction?"),
        ("diagram", {"format": "png"}, "'format'; did you mean form?"),
    ],
)
def test_an_unknown_argument_of_a_call_is_compared_with_all_its_arguments(
    call: str, options: dict[str, Any], message: str
) -> None:
    first = ["reliability"] if call == "diagram" else []
    with Calibrant("http://127.0.0.1:9") as client, pytest.raises(TypeError) as refused:
        getattr(client, call)(*first, P, [0, 1, 1], **options)
    assert str(refused.value).endswith(message)


def test_unknown_arguments_of_calls_on_forecasts_are_compared_with_all_their_arguments() -> None:
    with Calibrant("http://127.0.0.1:9") as client:
        with pytest.raises(TypeError, match="'measure'; did you mean measures"):
            client.evaluate_distribution(P, mean=P, std=P, measure="crps")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="'suport'; did you mean support"):
            client.fit_distribution("conformal", P, mean=P, std=P, suport=(0, None))  # type: ignore[call-arg]
