"""Laws that every calibrator of the catalogue keeps."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import operator
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import METHODS
from calibrant.core.errors import CalibrationError, InvalidDocument
from tests.unit.maps.drawn import drawn_logits, softmax

K, N = 3, 500
#: Options that keep slow fits small.
QUICK: dict[str, dict[str, Any]] = {
    "pl": {"candidates": (1, 2), "folds": 3},
    "pl3": {"candidates": (1, 2), "folds": 3},
    "averaged": {"folds": 3},
    "pl-de": {"segments": 2},
    "prior-shift": {"new_rate": 0.3},
}
#: The same for the whole vector, where they differ.
OF_VECTORS: dict[str, dict[str, Any]] = {"prior-shift": {"new_rate": (1 / K,) * K}}
#: Fits of maximum likelihood whose family holds the identity, so that they cannot be worse on the rows of the fit.
HOLD_IDENTITY: dict[str, dict[str, Any]] = {
    "platt": {"target_smoothing": False},
    "temperature": {},
    "beta": {},
    "isotonic": {},
    "vector": {},
    "matrix": {},
    "ets": {},
}
EVENTS = [name for name, method in METHODS.items() if method.event is not None]
VECTORS = [name for name, method in METHODS.items() if method.vector is not None]
EVERY = [(name, False) for name in EVENTS] + [(name, True) for name in VECTORS]
GRID = np.linspace(0.0, 1.0, 501)
#: Methods that choose by folds of rows, of which copies of a row may be in different ones.
IN_FOLDS = {"pl", "pl3", "averaged", "es-cv"}
#: Methods that do not use how many rows there are.
WITHOUT_COUNTS = {
    *("temperature", "isotonic", "ets", "vector", "matrix", "iop-diagonal", "iop-oi", "iop-op"),
    *("accuracy-constant", "side-means", "predicted-class", "prior-shift"),
}
#: Options without which these methods choose by folds.
WITHOUT_FOLDS = {
    name: {"strength": 0.1} for name in ("matrix-odir", "dirichlet-odir", "iop-diagonal", "iop-oi", "iop-op")
}


def _event(seed: int = 0) -> tuple[Any, Any]:
    """Predictions with ties, exact 0 and 1, too sure of themselves."""
    random = np.random.default_rng(seed)
    p = np.concatenate([[0.0, 0.0, 1.0, 1.0], np.round(random.random(N - 4), 2)])
    return p, (random.random(N) < 0.5 + 0.7 * (p - 0.5)).astype(int)


def _vector(seed: int = 0) -> tuple[Any, Any]:
    z, labels = drawn_logits(N, K, seed=seed, spread=1.5, tilt=0.0)
    return softmax(z), labels


def _logits(rows: Any) -> Any:
    """Logits of events, with the largest for 0 and 1, or of the classes of a vector."""
    if rows.ndim == 2:
        return np.log(rows)
    inside = np.clip(rows, 2.0**-53, 1.0 - 2.0**-53)
    return np.log(inside) - np.log1p(-inside)


@functools.cache
def _fitted(name: str, *, vector: bool, scale: Any = "probability") -> calibrant.CalibrationMap:
    rows, labels = _vector() if vector else _event()
    rows = _logits(rows) if scale == "logit" else rows
    options = {"reduction": "canonical" if vector else "binary", "scale": scale} | _quick(name, vector=vector)
    return calibrant.fit(name, rows, labels, **options)


def _quick(name: str, *, vector: bool) -> dict[str, Any]:
    return (OF_VECTORS if vector and name in OF_VECTORS else QUICK).get(name, {})


def _same(first: Any, other: Any) -> None:
    np.testing.assert_allclose(first, other, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", EVENTS)
def test_a_curve_gives_probabilities(name: str) -> None:
    fitted = _fitted(name, vector=False)
    q = fitted.apply(GRID)
    assert np.isfinite(q).all()
    assert q.min() >= 0.0
    assert q.max() <= 1.0
    if METHODS[name].traits.monotone.startswith("yes"):
        assert np.all(np.diff(q) >= -1e-12)
    np.testing.assert_allclose(np.clip(fitted.apply(GRID, clip=False), 0.0, 1.0), q)


@pytest.mark.parametrize("name", EVENTS)
def test_the_curve_at_a_logit_is_that_at_its_probability(name: str) -> None:
    curve: Any = _fitted(name, vector=False).function
    p = GRID[:-1] + 0.0007  # at no edge of a step
    np.testing.assert_allclose(curve.of_logits(np.log(p) - np.log1p(-p)), curve(p), rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
@pytest.mark.parametrize(
    "name",
    [name for name in EVENTS if METHODS[name].traits.monotone.startswith("yes") and METHODS[name].runs == "inline"],
)
def test_a_monotone_curve_does_not_decrease_although_the_labels_do(name: str) -> None:
    p, y = _event()
    with contextlib.suppress(CalibrationError):  # no temperature, and no accuracy, reverses the predictions
        fitted = calibrant.fit(name, p[4:], 1 - y[4:], **_quick(name, vector=False))
        assert np.all(np.diff(fitted.apply(GRID)) >= -1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EVENTS if name != "identity"])
def test_predictions_of_0_and_1_that_were_wrong_become_probabilities_in_between(name: str) -> None:
    p, y = _event()
    p[:20], p[20:40], y[:20], y[20:40] = 0.0, 1.0, np.arange(20) % 5 == 0, np.arange(20) % 5 > 0
    impossible, certain = calibrant.fit(name, p, y, **QUICK.get(name, {})).apply([0.0, 1.0])
    assert 0.0 < impossible < certain < 1.0


@pytest.mark.parametrize("name", VECTORS)
def test_a_transform_gives_rows_of_sum_1(name: str) -> None:
    fitted = _fitted(name, vector=True)
    P = np.vstack([_vector(1)[0], np.eye(K), np.full((1, K), 1.0 / K)])
    q = fitted.apply(P)
    assert q.shape == P.shape
    assert q.min() >= 0.0
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    if METHODS[name].traits.keeps_top_label == "yes":
        np.testing.assert_array_equal(q[:N].argmax(axis=1), P[:N].argmax(axis=1))


@pytest.mark.parametrize(
    ("name", "vector", "scale"),
    [
        *((*case, "probability") for case in EVERY),
        *(pytest.param(*case, "logit", marks=pytest.mark.slow) for case in EVERY),
    ],
)
def test_a_document_round_trips_bit_for_bit(name: str, vector: bool, scale: str) -> None:
    fitted = _fitted(name, vector=vector, scale=scale)
    document = fitted.to_document()
    again = calibrant.load(json.loads(json.dumps(document)))
    assert again == fitted
    assert again.to_document() == document
    rows = _vector(1)[0] if vector else GRID
    rows = _logits(rows) if scale == "logit" else rows
    np.testing.assert_array_equal(again.apply(rows, clip=False), fitted.apply(rows, clip=False))


def _numbers(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(node, dict | list):
        members = node.items() if isinstance(node, dict) else enumerate(node)
        return [place for key, part in members for place in _numbers(part, (*path, key))]
    return [path] if isinstance(node, float) else []


DAMAGES: list[Any] = [float("nan"), float("inf"), 10**400, "0.5", None, True]


@pytest.mark.parametrize(("name", "vector"), EVERY)
def test_every_damaged_number_of_a_document_is_refused_at_its_field(name: str, vector: bool) -> None:
    document = _fitted(name, vector=vector).to_document()
    for field, parameter in document["parameters"].items():
        places = _numbers(parameter, (field,))
        # Every damage in the first number of a field, and one in each of some others.
        damages = [(place, damage) for place in places[:1] for damage in DAMAGES]
        for (*path, last), damage in [*damages, *zip((*places[1:4], *places[4:][-2:]), DAMAGES, strict=False)]:
            damaged = copy.deepcopy(document)
            functools.reduce(operator.getitem, path, damaged["parameters"])[last] = damage
            with pytest.raises(InvalidDocument) as caught:
                calibrant.load(damaged)
            assert caught.value.offences[0].pointer.startswith(f"/parameters/{field}"), damage


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("name", VECTORS)
def test_permuting_the_classes_permutes_the_map(name: str, zeros: bool) -> None:
    p, labels = _vector()
    if zeros:
        p[np.arange(N), p.argmin(axis=1)] *= p.min(axis=1) > 0.02
        p /= p.sum(axis=1, keepdims=True)
    order = np.array([1, 2, 0])
    options = _quick(name, vector=True)
    fitted = calibrant.fit(name, p, labels, reduction="canonical", **options) if zeros else _fitted(name, vector=True)
    first = fitted.apply(p)
    other = calibrant.fit(name, p[:, order], np.argsort(order)[labels], reduction="canonical", **options)
    _same(other.apply(p[:, order]), first[:, order])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "vector"), EVERY)
def test_neither_the_order_of_the_rows_nor_single_precision_matters(name: str, vector: bool) -> None:
    rows, labels = _vector() if vector else _event()
    single, probe = rows.astype(np.float32), _vector(1)[0] if vector else GRID
    options: dict[str, Any] = {"reduction": "canonical" if vector else "binary", **_quick(name, vector=vector)}
    order = np.random.default_rng(0).permutation(N)
    other = calibrant.fit(name, single.astype(np.float64)[order], labels[order], **options)
    _same(calibrant.fit(name, single, labels, **options).apply(probe), other.apply(probe))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "vector"), EVERY)
def test_frequencies_are_repeated_rows_and_only_ratios_of_importance_weights_count(name: str, vector: bool) -> None:
    rows, labels = _vector() if vector else _event()
    w = np.random.default_rng(0).integers(0, 3, N)
    w[:20] = 1
    probe = _vector(1)[0] if vector else GRID

    def fitted(*batch: Any, **weights: Any) -> Any:
        options = weights | _quick(name, vector=vector) | WITHOUT_FOLDS.get(name, {})
        return calibrant.fit(name, *batch, reduction="canonical" if vector else "binary", **options).apply(probe)

    def same(first: Any, other: Any) -> None:
        np.testing.assert_allclose(first, other, rtol=0, atol=1e-12)

    frequency = fitted(rows, labels, weights=w, weights_kind="frequency")
    same(frequency, fitted(rows[w > 0], labels[w > 0], weights=w[w > 0], weights_kind="frequency"))
    if name not in IN_FOLDS:
        same(frequency, fitted(np.repeat(rows, w, axis=0), np.repeat(labels, w)))
    importance = fitted(rows, labels, weights=w)
    rows_left = np.random.default_rng(1).permutation(np.flatnonzero(w))
    same(importance, fitted(rows[rows_left], labels[rows_left], weights=7.5 * w[rows_left]))
    if name in WITHOUT_COUNTS:
        same(importance, frequency)


@pytest.mark.parametrize(
    ("name", "vector"),
    [(n, v) for n in HOLD_IDENTITY for v, names in ((False, EVENTS), (True, VECTORS)) if n in names],
)
def test_a_fit_of_maximum_likelihood_is_not_worse_than_the_identity_on_its_rows(name: str, vector: bool) -> None:
    rows, labels = _vector() if vector else _event()
    inside = np.clip(rows, 0.003, 0.997)
    rows = inside / inside.sum(axis=1, keepdims=True) if vector else inside
    reduction = "canonical" if vector else "binary"
    fitted = calibrant.fit(name, rows, labels, reduction=reduction, **HOLD_IDENTITY[name])
    before, after = (
        calibrant.evaluate(np.array(q), labels, measures=["log-loss"], reduction=reduction).measures["log-loss"].value
        for q in (rows, fitted.apply(rows))
    )
    assert (after or 0.0) <= (before or 9.0) + 1e-12
