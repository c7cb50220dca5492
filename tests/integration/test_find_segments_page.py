"""The guide to segments: its programs run in order, and print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from calibrant.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "find-segments.md"
_BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


@pytest.mark.slow
def test_the_guide_to_segments_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, program, expected in _BLOCK.findall(PAGE.read_text("utf-8")):
        if language == "python":
            exec(program, names)
            assert capsys.readouterr().out == expected
            continue
        for line in program.splitlines():
            outcome = CliRunner().invoke(app, shlex.split(line)[1:])
            assert outcome.exit_code == 0, outcome.output
    assert "report-segments" in Path("report.html").read_text("utf-8")
