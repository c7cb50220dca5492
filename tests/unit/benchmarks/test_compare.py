"""The comparison of calibrators: its section of methods that are fitted to one event."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibrant
from benchmarks.compare.data import classifiers
from benchmarks.compare.page import EVENT_TITLE, event_section, with_section
from benchmarks.compare.run import ONE_EVENT, CompareTask, run, tasks, tasks_of_one_event

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "small.npz"
    logits, labels, _ = calibrant.logistic_normal(1200, n_classes=4, temperature=3.0, accuracy=0.8, seed=0)
    np.savez(path, logits=logits, labels=labels)
    np.savez(path.with_name("forecasts.npz"), quantiles=logits)
    return path


def test_files_without_a_classifier_are_left_out(file: Path) -> None:
    assert classifiers(file.parent) == [file]


def test_event_methods_are_fitted_to_one_event_and_ranked(file: Path) -> None:
    wanted = tasks_of_one_event([file])
    assert {task.reduction for task in wanted} == {ONE_EVENT}
    assert "spline" in {task.method for task in wanted}
    assert ("spline", "classwise") in {(task.method, task.reduction) for task in tasks([file])}
    chosen = [
        CompareTask(file, method, ONE_EVENT, seed) for method in ("identity", "platt", "spline") for seed in (0, 1)
    ]
    records = {task.key: run(task) for task in chosen}
    by_ks = [np.mean([records[f"small/{m}/{ONE_EVENT}/{s}"]["ks"] for s in (0, 1)]) for m in ("identity", "spline")]
    assert by_ks[1] < 0.5 * by_ks[0]
    section = event_section(records)
    ranks = section.partition("###")[0].splitlines()[-5:]
    assert "`identity` | 3.0 | 3.0 | 3.0 | 3.0" in "\n".join(ranks)
    assert "### KS error, confidence" in section


def test_a_section_replaces_the_section_of_the_page() -> None:
    once = with_section("# Page\n\ntext\n", f"{EVENT_TITLE}\n\nfirst\n")
    assert once == f"# Page\n\ntext\n\n{EVENT_TITLE}\n\nfirst\n"
    assert with_section(once, f"{EVENT_TITLE}\n\nsecond\n") == once.replace("first", "second")
