"""The commands in this process, and files as people have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from calibrant.cli.main import app

Run = Callable[..., Result]
#: No server, whatever the environment of the tests says.
ALONE = {"CALIBRANT_SERVER": None, "CALIBRANT_API_KEY": None}


def file_of(path: Path, content: str | bytes) -> Path:
    """The file with this content; text is UTF-8."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def run() -> Run:
    """The command with these arguments, and ``stdin`` if it reads that."""

    def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, env=ALONE)

    return run


@pytest.fixture(scope="session")
def csv_text() -> str:
    """Predictions that are too high, labels and two groups."""
    generator = np.random.default_rng(0)
    p = generator.uniform(size=300)
    y = (generator.uniform(size=300) < p**2).astype(int)
    sites = generator.choice(["north", "south"], size=300)
    rows = [f"r{i},{y[i]},{p[i]:.6f},{sites[i]}" for i in range(300)]
    return "\n".join(["id,y,p,site", *rows, ""])


@pytest.fixture
def csv(csv_text: str, tmp_path: Path) -> Path:
    path = tmp_path / "preds.csv"
    path.write_text(csv_text, encoding="utf-8")
    return path
