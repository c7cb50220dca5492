from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibrant.core.binning import MAX_COMPRESSED, compressed
from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Classes, Event, Vector
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import Extent, MeasureResult
from calibrant.measures.proper import corp_decomposition
from calibrant.measures.simulated import MOST_CELLS, likely_truth, observed_frequencies, simulated_interval
from tests.known import known

SIMULATED: list[dict[str, Any]] = [{}, {"score": "log-loss"}, {"method": "binned", "score": "log-loss"}]
#: An end is where the observed value has a rank of probability .05 among the draws. With 40 draws, as with 100, that is
#: exact: the rank k has probability k / 41, and the test of the coverage below loses no power.
FEW = Resampling(0.9, 40, 3)


def _event(n: int, bend: float, seed: int = 0) -> Event:
    random = np.random.default_rng(seed)
    c = random.random(n)
    return Event((1.0 - bend) * c + bend * c**2, (random.random(n) < c).astype(np.int8))


def _of(options: dict[str, Any], subject: Event | Classes | Vector, resampling: Resampling = FEW) -> MeasureResult:
    return read_requests([{"name": "decomposition", **options}])[0].compute(subject, resampling)


def _ends(options: dict[str, Any], subject: Event, resampling: Resampling = FEW) -> tuple[float, float]:
    return known(_of(options, subject, resampling).interval)


@pytest.mark.slow
@pytest.mark.parametrize("options", SIMULATED, ids=["corp", "corp-log", "binned-log"])
@pytest.mark.parametrize("bend", [0.0, 0.6])
def test_intervals_hold_the_truth_about_as_often_as_they_say(options: dict[str, Any], bend: float) -> None:
    """20 batches: at a coverage of .9 fewer than 14 hits have probability .002."""
    event = _event(20_000, bend, 99)
    c = event.p if bend == 0.0 else (np.sqrt((1.0 - bend) ** 2 + 4.0 * bend * event.p) - 1.0 + bend) / (2.0 * bend)
    both = Event(np.tile(event.p, 2), np.repeat(np.array([0, 1], np.int8), 20_000), np.concatenate([1.0 - c, c]))
    truth = _of(options, both, PLAIN).value or 0.0
    ends = np.array([_ends(options, _event(500, bend, seed)) for seed in range(20)])
    hits = np.count_nonzero((ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1]))
    assert hits >= 14
    # Of 500 rows, those far from calibrated are almost always distinguished from calibrated ones.
    above = np.count_nonzero(ends[:, 0] > 0.0)
    assert above <= 6 if bend == 0.0 else above >= 18


@pytest.mark.slow
@pytest.mark.parametrize("options", SIMULATED, ids=["corp", "corp-log", "binned-log"])
@pytest.mark.parametrize("kind", ["plain", "frequency", "importance"])
def test_intervals_depend_on_the_seed_and_not_on_the_order_of_rows(options: dict[str, Any], kind: Any) -> None:
    random = np.random.default_rng(1)
    event = _event(900, 0.5)
    if kind != "plain":
        event = replace(event, w=random.exponential(size=900), kind=kind)
    measure = _of(options, event)
    ends = known(measure.interval)
    assert ends[0] <= known(measure.value) <= ends[1]
    assert _ends(options, event, replace(FEW, seed=4)) != ends
    assert _ends(options, event.rows(random.permutation(900))) == ends


@pytest.mark.slow
@pytest.mark.parametrize("options", SIMULATED, ids=["corp", "corp-log", "binned-log"])
def test_frequencies_are_rows_and_importances_are_ratios(options: dict[str, Any]) -> None:
    event = _event(300, 0.5)
    w = np.random.default_rng(2).integers(0, 4, 300).astype(np.float64)
    twice = event.rows(np.repeat(np.arange(300), w.astype(np.int64)))
    assert _ends(options, replace(event, w=w)) == pytest.approx(_ends(options, twice), rel=1e-9, abs=1e-12)
    weighted = replace(event, w=w, kind="importance")
    scaled = replace(weighted, w=4.0 * w)
    assert _ends(options, scaled) == pytest.approx(_ends(options, weighted), rel=1e-9, abs=1e-12)
    even = replace(event, w=np.full(300, 8.0), kind="importance")
    assert _ends(options, even) == pytest.approx(_ends(options, event), rel=1e-9, abs=1e-12)


@pytest.mark.slow
def test_more_rows_and_lower_levels_make_narrower_intervals() -> None:
    def width(n: int, level: float) -> float:
        low, high = _ends({}, _event(n, 0.6), Resampling(level, 100))
        return high - low

    assert width(200, 0.9) > 1.5 * width(5000, 0.9)
    assert width(5000, 0.95) > width(5000, 0.5)


def test_the_value_of_predictions_far_off_is_between_its_ends() -> None:
    p, y = np.repeat([0.2, 0.6], 500), np.tile([0, 0, 1, 1, 1], 200)
    low, high = _ends({}, Event(p, y.astype(np.int8)))
    estimate = _of({}, Event(p, y.astype(np.int8))).value or 0.0
    assert 0.02 < low < estimate < high < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("options", SIMULATED, ids=["corp", "corp-log", "binned-log"])
@pytest.mark.parametrize(
    ("p", "y"),
    [([0.5] * 6, [1] * 6), ([0.0, 1.0, 1.0, 0.0], [0, 1, 0, 0]), ([0.2], [1])],
)
def test_small_and_certain_batches_have_finite_intervals(options: dict[str, Any], p: list[float], y: list[int]) -> None:
    event = Event(np.array(p), np.array(y, np.int8))
    low, high = _ends(options, event)
    assert 0.0 <= low <= (_of(options, event).value or 0.0) <= high < np.inf


@pytest.mark.parametrize("options", SIMULATED, ids=["corp", "corp-log", "binned-log"])
def test_dependent_rows_have_no_interval(options: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    vector = Vector(random.dirichlet(np.ones(3), 60), random.integers(0, 3, 60))
    pooled = Event(vector.p.ravel(), np.tile(np.array([1, 0, 0], np.int8), 60), per_row=3)
    for subject in (pooled, Classes(vector)):
        measure = _of(options, subject)
        assert measure.value is not None
        assert measure.interval is None
        assert (measure.problem or "").startswith("no interval: defined only for one event per row")


def test_too_many_bins_have_no_interval() -> None:
    event = _event(MOST_CELLS + 1, 0.3)
    measure = _of({"method": "binned", "score": "log-loss", "n_bins": MOST_CELLS + 1}, event)
    assert measure.value is not None
    assert measure.interval is None
    assert "at most 10,000 bins" in (measure.problem or "")
    with pytest.raises(InvalidOption):
        simulated_interval(0.0, event.cells, event.cells.p, lambda _: 0.0, FEW)


def test_the_estimated_time_includes_the_simulated_interval() -> None:
    corp, binned = read_requests([{"name": "decomposition"}, {"name": "decomposition", "method": "binned", "as": "b"}])
    many = read_requests([{"name": "decomposition", "method": "binned", "score": "log-loss", "n_bins": 10_000}])[0]
    for options, low, high in ((corp, 1.0, 2.0), (binned, 0.0, 0.3), (many, 2.0, 20.0)):
        plain, with_interval = (options.seconds(Extent(10_000), r) for r in (PLAIN, Resampling(0.9)))
        assert plain < 0.3
        assert low <= with_interval <= high
    assert corp.seconds(Extent(10_000, 1, 3), Resampling(0.9)) < 0.1


def test_compressed_cells_keep_all_sums() -> None:
    random = np.random.default_rng(5)
    p, w = random.beta(0.3, 2.0, 20_000), random.exponential(size=20_000)
    cells = Event(p, (random.random(20_000) < p).astype(np.int8), w).cells
    few = compressed(cells)
    assert 700 < len(few) <= MAX_COMPRESSED
    assert compressed(few) is few
    for name in ("rows", "w", "w2", "wy", "w2y"):
        assert getattr(few, name).sum() == pytest.approx(getattr(cells, name).sum())
    assert few.w @ few.p == pytest.approx(cells.w @ cells.p)
    assert np.all(np.diff(few.p) > 0)


@pytest.mark.parametrize("kind", ["frequency", "importance"])
def test_simulated_shares_vary_as_their_effective_rows(kind: Any) -> None:
    w, w2 = np.array([1.0, 2.5, 40.0]), np.array([1.0, 2.5, 100.0])
    cells = Cells(np.array([0.3, 0.5, 0.9]), np.array([1.0, 2.0, 30.0]), w, w2, w * 0, w * 0, kind)
    rows = w if kind == "frequency" else w**2 / w2
    c = np.array([0.2, 0.5, 0.7])
    shares = observed_frequencies(cells, c, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(shares.mean(axis=0), c, atol=0.02)
    np.testing.assert_allclose(shares.var(axis=0), c * (1.0 - c) / rows, rtol=0.05)


def test_the_likely_truth_is_near_the_truth_and_ends_have_no_noise() -> None:
    event = _event(20_000, 0.6)
    cells = compressed(event.cells)
    truth = likely_truth(event.cells, cells.p)
    c = (np.sqrt(0.16 + 2.4 * cells.p) - 0.4) / 1.2
    assert np.abs(truth - c).mean() < 0.01

    def again(drawn: Cells) -> float:
        return corp_decomposition(drawn, "brier").miscalibration

    sizes = [again(replace(cells, wy=cells.w * (cells.p + s * (truth - cells.p)))) for s in (0.0, 0.5, 1.0)]
    assert sizes[0] == pytest.approx(0.0, abs=1e-12)
    off: Floats = truth - cells.p
    assert sizes[1:] == pytest.approx([s * s * float(cells.w @ off**2) / cells.mass for s in (0.5, 1.0)], rel=0.02)
    low, high = simulated_interval(again(cells), cells, truth, again, FEW)
    assert low < sizes[2] < high
