"""The command ``calibrant coverage``."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli.main import app
from tests.commands import document_of, error_of
from tests.unit.cli.conftest import file_of

FLAGS = ["--prediction", "ant", "--prediction", "bee", "--label", "y"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return file_of(tmp_path / "sets.csv", "y,ant,bee,w\nant,1,0,1\nbee,1,1,2\nbee,0,0,3\nant,0,1,4\n")


def test_sets_of_two_classes_need_not_sum_to_one(table: Path) -> None:
    arguments = ["coverage", str(table), *FLAGS, "--weight", "w", "--weights-kind", "frequency", "--alpha", "0.1"]
    document = document_of(CliRunner().invoke(app, [*arguments, "--json"]))
    evaluation = calibrant.evaluate_sets(
        [["ant"], ["ant", "bee"], [], ["bee"]],
        ["ant", "bee", "bee", "ant"],
        class_names=["ant", "bee"],
        weights=[1, 2, 3, 4],
        weights_kind="frequency",
        alpha=0.1,
    )
    assert document == evaluation.to_dict()
    assert "size-stratified violation" in CliRunner().invoke(app, arguments).stdout


def test_probabilities_are_no_sets(table: Path) -> None:
    table.write_text("y,ant,bee\nant,0.5,0.5\nbee,0.25,0.75\n", "utf-8")
    assert "0 and 1" in error_of(CliRunner().invoke(app, ["coverage", str(table), *FLAGS]))


def test_two_columns_that_are_no_classes_are_still_refused_elsewhere(table: Path) -> None:
    error = error_of(CliRunner().invoke(app, ["evaluate", str(table), *FLAGS]))
    assert "do not sum to 1" in error
