"""``clusters`` keep rows in the same fold of every cross-validation of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.core.validation import fold_of_rows

#: Methods with folds, and the predictions that they take.
EVENTS = ("averaged", "es-cv", "ew-cv", "mli-spline", "pl", "pl3", "spline")
VECTORS = ("averaged", "dirichlet-odir", "iop-op", "matrix-odir", "multinomial", "sms", "svs", "vector")


def drawn(n: int, n_classes: int) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    p = random.dirichlet(np.full(n_classes, 0.7), n)
    y = np.array([random.choice(n_classes, p=(row + 0.1) / (row + 0.1).sum()) for row in p])
    return (p[:, 1], y) if n_classes == 2 else (p, y)


CASES = [(method, 2) for method in EVENTS] + [(method, 3) for method in VECTORS]


@pytest.mark.slow
@pytest.mark.parametrize("is_clustered", [False, True])
@pytest.mark.parametrize(("method", "n_classes"), CASES)
def test_a_weight_is_as_many_copies_which_are_in_one_fold_if_they_are_a_cluster(
    method: str, n_classes: int, is_clustered: bool
) -> None:
    p, y = drawn(150, n_classes)
    w = np.random.default_rng(4).integers(1, 4, len(y))
    row = np.repeat(np.arange(len(y)), w)
    clusters = (np.arange(len(y)), row) if is_clustered else (None, None)
    weighted = calibrant.fit(method, p, y, weights=w, weights_kind="frequency", clusters=clusters[0])
    copied = calibrant.fit(method, p[row], y[row], clusters=clusters[1])
    np.testing.assert_allclose(copied.apply(p), weighted.apply(p), atol=1e-9)
    gains = [fitted.diagnostics["held_out_gain"] for fitted in (copied, weighted)]
    exact = 1e-5 if method in ("sms", "svs") else 1e-9  # whose fits outside the folds are in single precision
    for name in ("log_loss", "standard_error"):
        assert gains[0][name] == pytest.approx(gains[1][name], abs=exact)


@pytest.mark.parametrize(("method", "n_classes"), [("pl", 2), ("averaged", 3), ("matrix-odir", 3)])
def test_neither_the_order_of_rows_nor_the_names_of_clusters_matter(method: str, n_classes: int) -> None:
    p, y = drawn(200, n_classes)
    group = np.random.default_rng(5).integers(0, 40, len(y))
    order = np.random.default_rng(6).permutation(len(y))
    first = calibrant.fit(method, p, y, clusters=group)
    named = np.array([f"patient {g:02d}" for g in group])
    other = calibrant.fit(method, p[order], y[order], clusters=named[order])
    np.testing.assert_allclose(other.apply(p), first.apply(p), atol=1e-9)


def test_rows_that_are_clusters_of_their_own_have_the_folds_of_rows() -> None:
    np.testing.assert_array_equal(fold_of_rows(101, 7, 2, np.arange(101)[::-1]), fold_of_rows(101, 7, 2))
    group = np.random.default_rng(0).integers(0, 30, 300)
    fold = fold_of_rows(300, 5, 1, group)
    assert all(len(set(fold[group == g])) == 1 for g in range(30))
    assert np.bincount([fold[group == g][0] for g in range(30)]).tolist() == [6] * 5


def test_leaking_copies_no_longer_look_like_a_gain() -> None:
    p, y = drawn(60, 2)
    row = np.repeat(np.arange(60), 20)
    leaking = calibrant.fit("isotonic", p[row], y[row]).diagnostics["held_out_gain"]["log_loss"]
    honest = calibrant.fit("isotonic", p[row], y[row], clusters=row).diagnostics["held_out_gain"]["log_loss"]
    assert honest < leaking - 0.1


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (["a"] * 99, "has 99 rows, but /predictions has 100"),
        (["a"] * 100, "has 1 cluster, but 10 folds need at least 10"),
        ("a", "must be an array of clusters"),
        (7, "must be an array of clusters"),
        ([], "has 0 rows, but /predictions has 100"),
        (["a"] * 98 + [None, float("nan")], "2 of 100 are empty; the first at /clusters/98"),
        (["a"] * 99 + [""], "1 of 100 is empty; the first at /clusters/99"),
        ([("a", "b")] * 99 + [("a", None)], "1 of 100 is empty; the first at /clusters/99"),
    ],
)
def test_clusters_that_do_not_fit_are_refused(clusters: Any, message: str) -> None:
    p, y = drawn(100, 2)
    with pytest.raises(CalibrationError) as error:
        calibrant.fit("pl", p, y, clusters=clusters)
    assert message in str(error.value)
    assert error.value.offences[0].pointer.startswith("/clusters")


def test_the_former_name_of_clusters_is_explained() -> None:
    p, y = drawn(100, 2)
    with pytest.raises(TypeError, match="no argument groups; pass clusters"):
        calibrant.fit("pl", p, y, groups=["a"] * 100)
