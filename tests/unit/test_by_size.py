from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

import calibrant
from calibrant.by_size import STEPS, BySize, measure_by_size
from calibrant.core.batch import read_batch
from calibrant.core.errors import InvalidOption, UnknownMeasure, UnknownReduction
from calibrant.measures.catalogue import read_requests
from tests.refusals import refused_at
from tests.rows import draw_event


@pytest.fixture(scope="module")
def batch() -> tuple[Any, Any]:
    return draw_event(2000)


def test_sizes_and_repetitions_are_those_of_the_protocol(batch: tuple[Any, Any]) -> None:
    by_size = measure_by_size(*batch, measures=["accuracy"], start=100, start_repetitions=400)
    assert by_size.sizes == tuple(round(2**x) for x in np.linspace(np.log2(100), np.log2(2000), 10))
    assert by_size.repetitions == tuple(round(x**2) for x in np.linspace(20, 1, 10))
    assert by_size.reduction == "binary"
    assert len(by_size.sizes) == STEPS


@pytest.mark.slow
def test_an_unbiased_measure_stays_level_and_plain_ece_comes_down(batch: tuple[Any, Any]) -> None:
    by_size = measure_by_size(*batch, measures=["accuracy", "ece"], start_repetitions=400)
    accuracy, ece = by_size.curves["accuracy"], by_size.curves["ece"]
    full = calibrant.evaluate(*batch, measures=["accuracy", "ece"]).measures
    assert accuracy.full == full["accuracy"]
    assert ece.full == full["ece"]
    assert accuracy.mean[-1] == full["accuracy"].value
    mean, spread = accuracy.mean[0], accuracy.standard_deviation[0]
    assert mean is not None
    assert spread is not None
    assert abs(mean - (full["accuracy"].value or 0.0)) < 4 * spread / 20
    assert (ece.mean[0] or 0.0) > 2 * (ece.mean[-1] or 1.0)
    # Sampling without replacement: the variance of the mean of m of n.
    share = full["accuracy"].value or 0.0
    assert spread == pytest.approx(np.sqrt(share * (1 - share) / 100 * (1 - 100 / 2000)), rel=0.15)
    assert accuracy.standard_deviation[-1] is None


@pytest.mark.parametrize("reduction", ["confidence", "canonical"])
def test_subsets_of_a_table_of_counts_are_those_of_its_rows(reduction: str) -> None:
    random = np.random.default_rng(2)
    P = random.dirichlet(np.ones(3), 20)
    y, w = random.integers(0, 3, 20), random.integers(0, 40, 20)
    options: dict[str, Any] = {"measures": ["ece", "brier"], "reduction": reduction, "start_repetitions": 5}
    table = measure_by_size(P, y, weights=w, weights_kind="frequency", **options)
    rows = measure_by_size(np.repeat(P, w, axis=0), np.repeat(y, w), **options)
    assert table.sizes == rows.sizes
    assert table.sizes[-1] == w.sum()
    for key, curve in rows.curves.items():
        assert table.curves[key].mean == pytest.approx(curve.mean)
        assert table.curves[key].standard_deviation[:-1] == pytest.approx(curve.standard_deviation[:-1])
    with pytest.raises(InvalidOption, match="count 20,000,000 rows, and subsets are of whole rows, at most 1,000,000"):
        measure_by_size(P, y, weights=np.full(20, 10**6), weights_kind="frequency", **options)


def test_neither_the_order_of_rows_nor_rows_without_weight_matter() -> None:
    random = np.random.default_rng(1)
    P = random.dirichlet(np.ones(4), 300)
    y, w = random.integers(0, 4, 300), random.integers(0, 3, 300).astype(float)
    order = random.permutation(300)
    options: dict[str, Any] = {"measures": ["ks", "auroc"], "start": 40, "start_repetitions": 4}
    for reduction in ("confidence", "classwise", "canonical", "pooled"):
        first = measure_by_size(P, y, weights=w, reduction=reduction, **options)
        other = measure_by_size(P[order], y[order], weights=w[order], reduction=reduction, **options)
        restricted = measure_by_size(P[w > 0], y[w > 0], weights=w[w > 0], reduction=reduction, **options)
        for key in first.curves:
            for changed in (other, restricted):
                assert changed.sizes == first.sizes
                assert _known(changed.curves[key].mean) == pytest.approx(_known(first.curves[key].mean), rel=1e-9)
        assert first.sizes[-1] == np.count_nonzero(w)


def _known(estimates: tuple[float | None, ...]) -> list[float]:
    return [np.nan if estimate is None else estimate for estimate in estimates if estimate is not None]


def test_subsamples_without_a_value_are_counted_as_lost() -> None:
    y = np.zeros(400, int)
    y[:4] = 1
    curve = measure_by_size(np.linspace(0, 1, 400), y, measures=["auroc"], start=3, start_repetitions=64).curves[
        "auroc"
    ]
    assert curve.lost[0] > 40
    assert curve.lost[-1] == 0
    never = measure_by_size(np.linspace(0, 1, 40), np.ones(40, int), measures=["auroc"], start=3).curves["auroc"]
    assert never.mean == never.standard_deviation == (None,) * STEPS


def test_logits_and_options_are_read_as_evaluate_reads_them(batch: tuple[Any, Any]) -> None:
    z = np.log(batch[0] / (1 - batch[0]))
    requests = [{"name": "ece", "n_bins": 5, "as": "five"}]
    measured = measure_by_size(z, batch[1], measures=requests, scale="logit", start=1900, start_repetitions=1)
    assert set(measured.curves) == {"five"}
    assert measured.curves["five"].full.value == pytest.approx(
        calibrant.evaluate(*batch, measures=requests).measures["five"].value
    )


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"start": 2000}, "/start"),
        ({"start": 0}, "/start"),
        ({"start": True}, "/start"),
        ({"start_repetitions": 0}, "/start_repetitions"),
        ({"start_repetitions": 2.0}, "/start_repetitions"),
        ({"seed": -1}, "/seed"),
        ({"squared": "yes"}, "/squared"),
        ({"squared": np.array([True, False])}, "/squared"),
        ({"repetitions": ["paper"]}, "/repetitions"),
        ({"reduction": []}, "/reduction"),
        ({"reduction": ["binary", "confidence", "binary"]}, "/reduction/2"),
    ],
)
def test_bad_options_are_refused_where_they_are_bad(batch: tuple[Any, Any], options: Any, pointer: str) -> None:
    with refused_at(pointer, InvalidOption):
        measure_by_size(*batch, **options)
    with pytest.raises(UnknownMeasure):
        measure_by_size(*batch, measures=["nope"])


@pytest.mark.parametrize(
    ("reduction", "pointer"),
    [("nope", "/reduction"), (123, "/reduction"), (["binary", "class:1"], "/reduction/1"), ([1], "/reduction/0")],
)
def test_an_unknown_reduction_is_named_by_its_place(batch: tuple[Any, Any], reduction: Any, pointer: str) -> None:
    with refused_at(pointer, UnknownReduction):
        measure_by_size(*batch, reduction=reduction)


def test_sizes_may_be_numbers_of_numpy(batch: tuple[Any, Any]) -> None:
    sizes = {"start": np.int64(1000), "start_repetitions": np.int32(2)}
    by_size = measure_by_size(*batch, measures=["brier"], **sizes)  # type: ignore[arg-type]
    assert by_size == measure_by_size(*batch, measures=["brier"], start=1000, start_repetitions=2)


def test_the_estimate_grows_with_rows_repetitions_and_measures(batch: tuple[Any, Any]) -> None:
    short, whole = read_batch(batch[0][:500], batch[1][:500]), read_batch(*batch)
    seldom = BySize(read_requests(["ece"]))
    assert 0.0 < seldom.seconds(seldom.check(short)) < seldom.seconds(seldom.check(whole))
    often = BySize(read_requests(["ece"]), start_repetitions=10_000)
    assert often.seconds(often.check(whole)) > 50.0 * seldom.seconds(seldom.check(whole))
    assert BySize(read_requests(["ece", "ks"])).seconds(seldom.check(whole)) > 1.5 * seldom.seconds(seldom.check(whole))
    with pytest.raises(InvalidOption):
        seldom.check(read_batch(batch[0][:100], batch[1][:100]))
    weights = np.r_[np.ones(100), np.zeros(1900)]
    with pytest.raises(InvalidOption):
        seldom.check(read_batch(*batch, weights))


def test_only_what_has_a_long_fit_is_not_inline() -> None:
    assert BySize(read_requests(["ece", "ks"])).inline
    assert not BySize(read_requests(["ece", "ece-pl"])).inline


def test_progress_rises_to_the_end_and_its_exception_ends_the_work(batch: tuple[Any, Any]) -> None:
    work, rows = BySize(read_requests(["ece"]), start_repetitions=4), read_batch(*batch)
    seen: list[tuple[int, int]] = []
    work.run(work.check(rows), lambda done, total, _: seen.append((done, total)))
    shares = [done / total for done, total in seen]
    assert shares == sorted(shares)
    assert shares[0] == 0.0 < shares[-1] < 1.0

    def end(done: int, total: int, _: str) -> None:
        if done > 0.5 * total:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        work.run(work.check(rows), end)


def test_the_repetitions_are_those_of_the_paper() -> None:
    task = BySize(read_requests(["brier"]), repetitions="paper")
    assert task._plan(1000)[1] == (20000, 15842, 12168, 8978, 6272, 4050, 2312, 1058, 288, 2)
    with refused_at("/repetitions", InvalidOption):
        BySize(read_requests(["brier"]), repetitions="twice").check(read_batch([0.2] * 200, [0, 1] * 100))  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_improvement_of_the_brier_score_is_level_and_that_of_ece_is_not() -> None:
    logits, labels, _ = calibrant.logistic_normal(4000, n_classes=4, temperature=3.0, seed=1)
    fitted = calibrant.fit("temperature", logits[:2000], labels[:2000], scale="logit")
    rows = logits[2000:], labels[2000:]
    by_size = measure_by_size(
        *rows,
        measures=["brier", {"name": "ece", "norm": 1}],
        reduction="confidence",
        map=fitted,
        scale="logit",
        start_repetitions=900,
    )
    measured = calibrant.evaluate(*rows, measures=["brier", "ece"], reduction="confidence", map=fitted, scale="logit")
    assert measured.after is not None
    for key, curve in by_size.curves.items():
        gain = (measured[key].value or 0.0) - (measured.after[key].value or 0.0)
        assert curve.full.value == pytest.approx(gain)
    # Simultaneous 95 % bands of the means at the sizes with at least 30 subsamples, by Bonferroni.
    often = [i for i, count in enumerate(by_size.repetitions) if count >= 30]
    level = float(ndtri(1 - 0.05 / (2 * len(often))))
    outside = {}
    for key, curve in by_size.curves.items():
        off = [
            abs((curve.mean[i] or 0.0) - (curve.full.value or 0.0))
            > level * (curve.standard_deviation[i] or 0.0) / by_size.repetitions[i] ** 0.5
            for i in often
        ]
        outside[key] = any(off)
    assert outside == {"brier": False, "ece": True}


@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
def test_improvements_are_above_0_if_the_map_is_better(batch: tuple[Any, Any]) -> None:
    p, y = 1.0 - batch[0], batch[1]
    fitted = calibrant.fit("platt", p[:1000], y[:1000])  # its slope is negative
    options: dict[str, Any] = {"measures": ["accuracy", "brier", "auroc"], "start_repetitions": 2, "map": fitted}
    by_size = measure_by_size(p[1000:], y[1000:], **options)
    squared = measure_by_size(p[1000:], y[1000:], squared=True, **options)
    for key in ("accuracy", "brier", "auroc"):
        full = by_size.curves[key].full
        gain = full.parts["after"] - full.parts["before"]
        assert full.value == (-gain if key == "brier" else gain) > 0.1
        assert (squared.curves[key].full.value or 0.0) > 0.01


def test_improvements_are_titled_as_such_and_say_if_they_are_in_sample(batch: tuple[Any, Any]) -> None:
    p, y = batch
    fitted = calibrant.fit("platt", p[:1000], y[:1000])
    held_out = measure_by_size(p[1000:], y[1000:], measures=["brier"], map=fitted)
    assert (held_out.improvement, held_out.in_sample) == (True, False)
    assert repr(held_out).startswith("Improvement by number of rows")
    assert "in-sample" not in repr(held_out)
    same = measure_by_size(p[:1000], y[:1000], measures=["brier"], map=fitted)
    assert same.in_sample is True
    for shown in (repr(same), same._repr_html_()):
        assert "Improvement by number of rows" in shown
        assert "in-sample: the map was fitted to these rows" in shown
    plain = measure_by_size(p, y, measures=["brier"])
    assert (plain.improvement, plain.in_sample) == (False, None)
    assert repr(plain).startswith("Measures by number of rows")


def test_several_reductions_share_subsamples_and_squares_are_taken_first(batch: tuple[Any, Any]) -> None:
    p, y = batch
    both = np.column_stack([1 - p, p])
    options: dict[str, Any] = {"measures": ["ece", "brier"], "start_repetitions": 4}
    measured = measure_by_size(both, y, reduction=["class:1", "confidence"], **options)
    assert measured.reduction == "class:1, confidence"
    assert list(measured.curves) == [f"{m} ({r})" for r in ("class:1", "confidence") for m in ("ece", "brier")]
    alone = measure_by_size(both, y, reduction="confidence", **options)
    assert measured.curves["ece (confidence)"].mean == alone.curves["ece"].mean
    fitted = calibrant.fit("platt", p[:500], y[:500])
    plain = measure_by_size(p, y, map=fitted, **options).curves["ece"].full
    squared = measure_by_size(p, y, map=fitted, squared=True, **options).curves["ece"].full
    assert squared.value == pytest.approx(plain.parts["before"] ** 2 - plain.parts["after"] ** 2)
    raw = measure_by_size(p, y, squared=True, **options).curves["brier"]
    assert raw.full.value == pytest.approx((calibrant.evaluate(p, y, measures="brier")["brier"].value or 0.0) ** 2)
    assert repr(measure_by_size(p, y, squared=True, **options)).startswith("Measures, squared, by number of rows")
    # The figure of Gruber & Buettner (2022): measures of the vector beside those of the top label.
    measured_vectors = measure_by_size(
        both, y, measures=["root-brier", "ks"], reduction=["canonical", "confidence"], start=500
    )
    assert list(measured_vectors.curves) == ["root-brier (canonical)", "root-brier (confidence)", "ks (confidence)"]
    for reduction in ([], ["binary", "binary"]):
        with pytest.raises(InvalidOption):
            measure_by_size(p, y, reduction=reduction, **options)
