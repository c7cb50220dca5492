"""Labels that are strings, in every format with a column of them: read as the command line reads the same file."""

from __future__ import annotations

import io
from typing import Any

import httpx
import numpy as np
import pytest

from calibrant.io.errors import LabelsNeedMapping, NotLabels
from calibrant.io.files import read_sheet
from tests.body_formats import ARROW, CSV, NPY, NPZ, PARQUET, WRITE_ARRAYS
from tests.integration.responses import problem_of

RANDOM = np.random.default_rng(3)
P = RANDOM.uniform(size=300)
Y = (RANDOM.uniform(size=300) < P).astype(int)
FORMATS = [kind for kind in WRITE_ARRAYS if kind != NPY]
TABLES = [CSV, ARROW, PARQUET]


def _rows(negative: str, positive: str) -> dict[str, Any]:
    return {"predictions": P, "labels": np.where(Y == 1, positive, negative)}


def _send(http: httpx.Client, path: str, kind: str, rows: dict[str, Any], **options: Any) -> httpx.Response:
    if kind in TABLES or kind == NPZ:
        return http.post(path, content=WRITE_ARRAYS[kind](rows), headers={"Content-Type": kind}, params=options)
    lists = {name: np.asarray(column).tolist() for name, column in rows.items()}
    return http.post(path, json=lists | {name: _listed(name, choice) for name, choice in options.items()})


def _listed(name: str, choice: Any) -> Any:
    return choice.split(",") if name == "class_names" else choice


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("negative", "positive"), [("no", "yes"), ("ham", "spam"), ("1", "cat")])
def test_strings_are_read_by_the_names_of_the_classes(
    http: httpx.Client, kind: str, negative: str, positive: str
) -> None:
    rows = _rows(negative, positive)
    if kind == CSV and negative == "1":
        order = np.argsort(-Y, kind="stable")  # in CSV they are strings if the first is no number
        rows = {name: column[order] for name, column in rows.items()}
    numbers = {"predictions": rows["predictions"], "labels": (rows["labels"] == positive).astype(int)}
    names = f"{negative},{positive}"
    expected = _send(http, "/evaluate", kind, numbers, class_names=names)
    assert _send(http, "/evaluate", kind, rows, class_names=names).json() == expected.raise_for_status().json()
    fits = [
        _send(http, "/maps", kind, sent, method="isotonic", class_names=names).raise_for_status().json()
        for sent in (rows, numbers)
    ]
    assert fits[0]["digest"] == fits[1]["digest"]
    assert fits[0]["class_names"] == [negative, positive]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("negative", "positive"), [("F", "T"), ("FALSE", "TRUE"), ("falsch", "wahr"), ("0", "1")])
def test_strings_of_known_classes_need_no_names(http: httpx.Client, kind: str, negative: str, positive: str) -> None:
    expected = _send(http, "/evaluate", kind, {"predictions": P, "labels": Y})
    answer = _send(http, "/evaluate", kind, _rows(negative, positive))
    assert answer.json() == expected.raise_for_status().json()


@pytest.mark.parametrize("path", ["/evaluate", "/maps"])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("negative", "positive"), [("no", "yes"), ("ham", "spam"), ("LABEL_0", "LABEL_1")])
def test_other_strings_are_refused_with_both_orders(
    http: httpx.Client, path: str, kind: str, negative: str, positive: str
) -> None:
    options = {"method": "isotonic"} if path == "/maps" else {}
    refused = _send(http, path, kind, _rows(negative, positive), **options)
    assert problem_of(refused) == (422, "invalid-label", "/labels")
    first = sorted(np.unique(Y, return_index=True)[1].tolist())
    detail = refused.json()["detail"]
    assert "send class_names" in detail
    assert f"/labels/{first[0]} and /labels/{first[1]}, or at /labels/{first[1]} and /labels/{first[0]}" in detail
    assert positive not in detail


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("negative", "positive"),
    [("no", "yes"), ("ham", "spam"), ("F", "T"), ("true", "false"), ("0", "1"), ("-1", "1"), (" 0", "1 "), ("x", "x")],
)
def test_the_command_line_and_http_read_the_same_file_alike(
    http: httpx.Client, kind: str, negative: str, positive: str
) -> None:
    rows = _rows(negative, positive)
    answer = _send(http, "/evaluate", kind, rows)
    try:
        sheet = read_sheet(io.BytesIO(WRITE_ARRAYS[kind](rows)), name="rows", max_rows=None)
    except (LabelsNeedMapping, NotLabels):
        assert problem_of(answer)[:2] == (422, "invalid-label")
        return
    assert sheet.labels is not None
    expected = http.post("/evaluate", json={"predictions": P.tolist(), "labels": sheet.labels.tolist()})
    assert answer.json() == expected.raise_for_status().json()


@pytest.mark.parametrize("kind", FORMATS)
def test_strings_of_several_classes_are_named_in_the_order_of_the_columns(http: httpx.Client, kind: str) -> None:
    predictions = RANDOM.dirichlet(np.ones(3), 60)
    rows = {"predictions": predictions, "labels": np.array(["fox", "bird", "cat"] * 20)}
    refused = _send(http, "/evaluate", kind, rows)
    assert problem_of(refused) == (422, "invalid-label", "/labels")
    assert "send class_names, the labels of the 3 classes in the order of the columns" in refused.json()["detail"]
    expected = _send(http, "/evaluate", kind, {"predictions": predictions, "labels": [2, 0, 1] * 20})
    named = _send(http, "/evaluate", kind, rows, class_names="bird,cat,fox").raise_for_status().json()
    assert named["measures"] == expected.raise_for_status().json()["measures"]
    rows["labels"][7] = "dog"
    assert problem_of(_send(http, "/evaluate", kind, rows, class_names="bird,cat,fox"))[2] == "/labels/7"
    assert "4 different strings" in _send(http, "/evaluate", kind, rows).json()["detail"]


@pytest.mark.parametrize(("cells", "row"), [(["no", ""], 1), (["", "no"], 0), (["1", "no"], 1), (["true", "no"], 1)])
def test_an_empty_label_and_labels_of_two_kinds_are_refused_in_csv(
    http: httpx.Client, cells: list[str], row: int
) -> None:
    text = "predictions,labels\n" + "".join(f"0.5,{cell}\n" for cell in cells)
    refused = http.post("/evaluate", content=text, headers={"Content-Type": CSV}, params={"class_names": "no,yes"})
    assert problem_of(refused) == (422, "not-a-number", f"/labels/{row}")


@pytest.mark.parametrize("path", ["/evaluate", "/maps", "/batches"])
def test_numbers_in_csv_that_are_names_of_other_classes_are_refused(http: httpx.Client, path: str) -> None:
    rows = {"predictions": P, "labels": Y}
    options = {"method": "isotonic"} if path == "/maps" else {}
    for names in ("1,0", '["1", "0"]', "1.0,0.0"):
        refused = _send(http, path, CSV, rows, class_names=names, **options)
        assert problem_of(refused) == (422, "invalid-label", "/labels")
        assert "is the place of its column; if it is a name" in refused.json()["detail"]
    for names in ("0,1", "1,2", "no,yes"):
        _send(http, path, CSV, rows, class_names=names, **options).raise_for_status()


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != CSV])
def test_numbers_with_a_type_are_places_and_strings_are_names(http: httpx.Client, kind: str) -> None:
    for labels, expected in ((Y, Y), (Y.astype(str), 1 - Y)):
        answer = _send(http, "/evaluate", kind, {"predictions": P, "labels": labels}, class_names="1,0")
        brier = answer.raise_for_status().json()["measures"]["brier"]["value"]
        assert brier == pytest.approx(float(np.mean((P - expected) ** 2)), abs=1e-12)
