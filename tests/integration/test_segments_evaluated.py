"""Maps of segments are evaluated, compared and reported with the features of the rows, everywhere alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack
from tests.commands import invoked, succeeded
from tests.integration.responses import body_of, problem_of
from tests.known import known

RANDOM = np.random.default_rng(11)
N = 600
COUNTRY = RANDOM.choice(["DE", "FR"], 2 * N)
P = RANDOM.random(2 * N)
Y = (RANDOM.random(2 * N) < np.where(COUNTRY == "DE", P**2, P**0.5)).astype(int)
FIT, HELD = slice(0, N), slice(N, None)
FEATURES = {"country": COUNTRY[HELD].tolist()}
ROWS: dict[str, Any] = {"predictions": P[HELD].tolist(), "labels": Y[HELD].tolist()}
MEASURES = ["log-loss", "ece"]


@pytest.fixture(scope="module")
def fitted() -> calibrant.CalibrationMap:
    return calibrant.fit("segments", P[FIT], Y[FIT], features={"country": COUNTRY[FIT]})


@pytest.fixture(scope="module")
def reference(service: Stack, fitted: calibrant.CalibrationMap) -> str:
    with httpx.Client(base_url=service.url, timeout=600) as http:
        answer = http.post("/maps/import", json={"document": fitted.to_document(), "name": "evaluated-segments"})
        return f"{body_of(answer, 201)['name']}:1"


@pytest.fixture(scope="module")
def expected(fitted: calibrant.CalibrationMap) -> calibrant.Report:
    return calibrant.evaluate(P[HELD], Y[HELD], features=FEATURES, map=fitted, measures=MEASURES, seed=1)


def _values(measures: Any) -> dict[str, float]:
    return {name: measure["value"] for name, measure in measures.items()}


def test_evaluate_applies_the_map_to_the_features(expected: calibrant.Report, fitted: calibrant.CalibrationMap) -> None:
    calibrated = fitted.apply(P[HELD], features=FEATURES)
    after = calibrant.evaluate(calibrated, Y[HELD], measures=MEASURES, seed=1)
    assert expected.after is not None
    for name in MEASURES:
        assert expected.after[name].value == pytest.approx(after.measures[name].value, abs=1e-14)
    before, later = expected.measures["log-loss"].value, expected.after["log-loss"].value
    assert before is not None
    assert later is not None
    assert later < before - 0.02


def test_rows_of_the_fit_are_evaluated_out_of_fold(fitted: calibrant.CalibrationMap) -> None:
    report = calibrant.evaluate(P[FIT], Y[FIT], features={"country": COUNTRY[FIT]}, map=fitted, measures=["log-loss"])
    assert report.in_sample
    assert report.improvement is not None
    assert (report.improvement["log-loss"].value or 0.0) > 0.0


def test_the_service_and_its_client_evaluate_as_the_library(
    http: httpx.Client, client: Calibrant, reference: str, expected: calibrant.Report
) -> None:
    body = ROWS | {"features": FEATURES, "map": reference, "measures": MEASURES, "seed": 1}
    wanted = _values(expected.to_dict()["after"]["measures"])
    assert _values(body_of(http.post("/evaluate", json=body))["after"]["measures"]) == pytest.approx(wanted, abs=1e-12)
    batch = client.upload(P[HELD], Y[HELD], features=FEATURES)
    report = client.evaluate(batch=batch.id, map=reference, measures=MEASURES, seed=1)
    assert {name: own.value for name, own in known(report.after).measures.items()} == pytest.approx(wanted, abs=1e-12)


def test_a_job_evaluates_with_the_features_of_its_rows(
    http: httpx.Client, client: Calibrant, reference: str, expected: calibrant.Report
) -> None:
    body = ROWS | {"features": FEATURES, "map": reference, "measures": MEASURES, "seed": 1}
    queued = http.post("/evaluate", json=body, headers={"prefer": "respond-async"})
    assert queued.status_code in (200, 202)
    report = queued.json() if queued.status_code == 200 else client.wait(queued.json()["id"]).result["report"]  # type: ignore[index]
    wanted = _values(expected.to_dict()["after"]["measures"])
    assert _values(report["after"]["measures"]) == pytest.approx(wanted, abs=1e-12)


def test_a_map_of_segments_is_compared_with_another(
    http: httpx.Client, reference: str, fitted: calibrant.CalibrationMap
) -> None:
    other = calibrant.fit("isotonic", P[FIT], Y[FIT])
    options: dict[str, Any] = {"measures": MEASURES, "resamples": 200}
    local = calibrant.compare(P[HELD], Y[HELD], {"a": fitted, "b": other}, features=FEATURES, **options)
    ranking = known(local.measures["log-loss"].ranking)
    assert ranking[0] == "a"
    document = {"document": other.to_document(), "name": "evaluated-isotonic"}
    body_of(http.post("/maps/import", json=document), 201)
    body = ROWS | {"features": FEATURES, "maps": [reference, "evaluated-isotonic:1"], **options}
    answer = body_of(http.post("/compare", json=body))["comparison"]
    for own, contestant in zip(answer["contestants"], local.contestants, strict=True):
        wanted = {name: measure.value for name, measure in contestant.measures.items()}
        assert _values(own["measures"]) == pytest.approx(wanted, abs=1e-12)
    assert answer["measures"]["log-loss"]["ranking"][0] == reference


CASES: dict[str, dict[str, Any]] = {
    "none": {},
    "another one": {"features": {"region": ["x"] * N}},
    "one more": {"features": FEATURES | {"age": [1.0] * N}},
    "too few rows": {"features": {"country": ["DE"]}},
}


@pytest.mark.parametrize("path", ["/evaluate", "/compare"])
@pytest.mark.parametrize("case", CASES)
def test_rows_without_the_features_of_the_map_are_refused(
    http: httpx.Client, reference: str, path: str, case: str
) -> None:
    maps = {"map": reference} if path == "/evaluate" else {"maps": [reference]}
    answer = http.post(path, json=ROWS | maps | CASES[case])
    status, _, pointer = problem_of(answer)
    assert status == 422
    assert pointer.startswith(("/features", "/maps/0"))  # of several maps, the one that does not fit
    assert "features" in answer.text


def test_models_have_no_features(http: httpx.Client) -> None:
    with pytest.raises(calibrant.CalibrationError, match="features"):
        calibrant.compare({"a": P, "b": P**2}, Y, features={"country": COUNTRY})
    body = {"models": {"a": ROWS["predictions"], "b": ROWS["predictions"]}, "labels": ROWS["labels"]}
    answer = http.post("/compare", json=body | {"features": FEATURES})
    assert problem_of(answer) == (422, "invalid-field", "/features")


# --- Commands


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, fitted: calibrant.CalibrationMap) -> Path:
    """A file of rows beside the file of the map."""
    folder = tmp_path_factory.mktemp("segments")
    fitted.save(folder / "map.json")
    calibrant.fit("isotonic", P[FIT], Y[FIT]).save(folder / "other.json")
    columns = zip(P[HELD].tolist(), Y[HELD].tolist(), COUNTRY[HELD].tolist(), strict=True)
    text = "\n".join(["p,label,country", *(f"{p!r},{y},{c}" for p, y, c in columns)])
    (folder / "rows.csv").write_text(f"{text}\n", "utf-8")
    return folder / "rows.csv"


@pytest.mark.parametrize("on_server", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_commands_evaluate_compare_and_report_with_features(
    service: Stack, file: Path, reference: str, expected: calibrant.Report, on_server: bool
) -> None:
    where = ["--server", service.url] if on_server else []
    applied = reference if on_server else file.with_name("map.json")
    flags = [flag for name in MEASURES for flag in ("--measure", name)]
    printed = succeeded(None, "evaluate", file, "--map", applied, *flags, "--seed", "1", "--json", *where)
    wanted = _values(expected.to_dict()["after"]["measures"])
    assert _values(json.loads(printed.stdout)["after"]["measures"]) == pytest.approx(wanted, abs=1e-12)
    printed = succeeded(None, "compare", file, "--map", applied, *flags, "--resamples", "200", "--json", *where)
    after = json.loads(printed.stdout)["comparison"]["contestants"][1]["measures"]
    assert _values(after) == pytest.approx(wanted, abs=1e-12)
    page = file.with_name(f"report-{on_server}.html")
    succeeded(None, "report", file, "--map", applied, "--out", page, *where)
    text = page.read_text("utf-8")
    assert "country" in text
    assert "Segments" in text or "segments" in text


def test_the_command_refuses_features_of_models(file: Path) -> None:
    done = invoked(None, "compare", file, "--prediction", "p", "--prediction", "label", "--feature", "country")
    assert done.exit_code == 2
    assert "--feature" in done.output


def test_features_without_a_map_of_segments_are_refused() -> None:
    with pytest.raises(calibrant.CalibrationError, match="map of segments"):
        calibrant.evaluate(P[FIT], Y[FIT], features={"country": COUNTRY[FIT]}, measures=["brier"])
    platt = calibrant.fit("platt", P[FIT], Y[FIT])
    with pytest.raises(calibrant.CalibrationError, match="map of segments"):
        calibrant.evaluate(P[HELD], Y[HELD], features=FEATURES, map=platt, measures=["brier"])
