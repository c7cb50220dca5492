from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant
from calibrant.core.batch import Batch, read_batch
from calibrant.core.digest import digest
from calibrant.core.errors import ScaleMismatch
from calibrant.diagrams.in_sample import KEPT_BINS, MOST_COUNTED, in_sample
from calibrant.measures.cross_fitting import out_of_fold_predictions, training_of
from tests.known import known

RANDOM = np.random.default_rng(7)
TRUE = RANDOM.random(1500)
P, Y = TRUE**2, (RANDOM.random(1500) < TRUE).astype(int)
PROBS = RANDOM.dirichlet([0.5] * 4, 900)
LABELS = np.array([RANDOM.choice(4, p=row**0.5 / (row**0.5).sum()) for row in PROBS])
WEIGHTS = RANDOM.integers(0, 4, 1500)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_scores_before_and_after_are_those_of_an_evaluation_with_the_map(weights: Any) -> None:
    fitted = calibrant.fit("isotonic", P, Y, weights=weights)
    seen = in_sample(read_batch(P, Y, weights), fitted)
    report = calibrant.evaluate(P, Y, weights=weights, map=fitted, measures=["log-loss", "brier", "ece"])
    for side, measures in ((seen.before, report.measures), (seen.after, known(report.after))):
        assert side.log_loss == pytest.approx(measures["log-loss"].value, abs=1e-12)
        assert side.brier == pytest.approx(measures["brier"].value, abs=1e-12)
        assert side.ece == pytest.approx(measures["ece"].value, abs=1e-12)
    assert seen.label_rate == pytest.approx(float(np.average(Y, weights=weights)))
    assert seen.label_counts is None
    assert (seen.n, seen.digest, seen.binned) == (1500, digest(read_batch(P, Y)), "binary")


def test_scores_of_a_map_of_the_vector_are_the_vectors_and_its_bins_those_of_the_confidence() -> None:
    fitted = calibrant.fit("temperature", PROBS, LABELS)
    seen = in_sample(read_batch(PROBS, LABELS), fitted)
    scores = calibrant.evaluate(PROBS, LABELS, map=fitted, measures=["log-loss", "brier"], reduction="canonical")
    errors = calibrant.evaluate(PROBS, LABELS, map=fitted, measures=["ece"], reduction="confidence")
    assert seen.after.log_loss == pytest.approx(known(scores.after)["log-loss"].value, abs=1e-12)
    assert seen.before.brier == pytest.approx(scores.measures["brier"].value, abs=1e-12)
    assert seen.after.ece == pytest.approx(known(errors.after)["ece"].value, abs=1e-12)
    assert (seen.binned, seen.label_rate) == ("confidence", None)
    assert seen.label_counts == tuple(np.bincount(LABELS, minlength=4).tolist())


def test_bins_hold_every_row_and_at_most_a_hundred_are_kept() -> None:
    seen = in_sample(read_batch(P, Y), calibrant.fit("platt", P, Y))
    for side, p in ((seen.before, P), (seen.after, calibrant.fit("platt", P, Y).apply(P))):
        assert len(side.bins) == KEPT_BINS
        assert side.counts == (15,) * KEPT_BINS
        assert side.bins.mean_p @ side.bins.mass == pytest.approx(p.sum())
        assert side.bins.mean_y @ side.bins.mass == pytest.approx(Y.sum())
    steps = in_sample(read_batch(P, Y), calibrant.fit("histogram", P, Y, n_bins=3))
    assert len(steps.after.bins) == 3
    assert sum(steps.after.counts) == 1500


def test_the_label_rate_of_a_map_of_one_event_is_the_events() -> None:
    fitted = calibrant.fit("platt", PROBS, LABELS, reduction="class:2")
    seen = in_sample(read_batch(PROBS, LABELS), fitted)
    assert seen.label_rate == pytest.approx(float((LABELS == 2).mean()))
    assert seen.label_counts is not None
    assert seen.binned == "class:2"


def test_labels_of_very_many_classes_are_not_counted() -> None:
    K = MOST_COUNTED + 1
    batch = read_batch(np.full((3, K), 1.0 / K), [0, 1, 2])
    identity = calibrant.fit("identity", np.full((3, K), 1.0 / K), [0, 1, 2])
    assert in_sample(batch, identity).label_counts is None


def test_rows_that_the_map_does_not_accept_are_refused() -> None:
    logits: Batch = read_batch([-1.0, 1.0], [0, 1], scale="logit")
    with pytest.raises(ScaleMismatch):
        in_sample(logits, calibrant.fit("platt", P, Y))


@pytest.mark.parametrize(
    ("method", "options", "chosen"),
    [
        ("es-cv", {}, "bins"),
        ("ew-cv", {}, "bins"),
        ("spline", {"knots": None}, "knots"),
        ("pl", {"candidates": (1, 2, 3), "folds": 3}, "pieces"),
        ("pl3", {"candidates": (1, 2, 3), "folds": 3}, "pieces"),
    ],
)
def test_a_fit_that_selects_reports_the_held_out_loss_of_every_candidate(
    method: str, options: Any, chosen: str
) -> None:
    diagnostics = calibrant.fit(method, P, Y, **options).diagnostics
    losses = diagnostics["held_out_losses"]
    assert len(losses) >= 3
    assert losses[str(diagnostics[chosen])] <= 1.001 * min(losses.values())


def test_the_average_reports_the_mean_log_loss_of_every_candidate() -> None:
    diagnostics = calibrant.fit("averaged", P, Y, candidates=(1, 2), folds=3).diagnostics
    losses = diagnostics["held_out_losses"]
    assert set(diagnostics["weights"]) < set(losses)
    assert {"identity", "platt", "beta", "isotonic", "pl:1", "pl3:2", "process"} <= set(losses)
    as_is = calibrant.evaluate(P, Y, measures=["log-loss"]).measures["log-loss"].value
    assert losses["identity"] == pytest.approx(as_is, abs=1e-3)


def test_every_measure_after_an_in_sample_map_has_its_cross_fitted_value() -> None:
    fitted = calibrant.fit("isotonic", P, Y)
    report = calibrant.evaluate(P, Y, map=fitted, measures=["ece", "brier", "ks"])
    assert report.after is not None
    parts = {key: measure.parts for key, measure in report.after.items()}
    out_of_fold = out_of_fold_predictions(read_batch(P, Y), training_of(fitted))
    held_out = calibrant.evaluate(out_of_fold, Y, measures=["ece", "brier", "ks"])
    for key, measure in held_out.measures.items():
        assert parts[key]["cross_fitted"] == pytest.approx(measure.value, abs=1e-12)
    assert report.after["ece"].value == pytest.approx(0.0, abs=1e-9)
    assert parts["ece"]["cross_fitted"] > 0.01
    before = known(report.measures["brier"].value)
    gained = before - parts["brier"]["cross_fitted"]
    assert gained == pytest.approx(known(report.improvement)["brier"].value, abs=1e-12)
    assert "cross-fitted" in str(report)
    assert "cross_fitted" in report.to_frame().columns


@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
def test_groups_on_the_rows_of_the_fit_say_so_and_are_cross_fitted() -> None:
    fitted, groups = calibrant.fit("isotonic", P, Y), np.where(np.arange(len(P)) % 3, "a", "b")
    report = calibrant.evaluate(P, Y, map=fitted, groups=groups, measures=["ece", "brier"], interval=0.9, resamples=100)
    out_of_fold = out_of_fold_predictions(read_batch(P, Y), training_of(fitted))
    held_out = calibrant.evaluate(out_of_fold, Y, groups=groups, measures=["ece", "brier"]).groups
    assert held_out is not None
    for name, group in known(report.groups).items():
        for key, measure in known(group.after).items():
            assert measure.parts["cross_fitted"] == pytest.approx(held_out[name][key].value, abs=1e-12)
            assert measure.p_value is None
        assert "in-sample" in repr(group)
        assert "cross-fitted" in repr(group)
    assert "cross_fitted" in report.to_frame(groups=True).columns
    elsewhere = known(calibrant.evaluate(1 - P, Y, map=fitted, groups=groups).groups)
    assert "in-sample" not in repr(elsewhere["a"])


def test_maps_of_the_vector_have_cross_fitted_values_of_every_reduction() -> None:
    fitted = calibrant.fit("vector", PROBS, LABELS)
    for reduction, measure in (("confidence", "ece"), ("classwise", "ece"), ("canonical", "log-loss")):
        report = calibrant.evaluate(PROBS, LABELS, map=fitted, reduction=reduction, measures=[measure])
        out_of_fold = out_of_fold_predictions(read_batch(PROBS, LABELS), training_of(fitted))
        held_out = calibrant.evaluate(out_of_fold, LABELS, reduction=reduction, measures=[measure])[measure]
        assert known(report.after)[measure].parts["cross_fitted"] == pytest.approx(held_out.value, abs=1e-12)


@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
def test_other_rows_and_fits_that_cannot_be_repeated_have_no_cross_fitted_values() -> None:
    fitted = calibrant.fit("platt", P, Y)
    elsewhere = calibrant.evaluate(1 - P, Y, map=fitted, measures=["ece"]).after
    unknown = calibrant.load({**fitted.to_document(), "diagnostics": {}})
    again = calibrant.evaluate(P, Y, map=unknown, measures=["ece"])
    assert elsewhere is not None
    assert again.in_sample is True
    assert "cross_fitted" not in {**elsewhere["ece"].parts, **known(again.after)["ece"].parts}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.asarray, pd.Series, pl.Series], ids=["numpy", "pandas", "polars"])
def test_predictions_calibrated_by_a_map_of_the_same_rows_are_warned_of(kind: Any) -> None:
    p, y = kind(P), kind(Y)
    fitted = calibrant.fit("isotonic", p, y)
    calibrated = fitted.apply(p)
    with pytest.warns(UserWarning, match="in-sample: .*map="):
        calibrant.evaluate(calibrated, y)
    with pytest.warns(UserWarning, match="in-sample"):
        calibrant.report(calibrated, y)


def test_vectors_of_logits_calibrated_by_a_map_of_the_same_rows_are_warned_of() -> None:
    frame = pd.DataFrame(np.log(PROBS), columns=["a", "b", "c", "d"])
    labels = np.array(["a", "b", "c", "d"])[LABELS]
    fitted = calibrant.fit("temperature", frame, labels, scale="logit")
    calibrated = fitted.apply(frame[["d", "c", "b", "a"]])
    assert list(calibrated.columns) == ["a", "b", "c", "d"]
    calibrant.evaluate(calibrated, labels)  # the frame that it was applied to is deleted
    calibrated = fitted.apply(frame)
    with pytest.warns(UserWarning, match="in-sample"):
        calibrant.evaluate(calibrated, labels)


@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
def test_no_warning_without_the_rows_of_the_fit() -> None:
    p, y, others = P[:700], Y[:700], P[700:]
    fitted = calibrant.fit("isotonic", p, y)
    calibrated = fitted.apply(others)
    calibrant.evaluate(calibrated, Y[700:])
    calibrated = fitted.apply(P)
    calibrant.evaluate(calibrated, Y)
    calibrated = fitted.apply(p)
    calibrant.evaluate(calibrated, 1 - y)
