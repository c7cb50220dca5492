"""Fits of prediction sets: thresholds by their definition, coverage, classes with few rows, and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

import calibrant
from calibrant import CalibrationError
from calibrant.core.batch import read_batch, read_predictions
from calibrant.core.digest import digest
from calibrant.sets.class_clusters import cluster_classes
from calibrant.sets.fitting import SET_METHODS, SetFitting
from calibrant.sets.scores import uniform_numbers
from tests.known import known
from tests.refusals import refused_at


def _rows(n: int, n_classes: int, seed: int, decimals: int | None = None) -> tuple[Any, Any]:
    """Probabilities and labels drawn from them; with few decimals, many are tied."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(n_classes, 0.5), n)
    if decimals is not None:
        p = np.floor(p * 10.0**decimals) + 0.5
        p /= p.sum(axis=1, keepdims=True)
    y = (np.cumsum(p, axis=1) > random.random((n, 1))).argmax(axis=1)
    return p, y


def _scores(row: list[float], penalty: float, k_reg: int, u: float = 0.0) -> list[float]:
    """The score of every class of a row by its definition."""
    scores, total = [0.0] * len(row), 0.0
    for rank, k in enumerate(sorted(range(len(row)), key=lambda k: (-row[k], k)), 1):
        total += row[k]
        scores[k] = total - u * row[k] + penalty * max(rank - k_reg, 0)
    return scores


def _smallest(scores: list[float], alpha: float) -> float:
    """The k-th smallest score."""
    return sorted(scores)[int(np.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)) - 1]


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("n_classes", [2, 5, 200])
@pytest.mark.parametrize(("method", "options"), [("aps", {}), ("raps", {"penalty": 0.05, "k_reg": 2})])
def test_adaptive_sets_are_those_of_their_definition(
    method: str, options: dict[str, Any], n_classes: int, decimals: int | None
) -> None:
    p, y = _rows(120, n_classes, 0, decimals)
    fitted = calibrant.fit_sets(p[:60], y[:60], method=method, alpha=0.2, **options)
    penalty, k_reg = options.get("penalty", 0.0), options.get("k_reg", 0)
    own = [_scores(row, penalty, k_reg)[k] for row, k in zip(p[:60].tolist(), y[:60], strict=True)]
    q = _smallest(own, 0.2)
    expected = [[score <= q for score in _scores(row, penalty, k_reg)] for row in p[60:].tolist()]
    assert fitted.apply(p[60:]).members.tolist() == expected


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("conditional", [None, "class"])
def test_least_ambiguous_sets_are_those_of_their_definition(conditional: str | None, decimals: int | None) -> None:
    p, y = _rows(200, 3, 1, decimals)
    fitted = calibrant.fit_sets(p[:150], y[:150], alpha=0.2, conditional=conditional)
    own = -p[np.arange(150), y[:150]]
    parts = [own] * 3 if conditional is None else [own[y[:150] == k] for k in range(3)]
    t = np.array([-_smallest(part.tolist(), 0.2) for part in parts])
    assert fitted.apply(p[150:]).members.tolist() == (p[150:] >= t).tolist()


def test_adaptive_sets_by_class_are_those_of_their_definition() -> None:
    p, y = _rows(200, 3, 2, 1)
    fitted = calibrant.fit_sets(p[:150], y[:150], method="aps", alpha=0.2, conditional="class")
    own = np.array([_scores(row, 0.0, 0)[k] for row, k in zip(p[:150].tolist(), y[:150], strict=True)])
    q = [_smallest(own[y[:150] == k].tolist(), 0.2) for k in range(3)]
    expected = [[s <= q[k] for k, s in enumerate(_scores(row, 0.0, 0))] for row in p[150:].tolist()]
    assert fitted.apply(p[150:]).members.tolist() == expected


def test_a_randomised_map_draws_the_number_of_a_row_from_its_seed_and_place() -> None:
    p, y = _rows(300, 4, 3)
    fitted = calibrant.fit_sets(p[:200], y[:200], method="aps", randomised=True)
    sets, u = fitted.apply(p[200:], seed=7), uniform_numbers(7, 100)
    q = fitted.to_document()["parameters"]["thresholds"][0]
    expected = [[s <= q for s in _scores(row, 0.0, 0, v)] for row, v in zip(p[200:].tolist(), u, strict=True)]
    assert sets.members.tolist() == expected
    assert not np.array_equal(sets.members, fitted.apply(p[200:], seed=8).members)
    with pytest.raises(CalibrationError, match="seed is needed"):
        fitted.apply(p[200:])
    with pytest.raises(CalibrationError, match="seed is not used"):
        calibrant.fit_sets(p, y).apply(p, seed=1)


# --- Coverage

N, ALPHA = 30, 0.2
K_TH = 25  # ceil(31 * 0.8)


def _coverages(fits: int, method: str = "lac", **options: Any) -> list[float]:
    """The exact coverage of maps fitted to rows whose label has a uniformly distributed probability."""
    random, coverages = np.random.default_rng(5), []
    fitting = SetFitting.read(method, {"alpha": ALPHA, **options})
    for _ in range(fits):
        own, y = random.random(N), random.integers(0, 2, N)
        fitted = fitting.run(read_batch(np.where(y == 1, own, 1.0 - own), y))
        coverages.append(1.0 - fitted.to_document()["parameters"]["thresholds"][0])
    return coverages


def test_the_coverage_of_maps_is_beta_distributed() -> None:
    """With an infinite test set (Vovk 2012): Beta(k, n + 1 - k)."""
    coverages = _coverages(600)
    assert stats.kstest(coverages, stats.beta(K_TH, N + 1 - K_TH).cdf).pvalue > 0.001


def test_the_coverage_of_finite_test_sets_is_beta_binomial() -> None:
    random, m = np.random.default_rng(6), 10
    covered = random.binomial(m, _coverages(600))
    expected = 600 * stats.betabinom(m, K_TH, N + 1 - K_TH).pmf(np.arange(m + 1))
    observed = np.bincount(covered, minlength=m + 1)
    few = expected < 5
    pooled = [np.append(counts[~few], counts[few].sum()) for counts in (observed, expected)]
    assert stats.chisquare(*pooled).pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "low", "high"),
    [
        ("lac", {}, 0.8, 1.0),
        ("aps", {}, 0.8, 1.0),
        ("raps", {"k_reg": 1}, 0.8, 1.0),
        ("aps", {"randomised": True}, 0.8, 0.8 + 1 / 31),
        ("raps", {"randomised": True}, 0.8, 0.8 + 1 / 31),
    ],
)
def test_tied_scores_cover_at_least_at_the_nominal_level(
    method: str, options: dict[str, Any], low: float, high: float
) -> None:
    p, y = _rows(31 * 300, 3, 8, 1)
    fitting, covered = SetFitting.read(method, {"alpha": ALPHA, **options}), []
    for start in range(0, len(p), 31):
        rows, label = p[start : start + 31], y[start : start + 31]
        fitted = fitting.run(read_batch(rows[:N], label[:N]), seed=start)
        seed = start if options.get("randomised") else None
        covered.append(fitted.apply_checked(read_predictions(rows[N:]), seed=seed).members[0, label[N]])
    error = 4 * np.sqrt(0.8 * 0.2 / len(covered))
    assert low - error <= np.mean(covered) <= high + error


# --- Conditional coverage


@pytest.mark.parametrize(("alpha", "needed"), [(0.1, 9), (0.05, 19)])
@pytest.mark.parametrize("method", ["lac", "aps"])
def test_a_class_with_too_few_rows_is_in_every_set(method: str, alpha: float, needed: int) -> None:
    p, y = _rows(400, 3, 9)
    for count, always in ((needed, []), (needed - 1, ["rare"])):
        rows = np.concatenate([np.flatnonzero(y == 0)[:count], np.flatnonzero(y > 0)])
        names = ["rare", "b", "c"]
        fitted = calibrant.fit_sets(
            p[rows], y[rows], method=method, alpha=alpha, conditional="class", class_names=names
        )
        assert fitted.diagnostics.get("always", []) == always
        assert (fitted.warning is not None) == bool(always)
        assert fitted.diagnostics["rows"][0] == count
        assert np.isinf(fitted.function.thresholds).tolist() == [bool(always), False, False]
        assert not always or "rare" in fitted.apply([[0.0, 0.5, 0.5]]).to_lists()[0]


def test_a_group_has_the_sets_of_its_own_map() -> None:
    p, y = _rows(300, 3, 10)
    group = np.array(["a", "b", "c"])[np.arange(300) % 3]
    fitted = calibrant.fit_sets(p, y, method="raps", conditional="group", groups=group)
    sets = fitted.apply(p[:60], groups=group[:60])
    for name in fitted.groups or ():
        own = calibrant.fit_sets(p[group == name], y[group == name], method="raps")
        assert np.array_equal(sets.members[group[:60] == name], own.apply(p[:60][group[:60] == name]).members)
    few = calibrant.fit_sets(p[:32], y[:32], conditional="group", groups=["a"] * 30 + ["few"] * 2)
    assert few.diagnostics["always"] == ["few"]
    assert few.apply([[1.0, 0.0, 0.0]], groups=["few"]).sizes.tolist() == [3]


@pytest.mark.parametrize("of_probability", [False, True])
def test_classes_with_similar_scores_share_a_cluster_and_a_threshold(of_probability: bool) -> None:
    random = np.random.default_rng(11)
    y = np.repeat(np.arange(60), 60)
    scores = random.normal(0.1 + 0.5 * (y % 2), 0.02)  # odd classes have large scores
    clusters = cluster_classes(scores, y, 60, 9, 0, of_probability=of_probability)
    assert clusters.count > 1
    for cluster in range(clusters.count):
        members = np.flatnonzero(clusters.of_class == cluster)
        assert len(set(members % 2)) == 1
    assert (np.bincount(y[~clusters.left]) == 60 * 60 // 135).all()


def test_maps_by_cluster_use_rows_that_did_not_choose_the_clusters() -> None:
    p, y = _rows(4000, 40, 12)
    fitted = calibrant.fit_sets(p, y, conditional="cluster", seed=1)
    clusters = fitted.diagnostics["clusters"]
    thresholds = fitted.function.thresholds
    for cluster in set(clusters):
        assert len({thresholds[k] for k, own in enumerate(clusters) if own == cluster}) == 1
    assert fitted == calibrant.fit_sets(p, y, conditional="cluster", seed=1)
    sets = fitted.apply(p)
    assert sets.members[np.arange(4000), y].mean() > 0.88


def test_classes_without_a_cluster_are_named_and_no_clusters_at_all_are_refused() -> None:
    p, y = _rows(4000, 40, 12)
    rare = (y != 7) | (np.cumsum(y == 7) <= 15)
    fitted = calibrant.fit_sets(p[rare], y[rare], conditional="cluster", seed=1)
    assert fitted.diagnostics["clusters"][7] is None
    assert fitted.warning is not None
    assert "without a cluster, which use the threshold of all rows: " in fitted.warning
    assert "7" in fitted.warning
    for n, n_classes in ((300, 10), (4000, 2), (4000, 4)):
        p, y = _rows(n, n_classes, 12)
        with refused_at("/labels", CalibrationError, match="to choose clusters", code="too-few-rows"):
            calibrant.fit_sets(p, y, conditional="cluster")


def test_a_set_without_a_class_gets_the_most_probable_one_if_it_may_not_be_empty() -> None:
    p, y = _rows(300, 3, 13)
    for method in ("lac", "aps"):
        allowed = calibrant.fit_sets(p, y, method=method, alpha=0.7).apply(p)
        filled = calibrant.fit_sets(p, y, method=method, alpha=0.7, allow_empty=False).apply(p)
        empty = allowed.sizes == 0
        assert empty.any()
        assert np.array_equal(filled.members[empty], np.eye(3, dtype=bool)[p[empty].argmax(axis=1)])
        assert np.array_equal(filled.members[~empty], allowed.members[~empty])


# --- Risk control


def _rate_of_errors(p: Any, y: Any, cluster: Any, threshold: float, *, of: int) -> list[float]:
    """In each cluster, the fraction of the rows with this label that are on the wrong side of the threshold."""
    wrong, own = (p < threshold) == (of == 1), y == of
    return [float(wrong[own & (cluster == c)].mean()) for c in np.unique(cluster[own])]


#: Options of the loss, the label of the rows that it counts, and which thresholds have less of it.
FALSE_NEGATIVES: tuple[dict[str, Any], int, float] = ({}, 1, -1.0)
FALSE_POSITIVES: tuple[dict[str, Any], int, float] = ({"loss": "false-positive-rate"}, 0, 1.0)


@pytest.mark.parametrize(
    ("loss", "alpha"), [(FALSE_NEGATIVES, 0.2), *((FALSE_POSITIVES, alpha) for alpha in (0.05, 0.2, 0.6))]
)
def test_the_threshold_of_risk_control_is_the_last_that_the_bound_allows(loss: Any, alpha: float) -> None:
    options, label, less = loss
    random = np.random.default_rng(18 - 4 * label)
    p, cluster = np.round(random.random(400), 2), np.arange(400) // 8
    y = (random.random(400) < p * (0.5 if label else 1.0)).astype(int)
    fitted = calibrant.fit_sets(p, y, method="crc", alpha=alpha, clusters=cluster, **options)
    t = fitted.to_document()["parameters"]["thresholds"][0]

    def bound(threshold: float) -> float:
        losses = _rate_of_errors(p, y, cluster, threshold, of=label)
        return (sum(losses) + 1.0) / (len(losses) + 1)

    assert bound(t) <= alpha < bound(t - 0.01 * less)
    assert fitted.apply([t, np.nextafter(t, 0.0)]).to_lists() == [[1], [0]]
    assert calibrant.load_sets(fitted.to_document()) == fitted


@pytest.mark.parametrize("loss", [FALSE_NEGATIVES, FALSE_POSITIVES])
def test_the_expected_loss_of_risk_control_is_at_most_alpha(loss: Any) -> None:
    options, label, _ = loss
    random, losses = np.random.default_rng(19 - 4 * label), []
    for _ in range(150):
        p = random.random((30, 6))
        y = (random.random((30, 6)) < p).astype(int)
        fitted = calibrant.fit_sets(p[:29], y[:29], method="crc", alpha=0.2, **options)
        if (y[29] == label).any():
            losses.append((fitted.apply(p[29:]).members[0][y[29] == label] != label).mean())
    assert np.mean(losses) <= 0.2 + 4 * np.std(losses) / np.sqrt(len(losses))
    assert np.mean(losses) > 0.1


def test_certain_negative_rows_and_few_clusters_have_a_threshold_too() -> None:
    y = np.arange(40) % 2
    options: dict[str, Any] = {"method": "crc", "loss": "false-positive-rate"}
    none = calibrant.fit_sets(np.ones(40), y, alpha=0.1, **options)
    assert none.apply([0.0, 1.0]).to_lists() == [[0], [0]]
    certain = calibrant.fit_sets(np.zeros(40), y, alpha=0.1, **options)
    assert certain.apply([0.0, 1e-300]).to_lists() == [[0], [1]]
    few = calibrant.fit_sets(
        np.linspace(0.0, 1.0, 40), y, alpha=0.1, conditional="group", groups=["few"] * 4 + ["many"] * 36, **options
    )
    assert few.apply([1.0], groups=["few"]).to_lists() == [[0]]
    assert "every row is class 0: few; they have too few clusters with negative rows" in known(few.warning)
    with pytest.raises(CalibrationError, match="label 0"):
        calibrant.fit_sets(np.ones(40), np.ones(40, int), **options)


WEIGHTED: dict[str, dict[str, Any]] = {
    "lac": {"method": "lac"},
    "aps": {"method": "aps", "conditional": "class"},
    "randomised": {"method": "aps", "randomised": True},
    "groups": {"method": "raps", "conditional": "group"},
    "risk": {"method": "crc"},
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weight_is_a_number_of_equal_rows(name: str) -> None:
    options = WEIGHTED[name]
    p, y = _rows(300, 3, 20)
    p, y = (p[:, 1], (y == 1).astype(int)) if name == "risk" else (p, y)
    times = np.random.default_rng(21).integers(0, 4, 300)
    groups = np.where(np.arange(300) % 2, "a", "b")
    by: dict[str, Any] = {"groups": groups} if options.get("conditional") == "group" else {}
    repeated: dict[str, Any] = {key: np.repeat(content, times) for key, content in by.items()}
    weighted = calibrant.fit_sets(p, y, weights=times, **by, **options)
    plain = calibrant.fit_sets(np.repeat(p, times, axis=0), np.repeat(y, times), **repeated, **options)
    assert weighted == plain


def test_weights_that_are_not_counts_are_refused() -> None:
    p, y = _rows(300, 3, 22)
    for weights in (np.full(300, 0.5), np.full(300, 1e9), np.full(299, 1)):
        with pytest.raises(CalibrationError, match="weights"):
            calibrant.fit_sets(p, y, weights=weights)


def test_the_warning_of_risk_control_says_that_every_row_of_a_small_group_is_class_1() -> None:
    p, y, groups = np.linspace(0.1, 0.9, 90), np.arange(90) % 2, np.repeat(["large", "small"], [84, 6])
    fitted = calibrant.fit_sets(p, y, method="crc", alpha=0.1, groups=groups, conditional="group")
    assert fitted.diagnostics["warning"].startswith("groups in which every row is class 1: small; ")
    assert fitted.apply([0.01], groups=["small"]).to_lists() == [[1]]


def test_risk_control_without_clusters_covers_the_positive_rows() -> None:
    p, y = _rows(500, 2, 16)
    by_class = calibrant.fit_sets(p[:, 1], y, conditional="class")
    fitted = calibrant.fit_sets(p[:, 1], y, method="crc")
    own = by_class.function.thresholds[1]
    assert fitted.function.thresholds == pytest.approx(own)


def test_risk_control_warns_that_every_row_of_a_group_with_few_clusters_is_class_1() -> None:
    p, y = _rows(500, 2, 17)
    arguments: dict[str, Any] = {"method": "crc", "conditional": "group", "groups": ["few"] * 5 + ["many"] * 495}
    fitted = calibrant.fit_sets(p[:, 1], y, **arguments)
    assert fitted.apply([0.0], groups=["few"]).to_lists() == [[1]]
    assert known(fitted.warning).startswith("groups in which every row is class 1: few; they have too few clusters")


# --- Errors

P3 = np.full((40, 3), 1 / 3)
Y3 = np.arange(40) % 3
P, Y = np.linspace(0.0, 1.0, 40), np.arange(40) % 2
ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown method": ({"method": "apps"}, "unknown-method", "/method"),
    "alpha of 0": ({"alpha": 0.0}, "invalid-option", "/alpha"),
    "alpha of 1": ({"alpha": 1}, "invalid-option", "/alpha"),
    "alpha that is no number": ({"alpha": "0.1"}, "invalid-option", "/alpha"),
    "alpha that is not a number": ({"alpha": float("nan")}, "invalid-option", "/alpha"),
    "unknown condition": ({"conditional": "label"}, "invalid-option", "/conditional"),
    "option of another method": ({"penalty": 0.1}, "invalid-option", ""),
    "negative penalty": ({"method": "raps", "penalty": -1.0}, "invalid-option", "/penalty"),
    "one class": ({"labels": np.zeros(40, int)}, "one-class", "/labels"),
    "unknown labels": ({"labels": np.arange(40)}, "invalid-label", "/labels/2"),
    "no groups": ({"conditional": "group"}, "invalid-option", "/groups"),
    "groups without a condition": ({"groups": ["a"] * 40}, "invalid-option", "/groups"),
    "group with a long name": (
        {"conditional": "group", "groups": [*"a" * 39, "b" * 257]},
        "invalid-option",
        "/groups/39",
    ),
    "clusters": ({"clusters": np.arange(40)}, "invalid-option", "/clusters"),
    "few rows": ({"alpha": 0.02}, "too-few-rows", "/labels"),
    "few rows of each class": ({"alpha": 0.04, "conditional": "class"}, "too-few-rows", "/labels"),
    "no positive rows": ({"method": "crc", "labels": np.zeros(40, int)}, "missing-class", "/labels"),
    "few positive rows": ({"method": "crc", "alpha": 0.01}, "too-few-rows", "/labels"),
    "risk of classes": ({"method": "crc", "predictions": P3, "labels": Y3}, "wrong-shape", "/predictions"),
    "risk by class": ({"method": "crc", "conditional": "class"}, "invalid-option", "/conditional"),
    "labels of another shape": ({"method": "crc", "labels": np.zeros((40, 2))}, "wrong-shape", "/labels"),
    "seed": ({"seed": -1}, "invalid-option", "/seed"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_invalid_input_has_an_error_that_names_the_place(name: str) -> None:
    changes, code, pointer = ERRORS[name]
    with refused_at(pointer, CalibrationError, code=code):
        calibrant.fit_sets(**{"predictions": P, "labels": Y, **changes})


def test_the_calibrators_name_the_function_of_methods_of_other_kinds() -> None:
    of_forecasts = set(calibrant.DISTRIBUTION_METHODS) - set(calibrant.METHODS)
    for methods, function in ((SET_METHODS, "fit_sets"), (of_forecasts, "fit_distribution")):
        for method in methods:
            with pytest.raises(CalibrationError, match=f"use {function}"):
                calibrant.fit(method, P, Y)


def test_a_misspelt_argument_has_an_error_with_the_right_one() -> None:
    with pytest.raises(TypeError, match="seed"):
        calibrant.fit_sets(P, Y, random_state=1)


def test_a_group_that_the_fit_did_not_have_is_refused() -> None:
    p, y = _rows(40, 3, 17)
    fitted = calibrant.fit_sets(p, y, conditional="group", groups=["a", "b"] * 20)
    with pytest.raises(CalibrationError, match=r"1 of 3 is not a group of the map; the first at /groups/1") as error:
        fitted.apply(p[:3], groups=["a", "secret", "b"])
    assert "secret" not in str(error.value)
    for groups in (None, ["a"]):
        with pytest.raises(CalibrationError):
            fitted.apply(p[:3], groups=groups)
    with pytest.raises(CalibrationError, match="groups are not used"):
        calibrant.fit_sets(p, y).apply(p, groups=["a"] * 40)


def test_predictions_of_another_shape_or_scale_are_refused() -> None:
    fitted = calibrant.fit_sets(P, Y)
    with pytest.raises(CalibrationError, match=r"must have shape \(n,\)"):
        fitted.apply(P3)
    with pytest.raises(CalibrationError, match="was fitted on probability"):
        fitted.apply_checked(read_predictions([0.5], scale="logit"))


def test_every_method_states_its_guarantee_and_its_source() -> None:
    for method in SET_METHODS.values():
        assert method.guarantee
        assert method.source
        assert method.family.family == method.name
    assert "in expectation" in SET_METHODS["crc"].guarantee


@pytest.mark.parametrize("n", [150, 199, 201])
@pytest.mark.parametrize("method", ["lac", "crc"])
def test_groups_of_another_number_of_rows_are_refused(method: str, n: int) -> None:
    random = np.random.default_rng(0)
    p = random.random(200)
    with pytest.raises(CalibrationError, match=rf"groups has {n} rows, but /?predictions has 200"):
        calibrant.fit_sets(
            p, (random.random(200) < p).astype(int), method=method, conditional="group", groups=["a"] * n
        )


def test_groups_of_rows_with_several_labels_are_counted_by_row() -> None:
    random = np.random.default_rng(0)
    p = random.random((50, 3))
    y = (random.random((50, 3)) < p).astype(int)
    with pytest.raises(CalibrationError, match=r"groups has 51 rows, but /?predictions has 50"):
        calibrant.fit_sets(p, y, method="crc", conditional="group", groups=["a"] * 51)


# --- Rows of the fit are recognised


@pytest.mark.parametrize("method", ["lac", "aps"])
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_sets_of_the_rows_of_the_fit_are_in_sample(method: str, scale: Any) -> None:
    logits, labels, _ = calibrant.logistic_normal(400, n_classes=3, seed=2)
    scores = softmax(logits, axis=1) if scale == "probability" else logits
    fitted = calibrant.fit_sets(scores, labels, method=method, scale=scale)
    evaluation = calibrant.evaluate_sets(fitted.apply(scores), labels)
    assert evaluation.in_sample is True
    assert "in-sample" in repr(evaluation)
    assert calibrant.evaluate_sets(fitted.apply(scores[::-1]), labels).in_sample is None
    assert calibrant.evaluate_sets(fitted.apply(scores).members, labels).in_sample is None


def test_a_part_of_the_rows_of_the_fit_is_in_sample_too() -> None:
    logits, labels, _ = calibrant.logistic_normal(400, n_classes=3, seed=2)
    fitted = calibrant.fit_sets(logits, labels, scale="logit")
    part = read_batch(logits[:200], labels[:200], scale="logit")
    assert fitted.is_in_sample(part) is True
    assert fitted.is_in_sample(read_batch(logits[:200] + 0.3, labels[:200], scale="logit")) is False
    assert replace(fitted, training_digest=None).is_in_sample(part) is None


def test_the_digest_of_an_earlier_version_is_that_of_all_numbers() -> None:
    logits, labels, _ = calibrant.logistic_normal(400, n_classes=3, seed=2)
    rows = read_batch(logits, labels, scale="logit")
    fitted = replace(calibrant.fit_sets(logits, labels, scale="logit"), training_digest=digest(rows), diagnostics={})
    assert fitted.is_in_sample(rows) is True


def test_a_threshold_in_single_precision_has_the_sets_of_double_precision() -> None:
    p = np.random.default_rng(3).dirichlet(np.ones(4), 500).astype(np.float32)
    labels = np.arange(500) % 4
    for alpha in (0.05, 0.3, 0.6):
        fitted = calibrant.fit_sets(p, labels, alpha=alpha)
        expected = p.astype(np.float64) >= fitted.function.thresholds[0]
        assert (fitted.apply(p).members == expected).all()
