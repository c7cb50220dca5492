"""The bins that a map's record keeps, beside the rows that they were made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backend.kinds.classes import map_record
from calibrant.calibrators import FitContext, Fitting
from calibrant.core.batch import read_batch
from calibrant.core.reductions import Event, reduce
from calibrant.diagrams.catalogue import DIAGRAMS, read_diagrams
from calibrant.measures.intervals import PLAIN
from calibrant.plots.reliability import reliability_of
from schemas.maps import FitBins, FitSpec

N = 5_000


def _fit(kind: Any) -> tuple[Event, FitBins]:
    random = np.random.default_rng(3)
    c = random.random(N)
    weights = random.uniform(0.5, 2.0, N) if kind == "importance" else None
    batch = read_batch(c**1.4, (random.random(N) < c).astype(int), weights, kind=kind)
    fitted = Fitting.read("platt", {}, None).run(batch, FitContext(0, "cpu", None))
    spec = FitSpec(method="platt", name=None, options={}, batch="", reduction=None, seed=0)
    bins = map_record("map_0", spec, fitted, batch).bins
    assert bins is not None
    return reduce(batch, "binary"), bins


@pytest.mark.parametrize("kind", ["frequency", "importance"])
def test_joined_bins_are_those_of_the_rows(kind: str) -> None:
    event, bins = _fit(kind)
    drawn = reliability_of(bins.before.model_dump())
    direct = read_diagrams([{"name": "reliability", "n_bins": 20}])[0].drawn(event, PLAIN)["data"]
    # Of weights the borders of 20 and of 100 bins do not meet.
    close = 1e-12 if kind == "frequency" else 0.05
    for name in (
        "start",
        "end",
        "share",
        "mean_prediction",
        "observed_frequency",
        "low",
        "high",
        "roof_start",
        "roof_end",
    ):
        assert drawn[name] == pytest.approx(direct[name], abs=close), name
    assert drawn["rows"] == pytest.approx(direct["rows"], rel=1e-9 if kind == "frequency" else 0.02)
    assert drawn["ece"] == pytest.approx(direct["ece"], rel=1e-9 if kind == "frequency" else 0.1)
    assert sum(drawn["count"]) == N


def test_bins_of_a_fit_have_what_a_reliability_diagram_shows() -> None:
    _, bins = _fit("frequency")
    for side in (bins.before, bins.after):
        assert set(reliability_of(side.model_dump())) == set(DIAGRAMS["reliability"].shown)


def test_few_bins_are_drawn_as_they_are() -> None:
    bins = {
        "start": [0.1, 0.2, 0.9],
        "count": [1, 2, 1],
        "rows": [1.0, 2.0, 1.0],
        "share": [0.25, 0.5, 0.25],
        "mean_prediction": [0.1, 0.2, 0.9],
        "observed_frequency": [0.0, 0.5, 1.0],
    }
    drawn = reliability_of(bins)
    assert list(drawn["count"]) == [1, 2, 1]
    assert drawn["ece"] == pytest.approx(0.2)
