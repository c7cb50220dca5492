"""Comparison of several models on the same rows."""

from __future__ import annotations

import json
import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm, ttest_rel

import calibrant
from calibrant.client.frames import split_models
from calibrant.comparison.pairs import Pair, holm, rank_intervals
from tests.known import known

RANDOM = np.random.default_rng(7)
N = 800
TRUE = RANDOM.random(N)
Y = (RANDOM.random(N) < TRUE).astype(int)
MODELS = {
    "good": TRUE,
    "biased": TRUE**2,
    "noisy": np.clip(TRUE + RANDOM.normal(0.0, 0.15, N), 0.01, 0.99),
    "base rate": np.full(N, Y.mean()),
}
VECTORS = {"sharp": RANDOM.dirichlet([1.0, 1.0, 1.0], 400)}
CLASSES = np.array([RANDOM.choice(3, p=row) for row in VECTORS["sharp"]])
VECTORS["vague"] = (VECTORS["sharp"] + 0.3) / 1.9


def _delong(first: Any, second: Any, y: Any) -> tuple[float, float]:
    """Return the difference of two areas and its variance from DeLong's placements, pair by pair."""

    def placements(p: Any) -> tuple[Any, Any]:
        wins = (p[y == 1][:, None] > p[y == 0]) + 0.5 * (p[y == 1][:, None] == p[y == 0])
        return wins.mean(axis=1), wins.mean(axis=0)

    (of_positives, of_negatives), (positives, negatives) = placements(first), placements(second)
    parts = of_positives - positives, of_negatives - negatives
    return float(parts[0].mean()), sum(float(part.var(ddof=1)) / len(part) for part in parts)


def test_the_auroc_is_compared_as_by_delong_with_the_covariance_of_the_models() -> None:
    compared = calibrant.compare(MODELS, Y, measures=["auroc"])["auroc"]
    for pair in compared.pairs:
        first, second = pair.between
        difference, variance = _delong(MODELS[first], MODELS[second], Y)
        assert pair.difference == pytest.approx(difference, abs=1e-12)
        p = 1.0 if variance == 0.0 else 2.0 * norm.sf(abs(difference) / variance**0.5)
        assert pair.unadjusted == pytest.approx(p, rel=1e-8)
        reach = norm.ppf(1.0 - 0.05 / 12.0) * variance**0.5
        assert pair.interval == pytest.approx((difference - reach, difference + reach), abs=1e-12)


@pytest.mark.parametrize("score", ["brier", "log-loss"])
def test_scores_are_compared_by_the_mean_difference_over_rows(score: str) -> None:
    rows = {
        name: (p - Y) ** 2 if score == "brier" else -np.log(np.where(Y == 1, p, 1.0 - p)) for name, p in MODELS.items()
    }
    for pair in calibrant.compare(MODELS, Y, measures=[score])[score].pairs:
        away = rows[pair.between[0]] - rows[pair.between[1]]
        assert pair.difference == pytest.approx(away.mean(), abs=1e-12)
        expected = 2.0 * norm.sf(abs(away.mean()) / (away.std(ddof=1) / N**0.5))
        assert pair.unadjusted == pytest.approx(expected, rel=1e-6)
        assert pair.unadjusted == pytest.approx(
            ttest_rel(rows[pair.between[0]], rows[pair.between[1]]).pvalue, rel=0.2, abs=1e-6
        )


def test_p_values_are_adjusted_by_holm_over_all_pairs_of_a_measure() -> None:
    for compared in calibrant.compare(MODELS, Y).measures.values():
        own = np.array([pair.unadjusted for pair in compared.pairs])
        assert [pair.p_value for pair in compared.pairs] == pytest.approx(holm(own).tolist())
        assert len(compared.pairs) == 6
    assert calibrant.compare(MODELS, Y).correction == "holm"
    assert calibrant.compare(MODELS, Y, correction="max-t").correction == "max-t"


def test_models_are_ranked_by_the_log_loss_and_never_by_a_calibration_error() -> None:
    comparison = calibrant.compare(MODELS, Y)
    assert list(comparison.measures) == ["log-loss", "brier", "auroc", "ece"]
    assert comparison.rank_by == "log-loss"
    assert comparison.ranking is not None
    assert comparison.ranking[0] == "good"
    assert comparison.ranking[-1] == "base rate"
    assert comparison["ece"].ranking is None
    assert comparison["ece"].indistinguishable is None
    assert comparison["auroc"].ranking is None
    with pytest.raises(calibrant.CalibrationError, match="a constant prediction of the base rate would be best"):
        calibrant.compare(MODELS, Y, rank_by="ece")


def test_the_brier_score_ranks_if_a_label_that_occurred_had_probability_0() -> None:
    excluded = np.where(np.arange(N) == np.flatnonzero(Y == 1)[0], 0.0, TRUE)
    assert calibrant.compare({"good": TRUE, "excluded": excluded}, Y).rank_by == "brier"
    assert calibrant.compare({"good": TRUE, "excluded": excluded}, Y, rank_by="log-loss").rank_by == "log-loss"
    weights = np.where(excluded == 0.0, 0.0, 1.0)
    assert calibrant.compare({"good": TRUE, "excluded": excluded}, Y, weights=weights).rank_by == "log-loss"
    assert "brier" in calibrant.compare(MODELS, Y, measures=["ece"], rank_by="brier").measures


def test_intervals_of_ranks_follow_from_those_of_the_pairs() -> None:
    comparison = calibrant.compare(MODELS, Y)
    for name, (low, high) in known(comparison.ranks).items():
        signs = []
        for pair in comparison["log-loss"].pairs:
            if name in pair.between and pair.interval is not None:
                ends = pair.interval if pair.between[0] == name else (-pair.interval[1], -pair.interval[0])
                signs.append(np.sign(ends[0]) if np.sign(ends[0]) == np.sign(ends[1]) else 0)
        assert (low, high) == (1 + signs.count(1), 4 - signs.count(-1))
    same = calibrant.compare({"one": TRUE, "two": TRUE.copy()}, Y)
    assert same.ranks == {"one": (1, 2), "two": (1, 2)}
    assert rank_intervals(["a", "b"], [Pair(("a", "b"), 0.1)], better="smaller") is None
    assert rank_intervals(["a", "b"], [Pair(("a", "b"), 0.1, (0.05, 0.2))], better="larger") == {
        "a": (1, 1),
        "b": (2, 2),
    }


@pytest.mark.slow
def test_all_ranks_of_equal_models_are_covered_in_nearly_all_samples() -> None:
    """Three models of equal loss: every rank interval must contain 1, with probability 0.95 at once."""
    covered = 0
    for seed in range(400):
        random = np.random.default_rng(seed)
        true = random.random(300)
        y = (random.random(300) < true).astype(int)
        models = {str(k): np.clip(true + random.normal(0.0, 0.1, 300), 0.01, 0.99) for k in range(3)}
        ranks = known(calibrant.compare(models, y, measures=["brier"], rank_by="brier", resamples=100).ranks)
        covered += all(low == 1 for low, _ in ranks.values())
    assert covered >= 0.93 * 400


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_has_a_column_for_each_model(frame: Any) -> None:
    comparison = calibrant.compare(frame(MODELS), Y)
    expected = calibrant.compare(MODELS, Y)
    assert comparison.ranking == expected.ranking
    assert [contestant["brier"].value for contestant in comparison.contestants] == [
        contestant["brier"].value for contestant in expected.contestants
    ]


@pytest.mark.parametrize("as_series", [list, pd.Series, pl.Series])
def test_predictions_may_be_lists_and_series(as_series: Any) -> None:
    comparison = calibrant.compare({name: as_series(p) for name, p in MODELS.items()}, as_series(Y), measures=["brier"])
    assert comparison.ranking == calibrant.compare(MODELS, Y, measures=["brier"]).ranking


def test_vectors_are_compared_as_a_whole() -> None:
    comparison = calibrant.compare(VECTORS, CLASSES)
    assert comparison.report.reduction == "canonical"
    assert list(comparison.measures) == ["log-loss", "brier", "accuracy", "ks-by-predicted-class"]
    assert comparison.ranking == ("sharp", "vague")
    of_class = calibrant.compare(VECTORS, CLASSES, reduction="class:1")
    event = {name: p[:, 1] for name, p in VECTORS.items()}
    expected = calibrant.compare(event, (CLASSES == 1).astype(int))
    assert [pair.p_value for pair in of_class["auroc"].pairs] == pytest.approx(
        [pair.p_value for pair in expected["auroc"].pairs]
    )


@pytest.mark.parametrize("reduction", ["confidence", "top:2", "within-top:2"])
def test_models_are_not_ranked_by_scores_of_different_events(reduction: str) -> None:
    comparison = calibrant.compare(VECTORS, CLASSES, reduction=reduction, measures=["log-loss", "ece"])
    assert comparison.rank_by is None
    assert comparison.ranking is None
    assert comparison["log-loss"].ranking is None
    with pytest.raises(calibrant.CalibrationError, match="depends on the model"):
        calibrant.compare(VECTORS, CLASSES, reduction=reduction, rank_by="brier")


def test_columns_of_the_same_name_are_no_models() -> None:
    # the second would replace the first, or both together be the classes of one model
    frame = pd.DataFrame(np.column_stack(list(MODELS.values())), columns=["p"] * len(MODELS))
    for call in (lambda: calibrant.compare(frame, Y), lambda: split_models(frame, {"labels": Y})):
        with pytest.raises(calibrant.CalibrationError, match="columns of different names, one for each model"):
            call()


def test_each_group_is_the_comparison_of_its_rows() -> None:
    groups = np.where(np.arange(N) % 3 == 0, "a", "b")
    comparison = calibrant.compare(MODELS, Y, groups=groups)
    assert comparison.groups is not None
    assert list(comparison.groups) == ["a", "b"]
    rows = groups == "a"
    alone = calibrant.compare({name: p[rows] for name, p in MODELS.items()}, Y[rows])
    assert comparison.groups["a"].to_dict() == alone.to_dict()
    assert "2 groups" in repr(comparison)
    with pytest.raises(KeyError, match="group"):
        comparison.groups["c"]


def test_a_group_with_one_label_is_compared_by_what_is_defined() -> None:
    groups = np.where(Y == 1, "events", "others")
    groups_compared = known(calibrant.compare(MODELS, Y, groups=groups).groups)
    assert groups_compared["events"].ranking is not None
    assert groups_compared["events"].contestants[0]["auroc"].problem is not None
    assert groups_compared["events"]["auroc"].pairs == ()


def test_frequency_weights_are_rows_and_importance_weights_use_students_distribution() -> None:
    weights = np.where(np.arange(N) % 2 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(N), weights.astype(int))
    weighed = calibrant.compare(MODELS, Y, weights=weights, weights_kind="frequency", measures=["auroc", "brier"])
    doubled = calibrant.compare({name: p[twice] for name, p in MODELS.items()}, Y[twice], measures=["auroc", "brier"])
    for key in ("auroc", "brier"):
        for pair, again in zip(weighed[key].pairs, doubled[key].pairs, strict=True):
            assert pair.interval == pytest.approx(again.interval, abs=1e-9)
            assert pair.p_value == pytest.approx(again.p_value, rel=1e-6)
    heavy = np.where(np.arange(N) < 20, 50.0, 1.0)
    importance = calibrant.compare(MODELS, Y, weights=heavy, measures=["brier"])["brier"].pairs[1]
    assert 0.0 < known(importance.p_value) <= 1.0


def test_rows_of_clusters_are_summed_before_they_are_compared() -> None:
    clusters = np.arange(N) // 4
    compared = calibrant.compare(MODELS, Y, clusters=clusters, cluster_variance="cr0", measures=["brier"])["brier"]
    for pair in compared.pairs:
        away = (MODELS[pair.between[0]] - Y) ** 2 - (MODELS[pair.between[1]] - Y) ** 2
        sums = np.bincount(clusters, away - away.mean())
        assert pair.unadjusted == pytest.approx(2.0 * norm.sf(abs(away.sum()) / np.linalg.norm(sums)), rel=1e-6)
    twice = np.repeat(np.arange(N), 2)
    models = {name: p[twice] for name, p in MODELS.items()}
    pairs = calibrant.compare(models, Y[twice], clusters=twice, measures=["auroc", "ece"]).measures
    alone = calibrant.compare(models, Y[twice], measures=["auroc", "ece"]).measures
    single = calibrant.compare(MODELS, Y, measures=["auroc", "ece"]).measures
    for key in ("auroc", "ece"):
        widths = [
            [pair.interval[1] - pair.interval[0] for pair in compared[key].pairs if pair.interval is not None]
            for compared in (pairs, alone, single)
        ]
        assert widths[0] == pytest.approx(widths[2], rel=0.25, abs=1e-6), key
        assert sum(widths[1]) < 0.85 * sum(widths[2]), key


def test_the_order_of_the_rows_does_not_matter_for_models() -> None:
    order = np.random.default_rng(1).permutation(N)
    rounded = {name: p.round(1) * 0.98 + 0.01 for name, p in MODELS.items()}
    first = calibrant.compare(rounded, Y, resamples=200)
    other = calibrant.compare({name: p[order] for name, p in rounded.items()}, Y[order], resamples=200)
    for key, compared in first.measures.items():
        for pair, again in zip(compared.pairs, other[key].pairs, strict=True):
            assert pair.interval == pytest.approx(again.interval, abs=1e-9)


def test_names_of_classes_and_positive_labels_are_read_as_by_evaluate() -> None:
    words = np.where(Y == 1, "yes", "no")
    comparison = calibrant.compare(MODELS, words, pos_label="yes")
    assert comparison.ranking == calibrant.compare(MODELS, Y).ranking
    named = {name: pd.DataFrame(p, columns=["a", "b", "c"]) for name, p in VECTORS.items()}
    by_name = calibrant.compare(named, np.array(["a", "b", "c"])[CLASSES], reduction="class:b")
    assert by_name.report.reduction_name == "class:b"


def test_results_are_plain_json_frames_pictures_and_pickles() -> None:
    comparison = calibrant.compare(MODELS, Y)
    document = json.loads(json.dumps(comparison.to_dict()))
    assert document["comparison"]["rank_by"] == "log-loss"
    assert document["comparison"]["measures"]["log-loss"]["ranks"]["good"] == [1, 2]
    frame = comparison.to_frame()
    assert next(iter(frame["rank_low"])) == 1
    assert pickle.loads(pickle.dumps(comparison)) == comparison
    axes = calibrant.plot(comparison, "corp")
    assert [ax.get_title() for ax in axes] == list(MODELS)
    assert comparison.plot("auroc").get_xlabel() == "auroc"


HOSTILE = {
    "one model": ({"a": TRUE}, "must be those of 2 to 20 models"),
    "no models": ({}, "must be"),
    "too many": ({str(k): TRUE for k in range(21)}, "must be those of 2 to 20 models"),
    "a list": ([TRUE, TRUE], "must be a mapping of names"),
    "an array": (TRUE, "must be a mapping of names"),
    "numbers as names": ({1: TRUE, 2: TRUE}, "must have names that are strings"),
    "an empty name": ({"": TRUE, "b": TRUE}, "must have names that are strings"),
    "fewer rows": ({"a": TRUE, "b": TRUE[:9]}, "/predictions/b"),
    "NaN": ({"a": TRUE, "b/c": np.where(TRUE > 0.5, np.nan, TRUE)}, "predictions/b~1c"),
    "outside": ({"a": TRUE, "b": TRUE + 1.0}, "predictions/b"),
    "strings": ({"a": TRUE, "b": ["x"] * N}, "predictions/b"),
    "other classes": ({"a": TRUE, "b": np.column_stack([1.0 - TRUE, TRUE])}, "predictions/b"),
    "classes as columns": (pd.DataFrame({"no": 1.0 - TRUE, "yes": TRUE}), "columns that sum to 1 in each row"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_bad_models_are_refused_with_their_name(case: str) -> None:
    models, message = HOSTILE[case]
    with pytest.raises(calibrant.CalibrationError) as caught:
        calibrant.compare(models, Y)
    assert message in str(caught.value)


def test_models_with_different_indexes_are_refused() -> None:
    moved = pd.Series(TRUE**2, index=np.arange(N)[::-1])
    with pytest.raises(calibrant.CalibrationError, match="one and two have different indexes"):
        calibrant.compare({"one": pd.Series(TRUE), "two": moved}, Y)


def test_classes_are_compared_as_models_if_the_mapping_says_so() -> None:
    with pytest.warns(UserWarning, match="^yes: "):
        comparison = calibrant.compare({"no": 1.0 - TRUE, "yes": TRUE}, 1 - Y)
    assert comparison.ranking == ("no", "yes")


def test_arguments_of_maps_are_refused_without_maps() -> None:
    with pytest.raises(calibrant.CalibrationError, match="trained is for maps"):
        calibrant.compare(MODELS, Y, trained={})


def test_warnings_name_the_model() -> None:
    with pytest.warns(UserWarning, match="^upside down: predictions are clearly lower"):
        calibrant.compare({"good": TRUE, "upside down": 1.0 - TRUE}, Y)


def test_maps_are_ranked_by_a_score_if_one_is_named() -> None:
    maps = {name: calibrant.fit(name, TRUE**2, Y) for name in ("platt", "isotonic")}
    fresh = np.random.default_rng(3).random(N)
    y = (np.random.default_rng(4).random(N) < fresh).astype(int)
    comparison = calibrant.compare(fresh**2, y, maps, rank_by="brier", measures=["ece"])
    assert comparison.rank_by == "brier"
    assert comparison.ranking == comparison["brier"].ranking
    assert comparison["ece"].ranking is not None, "maps of one model are ranked by each measure"
    groups = np.where(np.arange(N) % 2, "a", "b")
    parts = known(calibrant.compare(fresh**2, y, maps, groups=groups, measures=["brier"]).groups)
    assert [contestant.name for contestant in parts["a"].contestants] == ["uncalibrated", "platt", "isotonic"]


@pytest.mark.slow
def test_every_pair_of_every_inline_measure_has_an_interval_or_a_reason() -> None:
    names = [name for name, entry in calibrant.MEASURES.items() if entry.runs == "inline" and entry.event is not None]
    models = {name: p[:120] for name, p in MODELS.items() if name != "base rate"}
    comparison = calibrant.compare(models, Y[:120], measures=names, resamples=100)
    for key, compared in comparison.measures.items():
        standings = [contestant[key].value for contestant in comparison.contestants]
        assert len(compared.pairs) == len([*combinations([v for v in standings if v is not None], 2)]), key
        for pair in compared.pairs:
            assert (pair.interval is None) == (pair.problem is not None), (key, pair)
