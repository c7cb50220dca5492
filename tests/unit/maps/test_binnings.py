from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import calibrant
from calibrant.calibrators import FitContext, Fitting
from calibrant.core.batch import Fractional, read_batch
from calibrant.core.binning import Binning
from calibrant.core.density import densities_of_cells, nearest
from calibrant.core.errors import InvalidDocument, NotConverged, OneClass, OnePrediction, TooFewRows
from calibrant.core.reductions import Event
from calibrant.maps.kde import fit_kde
from calibrant.maps.platt import fit_platt
from calibrant.maps.steps import (
    Roofs,
    Slope,
    Steps,
    fit_bbq,
    fit_cross_validated,
    fit_histogram,
    fit_scaling_binning,
    fit_sweep,
)
from tests.refusals import refused_at
from tests.rows import draw_event
from tests.unit.maps.drawn import assert_refused

Array = npt.NDArray[np.float64]
GRID = np.linspace(0, 1, 1001)
NAMES = ("histogram", "es-sweep", "ew-sweep", "es-cv", "ew-cv", "bbq", "scaling-binning", "kde")
#: Every method, and its variants that differ in more than a number.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    *((name, {"slope": "flat"}) for name in ("es-sweep", "ew-sweep", "es-cv", "ew-cv")),
    ("histogram", {"binning": "equal-width"}),
    ("histogram", {"binning": "equal-width", "slope": "unit", "n_bins": 60}),
    ("scaling-binning", {"n_bins": 10, "target_smoothing": False}),
]


@pytest.fixture(scope="module")
def binnings() -> dict[str, Any]:
    path = Path(__file__).parents[2] / "golden" / "binnings.json"
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def _drawn(n: int = 400, seed: int = 0, power: float = 1.5) -> tuple[Array, npt.NDArray[np.int64]]:
    return draw_event(n, seed, power)


def _event(p: Any, y: Any, w: Any = None, kind: Any = "frequency") -> Event:
    return Event(np.asarray(p, dtype=np.float64), np.asarray(y).astype(np.int8), w, kind)


@pytest.mark.parametrize(("short", "binning"), [("ES", "equal-mass"), ("EW", "equal-width")])
@pytest.mark.parametrize("n_bins", [5, 40])
def test_roofs_are_those_of_the_published_code(
    binnings: dict[str, Any], golden_event: Event, short: str, binning: Binning, n_bins: int
) -> None:
    calibrated = fit_histogram(golden_event.cells, binning, n_bins, "unit")(GRID)
    off = np.abs(calibrated - np.array(binnings["roofs"][short][str(n_bins)])) > 1e-12
    # The published p // (1 / b) puts doubles that lie on a border into the bin below.
    on_border = np.abs(GRID * n_bins - np.round(GRID * n_bins)) < 1e-9
    assert not np.any(off & ~on_border)
    assert binning == "equal-width" or not off.any()


def test_shares_of_bins_are_those_of_verified_calibration(binnings: dict[str, Any], golden_event: Event) -> None:
    """Its borders lie half-way between predictions: no prediction of the fit is beyond them."""
    curve, theirs = fit_histogram(golden_event.cells, "equal-mass", 10, "flat"), np.array(binnings["histogram10"])
    assert isinstance(curve, Steps)
    starts, p = curve.starts[1:], golden_event.cells.p
    in_gap = (p[np.searchsorted(p, starts) - 1][:, None] < GRID) & (starts[:, None] > GRID)
    np.testing.assert_allclose(curve(GRID)[~in_gap.any(axis=0)], theirs[~in_gap.any(axis=0)], atol=1e-12)


def test_scaling_binning_is_that_of_verified_calibration(binnings: dict[str, Any], golden_event: Event) -> None:
    """Its logistic regression stops 2.4e-5 from the optimum."""
    calibrated = fit_scaling_binning(golden_event.cells, n_bins=10, target_smoothing=False)(GRID)
    np.testing.assert_allclose(calibrated, binnings["platt_binner10"], atol=3e-5)


def test_the_numbers_of_bins_are_those_of_the_published_code(golden: dict[str, Any], golden_event: Event) -> None:
    assert fit_sweep(golden_event, "equal-mass", "unit")[1] == golden["sweep_bins"]
    assert fit_cross_validated(golden_event, "equal-mass", "unit")[1] == golden["ES_CV"]["chosen"]
    assert fit_cross_validated(golden_event, "equal-width", "unit")[1] == golden["EW_CV"]["chosen"]


def test_the_share_by_densities_is_that_of_the_published_code(binnings: dict[str, Any], golden_event: Event) -> None:
    """It is fitted to the complements there, and takes the nearest grid point."""
    cells = _event(1.0 - golden_event.p, 1 - golden_event.y).cells
    q = 1.0 - golden_event.p[:20]
    densities = densities_of_cells(cells)
    np.testing.assert_allclose(1.0 - densities.share[nearest(q, densities.x)], binnings["kde_first20"], atol=1e-12)
    np.testing.assert_allclose(1.0 - fit_kde(cells)[0](q), binnings["kde_first20"], atol=3e-6)


def _naive_bins(p: Array, y: Array, w: Array, edges: list[float]) -> list[tuple[float, float] | None]:
    """Share of positives and mean prediction of the rows from each edge up to the next, the last one up to 1."""
    bins: list[tuple[float, float] | None] = []
    for a, b in zip(edges, [*edges[1:], 2.0], strict=True):
        inside = [(pi, yi, wi) for pi, yi, wi in zip(p, y, w, strict=True) if a <= pi < b]
        mass = sum(wi for _, _, wi in inside)
        pairs = (sum(wi * yi for _, yi, wi in inside), sum(wi * pi for pi, _, wi in inside))
        bins.append((pairs[0] / mass, pairs[1] / mass) if inside else None)
    return bins


@pytest.mark.parametrize("kind", ["frequency", "importance"])
@pytest.mark.parametrize("slope", ["flat", "unit"])
def test_equal_width_bins_hold_the_weighted_means_of_their_rows(kind: Any, slope: Slope) -> None:
    random = np.random.default_rng(1)
    p = random.choice([0.0, 1.0, 0.31, 0.06, 0.7, 0.62], 200)
    y, w = (random.random(200) < 0.1 + 0.7 * p).astype(float), random.random(200) + 0.1
    n_bins, queries = 20, (np.arange(20) + 0.5) / 20
    means = _naive_bins(p, y, w, [i / n_bins for i in range(n_bins)])
    full = [k for k, mean in enumerate(means) if mean]
    expected = []
    for k, (x, mean) in enumerate(zip(queries, means, strict=True)):
        closest = means[min(full, key=lambda i: abs(i - k))]  # of two as near the lower comes first
        assert closest
        if slope == "flat":
            expected.append(closest[0])
        else:
            expected.append(x + mean[0] - mean[1] if mean else x)
    calibrated = fit_histogram(_event(p, y, w, kind).cells, "equal-width", n_bins, slope)(queries)
    np.testing.assert_allclose(calibrated, expected, atol=1e-12)


@pytest.mark.parametrize(("border", "n_bins"), [(0.29, 100), (0.3, 10), (0.57, 100), (0.58, 100)])
def test_equal_width_bins_are_closed_on_the_left(border: float, n_bins: int) -> None:
    """Neither floor(p b) nor p // (1 / b) has these doubles in the bin that they begin."""
    below, inside = np.nextafter(border, 0.0), border + 0.5 / n_bins
    curve = fit_histogram(_event([below, inside], [0, 1]).cells, "equal-width", n_bins, "flat")
    assert curve(np.array([0.0, below, border, 1.0])).tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("slope", ["flat", "unit"])
def test_equal_mass_bins_begin_at_predictions_and_keep_ties_together(slope: Slope) -> None:
    p = np.array([0.1, 0.1, 0.1, 0.2, 0.6, 0.6, 0.7, 0.9])
    y = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    curve = fit_histogram(_event(p, y).cells, "equal-mass", 4, slope)  # cuts after 2, 4, 6 rows; the first moves to 3
    assert isinstance(curve, Steps if slope == "flat" else Roofs)
    share, mean = np.array([1 / 3, 0.0, 1.0, 0.5]), np.array([0.1, 0.2, 0.6, 0.8])
    queries, place = np.array([0.0, 0.1, 0.19, 0.2, 0.59, 0.6, 0.7, 1.0]), np.array([0, 0, 0, 1, 1, 2, 3, 3])
    expected = share[place] if slope == "flat" else queries + (share - mean)[place]
    np.testing.assert_allclose(curve(queries), expected, atol=1e-15)


def test_a_flat_sweep_never_falls_and_the_next_number_of_bins_does() -> None:
    for seed in range(5):
        event = _event(*_drawn(600, seed))
        curve, count = fit_sweep(event, "equal-mass", "flat")
        assert np.all(np.diff(curve(GRID)) >= 0)
        assert np.any(np.diff(fit_histogram(event.cells, "equal-mass", count + 1, "flat")(GRID)) < 0)


def test_separable_data_become_two_steps() -> None:
    p, _ = _drawn(3000)
    curve, count = fit_sweep(_event(p, p > 0.4), "equal-mass", "flat")
    assert count == 3000
    assert isinstance(curve, Steps)
    assert curve.heights.tolist() == [0.0, 1.0]


def test_unit_slopes_leave_the_unit_interval_and_apply_clips_them() -> None:
    p = np.linspace(0, 1, 200)
    fitted = calibrant.fit("histogram", p, (p > 0.3).astype(int), slope="unit", n_bins=2)
    assert fitted.apply([0.49, 1.0], clip=False).max() > 1.0
    assert fitted.apply([0.49, 1.0]).max() == 1.0


def _naive_bbq(p: Array, y: npt.NDArray[np.int64], counts: range) -> Array:
    """Marginal likelihoods as products over bins, averaged point by point. Predictions are distinct and sorted."""
    n, evidence, curves = len(p), [], []
    for count in counts:
        sizes = [n // count + (k < n % count) for k in range(count)]
        cuts = np.cumsum(sizes)
        edges = [0.0, *((p[c - 1] + p[c]) / 2 for c in cuts[:-1]), 1.0]
        rows, total, curve = 2.0 / count, 0.0, np.zeros(len(GRID))
        for k, (stop, size) in enumerate(zip(cuts, sizes, strict=True)):
            ones = float(y[stop - size : stop].sum())
            middle = (edges[k] + edges[k + 1]) / 2
            a, b = rows * middle, rows * (1 - middle)
            total += math.lgamma(rows) - math.lgamma(size + rows)
            total += math.lgamma(ones + a) - math.lgamma(a) + math.lgamma(size - ones + b) - math.lgamma(b)
            inside = (edges[k] <= GRID) & ((edges[k + 1] > GRID) | (k == count - 1))
            curve[inside] = (ones + a) / (size + rows)
        evidence.append(total)
        curves.append(curve)
    weights = np.exp(np.array(evidence) - max(evidence))
    mean: Array = weights @ np.array(curves) / weights.sum()
    return mean


@pytest.mark.parametrize(("n", "counts"), [(30, range(1, 7)), (500, range(1, 81)), (1000, range(1, 101))])
def test_bbq_is_the_average_weighed_by_marginal_likelihoods(n: int, counts: range) -> None:
    p, y = _drawn(n, n)
    order = np.argsort(p)
    curve, details = fit_bbq(_event(p, y).cells)
    np.testing.assert_allclose(curve(GRID), _naive_bbq(p[order], y[order], counts), atol=1e-8)
    assert 1 <= details["models"] <= len(counts)
    assert details["bins"] in counts


def test_bbq_counts_a_binning_once_that_ties_make_the_same() -> None:
    """Two predictions allow two binnings, whatever the number of bins."""
    p, y = np.repeat([0.2, 0.6], 100), np.tile([0, 0, 1, 1, 1], 40)
    curve, details = fit_bbq(_event(p, y).cells)
    evidence, heights = [], []
    for edges in ([0.0, 1.0], [0.0, 0.4, 1.0]):
        bins, total = len(edges) - 1, 0.0
        for a, b in pairwise(edges):
            alpha, beta = 2 / bins * (a + b) / 2, 2 / bins * (1 - (a + b) / 2)
            ones, zeros = 120 / bins, 80 / bins
            total += math.lgamma(alpha + beta) - math.lgamma(alpha + beta + ones + zeros)
            total += math.lgamma(alpha + ones) - math.lgamma(alpha) + math.lgamma(beta + zeros) - math.lgamma(beta)
            if a <= 0.2 < b:
                heights.append((alpha + ones) / (alpha + beta + ones + zeros))
        evidence.append(total)
    weights = np.exp(np.array(evidence) - max(evidence))
    assert details["models"] == 2
    assert curve(np.array([0.2]))[0] == pytest.approx(weights @ heights / weights.sum(), abs=1e-10)


def test_bbq_copes_with_certain_and_constant_predictions() -> None:
    y = np.arange(200) % 3 == 0
    for p in (np.repeat([0.0, 1.0], 100), np.full(200, 1.0), np.full(200, 0.0), np.repeat([1.0 - 2**-53, 1.0], 100)):
        calibrated = fit_bbq(_event(p, y).cells)[0](GRID)
        assert np.all((calibrated >= 0) & (calibrated <= 1))
        assert calibrated[-1] == pytest.approx(1 / 3, abs=0.05)


def test_scaling_binning_is_the_mean_output_of_bins_of_equal_mass() -> None:
    p, y = _drawn(300, 4)
    cells = _event(p, y).cells
    outputs = np.sort(fit_platt(cells)(p))
    means = outputs.reshape(15, 20).mean(axis=1)
    curve = fit_scaling_binning(cells, n_bins=15)
    np.testing.assert_allclose(curve(np.sort(p)), np.repeat(means, 20), atol=1e-12)
    assert np.all(np.diff(curve(GRID)) >= 0)


@pytest.mark.parametrize("target_smoothing", [True, False])
def test_scaling_binning_works_where_the_curve_falls_or_is_flat(target_smoothing: bool) -> None:
    p, y = _drawn(300, 4)
    falling = _event(p, 1 - y).cells
    curve = fit_scaling_binning(falling, n_bins=10, target_smoothing=target_smoothing)
    assert curve.slope < 0
    assert np.all(np.diff(curve(GRID)) <= 0)
    assert len(np.unique(curve(GRID))) == 10
    means = np.sort(fit_platt(falling, target_smoothing=target_smoothing)(p)).reshape(10, 30).mean(axis=1)
    np.testing.assert_allclose(np.sort(curve(p)), np.repeat(means, 30), atol=1e-12)
    flat = fit_scaling_binning(_event(np.full(40, 0.3), np.arange(40) % 4 == 0).cells, n_bins=10)
    assert flat.starts.tolist() == [0.0]
    assert flat(GRID) == pytest.approx(0.25, abs=0.03)


def test_scaling_binning_of_separable_data_needs_target_smoothing() -> None:
    cells = _event(np.linspace(0.1, 0.9, 20), np.arange(20) >= 10).cells
    with pytest.raises(NotConverged):
        fit_scaling_binning(cells, n_bins=4, target_smoothing=False)
    calibrated = fit_scaling_binning(cells, n_bins=4)(GRID)
    assert calibrated[0] < 0.2 < 0.8 < calibrated[-1]


def test_scaling_binning_of_certain_predictions_keeps_ties_together() -> None:
    curve = fit_scaling_binning(_event(np.repeat([0.0, 0.4, 1.0], 20), np.arange(60) % 20 < 7).cells, n_bins=15)
    assert len(curve.heights) <= 3
    assert np.all(np.isfinite(curve(GRID)))


@pytest.mark.parametrize("n", [60, 1000, 20_000])
def test_fewer_knots_reproduce_the_whole_grid(n: int) -> None:
    random = np.random.default_rng(n)
    for p in (random.random(n), random.random(n) ** 12, np.clip(random.normal(0.5, 0.002, n), 0, 1)):
        y = random.random(n) < p
        cells = _event(p, y).cells
        curve, bandwidth = fit_kde(cells)
        densities = densities_of_cells(cells)
        assert bandwidth == densities.bandwidth
        np.testing.assert_allclose(curve(densities.x), densities.share, rtol=0, atol=1e-6)
        assert len(curve.knots) < len(densities.x)
        assert curve(np.array([0.0]))[0] == pytest.approx(densities.share[0], abs=1e-9)
        assert curve(np.array([1.0]))[0] == pytest.approx(densities.share[-1], abs=1e-9)


def test_positives_of_one_prediction_have_no_bandwidth() -> None:
    with refused_at("/predictions", OnePrediction):
        calibrant.fit("kde", [0.2, 0.4, 0.4, 0.1], [0, 1, 1, 0])


@pytest.mark.parametrize(("method", "options"), VARIANTS)
def test_one_class_is_refused(method: str, options: dict[str, Any]) -> None:
    for label in (0, 1):
        with refused_at("/labels", OneClass):
            calibrant.fit(method, np.linspace(0, 1, 30), np.full(30, label), **options)


@pytest.mark.parametrize("method", ["es-cv", "ew-cv"])
def test_ten_folds_need_ten_rows(method: str) -> None:
    with pytest.raises(TooFewRows):
        calibrant.fit(method, np.linspace(0, 1, 9), np.arange(9) % 2)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), VARIANTS)
def test_the_order_of_rows_does_not_matter(method: str, options: dict[str, Any]) -> None:
    random = np.random.default_rng(5)
    p, y = _drawn(100, 5)
    p, w, order = np.round(p, 2), random.random(100) + 0.1, random.permutation(100)
    for weights, kind in ((None, "frequency"), (np.ceil(3.0 * w), "frequency"), (w, "importance")):
        first = calibrant.fit(method, p, y, weights=weights, weights_kind=kind, **options)  # type: ignore[arg-type]
        other = calibrant.fit(
            method,
            p[order],
            y[order],
            weights=None if weights is None else weights[order],
            weights_kind=kind,  # type: ignore[arg-type]
            **options,
        )
        assert first.to_document() == other.to_document()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), VARIANTS)
def test_a_frequency_of_two_is_the_row_twice_and_importance_counts_by_its_ratios(
    method: str, options: dict[str, Any]
) -> None:
    random = np.random.default_rng(6)
    p, y = _drawn(100, 6)
    counts = random.integers(1, 4, 100)
    twice = calibrant.fit(method, np.repeat(p, counts), np.repeat(y, counts), **options)
    weighted = calibrant.fit(method, p, y, weights=counts, weights_kind="frequency", **options)
    np.testing.assert_allclose(weighted.apply(GRID), twice.apply(GRID), atol=2e-6 if method == "kde" else 1e-9)
    v = random.random(100) + 0.2
    near = 1e-6 if method == "kde" else 1e-9
    first, other = (
        calibrant.fit(method, p, y, weights=c * v, weights_kind="importance", **options).apply(GRID) for c in (1.0, 7.3)
    )
    np.testing.assert_allclose(first, other, atol=near)
    if (method, options) == ("scaling-binning", {}) or method in ("es-cv", "ew-cv"):
        return  # Platt's targets count the weights as they are; the copies of a frequency are in several folds
    effective = read_batch(p, y, v * v.sum() / (v @ v), kind=Fractional.STORED)
    counted = Fitting.read(method, options).run(effective, FitContext()).apply(GRID)
    np.testing.assert_allclose(first, counted, atol=near)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), VARIANTS)
def test_documents_round_trip_and_stay_probabilities(method: str, options: dict[str, Any]) -> None:
    random = np.random.default_rng(7)
    for p in (_drawn(400, 7)[0], np.round(random.random(400), 1), random.random(400).astype(np.float32)):
        y = (random.random(400) < p.astype(np.float64) ** 1.5).astype(int)
        fitted = calibrant.fit(method, p, y, **options)
        document = fitted.to_document()
        again = calibrant.load(json.loads(json.dumps(document)))
        assert again.to_document() == document
        probes = np.concatenate([GRID, [1e-300, 5e-324, 1 - 2**-53], p.astype(np.float64)])
        calibrated = fitted.apply(probes)
        np.testing.assert_array_equal(calibrated, again.apply(probes))
        assert np.all((calibrated >= 0) & (calibrated <= 1))


@pytest.mark.slow
@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("damage", [1.5, -1.5])
def test_numbers_outside_the_unit_interval_are_found_on_loading(method: str, damage: float) -> None:
    document = calibrant.fit(method, *_drawn(60, 8)).to_document()
    for field, parameters in document["parameters"].items():
        for i in (0, len(parameters) - 1) if isinstance(parameters, list) else ():
            damaged = document["parameters"] | {field: [*parameters[:i], damage, *parameters[i + 1 :]]}
            with refused_at(f"/parameters/{field}", InvalidDocument, below=True):
                calibrant.load(document | {"parameters": damaged})


@pytest.mark.parametrize("method", NAMES)
def test_borders_out_of_order_and_missing_numbers_are_found_on_loading(method: str) -> None:
    p, y = _drawn(2000, 9, 3.0)
    document = calibrant.fit(method, p, y).to_document()
    parameters = document["parameters"]
    first, second = ("knots", "shares") if method == "kde" else ("starts", [*parameters][-1])
    damages = [
        ({first: parameters[first][::-1]}, first),
        ({second: parameters[second][1:]}, second),
        ({second: []}, second),
    ]
    if method != "kde":
        damages.append(({first: [1e-9, *parameters[first][1:]]}, "starts/0"))
    assert_refused(document, damages)


@pytest.mark.slow
@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("reduction", ["classwise", "ranks", "top-label"])
def test_binnings_calibrate_many_classes(method: str, reduction: str) -> None:
    random = np.random.default_rng(10)
    z = 2.0 * random.standard_normal((500, 3))
    y = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    P = np.exp(2.0 * z)
    P /= P.sum(axis=1, keepdims=True)
    q = calibrant.fit(method, P, y, reduction=reduction).apply(P)
    assert q.min() >= 0.0
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    one_hot = np.eye(3)[y]
    assert np.mean((q - one_hot) ** 2) < np.mean((P - one_hot) ** 2)


def test_the_error_of_a_roof_is_that_of_its_bins(golden: dict[str, Any], golden_event: Event) -> None:
    report = calibrant.evaluate(golden_event.p, golden_event.y, measures=["ece-es-sweep"])
    expected = golden["ES"][str(golden["sweep_bins"])]["ECE1"]
    assert report.measures["ece-es-sweep"].value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("prefix", "binning"), [("es", "equal-mass"), ("ew", "equal-width")])
@pytest.mark.parametrize("chosen", ["sweep", "cv"])
def test_a_fitted_binning_has_the_error_of_the_binned_measure(prefix: str, binning: str, chosen: str) -> None:
    p, y = _drawn(800, 3)
    name = f"ece-{prefix}-{chosen}"
    counted = {"name": f"ece-{chosen}", "binning": binning}
    measures: list[Any] = [name, counted]
    report = calibrant.evaluate(p, y, measures=measures, seed=0)
    assert report[name].value == pytest.approx(report[f"ece-{chosen}"].value, abs=1e-12)
    fitted = calibrant.fit(f"{prefix}-{chosen}", p, y)
    assert fitted.diagnostics["bins"] == report[f"ece-{chosen}"].definition["n_bins"]


def test_a_flat_sweep_of_equal_widths_never_falls() -> None:
    for seed in range(5):
        curve, count = fit_sweep(_event(*_drawn(300, seed)), "equal-width", "flat")
        assert count > 1
        assert np.all(np.diff(curve(GRID)) >= 0)


@pytest.mark.parametrize(
    "options", [{"n_bins": 0}, {"n_bins": 2.0}, {"binning": "quantile"}, {"slope": 1}, {"slope": None}]
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(calibrant.CalibrationError) as caught:
        calibrant.fit("histogram", [0.1, 0.9], [0, 1], **options)
    assert caught.value.code == "invalid-option"
    assert caught.value.offences[0].pointer == f"/{next(iter(options))}"
