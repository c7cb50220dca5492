from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from calibrant.core.errors import InvalidDocument
from calibrant.maps.calibration_map import MOST_CLASSES
from tests.rows import draw_classes

FILES = sorted((Path(__file__).parents[2] / "contract" / "stored").glob("map-*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_stored_map_passes(path: Path) -> None:
    calibrant.load(json.loads(path.read_text("utf-8"))["record"]["document"])


def _document(family: str, parameters: dict[str, Any], **fields: Any) -> dict[str, Any]:
    event = {"reduction": "binary", "scale": "probability", "n_classes": None}
    return {"format": 1, "method": "x", "family": family, "parameters": parameters} | event | fields


def test_numbers_that_are_finite_but_not_their_products_are_refused() -> None:
    of_vector = {"reduction": "canonical", "scale": "logit", "n_classes": 2}
    calibrant.load(_document("vector", {"weights": [1.5, 1.5], "intercepts": [0.0, -700.0]}, **of_vector))
    with pytest.raises(InvalidDocument, match="do not give probabilities") as caught:
        calibrant.load(_document("vector", {"weights": [1e308, 1e308], "intercepts": [0.0, 0.0]}, **of_vector))
    assert caught.value.offences[0].pointer == "/parameters"


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_every_fitted_map_is_loaded_again(scale: Any) -> None:
    random = np.random.default_rng(0)
    logits = 3.0 * random.normal(size=(300, 3))
    p = softmax(logits, axis=1)
    labels = np.array([random.choice(3, p=row) for row in softmax(0.5 * logits, axis=1)])
    several = logits if scale == "logit" else p
    one = logits[:, 0] if scale == "logit" else p[:, 0]
    for method in calibrant.METHODS.values():
        for given, y in ((several, labels), (one, labels == 0)):
            try:
                fitted = calibrant.fit(method.name, given, y, scale=scale)
            except calibrant.CalibrationError:  # methods of other scales or numbers of classes
                continue
            assert calibrant.load(fitted.to_document()) == fitted


@pytest.mark.parametrize(
    ("reduction", "options"),
    [
        *(("classwise", {"renormalise": on, "keep_order": order}) for on in (False, True) for order in (False, True)),
        *(
            (reduction, {"keep_order": on})
            for reduction in ("top-label", "ranks", "within-ranks")
            for on in (False, True)
        ),
    ],
)
def test_maps_of_classes_and_ranks_are_loaded_again(reduction: Any, options: dict[str, Any]) -> None:
    p, labels = draw_classes(200, 4)
    for method in ("platt", "isotonic", "beta", "identity"):
        fitted = calibrant.fit(method, p, labels, reduction=reduction, **options)
        assert calibrant.load(fitted.to_document()) == fitted


def test_a_map_of_too_many_classes_is_refused_before_it_is_tried() -> None:
    document = _document("temperature", {"temperature": 1.0}, reduction="canonical", n_classes=MOST_CLASSES)
    calibrant.load(document)
    with pytest.raises(InvalidDocument) as caught:
        calibrant.load(document | {"n_classes": 10**9})
    assert caught.value.offences[0].pointer == "/n_classes"
