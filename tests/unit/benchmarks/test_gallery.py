"""The gallery: the papers' pictures look as they did, show what they say, and the page shows all of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image

import calibrant
from benchmarks.gallery.__main__ import DOCS
from benchmarks.gallery.entries import ENTRIES
from benchmarks.gallery.orders import KEPT, MEASURES, TRUTH
from benchmarks.gallery.own import simulated_ece
from benchmarks.gallery.worlds import fitted, of_the_paper, same_bars
from benchmarks.records import load
from tests.unit.benchmarks.gallery_images import FOLDER, SHOWN, drawn
from tests.unit.plots.likeness import alike, halved, pixels, unlike

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_of_the_gallery_looks_as_its_golden_image_does(name: str) -> None:
    picture = pixels(halved(drawn(SHOWN[name])))
    with Image.open(FOLDER / f"{name}.png") as image:
        golden = pixels(image)
    assert picture.shape == golden.shape
    assert alike(picture, golden), f"{unlike(picture, golden)} pixels differ: make pictures-golden, and look"


def test_the_page_shows_every_picture_with_words_for_it() -> None:
    page = (DOCS / "reference" / "gallery.md").read_text("utf-8")
    shown = re.findall(r'<img src="../pictures/gallery/([a-z0-9-]+)\.svg" width="\d+" alt="([^"]{80,})">', page)
    assert {name for name, _ in shown} == {entry.name for entry in ENTRIES}
    assert all((DOCS / "pictures" / "gallery" / f"{name}.svg").stat().st_size < 150_000 for name, _ in shown)


def test_the_bars_are_the_same_and_the_errors_are_not() -> None:
    shares, errors = [], []
    for output in same_bars():
        requests = [{"name": "reliability", "binning": "equal-width", "n_bins": 5}]
        report = calibrant.evaluate(output.p, output.y.astype(np.int64), measures=["ks"], diagrams=requests)
        points = report.diagrams["reliability"]["data"]
        shares.append(points["observed_frequency"])
        errors.append(round(points["ece"], 3))
    assert np.allclose(shares, shares[0])
    assert errors == [0.010, 0.064, 0.013]


def test_roofs_of_slope_1_have_the_error_of_the_bins_and_flat_ones_another() -> None:
    rows, cut = of_the_paper(), {"binning": "equal-width", "n_bins": 10}
    ece = calibrant.evaluate(rows.p, rows.y, measures=[{"name": "ece", **cut}]).measures["ece"].value
    unit, flat = (fitted(rows, "histogram", {**cut, "slope": slope}).error for slope in ("unit", "flat"))
    assert unit == pytest.approx(ece, abs=1e-12)
    assert flat > unit + 0.001


def test_few_rows_hide_which_simulated_model_is_calibrated() -> None:
    curves = {name: curve.mean for name, curve in simulated_ece().curves.items()}
    assert [round(mean[0] or 0.0, 3) for mean in curves.values()] == [0.07, 0.077, 0.088]
    assert [round(mean[-1] or 0.0, 3) for mean in curves.values()] == [0.011, 0.045, 0.066]


def test_the_bins_of_the_papers_rows_have_the_printed_errors() -> None:
    """Section 5 prints an error off by 0.0024 and a distance of 0.0398, and section 3 a bar of 0.08 at 0.02."""
    rows = of_the_paper()
    fit = fitted(rows, "ew-cv")
    assert fit.parts == 14
    assert round(abs(fit.error - float(np.abs(rows.p - rows.c).mean())), 4) == 0.0024
    assert round(fit.away, 4) == 0.0398
    diagram = {"name": "reliability", "binning": "equal-width", "n_bins": 10}
    bins = calibrant.evaluate(rows.p, rows.y, measures=["ks"], diagrams=[diagram]).diagrams["reliability"]["data"]
    assert [int(100 * bins[name][0]) / 100 for name in ("observed_frequency", "mean_prediction")] == [0.08, 0.02]


def test_pl_has_three_pieces_of_the_papers_rows() -> None:
    """The paper's network has 0.0045 and 0.0204: a fit by least squares is near it, and not the same."""
    rows = of_the_paper()
    fit = fitted(rows, "pl")
    assert fit.parts == 3
    assert abs(fit.error - float(np.abs(rows.p - rows.c).mean())) == pytest.approx(0.0045, abs=0.001)
    assert fit.away == pytest.approx(0.0204, abs=0.001)


def test_pl3_has_two_pieces_as_in_the_paper() -> None:
    rows = of_the_paper()
    report = calibrant.evaluate(
        rows.p, rows.y, measures=["ece-pl3"], diagrams=[{"name": "logit-logit", "method": "pl3"}]
    )
    assert report.measures["ece-pl3"].definition["pieces"] == 2
    shown = report.diagrams["logit-logit"]["data"]
    assert 0.0 < shown["end_slope"] < shown["start_slope"] < 1.0  # overconfident at both ends


def test_every_output_is_ordered_by_the_truth_and_by_every_measure() -> None:
    orders = load(KEPT, "make gallery-orders", older=True)
    assert len(orders) == 3
    assert all(set(measures) == {TRUTH, *MEASURES} for outputs in orders.values() for measures in outputs.values())
