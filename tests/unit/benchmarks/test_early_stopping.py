"""PL trained by Adam: the paper's own network on the golden batch, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.tables.datasets import dataset
from benchmarks.tables.network import FITS, compared, difference, page, trained
from calibrant.core.validation import fold_of_rows

pytestmark = pytest.mark.slow

REFERENCE = json.loads((Path(__file__).parents[2] / "golden" / "pl_reference.json").read_text("utf-8"))


def test_the_held_out_scores_are_those_of_the_published_network(golden: dict[str, Any]) -> None:
    p, y = np.array(golden["p"]), np.array(golden["y"], np.float64)
    fold = fold_of_rows(len(p), 10, 0)
    outside = np.array([np.flatnonzero(fold != k) for k in range(10)])
    for pieces, (knots, heights) in zip((1, 3), trained(p[outside], y[outside], (1, 3), "log-loss"), strict=True):
        scores = [np.mean((np.interp(p[fold == k], knots[k], heights[k]) - y[fold == k]) ** 2) for k in range(10)]
        assert np.mean(scores) == pytest.approx(REFERENCE["pl"]["scores"][pieces - 1], abs=1e-5)


def test_the_network_comes_near_the_loss_of_the_librarys_fit() -> None:
    rows = dataset("beta1", "0.050", 400, 0)
    fits = compared(("beta1", "0.050", 400, 0))
    assert fits["truth"] == pytest.approx(np.abs(rows.p - rows.c).mean())
    assert fits["Adam, same pieces"]["loss"] == pytest.approx(fits["least squares"]["loss"], abs=5e-4)
    assert fits["Adam, same pieces"]["pieces"] == fits["least squares"]["pieces"]
    assert fits["Adam"]["pieces"] <= fits["Adam, no rule"]["pieces"]


def test_the_page_has_every_fit_for_every_size() -> None:
    def record(off: float) -> dict[str, Any]:
        optimal = {"pieces": 2, "loss": 0.2, "error": 0.05 + off, "distance": 0.01}
        worse = {**optimal, "loss": 0.3, "error": 0.06}
        return {"truth": 0.05, **dict.fromkeys(FITS, worse), "least squares": optimal}

    draws = ((1_000, 0.002), (3_000, -0.004))
    records = {("stairs", "0.050", n, seed): record(off) for n, off in draws for seed in (0, 1)}
    assert difference(records) == pytest.approx((7.0, 0.0), abs=1e-9)
    text = page(records)
    assert "| 1,000 | least squares | 2.0 | 0.200000 | 10.00 | 2.00 | +2.00 |" in text
    assert "| 3,000 | Adam | 2.0 | 0.300000 | 10.00 | 10.00 | +10.00 |" in text
    assert "| all |" not in text  # sizes have different numbers of datasets, and the same weight in the mean
    assert "on 100% of the" in text
    assert "is +7.00 from the" in text
    more = records | {("stairs", "0.075", 1_000, seed): record(0.002) for seed in (0, 1)}
    assert difference(more) == pytest.approx((7.0, 0.0), abs=1e-9)
    assert "10,000 |" not in text
