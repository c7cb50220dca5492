"""Worlds with known maps, and what their page concludes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.pseudo_real.experiment import SIZES
from benchmarks.pseudo_real.page import TEN
from benchmarks.pseudo_real.worlds import (
    MAPS,
    OF_EVENT,
    OURS,
    PREDICTIONS,
    WORLDS,
    Answers,
    SimulatedWorld,
    WorldTask,
    claim,
    page,
    run,
    tasks,
)


def test_there_are_twelve_worlds_and_a_task_for_each_part_of_them() -> None:
    assert len(set(WORLDS)) == len(PREDICTIONS) * len(MAPS) == 12
    assert len(set(tasks(2))) == 48
    assert {task.seed for task in tasks(2)[:24]} == {0}


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_the_predictions_of_a_world_are_right_on_average_and_miss_the_truth(world: SimulatedWorld) -> None:
    event, c = world.draw(1, 50_000)
    assert c.min() >= 0.0
    assert c.max() <= 1.0
    assert c.mean() == pytest.approx(event.p.mean(), abs=0.01)
    assert np.abs(event.p - c).mean() > 0.01
    assert event.y.mean() == pytest.approx(c.mean(), abs=0.01)


@pytest.mark.parametrize("predictions", PREDICTIONS)
@pytest.mark.parametrize(("map", "parts"), [("steps", 4), ("plateau", 1)])
def test_a_true_map_is_monotone_and_flat_where_its_name_says(predictions: str, map: str, parts: int) -> None:
    z = np.sort(PREDICTIONS[predictions](np.random.default_rng(1), 5_000))
    c = SimulatedWorld(predictions, map).truth(z)
    assert (np.diff(c) >= -1e-12).all()
    levels, counts = np.unique(np.round(c, 12), return_counts=True)
    assert (counts > 500).sum() == parts
    assert (len(levels) == 4) == (map == "steps")


def test_a_draw_is_the_same_for_the_same_seed() -> None:
    first, again, other = (WORLDS[0].draw(seed, 100)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.p, again.p)
    assert not np.array_equal(first.p, other.p)


def test_the_page_says_whether_the_papers_best_calibrator_is_best() -> None:
    names = ("PL3 CE", "Platt", "isotonic")
    errors = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [2.0, 1.0, 3.0], [1.0, 2.0, 3.0]])
    text = claim(errors, names)
    assert "**Yes** by mean rank: PL3 CE has place 1 of 3 with 1.2" in text
    assert "the best of the others is Platt with 2.0" in text
    assert "closest of all in 3 of 4 worlds" in text
    assert "difference of -0.75 ± 0.63 over worlds, which is within chance" in text
    assert "**No** by mean rank: PL3 CE has place 3 of 3" in claim(errors[:, [2, 1, 0]], names)
    assert not claim(errors + np.array([0.0, 9.0, 9.0]), names).endswith("within chance.")


@pytest.mark.slow
def test_the_page_is_written_from_one_seed() -> None:
    """The evaluators are fitted in one world, whose answers stand for the others'."""
    evaluated = run(WorldTask("evaluators", *WORLDS[0], 0))
    assert set(evaluated) == set(map(str, SIZES))
    assert set(evaluated["1000"]) == {"truth", *TEN, *OURS}
    answers: dict[WorldTask, Any] = {
        WorldTask("calibrators", *world, 0): run(WorldTask("calibrators", *world, 0)) if i == 0 else _distances(i)
        for i, world in enumerate(WORLDS)
    }
    whole: Answers = answers | {WorldTask("evaluators", *world, 0): evaluated for world in WORLDS}
    text = page(whole)
    assert "1 of 5 samples for calibrators" in text
    assert "| kinks, one of ten |" in text
    assert text.count("|abs(") == 0


def _distances(offset: int) -> dict[str, float]:
    return {name: 0.01 + 0.001 * ((3 * k + offset) % 7) for k, name in enumerate((*OF_EVENT, *OURS))}
