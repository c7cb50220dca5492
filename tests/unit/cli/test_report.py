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
from tests.commands import error_of, notes_of, succeeds
from tests.unit.cli.conftest import Run, file_of
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


def page_of(run: Run, path: Path, *flags: str | Path) -> Page:
    output = path.with_name("report.html")
    assert notes_of(run("report", path, *flags, "--out", output)).splitlines()[-1] == f"calibrant: wrote {output}"
    return Page(output.read_text("utf-8"))


def test_a_report_of_logits_is_made_again_by_its_own_lines(run: Run, npz: Path) -> None:
    page = page_of(run, npz, "--scale", "logit", "--weight", "w")
    fitting, command, options, _, python = (block.text for block in page.all("pre"))
    assert json.loads(options)["scale"] == "logit"
    assert "groups" not in python
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
    *_, curl, python = (block.text for block in page_of(run, csv, "--group", "site").all("pre"))
    assert '"predictions", "labels" and "groups"' in curl
    scope: dict[str, Any] = {}
    assert "resamples=1000" in python
    exec(python.replace("resamples=1000", "resamples=100"), scope)
    assert list(scope["report"].groups) == ["north", "south"]


@pytest.mark.parametrize("name", ["r.pdf", "r.json"])
def test_a_report_is_written_only_to_a_file_for_html(run: Run, csv: Path, name: str) -> None:
    output = csv.with_name(name)
    assert f"must end in .html or .htm, not {output.suffix}" in error_of(run("report", csv, "--out", output), 2)
    assert not output.exists()


@pytest.mark.parametrize("name", ["r.HTM", "report"])
def test_a_report_needs_no_suffix(run: Run, csv: Path, name: str) -> None:
    succeeds(run("report", csv, "--out", csv.with_name(name)))
    assert csv.with_name(name).read_text("utf-8").startswith("<!doctype html>")


def test_the_lines_name_the_map_and_the_columns(run: Run, csv: Path, tmp_path: Path) -> None:
    document = tmp_path / "map.json"
    assert run("fit", csv, "--method", "platt", "--out", document).exit_code == 0
    page = page_of(run, csv, "--label", "y", "--prediction", "p", "--map", document)
    scope: dict[str, Any] = {}
    exec(page.all("pre")[-1].text, scope)
    flags = ("--map", document, "--measure", "ece", "--json")
    answer = json.loads(run("evaluate", csv, *flags).stdout)
    assert scope["report"].after["ece"].value == answer["after"]["measures"]["ece"]["value"]


def test_settings_of_the_environment_are_not_in_the_lines(run: Run, csv: Path) -> None:
    page = page_of(run, csv)
    assert "--server" not in page.all("pre")[-3].text


def test_the_report_alone_is_on_standard_output(run: Run, csv: Path) -> None:
    completed = run("report", csv, "--out", "-")
    assert completed.stdout.startswith("<!doctype html>")
    assert "wrote" not in completed.stderr


def test_a_url_with_a_password_is_left_out_of_the_line() -> None:
    lines: list[str] = []
    app = typer.Typer()

    @app.command()
    def show(context: typer.Context, file: str, server: str = "", seed: int = 0) -> None:
        lines.append(command_line(context))

    CliRunner().invoke(app, ["a b.csv", "--server", "https://u:secret@host", "--seed", "3"], prog_name="calibrant")
    assert lines == ["calibrant 'a b.csv' --seed 3"]


# --- Several models


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Two models, and a third with missing predictions."""
    generator = np.random.default_rng(4)
    true = generator.random(400)
    y = (generator.random(400) < true).astype(int)
    rows = [
        f"{y[i]},{true[i]:.4f},{true[i] ** 2:.4f},{'' if i < 5 else f'{true[i] / 2:.4f}'},{'ns'[i % 2]}"
        for i in range(400)
    ]
    return file_of(tmp_path / "scores.csv", "\n".join(["y,model_a,model_b,late,site", *rows, ""]))


MODELS = ("--prediction", "model_a", "--prediction", "model_b")


def test_columns_that_cannot_be_classes_are_compared_as_models(run: Run, scores: Path) -> None:
    page = page_of(run, scores, *MODELS, "--group", "site")
    command, _, curl, python = (block.text for block in page.all("pre"))
    assert shlex.split(command)[2:7] == [str(scores), *MODELS]
    assert '"$CALIBRANT_URL/compare"' in curl
    scope: dict[str, Any] = {}
    exec(python, scope)
    answer = json.loads(run("compare", scores, *MODELS, "--group", "site", "--json").stdout)["comparison"]
    assert answer["measures"]["log-loss"]["ranking"] == ["model_a", "model_b"]
    assert scope["report"].document["comparison"]["measures"]["log-loss"] == answer["measures"]["log-loss"]
    assert page.all("h1")[0].text.startswith("model_a is best by log loss")


def test_models_in_standard_input_are_compared(run: Run, scores: Path, tmp_path: Path) -> None:
    output = tmp_path / "piped.html"
    assert "each P(Y=1) of a model" in notes_of(run("report", "-", *MODELS, "--out", output, stdin=scores.read_bytes()))
    assert "Verdict on the models" in output.read_text("utf-8")


def test_rows_that_a_model_lacks_are_left_out_for_all(run: Run, scores: Path) -> None:
    page = page_of(run, scores, *MODELS, "--prediction", "late", "--drop-missing")
    assert "395" in [fact.text for fact in page.all("bdi")]


def test_columns_that_sum_to_1_stay_classes(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "sums.csv", "y,a,b\n" + "0,0.75,0.25\n1,0.5,0.5\n" * 50)
    page = page_of(run, path, "--prediction", "a", "--prediction", "b")
    assert "Verdict on the models" not in page.all("section")[0].text


def test_columns_that_no_option_names_are_not_compared(run: Run, scores: Path) -> None:
    assert "Verdict" not in run("report", scores, "--out", "-").stdout


def test_a_model_without_a_column_and_a_map_for_models_are_refused(run: Run, scores: Path, tmp_path: Path) -> None:
    missing = run("report", scores, *MODELS, "--prediction", "modle_c")
    assert "has no column 'modle_c'" in error_of(missing, 1)
    fitted = tmp_path / "map.json"
    assert run("fit", scores, "--prediction", "model_a", "--method", "platt", "--out", fitted).exit_code == 0
    assert "--map" in error_of(run("report", scores, *MODELS, "--map", fitted), 2)


@pytest.mark.slow
def test_more_models_than_a_comparison_has_are_refused(run: Run, tmp_path: Path) -> None:
    names = [f"m{i}" for i in range(200)]
    path = tmp_path / "many.csv"
    line = ",".join(["0.5"] * 200)
    path.write_text("\n".join([f"y,{','.join(names)}", *(f"{i % 2},{line}" for i in range(20)), ""]), encoding="utf-8")
    flags = [word for name in names for word in ("--prediction", name)]
    assert "2 to 20 models" in error_of(run("report", path, *flags), 1)


def test_a_report_with_a_map_of_segments_applies_it_to_the_features_of_the_file(run: Run, csv: Path) -> None:
    document = csv.with_name("map.json")
    succeeds(run("fit", csv, "--method", "segments", "--feature", "site", "--out", document))
    page = page_of(run, csv, "--map", document)
    assert any(part.attributes.get("id") == "report-segments" for part in page.elements)
