"""The number of rows that a validation needs: the call, the methods of the clients and the command."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from tests.commands import invoked, succeeded
from tests.integration.responses import problem_of


def _printed(*arguments: str | Path) -> dict[str, object]:
    printed = succeeded(None, "sample-size", *arguments, "--json")
    return dict(json.loads(printed.stdout))


def test_the_call_the_client_and_the_command_agree_with_the_function(http: httpx.Client, client: Calibrant) -> None:
    expected = calibrant.sample_size(logit_normal=(-2.0, 1.0), oe_width=0.3)
    query = {"logit_mean": -2.0, "logit_sd": 1.0, "oe_width": 0.3}
    answer = http.get("/sample-size", params=query).json()
    assert answer["measures"] == expected.measures
    assert answer["n"] == expected.n == client.sample_size(logit_mean=-2.0, logit_sd=1.0, oe_width=0.3).n
    assert _printed("--logit-normal", "-2", "1", "--oe-width", "0.3") == answer


def test_the_command_reads_predictions_from_a_file_without_labels(tmp_path: Path) -> None:
    p = np.random.default_rng(0).beta(2.0, 8.0, 500).round(6)
    file = tmp_path / "p.csv"
    np.savetxt(file, p, header="p", comments="")
    assert _printed(file)["measures"] == calibrant.sample_size(p).measures
    assert _printed("--prevalence", "0.02")["measures"] == calibrant.sample_size(prevalence=0.02).measures


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"prevalence": "0.1", "beta_a": "1", "beta_b": "2"},
        {"logit_mean": "1"},
        {"prevalence": "0.1", "logit_sd": "1"},
    ],
)
def test_other_than_one_description_of_the_predictions_is_refused(http: httpx.Client, query: dict[str, str]) -> None:
    response = http.get("/sample-size", params=query)
    assert problem_of(response) == (422, "invalid-field", "?")
    assert response.json()["detail"].startswith("the query: give prevalence")


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"prevalence": "1"}, "prevalence"),
        ({"prevalence": "nan"}, "prevalence"),
        ({"prevalence": "5e-324"}, "prevalence"),
        ({"logit_mean": "inf", "logit_sd": "1"}, "logit_mean"),
        ({"prevalence": "0.1", "level": "0"}, "level"),
        ({"prevalence": "0.1", "widths": "1"}, "widths"),
        ({"logit_mean": "-9999", "logit_sd": "1"}, "logit_mean"),
        ({"beta_a": "1e300", "beta_b": "1e-300"}, "beta_a"),
        ({"beta_a": "5e-324", "beta_b": "5e-324"}, "beta_a"),
        ({"prevalence": "1e-300"}, "prevalence"),
        ({"prevalence": "0.1", "oe_width": "5e-324"}, "oe_width"),
        ({"logit_mean": "0", "logit_sd": "1", "slope_width": "0.0000001"}, "slope_width"),
    ],
)
def test_invalid_values_are_refused_by_name(http: httpx.Client, query: dict[str, str], parameter: str) -> None:
    status, _, named = problem_of(http.get("/sample-size", params=query))
    assert (status, named) == (422, f"?{parameter}")


@pytest.mark.parametrize("arguments", [[], ["--prevalence", "0.1", "--beta", "1", "2"]])
def test_the_command_needs_one_description_of_the_predictions(arguments: list[str]) -> None:
    assert invoked(None, "sample-size", *arguments).exit_code == 2
