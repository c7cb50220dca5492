"""Predictions that are percentages: over HTTP, with the client, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import Result

import calibrant
from calibrant.client import Calibrant
from calibrant.core.errors import CalibrationError
from service.stack import Stack
from tests.body_formats import JSON, NPY, WRITE_ARRAYS
from tests.commands import invoked
from tests.integration.responses import problem_of

RANDOM = np.random.default_rng(1)
PERCENT = RANDOM.integers(0, 101, size=300)
P = PERCENT / 100.0
Y = (RANDOM.uniform(size=300) < P).astype(int)
FORMATS = [kind for kind in WRITE_ARRAYS if kind not in (NPY, JSON)]


def _body(predictions: Any, **more: Any) -> dict[str, Any]:
    return {"predictions": predictions.tolist(), "labels": Y.tolist(), **more}


@pytest.mark.parametrize("kind", FORMATS)
def test_percentages_are_evaluated_as_probabilities_in_every_format(http: httpx.Client, kind: str) -> None:
    expected = http.post("/evaluate", json=_body(P)).raise_for_status().json()
    content = WRITE_ARRAYS[kind]({"predictions": PERCENT.astype(np.float64), "labels": Y})
    sent = http.post("/evaluate", content=content, headers={"Content-Type": kind}, params={"scale": "percent"})
    assert sent.raise_for_status().json() == expected
    assert http.post("/evaluate", json=_body(PERCENT, scale="percent")).json() == expected


def test_a_batch_of_percentages_is_stored_as_probabilities(http: httpx.Client) -> None:
    stored = http.post("/batches", json=_body(PERCENT, scale="percent")).raise_for_status().json()
    assert stored["scale"] == "probability"
    own = http.post("/evaluate", json={"batch": stored["id"]}).raise_for_status().json()
    assert own["measures"] == http.post("/evaluate", json=_body(P)).json()["measures"]
    assert http.post(f"/batches/{stored['id']}/rows", json=_body(PERCENT, scale="percent")).status_code == 422
    more = http.post(f"/batches/{stored['id']}/rows", json=_body(P)).raise_for_status().json()
    assert more["n"] == 600


def test_a_map_of_probabilities_is_fitted_and_applied_to_percentages(client: Calibrant, http: httpx.Client) -> None:
    fitted = client.fit("platt", predictions=PERCENT, labels=Y, scale="percent")
    assert fitted.scale == "probability"
    np.testing.assert_array_equal(client.calibrate(fitted.id, PERCENT, scale="percent"), client.calibrate(fitted.id, P))
    of_logits = client.fit("platt", predictions=P * 4 - 2, labels=Y, scale="logit")
    refused = http.post("/calibrate", json={"map": of_logits.id, "predictions": [50.0], "scale": "percent"})
    assert problem_of(refused)[0] == 422


@pytest.mark.parametrize("bad", [[50.0, 101.0], [-1.0, 50.0]])
def test_percentages_outside_0_to_100_are_refused_by_row(http: httpx.Client, bad: list[float]) -> None:
    body = {"predictions": bad, "labels": [0, 1], "scale": "percent"}
    status, code, pointer = problem_of(http.post("/evaluate", json=body))
    assert (status, code) == (422, "out-of-range")
    assert pointer == f"/predictions/{int(bad[1] > 100.0)}"


def test_the_library_reads_percentages_and_warns_of_probabilities() -> None:
    fitted = calibrant.fit("beta", PERCENT, Y, scale="percent")
    assert fitted.scale == "probability"
    expected = calibrant.evaluate(P, Y, map=fitted).measures
    assert calibrant.evaluate(PERCENT, Y, map=fitted, scale="percent").measures == expected
    with pytest.warns(UserWarning, match="at most 1"):
        calibrant.evaluate(P, Y, scale="percent", measures=["brier"])
    with pytest.raises(CalibrationError, match=r'scale="percent"'):
        calibrant.evaluate(PERCENT, Y)


@pytest.mark.parametrize("with_server", [False, True])
def test_the_command_reads_percentages_and_counts_the_rows_that_it_leaves_out(
    tmp_path: Path, service: Stack, with_server: bool
) -> None:
    rows = [f"{label},{percent}" for label, percent in zip(Y, PERCENT, strict=True)]
    full, gaps = tmp_path / "full.csv", tmp_path / "gaps.csv"
    full.write_text("\n".join(["y,p", *rows, ""]), "utf-8")
    gaps.write_text("\n".join(["y,p", *rows[:5], "1,", ",50", "0,NA", *rows[5:], ""]), "utf-8")

    def run(*arguments: str | Path) -> Result:
        server = service.url if with_server else None
        return invoked(server, *arguments)

    expected = run("evaluate", full, "--scale", "percent", "--json")
    assert json.loads(expected.stdout)["measures"]["brier"]["value"] == pytest.approx(float(np.mean((P - Y) ** 2)))
    dropped = run("evaluate", gaps, "--scale", "percent", "--drop-missing", "--json")
    assert dropped.stdout == expected.stdout
    assert "rows: 3 of 303 left out, as values are missing in 'p', 'y', first in row 6" in dropped.stderr
    assert run("evaluate", gaps, "--scale", "percent").exit_code == 1
    assert run("evaluate", gaps, "--regression", "--drop-missing").exit_code == 2
    assert run("calibrate", gaps, "--drop-missing").exit_code == 2  # whose rows are those of the file
