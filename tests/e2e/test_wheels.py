"""Both wheels, built from this tree, installed into environments that hold nothing else of ours, and used there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np
import pytest

from calibrant.client import Calibrant
from tests.serve_command import serve_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
#: What each wheel installs at the top level.
LIBRARY = {"calibrant"}
APPLICATION = {"schemas", "backend", "service", "workers"}


class Wheels(NamedTuple):
    library: Path
    application: Path


class Environment(NamedTuple):
    """A virtual environment, and a folder to work in that is not the repository."""

    root: Path
    packages: Path

    @classmethod
    def create(cls, root: Path) -> Environment:
        venv.EnvBuilder().create(root)
        return cls(root, next(root.glob("lib/python*/site-packages")))

    def install(self, *arguments: str | Path) -> None:
        """Install without an index, by the pip that runs the tests."""
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-index"]
        subprocess.run([*pip, "--quiet", "--disable-pip-version-check", *arguments], check=True, env=self.variables)

    def run(self, code: str, *arguments: str) -> str:
        """What a program prints."""
        command = [self.python, "-P", "-W", "error", "-c", code, *arguments]
        done = subprocess.run(command, cwd=self.root, env=self.variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.root / "bin" / "python")

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables, without those that would show other packages."""
        return {name: setting for name, setting in os.environ.items() if not name.startswith(("PYTHON", "CALIBRANT_"))}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    folder = tmp_path_factory.mktemp("wheels")
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", str(folder), "./library", "."]
    subprocess.run(command, cwd=ROOT, check=True)
    return Wheels(next(folder.glob("calibrant-*.whl")), next(folder.glob("calibrant_server-*.whl")))


def _link(packages: Path, *names: str) -> None:
    """Show these installed distributions in another environment, with their metadata and shared libraries."""
    for name in names:
        package = distribution(name)
        for top in {file.parts[0] for file in package.files or ()} - {".."}:
            (packages / top).symlink_to(Path(str(package.locate_file(top))).resolve())


@pytest.fixture(scope="module")
def library(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The library, where numpy and SciPy are all that is installed beside it; pip checks that it needs no more."""
    environment = Environment.create(tmp_path_factory.mktemp("library"))
    _link(environment.packages, "numpy", "scipy")
    environment.install(wheels.library)
    return environment


@pytest.fixture(scope="module")
def server(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Both wheels; of the packages of the tests' own environment they see all but the editable installs."""
    environment = Environment.create(tmp_path_factory.mktemp("server"))
    environment.install("--no-deps", *wheels)
    # The folder's own .pth files, which name this tree, are not read when a .pth file names the folder.
    others = Path(str(distribution("fastapi").locate_file("")))
    (environment.packages / "others.pth").write_text(str(others), "utf-8")
    return environment


@pytest.mark.parametrize(("wheel", "packages"), [("library", LIBRARY), ("application", APPLICATION)])
def test_a_wheel_holds_its_packages_whole_and_nothing_else(wheels: Wheels, wheel: str, packages: set[str]) -> None:
    folder = ROOT / "library" if wheel == "library" else ROOT
    with ZipFile(getattr(wheels, wheel)) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in held} == packages
    files = [path for package in packages for path in (folder / package).rglob("*") if path.is_file()]
    assert held == {path.relative_to(folder).as_posix() for path in files if path.parent.name != "__pycache__"}


def test_the_library_is_used_with_numpy_and_scipy_alone(library: Environment) -> None:
    code = """
import importlib.metadata, json, sys
import numpy as np
import calibrant

rng = np.random.default_rng(7)
p = rng.random(500)
y = (rng.random(500) < p**2).astype(int)
logits = rng.normal(size=(500, 3))
labels = (logits + rng.normal(size=(500, 3))).argmax(axis=1)

report = calibrant.evaluate(p, y)
assert 0.0 < report.measures["ece"].value < 1.0
for method, predictions, outcomes, scale in (
    ("averaged", p, y, "probability"), ("pl", p, y, "probability"), ("temperature", logits, labels, "logit")
):
    fitted = calibrant.fit(method, predictions, outcomes, scale=scale)
    document = json.loads(json.dumps(fitted.to_document()))
    np.testing.assert_array_equal(calibrant.load(document).apply(predictions), fitted.apply(predictions))
try:
    calibrant.fit("pl", p, y, device="cuda")
except calibrant.MissingExtra as error:
    line = error.detail.rpartition(": ")[2]
print(json.dumps({
    "file": calibrant.__file__,
    "installed": sorted(found.name for found in importlib.metadata.distributions()),
    "line": line,
}))
"""
    state = json.loads(library.run(code))
    assert Path(state["file"]).is_relative_to(library.packages)
    assert state["installed"] == ["calibrant", "numpy", "scipy"]
    assert state["line"] == "pip install 'calibrant[torch]'"


@pytest.fixture
def url(server: Environment) -> Iterator[str]:
    """A server of the wheels: API, worker and store."""
    with (server.root / "log").open("wb") as log:
        command, store = [server.root / "bin" / "calibrant"], ("--data", server.root / "data")
        with serve_command(command, log, *store, cwd=server.root, env=server.variables) as (process, address):
            yield address
            process.terminate()
            assert process.wait(timeout=600) == 0


def test_the_packages_of_the_application_are_those_of_the_wheels(server: Environment) -> None:
    code = "import importlib, json, sys; print(json.dumps([importlib.import_module(n).__file__ for n in sys.argv[1:]]))"
    files = json.loads(server.run(code, *LIBRARY, *APPLICATION))
    assert len(files) == len(LIBRARY | APPLICATION)
    assert all(Path(file).is_relative_to(server.packages) for file in files), files


def test_the_server_of_the_wheels_evaluates_and_fits(url: str) -> None:
    rng = np.random.default_rng(3)
    p = rng.random(200)
    y = (rng.random(200) < p).astype(int)
    with Calibrant(url) as client:
        client.ready()
        batch = client.upload(p, y)
        assert client.evaluate(batch.id, measures=["ece"]).measures["ece"].value is not None
        fitted = client.fit("pl", batch.id, name="kept", timeout=600)
        assert np.asarray(client.calibrate("kept", p)).shape == p.shape
        assert fitted.method == "pl"
