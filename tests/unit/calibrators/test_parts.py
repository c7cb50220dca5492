from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from calibrant.calibrators import METHODS, FitContext, Fitting
from calibrant.calibrators.method import LEAST_SECONDS, count_parts, curves_of
from calibrant.core.batch import Batch, read_batch
from calibrant.core.errors import InvalidDocument, MissingClass, OnePrediction
from calibrant.maps.curves import Constant

PLAIN = FitContext(3, "cpu", None)
#: Options that make the long fits short.
SHORT: dict[str, dict[str, Any]] = {
    "pl": {"candidates": [1, 3], "folds": 3},
    "pl3": {"candidates": [1, 3], "folds": 3, "final": "weighted"},
    "averaged": {"candidates": [1, 2], "folds": 3},
    "pl-de": {"segments": 1},
    "spline": {"knots": None, "folds": 3},
    "prior-shift": {"new_rate": 0.1},
}
CURVED = [name for name, method in METHODS.items() if method.event is not None]
QUICK = [name for name in CURVED if METHODS[name].runs == "inline" and name != "spline"]


def _batch(
    n_classes: int, n: int, kind: Any = "frequency", *, weighted: bool = False, scale: Any = "probability"
) -> Batch:
    """Overconfident predictions of many classes; every class has rows."""
    random = np.random.default_rng(n_classes)
    z = 2.0 * random.standard_normal((n, n_classes))
    labels = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    P = np.exp(1.5 * z)
    weights = random.integers(1, 4, n) / (1.0 if kind == "frequency" else 3.0) if weighted else None
    predictions = 1.5 * z if scale == "logit" else P / P.sum(axis=1, keepdims=True)
    return read_batch(predictions, labels, weights, kind=kind, scale=scale)


def _through_parts(fitting: Fitting, batch: Batch, parts: int) -> Any:
    """The map put together from its parts, which were fitted from the last to the first and stored as JSON."""
    stored = [json.dumps(fitting.part(batch, part, parts, PLAIN)) for part in reversed(range(parts))]
    return fitting.join(batch, [json.loads(document) for document in reversed(stored)])


def _check(fitting: Fitting, batch: Batch, parts: int) -> None:
    whole, joined = fitting.run(batch, PLAIN), _through_parts(fitting, batch, parts)
    assert json.dumps(joined.to_document()) == json.dumps(whole.to_document())
    assert set(joined.diagnostics) == {"accuracy_before", "accuracy_after"}
    ours, theirs = (fitted.apply_checked(batch.predictions) for fitted in (joined, whole))
    np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["classwise", "ranks", "within-ranks"])
@pytest.mark.parametrize("method", CURVED)
def test_parts_make_the_map_of_one_fit_bit_for_bit(method: str, reduction: str) -> None:
    _check(Fitting.read(method, SHORT.get(method, {}), reduction), _batch(3, 150), 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frequency", "importance"])
@pytest.mark.parametrize("method", CURVED)
def test_parts_of_many_classes_with_weights_make_the_map_of_one_fit(method: str, kind: str) -> None:
    batch = _batch(6, 150, kind, weighted=True)
    _check(Fitting.read(method, SHORT.get(method, {}), "classwise"), batch, 4)
    if method in QUICK:
        _check(Fitting.read(method, SHORT.get(method, {}), "within-ranks"), batch, 5)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted({*QUICK} - {"es-cv", "ew-cv", "bbq", "kde", "venn-abers", "mli-spline"}))
def test_the_largest_number_of_parts_makes_the_map_of_one_fit(method: str) -> None:
    _check(Fitting.read(method, SHORT.get(method, {}), "classwise"), _batch(40, 120), 32)


@pytest.mark.parametrize(
    ("reduction", "options"),
    [
        ("classwise", {"keep_order": True}),
        ("classwise", {"renormalise": False}),
        ("classwise", {"target_smoothing": False}),
        ("top-label", {}),
        ("ranks", {"n_ranks": 3, "keep_order": True}),
        ("within-ranks", {"n_ranks": 5}),
    ],
)
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_the_options_that_a_reduction_adds_are_kept(reduction: str, options: dict[str, Any], scale: str) -> None:
    batch = _batch(6, 400, scale=scale)
    _check(Fitting.read("platt", options, reduction), batch, 1 if reduction == "top-label" else 3)


def test_a_rank_that_is_never_right_is_a_constant_in_its_part_too() -> None:
    P = _batch(4, 200).predictions.given
    batch = read_batch(P, P.argmax(axis=1))
    fitting = Fitting.read("platt", {}, "ranks")
    _check(fitting, batch, 4)
    assert fitting.part(batch, 3, 4, PLAIN)["curves"][0]["family"] == Constant.family


def test_a_part_raises_what_the_whole_fit_raises() -> None:
    batch = _batch(4, 200)
    P, y = batch.predictions.given, batch.labels
    lacking = read_batch(P, np.where(y == 2, 0, y))
    fitting = Fitting.read("platt", {}, "classwise")
    for part in range(2):
        with pytest.raises(MissingClass, match="class 2"):
            fitting.part(lacking, part, 2, PLAIN)
    Q = P.copy()
    Q[:, 0], Q[:, 1] = Q[:, 0] + Q[:, 1], 0.0
    equal = read_batch(Q, y)
    fitting = Fitting.read("pl", SHORT["pl"], "classwise")
    with pytest.raises(OnePrediction, match="class 1") as of_run:
        fitting.run(equal, PLAIN)
    with pytest.raises(OnePrediction) as of_part:
        fitting.part(equal, 0, 2, PLAIN)
    assert (of_part.value.detail, of_part.value.offences) == (of_run.value.detail, of_run.value.offences)
    assert len(fitting.part(equal, 1, 2, PLAIN)["curves"]) == 2


def test_damaged_or_missing_parts_are_refused() -> None:
    batch = _batch(4, 200)
    fitting = Fitting.read("platt", {}, "classwise")
    first, second = (fitting.part(batch, part, 2, PLAIN) for part in range(2))
    for documents in ([first], [first, second, second], [first, {}], [first, {"curves": [{"family": "platt"}] * 2}]):
        with pytest.raises(InvalidDocument):
            fitting.join(batch, documents)
    with pytest.raises(TypeError):
        Fitting.read("platt", {}, "confidence").part(batch, 0, 1, PLAIN)
    with pytest.raises(ValueError, match="parts"):
        fitting.part(batch, 2, 2, PLAIN)


def test_parts_are_worth_their_while_and_of_nearly_equal_length() -> None:
    small, large = _batch(3, 300), _batch(100, 20_000)
    assert Fitting.read("platt", {}, "classwise").parts(small) == 1
    assert Fitting.read("averaged", {}, "classwise").parts(large) == 32
    assert (
        Fitting.read(
            "averaged",
            {},
            "ranks",
        ).parts(small, least=1e-6)
        == 3
    )
    assert Fitting.read("averaged", {}, "confidence").parts(large) == 1
    assert Fitting.read("temperature", {}).parts(large) == 1
    for curves in range(1, 140):
        parts = count_parts(curves, 0.1 * curves)
        assert parts == 1 or 0.1 * curves / parts >= LEAST_SECONDS
        runs = [curves_of(part, parts, curves) for part in range(parts)]
        assert [k for run in runs for k in run] == list(range(curves))
        assert max(map(len, runs)) - min(map(len, runs)) <= 1


@pytest.mark.parametrize("reduction", ["classwise", "ranks"])
def test_progress_of_a_part_rises_from_nothing_to_all_and_names_classes(reduction: str) -> None:
    steps: list[tuple[int, int, str]] = []
    context = FitContext(0, "cpu", lambda *step: steps.append(step))
    Fitting.read("pl", SHORT["pl"], reduction).part(_batch(6, 300), 1, 2, context)
    name = "class 3" if reduction == "classwise" else "rank 4"
    assert steps[0] == (0, 1000, name)
    assert f"{name}: fine fits" in {stage for _, _, stage in steps}
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
    assert steps[-1][:2] == (1000, 1000)
