"""Data of a newcomer, an empty folder, and a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import calibrant
from calibrant.cli.main import app
from tests.commands import document_of

Typed = Callable[[str], Result]


def values_of(typed: Typed, line: str) -> dict[str, float]:
    """Run a line that evaluates, and return the value of each measure."""
    document = document_of(typed(f"{line} --json"))
    return {name: measure["value"] for name, measure in document["measures"].items()}


def commands_of(message: str) -> list[str]:
    """Return the commands that an error prints."""
    return re.findall(r"^  (calibrant .+)$", message, re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def typed() -> Typed:
    """Run a line of the command line: ``typed("calibrant evaluate scores.csv")``."""

    def typed(line: str) -> Result:
        alone = {"CALIBRANT_SERVER": None, "CALIBRANT_API_KEY": None}
        return CliRunner().invoke(app, shlex.split(line)[1:], env=alone)

    return typed


@pytest.fixture
def scores() -> Any:
    """A frame of 600 rows: labels ``y`` of 0 and 1, probabilities ``p`` that are too high, ``site`` and ``sex``."""
    random = np.random.default_rng(0)
    p = random.uniform(size=600)
    y = (random.uniform(size=600) < p**2).astype(int)
    columns = {"site": random.choice(["north", "south"], 600), "sex": random.choice(["f", "m"], 600)}
    return pd.DataFrame({"y": y, "p": p, **columns})


@pytest.fixture
def ece(scores: Any) -> Any:
    """The ECE of the scores in the library, approximately."""
    return pytest.approx(calibrant.evaluate(scores["p"].to_numpy(), scores["y"].to_numpy())["ece"].value)


@pytest.fixture
def pets() -> Any:
    """A frame of 600 rows: probabilities of ``bird``, ``cat`` and ``dog``, and the ``species``."""
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), size=600)
    species = [random.choice(["bird", "cat", "dog"], p=row) for row in p]
    return pd.DataFrame(p, columns=["bird", "cat", "dog"]).assign(species=species)
