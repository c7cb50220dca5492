"""A whole report from rows, by evaluations that stand outside of the room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from backend.evaluations import read_task
from backend.reports import apart, make, whole
from calibrant.core.batch import Batch, read_batch
from calibrant.core.progress import Progress
from schemas.evaluate import EvaluateSpec
from schemas.maps import MapRecord
from tests.rows import draw_distorted

BARE = EvaluateSpec(batch=None, measures=None, reduction=None, map=None, interval=None, resamples=500, seed=3)
GROUPS = ["north", "south"] * 150
Asked = list[tuple[EvaluateSpec, bool]]
NO_MAPS = dict[str, MapRecord]().__getitem__


def _batch() -> Batch:
    return read_batch(*draw_distorted(300, 4))


def _made(spec: EvaluateSpec, groups: Sequence[str] | None, progress: Progress | None = None) -> tuple[Any, Asked]:
    batch, asked = _batch(), []

    def evaluate(spec: EvaluateSpec, groups: Sequence[str] | None) -> dict[str, Any]:
        asked.append((spec, groups is not None))
        return read_task(spec, NO_MAPS).one(batch, groups, "cpu")

    return make(spec, batch, groups, evaluate, progress), asked


def test_options_of_a_report_default_to_the_panel() -> None:
    filled = whole(BARE, 300, None, "binary")
    assert filled.report
    assert filled.measures
    assert filled.diagrams
    assert (filled.interval, filled.resamples, filled.seed) == (0.95, 1000, 3)
    assert apart(filled, 300, None, "binary", weighted=False) is not None


def test_named_options_of_a_report_are_kept() -> None:
    named = BARE.model_copy(update={"measures": ["ks"], "diagrams": [], "interval": 0.8})
    filled = whole(named, 300, None, "binary")
    assert filled == named.model_copy(update={"report": True})
    assert apart(filled, 300, None, "binary", weighted=False) is None


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_groups_are_evaluated_apart_and_by_few_measures(groups: list[str] | None) -> None:
    report, asked = _made(whole(BARE, 300, None, "binary"), groups)
    assert report["recommendation"]["candidates"]
    assert len(report["diagrams"]) == 5
    if groups is None:
        assert [by_group for _, by_group in asked] == [False]
        assert "groups" not in report
    else:
        assert [by_group for _, by_group in asked] == [False, True]
        assert set(report["groups"]) == {"north", "south"}
        assert len(asked[1][0].measures or ()) < len(asked[0][0].measures or ())


def test_named_measures_are_those_of_the_groups_too() -> None:
    named = whole(BARE.model_copy(update={"measures": ["ks"], "resamples": 100}), 300, None, "binary")
    report, asked = _made(named, GROUPS)
    assert [by_group for _, by_group in asked] == [True]
    assert set(report["groups"]["north"]["measures"]) == {"ks"}


def test_no_map_is_recommended_where_classes_are_chosen() -> None:
    spec = whole(BARE.model_copy(update={"measures": ["ks"], "diagrams": [], "classes": [0, 2]}), 60, 2, "confidence")
    random = np.random.default_rng(5)
    batch = read_batch(random.dirichlet(np.ones(3), 60), random.integers(0, 3, 60))
    report = make(spec, batch, None, lambda spec, groups: read_task(spec, NO_MAPS).one(batch, groups, "cpu"))
    assert "recommendation" not in report


def test_progress_rises_over_all_parts_to_its_end() -> None:
    steps: list[tuple[int, int, str]] = []
    _made(whole(BARE, 300, None, "binary"), GROUPS, lambda done, total, stage: steps.append((done, total, stage)))
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
    assert steps[-1][0] == steps[-1][1]
    assert any(stage == "recommendation" for _, _, stage in steps)


def test_groups_of_a_report_have_the_level_and_at_most_the_resamples_of_the_request() -> None:
    filled = whole(BARE.model_copy(update={"interval": 0.8}), 300, None, "binary")
    by_group = apart(filled, 300, None, "binary", weighted=False)
    assert by_group is not None
    assert (by_group.interval, by_group.resamples) == (0.8, 500)
