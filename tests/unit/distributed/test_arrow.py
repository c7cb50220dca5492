from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calibrant
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidLabel,
    InvalidOption,
    InvalidWeight,
    NotANumber,
    NotFinite,
    OutOfRange,
    UnknownReduction,
    WrongShape,
)
from calibrant.distributed import arrow
from calibrant.monitoring.event_tally import EventTally


def _table(n: int = 300_000) -> pa.Table:
    random = np.random.default_rng(0)
    c = random.random(n)
    names = np.array(["no", "se", None], dtype=object)[random.integers(0, 3, n)]
    return pa.table(
        {
            "p": c**1.3,
            "y": random.random(n) < c,
            "group": pa.array(names),
            "fold": random.integers(0, 5, n),
            "w": random.integers(0, 3, n),
        }
    )


def _same(counted: EventTally, wanted: EventTally) -> None:
    assert (counted.groups, counted.reduction, counted.scale, counted.n_classes) == (
        wanted.groups,
        wanted.reduction,
        wanted.scale,
        wanted.n_classes,
    )
    np.testing.assert_array_equal(counted.tally.keys, wanted.tally.keys)
    np.testing.assert_array_equal(counted.tally.rows, wanted.tally.rows)
    np.testing.assert_allclose(counted.tally.p_sum, wanted.tally.p_sum, rtol=1e-12)


def test_batches_are_counted_as_their_rows() -> None:
    table = _table()
    tally = arrow.tally(table, prediction="p", label="y", group="group", fold="fold", weight="w")
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in ("p", "fold", "w")}
    labels, groups = table["y"].to_numpy().astype(np.int64), table["group"].to_pylist()
    wanted = calibrant.tally(columns["p"], labels, groups=groups, folds=columns["fold"], weights=columns["w"])
    _same(tally, wanted)


@pytest.mark.parametrize("kind", ["list", "large", "fixed", "columns"])
def test_vectors_are_lists_or_columns(kind: str) -> None:
    random = np.random.default_rng(1)
    logits = random.normal(size=(1000, 3))
    labels = random.integers(0, 3, 1000)
    types = {"list": pa.list_(pa.float64()), "large": pa.large_list(pa.float64()), "fixed": pa.list_(pa.float64(), 3)}
    if kind == "columns":
        table = pa.table({**{f"z{k}": logits[:, k] for k in range(3)}, "y": labels})
        prediction: str | list[str] = ["z0", "z1", "z2"]
    else:
        table, prediction = pa.table({"z": pa.array(logits.tolist(), types[kind]), "y": labels}), "z"
    batches = table.to_batches(300)  # of which all but the first begin within the arrays
    tally = arrow.tally(batches, prediction=prediction, label="y", scale="logit", reduction="class:1")
    _same(tally, calibrant.tally(logits, labels, scale="logit", reduction="class:1"))


@pytest.mark.parametrize(
    "groups",
    [
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.array(["a", None, "b", "a"], pa.large_string()),
        pa.DictionaryArray.from_arrays(pa.array([2, 1, 0, 2]), pa.array(["b", None, "a", "unused"])),
    ],
)
def test_groups_are_texts_in_every_encoding(groups: pa.Array) -> None:
    table = pa.table({"p": [0.1, 0.2, 0.3, 0.4], "y": [0, 1, 0, 1], "g": groups})
    tally = arrow.tally(table, prediction="p", label="y", group="g")
    _same(tally, calibrant.tally([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], groups=["a", None, "b", "a"]))
    whole = arrow.tally(table.set_column(2, "g", pa.array([1, None, 2, 1])), prediction="p", label="y", group="g")
    assert whole.groups == ("1", "2")


@pytest.mark.parametrize(
    ("error", "message", "changed"),
    [
        (NotFinite, "the batches, row 200000: predictions must be a finite number", {"p": (200_000, None)}),
        (OutOfRange, "row 131072: predictions must be in", {"p": (131_072, 1.5)}),
        (InvalidLabel, "row 299999: labels must be 0 or 1", {"y": (299_999, 2)}),
        (NotFinite, "row 7: labels must be a finite number", {"y": (7, None)}),
        (InvalidWeight, "row 150000: weights must be a whole number", {"w": (150_000, 0.5)}),
        (InvalidOption, "row 140000: folds must be an integer from 0 to 4", {"fold": (140_000, 5)}),
        (InvalidOption, "row 140000: folds must be an integer from 0 to 4", {"fold": (140_000, None)}),
    ],
)
def test_the_first_invalid_row_is_reported_by_its_number_among_all(
    error: type[CalibrationError], message: str, changed: dict[str, tuple[int, Any]]
) -> None:
    table = _table()
    for name, (row, cell) in changed.items():
        column = table[name].to_pylist()
        column = [int(label) for label in column] if name == "y" else column
        column[row] = cell
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(column))
    with pytest.raises(error, match=message) as caught:
        arrow.tally(table, prediction="p", label="y", fold="fold", weight="w")
    (row, _) = next(iter(changed.values()))
    assert caught.value.offences[0].pointer.endswith(f"/{row}")


@pytest.mark.parametrize(
    ("error", "message", "column", "options"),
    [
        (NotANumber, "must contain only numbers", {"p": ["0.1", "0.2"]}, {}),
        (NotANumber, "must contain only numbers", {"p": [True, False]}, {}),
        (NotFinite, "row 1: predictions must not be null", {"p": [[0.1, 0.9], None]}, {}),
        (WrongShape, "row 1: predictions must have as many classes", {"p": [[0.1, 0.4, 0.5], [0.1, 0.9]]}, {}),
        (InvalidOption, "strings, integers or dates", {"g": [0.5, 1.5]}, {"group": "g"}),
        (InvalidOption, "group names a column that does not exist", {}, {"group": "g"}),
        (InvalidOption, "prediction must be the name", {}, {"prediction": ["p"]}),
        (InvalidOption, "label must be the name", {}, {"label": 3}),
        (InvalidOption, "scale must be one of", {}, {"scale": "odds"}),
        (UnknownReduction, "binary needs predictions", {"p": [[0.1, 0.4, 0.5]] * 2}, {"reduction": "binary"}),
        (UnknownReduction, "must be the name of a reduction", {}, {"reduction": 3}),
    ],
)
def test_invalid_columns_are_refused(
    error: type[CalibrationError], message: str, column: dict[str, Any], options: dict[str, Any]
) -> None:
    table = pa.table({"p": [0.1, 0.2], "y": [0, 1], **column})
    with pytest.raises(error, match=message):
        arrow.tally(table, **{"prediction": "p", "label": "y", **options})


def test_no_rows_are_an_error_and_weights_of_zero_count_nothing() -> None:
    with pytest.raises(EmptyBatch):
        arrow.tally(
            pa.table({"p": pa.array([], pa.float64()), "y": pa.array([], pa.int8())}), prediction="p", label="y"
        )
    nothing = pa.table({"p": [0.5], "y": [1], "w": [0]})
    with pytest.raises(EmptyBatch):
        arrow.tally(nothing, prediction="p", label="y", weight="w")
