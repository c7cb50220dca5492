"""``calibrant report``: the file that it writes says how it is made again, and what it says is true."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from calibrant.cli.rows import command_line
from tests.commands import error_of
from tests.unit.cli.conftest import Run
from tests.unit.reports.reading import Page


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    """Logits of three classes with weights."""
    generator = np.random.default_rng(3)
    logits = generator.normal(size=(120, 3)) * 3
    labels = np.argmax(logits + generator.gumbel(size=(120, 3)) * 2, axis=1)
    path = tmp_path / "some logits.npz"
    np.savez(path, logits=logits, labels=labels, w=generator.uniform(0.5, 2, size=120))
    return path


def made(run: Run, path: Path, *flags: str | Path) -> Page:
    out = path.with_name("report.html")
    found = run("report", path, *flags, "--out", out)
    assert found.exit_code == 0, found.stderr
    assert found.stderr.splitlines()[-1] == f"calibrant: wrote {out}"
    return Page(out.read_text("utf-8"))


def test_a_report_of_logits_is_made_again_by_its_own_lines(run: Run, npz: Path) -> None:
    page = made(run, npz, "--scale", "logit", "--weight", "w")
    fitting, command, options, _, python = (block.text for block in page.all("pre"))
    assert json.loads(options)["scale"] == "logit"
    terms = {term.text: fact.text for term, fact in zip(page.all("dt"), page.all("dd"), strict=True)}
    assert (terms["Interval"], terms["Resamples"]) == ("95 %", "1000")
    assert "decomposition (method: binned)" in terms["Measures"]
    scope: dict[str, Any] = {}
    exec(python, scope)
    answer = json.loads(run("evaluate", npz, "--scale", "logit", "--weight", "w", "--measure", "ece", "--json").stdout)
    assert scope["report"].measures["ece"].value == answer["measures"]["ece"]["value"]
    exec(fitting, scope)
    assert scope["fitted"].method in fitting
    words = shlex.split(command)
    assert words == ["calibrant", "report", str(npz), "--weight", "w", "--scale", "logit", "--out", words[-1]]
    assert "the predictions are logits" in [fact.text for fact in page.all("bdi")]


@pytest.mark.slow
def test_the_lines_of_a_report_of_groups_have_the_groups(run: Run, csv: Path) -> None:
    *_, curl, python = (block.text for block in made(run, csv, "--group", "site").all("pre"))
    assert '"predictions", "labels" and "groups"' in curl
    scope: dict[str, Any] = {}
    exec(python, scope)
    assert list(scope["report"].groups) == ["north", "south"]
    assert "groups" not in made(run, csv).all("pre")[-1].text


@pytest.mark.parametrize("name", ["r.pdf", "r.json"])
def test_a_report_is_written_only_to_a_file_for_html(run: Run, csv: Path, name: str) -> None:
    out = csv.with_name(name)
    assert f"must end in .html or .htm, not {out.suffix}" in error_of(run("report", csv, "--out", out), 2)
    assert not out.exists()


@pytest.mark.parametrize("name", ["r.HTM", "report"])
def test_a_report_needs_no_suffix(run: Run, csv: Path, name: str) -> None:
    made = run("report", csv, "--out", csv.with_name(name))
    assert made.exit_code == 0, made.stderr
    assert csv.with_name(name).read_text("utf-8").startswith("<!doctype html>")


def test_a_map_and_named_columns_stand_in_the_lines(run: Run, csv: Path, tmp_path: Path) -> None:
    document = tmp_path / "map.json"
    assert run("fit", csv, "--method", "platt", "--out", document).exit_code == 0
    page = made(run, csv, "--label", "y", "--prediction", "p", "--map", document)
    scope: dict[str, Any] = {}
    exec(page.all("pre")[-1].text, scope)
    asked = ("--map", document, "--measure", "ece", "--json")
    answer = json.loads(run("evaluate", csv, *asked).stdout)
    assert scope["report"].after["ece"].value == answer["after"]["measures"]["ece"]["value"]


def test_settings_of_the_environment_are_not_in_the_lines(run: Run, csv: Path) -> None:
    page = made(run, csv)
    assert "--server" not in page.all("pre")[-3].text


def test_on_standard_output_there_is_the_report_alone(run: Run, csv: Path) -> None:
    found = run("report", csv, "--out", "-")
    assert found.stdout.startswith("<!doctype html>")
    assert "wrote" not in found.stderr


def test_a_url_with_a_password_is_left_out_of_the_line() -> None:
    lines: list[str] = []
    app = typer.Typer()

    @app.command()
    def show(context: typer.Context, file: str, server: str = "", seed: int = 0) -> None:
        lines.append(command_line(context))

    CliRunner().invoke(app, ["a b.csv", "--server", "https://u:secret@host", "--seed", "3"], prog_name="calibrant")
    assert lines == ["calibrant 'a b.csv' --seed 3"]
