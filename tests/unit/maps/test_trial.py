from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calibrant
from calibrant.errors import InvalidDocument
from calibrant.maps.calibration_map import MOST_CLASSES, try_map

FILES = sorted((Path(__file__).parents[2] / "contract" / "stored").glob("map-*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_stored_map_passes(path: Path) -> None:
    try_map(calibrant.load(json.loads(path.read_text("utf-8"))["record"]["document"]))


def _document(family: str, parameters: dict[str, Any], **fields: Any) -> dict[str, Any]:
    event = {"reduction": "binary", "scale": "probability", "n_classes": None}
    return {"format": 1, "method": "x", "family": family, "parameters": parameters} | event | fields


def test_numbers_that_are_finite_but_not_their_products_are_refused() -> None:
    of_vector = {"reduction": "canonical", "scale": "logit", "n_classes": 2}
    try_map(calibrant.load(_document("vector", {"weights": [1.5, 1.5], "intercepts": [0.0, -700.0]}, **of_vector)))
    fitted = calibrant.load(_document("vector", {"weights": [1e308, 1e308], "intercepts": [0.0, 0.0]}, **of_vector))
    with pytest.raises(InvalidDocument) as caught:
        try_map(fitted)
    assert caught.value.offences[0].pointer == "/parameters"


def test_a_map_of_too_many_classes_is_refused_before_it_is_tried() -> None:
    document = _document("temperature", {"temperature": 1.0}, reduction="canonical", n_classes=MOST_CLASSES)
    try_map(calibrant.load(document))
    with pytest.raises(InvalidDocument) as caught:
        try_map(calibrant.load(document | {"n_classes": 10**9}))
    assert caught.value.offences[0].pointer == "/n_classes"
