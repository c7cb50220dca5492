"""Tests of the segments of a report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from tests.refusals import refused_at


def _rows(gap: float) -> tuple[Any, Any, dict[str, Any]]:
    random = np.random.default_rng(0)
    p, site = random.uniform(0.1, 0.6, 600), random.choice(list("ab"), 600)
    return p, (random.random(600) < p + gap * (site == "b")).astype(int), {"site": site}


def test_a_report_with_features_has_the_segments_of_the_search() -> None:
    p, y, features = _rows(0.3)
    report = calibrant.report(p, y, features=features)
    assert report.document["segments"] == calibrant.find_segments(p, y, features).to_dict()
    assert 'id="report-segments"' in report.html
    assert "<bdi>site = b</bdi>" in report.html


def test_a_report_without_a_significant_gap_says_so() -> None:
    p, y, features = _rows(0.0)
    assert "is significant (adjusted p = " in calibrant.report(p, y, features=features).html


def test_a_report_without_features_has_no_segments() -> None:
    p, y, _ = _rows(0.3)
    assert "report-segments" not in calibrant.report(p, y).html


def test_a_report_says_why_no_segments_were_searched() -> None:
    p, y, features = _rows(0.3)
    clustered = calibrant.report(p, y, features=features, clusters=np.arange(600) // 2)
    assert "segments" not in clustered.document
    assert "No segments were searched: the search assumes independent rows" in clustered.html
    few = calibrant.report(p[:40], y[:40], features={"site": features["site"][:40]})
    assert "No segments were searched: the report has 40 rows" in few.html


def test_segments_of_a_report_with_a_map_are_those_before_it() -> None:
    p, y, features = _rows(0.3)
    report = calibrant.report(p, y, features=features, map=calibrant.fit("platt", p, y))
    assert "have a significant gap before the map" in report.html


def test_a_report_with_a_map_of_segments_shows_its_predictions() -> None:
    p, y, features = _rows(0.3)
    fitted = calibrant.fit("segments", p[:300], y[:300], features={"site": features["site"][:300]})
    p, y, features = p[300:], y[300:], {"site": features["site"][300:]}
    document = calibrant.report(p, y, features=features, map=fitted).document
    q = fitted.apply(p, features=features)
    expected = -np.log(np.where(y == 1, q, 1.0 - q)).mean()
    assert document["after"]["measures"]["log-loss"]["value"] == pytest.approx(expected, abs=1e-9)
    assert document["segments"] == calibrant.find_segments(p, y, features).to_dict()


@pytest.mark.parametrize("features", [None, {"site": ["a"] * 600, "other": ["a"] * 600}])
def test_a_report_with_a_map_of_segments_needs_the_features_of_the_map(features: Any) -> None:
    p, y, own = _rows(0.3)
    fitted = calibrant.fit("segments", p, y, features=own)
    with refused_at("/features", CalibrationError, below=True):
        calibrant.report(p, y, features=features, map=fitted)


def test_names_of_segments_are_text_in_a_report() -> None:
    p, y, features = _rows(0.3)
    features = {"<b>": np.where(features["site"] == "b", "<script>alert(1)</script>", "a")}
    html = calibrant.report(p, y, features=features).html
    assert "<script>" not in html
    assert "&lt;b&gt; = &lt;script&gt;" in html


def test_segments_of_all_classes_are_those_of_correct_decisions() -> None:
    random = np.random.default_rng(1)
    p = random.dirichlet(np.ones(3), 300)
    y = np.array([random.choice(3, p=row) for row in p])
    report = calibrant.report(p, y, reduction="classwise", features={"site": random.choice(list("ab"), 300)})
    assert report.document["segments"]["n"] == 300


def test_bad_features_of_a_report_are_refused() -> None:
    p, y, _ = _rows(0.3)
    with refused_at("/features/site", CalibrationError):
        calibrant.report(p, y, features={"site": [1, 2]})


def test_rows_in_clusters_have_no_segments() -> None:
    p, y, features = _rows(0.3)
    report = calibrant.report(p, y, features=features, clusters=np.arange(600) // 2)
    assert "segments" not in report.document


@pytest.mark.slow
def test_many_features_are_searched_one_by_one() -> None:
    p, y, features = _rows(0.3)
    random = np.random.default_rng(1)
    many = features | {f"x{i}": random.random(600) for i in range(199)}
    segments = calibrant.report(p, y, features=many).document["segments"]
    assert segments["tested"] < 600 * 30
    assert all(len(segment["conditions"]) < 2 for segment in segments["segments"])
