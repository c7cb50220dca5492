"""Reports of predictive distributions: the verdict in words, the recommended map, and the page."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.distributions.evaluation import read_rows
from calibrant.distributions.forecasts import ForecastRows, read_forecasts
from calibrant.kinds.distributions import widening
from calibrant.reports.kinds.distributions import advice, verdict
from tests.rows import draw_forecasts


def _text(page: str) -> str:
    without = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without)).split())


def test_the_verdict_has_the_coverage_and_the_factor() -> None:
    y, forecasts = draw_forecasts(factor=1.6)
    report = calibrant.report_distribution(y, **forecasts)
    quantiles = np.asarray(forecasts["quantiles"])
    inside = np.mean((y >= quantiles[:, 0]) & (y <= quantiles[:, -1]))
    headline = re.fullmatch(
        r"90 % intervals contain (\d+) % of outcomes; widen by ([\d.]+)", verdict(report.document).headline
    )
    assert headline is not None
    assert int(headline[1]) == round(100 * inside)
    assert float(headline[2]) == pytest.approx(1.6, abs=0.15)
    assert verdict(report.document).tone == "rejected"
    assert "widen by" in _text(report.html)


@pytest.mark.parametrize("kind", ["normal", "quantiles", "interval"])
def test_the_factor_gives_the_promised_coverage(kind: str) -> None:
    y, arguments = draw_forecasts(factor=0.6, kind=kind)
    forecasts = read_forecasts(**arguments)
    weights = np.arange(len(y)) % 4
    rows, _ = read_rows(ForecastRows(forecasts, y, weights))
    wider = widening(rows)
    assert wider is not None
    low, high = (rows.forecasts.quantile(np.array([level]))[:, 0] for level in (0.05, 0.95))
    middle = (low + high) / 2
    factor = wider["factor"]
    assert rows.w is not None
    inside = (rows.y >= middle + factor * (low - middle) - 1e-9) & (rows.y <= middle + factor * (high - middle) + 1e-9)
    assert rows.w @ inside / rows.w.sum() == pytest.approx(0.9, abs=0.003)
    assert factor < 1.0


@pytest.mark.parametrize(
    ("changes", "headline", "tone"),
    [
        ({}, "No evidence of miscalibration: 90 % intervals contain", "not-rejected"),
        ({"n": 60}, "Too few rows for a verdict", "not-rejected"),
        ({"factor": 0.6}, "of outcomes; narrow by 0.6", "rejected"),
        ({"shift": 0.4}, "The medians are too low", "rejected"),
        ({"shift": -0.4}, "The medians are too high", "rejected"),
    ],
)
def test_the_headline_of_forecasts_describes_their_error(changes: dict[str, Any], headline: str, tone: str) -> None:
    y, forecasts = draw_forecasts(**changes)
    conclusion = verdict(calibrant.report_distribution(y, **forecasts).document)
    assert headline in conclusion.headline
    assert conclusion.tone == tone


def test_few_clusters_give_no_verdict() -> None:
    y, forecasts = draw_forecasts()
    report = calibrant.report_distribution(y, **forecasts, clusters=np.arange(800) // 200)
    conclusion = verdict(report.document)
    assert conclusion.tone == "unknown"
    assert conclusion.headline.startswith("No verdict: 90 % intervals contain")
    assert any("clusters" in reason for reason in conclusion.reasons)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "quantiles", "samples", "interval"])
def test_every_kind_has_a_page_that_loads_nothing(kind: str) -> None:
    y, forecasts = draw_forecasts(300, factor=1.6, kind=kind)
    groups = np.where(np.arange(300) % 2, "<b>north</b>", "south")
    report = calibrant.report_distribution(y, **forecasts, name="<script>", groups=groups, by=np.arange(300) % 3)
    assert "<script" not in report.html
    assert report.html.count("<img ") >= 4
    assert not re.search(r'(?:src|href)="(?!data:|#)', report.html)
    assert all("alt=" in image for image in re.findall(r"<img[^>]*>", report.html))
    text = _text(report.html)
    for part in ("Verdict", "Recommended map", "Subgroups", "<b>north</b>", "How to reproduce this report"):
        assert part in text


def test_the_recommended_map_is_the_simplest_that_is_as_good() -> None:
    y, forecasts = draw_forecasts(factor=1.6)
    report = calibrant.report_distribution(y, **forecasts, support=(-50, None))
    recommended = advice(report.document)
    assert recommended is not None
    assert recommended.headline.startswith("Fit location-scale: expected gain in the quantile-score")
    assert "support=(-50, None)" in report.html
    gains = {candidate["method"]: candidate["gain"] for candidate in report.document["recommendation"]["candidates"]}
    fitted = calibrant.fit_distribution("location-scale", y, **forecasts, support=(-50, None))
    assert gains["location-scale"] == fitted.diagnostics["held_out_gain"]

    y, forecasts = draw_forecasts()
    recommended = advice(calibrant.report_distribution(y, **forecasts).document)
    assert recommended is not None
    assert recommended.headline == "No map is proven to improve these forecasts"


def test_the_shown_python_repeats_the_report() -> None:
    y, forecasts = draw_forecasts(factor=1.6)
    report = calibrant.report_distribution(y, **forecasts, weights=np.ones(800), by=np.arange(800) % 2)
    blocks = [unescape(block) for block in re.findall(r"<pre><code>(.*?)</code></pre>", report.html, re.DOTALL)]
    names = {"observed": y, "weights": np.ones(800), "by": np.arange(800) % 2, "calibrant": calibrant, **forecasts}
    for block in blocks:
        if "calibrant." in block:
            exec(compile(block, "report.py", "exec"), names)
    assert names["report"].to_dict()["measures"] == report.document["measures"]
    assert names["fitted"].method == "location-scale"


def test_a_map_is_shown_before_and_after() -> None:
    y, forecasts = draw_forecasts(factor=1.6)
    fitted = calibrant.fit_distribution("location-scale", y, **forecasts)
    report = calibrant.report_distribution(y, **forecasts, map=fitted, groups=np.arange(800) % 2)
    assert report.document["in_sample"] is True
    assert verdict(report.document["after"], in_sample=True).tone == "unknown"
    text = _text(report.html)
    assert f"{calibrant.DISTRIBUTION_MEASURES['quantile-score'].title}, after the map (in-sample)" in text
    assert "Coverage before the map is lowest in" in text
    assert "Coverage after the map (in-sample) is lowest in" in text
    other, later = draw_forecasts(factor=1.6, seed=5)
    report = calibrant.report_distribution(other, **later, map=fitted)
    assert report.document["in_sample"] is False
    text = _text(report.html)
    assert "After the map No evidence of miscalibration" in text
    assert "Recommended map" not in text
    score = report.document["after"]["measures"]["quantile-score"]["value"]
    assert score < report.document["measures"]["quantile-score"]["value"]


def test_a_map_from_means_to_quantiles_is_compared_as_quantiles() -> None:
    y, forecasts = draw_forecasts(factor=1.6, kind="normal")
    fitted = calibrant.fit_distribution("quantile-recalibration", y, **forecasts)
    report = calibrant.report_distribution(y, **forecasts, map=fitted)
    assert (report.document["kind"], report.document["after"]["kind"]) == ("quantiles", "quantiles")


def test_a_report_has_the_coverage_by_a_column() -> None:
    y, forecasts = draw_forecasts(factor=1.0)
    horizon = np.arange(len(y)) % 4
    y = np.where(horizon == 3, y + 3.0, y)
    text = _text(calibrant.report_distribution(y, **forecasts, by=horizon).html)
    assert "The coverage of 90 % intervals differs from their level for some values (p < 0.001)." in text
    assert re.search(r"Value Rows Coverage 0 200 \d+ % expected 8\d % to 9\d % 1 200", text)
    assert "by=by," in text
    fitted = calibrant.fit_distribution("location-scale", y, **forecasts, by=horizon)
    text = _text(calibrant.report_distribution(y, **forecasts, by=horizon, map=fitted).html)
    assert "The coverage of 90 % intervals before the map differs" in text
    assert "intervals after the map" not in text.partition("Coverage by column")[2]  # fitted to these rows
    assert "Coverage, before the map Coverage, after the map" in text


def test_many_values_of_a_column_get_no_map_each() -> None:
    y, forecasts = draw_forecasts(factor=1.6)
    page = calibrant.report_distribution(y, **forecasts, by=np.linspace(0.0, 1.0, len(y)))
    assert page.document["recommendation"]["by"] is False
    assert page.document["recommendation"]["recommended"] != "identity"
    text = _text(page.html)
    assert "0 to 0.198999 160" in text
    assert "by=by" not in text.partition("fitted = ")[2].partition(")")[0]
