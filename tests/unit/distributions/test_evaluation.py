from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import norm

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.diagrams.forecasts import drawn, read_distribution_diagrams
from calibrant.distributions import pit
from calibrant.distributions.forecasts import read_forecasts
from calibrant.distributions.streams import calibration_evidence, diebold_mariano, exchangeability_evidence
from calibrant.measures.measure import MeasureResult
from tests.known import known

RANDOM = np.random.default_rng(0)
N = 600
MEAN, STD = RANDOM.normal(size=N), np.exp(0.3 * RANDOM.normal(size=N))
Y = MEAN + STD * RANDOM.normal(size=N)
LEVELS = np.array([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])
SAMPLES = MEAN[:, None] + STD[:, None] * RANDOM.normal(size=(N, 30))
QUANTILES = MEAN[:, None] + STD[:, None] * norm.ppf(LEVELS)
KINDS: dict[str, dict[str, Any]] = {
    "normal": {"mean": MEAN, "std": STD},
    "quantiles": {"quantiles": QUANTILES, "levels": LEVELS},
    "samples": {"samples": SAMPLES},
    "interval": {"lower": MEAN - 1.645 * STD, "upper": MEAN + 1.645 * STD, "level": 0.9},
}
ALL: list[Any] = [name for name in calibrant.DISTRIBUTION_MEASURES if name != "upper-bound"]
ALL.append({"name": "upper-bound", "least_variance": 0.1})
#: P-values of the tests, and their names.
TESTS = ("quantile-calibration-error", "pit-ks", "pit-kuiper", "pit-anderson-darling")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_measure_has_a_value_or_the_reason_why_not(kind: str) -> None:
    report = calibrant.evaluate_distribution(Y, **KINDS[kind], measures=ALL, interval=0.95)
    for name, measure in report.measures.items():
        assert (measure.value is None) == (kind not in calibrant.DISTRIBUTION_MEASURES[name].kinds), name
        assert measure.value is not None or "the measure is for" in str(measure.problem)
        assert measure.definition["measure"] == name
        if measure.interval is not None and measure.value is not None:
            assert measure.interval[0] <= measure.value <= measure.interval[1]
    assert all((report[name].p_value or 0.0) > 0.01 for name in TESTS)
    json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert len(report.to_frame()) == len(ALL)
    assert "crps" in repr(report)
    assert "crps" in report._repr_html_()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_forecasts_that_are_too_narrow_are_rejected(kind: str) -> None:
    narrow = {
        "normal": {"mean": MEAN, "std": 0.6 * STD},
        "quantiles": {"quantiles": MEAN[:, None] + 0.6 * STD[:, None] * norm.ppf(LEVELS), "levels": LEVELS},
        "samples": {"samples": MEAN[:, None] + 0.6 * (SAMPLES - MEAN[:, None])},
        "interval": {"lower": MEAN - STD, "upper": MEAN + STD, "level": 0.9},
    }[kind]
    report = calibrant.evaluate_distribution(Y, **narrow, measures=list(TESTS))
    assert all((report[name].p_value or 1.0) < 0.001 for name in TESTS)


#: Measures with folds or draws of each row, which are others if rows are repeated.
OF_RANDOM_ROWS = {"recalibration-improvement"}


def _repeated(kind: str, row: Any) -> dict[str, Any]:
    """The forecasts of these rows."""
    return {name: array if name in ("level", "levels") else array[row] for name, array in KINDS[kind].items()}


def _numbers(measure: MeasureResult) -> list[float]:
    return [n for n in (measure.value, measure.p_value, *(measure.interval or ())) if n is not None]


# The PIT of samples is drawn at random for each row.
@pytest.mark.parametrize("kind", ["normal", "quantiles", "interval"])
def test_weights_are_repetitions_or_refused(kind: str) -> None:
    w = np.random.default_rng(1).integers(0, 4, N)
    row = np.repeat(np.arange(N), w)
    options: dict[str, Any] = {"measures": ALL, "interval": 0.9}
    first = calibrant.evaluate_distribution(Y, weights=w, weights_kind="frequency", **KINDS[kind], **options)
    other = calibrant.evaluate_distribution(Y[row], **_repeated(kind, row), **options)
    scaled = calibrant.evaluate_distribution(Y, weights=w * 1e3, **KINDS[kind], measures=["bias"])
    for name, measure in first.measures.items():
        if measure.problem is not None:
            assert measure.problem == other[name].problem or "weights are not supported" in measure.problem, name
        elif name not in OF_RANDOM_ROWS:
            assert _numbers(measure) == pytest.approx(_numbers(other[name]), rel=1e-9), name
    assert scaled["bias"].value == pytest.approx(first["bias"].value, rel=1e-9)


def test_copies_of_a_row_have_ties_of_their_own() -> None:
    """Counts have many ties; with one random number for all copies, calibrated forecasts look uncalibrated."""
    names = [*TESTS, "conditional-coverage"]
    report = calibrant.evaluate_distribution(
        [0.0, 1.0, 2.0],
        samples=[np.arange(999) % 3.0] * 3,
        weights=[400, 400, 400],
        weights_kind="frequency",
        measures=names,
    )
    assert all((report[name].p_value or 0.0) > 0.1 for name in names)
    assert report["conditional-coverage"].parts["rows"] == [1200.0]
    (request,) = read_distribution_diagrams(["coverage"])
    intervals = drawn(request, known(report.source))["data"]
    assert np.abs(np.subtract(intervals["coverage"], intervals["levels"])).max() < 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_change_every_interval_and_p_value_or_are_refused(kind: str) -> None:
    row = np.repeat(np.arange(N), 2)
    options: dict[str, Any] = {"measures": ALL, "interval": 0.9}
    alone = calibrant.evaluate_distribution(Y[row], **_repeated(kind, row), **options)
    clustered = calibrant.evaluate_distribution(Y[row], clusters=row, **_repeated(kind, row), **options)
    for name, measure in clustered.measures.items():
        for number in ("interval", "p_value"):
            assert getattr(measure, number) is None or getattr(measure, number) != getattr(alone[name], number), name


#: A value of each option that changes the value of a measure.
VALUES = {"estimator": "fair", "low": 0.5, "high": 0.5, "level": 0.6, "norm": 2, "horizon": 3, "n_bins": 4}
VALUES |= {"least_variance": 0.3, "method": "location-scale", "by": "centre"}


@pytest.mark.parametrize("measure", ALL, ids=lambda entry: entry if isinstance(entry, str) else entry["name"])
def test_every_option_of_a_measure_changes_its_value(measure: Any) -> None:
    plain = {"name": measure} if isinstance(measure, str) else measure
    entry = calibrant.DISTRIBUTION_MEASURES[plain["name"]]
    for option, allowed in entry.options.items():
        choice = allowed.choices[1] if option == "score" else VALUES[option]
        entries = [{**plain, "as": "plain"}, {**plain, option: choice, "as": "changed"}]
        reports = [calibrant.evaluate_distribution(Y, **KINDS[kind], measures=entries) for kind in entry.kinds]
        pairs = [(report["plain"].value, report["changed"].value) for report in reports]
        assert any(changed not in (None, before) for before, changed in pairs), option


def test_a_few_large_weights_leave_few_degrees_of_freedom_to_an_interval() -> None:
    w = np.exp(1.5 * np.random.default_rng(8).normal(size=N))
    off = MEAN - Y
    share = w / w.sum()
    rows, mean = 1.0 / float(share @ share), float(share @ off)
    error = np.sqrt(float(share**2 @ (off - mean) ** 2) * rows / (rows - 1.0))
    degrees = float((w**2).sum() ** 2 / (w**4).sum()) - 1.0
    measure = calibrant.evaluate_distribution(Y, mean=MEAN, std=STD, weights=w, measures=["bias"], interval=0.95)[
        "bias"
    ]
    assert degrees < 0.2 * rows
    assert measure.interval == pytest.approx(
        (mean - stdtrit(degrees, 0.975) * error, mean + stdtrit(degrees, 0.975) * error)
    )


def test_groups_are_evaluated_separately() -> None:
    group = np.where(np.arange(N) % 3 == 0, "a", "b")
    report = calibrant.evaluate_distribution(Y, mean=MEAN, std=STD, groups=group, measures=["crps", "pit-ks"])
    assert report.groups is not None
    own = group == "a"
    alone = calibrant.evaluate_distribution(Y[own], mean=MEAN[own], std=STD[own], measures=["crps", "pit-ks"])
    assert report.groups["a"].n == own.sum()
    assert report.groups["a"]["crps"].value == pytest.approx(alone["crps"].value)
    assert list(report.to_frame()["group"]) == ["a", "a", "b", "b"]


def test_copies_in_clusters_do_not_look_like_evidence() -> None:
    row = np.repeat(np.arange(60), 10)
    rows: dict[str, Any] = {"mean": MEAN[row], "std": STD[row], "interval": 0.95, "measures": ["crps", "pit-ks"]}
    naive = calibrant.evaluate_distribution(Y[row], **rows)
    honest = calibrant.evaluate_distribution(Y[row], clusters=row, **rows)
    alone = calibrant.evaluate_distribution(Y[:60], mean=MEAN[:60], std=STD[:60], interval=0.95, measures=["crps"])
    widths = [np.diff(report["crps"].interval or (0.0, 0.0))[0] for report in (naive, honest, alone)]
    assert widths[1] > 2.5 * widths[0]
    assert widths[1] == pytest.approx(widths[2], rel=0.02)
    assert (honest["pit-ks"].p_value or 0.0) > (naive["pit-ks"].p_value or 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "quantiles", "samples"])
def test_p_values_of_calibrated_forecasts_are_uniform(kind: str) -> None:
    random, n = np.random.default_rng(5), 60
    below = dict.fromkeys(TESTS, 0)
    for _ in range(80):
        y = random.normal(size=n)
        options: dict[str, Any] = {
            "normal": {"mean": np.zeros(n), "std": np.ones(n)},
            "quantiles": {"quantiles": np.tile(norm.ppf(LEVELS), (n, 1)), "levels": LEVELS},
            "samples": {"samples": random.normal(size=(n, 9))},
        }[kind]
        report = calibrant.evaluate_distribution(y, **options, measures=list(TESTS))
        for name in TESTS:
            below[name] += (report[name].p_value or 1.0) < 0.1
    assert all(1 <= count <= 18 for count in below.values()), below


def test_pit_of_quantiles_lies_between_levels_and_ties_are_atoms() -> None:
    forecasts = read_forecasts(quantiles=[[0.0, 1.0, 1.0, 2.0]] * 5, levels=[0.1, 0.4, 0.6, 0.9])
    low, high = pit.pit(forecasts, np.array([-1.0, 0.0, 0.5, 1.0, 3.0]))
    np.testing.assert_allclose(low, [0.0, 0.0, 0.1, 0.1, 0.9])
    np.testing.assert_allclose(high, [0.1, 0.4, 0.4, 0.9, 1.0])


def test_a_repaired_crossing_is_counted() -> None:
    report = calibrant.evaluate_distribution([0.5, 0.5], quantiles=[[1.0, 1.0 - 1e-9], [0.0, 1.0]], levels=[0.2, 0.8])
    assert report.n_repaired == 1
    assert "sorted" in repr(report)
    weighted = calibrant.evaluate_distribution(
        [0.5, 0.5], quantiles=[[1.0, 1.0 - 1e-9], [0.0, 1.0]], levels=[0.2, 0.8], weights=[1.0, 0.0]
    )
    assert weighted.n_repaired == 1


def test_a_fit_counts_repaired_crossings() -> None:
    table = np.array([[0.0, 1.0], [1.0, 2.0]] * 20)
    for n_repaired in (None, 1):
        fitted = calibrant.fit_distribution("conformal", np.linspace(0.0, 2.0, 40), quantiles=table, levels=[0.2, 0.8])
        assert fitted.diagnostics.get("n_repaired") == n_repaired
        table[3] = [1.0, 1.0 - 1e-9]


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"observed": [1.0, 2.0], "mean": [1.0], "variance": [1.0]}, "/observed"),
        ({"observed": [np.nan], "mean": [1.0], "variance": [1.0]}, "/observed"),
        ({"observed": [1.0], "mean": [np.inf], "variance": [1.0]}, "/mean"),
        ({"observed": [1.0], "mean": [1.0], "variance": [-1.0]}, "/variance"),
        ({"observed": [1.0], "mean": [1.0], "std": [0.0]}, "/std"),
        ({"observed": [1.0], "mean": [1.0], "std": [np.inf]}, "/std"),
        ({"observed": [1.0], "mean": [1.0], "std": [1e-200]}, "/std"),
        ({"observed": [1.0], "mean": [1.0], "std": [[1.0]]}, "/std"),
        ({"observed": [1.0], "mean": [1.0], "std": [1.0], "variance": [1.0]}, "/std"),
        ({"observed": [1.0], "mean": [1.0]}, ""),
        ({"observed": [], "mean": [], "variance": []}, "/mean"),
        ({"observed": [1.0], "quantiles": [[2.0, 1.0]], "levels": [0.1, 0.9]}, "/quantiles"),
        ({"observed": [1.0], "quantiles": [[1.0, 2.0]], "levels": [0.9, 0.1]}, "/levels"),
        ({"observed": [1.0], "lower": [2.0], "upper": [1.0], "level": 0.9}, "/upper"),
        ({"observed": [1.0], "lower": [0.0], "upper": [1.0], "level": 1.0}, "/level"),
        ({"observed": ["a"], "mean": [1.0], "variance": [1.0]}, "/observed"),
        ({"observed": [1.0], "mean": [1.0], "variance": [1.0], "measures": ["crpz"]}, "/measures"),
        ({"observed": [1.0], "mean": [1.0], "variance": [1.0], "weights": [0.0]}, "/weights"),
        ({"observed": [1.0], "mean": [1.0], "variance": [1.0], "groups": ["a", "b"]}, "/groups"),
        ({"observed": [1.0], "mean": [1.0], "variance": [1.0], "clusters": [1, 2]}, "/clusters"),
        ({"observed": [1.0], "mean": [1.0], "variance": [1.0], "interval": 2}, "/interval"),
        ({"observed": [1.0], "mean": [1.0], "variance": [1.0], "seed": -1}, "/seed"),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, Any], pointer: str) -> None:
    with pytest.raises(CalibrationError) as error:
        calibrant.evaluate_distribution(**arguments)
    place = error.value.offences[0].pointer if error.value.offences else ""
    assert place.startswith(pointer)


def test_one_row_is_enough() -> None:
    for kind, fields in KINDS.items():
        single = {name: column if name in ("levels", "level") else column[:1] for name, column in fields.items()}
        report = calibrant.evaluate_distribution(Y[:1], **single, measures=ALL, interval=0.95)
        assert report.n == 1, kind


def test_diebold_mariano_needs_lags_for_dependent_scores() -> None:
    random = np.random.default_rng(3)
    rejected = np.zeros(2)
    for _ in range(300):
        noise = random.normal(size=203)
        off = noise[:-3] + noise[1:-2] + noise[2:-1] + noise[3:]
        for i, lags in enumerate((0, 6)):
            rejected[i] += (diebold_mariano(off, np.zeros(200), lags=lags).p_value or 1.0) < 0.05
    assert rejected[0] > 60
    assert 5 <= rejected[1] <= 40
    assert diebold_mariano([1.0, 1.0], [1.0, 1.0]).p_value == 1.0
    with pytest.raises(CalibrationError, match="second"):
        diebold_mariano([1.0, 2.0], [1.0])


@pytest.mark.parametrize("horizon", [1, 3])
def test_evidence_rarely_grows_for_calibrated_forecasts_and_soon_for_others(horizon: int) -> None:
    random = np.random.default_rng(4)
    alarms = 0
    for seed in range(200):
        y = random.normal(size=400)
        options: dict[str, Any] = {"mean": np.zeros(400), "variance": np.ones(400), "horizon": horizon, "seed": seed}
        alarms += bool((calibration_evidence(y, **options) >= np.log(20)).any())
        if seed == 0:
            drifted = calibration_evidence(np.concatenate([y[:200], y[200:] + 1.0]), **options)
            assert drifted[-1] > np.log(1e3)
    assert alarms <= 18


def test_evidence_is_a_measure_with_a_p_value_and_the_row_of_the_alarm() -> None:
    y = np.random.default_rng(4).normal(size=400)
    y[200:] += 1.5
    options: dict[str, Any] = {"mean": np.zeros(400), "variance": np.ones(400), "seed": 3}
    later = {"name": "calibration-evidence", "horizon": 3, "as": "later"}
    report = calibrant.evaluate_distribution(
        y, **options, measures=["calibration-evidence", later, "exchangeability-evidence"], groups=["all"] * 400
    )
    for key, bound, evidence in (
        ("calibration-evidence", 20.0, calibration_evidence(y, **options)),
        ("later", 60.0, calibration_evidence(y, **options, horizon=3)),
        ("exchangeability-evidence", 20.0, exchangeability_evidence(y, **options)),
    ):
        measure = report[key]
        assert measure.value == evidence.max()
        assert measure.p_value == pytest.approx(bound / 20.0 * np.exp(-evidence.max()))
        assert measure.parts == {"last": evidence[-1], "alarm": int(np.flatnonzero(evidence >= np.log(bound))[0])}
        assert known(report.groups)["all"][key] == measure
    good = calibrant.evaluate_distribution(y[:100], mean=np.zeros(100), variance=np.ones(100), measures=[later])
    assert good["later"].parts["alarm"] is None
    assert good["later"].p_value == 1.0
    for refused in ({"weights": np.ones(400)}, {"clusters": np.arange(400)}):
        problem = calibrant.evaluate_distribution(y, **options, **refused, measures=[later])["later"].problem
        assert "are not supported by calibration-evidence" in str(problem)


def test_evidence_of_change_accepts_wrong_but_constant_calibration() -> None:
    random = np.random.default_rng(6)
    alarms = 0
    for seed in range(100):
        y = np.round(random.normal(size=300) + 1.0, 1)
        options: dict[str, Any] = {"mean": np.zeros(300), "variance": np.full(300, 4.0)}
        alarms += bool((exchangeability_evidence(y, **options, seed=seed) >= np.log(20)).any())
    assert alarms <= 10


@pytest.mark.parametrize("before", [200, 1500])
def test_evidence_of_change_grows_soon_after_a_change(before: int) -> None:
    y = np.random.default_rng(8).normal(size=before + 300)
    y[before:] *= 3.0
    log_e = exchangeability_evidence(y, mean=np.zeros(len(y)), variance=np.ones(len(y)))
    alarm = int(np.flatnonzero(log_e >= np.log(20))[0])
    assert before < alarm < before + 150
    np.testing.assert_array_equal(log_e[:50], exchangeability_evidence(y[:50], mean=np.zeros(50), variance=np.ones(50)))


def test_evidence_of_change_grows_soon_when_a_few_rows_become_outliers() -> None:
    delays = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        y = random.normal(size=2200)
        y[1500:] += np.where(random.random(700) < 0.08, random.choice([-6.0, 6.0], 700), 0.0)
        log_e = exchangeability_evidence(y, mean=np.zeros(len(y)), variance=np.ones(len(y)), seed=seed)
        alarms = np.flatnonzero(log_e >= np.log(20))
        assert len(alarms)
        delays.append(int(alarms[0]) - 1500)
    assert min(delays) > 0
    assert max(delays) < 300


def test_extreme_numbers_have_no_score_instead_of_a_warning() -> None:
    report = calibrant.evaluate_distribution([1e200], mean=[0.0], variance=[1e-300], measures=ALL)
    assert "infinite" in str(report["log-score"].problem)
    wide = calibrant.evaluate_distribution([0.0], quantiles=[[-1.7e308, 1.7e308]], levels=[0.1, 0.9], measures=ALL)
    assert wide["coverage"].value == 1.0
    samples = calibrant.evaluate_distribution([0.0], samples=[[-1e308, 1e308, 1e308]], measures=ALL)
    assert samples["mae"].value == 1e308


SCALES = [0.0, 5e-324, 1e-300, 1e-160, 1.0, 1e155, 1e300, 1e308]


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_a_result_is_finite_at_every_scale(kind: str) -> None:
    random = np.random.default_rng(5)
    for _ in range(4):
        some, n = random.choice(SCALES, 2), 25
        y, centre = random.choice(some, n), random.choice(some, n) * random.choice([-1.0, 1.0], n)
        half = random.choice(some, n)
        arguments: dict[str, Any] = {
            "normal": {"mean": centre, "variance": np.maximum(half, 5e-324)},
            "quantiles": {"quantiles": np.sort(np.stack([-half, centre], axis=1), axis=1), "levels": [0.1, 0.9]},
            "samples": {"samples": np.stack([centre, half, -half], axis=1)},
            "interval": {"lower": -half, "upper": half, "level": 0.9},
        }[kind]
        for key, measure in calibrant.evaluate_distribution(
            y, **arguments, measures=ALL, interval=0.9
        ).measures.items():
            numbers = [measure.value, measure.debiased, measure.p_value, *(measure.interval or ())]
            assert np.isfinite([number for number in numbers if number is not None]).all(), (key, numbers)
            assert measure.value is not None or str(measure.problem).startswith("no value: "), key


def test_rows_without_weight_are_left_out_of_groups_and_clusters() -> None:
    w = np.ones(N)
    w[0] = 0.0
    names = [f"group {i % 7}" for i in range(N)]
    rows: dict[str, Any] = {"mean": MEAN, "std": STD, "measures": ["crps"]}
    report = calibrant.evaluate_distribution(Y, weights=w, groups=names, clusters=names, **rows)
    assert sum(group.n for group in known(report.groups).values()) == N - 1


def test_few_clusters_have_no_test_of_all_levels() -> None:
    few = calibrant.evaluate_distribution(Y, **KINDS["quantiles"], clusters=np.arange(N) % 10)
    assert few["quantile-calibration-error"].p_value is None
    assert "clusters" in str(few["quantile-calibration-error"].problem)
    many = calibrant.evaluate_distribution(Y, **KINDS["quantiles"], clusters=np.arange(N) % 100)
    assert (many["quantile-calibration-error"].p_value or 0.0) > 0.001


def test_many_levels_are_tested_at_some_of_them() -> None:
    levels = np.arange(1, 8000) / 8000.0
    y = np.random.default_rng(4).normal(size=200)
    report = calibrant.evaluate_distribution(
        y,
        quantiles=np.tile(norm.ppf(levels), (len(y), 1)),
        levels=levels,
        measures=["quantile-calibration-error", "pit-ks"],
    )
    used = np.array(report["quantile-calibration-error"].parts["levels"])
    assert len(used) == pit.MOST_LEVELS
    np.testing.assert_allclose(used + used[::-1], 1.0, atol=1e-12)
    assert used[0] == levels[0]
    assert np.diff(used).max() < 3.0 / pit.MOST_LEVELS
    assert (report["quantile-calibration-error"].p_value or 0.0) > 0.01
    (request,) = read_distribution_diagrams(["coverage"])
    assert len(drawn(request, known(report.source))["data"]["levels"]) == pit.MOST_LEVELS // 2
