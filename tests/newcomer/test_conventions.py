"""Tasks with files in the conventions of further tools: polars, R, SPSS, RapidMiner, Hugging Face, JSON."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

import calibrant
from tests.newcomer.conftest import Typed


def _ece(typed: Typed, line: str) -> Any:
    """Return the ECE that ``calibrant evaluate`` prints as JSON, to be compared approximately."""
    found = typed(f"{line} --json")
    assert found.exit_code == 0, found.stderr
    return pytest.approx(json.loads(found.stdout)["measures"]["ece"]["value"])


def _expected(frame: Any) -> float:
    return float(calibrant.evaluate(frame["p"].to_numpy(), frame["y"].to_numpy())["ece"])


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
def test_polars_writes_arrow_files(typed: Typed, scores: Any, pets: Any, compression: Any) -> None:
    """Evaluate what ``write_ipc`` of polars writes, also with strings and categories, and calibrate it."""
    pl.from_pandas(scores).write_ipc("scores.feather", compression=compression)
    assert _ece(typed, "calibrant evaluate scores.feather") == _expected(scores)
    frame = pl.from_pandas(pets)
    frame.write_ipc("pets.feather", compression=compression)
    frame.with_columns(pl.col("species").cast(pl.Categorical)).write_ipc("coded.feather", compression=compression)
    expected = float(calibrant.evaluate(pets[["bird", "cat", "dog"]], pets["species"])["ece"])
    assert _ece(typed, "calibrant evaluate pets.feather") == expected
    assert _ece(typed, "calibrant evaluate coded.feather") == expected
    assert typed("calibrant fit coded.feather --method temperature --out map.json").exit_code == 0
    assert typed("calibrant calibrate pets.feather --map map.json --out new.feather").exit_code == 0
    assert pl.read_ipc("new.feather").columns == [*pets.columns, "calibrated_bird", "calibrated_cat", "calibrated_dog"]
