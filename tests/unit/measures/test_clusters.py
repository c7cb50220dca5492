"""Rows in clusters: variances of golden values and of dense matrices, resampled clusters, and what is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit, ndtr, ndtri, stdtr, stdtrit

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.core.inputs import read_rows
from calibrant.core.reductions import reduce
from calibrant.measures.catalogue import MEASURES, applicable
from calibrant.measures.intervals import PLAIN
from calibrant.measures.measure import DEPENDENT
from tests.clinical import EXACT, clinical_rows, numbers_of_r
from tests.refusals import refused_at

Array = npt.NDArray[np.float64]
FAST = [str(name) for name in applicable("all", None) or ()]


def _drawn(n: int = 300, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    p = np.round(random.beta(2.0, 3.0, n), 3)
    return p, (random.random(n) < expit(0.2 + 0.8 * np.log(p / (1.0 - p)))).astype(int)


def _clusters(n: int = 300, seed: int = 1) -> Array:
    """Return clusters of unequal size."""
    return np.sort(np.random.default_rng(seed).integers(0, 40, n) ** 2 // 40)


def _evaluated(*rows: Any, **options: Any) -> Any:
    return calibrant.evaluate(*rows, **options)


def _measure(p: Any, y: Any, name: str, **options: Any) -> Any:
    return calibrant.evaluate(p, y, measures=[name], **{"interval": 0.95, **options}).measures[name]


# --- Variances


@pytest.mark.parametrize("name", ["moderate_n500", "rare_n3000"])
def test_errors_of_the_slope_are_those_of_rms_and_statsmodels(name: str) -> None:
    (p, y, clusters), exact = clinical_rows(name), EXACT[name]
    in_r = numbers_of_r(name)["slope_cluster_se_robcov"]
    expected = {
        "cr0": {in_r, exact["slope_se_cluster_uncorrected"]},
        "cr1": {exact["slope_se_cluster_statsmodels"]},
    }
    for variance, errors in expected.items():
        slope = _measure(p, y, "calibration-slope", clusters=clusters, cluster_variance=variance)
        for error in errors:
            assert slope.parts["standard_error"] == pytest.approx(error, rel=1e-7)
    count = len(np.unique(clusters))
    reach = float(stdtrit(count - 1.0, 0.975)) * exact["slope_se_cluster_statsmodels"]
    assert slope.interval == pytest.approx((slope.value - reach, slope.value + reach), rel=1e-7)


def _cr2(x: Array, v: Array, off: Array, clusters: Array, column: int) -> tuple[float, float]:
    """Return CR2's variance and Satterthwaite's degrees of freedom by dense matrices (Bell & McCaffrey 2002)."""
    scaled, residual = x * np.sqrt(v)[:, None], off / np.sqrt(v)
    inverse = np.linalg.inv(scaled.T @ scaled)
    hat = scaled @ inverse @ scaled.T
    left = np.eye(len(v)) - hat
    parts = []
    for cluster in np.unique(clusters):
        own = clusters == cluster
        size, axes = np.linalg.eigh(left[np.ix_(own, own)])
        root = (axes / np.sqrt(size)) @ axes.T
        parts.append(left[:, own] @ root @ scaled[own] @ inverse[:, column])
    loads = np.array(parts)
    products = loads @ loads.T
    return float(((loads @ residual) ** 2).sum()), float(np.trace(products) ** 2 / (products**2).sum())


@pytest.mark.parametrize("column", [0, 1])
def test_cr2_of_a_recalibration_is_that_of_dense_matrices(column: int) -> None:
    (p, y), clusters = _drawn(), _clusters()
    name = ("logistic-intercept", "calibration-slope")[column]
    measure = _measure(p, y, name, clusters=clusters)
    both = [
        _measure(p, y, recalibration, interval=None).value
        for recalibration in ("logistic-intercept", "calibration-slope")
    ]
    x = np.column_stack([np.ones_like(p), np.log(p / (1.0 - p))])
    chance = expit(x @ np.array(both))
    variance, freedom = _cr2(x, chance * (1.0 - chance), y - chance, clusters, column)
    assert measure.parts["standard_error"] == pytest.approx(variance**0.5, rel=1e-7)
    reach = float(stdtrit(freedom, 0.975)) * variance**0.5
    assert measure.interval == pytest.approx((measure.value - reach, measure.value + reach), rel=1e-6)


def test_cr2_of_a_mean_is_that_of_dense_matrices() -> None:
    (p, y), clusters = _drawn(), _clusters()
    scores = (p - y) ** 2
    variance, freedom = _cr2(np.ones((300, 1)), np.ones(300), scores - scores.mean(), clusters, 0)
    reach = float(stdtrit(freedom, 0.975)) * variance**0.5
    measure = _measure(p, y, "brier", clusters=clusters)
    assert measure.interval == pytest.approx((measure.value - reach, measure.value + reach), rel=1e-9)
    assert measure.definition["clusters"] == len(np.unique(clusters))
    assert measure.definition["cluster_variance"] == "cr2"
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], scores - scores.mean())
    plain = _measure(p, y, "brier", clusters=clusters, cluster_variance="cr0")
    assert plain.interval[1] - plain.value == pytest.approx(ndtri(0.975) * np.linalg.norm(sums) / 300, rel=1e-9)


def test_the_ratio_has_the_interval_of_its_logarithm() -> None:
    (p, y), clusters = _drawn(), _clusters()
    events, expected = y.sum(), p.sum()
    off = 300.0 / events * y - 300.0 / expected * p
    variance, freedom = _cr2(np.ones((300, 1)), np.ones(300), off, clusters, 0)
    measure, middle = _measure(p, y, "oe-ratio", clusters=clusters), np.log(events / expected)
    reach = float(stdtrit(freedom, 0.975)) * variance**0.5
    assert measure.interval == pytest.approx((np.exp(middle - reach), np.exp(middle + reach)), rel=1e-9)
    assert measure.p_value == pytest.approx(2.0 * stdtr(freedom, -abs(middle) / variance**0.5), rel=1e-9)
    inverse = _measure(p, y, "pcoc", clusters=clusters)
    assert inverse.interval == pytest.approx((1.0 / measure.interval[1], 1.0 / measure.interval[0]), rel=1e-9)


def test_the_z_of_spiegelhalter_has_the_variance_of_the_sums_of_clusters() -> None:
    (p, y), clusters = _drawn(), _clusters()
    number = np.unique(clusters, return_inverse=True)[1]
    measure = _measure(p, y, "spiegelhalter", clusters=clusters)
    sums = np.bincount(number, (y - p) * (1.0 - 2.0 * p))
    assert measure.value == pytest.approx(sums.sum() / np.linalg.norm(sums))
    assert measure.p_value == pytest.approx(2.0 * ndtr(-abs(measure.value)))


def test_clusters_without_weight_do_not_count() -> None:
    measure = _measure([0.2, 0.4, 0.6], [0, 1, 1], "spiegelhalter", clusters=[0, 0, 1], weights=[1, 2, 0])
    assert (measure.value, measure.p_value) == (None, None)
    assert measure.problem.startswith("no value: all rows are of one cluster")


# --- All measures


@pytest.fixture(scope="module")
def once() -> Any:
    p, y = _drawn()
    return calibrant.evaluate(p, y, measures=FAST, interval=0.95)


@pytest.fixture(scope="module")
def twice() -> Any:
    """Each row twice in a cluster of its own, which says no more than the row once."""
    p, y = _drawn()
    return calibrant.evaluate(
        np.tile(p, 2), np.tile(y, 2), measures=FAST, interval=0.95, clusters=np.tile(np.arange(300), 2)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_a_row_that_is_repeated_in_its_cluster_adds_no_information(once: Any, twice: Any, name: str) -> None:
    alone, repeated = once[name], twice[name]
    for part in ("p_value", "debiased"):
        if getattr(repeated, part) is not None:
            assert part in MEASURES[name].clustered
            errors = [ndtri(getattr(measure, part) / 2.0) for measure in (alone, repeated)]
            assert errors[1] == pytest.approx(errors[0], rel=0.25)
        elif getattr(alone, part) is not None:
            assert DEPENDENT in repeated.problem
    if repeated.interval is None:
        assert repeated.problem or alone.interval is None
        return
    if alone.interval is None:
        return
    widths = [measure.interval[1] - measure.interval[0] for measure in (alone, repeated)]
    assert 0.8 < widths[1] / widths[0] < 1.25  # 0.71 if rows were independent


def test_an_interval_is_lost_only_if_it_assumes_independent_rows(once: Any, twice: Any) -> None:
    lost = {name for name in FAST if once[name].interval is not None and twice[name].interval is None}
    chance = {"decomposition", "ece-by-chance", "l2-bias"}
    assert all(MEASURES[name].own_interval or name in chance for name in lost), lost


@pytest.mark.parametrize(
    "name", ["brier", "ks", "ece", "calibration-slope", "oe-ratio", "auroc", "optimal-temperature"]
)
def test_rows_that_are_clusters_of_their_own_have_the_interval_of_rows(once: Any, name: str) -> None:
    p, y = _drawn()
    own = _measure(p, y, name, clusters=np.arange(300), resamples=2000)
    low, high = once[name].interval
    assert own.interval == pytest.approx((low, high), abs=0.12 * (high - low))


def test_neither_the_order_of_rows_nor_the_names_of_clusters_matter() -> None:
    clusters, random = _clusters(), np.random.default_rng(6)
    p = random.random(300)
    y = (random.random(300) < p).astype(int)
    order = np.random.default_rng(2).permutation(300)
    names = ["brier", "ece", "ks", "calibration-slope", "e50"]
    options: dict[str, Any] = {"measures": names, "interval": 0.9, "resamples": 200}
    first = calibrant.evaluate(p, y, clusters=clusters, **options)
    other = calibrant.evaluate(p[order], y[order], clusters=[f"user {c:04.0f}" for c in clusters[order]], **options)
    for name in names:
        assert other[name].value == pytest.approx(first[name].value)
        assert other[name].interval == pytest.approx(first[name].interval)


@pytest.mark.parametrize("name", ["brier", "ece", "ks", "calibration-slope", "oe-ratio", "auroc"])
def test_a_frequency_weight_is_the_row_repeated_in_its_cluster(name: str) -> None:
    (p, y), clusters = _drawn(), _clusters()
    w = np.random.default_rng(3).integers(0, 4, 300)
    weighted = _measure(p, y, name, weights=w, weights_kind="frequency", clusters=clusters)
    rows = np.repeat(np.arange(300), w)
    repeated = _measure(p[rows], y[rows], name, clusters=clusters[rows])
    assert repeated.interval == pytest.approx(weighted.interval, rel=1e-6)
    assert repeated.p_value == pytest.approx(weighted.p_value) if weighted.p_value else repeated.p_value is None


def test_resamples_have_whole_clusters() -> None:
    from calibrant.core.inputs import read_rows
    from calibrant.core.reductions import reduce
    from calibrant.measures.intervals import Resampling, resampled_values

    (p, y), clusters = _drawn(), _clusters()
    event: Any = reduce(read_rows(p, y, clusters=clusters).batch, "binary")
    sizes: list[int] = []

    def whole(rows: Any) -> float:
        number, counts = np.unique(rows.clusters, return_counts=True)
        sizes.append(len(rows))
        return float((counts % np.bincount(event.clusters)[number] == 0).all())

    assert resampled_values(whole, event, Resampling(0.95, 100)).all()
    assert len(set(sizes)) > 10


def test_an_effect_of_chance_on_independent_rows_has_no_value() -> None:
    p, y = _drawn()
    for name in ("ece-by-chance", "l2-bias"):
        assert "independent rows" in _measure(p, y, name, clusters=_clusters()).problem


@pytest.mark.parametrize("name", ["brier", "ece", "ks", "calibration-slope", "oe-ratio"])
def test_one_cluster_has_no_interval(name: str) -> None:
    p, y = _drawn()
    measure = _measure(p, y, name, clusters=["a"] * 300)
    assert measure.value is not None
    assert measure.interval is None
    assert measure.p_value is None
    assert "at least two clusters" in measure.problem


def test_a_cluster_that_determines_the_slope_alone_has_no_interval() -> None:
    p = np.r_[np.full(50, 0.3), np.linspace(0.1, 0.9, 10)]
    y = np.r_[np.arange(50) % 3 == 0, np.arange(10) % 2].astype(int)
    measure = _measure(p, y, "calibration-slope", clusters=np.r_[np.arange(50), np.full(10, 99)])
    assert measure.interval is None
    assert "a cluster determines the value alone" in measure.problem


# --- Vectors, groups, maps and diagrams


@pytest.mark.parametrize("reduction", ["confidence", "classwise", "canonical", "pooled", "class:1"])
def test_intervals_of_vectors_are_those_of_clusters(reduction: str) -> None:
    random = np.random.default_rng(4)
    p = random.dirichlet([1.0, 1.0, 1.0], 150)
    y = np.array([random.choice(3, p=row) for row in p])
    rows = np.tile(np.arange(150), 3)
    names = ["brier", "log-loss"] if reduction == "canonical" else ["brier", "ece", "ks"]
    options: dict[str, Any] = {"measures": names, "reduction": reduction, "interval": 0.95, "resamples": 400}
    alone = _evaluated(p, y, **options)
    repeated = _evaluated(p[rows], y[rows], clusters=rows, **options)
    for name in names:
        widths = [measures[name].interval[1] - measures[name].interval[0] for measures in (alone, repeated)]
        assert 0.8 < widths[1] / widths[0] < 1.25
        assert repeated[name].p_value is None
        assert repeated[name].parts.get("classes_p_value") is None
        assert repeated[name].parts.get("classes_debiased") is None


def test_gaps_between_groups_have_intervals_but_no_p_value() -> None:
    (p, y), clusters = _drawn(600), _clusters(600)
    groups = np.where(np.arange(600) % 2, "odd", "even")
    report = _evaluated(p, y, groups=groups, clusters=clusters, measures=["brier", "ece"], interval=0.95)
    for gap in report.gaps.values():
        assert gap.p_value is None
        assert "no p-value" in gap.problem
        assert gap.interval[0] <= gap.value <= gap.interval[1]


def test_groups_that_share_clusters_are_not_pooled() -> None:
    (p, y), clusters = _drawn(600), np.arange(600) // 6
    options: dict[str, Any] = {"measures": ["oe-ratio"], "interval": 0.95, "clusters": clusters}
    apart = _evaluated(p, y, groups=clusters % 2, **options).pooled["oe-ratio"]
    assert apart.value is not None
    shared = _evaluated(p, y, groups=np.arange(600) % 2, **options).pooled["oe-ratio"]
    assert shared.value is None
    assert "the same cluster" in shared.problem


def test_improvements_by_a_map_have_intervals_of_clusters() -> None:
    (p, y), (q, z) = _drawn(), _drawn(300, 7)
    fitted = calibrant.fit("platt", q, z)
    rows = np.tile(np.arange(300), 4)
    alone = _evaluated(p, y, map=fitted, measures=["brier"], interval=0.95)
    repeated = _evaluated(p[rows], y[rows], map=fitted, measures=["brier"], interval=0.95, clusters=rows)
    ends = [report.improvement["brier"].interval for report in (alone, repeated)]
    assert ends[1][1] - ends[1][0] == pytest.approx(ends[0][1] - ends[0][0], rel=0.15)
    before, after = (report["brier"].value for report in (alone, repeated))
    assert after == pytest.approx(before)


def test_pairs_of_maps_are_compared_by_clusters() -> None:
    (p, y), (q, z) = _drawn(), _drawn(300, 7)
    maps = {name: calibrant.fit(name, q, z) for name in ("platt", "temperature")}
    rows = np.tile(np.arange(300), 4)
    from calibrant.comparison import Comparison, read_contestants
    from calibrant.core.inputs import read_rows
    from calibrant.evaluation import Evaluation
    from calibrant.measures.catalogue import read_requests
    from calibrant.measures.intervals import Resampling

    evaluation = Evaluation(read_requests(["brier"]), resampling=Resampling(0.95))
    comparison = Comparison(evaluation, read_contestants(maps, {}))
    widths = []
    for chosen, clusters in ((np.arange(300), None), (rows, rows)):
        batch = read_rows(p[chosen], y[chosen], clusters=clusters).batch
        pair = comparison.run(comparison.check(batch)).measures["brier"].pairs[0]
        assert pair.interval is not None
        widths.append(pair.interval[1] - pair.interval[0])
    assert widths[1] == pytest.approx(widths[0], rel=0.15)


@pytest.mark.parametrize("name", ["reliability", "corp", "logit-logit", "fit-on-test"])
def test_diagrams_of_clusters_have_no_band(name: str) -> None:
    (p, y), clusters = _drawn(), _clusters()
    drawn = _evaluated(p, y, measures=["brier"], diagrams=[name], clusters=clusters)
    shown = drawn.diagrams[name]
    assert shown["problem"] == "no intervals: rows of a cluster are dependent"
    assert shown["data"].get("low", shown["data"].get("band_low")) is None
    assert drawn.plot(name) is not None


def test_measures_of_subsets_refuse_clusters() -> None:
    from calibrant.by_size import BySize
    from calibrant.core.inputs import read_rows
    from calibrant.measures.catalogue import read_requests

    p, y = _drawn()
    with pytest.raises(CalibrationError, match="split clusters"):
        BySize(read_requests(["ece"])).check(read_rows(p, y, clusters=_clusters()).batch)


def test_folds_of_measures_keep_clusters_whole() -> None:
    p, y = _drawn(60)
    rows = np.repeat(np.arange(60), 10)
    options: dict[str, Any] = {"measures": [{"name": "recalibration-improvement", "method": "isotonic", "as": "m"}]}
    leaking = _evaluated(p[rows], y[rows], **options)["m"].value
    honest = _evaluated(p[rows], y[rows], clusters=rows, **options)["m"].value
    assert honest < leaking - 0.02
    few = _evaluated(p, y, clusters=np.arange(60) % 3, **options)["m"]
    assert few.value is None
    assert "3 clusters, but 10 folds" in few.problem


def test_a_report_names_the_number_of_clusters() -> None:
    p, y = _drawn()
    report = _evaluated(p, y, measures=["brier"], clusters=_clusters())
    count = len(np.unique(_clusters()))
    assert report.clusters == count == report.to_dict()["clusters"]
    assert f"clusters: {count}, whose rows may depend on each other" in repr(report)
    page = calibrant.report(p, y, clusters=_clusters())
    assert page.document["clusters"] == count
    assert "clusters=clusters" in page.html


@pytest.mark.parametrize("variance", ["hc3", "CR2", 2, None, ["cr2"]])
def test_an_unknown_variance_is_refused(variance: Any) -> None:
    p, y = _drawn()
    with refused_at("/cluster_variance", CalibrationError, match="must be one of: cr2, cr1, cr0"):
        _evaluated(p, y, clusters=_clusters(), cluster_variance=variance)


# --- Binned errors


def test_the_noise_of_one_bin_has_the_variance_and_the_freedom_of_a_mean() -> None:
    (p, y), clusters = _drawn(), _clusters()
    event = reduce(read_rows(p, y, clusters=clusters).batch, "binary").in_order()
    distance_of, off = MEASURES["ece"].distance, event.y - event.p
    assert distance_of is not None
    distance = distance_of(event, PLAIN, binning="equal-mass", n_bins=1, closed="left", norm=1)
    assert distance.freedom is not None
    assert event.clusters is not None
    variance, freedom = _cr2(np.ones((300, 1)), np.ones(300), off - off.mean(), event.clusters.astype(np.float64), 0)
    assert distance.freedom() == pytest.approx(freedom, rel=1e-9)
    group, count = np.unique(event.clusters, return_inverse=True)[1], len(np.unique(event.clusters))
    assert np.linalg.norm(distance.noise(group, count)) == pytest.approx(variance**0.5, rel=2e-2)


def test_gaps_of_one_sign_have_the_interval_of_their_mean() -> None:
    (p, y), clusters = _drawn(1200), _clusters(1200)
    low = p / 4.0
    options: dict[str, Any] = {"measures": [{"name": "ece", "n_bins": 5}], "interval": 0.95}
    measure = calibrant.evaluate(low, y, clusters=clusters, **options)["ece"]
    mean = _measure(low, y, "ks-end", clusters=clusters)
    assert measure.value == pytest.approx(abs(mean.value), rel=1e-9)
    assert measure.interval == pytest.approx(np.sort(np.abs(mean.interval)), abs=0.25 * np.ptp(mean.interval))


def test_bins_of_single_clusters_have_no_interval() -> None:
    p = np.repeat([0.1, 0.3, 0.5, 0.7], 25)
    measure = _measure(p, np.arange(100) % 3 == 0, "ece", clusters=np.repeat(list("abcd"), 25))
    assert measure.interval is None
    assert "bins have rows of a single cluster" in measure.problem
