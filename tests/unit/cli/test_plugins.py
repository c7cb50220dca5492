"""Commands that other packages add, and the list of commands."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from calibrant.cli import commands
from calibrant.cli.main import app, own_commands
from tests.commands import error_of

#: A package with two commands, of which one cannot be loaded, and one that has the name of the library's own.
ENTRY_POINTS = """[calibrant.commands]
greet = greeting:greet
broken = greeting:missing
evaluate = greeting:greet
"""
GREETING = '''import typer


def greet(name: str) -> None:
    """Greet someone.

    At length.
    """
    typer.echo(f"Hello {name}")
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "greeting.py").write_text(GREETING)
    metadata = tmp_path / "greeting-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("plugin")
def test_a_command_of_another_package_runs_and_is_listed() -> None:
    completed = CliRunner().invoke(app, ["greet", "Ada"])
    assert (completed.exit_code, completed.stdout) == (0, "Hello Ada\n")
    assert "Greet someone." in CliRunner().invoke(app, ["--help"]).stdout


@pytest.mark.usefixtures("plugin")
def test_a_command_that_cannot_be_loaded_says_so_and_leaves_the_others_as_they_are() -> None:
    assert "evaluate" in CliRunner().invoke(app, ["--help"]).stdout
    error = error_of(CliRunner().invoke(app, ["broken", "--anything", "else"]), 1)
    assert "greeting:missing) cannot be loaded: AttributeError" in error
    assert CliRunner().invoke(app, ["greet", "Ada"]).exit_code == 0


@pytest.mark.usefixtures("plugin")
def test_the_librarys_own_commands_cannot_be_replaced() -> None:
    assert "Measure the calibration of predictions" in CliRunner().invoke(app, ["evaluate", "--help"]).stdout


def test_every_module_of_the_folder_is_a_command_with_the_help_of_the_module() -> None:
    group: Any = typer.main.get_command(app)
    names = [module.name.replace("_", "-") for module in iter_modules(commands.__path__)]
    assert sorted(own_commands()) == names
    for name, text in own_commands().items():
        module = import_module(f"{commands.__name__}.{name.replace('-', '_')}")
        assert group.get_command(None, name).help == text == (module.__doc__ or "").strip()


def test_the_list_of_commands_begins_with_those_about_files() -> None:
    group: Any = typer.main.get_command(app)
    assert group.list_commands(None)[:5] == ["evaluate", "compare", "fit", "calibrate", "report"]


def test_the_list_of_commands_loads_neither_server_nor_numbers() -> None:
    code = (
        "import sys\n"
        "from calibrant.cli.main import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'scipy', 'torch', 'redis', 'rq', 'httpx', 'pydantic', 'fastapi', 'uvicorn', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    listed = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert listed.returncode == 0, listed.stderr
    assert "serve" in listed.stdout


def test_the_command_without_its_extra_prints_the_line_that_installs_it() -> None:
    code = "import sys; sys.modules['typer'] = None; from calibrant.cli import run; run()"
    refused = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "pip install 'calibrant[cli]'" in refused.stderr


@pytest.mark.slow
def test_an_error_of_a_file_is_one_line_where_no_client_is_installed() -> None:
    # A finder that refuses httpx, as an environment without the extra client does.
    code = (
        "import sys\n"
        "class Refused:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'httpx':\n"
        "            raise ModuleNotFoundError('No module named httpx', name=name)\n"
        "sys.meta_path.insert(0, Refused())\n"
        "sys.argv = ['calibrant', 'evaluate', '/nowhere/predictions.csv']\n"
        "from calibrant.cli import run\n"
        "run()\n"
    )
    refused = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "calibrant: /nowhere/predictions.csv: No such file or directory\n"
