"""The optimality conditions of convex fits fail for a wrong fit, and hold for ours."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks import optimality
from benchmarks.optimality import (
    CONVEX,
    GOAL,
    Convex,
    LogitRows,
    PieceFit,
    convex_table,
    fit,
    rows_of,
    searches,
    separable,
)
from calibrant.maps.calibration_map import CalibrationMap

ROWS = rows_of("beta1", optimality.STRENGTHS[1], 100, 0)


def moved(fitted: CalibrationMap, by: float) -> CalibrationMap:
    """The map with one parameter that is a little different."""
    curve: Any = fitted.function
    names = [field.name for field in dataclasses.fields(curve)]
    field = "heights" if "heights" in names else names[-1]
    parameter = getattr(curve, field)
    return replace(fitted, function=replace(curve, **{field: parameter + by}))


@pytest.mark.parametrize("family", CONVEX, ids=lambda family: family.title)
def test_a_fit_obeys_its_optimality_conditions_and_a_shifted_one_does_not(family: Convex) -> None:
    fitted = fit(family.method, ROWS.p, ROWS.y, **family.options)
    assert family.gradient(fitted, ROWS) <= GOAL
    assert family.gradient(moved(fitted, 1e-4), ROWS) > 100 * GOAL


def test_beta_at_a_bound_obeys_its_conditions() -> None:
    rows = rows_of("sqrt", optimality.STRENGTHS[-1], 20, 0)
    upside_down = LogitRows(rows.p, rows.z, 1.0 - rows.y)
    fitted = fit("beta", upside_down.p, upside_down.y)
    assert min(fitted.function.parameters()[name] for name in "ab") == 0.0
    assert optimality.of_beta(fitted, upside_down) <= GOAL


@pytest.mark.parametrize(
    ("labels", "apart"),
    [([0, 0, 1, 1], True), ([1, 1, 0, 0], True), ([0, 1, 0, 1], False), ([1, 1, 1, 1], True), ([0, 1, 1, 0], False)],
)
def test_labels_that_a_threshold_separates_are_apart(labels: list[float], apart: bool) -> None:
    p = np.array([0.1, 0.2, 0.3, 0.4])
    assert separable(LogitRows(p, np.log(p / (1.0 - p)), np.array(labels, dtype=np.float64))) is apart


def test_separable_labels_are_refused_where_there_is_no_optimum() -> None:
    lines = convex_table(CONVEX, [20], 1, apart=True)
    cells = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[-2:] for line in lines[2:]}
    refused = {title for title, (_, count) in cells.items() if count == "15"}
    assert {"`platt`, `target_smoothing=False`"} <= refused <= {"`platt`, `target_smoothing=False`", "`temperature`"}
    assert all(fits == "15" for title, (fits, _) in cells.items() if title not in {*refused, "`temperature`"})


def test_separable_draws_are_left_out_of_the_other_table(monkeypatch: pytest.MonkeyPatch) -> None:
    y = (np.arange(20) > 9).astype(np.float64)
    monkeypatch.setattr(optimality, "rows_of", lambda *_: ROWS._replace(p=np.linspace(0.1, 0.9, 20), y=y))
    assert convex_table(CONVEX[:1], [20], 1)[-1] == "| `platt` |  | 0 | 0 |"


def test_a_value_above_the_goal_is_bold() -> None:
    assert [optimality.size_of(gap) for gap in (0.0, 3e-9, 2e-8)] == ["1e-11 or less", "3e-09", "**2e-08**"]


def test_no_search_for_one_piece_ends_below_the_library() -> None:
    losses = searches(("pl", "log-loss", 1, "beta1", 100, 0))
    assert losses["quantiles"] - min(losses.values()) <= GOAL
    assert set(losses) == {"quantiles", "several", "random starts", "minimize of SciPy"}


def test_other_searches_find_what_a_bad_start_misses() -> None:
    problem = PieceFit.of(ROWS, "pl", "brier", 2)
    knots, heights = problem.own("quantiles")
    bad = problem.loss(knots, np.full(len(heights), 0.5))
    random = np.random.default_rng(0)
    assert problem.from_random_starts(knots, heights, random) < bad
    assert problem.by_evolution(random) < bad


def test_the_table_of_searches_says_by_how_much_a_fit_is_not_the_lowest() -> None:
    key = ("pl", "brier", 2, "beta1", 100, 0)
    losses = {"quantiles": 0.25, "several": 0.24, "random starts": 0.23, "differential evolution": 0.26}
    (line,) = optimality.search_table({key: losses})[2:]
    assert line == ("| `pl` | brier | 2 | 1 | 0.000 | 2.0e-02 | 2.0e-02 | 100 | 0.000 | 1.0e-02 | random starts 1 |")


def test_labels_of_one_class_have_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimality, "rows_of", lambda *_: ROWS._replace(y=np.ones(100)))
    assert searches(("pl", "brier", 2, "beta1", 100, 0)) == {}
    assert len(optimality.search_table({("pl", "brier", 2, "beta1", 100, 0): {}})) == 2
