"""Documents of maps of predictive distributions of earlier versions are read, and give the same results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calibrant

STORED = sorted((Path(__file__).parent / "stored").glob("distribution-v1-*.json"))


def test_every_method_has_a_stored_document() -> None:
    stored = {path.name.removeprefix("distribution-v1-").split(".")[0] for path in STORED}
    assert stored == set(calibrant.DISTRIBUTION_METHODS)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_document_gives_the_same_results(path: Path) -> None:
    stored = json.loads(path.read_text("utf-8"))
    fitted = calibrant.load_distribution(stored["document"])
    assert fitted.to_document() == stored["document"]
    found = fitted.apply(by=stored["by"], **stored["forecasts"])
    for name, values in stored["calibrated"].items():
        np.testing.assert_allclose(getattr(found, name), values, rtol=1e-12, atol=1e-12)
