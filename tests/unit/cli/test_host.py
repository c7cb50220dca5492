"""The maps that ``calibrant host`` serves, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import calibrant
from service.hosts.files import UnusableMap, read_maps
from tests.unit.cli.conftest import Run

MAP = calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])


def _save(folder: Path, *names: str) -> list[Path]:
    for name in names:
        MAP.save(folder / name)
    return [folder / name for name in names]


def test_maps_have_the_names_of_their_files_or_those_of_the_option(tmp_path: Path) -> None:
    files = _save(tmp_path, "spam.json", "churn.v2.json")
    assert {name: held.named for name, held in read_maps(files).items()} == {
        name: {"map": name, "version": None} for name in ("spam", "churn.v2")
    }
    assert list(read_maps(files, ["a", "b"])) == ["a", "b"]


def test_a_folder_is_every_file_of_json_in_it(tmp_path: Path) -> None:
    _save(tmp_path, "b.json", "a.json")
    (tmp_path / "model.tar.gz").touch()
    assert list(read_maps([tmp_path])) == ["a", "b"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["my map.json"], "a map's name is at most 64"),
        (["map_1.json"], "does not begin with map_"),
        (["a.json", "other/a.json"], "another map has the name a"),
    ],
)
def test_a_file_whose_name_no_map_may_have_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(UnusableMap, match=message):
        read_maps(_save(tmp_path, *names))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "spam", '{"method": 1}', json.dumps(MAP.to_document() | {"parameters": {"x": [0.1], "y": [7]}})],
)
def test_a_file_that_is_not_a_map_is_refused(tmp_path: Path, text: str) -> None:
    (file := tmp_path / "spam.json").write_text(text, encoding="utf-8")
    with pytest.raises(UnusableMap, match=r"spam\.json is not a map"):
        read_maps([file])


def test_the_command_ends_with_status_2_and_the_reason(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spam,) = _save(tmp_path, "spam.json")
    (empty := tmp_path / "empty").mkdir()
    for arguments, message in (
        ([], "Missing argument 'FILE'"),
        ([tmp_path / "none.json"], "none.json cannot be read: No such file or directory"),
        ([empty], "empty has no file *.json"),
        ([spam, "--name", "a", "--name", "b"], "there are 1 maps and 2 names"),
        (["serve"], "/opt/ml/model cannot be read"),
    ):
        completed = run("host", *arguments)
        assert (completed.exit_code, message in re.sub(r"[│\s]+", " ", completed.output)) == (2, True), completed.output
    for variable, text in (("AIP_HTTP_PORT", "80x"), ("AIP_PREDICT_ROUTE", "predict")):
        with monkeypatch.context() as patched:
            patched.setenv(variable, text)
            assert run("host", spam).exit_code == 2
