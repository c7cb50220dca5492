"""Measures by test set size: the records of one small file, and the page."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

import calibrant
from benchmarks import by_size
from benchmarks.by_size import DRAWN, Curves, SizeFigure, bound, departures, draw, page, run
from benchmarks.laws import ImpossibleFigure

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def curves_of(tmp_path_factory: pytest.TempPathFactory) -> dict[SizeFigure, Curves]:
    random = np.random.default_rng(0)
    logits = 4.0 * random.standard_normal((1_200, 3))
    labels = (logits / 3.0 + random.gumbel(size=logits.shape)).argmax(axis=1)
    path = tmp_path_factory.mktemp("data") / "cifar.npz"
    np.savez(path, logits=logits, labels=labels)
    figures = [SizeFigure("cifar", *kind) for kind in product(DRAWN, (False, True))]
    by_figure = {f: run(path, f, repetitions=1_600, kernel_repetitions=16 if f.squared else None) for f in figures}
    return {figure: json.loads(json.dumps(curves)) for figure, curves in by_figure.items()}


def test_only_the_brier_score_improves_by_the_same_at_every_size(curves_of: dict[SizeFigure, Curves]) -> None:
    curves = curves_of[SizeFigure("cifar", "temperature", True)]
    far = departures(curves)
    assert far["root Brier"] < bound(curves) < far["ECE"]


def test_few_subsets_do_not_make_a_departure_certain() -> None:
    random = np.random.default_rng(0)
    largest = []
    for _ in range(400):
        drawn = [random.standard_normal(4) for _ in range(9)]
        curve: Curves = {
            "mean": [shares.mean() for shares in drawn] + [0.0],
            "standard_deviation": [shares.std(ddof=1) for shares in drawn] + [0.0],
            "full": {"value": 0.0},
        }
        largest.append(departures({"sizes": range(10), "repetitions": [4] * 9 + [1], "curves": {"x": curve}})["x"])
    share = np.mean(np.array(largest) > bound({"sizes": range(10)}))
    assert 0.01 < share < 0.09


def test_the_bound_is_that_of_nine_sizes(curves_of: dict[SizeFigure, Curves]) -> None:
    assert bound(curves_of[SizeFigure("cifar", "", False)]) == pytest.approx(2.77, abs=0.01)


def test_the_bins_are_those_that_the_page_names(
    curves_of: dict[SizeFigure, Curves], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = next(tmp_path_factory.getbasetemp().glob("data*/cifar.npz"))
    with np.load(path) as arrays:
        held_out = np.array_split(np.random.default_rng(0).permutation(len(arrays["labels"])), 2)[1]
        logits, labels = arrays["logits"][held_out], arrays["labels"][held_out]
    equal_width = {"name": "ece", "binning": "equal-width", "n_bins": 15, "closed": "right"}
    measures: list[Any] = [equal_width, {**equal_width, "name": "tce", "n_bins": 100}]
    report = calibrant.evaluate(logits, labels, scale="logit", reduction="confidence", measures=measures)
    curves = curves_of[SizeFigure("cifar", "", False)]["curves"]
    for name in ("ece", "tce"):
        assert curves[name.upper()]["full"]["value"] == pytest.approx(report[name].value, abs=1e-12)
    assert "ECE has 15 and TCE 100 equal-width bins, closed on the right" in page(curves_of, {})


def test_an_impossible_error_is_no_record() -> None:
    curve = SimpleNamespace(mean=(0.1, 1.2), standard_deviation=(0.0, 0.0), lost=(0, 0), full=None)
    with pytest.raises(ImpossibleFigure):
        by_size._stored(curve)


def test_departures_are_normal_deviates_of_students_t() -> None:
    curve = {"mean": [0.3, 0.1], "standard_deviation": [0.4, 0.0], "full": {"value": 0.1}}
    of_less = curve | {"repetitions": [4, 1]}
    assert departures({"sizes": [1, 2], "repetitions": [16, 1], "curves": {"ECE": curve, "KDE": of_less}}) == {
        "ECE": pytest.approx(norm.isf(student.sf(2.0, 15)), abs=0.01),
        "KDE": pytest.approx(norm.isf(student.sf(1.0, 3)), abs=0.01),
    }


def test_the_page_has_every_figure_and_a_picture(
    curves_of: dict[SizeFigure, Curves], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_size, "PICTURES", tmp_path)
    pictures = {figure: draw(figure, curves) for figure, curves in curves_of.items()}
    assert len(list(tmp_path.glob("*.svg"))) == 4
    text = page(curves_of, pictures)
    assert all(f"Figure {number}: " in text for number in ("5", "6", "7, first row", "7, second row"))
    assert "| Brier |" in text
    assert "within the bound in 1 of 1 cases" in text
    exceeds = departures(curves_of[SizeFigure("cifar", "temperature", True)])["KDE"] > bound(
        next(iter(curves_of.values()))
    )
    assert f"KDE in {int(exceeds)} of 1." in text
    assert text.count("| KDE |") == 2
    assert "nan" not in text
