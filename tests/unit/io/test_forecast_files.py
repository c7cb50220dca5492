"""Files and bodies of predictive distributions: every format, every name, and the refusals."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from calibrant.core.errors import CalibrationError
from calibrant.io.errors import TabularError, UnclearColumns
from calibrant.io.files import FileOptions, ForecastSheet, read_forecast_sheet
from calibrant.io.limits import Limits
from calibrant.io.strict import REGRESSION, read_arrow, read_csv, read_npz, read_parquet
from tests.packed import arrow, feather, npz, parquet
from tests.unit.io.refused import refused

PLAIN = FileOptions()
Columns = Mapping[str, Any]


def csv(columns: Columns, separator: str = ",") -> bytes:
    rows = zip(*columns.values(), strict=True)
    return "".join(f"{separator.join(map(str, row))}\n" for row in [tuple(columns), *rows]).encode()


def json_lines(columns: Columns) -> bytes:
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


FORMATS: dict[str, Callable[[Columns], bytes]] = {
    "csv": csv,
    "csv with semicolons": lambda columns: csv(columns, ";"),
    "csv, gzip": lambda columns: gzip.compress(csv(columns)),
    "csv that pyarrow cannot read": lambda columns: csv(columns).replace(b"\n", b"\r"),
    "json lines": json_lines,
    "npz": lambda columns: npz(**columns),
    "parquet": parquet,
    "arrow": arrow,
    "feather": feather,
}


def read(content: bytes, options: FileOptions = PLAIN, *, labelled: bool = True) -> ForecastSheet:
    return read_forecast_sheet(io.BytesIO(content), name="f", options=options, max_rows=None, labelled=labelled)


BESIDE = {"observed": [1.0, 5.5, -2.0], "weight": [1.0, 0.5, 0.0], "group": ["a", "é", "a"]}
NORMAL = {"mean": [0.0, 5.0, -1.0], "std": [1.0, 2.0, 0.5]}
QUANTILES = {"q0.05": [0.0, 1.0, -3.0], "q0.5": [0.5, 1.0, -2.5], "q0.95": [9.0, 9.0, 9.0]}
SAMPLES = {f"sample_{i}": [float(i), i / 2, -i] for i in range(12)}
INTERVAL = {"lower": [0.0, 1.0, -3.0], "upper": [2.0, 1.0, 4.0]}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_arrays(form: str) -> None:
    written = FORMATS[form]
    sheet = read(written(BESIDE | NORMAL), FileOptions(weights="weight"))
    assert sheet.forecasts.kind == "normal"
    np.testing.assert_array_equal(sheet.forecasts.mean, NORMAL["mean"])
    np.testing.assert_array_equal(sheet.forecasts.variance, [1.0, 4.0, 0.25])
    for column, name in ((sheet.observed, "observed"), (sheet.weights, "weight")):
        assert column is not None
        assert column.tolist() == BESIDE[name]
    assert sheet.groups == BESIDE["group"]

    sheet = read(written(BESIDE | QUANTILES))
    assert sheet.forecasts.levels.tolist() == [0.05, 0.5, 0.95]
    np.testing.assert_array_equal(sheet.forecasts.quantiles.T, list(QUANTILES.values()))

    sheet = read(written(BESIDE | SAMPLES))
    np.testing.assert_array_equal(sheet.forecasts.samples.T, list(SAMPLES.values()))

    sheet = read(written(BESIDE | INTERVAL), FileOptions(level=0.8))
    assert (sheet.forecasts.level, sheet.forecasts.upper.tolist()) == (0.8, INTERVAL["upper"])


@pytest.mark.parametrize(
    "names",
    [
        ("q\u0660\u0665", "q\u0669\u0665"),
        ("sample_\u0661", "sample_\u0662"),
        ("lower_\u0669\u0660", "upper_\u0669\u0660"),
        ("q\uff10.\uff15", "q\uff10.\uff19"),
    ],
)
def test_digits_of_other_scripts_are_no_levels_and_no_numbers_of_samples(names: tuple[str, str]) -> None:
    with pytest.raises(TabularError):
        read(csv(BESIDE | {names[0]: [0.0, 1.0, -3.0], names[1]: [1.0, 2.0, 4.0]}))


@pytest.mark.parametrize("form", ["json lines", "parquet", "arrow", "feather", "csv"])
def test_a_column_of_lists_is_quantiles_or_samples(form: str) -> None:
    lists = [[0.0, 1.0, 4.0], [1.0, 2.0, 3.0]]
    columns = {"y": [1.0, 2.0], "quantiles": lists}
    content = b'y,quantiles\n1,"[0 1 4]"\n2,"[1.0, 2, 3]"\n' if form == "csv" else FORMATS[form](columns)
    sheet = read(content, FileOptions(levels=(0.1, 0.5, 0.9)))
    assert sheet.forecasts.quantiles.tolist() == lists
    if form != "csv":
        assert read(FORMATS[form]({"y": [1.0, 2.0], "samples": lists})).forecasts.samples.tolist() == lists


def test_arrays_of_npz_have_their_levels() -> None:
    y, table = np.array([1.0, 2.0]), np.array([[0.0, 1.0], [1.0, 3.0]])
    sheet = read(npz(observed=y, quantiles=table.astype(np.float32), levels=np.array([0.1, 0.9])))
    assert sheet.forecasts.levels.tolist() == [0.1, 0.9]
    np.testing.assert_array_equal(sheet.forecasts.quantiles, table)
    assert read(npz(observed=y, samples=table)).forecasts.samples.tolist() == table.tolist()
    for level in (0.9, [0.9]):
        forecasts = read(npz(observed=y, lower=y, upper=y, level=level)).forecasts
        assert (forecasts.kind, forecasts.level) == ("interval", 0.9)
    days = np.array(["2024-01-06", "2024-01-13"], dtype="M8[D]")
    sheet = read(npz(y=y, mu=y, var=y, h=[1, 2], day=days), FileOptions(by="h", times="day"))
    assert (sheet.by, sheet.times) == (["1", "2"], ["2024-01-06", "2024-01-13"])


@pytest.mark.parametrize(
    ("header", "kind", "levels"),
    [
        ("y,mu,sigma", "normal", None),
        ("Actual,Predicted Mean,Pred_Var", "normal", None),
        ("target,y_pred,y_std", "normal", None),
        ("y,q0.95,q0.5,q.05", "quantiles", [0.05, 0.5, 0.95]),
        ("y,q5,q50,q95", "quantiles", [0.05, 0.5, 0.95]),
        ("y,q025,q50,q975", "quantiles", [0.025, 0.5, 0.975]),
        ("y,p2.5,p50,p97.5", "quantiles", [0.025, 0.5, 0.975]),
        ("y,quantile_0.1,median,quantile_0.9", "quantiles", [0.1, 0.5, 0.9]),
        ("y,0.1,0.5,0.9", "quantiles", [0.1, 0.5, 0.9]),
        ("y,model_q10,model_q90", "quantiles", [0.1, 0.9]),
        ("y,s0,s1,s2", "samples", None),
        ("y,draw[2],draw[10],draw[1]", "samples", None),
        ("y,Lo 80,Hi 80", "interval", [0.8]),
        ("y,Theta-lo-90,Theta-hi-90", "interval", [0.9]),
        ("ds,y,yhat,yhat_lower_0.8,yhat_upper_0.8", "interval", [0.8]),
    ],
)
def test_columns_are_inferred_from_names(header: str, kind: str, levels: list[float] | None) -> None:
    names = header.split(",")
    ascending = sorted(range(1, len(names)), key=lambda i: ("hi" in names[i].lower(), "upper" in names[i], i))
    if levels is not None and kind == "quantiles" and "0.95" in names[1]:
        ascending.reverse()
    row = {0: "7"} | {place: str(i + 1) for i, place in enumerate(ascending)}
    text = f"{header}\n" + ",".join(row[i] for i in range(len(names))) + "\n"
    sheet = read((text + text.splitlines()[1] + "\n").encode())
    forecasts = sheet.forecasts
    assert forecasts.kind == kind
    if kind == "quantiles":
        assert forecasts.levels.tolist() == pytest.approx(levels, rel=1e-15)
        assert forecasts.quantiles[0].tolist() == sorted(forecasts.quantiles[0].tolist())
    if kind == "interval":
        assert [forecasts.level] == levels
        assert forecasts.lower[0] < forecasts.upper[0]
    assert any(note.startswith("observed: column") for note in sheet.notes)


def test_samples_are_in_the_order_of_their_numbers() -> None:
    assert read(b"y,draw[2],draw[10],draw[1]\n0,2,10,1\n").forecasts.samples.tolist() == [[1.0, 2.0, 10.0]]


@pytest.mark.parametrize(
    ("stated", "options", "kind"),
    [
        (
            (
                "mean=a",
                "std=b",
            ),
            {},
            "normal",
        ),
        (
            (
                "mean=a",
                "variance=b",
            ),
            {},
            "normal",
        ),
        (
            (
                "q0.1=a",
                "q0.9=b",
            ),
            {},
            "quantiles",
        ),
        (
            (
                "q0.9=b",
                "q0.1=a",
            ),
            {},
            "quantiles",
        ),
        (("quantiles=[ab]",), {"levels": (0.1, 0.9)}, "quantiles"),
        (("samples=[ab]",), {}, "samples"),
        (
            (
                "lower=a",
                "upper=b",
            ),
            {"level": 0.5},
            "interval",
        ),
    ],
)
def test_columns_can_be_named(stated: tuple[str, ...], options: dict[str, Any], kind: str) -> None:
    sheet = read(b"a,b,c,mean,std\n1,2,3,0,0\n2,3,4,0,0\n", FileOptions(labels="c", predictions=stated, **options))
    assert (sheet.forecasts.kind, len(sheet)) == (kind, 2)
    if kind == "quantiles":
        assert sheet.forecasts.quantiles.tolist() == [[1.0, 2.0], [2.0, 3.0]]
        assert sheet.forecasts.levels.tolist() == [0.1, 0.9]


def test_outcomes_are_read_only_to_evaluate() -> None:
    assert read(b"mean,std\n1,2\n", labelled=False).observed is None
    assert read(b"y,mean,std\nNA,1,2\n", labelled=False).observed is None


def test_quantiles_that_cross_by_rounding_are_sorted_and_counted() -> None:
    sheet = read(b"y,q0.1,q0.9\n0,1.0000001,1\n0,1,1\n")
    assert sheet.forecasts.quantiles[0].tolist() == [1.0000001, 1.0000001]
    assert sheet.notes[-1] == "quantiles: 1 row crosses by rounding and is sorted"


#: Content, options, code, field, and words of the message.
REFUSALS: dict[str, tuple[bytes, FileOptions, str, str, str]] = {
    "no distribution": (b"a,b\n1,2\n", PLAIN, "no-predictions", "predictions", "q0.05, q0.5 and so on"),
    "a mean alone": (b"y,mean\n1,2\n", PLAIN, "no-predictions", "predictions", "the file has 'y', 'mean'"),
    "quartiles": (b"y,q1,q2,q3\n1,2,3,4\n", PLAIN, "no-predictions", "predictions", "no predictive distribution"),
    "no outcomes": (b"mean,std,x\n1,2,3\n", PLAIN, "no-labels", "observed", "choose one of 'x'"),
    "two outcomes": (b"y,target,mean,std\n1,1,1,1\n", PLAIN, "unclear-columns", "observed", "'y', 'target'"),
    "two kinds": (b"y,mean,std,s0,s1\n1,1,1,1,1\n", PLAIN, "unclear-columns", "predictions", "several predictive"),
    "std and variance": (b"y,mean,std,var\n1,1,1,1\n", PLAIN, "unclear-columns", "predictions", "'std=std'"),
    "two intervals": (
        b"y,lo-80,hi-80,lo-95,hi-95\n1,1,1,1,1\n",
        PLAIN,
        "unclear-columns",
        "predictions",
        "'lower=lo-80', 'upper=hi-80', 'lower=lo-95'",
    ),
    "a level twice": (b"y,q0.5,q0.50\n1,1,1\n", PLAIN, "duplicate-columns", "file", "'q0.5', 'q0.50'"),
    "no level": (b"y,lower,upper\n1,1,1\n", PLAIN, "invalid-forecasts", "level", "the level of the intervals"),
    "level of 90": (
        b"y,lower,upper\n1,1,1\n",
        FileOptions(level=90.0),
        "invalid-forecasts",
        "level",
        "above 0 and below 1",
    ),
    "no levels": (b'y,quantiles\n1,"[1 2]"\n', PLAIN, "invalid-forecasts", "levels", "the levels of the quantiles"),
    "levels of another number": (
        b'y,quantiles\n1,"[1 2]"\n',
        FileOptions(levels=(0.5,)),
        "invalid-forecasts",
        "levels",
        "1 number,",
    ),
    "levels that are not those": (
        b"y,q0.1,q0.9\n1,1,2\n",
        FileOptions(levels=(0.2, 0.8)),
        "invalid-forecasts",
        "levels",
        "names of the columns",
    ),
    "a std of 0": (
        b"y,mean,std\n1,1,0\n1,1,1\n1,1,-2\n",
        PLAIN,
        "invalid-forecasts",
        "std",
        "column 'std' must be above 0; see rows 1, 3",
    ),
    "negative variances": (
        b"y,mean,var\n" + b"1,1,-1\n" * 7,
        PLAIN,
        "invalid-forecasts",
        "variance",
        "rows 1, 2, 3, 4, 5 (and 2 more)",
    ),
    "crossing quantiles": (
        b"y,q0.9,q0.5,q0.1\n1,3,2,1\n1,3,0.5,1\n",
        PLAIN,
        "invalid-forecasts",
        "quantiles",
        "column 'q0.5' must not be below column 'q0.1'; see row 2",
    ),
    "crossing bounds": (
        b"y,lower,upper\n1,2,1\n",
        FileOptions(level=0.9),
        "invalid-forecasts",
        "upper",
        "column 'upper' must not be below column 'lower'",
    ),
    "an infinite mean": (
        b"y,mean,std\n1,1,1\n1,-inf,1\n",
        PLAIN,
        "not-finite",
        "mean",
        "row 2 (line 3) of column 'mean'",
    ),
    "a std whose square overflows": (
        b"y,mean,std\n1,1,1e200\n",
        PLAIN,
        "invalid-forecasts",
        "std",
        "from 1e-150 to 1e150; see row 1",
    ),
    "a missing sample": (b"y,s0,s1\n1,1,\n", PLAIN, "missing-value", "samples", "column 's1' is empty"),
    "missing values of several columns": (
        b"y,mean,std\n,1,1\n1,,1\n",
        PLAIN,
        "missing-value",
        "observed",
        "first in row 1",
    ),
    "text": (b"y,mean,std\n1,1,1\n1,two,1\n", PLAIN, "not-a-number", "mean", "row 2"),
    "percent": (b"y,mean,std\n1%,1,1\n", PLAIN, "looks-like-percent", "observed", "remove them"),
    "lists of other lengths": (
        b'{"y": 1, "samples": [1, 2]}\n{"y": 1, "samples": [1]}\n',
        PLAIN,
        "wrong-shape",
        "samples",
        "row 2",
    ),
    "a level per row": (
        npz(y=[1.0, 1.0], lower=[0.0, 0.0], upper=[1.0, 1.0], level=[0.8, 0.9]),
        PLAIN,
        "invalid-forecasts",
        "level",
        "one level for all rows",
    ),
    "arrays of other lengths": (
        npz(y=[1.0, 1.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]),
        PLAIN,
        "wrong-shape",
        "file",
        "observed has length 3",
    ),
    "bounds of other lengths": (
        npz(y=[1.0, 1.0], lower=[0.0, 0.0], upper=[1.0], level=0.9),
        PLAIN,
        "invalid-forecasts",
        "upper",
        "has 1 row,",
    ),
    "pickled objects": (
        npz(y=np.array([1.0, None], dtype=object), mean=[0.0, 0.0], std=[1.0, 1.0]),
        PLAIN,
        "pickled-objects",
        "file",
        "never loaded",
    ),
    "a column that is not there": (
        b"y,mean,std\n1,1,1\n",
        FileOptions(by="horizon"),
        "unknown-column",
        "by",
        "no column 'horizon'",
    ),
    "a part without a column": (
        b"y,mean,std\n1,1,1\n",
        FileOptions(predictions=("mean=mean", "std")),
        "invalid-file-option",
        "predictions",
        "must be different part=column",
    ),
    "parts of two kinds": (
        b"y,mean,std\n1,1,1\n",
        FileOptions(predictions=("mean=mean", "lower=std")),
        "unclear-columns",
        "predictions",
        "mean, lower do not form",
    ),
    "an unknown part": (
        b"y,mean,std\n1,1,1\n",
        FileOptions(predictions=("median=mean",)),
        "unclear-columns",
        "predictions",
        "'median' is no part",
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals_name_the_column_and_the_rows(case: tuple[bytes, FileOptions, str, str, str]) -> None:
    content, options, code, field, words = case
    with pytest.raises(TabularError) as caught:
        read(content, options)
    assert (caught.value.code, caught.value.field) == (code, field)
    assert words in caught.value.detail


def test_each_reading_can_be_chosen() -> None:
    content = b"y,mean,std,s0,s1,q0.1,q0.9,lo-80,hi-80\n1,1,1,1,1,1,2,1,2\n"
    with pytest.raises(UnclearColumns) as caught:
        read(content)
    assert len(caught.value.readings) == 4
    kinds = [
        read(content, FileOptions(predictions=reading, level=0.8 if "lower=lo-80" in reading else None)).forecasts.kind
        for reading in caught.value.readings
    ]
    assert kinds == ["normal", "quantiles", "samples", "interval"]


def test_a_calibrated_file_has_two_readings() -> None:
    content = b"y,mean,std,calibrated_mean,calibrated_std\n1,1,1,1,1\n"
    with pytest.raises(UnclearColumns) as caught:
        read(content)
    assert caught.value.readings == (("mean=mean", "std=std"), ("mean=calibrated_mean", "std=calibrated_std"))
    assert read(content, labelled=False).notes[0] == "mean: column 'mean' (inferred from its name)"
    quantiles = b"y,q0.1,q0.9,calibrated_q0.1,calibrated_q0.9\n1,1,2,3,4\n"
    with pytest.raises(UnclearColumns) as caught:
        read(quantiles)
    assert caught.value.readings == (("quantiles=q0.*",), ("quantiles=calibrated_q0.*",))
    stated = FileOptions(predictions=("quantiles=calibrated_q0.*",))
    assert read(quantiles, stated).forecasts.quantiles.tolist() == [[3.0, 4.0]]


# --- Bodies of requests

LIMITS = Limits(1 << 20, 100, 50)
STRICT: dict[str, Callable[[Columns], Any]] = {
    "csv": lambda columns: read_csv(csv(columns), LIMITS, REGRESSION),
    "arrow": lambda columns: read_arrow(arrow(columns), LIMITS, REGRESSION),
    "parquet": lambda columns: read_parquet(parquet(columns), LIMITS, REGRESSION),
}


@pytest.mark.parametrize("form", STRICT)
def test_bodies_have_exact_names(form: str) -> None:
    reader = STRICT[form]
    names = {"groups": ["a", "b", "é"], "clusters": ["1", "1", "2"], "by": ["0", "1", "0"]}
    columns: Columns = {
        "observed": [1.0, 5.5, -2.0],
        "q0.95": [3.0] * 3,
        "q0.05": [1.0] * 3,
        "weights": [1.0, 0.5, 0.0],
        **names,
    }
    arrays = reader(columns)
    assert arrays["levels"].tolist() == [0.05, 0.95]
    assert arrays["quantiles"].tolist() == [[1.0, 3.0]] * 3
    assert {name: arrays[name].tolist() for name in names} == names
    assert reader({"samples.1": [2.0], "samples.0": [1.0]})["samples"].tolist() == [[1.0, 2.0]]
    assert {*reader({"observed": [1.0], "lower": [0.0], "upper": [2.0]})} == {"observed", "lower", "upper"}
    unknown: list[tuple[Columns, str]] = [
        ({"predictions": [0.5]}, ""),
        ({"y": [0.5]}, ""),
        ({"q5": [0.5]}, ""),
        ({"q0.5": [0.5], "q.5": [0.5]}, "/quantiles"),
        ({"samples.0": [0.5], "samples.2": [0.5]}, "/samples"),
        ({"samples.0": [0.5], "samples": [0.5]}, "/samples"),
    ]
    for columns, pointer in unknown:
        assert refused(partial(reader, columns)) == ("invalid-field", pointer)
    assert refused(lambda: reader({f"q0.{i:03d}": [0.5] for i in range(1, 80)}))[0] == "too-large"
    assert refused(lambda: reader({"observed": ["a"]})) == (
        "not-a-number",
        "/observed/0" if form == "csv" else "/observed",
    )


def test_lists_are_quantiles_and_samples_in_arrow_bodies() -> None:
    lists = [[0.0, 1.0], [1.0, 2.0]]
    for form in ("arrow", "parquet"):
        arrays = STRICT[form]({"quantiles": lists, "observed": [1.0, 2.0]})
        assert arrays["quantiles"].tolist() == lists
        with pytest.raises(CalibrationError, match="quantiles/1"):
            STRICT[form]({"quantiles": [[0.0, 1.0], [1.0]]})
        assert refused(partial(STRICT[form], {"mean": lists})) == ("not-a-number", "/mean")


def test_npz_bodies_have_levels() -> None:
    arrays = {"observed": np.ones(2), "quantiles": np.ones((2, 3)), "levels": np.array([0.1, 0.5, 0.9])}
    read_arrays = read_npz(npz(**arrays), LIMITS, REGRESSION.kinds)
    assert {name: array.shape for name, array in read_arrays.items()} == {
        name: array.shape for name, array in arrays.items()
    }
    assert read_npz(npz(level=0.9), LIMITS, REGRESSION.kinds)["level"].item() == 0.9
    assert refused(lambda: read_npz(npz(labels=np.ones(2)), LIMITS, REGRESSION.kinds)) == ("malformed-npz", "")
    texts = npz(mean=np.array(["a"]))
    assert refused(lambda: read_npz(texts, LIMITS, REGRESSION.kinds)) == ("malformed-npz", "/mean")
