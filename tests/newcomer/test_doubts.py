"""Tasks with files that another reading would fit too: a wrong one is never taken without a word."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.newcomer.conftest import Typed


@pytest.mark.parametrize("gap", ["", ".", "-", "NULL", "\\N", "unknown", "#VALUE!", "-9", "99"])
def test_a_label_with_gaps_is_offered_beside_another_flag(typed: Typed, scores: Any, gap: str) -> None:
    """Evaluate predictions of an outcome that some rows lack, beside a feature of 0 and 1."""
    died = scores["y"].astype(str).mask(scores.index % 9 == 0, gap)
    frame = pd.DataFrame({"died": died, "female": (scores["sex"] == "f").astype(int), "p": scores["p"]})
    frame.to_csv("patients.csv", index=False)
    refused = typed("calibrant evaluate patients.csv")
    assert refused.exit_code == 2
    assert re.findall(r"calibrant evaluate patients.csv --label \w+", refused.stderr) == [
        f"calibrant evaluate patients.csv --label {name}" for name in ("died", "female")
    ]
    assert typed("calibrant evaluate patients.csv --label died").exit_code == 1
    assert typed("calibrant evaluate patients.csv --label female").exit_code == 0


def test_names_of_classes_with_gaps_are_the_labels(typed: Typed, pets: Any) -> None:
    """Evaluate columns of three classes whose label is missing in some rows, beside a flag."""
    frame = pets.assign(species=pets["species"].mask(pets.index % 9 == 0, "."), tagged=np.arange(600) % 2)
    frame.to_csv("pets.csv", index=False)
    refused = typed("calibrant evaluate pets.csv")
    assert refused.exit_code == 1
    assert "missing in 67 rows of column 'species'" in refused.stderr
