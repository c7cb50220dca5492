from __future__ import annotations

import numpy as np
import pytest

from calibrant.batch import read_batch
from calibrant.diagrams.catalogue import DIAGRAMS, read_diagrams
from calibrant.diagrams.stored import KeptBins, diagram_of_bins
from calibrant.in_sample import Fit, in_sample
from calibrant.measures.intervals import PLAIN
from calibrant.methods import FitContext, Fitting
from calibrant.reductions import Event, reduce


def _kept(fit: Fit) -> KeptBins:
    bins = fit.bins
    share = bins.mass / bins.mass.sum()
    return KeptBins(bins.start, fit.counts, bins.rows, share, bins.mean_p, bins.mean_y)  # type: ignore[arg-type]


def _sides(n: int, kind: str = "frequency") -> tuple[Event, Fit, Fit]:
    random = np.random.default_rng(3)
    c = random.random(n)
    weights = random.uniform(0.5, 2.0, n) if kind == "importance" else None
    batch = read_batch(c**1.4, (random.random(n) < c).astype(int), weights, kind=kind)  # type: ignore[arg-type]
    fitted = Fitting.read("platt", {}, None).run(batch, FitContext(0, "cpu", None))
    seen = in_sample(batch, fitted)
    return reduce(batch, "binary"), seen.before, seen.after


@pytest.mark.parametrize("kind", ["frequency", "importance"])
def test_joined_bins_are_those_of_the_rows(kind: str) -> None:
    event, before, _ = _sides(5_000, kind)
    drawn = diagram_of_bins(_kept(before))["data"]
    request = read_diagrams([{"name": "reliability", "n_bins": 20}])[0]
    direct = request.drawn(event, PLAIN)["data"]
    # By weight the borders of 20 and of 100 bins are not the same rows.
    close = 1e-12 if kind == "frequency" else 0.05
    for name in ("start", "end", "share", "mean_prediction", "label_share", "low", "high", "roof_start", "roof_end"):
        assert drawn[name] == pytest.approx(direct[name], abs=close), name
    assert drawn["ece"] == pytest.approx(direct["ece"], rel=1e-9 if kind == "frequency" else 0.1)
    assert drawn["rows"] == pytest.approx(direct["rows"], rel=1e-9 if kind == "frequency" else 0.05)
    assert sum(drawn["count"]) == 5_000


def test_a_diagram_of_bins_has_every_field_of_the_diagram_of_rows() -> None:
    _, before, after = _sides(300)
    for side in (before, after):
        shown = diagram_of_bins(_kept(side))
        assert set(shown["data"]) == set(DIAGRAMS["reliability"].shown)
        assert (
            shown["definition"]
            == read_diagrams([{"name": "reliability", "n_bins": 20}])[0].drawn(
                reduce(read_batch([0.2, 0.8], [0, 1]), "binary")
            )["definition"]
        )


def test_the_histogram_holds_all_the_mass_and_is_off_by_the_bins_at_its_ends_at_most() -> None:
    event, before, _ = _sides(5_000)
    bars = diagram_of_bins(_kept(before))["data"]["histogram"]
    assert sum(bars["share"]) == pytest.approx(1.0)
    direct, _ = np.histogram(event.p, bars["edges"])
    assert np.abs(np.asarray(bars["count"]) - direct).max() <= 2 * 5_000 / 100


def test_few_bins_are_drawn_as_they_are() -> None:
    one = KeptBins([0.3], [1], [1.0], [1.0], [0.3], [1.0])
    shown = diagram_of_bins(one)["data"]
    assert (shown["start"], shown["end"], shown["ece"]) == ([0.0], [1.0], pytest.approx(0.7))
    three = KeptBins([0.1, 0.2, 0.9], [1, 2, 1], [1.0, 2.0, 1.0], [0.25, 0.5, 0.25], [0.1, 0.2, 0.9], [0, 0.5, 1])
    assert diagram_of_bins(three)["data"]["count"] == [1.0, 2.0, 1.0]
