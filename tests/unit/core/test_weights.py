"""What the two kinds of weights mean, in every call that has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import calibrant
from benchmarks.weights import CANONICAL, EVENTS, WeightedCase, WeightsColumn, jobs, names_of, of_setting
from calibrant.core.batch import Fractional, read_batch
from calibrant.core.errors import InvalidOption, InvalidWeight
from calibrant.distributions.evaluation import read_rows
from calibrant.distributions.forecasts import ForecastRows, read_forecasts
from tests.refusals import refused_at

RANDOM = np.random.default_rng(0)
N = 120
P = RANDOM.random(N)
Y = (RANDOM.random(N) < P).astype(int)
OBSERVED, MEAN, STD = P + RANDOM.normal(size=N), P, np.ones(N)
WEIGHTS, COUNTS = RANDOM.lognormal(size=N), RANDOM.integers(0, 4, N)

#: Calls with weights of one event, by name.
OF_EVENTS: dict[str, Callable[..., Any]] = {
    "evaluate": lambda p, y, **w: calibrant.evaluate(
        p, y, measures=["ece", "ks", "brier", "auroc", "smooth-test"], interval=0.9, resamples=100, **w
    ),
    "compare": lambda p, y, **w: (
        calibrant.compare(
            p, y, {"half": calibrant.fit("isotonic", P, Y)}, measures=["brier"], resamples=100, **w
        ).report
    ),
    "fit": lambda p, y, **w: calibrant.fit("platt", p, y, **w),
}
#: Calls with weights of forecasts.
OF_FORECASTS: dict[str, Callable[..., Any]] = {
    "evaluate_distribution": lambda y, mean, std, **w: calibrant.evaluate_distribution(
        y, mean=mean, std=std, measures=["crps", "coverage", "quantile-calibration-error"], interval=0.9, **w
    ),
    "fit_distribution": lambda y, mean, std, **w: calibrant.fit_distribution(
        "location-scale", y, mean=mean, std=std, **w
    ),
    "compare_distributions": lambda y, mean, std, **w: calibrant.compare_distributions(
        y, {"one": {"mean": mean, "std": std}, "two": {"mean": mean + 0.1, "std": std}}, **w
    ),
}
CALLS = [(call, (P, Y)) for call in OF_EVENTS.values()] + [
    (call, (OBSERVED, MEAN, STD)) for call in OF_FORECASTS.values()
]
NAMES = [*OF_EVENTS, *OF_FORECASTS]


def _numbers(answer: Any) -> list[float]:
    """Values, intervals and p-values of a report, or the parameters and diagnostics of a map."""
    if isinstance(answer, calibrant.Report | calibrant.DistributionReport):
        parts = [(m.value, m.debiased, *(m.interval or ()), m.p_value) for m in answer.measures.values()]
        return [number for numbers in parts for number in numbers if number is not None]
    if isinstance(answer, calibrant.CalibrationMap):
        return [float(probability) for probability in answer.apply(P)]
    if isinstance(answer, calibrant.DistributionMap):
        after = answer.apply(mean=MEAN, std=STD)
        return [*after.mean.tolist(), *after.variance.tolist()]
    return [*answer.means.values(), *(end for pair in answer.pairs for end in pair.interval)]


@pytest.mark.parametrize(("call", "rows"), CALLS, ids=NAMES)
def test_only_ratios_of_weights_matter_by_default_for_any_values(call: Any, rows: Any) -> None:
    for weights in (WEIGHTS, COUNTS):
        plain = _numbers(call(*rows, weights=weights))
        assert _numbers(call(*rows, weights=3.0 * weights)) == pytest.approx(plain, rel=1e-9, abs=1e-12)
        assert _numbers(call(*rows, weights=weights, weights_kind="importance")) == plain


@pytest.mark.parametrize(("call", "rows"), CALLS, ids=NAMES)
def test_equal_weights_are_no_weights(call: Any, rows: Any) -> None:
    weighted = call(*rows, weights=np.full(N, 0.3))
    assert _numbers(weighted) == pytest.approx(_numbers(call(*rows)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("call", "rows"), CALLS, ids=NAMES)
def test_a_frequency_weight_is_the_row_repeated(call: Any, rows: Any) -> None:
    weighted = call(*rows, weights=COUNTS, weights_kind="frequency")
    repeated = call(*(np.repeat(column, COUNTS) for column in rows))
    numbers = [_numbers(answer) for answer in (weighted, repeated)]
    if call is OF_EVENTS["evaluate"] or call is OF_EVENTS["compare"]:  # resamples are drawn for other rows
        numbers = [[m.value for m in answer.measures.values()] for answer in (weighted, repeated)]
        assert [m.p_value for m in weighted.measures.values() if m.p_value is not None] == pytest.approx(
            [m.p_value for m in repeated.measures.values() if m.p_value is not None], rel=1e-6
        )
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("call", "rows"), CALLS, ids=NAMES)
def test_frequencies_that_are_no_whole_numbers_are_refused_with_their_first_rows(call: Any, rows: Any) -> None:
    counts = COUNTS.astype(float)
    counts[[3, 7]] = 0.5, 1.25
    with pytest.raises(InvalidWeight) as raised:
        call(*rows, weights=counts, weights_kind="frequency")
    assert [offence.pointer for offence in raised.value.offences] == ["/weights/3", "/weights/7"]
    assert "1.25" not in str(raised.value)


@pytest.mark.parametrize(("call", "rows"), CALLS, ids=NAMES)
def test_an_unknown_kind_is_refused(call: Any, rows: Any) -> None:
    with refused_at("/weights_kind", InvalidOption):
        call(*rows, weights=COUNTS, weights_kind="counts")


@pytest.mark.parametrize("kind", ["importance", "frequency"])
def test_results_name_the_kind(kind: Any) -> None:
    options: dict[str, Any] = {"weights": COUNTS, "weights_kind": kind}
    report = calibrant.evaluate(P, Y, measures=["brier"], **options)
    assert report.weights_kind == report.to_dict()["weights_kind"] == kind
    assert f"weights: {kind}" in repr(report)
    forecasts = calibrant.evaluate_distribution(OBSERVED, mean=MEAN, std=STD, measures=["crps"], **options)
    assert forecasts.weights_kind == forecasts.to_dict()["weights_kind"] == kind
    assert f"weights: {kind}" in repr(forecasts)
    assert calibrant.fit("beta", P, Y, **options).diagnostics["fit"]["weights_kind"] == kind
    fitted = calibrant.fit_distribution("location-scale", OBSERVED, mean=MEAN, std=STD, **options)
    assert fitted.diagnostics["fit"]["weights_kind"] == kind


def test_results_without_weights_name_no_kind() -> None:
    assert calibrant.evaluate(P, Y).weights_kind is None
    assert "weights_kind" not in calibrant.fit("beta", P, Y).diagnostics["fit"]


def test_groups_of_forecasts_have_their_own_effective_numbers_of_rows() -> None:
    weights = np.where(np.arange(N) % 2 == 0, 1000.0, 1.0)
    groups = np.where(np.arange(N) % 2 == 0, "a", "b")
    options: dict[str, Any] = {"mean": MEAN, "std": STD, "measures": ["crps"], "interval": 0.9}
    report = calibrant.evaluate_distribution(OBSERVED, weights=weights, groups=groups, **options)
    plain = calibrant.evaluate_distribution(OBSERVED, groups=groups, **options)
    assert report.groups is not None
    assert plain.groups is not None
    for name in ("a", "b"):  # whose weights are equal
        assert report.groups[name]["crps"].interval == pytest.approx(plain.groups[name]["crps"].interval)


def test_tallies_count_whole_numbers_of_rows() -> None:
    counted_rows = calibrant.tally(P, Y, weights=COUNTS)
    assert len(counted_rows) == COUNTS.sum()
    with refused_at("/weights/0", InvalidWeight):
        calibrant.tally(P, Y, weights=WEIGHTS)


# --- Size and coverage, for the worst cases of docs/benchmarks/weights.md

RUNS = 100
#: Fewer hits, or more rejections, than these have a probability below 1e-3 at 91 % and 8 %.
LEAST, MOST = int(binom.ppf(1e-3, RUNS, 0.91)), int(binom.ppf(1.0 - 1e-3, RUNS, 0.08))


CHECKED = frozenset(
    {"ks", "ks-end", "smooth-test", "brier", "log-loss", "auroc", "confidence-gap", "optimal-temperature", "ece"}
)


def assert_kept(job: WeightsColumn) -> None:
    """Assert the size and the coverage of every measure of a job."""
    for key, counts in job.counts([job.compute(range(RUNS))]).items():
        assert counts.covered >= LEAST or not counts.intervals, key
        assert counts.rejected <= MOST, key


@pytest.mark.slow
@pytest.mark.parametrize("setting", [EVENTS[1], EVENTS[3], CANONICAL], ids=str)
def test_importance_weights_keep_size_and_coverage(setting: WeightedCase) -> None:
    assert_kept(of_setting(setting, [name for name in names_of(setting) if name in CHECKED], RUNS, "checked"))


@pytest.mark.slow
@pytest.mark.parametrize("column", ["independent weights", "dependent weights"])
@pytest.mark.parametrize("title", ["Forecasts of a number", "Two models and two forecasts"])
def test_importance_weights_of_forecasts_and_comparisons_keep_size_and_coverage(title: str, column: str) -> None:
    assert_kept(next(job for job in jobs() if (job.title, job.column) == (title, column)))


_FORECASTS: dict[str, Any] = {"mean": [0.2, 0.7], "std": [1.0, 1.0]}


@pytest.mark.parametrize("weights", [[0.5, 1.0], None])
@pytest.mark.parametrize("kind", ["fractional", "frequencies"])
@pytest.mark.parametrize(
    "call",
    [
        lambda **options: calibrant.evaluate([0.2, 0.7], [0, 1], **options),
        lambda **options: calibrant.fit("platt", [0.2, 0.7], [0, 1], **options),
        lambda **options: calibrant.compare([0.2, 0.7], [0, 1], {"half": calibrant.fit("isotonic", P, Y)}, **options),
        lambda **options: calibrant.report([0.2, 0.7], [0, 1], **options),
        lambda **options: calibrant.measure_by_size([0.2, 0.7], [0, 1], **options),
        lambda **options: calibrant.cost_plane([0.2, 0.7], [0.3, 0.6], [0, 1], **options),
        lambda **options: calibrant.evaluate_distribution([0, 1], **_FORECASTS, **options),
        lambda **options: calibrant.fit_distribution("variance-scaling", [0, 1], **_FORECASTS, **options),
        lambda **options: calibrant.report_distribution([0, 1], **_FORECASTS, **options),
        lambda **options: calibrant.compare_distributions([0, 1], {"a": _FORECASTS, "b": _FORECASTS}, **options),
    ],
)
def test_the_kind_of_stored_fractional_frequencies_is_refused_from_callers(call: Any, kind: str, weights: Any) -> None:
    with pytest.raises(InvalidOption, match="weights_kind must be one of: importance, frequency"):
        call(weights=weights, weights_kind=kind)


def test_stored_fractional_frequencies_count_as_frequencies() -> None:
    w = [0.5, 1.5]
    assert read_batch([0.2, 0.7], [0, 1], w, kind=Fractional.STORED).weights_kind == "frequency"
    rows, _ = read_rows(ForecastRows(read_forecasts(**_FORECASTS), [0.0, 1.0], w, Fractional.STORED))
    assert (rows.weights_kind, None if rows.w is None else rows.w.tolist()) == ("frequency", w)
