"""Diagrams of the data that there are in the world: few rows, many rows, all alike, without what they usually have."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import calibrant
from calibrant.core.batch import read_batch
from calibrant.diagrams.in_sample import in_sample
from calibrant.plots import by_size
from calibrant.plots.by_size import draw_by_size, look
from calibrant.plots.canvas import Caption, InvalidPicture, NothingToDraw, UnknownPicture
from calibrant.plots.cost_plane import draw_cost_plane
from calibrant.plots.diagram import MOST, PLOTS, draw, draw_several
from calibrant.plots.reliability import draw_fit_bins, reliability_of
from tests.unit.plots.specimens import PLAIN, N, diagram, fit_bins, piecewise, plane, rows, sizes

NONE: dict[str, Any] = {"data": None, "definition": {}, "problem": "too few rows"}
RANDOM = np.random.default_rng(3)
BATCHES: dict[str, tuple[Any, Any]] = {
    "one row": ([0.7], [1]),
    "two rows": ([0.2, 0.9], [0, 1]),
    "all equal": ([0.3] * 50, [0, 1] * 25),
    "all zero": ([0.0] * 20, [0] * 20),
    "all one": ([1.0] * 20, [1] * 20),
    "all one and wrong": ([1.0] * 20, [0] * 20),
    "zeros and ones": ([0.0, 1.0] * 30, [0, 1, 1] * 20),
    "one class": (np.linspace(0.01, 0.99, 40), [1] * 40),
    "rare": (RANDOM.random(3000) * 0.004, (RANDOM.random(3000) < 0.002).astype(int)),
    "sure": (1 - RANDOM.random(3000) * 1e-9, np.ones(3000, dtype=int)),
    "tiny": (RANDOM.random(100) * 1e-300, [0, 1] * 50),
    "many": (RANDOM.random(200_000) ** 2, (RANDOM.random(200_000) < 0.3).astype(int)),
}


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCHES)
def test_every_diagram_that_there_is_of_a_batch_is_drawn(batch: str) -> None:
    p, y = BATCHES[batch]
    requests: list[str | dict[str, Any]] = [
        *(name for name in PLOTS if name != "fit-on-test"),
        {"name": "fit-on-test", "method": "histogram"},
        {"name": "reliability", "n_bins": 1, "as": "one bin"},
        {"name": "reliability", "n_bins": 200, "binning": "equal-width", "as": "many bins"},
        {"name": "logit-logit", "n_bins": 1, "as": "one logit"},
    ]
    report = calibrant.evaluate(p, y, measures=["brier"], diagrams=requests, reduction="binary")
    about = Caption(len(p), "binary")
    drawn = 0
    for key, shown in (report.diagrams or {}).items():
        name = shown["definition"]["name"]
        if shown["data"] is None:
            with pytest.raises(NothingToDraw):
                draw(name, shown, about)
            continue
        drawn += 1
        for after in (None, (shown, about)):
            assert b"nan" not in draw(name, shown, about, after=after).content, key
        assert draw(name, shown, about, form="png", width=320).content
    assert drawn >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", PLOTS)
def test_a_diagram_without_data_is_not_drawn_and_says_why(name: str) -> None:
    with pytest.raises(NothingToDraw, match="too few rows"):
        draw(name, NONE, PLAIN)
    with pytest.raises(NothingToDraw, match="too few rows"):
        draw(name, diagram(name), PLAIN, after=(NONE, PLAIN))
    with pytest.raises(NothingToDraw):
        draw_several(name, [(NONE, PLAIN)])


@pytest.mark.parametrize("name", ["reliability", "logit-logit", "corp", "fit-on-test"])
def test_a_diagram_without_intervals_is_drawn_with_its_problem(name: str) -> None:
    shown = copy.deepcopy(dict(diagram(name)))
    for part in ("low", "high", "band_p", "band_low", "band_high"):
        if part in shown["data"]:
            shown["data"][part] = None
    shown["problem"] = "no intervals: the probabilities of one row are dependent"
    drawn = draw(name, shown, PLAIN)
    assert ">no intervals: the probabilities of one row are dependent<" in drawn.content.decode()
    assert "no intervals" in drawn.alt
    assert "95 %" not in drawn.content.decode()
    assert draw(name, shown, PLAIN, after=(shown, PLAIN)).content


def test_a_platt_line_that_there_is_not_is_not_drawn() -> None:
    shown = copy.deepcopy(dict(diagram("logit-logit")))
    shown["data"]["slope"] = shown["data"]["intercept"] = None
    drawn = draw("logit-logit", shown, PLAIN)
    assert "Platt" not in drawn.content.decode().partition("</desc>")[2]
    assert "There is no line of Platt scaling" in drawn.alt


def test_every_diagram_of_the_catalogue_is_drawn_and_no_other() -> None:
    assert set(PLOTS) == set(calibrant.DIAGRAMS)
    with pytest.raises(UnknownPicture, match="reliability"):
        draw("pie", diagram("corp"), PLAIN)


def test_the_alternative_text_describes_every_bin() -> None:
    points = diagram("reliability")["data"]
    alt = draw("reliability", diagram("reliability"), PLAIN).alt
    for mean, share, count in zip(
        points["mean_prediction"], points["observed_frequency"], points["count"], strict=True
    ):
        assert f"{mean:.3f} predicted, {share:.3f} observed ({count:.0f} rows)" in alt


def test_knots_of_a_piecewise_linear_map_are_shown() -> None:
    drawn = draw("fit-on-test", piecewise(), PLAIN)
    assert ">knots<" in drawn.content.decode()
    assert "4 knots from 0.220 to 0.700" in drawn.alt
    assert "knots" not in draw("fit-on-test", diagram("fit-on-test"), PLAIN).content.decode()


def test_predictions_of_one_half_get_the_whole_panel() -> None:
    p, y = np.linspace(0.0, 0.1, 500), (np.arange(500) % 20 == 0).astype(int)
    shown = (calibrant.evaluate(p, y, diagrams=["reliability"]).diagrams or {})["reliability"]
    drawn = draw("reliability", shown, Caption(500, "binary")).content.decode()
    assert ">0.05<" in drawn
    assert ">0.8<" not in drawn


def test_a_rare_event_is_drawn_on_logit_axes_before_and_after_a_map_and_beside_a_frequent_one() -> None:
    random = np.random.default_rng(1)
    p = random.random(2000) * 0.02
    y = (random.random(2000) < p).astype(int)
    report = calibrant.evaluate(p, y, map=calibrant.fit("platt", p, y), diagrams=["reliability"])
    before, after = report.diagrams["reliability"], (report.after_diagrams or {})["reliability"]
    assert (before["data"]["axes"], after["data"]["axes"]) == ("logit", "logit")
    alone = draw("reliability", before, Caption(2000, "binary"))
    assert "Reliability diagram, logit axes" in alone.alt
    assert b"(logit scale)" in alone.content
    assert alone.content != draw("reliability", before, Caption(2000, "binary"), after=(after, PLAIN)).content
    linear = {**before, "data": {**before["data"], "axes": "linear"}}
    older = {**before, "data": {name: part for name, part in before["data"].items() if name != "axes"}}
    same = [draw("reliability", shape, Caption(2000, "binary")).content for shape in (linear, older)]
    assert same[0] == same[1] != alone.content
    frequent = calibrant.evaluate([0.5, 0.6] * 50, [0, 1] * 50, diagrams=["reliability"]).diagrams["reliability"]
    several = draw_several("reliability", [(before, Caption(2000, "binary")), (frequent, Caption(100, "binary"))])
    assert several.alt.startswith("Reliability diagram, logit axes")


def test_bins_without_positives_and_without_intervals_are_drawn_on_logit_axes() -> None:
    shown = calibrant.evaluate([0.0, 0.01] * 40, [0] * 80, diagrams=["reliability"]).diagrams["reliability"]
    bare = {**shown, "data": {**shown["data"], "low": None, "high": None}}
    for shape in (shown, bare):
        assert draw("reliability", shape, Caption(80, "binary")).content


def test_small_multiples_leave_out_what_has_no_data_and_say_so() -> None:
    drawings = [(diagram("corp"), PLAIN), (NONE, Caption(1, "binary", "the empty one"))]
    drawn = draw_several("corp", drawings)
    assert "the empty one: too few rows" in drawn.content.decode()
    assert "1 models" not in drawn.content.decode()
    assert "Not drawn: the empty one: too few rows." in drawn.alt


@pytest.mark.slow
@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize("models", [1, 2, 7, MOST])
def test_as_many_models_as_there_are_go_on_one_sheet(name: str, models: int) -> None:
    drawn = draw_several(name, [(diagram(name), PLAIN)] * models, width=400)
    assert drawn.alt.count("Model ") == models


@pytest.mark.parametrize("models", [0, MOST + 1])
def test_no_model_and_too_many_are_refused(models: int) -> None:
    with pytest.raises(InvalidPicture):
        draw_several("corp", [(diagram("corp"), PLAIN)] * models)


def test_measures_by_size_are_drawn_of_the_result_and_of_its_json() -> None:
    curves = calibrant.measure_by_size(*rows(), measures=["ece", "ks"], start_repetitions=4)
    document = {
        "sizes": list(curves.sizes),
        "curves": {
            key: {"mean": list(curve.mean), "standard_deviation": list(curve.standard_deviation)}
            for key, curve in curves.curves.items()
        },
    }
    assert draw_by_size(curves, PLAIN) == draw_by_size(document, PLAIN)
    assert f"{N:,} rows: {curves.curves['ece'].full.value:.3f}" in draw_by_size(curves, PLAIN).alt


def test_measures_without_any_value_and_too_many_are_not_drawn() -> None:
    empty = {"mean": [None], "standard_deviation": [None]}
    with pytest.raises(NothingToDraw):
        draw_by_size({"sizes": [100], "curves": {"ece": empty}}, PLAIN)
    with pytest.raises(InvalidPicture):
        draw_by_size({"sizes": [100], "curves": {str(i): empty for i in range(by_size.MOST + 1)}}, PLAIN)
    assert len({look(i) for i in range(by_size.MOST)}) == by_size.MOST
    curve = {"mean": [0.1], "standard_deviation": [None]}
    assert draw_by_size({"sizes": [100], "curves": {"ece": curve, "none": empty}}, PLAIN).content
    assert "100 rows: no value" in draw_by_size({"sizes": [100], "curves": {"ece": curve, "none": empty}}, PLAIN).alt
    assert "no value" in draw_by_size(sizes(), PLAIN).alt


def test_a_cost_plane_is_drawn_of_the_result_and_of_its_json() -> None:
    p, y = rows()
    cost_plane = calibrant.cost_plane(p, p**0.5, y)
    document = {
        "abstention": cost_plane.abstention,
        "cost_ratios": cost_plane.cost_ratios,
        "relative": cost_plane.relative.tolist(),
    }
    assert draw_cost_plane(cost_plane, PLAIN) == draw_cost_plane(document, PLAIN)
    assert "the first model is cheaper in" in draw_cost_plane(plane(), PLAIN).alt


@pytest.mark.parametrize(
    ("relative", "cheaper"),
    [
        ([[-0.9, -0.2]], ["first"]),
        ([[0.1, 0.4]], ["second"]),
        ([[-0.9, 0.4]], ["first", "second"]),
        ([[0.0, 0.0]], []),
    ],
)
def test_a_model_has_an_advantage_only_where_it_is_cheaper(relative: list[list[float]], cheaper: list[str]) -> None:
    alt = draw_cost_plane({"abstention": [0.5], "cost_ratios": [1.0, 2.0], "relative": relative}, PLAIN).alt
    named = [name for name in ("first", "second") if f"advantage of the {name} model" in alt]
    assert named == cheaper


@pytest.mark.parametrize(("rates", "ratios"), [(1, 1), (200, 3), (2, 60)])
def test_a_cost_plane_of_any_size_is_drawn(rates: int, ratios: int) -> None:
    document = {
        "abstention": np.linspace(0, 1, rates).tolist(),
        "cost_ratios": np.arange(1, ratios + 1).tolist(),
        "relative": np.zeros((rates, ratios)).tolist(),
    }
    assert draw_cost_plane(document, PLAIN).content


def test_the_bins_of_a_fit_have_the_error_of_its_rows() -> None:
    p, y = rows()
    seen = in_sample(read_batch(p, y), calibrant.fit("platt", p, y))
    bins = seen.before.bins
    shown = reliability_of(
        {
            "start": bins.start.tolist(),
            "count": list(seen.before.counts),
            "rows": bins.rows.tolist(),
            "share": (bins.mass / bins.mass.sum()).tolist(),
            "mean_prediction": bins.mean_p.tolist(),
            "observed_frequency": bins.mean_y.tolist(),
        }
    )
    requests: list[str | dict[str, Any]] = [{"name": "reliability", "n_bins": 20}]
    points = (calibrant.evaluate(p, y, diagrams=requests).diagrams or {})["reliability"]["data"]
    assert shown["ece"] == pytest.approx(points["ece"])
    for name in ("mean_prediction", "observed_frequency", "share", "count", "start", "end", "low", "high"):
        assert shown[name].tolist() == pytest.approx(points[name]), name
    # Rows are evenly spread over a bin: off by what a bin holds at most.
    assert shown["histogram"]["share"].tolist() == pytest.approx(points["histogram"]["share"], abs=0.01)


def test_a_record_without_bins_has_nothing_to_draw_and_one_bin_is_enough() -> None:
    with pytest.raises(NothingToDraw):
        draw_fit_bins(None, PLAIN)
    single = {name: part[:1] for name, part in fit_bins()["before"].items()}
    assert draw_fit_bins({"of": "binary", "before": single, "after": single}, PLAIN).content


def test_a_png_is_what_the_svg_of_the_light_theme_is() -> None:
    auto, light = (draw("corp", diagram("corp"), PLAIN, form="png", theme=theme) for theme in ("auto", "light"))
    assert auto == light
    with Image.open(io.BytesIO(light.content)) as image:
        assert image.info["Description"].startswith("CORP reliability diagram: 1,200 rows")


@pytest.mark.slow
def test_matplotlib_reads_no_font_of_the_system_and_writes_nothing(tmp_path: Path) -> None:
    code = (
        "import logging, warnings; logging.basicConfig(level=logging.WARNING); warnings.simplefilter('error')\n"
        "import sys, calibrant.plots.diagram; assert 'matplotlib' not in sys.modules\n"
        "from calibrant.plots import engine; engine.load()\n"
        "from matplotlib import font_manager\n"
        "assert all('mpl-data' in font.fname for font in font_manager.fontManager.ttflist)\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    environment = {"HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[3] / "library"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(home.iterdir()) == []
