"""What flags say: JSON and numbers are as strict as those of the service."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from calibrant.cli.options import read_measures
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize("text", ['{"name": "ece", "name": "ks"}', '{"name": "ece", "x": {"a": 1, "\\u0061": 2}}'])
def test_json_with_a_key_twice_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="a duplicate key"):
        read_measures([text])


@pytest.mark.parametrize(
    ("arguments", "name", "text"),
    [
        (("evaluate", "FILE"), "--interval", "0.9_5"),
        (("evaluate", "FILE"), "--interval", " 0.95"),
        (("evaluate", "FILE"), "--seed", "1_0"),
        (("evaluate", "FILE"), "--seed", "1.0"),
        (("evaluate", "FILE"), "--seed", "+1"),
        (("evaluate", "FILE"), "--resamples", "\u0661"),
        (("fit", "FILE"), "--holdout", "0.2_5"),
        (("monitors", "watch", "m"), "--every", "1_0"),
        (("api",), "--max-rows", "1_000"),
    ],
)
def test_numbers_that_are_not_in_plain_digits_are_refused(
    run: Run, csv: Path, arguments: tuple[str, ...], name: str, text: str
) -> None:
    completed = run(*(csv if argument == "FILE" else argument for argument in arguments), f"{name}={text}")
    assert completed.exit_code == 2
    assert name in completed.output


def test_variables_of_settings_have_plain_digits_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBRANT_MAX_ROWS", "1_000")
    completed = run("api")
    assert completed.exit_code == 2
    assert "--max-rows must be a whole number" in completed.output


def test_numbers_in_plain_digits_are_accepted(run: Run, csv: Path) -> None:
    assert run("evaluate", csv, "--interval", ".9", "--seed", "3", "--resamples", "100").exit_code == 0


def test_an_option_of_a_subcommand_is_given_once(run: Run) -> None:
    completed = run("jobs", "list", "--status", "queued", "--status", "running")
    assert completed.exit_code == 2
    assert "--status takes one value" in completed.output
