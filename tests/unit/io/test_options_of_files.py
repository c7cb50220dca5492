"""An option of a file changes what is read, or is refused, whatever the format: none is ignored."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.io.errors import TabularError
from calibrant.io.files import FileOptions, read_forecast_sheet, read_sheet
from calibrant.io.options import OPTIONS
from tests.packed import arrow, npz, parquet

N = 24
CELLS: dict[str, list[Any]] = {
    "p": [0.03 + 0.04 * i for i in range(N)],
    "q": [0.97 - 0.04 * i for i in range(N)],
    "y": [i % 2 for i in range(N)],
    "z": [i % 3 % 2 for i in range(N)],
    "site": ["ab"[i % 2] for i in range(N)],
    "count": [1 + i % 3 for i in range(N)],
    "h_a": [0.1 * i for i in range(N)],
    "h_b": [0.1 * i + 1.0 for i in range(N)],
    "total": [10 * i for i in range(N)],
    "low": [0.01 + 0.02 * i for i in range(N)],
    "day": [f"2024-{1 + i % 6:02d}-{1 + i:02d}" for i in range(N)],
}
FORMATS: dict[str, Callable[[Mapping[str, list[Any]]], bytes]] = {
    "csv": lambda cells: "\n".join(
        ",".join(map(str, row)) for row in ([*cells], *zip(*cells.values(), strict=True))
    ).encode(),
    "jsonl": lambda cells: "\n".join(
        json.dumps(dict(zip(cells, row, strict=True))) for row in zip(*cells.values(), strict=True)
    ).encode(),
    "parquet": lambda cells: parquet(pa.table(cells)),
    "arrow": lambda cells: arrow(pa.table(cells)),
    "npz": lambda cells: npz(
        **{name: np.array([np.nan if cell is None else cell for cell in column]) for name, column in cells.items()}
    ),
}
#: Options that need a second file, and those of commands, which use them after the file is read.
ELSEWHERE = {"labels_from", "ids", "inner", "known", "reduction"}
#: Options of text, which other formats do not have.
OF_TEXT = {"decimal", "encoding"}
FEATURES = {"features": ("count",)}
#: Options of both kinds of predictions besides the columns of these and of the labels.
SHARED = ("groups", "weights", "weights_kind", "times", "clusters")
#: Options -> those without an option, and the same with it.
CLASSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "predictions": ({}, {"predictions": ("q",)}),
    "labels": ({}, {"labels": "z"}),
    "groups": ({}, {"groups": ("site",)}),
    "weights": ({}, {"weights": "count"}),
    "weights_kind": ({"weights": "count"}, {"weights_kind": "frequency"}),
    "scale": ({}, {"scale": "logit"}),
    "drop_missing": ({"predictions": ("gaps",)}, {"drop_missing": True}),
    "mapping": ({"labels": "site"}, {"mapping": {"a": 1, "b": 0}}),
    "class_names": ({"labels": "site"}, {"class_names": ("b", "a")}),
    "pos_label": ({"labels": "site"}, {"pos_label": "a"}),
    "times": ({}, {"times": "day"}),
    "clusters": ({}, {"clusters": "site"}),
    "features": ({}, FEATURES),
    "categorical": (FEATURES, {"categorical": ("count",)}),
}
NORMAL = {"predictions": ("mean=p", "std=q"), "labels": "total"}
INTERVALS = {"predictions": ("lower=low", "upper=p"), "labels": "total"}
NUMBERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "predictions": (NORMAL, {"predictions": ("mean=q", "std=p")}),
    "labels": (NORMAL, {"labels": "y"}),
    **{name: (NORMAL | without, with_it) for name, (without, with_it) in CLASSES.items() if name in SHARED},
    "by": (NORMAL, {"by": "site"}),
    "level": (INTERVALS | {"level": 0.8}, {"level": 0.7}),
    "levels": (
        {"predictions": ("quantiles=h_*",), "labels": "total", "levels": (0.1, 0.9)},
        {"levels": (0.2, 0.9)},
    ),
}


def _read(read: Callable[..., Any], content: bytes, options: Mapping[str, Any]) -> Any:
    """What is read, or the error."""
    try:
        sheet = read(io.BytesIO(content), name="a", max_rows=None, options=FileOptions(**options))
    except TabularError as error:
        return type(error)
    return {name: _lists(part) for name, part in vars(sheet).items() if name != "notes"}


def _lists(cells: Any) -> Any:
    if isinstance(cells, np.ndarray):
        return cells.tolist()
    return {name: _lists(part) for name, part in cells.items()} if hasattr(cells, "items") else cells


def test_every_option_of_a_file_is_tested() -> None:
    for kind, cases in (("classes", CLASSES), ("numbers", NUMBERS)):
        names = {name for name, option in OPTIONS.items() if option.kind in (None, kind)}
        assert names - ELSEWHERE - OF_TEXT == cases.keys()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("read", "cases"), [(read_sheet, CLASSES), (read_forecast_sheet, NUMBERS)], ids=["classes", "numbers"]
)
def test_an_option_of_a_file_changes_what_is_read(
    read: Callable[..., Any], cases: Mapping[str, tuple[dict[str, Any], dict[str, Any]]], form: str
) -> None:
    plain = {} if cases is NUMBERS else {"predictions": ("p",), "labels": "y"}
    ignored = []
    for name, (without, with_it) in cases.items():
        cells = CELLS | ({"gaps": [None if form != "csv" else "", *CELLS["p"][1:]]} if name == "drop_missing" else {})
        content = FORMATS[form](cells)
        before, after = (_read(read, content, plain | without | more) for more in ({}, with_it))
        assert not isinstance(after, type), (name, after)
        if before == after:
            ignored.append(name)
    assert ignored == []
