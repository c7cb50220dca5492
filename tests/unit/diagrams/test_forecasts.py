"""The diagrams of predictive distributions, against counts by hand and against calibrated forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.diagrams.forecasts import DISTRIBUTION_DIAGRAMS, drawn, read_distribution_diagrams
from calibrant.distributions.evaluation import read_rows
from calibrant.distributions.forecasts import ForecastRows, Forecasts, read_forecasts
from calibrant.distributions.measures import MeasuredForecasts
from calibrant.plots.canvas import Caption
from calibrant.plots.diagram import draw
from tests.rows import LEVELS, draw_forecasts


def _forecasts(n: int, kind: str, seed: int = 0) -> tuple[Forecasts, np.ndarray]:
    """Calibrated forecasts, and outcomes."""
    y, arguments = draw_forecasts(n, seed, kind=kind, spread=0.5)
    return read_forecasts(**arguments), y


def _data(name: str, rows: MeasuredForecasts, times: list[str] | None = None, **options: Any) -> dict[str, Any]:
    (request,) = read_distribution_diagrams([{"name": name, **options}])
    diagram = drawn(request, rows, times)
    assert diagram["problem"] is None
    points: dict[str, Any] = diagram["data"]
    return points


@pytest.mark.parametrize("name", DISTRIBUTION_DIAGRAMS)
@pytest.mark.parametrize("kind", ["normal", "quantiles", "samples", "interval"])
def test_every_diagram_has_the_fields_of_its_description(name: str, kind: str) -> None:
    (request,) = read_distribution_diagrams([name])
    diagram = drawn(request, MeasuredForecasts(*_forecasts(60, kind)))
    if name == "mean-variance" and kind in ("quantiles", "interval"):
        assert diagram["problem"] == "no diagram: diagram needs means and variances, or samples"
        return
    assert diagram["definition"]["name"] == name
    assert set(diagram["data"]) == set(DISTRIBUTION_DIAGRAMS[name].shown)


def test_points_of_diagrams_are_counts_of_rows() -> None:
    forecasts, y = _forecasts(500, "quantiles")
    rows = MeasuredForecasts(forecasts, y)
    share = [np.mean(y <= forecasts.quantiles[:, i]) for i in range(len(LEVELS))]
    np.testing.assert_allclose(_data("quantile-reliability", rows)["share"], share, atol=1e-12)
    pit = _data("pit", rows)
    np.testing.assert_allclose(np.multiply(pit["density"], np.diff(pit["edges"])), np.diff([0, *share, 1]), atol=1e-12)
    central = _data("coverage", rows)
    np.testing.assert_allclose(central["levels"], [0.5, 0.9])
    np.testing.assert_allclose(central["coverage"], [share[3] - share[1], share[4] - share[0]], atol=1e-12)
    q = forecasts.quantiles
    np.testing.assert_allclose(central["width"], [(q[:, 3] - q[:, 1]).mean(), (q[:, 4] - q[:, 0]).mean()])


def test_weights_count_rows() -> None:
    forecasts, y = _forecasts(200, "quantiles")
    weights = np.arange(200) % 3
    weighted, _ = read_rows(ForecastRows(forecasts, y, weights, "frequency"))
    repeated = np.repeat(np.arange(200), weights)
    rows = MeasuredForecasts(forecasts.take(repeated), y[repeated])
    for name in ("pit", "coverage", "quantile-reliability"):
        first, other = _data(name, weighted), _data(name, rows)
        for field in first:
            np.testing.assert_allclose(first[field], other[field], atol=1e-12, err_msg=f"{name} {field}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "quantiles"])
@pytest.mark.parametrize("clustered", [False, True])
def test_bands_contain_all_points_of_95_of_100_calibrated_forecasts(kind: str, clustered: bool) -> None:
    outside = dict.fromkeys(("pit", "coverage", "quantile-reliability"), 0)
    fields = {"pit": "density", "coverage": "coverage", "quantile-reliability": "share"}
    for seed in range(120):
        forecasts, y = _forecasts(300, kind, seed)
        clusters = [str(i // 2) for i in range(300)] if clustered else None
        rows, _ = read_rows(ForecastRows(forecasts, y, clusters=clusters))
        for name in outside:
            points = _data(name, rows)
            curve = np.array(points[fields[name]])
            outside[name] += bool(
                np.any((curve > np.array(points["high"]) + 1e-12) | (curve < np.array(points["low"]) - 1e-12))
            )
    for name, count in outside.items():
        assert count <= 17, name  # more than 17 of 120 have a probability below 1e-4 at 5 %
    assert sum(outside.values()) > 0


def test_squared_errors_of_calibrated_variances_are_inside_their_intervals() -> None:
    forecasts, y = _forecasts(20_000, "normal")
    points = _data("mean-variance", MeasuredForecasts(forecasts, y), n_bins=20)
    inside = (np.array(points["low"]) <= points["predicted"]) & (points["predicted"] <= np.array(points["high"]))
    assert inside.sum() >= 17
    order = np.argsort(forecasts.variance)
    first = order[:1000]
    assert points["observed"][0] == pytest.approx(np.mean((y[first] - forecasts.mean[first]) ** 2))


def test_a_fan_is_in_the_order_of_time() -> None:
    forecasts, y = _forecasts(50, "quantiles")
    rows = MeasuredForecasts(forecasts, y)
    days = np.random.default_rng(0).permutation(np.datetime64("2024-01-01") + np.arange(50))
    points = _data("fan", rows, days.astype(str).tolist(), most=20)
    last = np.argsort(days)[-20:]
    assert points["seconds"] is True
    assert points["observed"] == y[last].tolist()
    np.testing.assert_allclose(points["levels"], [0.5, 0.9])
    np.testing.assert_allclose(points["upper"][1], forecasts.quantiles[last, 4])
    assert _data("fan", rows)["observed"] == y.tolist()
    (request,) = read_distribution_diagrams(["fan"])
    for times, problem in (
        (["1"] * 50, "times are not distinct: choose the rows of one series"),
        (["monday"] * 50, "times must be numbers or dates in ISO 8601"),
        (["1"], "times has 1 row, but the forecasts have 50"),
    ):
        assert drawn(request, rows, times)["problem"] == f"no diagram: {problem}"


def test_levels_without_a_mirror_have_no_central_intervals() -> None:
    rows = MeasuredForecasts(read_forecasts(quantiles=[[1.0, 2.0]], levels=[0.3, 0.8]), np.array([1.5]))
    (request,) = read_distribution_diagrams(["coverage"])
    assert "symmetric" in drawn(request, rows)["problem"]


def test_a_report_draws_on_axes() -> None:
    forecasts, y = _forecasts(100, "normal")
    report = calibrant.evaluate_distribution(y, mean=forecasts.mean, variance=forecasts.variance)
    fitted = calibrant.fit_distribution("variance-scaling", y, mean=forecasts.mean, variance=forecasts.variance)
    after = fitted.apply_checked(forecasts)
    for name in DISTRIBUTION_DIAGRAMS:
        assert report.plot(name, after=after).get_title().startswith(tuple("PRCSF"))
    ax = report.plot.fan(times=np.datetime64("2024-01-01") + np.arange(100))
    assert ax.get_xlabel() == "time (UTC)"
    with pytest.raises(CalibrationError, match="after has 3 rows"):
        report.plot(after=forecasts.take(np.arange(3)))
    with pytest.raises(CalibrationError, match="did you mean quantile-reliability"):
        report.plot("reliability")


def _constant(number: float, n: int = 20) -> list[float]:
    return [number] * n


#: Forecasts and outcomes at the ends of what a double can hold.
EXTREMES: dict[str, dict[str, Any]] = {
    "huge": {"mean": [1e308, -1e308] * 10, "variance": _constant(1e308), "observed": [-1e308, 1e308] * 10},
    "wide": {"mean": _constant(0.0), "variance": [1e300, 1e308] * 10, "observed": _constant(1.0)},
    "narrow": {"mean": _constant(0.0), "variance": [5e-324, 1e-300] * 10, "observed": _constant(1.0)},
    "exact": {"mean": _constant(0.0), "variance": _constant(5e-324), "observed": _constant(0.0)},
    "mixed": {"mean": [0.0, 1e300] * 10, "variance": [1e-300, 1e300] * 10, "observed": [5e-324, -1e300] * 10},
    "large": {"mean": [1e290, -1e290] * 10, "variance": _constant(1e280), "observed": [1e290, 0.0] * 10},
    "small": {"mean": _constant(0.0), "variance": _constant(1e-280), "observed": [1e-290, 5e-324] * 10},
    "samples": {"samples": [[-1e308, 0.0, 1e308]] * 20, "observed": [1e308, -1e308] * 10},
    "quantiles": {"quantiles": [[-1.7e308, 1.7e308]] * 20, "levels": [0.1, 0.9], "observed": _constant(1.7e308)},
    "levels": {"quantiles": [[0.0, 1.0, 2.0]] * 20, "levels": [1e-12, 3e-12, 0.5], "observed": [-1.0, 3.0] * 10},
}


@pytest.mark.parametrize("name", DISTRIBUTION_DIAGRAMS)
@pytest.mark.parametrize("extreme", EXTREMES)
def test_extreme_forecasts_are_drawn_or_have_a_reason(name: str, extreme: str) -> None:
    arguments = dict(EXTREMES[extreme])
    y = np.array(arguments.pop("observed"))
    (request,) = read_distribution_diagrams([name])
    diagram = drawn(request, MeasuredForecasts(read_forecasts(**arguments), y))
    if diagram["data"] is None:
        assert diagram["problem"].startswith("no diagram: ")
    else:
        assert b"<svg" in draw(name, diagram, Caption(len(y), "normal")).content


@pytest.mark.parametrize(
    "times",
    [
        ["0001-01-01", "9999-12-31"],
        ["0001-01-01T00:00", "0001-01-01T00:01"],
        ["9999-12-31T23:58", "9999-12-31T23:59"],
        ["-1e300", "1e300"],
        ["0", "5e-324"],
    ],
)
def test_a_fan_has_few_ticks_at_any_times(times: list[str]) -> None:
    rows = MeasuredForecasts(read_forecasts(mean=[0.0, 1.0], variance=[1.0, 1.0]), np.array([0.0, 1.0]))
    (request,) = read_distribution_diagrams(["fan"])
    picture = draw("fan", drawn(request, rows, times), Caption(2, "normal")).content.decode()
    assert 1 <= picture.count("<text") <= 40
