"""Documents of maps: what is read, what is refused, and what is tried before a map is accepted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import read_batch
from calibrant.core.digest import digest
from calibrant.core.errors import InvalidDocument
from calibrant.maps.calibration_map import MOST_CLASSES
from tests.refusals import refused_at
from tests.rows import draw_classes, draw_event

GRID = np.concatenate([np.linspace(0, 1, 1001), [1e-300, 1e-17, 1 - 2**-53]])


def _documents() -> dict[str, dict[str, Any]]:
    p, y = draw_event(400, 0, 2)
    return {
        m: calibrant.fit(m, p, y).to_document()
        for m in ("identity", "platt", "beta", "isotonic", "pl", "pl3", "averaged")
    }


DOCUMENTS = _documents()


@pytest.mark.parametrize(
    ("field", "damage"),
    [
        ("format", 2),
        ("format", True),
        ("format", None),
        ("family", "spline-of-another-world"),
        ("family", None),
        ("method", ""),
        ("scale", "percent"),
        ("n_classes", 1),
        ("n_classes", 2.0),
        ("reduction", "class:9"),
        ("reduction", None),
        ("parameters", None),
        ("parameters", []),
        ("diagnostics", 3),
    ],
)
def test_every_damaged_field_is_found_on_loading(field: str, damage: Any) -> None:
    damaged = DOCUMENTS["platt"] | {"n_classes": 3, field: damage}
    if field == "n_classes":
        damaged[field] = damage
    with refused_at(f"/{field}", InvalidDocument):
        calibrant.load(damaged)


@pytest.mark.parametrize(("field", "detail"), [("intercepts", "number"), ("prior", "number in [0, 1]")])
def test_the_error_of_a_number_has_its_bounds_if_there_are_any(field: str, detail: str) -> None:
    p, y = draw_classes(400, 3, seed=2)
    document = calibrant.fit("sms", p, y).to_document()
    document["parameters"][field][1] = None
    with pytest.raises(InvalidDocument) as caught:
        calibrant.load(document)
    offence = caught.value.offences[0]
    assert (offence.pointer, offence.detail) == (f"/parameters/{field}/1", f"must be a finite {detail}")


@pytest.mark.parametrize("document", [None, [], b"map", 3])
def test_a_document_must_be_a_json_object(document: Any) -> None:
    with pytest.raises(InvalidDocument):
        calibrant.load(document)


def test_a_map_is_saved_and_loaded_with_class_names_and_training_digest(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), 200)
    y = (random.random((200, 1)) > p.cumsum(axis=1)).sum(axis=1)
    fitted = replace(calibrant.fit("temperature", p, y), class_names=("cat", "dog", "bird"))
    fitted.save(tmp_path / "map.json")
    for path in (tmp_path / "map.json", str(tmp_path / "map.json")):
        loaded = calibrant.load(path)
        assert loaded == fitted
        assert loaded.class_names == ("cat", "dog", "bird")
        assert loaded.training_digest == digest(read_batch(p, y))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b"[]", b'"text"', b"NaN"])
def test_a_file_without_a_document_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "map.json").write_bytes(content)
    with pytest.raises(InvalidDocument):
        calibrant.load(tmp_path / "map.json")


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        calibrant.load(tmp_path / "none.json")


@pytest.mark.parametrize("digest", [1, "", "0" * 31, "G" * 32, "0" * 33, "A" * 32, []])
def test_an_invalid_training_digest_is_rejected(digest: object) -> None:
    with refused_at("/training_digest", InvalidDocument):
        calibrant.load(DOCUMENTS["platt"] | {"training_digest": digest})


@pytest.mark.parametrize(
    "names",
    ["ab", ["a"], ["a", "b", "c"], ["a", "a"], ["a", 1], ["a", ""], ["a", "b" * 257], {"a": 1}, 2, [["a"], "b"]],
)
def test_invalid_class_names_are_rejected(names: object) -> None:
    with refused_at("/class_names", InvalidDocument, below=True):
        calibrant.load(DOCUMENTS["platt"] | {"class_names": names})


@pytest.mark.parametrize("method", DOCUMENTS)
def test_maps_are_equal_if_they_apply_the_same_function(method: str) -> None:
    loaded = calibrant.load(DOCUMENTS[method])
    assert loaded == calibrant.load(DOCUMENTS[method] | {"diagnostics": {}, "training_digest": None})
    assert hash(loaded) == hash(calibrant.load(DOCUMENTS[method]))
    assert loaded != replace(loaded, class_names=("no", "yes"))
    assert loaded != calibrant.load(DOCUMENTS["platt" if method != "platt" else "beta"])
    assert loaded != method


# --- Maps of logits


def _of_logits(method: str) -> dict[str, Any]:
    random = np.random.default_rng(1)
    z = random.choice([-90.0, -50.0, -1.0, 2.0, 50.0, 90.0], 200) + random.random(200)
    options: dict[str, Any] = {"slope": "flat"} if method == "histogram" else {}
    labels = (random.random(200) < 1.0 / (1.0 + np.exp(-z / 50.0))).astype(int)
    return calibrant.fit(method, z, labels, scale="logit", **options).to_document()


#: Method -> the probabilities to which the logits belong.
PLACES = {"isotonic": "thresholds", "venn-abers": "scores", "spline": "scores", "histogram": "starts"}


@pytest.mark.parametrize(("method", "places"), PLACES.items())
def test_a_document_of_logits_without_their_places_is_applied_to_probabilities(method: str, places: str) -> None:
    """Documents of earlier versions have no ``at_logits``."""
    document = _of_logits(method)
    assert len(document["parameters"]["at_logits"]) == len(document["parameters"][places])
    del document["parameters"]["at_logits"]
    logits = np.array(document["parameters"][places])
    chosen = np.append(True, np.diff(logits) > 0.0)
    for name in ("heights", "values"):
        if name in document["parameters"]:
            document["parameters"][name] = np.array(document["parameters"][name])[chosen].tolist()
    if method == "venn-abers":
        steps = np.append(0, np.flatnonzero(np.repeat(chosen, 2)) + 1)
        for name in ("p0", "p1"):
            document["parameters"][name] = np.array(document["parameters"][name])[steps].tolist()
    document["parameters"][places] = logits[chosen].tolist()
    fitted = calibrant.load(document)
    z = np.array([-3.0, -0.7, 0.2, 1.5, 50.0])
    probabilities = calibrant.load({**document, "scale": "probability"})
    np.testing.assert_allclose(fitted.apply(z), probabilities.apply(1.0 / (1.0 + np.exp(-z))), rtol=1e-12)


@pytest.mark.parametrize(("method", "places"), PLACES.items())
def test_damaged_logits_of_places_are_refused(method: str, places: str) -> None:
    document = _of_logits(method)
    logits = document["parameters"]["at_logits"]
    for damage in ([], logits[::-1], logits[1:], [*logits[:-1], None], [logits[0], *logits[:-1]]):
        with pytest.raises(InvalidDocument):
            calibrant.load({**document, "parameters": {**document["parameters"], "at_logits": damage}})
    falling = [0.0, *[1.0 - i / 1000.0 for i in range(1, len(logits))]]
    with refused_at(f"/parameters/{places}", InvalidDocument):
        calibrant.load({**document, "parameters": {**document["parameters"], places: falling}})


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
    with refused_at("/parameters", InvalidDocument, match="do not give probabilities"):
        calibrant.load(_document("vector", {"weights": [1e308, 1e308], "intercepts": [0.0, 0.0]}, **of_vector))


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
    with refused_at("/n_classes", InvalidDocument):
        calibrant.load(document | {"n_classes": 10**9})
