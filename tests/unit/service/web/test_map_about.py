"""Every fitted map is explained: each of its parameters has a meaning, and its candidates are compared."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from calibrant.calibrators import METHODS
from schemas.maps import MapRecord
from service.web.maps import EXPLAINED
from service.web.visitor import environment

STORED = sorted((Path(__file__).parents[3] / "contract" / "stored").glob("map-v1-*.json"))


def _record(document: dict[str, Any], **fields: Any) -> MapRecord:
    summary: dict[str, Any] = {"id": "map_0", "name": None, "version": None, "options": {}, "n": 300, "seed": 0}
    dated = {"created_at": "2026-01-01T00:00:00Z", "updated_at": None}
    same = {name: document[name] for name in ("method", "reduction", "scale", "n_classes")}
    return MapRecord(**summary, **dated, **same, document=document, **fields)


def _explained(record: MapRecord) -> str:
    return environment().get_template("map_about.html").render(record=record, reference="map_0", **EXPLAINED)


def _table(text: str, label: str) -> list[list[str]]:
    """The texts of the cells of a table by its label; empty without one."""
    table = text.partition(f'aria-label="{label}"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr role=.row.><th role=.rowheader.*?</tr>", table, re.DOTALL)
    return [[unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_every_parameter_of_a_stored_map_is_explained(path: Path) -> None:
    document = json.loads(path.read_bytes())["record"]["document"]
    text = _explained(_record(document))
    parameters, diagnostics = _table(text, "Fitted parameters"), _table(text, "Diagnostics of the fit")
    assert [cells[0].split()[-1] for cells in parameters] == list(document["parameters"])
    for name, shown, _unit in (*parameters, *diagnostics):
        meaning, _, field = name.rpartition(" ")
        assert meaning, field
        assert shown, field
        assert "[" not in shown
    assert METHODS[document["method"]].title in text
    assert len(_table(text, "Curves")) == len(document["parameters"].get("curves", ()))


def test_the_candidate_with_the_lowest_held_out_loss_is_the_best() -> None:
    document = json.loads((STORED[0].parent / "map-v1-averaged.json").read_bytes())["record"]["document"]
    losses = {"identity": 0.61, "platt": 0.52, "beta": 0.52, "process": 0.53, "2": 0.6}
    diagnostics = {"weights": {"platt": 0.75, "beta": 0.25}, "held_out_losses": losses}
    text = _explained(_record(document | {"diagnostics": diagnostics}))
    assert _table(text, "Candidates of the fit") == [
        ["platt best", "0.750", "0.52000"],
        ["beta best", "0.250", "0.52000"],
        ["process", "\u2013", "0.53000"],
        ["2 pieces", "0.000", "0.60000"],
        ["identity", "0.000", "0.61000"],
    ]
    assert "Held-out log loss" in text


def test_texts_of_a_foreign_document_are_shortened() -> None:
    document = {
        "format": 1,
        "method": "our-own",
        "family": "platt",
        "reduction": "binary",
        "scale": "probability",
        "n_classes": None,
        "parameters": {"slope": 1.5, "intercept": -0.25},
        "diagnostics": {
            "a" * 500: {"b": [[1, "x" * 900]], "c": None},
            "held_out_losses": {"platt": "low"},
            "weights": 3,
            "empty": [[]],
        },
    }
    text = _explained(_record(document))
    assert "The method <code>our-own</code> is not one of this version" in text
    assert [cells[1] for cells in _table(text, "Fitted parameters")] == ["1.5", "\u22120.25"]
    assert _table(text, "Candidates of the fit") == []
    assert all(len(cell) < 210 for cells in _table(text, "Diagnostics of the fit") for cell in cells)
