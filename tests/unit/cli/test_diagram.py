"""Pictures of files, drawn in this process."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import calibrant
from tests.commands import error_of
from tests.unit.cli.conftest import Run

COLUMNS = ("--label", "y", "--prediction", "p")


def _words(svg: bytes) -> str:
    return "".join(ElementTree.fromstring(svg).itertext())


@pytest.mark.parametrize("name", [*calibrant.DIAGRAMS, "by-size"])
def test_every_diagram_is_drawn(run: Run, csv: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / "drawn.svg"
    completed = run("diagram", csv, *COLUMNS, "--diagram", name, "--out", output)
    assert (completed.exit_code, completed.stdout, completed.stderr) == (0, "", "")
    assert "300 rows" in _words(output.read_bytes())


def test_the_end_of_the_name_says_the_format(run: Run, csv: Path, tmp_path: Path) -> None:
    output = tmp_path / "drawn.png"
    assert run("diagram", csv, "--width", "400", "--out", output).exit_code == 0
    assert output.read_bytes().startswith(b"\x89PNG")
    on_standard_output = run("diagram", csv, "--out", "-")
    assert "Reliability diagram" in _words(on_standard_output.stdout_bytes)
    assert "--out" in error_of(run("diagram", csv, "--out", tmp_path / "drawn.gif"), 2)


def test_a_map_is_drawn_before_and_after(run: Run, csv: Path, tmp_path: Path) -> None:
    document, output = tmp_path / "map.json", tmp_path / "drawn.svg"
    assert run("fit", csv, "--method", "platt", "--out", document).exit_code == 0
    assert run("diagram", csv, "--map", document, "--diagram", "corp", "--out", output).exit_code == 0
    assert "before and after" in _words(output.read_bytes())


def test_measures_by_size_are_those_of_the_library(run: Run, csv: Path, csv_text: str) -> None:
    request = '{"name": "by-size", "measures": ["ks"], "start": 50, "start_repetitions": 4}'
    words = _words(run("diagram", csv, "--diagram", request, "--seed", "3", "--out", "-").stdout_bytes)
    rows = [line.split(",") for line in csv_text.splitlines()[1:]]
    p, y = np.array([float(row[2]) for row in rows]), np.array([int(row[1]) for row in rows])
    curve = calibrant.measure_by_size(p, y, measures=["ks"], start=50, start_repetitions=4, seed=3).curves["ks"]
    assert f"300 rows: {curve.full.value:.3f}" in words
    assert f"50 rows: {curve.mean[0]:.3f}" in words


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--diagram", "pie"], "--diagram: must be one of: reliability,"),
        (["--diagram", '{"name": "reliability", "n_bins": 0}'], "--diagram n_bins: must be"),
        (["--diagram", '{"name": "by-size", "start": 300}'], "--diagram start: must be"),
        (["--diagram", '{"name": "by-size", "measures": ["pie"]}'], "--diagram measures: must be one of"),
        (["--diagram", "by-size", "--interval", "0.9"], "--interval: is not an option of by-size"),
        (["--diagram", "cost-plane"], "--diagram: cannot be cost-plane, which needs two models"),
        (["--theme", "pink"], "--theme: "),
        (["--width", "9"], "--width: "),
        (["--reduction", "canonical"], "one event"),
    ],
)
def test_an_impossible_diagram_prints_one_line(
    run: Run, csv: Path, tmp_path: Path, flags: list[str], line: str
) -> None:
    output = tmp_path / "drawn.svg"
    error = error_of(run("diagram", csv, *COLUMNS, *flags, "--out", output), 1)
    assert line in error
    assert error.count("\n") == 1
    assert not output.exists()


def test_a_diagram_that_is_no_json_is_wrong_usage(run: Run, csv: Path) -> None:
    assert "--diagram" in error_of(run("diagram", csv, "--diagram", "{reliability}"), 2)
