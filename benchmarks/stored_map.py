"""The stored document of a calibrator for the tests: ``python -m benchmarks.stored_map METHOD``, or averaged.network.

It is written once, when the calibrator is new, and never again: later versions have to read it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant import METHODS, SET_METHODS
from schemas.maps import MapRecord

FOLDER = Path(__file__).parents[1] / "tests" / "contract" / "stored"
_N, _CLASSES = 400, 3
#: Rows from which the average of vectors has a network as a member.
_MANY = 5_000
#: Options of methods that need some.
_OPTIONS: dict[str, dict[str, Any]] = {"prior-shift": {"new_rate": 0.05}}


def stored_map(method: str, *, network: bool = False) -> dict[str, Any]:
    """The record of a map that the method fits, predictions, and what the map makes of them."""
    random = np.random.default_rng(0)
    if network:
        rows: Any = random.dirichlet(np.full(_CLASSES, 0.7), _MANY)
        true = np.where(rows[:, [1]] > rows[:, [2]], rows[:, [2, 0, 1]], rows)
        labels: Any = (np.cumsum(true, axis=1) > random.random((_MANY, 1))).argmax(axis=1)
        predictions: Any = [[0.2, 0.3, 0.5], [0.1, 0.6, 0.3], [0.9, 0.05, 0.05], [0.0, 0.0, 1.0]]
    elif METHODS[method].vector is None or METHODS[method].event is not None:
        rows = random.beta(0.7, 0.7, _N)
        labels = (random.random(_N) < 0.2 + 0.6 * rows).astype(int)
        predictions = [0.0, 0.05, 0.3, 0.5, 0.77, 1.0]
    else:
        rows = random.dirichlet(np.full(_CLASSES, 0.7), _N)
        labels = [random.choice(_CLASSES, p=0.8 * row + 0.2 / _CLASSES) for row in rows]
        predictions = [[0.2, 0.3, 0.5], [0.9, 0.05, 0.05], [0.0, 0.0, 1.0]]
    options = _OPTIONS.get(method, {})
    arguments: dict[str, Any] = {}
    new: dict[str, Any] = {}
    if METHODS[method].featured is not None:
        rows, labels, arguments, new = _with_features(random)
    reduction = "binary" if rows.ndim == 1 else "canonical"
    fitted = calibrant.fit(method, rows, labels, reduction=reduction, **options, **arguments)
    document = fitted.to_document()
    record = MapRecord(
        id=f"map_{method}",
        name="stored",
        version=1,
        method=method,
        options=options,
        reduction=document["reduction"],
        scale=document["scale"],
        n_classes=document["n_classes"],
        n=len(rows),
        seed=0,
        created_at="2026-01-01T00:00:00.000Z",
        document=document,
    )
    calibrated = np.asarray(fitted.apply(predictions, **new)).tolist()
    return {"record": record.model_dump(), "predictions": predictions, **new, "calibrated": calibrated}


def _with_features(random: np.random.Generator) -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    """Rows whose calibration depends on features, and features of six new rows, some missing or unknown."""
    n = 10 * _N
    country, size, age = random.choice(["DE", "FR", "US"], n), random.choice(["S", "L"], n), random.gamma(4.0, 10.0, n)
    z, known = random.normal(-0.5, 1.2, n), age.copy()
    age[::20] = np.nan
    f = z * (1.0 - 0.5 * (country == "US")) + (country == "FR") * (size == "S") + np.tanh((known - 40.0) / 15.0)
    p, labels = 1.0 / (1.0 + np.exp(-z)), (random.random(n) < 1.0 / (1.0 + np.exp(-f))).astype(int)
    new = {
        "country": ["DE", "FR", "XX", None, "FR", "US"],
        "size": ["S", "S", "L", "L", None, "S"],
        "age": [20.0, 45.5, 70.0, None, 1e6, -3.0],
    }
    return p, labels, {"features": {"country": country, "size": size, "age": age}}, {"features": new}


#: Options of the stored set maps, by the end of their name.
_SETS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "lac": [("", {}), (".class", {"conditional": "class"}), (".group", {"conditional": "group"})],
    "aps": [("", {"randomised": True, "allow_empty": False}), (".cluster", {"conditional": "cluster", "alpha": 0.2})],
    "raps": [("", {"k_reg": 1}), (".logits", {"scale": "logit", "penalty": 0.1})],
    "crc": [("", {}), (".group", {"conditional": "group"})],
}


def stored_sets(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """The document of a set map that the method fits, predictions, and their sets."""
    random = np.random.default_rng(0)
    labels = random.integers(0, _CLASSES, _N)
    rows: Any = np.exp(random.standard_normal((_N, _CLASSES)) + 1.5 * np.eye(_CLASSES)[labels])
    rows, names = rows / rows.sum(axis=1, keepdims=True), ["ant", "bee", "cat"]
    if method == "crc":
        rows, labels, names = rows[:, 1], (labels == 1).astype(int), ["no", "yes"]
    rows = np.log(rows) if "scale" in options else rows
    by_group: dict[str, Any] = (
        {"groups": np.array(["north", "south"])[np.arange(_N) % 2]} if "group" in options.values() else {}
    )
    fitted = calibrant.fit_sets(
        rows[:-40],
        labels[:-40],
        method=method,
        class_names=names,
        **options,
        **{name: values[:-40] for name, values in by_group.items()},
    )
    seed = 7 if options.get("randomised") else None
    groups = None if not by_group else by_group["groups"][-40:]
    sets = fitted.apply(rows[-40:], groups=groups, seed=seed).to_lists()
    new = {"predictions": rows[-40:].tolist(), "groups": None if groups is None else groups.tolist(), "seed": seed}
    return {"document": fitted.to_document(), **new, "sets": sets}


def main() -> None:
    (method,) = sys.argv[1:]
    if method in SET_METHODS:
        for end, options in _SETS[method]:
            with (FOLDER / f"sets-v1-{method}{end}.json").open("x", encoding="utf-8") as file:
                json.dump(stored_sets(method, options), file)
        return
    method, _, network = method.partition(".")
    of_event = METHODS[method].vector is None or METHODS[method].event is not None
    name = f"map-v1-{method}.json" if of_event else f"map-v1-{method}.canonical.json"
    if network:
        name = f"map-v1-{method}.{network}.json"
    with (FOLDER / name).open("x", encoding="utf-8") as file:
        json.dump(stored_map(method, network=bool(network)), file)
    print(FOLDER / name)


if __name__ == "__main__":
    main()
