"""Rows and reference numbers of clinical models; ``tests/golden/clinical`` names their sources."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.conftest import GOLDEN

FOLDER = GOLDEN / "clinical"
NAMES = ("moderate_n500", "rare_n3000")
#: Numbers of each set of rows that were computed with many digits.
EXACT: dict[str, dict[str, Any]] = json.loads((FOLDER / "exact.json").read_text("utf-8"))


def clinical_rows(name: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Predictions, labels and clusters."""
    p, y, clusters = np.loadtxt(FOLDER / f"{name}.csv", delimiter=",", skiprows=1).T
    return p, y.astype(np.int64), clusters


def numbers_of_r(name: str) -> dict[str, Any]:
    """What R computes of the rows."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return document
