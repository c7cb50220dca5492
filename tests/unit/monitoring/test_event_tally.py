from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import calibrant
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidDocument,
    InvalidLabel,
    InvalidOption,
    InvalidWeight,
    LengthMismatch,
    ScaleMismatch,
    UnknownReduction,
    WrongShape,
)
from tests.known import known
from tests.rows import draw_distorted

Array = npt.NDArray[Any]
_MEASURES = ["ece", "ks", "log-loss", "brier", "smooth-ece", "auroc"]


def _rows(n: int = 30_000, seed: int = 0) -> tuple[Array, Array]:
    return draw_distorted(n, seed, 1.3)


@pytest.mark.parametrize("sign", [1, -1])
def test_logits_beyond_14_are_ties_in_a_tally_and_stay_in_order_with_other_rows(sign: int) -> None:
    def auroc(z: list[float], labels: list[int]) -> float:
        rows, y = sign * np.array(z), np.array(labels) if sign == 1 else 1 - np.array(labels)
        report = calibrant.evaluate_tally(calibrant.tally(rows, y, scale="logit"), measures=["auroc"])
        return float(report.measures["auroc"].value or 0.0)

    assert auroc([40.0, 50.0, 60.0, 70.0], [0, 0, 1, 1]) == 0.5
    assert auroc([10.0, 12.0, 14.0, 40.0, 50.0, 60.0], [0, 0, 0, 1, 1, 1]) == 1.0
    assert auroc([-70.0, -50.0, 0.0, 15.0, 70.0, 700.0], [0, 0, 0, 1, 1, 1]) == 1.0


def test_measures_of_a_tally_are_those_of_the_rows() -> None:
    p, y = _rows()
    exact = calibrant.evaluate(p, y, measures=_MEASURES, interval=0.9)
    report = calibrant.evaluate_tally(calibrant.tally(p, y), measures=_MEASURES, interval=0.9)
    assert report.n == len(p)
    for key, measure in report.measures.items():
        assert measure.value == pytest.approx(exact.measures[key].value, abs=1e-4), key
        assert measure.interval == pytest.approx(exact.measures[key].interval, abs=2e-3), key


@pytest.mark.parametrize("method", ["isotonic", "platt", "beta", "spline", "histogram", "venn-abers"])
def test_maps_of_a_tally_are_those_of_the_rows(method: str) -> None:
    p, y = _rows()
    grid = np.linspace(0.01, 0.99, 99)
    fitted = calibrant.fit_tally(calibrant.tally(p, y), method)
    assert np.abs(fitted.apply(grid) - calibrant.fit(method, p, y).apply(grid)).mean() < 2e-3
    assert calibrant.load(fitted.to_document()).apply(grid).tolist() == fitted.apply(grid).tolist()


@pytest.mark.parametrize("reduction", [None, "confidence", "class:2", "top:2", "within-top:2"])
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_vectors_are_counted_as_the_requested_event(reduction: str | None, scale: Any) -> None:
    random = np.random.default_rng(3)
    logits = random.normal(size=(4000, 4))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < random.random((4000, 1))).sum(axis=1)
    rows = logits if scale == "logit" else probs
    tally = calibrant.tally(rows, labels, reduction=reduction, scale=scale)
    exact = calibrant.evaluate(rows, labels, reduction=reduction, scale=scale, measures=["brier", "confidence-gap"])
    report = calibrant.evaluate_tally(tally, measures=["brier", "confidence-gap"])
    assert report.reduction == exact.reduction
    for key, measure in report.measures.items():
        assert measure.value == pytest.approx(exact.measures[key].value, abs=2e-5)
    fitted = calibrant.fit_tally(tally, "platt")
    assert (fitted.reduction, fitted.scale, fitted.n_classes) == (tally.reduction, scale, 4)
    assert fitted.apply(rows).shape == (4000,)


def test_whole_weights_count_rows_and_others_are_refused() -> None:
    p, y = _rows(500)
    w = np.random.default_rng(4).integers(0, 4, 500)
    tally = calibrant.tally(p, y, weights=w, folds=np.arange(500) % 5)
    repeated = calibrant.tally(np.repeat(p, w), np.repeat(y, w), folds=np.repeat(np.arange(500) % 5, w))
    assert len(tally) == w.sum()
    np.testing.assert_array_equal(tally.tally.keys, repeated.tally.keys)
    np.testing.assert_array_equal(tally.tally.rows, repeated.tally.rows)
    with pytest.raises(InvalidWeight, match=r"1 of 500 is not a whole number.*/weights/7"):
        calibrant.tally(p, y, weights=np.where(np.arange(500) == 7, 0.5, 1.0))


def test_groups_keep_their_names_whichever_part_met_them() -> None:
    p, y = _rows(6000)
    groups = [None if i % 5 == 0 else "äöü"[i % 3] for i in range(6000)]
    whole = calibrant.tally(p, y, groups=groups)
    cuts = [0, 2, 7, 3000, 6000]
    parts = [calibrant.tally(p[a:b], y[a:b], groups=groups[a:b]) for a, b in pairwise(cuts)]
    merged = calibrant.merge(reversed(parts))
    assert merged.groups == whole.groups == ("ä", "ö", "ü")
    np.testing.assert_array_equal(merged.tally.keys, whole.tally.keys)
    np.testing.assert_array_equal(merged.tally.rows, whole.tally.rows)
    report = calibrant.evaluate_tally(merged, measures=["ks"], interval=0.9)
    exact = calibrant.evaluate(p, y, measures=["ks"], groups=[name or "none" for name in groups])
    assert report.groups is not None
    assert exact.groups is not None
    assert list(report.groups) == ["ä", "ö", "ü"]
    for name, group in report.groups.items():
        assert group.n == exact.groups[name].n
        assert group.measures["ks"].value == pytest.approx(exact.groups[name].measures["ks"].value, abs=1e-3)
    gap = known(report.gaps)["ks"]
    assert gap.interval is not None
    assert gap.interval[0] <= known(gap.value) <= gap.interval[1]
    assert gap.p_value is None
    assert len(merged.of_group("ä")) == groups.count("ä")


def test_a_map_fitted_to_some_folds_is_measured_on_the_others() -> None:
    p, y = _rows()
    counted = calibrant.tally(p, y, folds=np.arange(len(p)) % 5, groups=["ab"[i % 2] for i in range(len(p))])
    fitted = calibrant.fit_tally(counted.of_folds(range(4)), "beta")
    held = counted.of_folds([4])
    assert len(held) == len(p) // 5
    report = calibrant.evaluate_tally(held, measures=["ece"], map=fitted, diagrams=["reliability"], interval=0.9)
    exact = calibrant.evaluate(p[4::5], y[4::5], measures=["ece"], map=fitted)
    assert report.improvement is not None
    assert known(report.after)["ece"].value == pytest.approx(known(exact.after)["ece"].value, abs=5e-4)
    assert report.improvement["log-loss"].value == pytest.approx(known(exact.improvement)["log-loss"].value, abs=1e-4)
    assert report.improvement["log-loss"].interval is not None
    assert report.diagrams["reliability"]["problem"] is None
    assert report.after_diagrams is not None
    assert known(report.groups)["a"].after is not None
    assert report.gaps_after is not None


def test_bytes_are_read_back_and_anything_else_is_refused() -> None:
    p, y = _rows(2000)
    counted = calibrant.tally(p, y, groups=["é"] * 2000)
    packed = counted.to_bytes()
    again = calibrant.EventTally.from_bytes(packed)
    assert again.groups == ("é",)
    np.testing.assert_array_equal(again.tally.p_sum, counted.tally.p_sum)
    for damaged in (b"", b"E1", packed[:40], packed[:-1], b"T1" + packed[2:], packed.replace(b"binary", b"binbry")):
        with pytest.raises(InvalidDocument):
            calibrant.EventTally.from_bytes(damaged)
    unnamed = calibrant.EventTally(counted.tally, "binary").to_bytes()
    with pytest.raises(InvalidDocument, match="more groups"):
        calibrant.EventTally.from_bytes(unnamed)


@pytest.mark.parametrize(
    ("error", "changes"),
    [
        (UnknownReduction, {"reduction": "pooled"}),
        (LengthMismatch, {"folds": [0]}),
        (InvalidOption, {"folds": [0, 1, 5]}),
        (InvalidOption, {"folds": [0.0, 1.5, 2.0]}),
        (LengthMismatch, {"groups": ["a"]}),
        (WrongShape, {"groups": "abc"}),
        (InvalidOption, {"groups": ["a", "b" * 257, "b"]}),
        (InvalidLabel, {"labels": [0, 1, 2]}),
    ],
)
def test_an_invalid_partition_is_refused(error: type[CalibrationError], changes: dict[str, Any]) -> None:
    with pytest.raises(error):
        calibrant.tally(**{"predictions": [0.1, 0.2, 0.3], "labels": [0, 1, 0], **changes})


def test_tallies_that_do_not_match_are_refused() -> None:
    binary, logits = calibrant.tally([0.1, 0.9], [0, 1]), calibrant.tally([-2.0, 2.0], [0, 1], scale="logit")
    with pytest.raises(InvalidOption, match="tallies/1"):
        calibrant.merge([binary, logits])
    with pytest.raises(EmptyBatch):
        calibrant.merge([])
    with pytest.raises(EmptyBatch):
        calibrant.evaluate_tally(binary.of_folds([3]))
    with pytest.raises(InvalidOption):
        calibrant.evaluate_tally(binary.tally)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        binary.of_group("a")
    fitted = calibrant.fit_tally(logits, "isotonic")
    with pytest.raises(ScaleMismatch):
        calibrant.evaluate_tally(binary, map=fitted)
    with pytest.raises(WrongShape):
        calibrant.evaluate_tally(binary, map=calibrant.fit("isotonic", [0.1, 0.9], [0, 1], reduction="class:1"))
    with pytest.raises(UnknownReduction):
        calibrant.fit_tally(binary, "vector")
