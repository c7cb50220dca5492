"""Every fitted map is explained: each of its parameters has a meaning, and its candidates are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibrant.calibrators import METHODS
from schemas.maps import MapRecord
from service.web.methods import Explanation, explained

STORED = sorted((Path(__file__).parents[3] / "contract" / "stored").glob("map-v1-*.json"))


def _record(document: dict[str, Any], **fields: Any) -> MapRecord:
    summary: dict[str, Any] = {"id": "map_0", "name": None, "version": None, "options": {}, "n": 300, "seed": 0}
    dated = {"created_at": "2026-01-01T00:00:00Z", "updated_at": None}
    same = {name: document[name] for name in ("method", "reduction", "scale", "n_classes")}
    return MapRecord(**summary, **dated, **same, document=document, **fields)


def _explained(path: Path) -> tuple[dict[str, Any], Explanation]:
    document = json.loads(path.read_bytes())["record"]["document"]
    return document, explained(_record(document))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_every_parameter_of_a_stored_map_is_explained(path: Path) -> None:
    document, about = _explained(path)
    assert [fact.name for fact in about.parameters] == list(document["parameters"])
    assert all(fact.meaning and fact.value for fact in about.parameters)
    assert about.method is METHODS[document["method"]]
    assert all(fact.meaning for fact in about.diagnostics), about.diagnostics
    assert len(about.curves) == len(document["parameters"].get("curves", ()))
    assert "[" not in "".join(fact.value for fact in (*about.parameters, *about.diagnostics))


def test_the_candidate_with_the_lowest_held_out_loss_is_the_best() -> None:
    document = json.loads((STORED[0].parent / "map-v1-averaged.json").read_bytes())["record"]["document"]
    losses = {"identity": 0.61, "platt": 0.52, "beta": 0.52, "process": 0.53}
    diagnostics = {"weights": {"platt": 0.75, "beta": 0.25}, "held_out_losses": losses}
    about = explained(_record(document | {"diagnostics": diagnostics}))
    assert [(each.name, each.weight, each.best) for each in about.tried] == [
        ("platt", "0.750", True),
        ("beta", "0.250", True),
        ("process", "", False),
        ("identity", "0.000", False),
    ]
    assert about.score == "log loss"


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
    about = explained(_record(document))
    assert about.method is None
    assert [fact.value for fact in about.parameters] == ["1.5", "\u22120.25"]
    assert about.tried == []
    assert all(len(fact.value) < 210 for fact in about.diagnostics)
