"""Tests of segments of features over HTTP, by the client, and by the command with and without a server."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack
from tests.body_formats import ARROW, CSV, NPZ, PARQUET, WRITE_ARRAYS
from tests.commands import error_of, invoked, same_output, succeeded
from tests.integration.responses import body_of, problem_of

_RANDOM = np.random.default_rng(0)
N = 400
P = np.round(_RANDOM.uniform(0.1, 0.6, N), 6)
SITES = _RANDOM.choice(list("abc"), N)
FEATURES: dict[str, Any] = {
    "site": SITES.tolist(),
    "age": [None if age < 25 else age for age in _RANDOM.integers(20, 80, N).tolist()],
}
LABELS = (_RANDOM.random(N) < P + 0.35 * (SITES == "b")).astype(int)
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": LABELS.tolist()}
BODY = ROWS | {"features": FEATURES}
ERROR: dict[str, Any] = {"resamples": 100, "max_values": 5}


def _plain(search: Any) -> dict[str, Any]:
    return json.loads(json.dumps(search.to_dict()))  # type: ignore[no-any-return]


def _segments(**options: Any) -> dict[str, Any]:
    return _plain(calibrant.find_segments(P, LABELS, FEATURES, **options))


def test_the_response_has_the_numbers_of_the_library(http: httpx.Client, client: Calibrant) -> None:
    expected = _segments(min_rows=30)
    assert expected["segments"][0]["conditions"][0]["category"] == "b"
    assert body_of(http.post("/segments", json=BODY | {"min_rows": 30})) == expected
    assert client.find_segments(**BODY, min_rows=30).to_dict() == expected


def test_the_multicalibration_error_is_that_of_the_library(http: httpx.Client, client: Calibrant) -> None:
    expected = _plain(calibrant.multicalibration_error(P, LABELS, FEATURES, **ERROR))
    assert body_of(http.post("/multicalibration", json=BODY | ERROR)) == expected
    assert client.multicalibration_error(**BODY, **ERROR).to_dict() == expected


def test_arrays_of_numpy_are_features_of_the_client(client: Calibrant) -> None:
    features = {"site": SITES, "weight": P * 10.0}
    segments = client.find_segments(P, LABELS, features=features)
    assert segments.to_dict() == _plain(calibrant.find_segments(P, LABELS, features))


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"features": None}, "invalid-option", "/features"),
        ({"features": {}}, "invalid-option", "/features"),
        ({"features": []}, "invalid-field", "/features"),
        ({"features": "site"}, "invalid-field", "/features"),
        ({"features": {"site": "abc"}}, "wrong-shape", "/features/site"),
        ({"features": {"site": [1, 2]}}, "length-mismatch", "/features/site"),
        ({"features": {"site": []}}, "length-mismatch", "/features/site"),
        ({"features": {"site": [{}] * N}}, "wrong-shape", "/features/site"),
        ({"features": {"site": [[1]] * N}}, "wrong-shape", "/features/site"),
        ({"features": {"site": ["a", 1] * (N // 2)}}, "not-a-number", "/features/site/1"),
        ({"features": {"": ["a"] * N}}, "invalid-field", "/features"),
        ({"features": {"site": ["a" * 257] * N}}, "invalid-option", "/features/site/0"),
        ({"features": {f"f{i}": [1] * N for i in range(201)}}, "invalid-option", "/features"),
        ({"max_order": 4}, "invalid-field", "/max_order"),
        ({"n_bins": 1}, "invalid-field", "/n_bins"),
        ({"min_rows": 9}, "invalid-field", "/min_rows"),
        ({"min_rows": 401}, "too-few-rows", "/predictions"),
        ({"n_segments": 0}, "invalid-field", "/n_segments"),
        ({"confidence": 1}, "invalid-field", "/confidence"),
        ({"confidence": "0.9"}, "invalid-field", "/confidence"),
        ({"held_out": 0}, "invalid-field", "/held_out"),
        ({"seed": -1}, "invalid-field", "/seed"),
        ({"reduction": "canonical"}, "unknown-reduction", "/reduction"),
        ({"clusters": ["a"] * N}, "invalid-option", "/clusters"),
        ({"labels": None}, "invalid-field", "/labels"),
        ({"predictions": [0.5]}, "length-mismatch", "/labels"),
        ({"unknown": 1}, "invalid-field", "/unknown"),
    ],
)
def test_a_bad_body_is_a_problem_with_its_place(
    http: httpx.Client, changes: dict[str, Any], code: str, pointer: str
) -> None:
    body = {name: content for name, content in (BODY | changes).items() if content is not None}
    assert problem_of(http.post("/segments", json=body)) == (422, code, pointer)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"max_depth": -1}, "/max_depth"),
        ({"max_values": 0}, "/max_values"),
        ({"min_rows": 0}, "/min_rows"),
        ({"min_rows": 401}, "/min_rows"),
        ({"n_segments": 0}, "/n_segments"),
        ({"ties": "both"}, "/ties"),
        ({"resamples": 99}, "/resamples"),
    ],
)
def test_a_bad_option_of_the_error_is_a_problem(http: httpx.Client, changes: dict[str, Any], pointer: str) -> None:
    status, _, place = problem_of(http.post("/multicalibration", json=BODY | changes))
    assert (status, place) == (422, pointer)


@pytest.mark.parametrize("kind", [ARROW, CSV, NPZ, PARQUET])
def test_every_body_format_has_features(http: httpx.Client, kind: str) -> None:
    arrays = {name: np.array(column) for name, column in ROWS.items()} | {"features/site": SITES}
    response = http.post("/segments", content=WRITE_ARRAYS[kind](arrays), headers={"Content-Type": kind})
    expected = _plain(calibrant.find_segments(P, LABELS, {"site": SITES}))
    assert body_of(response) == expected


def test_a_stored_batch_keeps_the_features_of_its_rows(client: Calibrant) -> None:
    stored = client.upload(**BODY)
    assert client.find_segments(stored.id).to_dict() == _segments()


def test_a_body_of_many_rows_is_read_in_pieces(http: httpx.Client) -> None:
    times = 40
    long = {name: column * times for name, column in ROWS.items()}
    features = {name: column * times for name, column in FEATURES.items()}
    assert body_of(http.post("/segments", json=long | {"features": features, "max_order": 1}))["n"] == N * times


# --- The command


def _written(folder: Path) -> str:
    path = folder / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "prob_1", "site", "age"])
        writer.writerows(zip(LABELS.tolist(), P.tolist(), FEATURES["site"], FEATURES["age"], strict=True))
    return str(path)


def test_the_command_prints_the_segments_of_the_library(tmp_path: Path) -> None:
    printed = succeeded(
        None, "segments", _written(tmp_path), "--feature", "site", "--feature", "age", "--min-rows", "30"
    )
    assert "site = b" in printed.stdout


def test_the_command_prints_the_same_json_with_and_without_a_server(tmp_path: Path, service: Stack) -> None:
    arguments = [_written(tmp_path), "--feature", "site", "--feature", "age", "--min-rows", "30", "--json"]
    assert json.loads(same_output(service.url, "segments", *arguments)) == _segments(min_rows=30)


@pytest.mark.slow
def test_the_command_prints_the_multicalibration_error(tmp_path: Path, service: Stack) -> None:
    arguments = [_written(tmp_path), "--feature", "site", "--feature", "age", "--multicalibration", "--json"]
    assert json.loads(same_output(service.url, "segments", *arguments))["value"] > 3.0
    assert "Multicalibration error" in invoked(None, "segments", *arguments[:-1]).stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--feature"),
        (["--feature", "unknown"], "has no column 'unknown'"),
        (["--feature", "site", "--max-order", "4"], "--max-order"),
        (["--feature", "site", "--min-rows", "5"], "--min-rows"),
        (["--feature", "site", "--min-rows", "401"], "has 400 rows"),
        (["--feature", "site", "--confidence", "2"], "--confidence"),
    ],
)
def test_a_bad_option_of_the_command_is_named(tmp_path: Path, arguments: list[str], text: str) -> None:
    outcome = invoked(None, "segments", _written(tmp_path), *arguments)
    assert outcome.exit_code != 0
    assert text in error_of(outcome)


@pytest.mark.parametrize("on_server", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_report_has_the_segments_of_the_features_of_its_file(tmp_path: Path, service: Stack, on_server: bool) -> None:
    output = tmp_path / "report.html"
    arguments = ["report", _written(tmp_path), "--feature", "site", "--out", str(output)]
    succeeded(None, *arguments, *(["--server", service.url] if on_server else []))
    assert "<bdi>site = b</bdi>" in output.read_text("utf-8")


def test_a_report_of_forecasts_has_no_features(tmp_path: Path) -> None:
    outcome = invoked(None, "report", _written(tmp_path), "--regression", "--feature", "site")
    assert outcome.exit_code != 0
    assert "--feature" in error_of(outcome)
