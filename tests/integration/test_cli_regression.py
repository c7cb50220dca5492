"""The commands for predictive distributions with a server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from service.stack import Stack
from tests.commands import same_output, succeeded

N = 240


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    random = np.random.default_rng(3)
    mean, std = random.normal(size=N).round(3), random.uniform(0.5, 1.5, N).round(3)
    observed = (mean + 1.6 * std * random.standard_normal(N)).round(3)
    rows = zip(observed, mean, std, ["a", "b"] * (N // 2), range(N), strict=True)
    path = tmp_path / "forecasts.csv"
    path.write_text("\n".join(["observed,mean,std,site,day", *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.slow
def test_an_evaluation_is_the_same_with_a_server(service: Stack, csv: Path) -> None:
    asked = ("evaluate", csv, "--regression", "--group", "site", "--interval", "0.9", "--seed", "3")
    assert same_output(service.url, *asked) != ""


def test_coverage_by_a_column_is_the_same_with_a_server(service: Stack, csv: Path) -> None:
    request = json.dumps({"name": "conditional-coverage", "by": "column", "n_bins": 4})
    asked = ("evaluate", csv, "--regression", "--by", "day", "--measure", request, "--json")
    measure = json.loads(same_output(service.url, *asked))["measures"]["conditional-coverage"]
    assert measure["parts"]["name"] == ["0 to 59", "60 to 119", "120 to 179", "180 to 239"]


def test_a_map_of_a_server_is_fitted_applied_and_evaluated(service: Stack, csv: Path, tmp_path: Path) -> None:
    local = tmp_path / "map.json"
    succeeded(None, "fit", csv, "--regression", "--method", "variance-scaling", "--out", local)
    fit = ("fit", csv, "--regression", "--method", "variance-scaling", "--name", "narrow-forecasts", "--holdout", "0.5")
    fitted = succeeded(service.url, *fit)
    assert fitted.stdout.startswith("narrow-forecasts:")
    assert "held-out" in fitted.stderr
    whole = succeeded(service.url, "fit", csv, "--regression", "--method", "variance-scaling").stdout.strip()
    here = succeeded(None, "calibrate", csv, "--map", local)
    assert succeeded(service.url, "calibrate", csv, "--map", whole).stdout == here.stdout
    asked = ("evaluate", csv, "--regression", "--group", "site", "--measure", "crps", "--json", "--map")
    by_server, by_file = (
        json.loads(succeeded(url, *asked, ref).stdout) for url, ref in ((service.url, whole), (None, str(local)))
    )
    assert by_server["after"]["measures"] == by_file["after"]["measures"]
    for name, group in by_file["groups"].items():
        assert by_server["groups"][name]["after"] == group["after"]
        assert by_server["groups"][name]["measures"] == group["measures"]
    assert by_server["in_sample"] is True


@pytest.mark.slow
def test_a_diagram_and_a_report_come_from_the_server(service: Stack, csv: Path, tmp_path: Path) -> None:
    for name in ("pit", "fan"):
        output = tmp_path / f"{name}.svg"
        succeeded(service.url, "diagram", csv, "--regression", "--diagram", name, "--time", "day", "--out", output)
        assert output.read_bytes().startswith(b"<svg")
    output = tmp_path / "report.html"
    succeeded(service.url, "report", csv, "--regression", "--out", output)
    page = output.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert re.search("intervals contain", page)
