from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.pseudo_real.calibrators import FIVE
from benchmarks.pseudo_real.experiment import NINE
from benchmarks.pseudo_real.real import (
    PAPER,
    SUBSETS,
    Answer,
    RealTask,
    errors_of_subsets,
    order_of,
    order_summary,
    page,
    run,
    shifted,
)
from calibrant.core.reductions import Event

pytestmark = pytest.mark.slow


def event(n: int) -> Event:
    random = np.random.default_rng(0)
    p = random.uniform(0.3, 1.0, n)
    return Event(p, (random.random(n) < p - 0.1).astype(np.int8))


def answer(*errors: float) -> Answer:
    """The errors of the nine evaluators, the same for every subset."""
    return {
        str(size): {name: [error] * count for name, error in zip(NINE, errors, strict=True)} for size, count in SUBSETS
    }


def answers(file: str) -> dict[RealTask, Answer]:
    """Calibrator k has some k + 1 thousandths, but the last evaluator sees the opposite order."""
    return {
        RealTask(file, c): answer(*(1e-3 * (k + 1) + 1e-5 * i for i in range(len(NINE) - 1)), 1e-3 * (len(FIVE) - k))
        for k, c in enumerate(FIVE)
    }


def test_every_evaluator_measures_every_subset() -> None:
    by_evaluator = errors_of_subsets(event(1_500), 1_000, 2)
    assert set(by_evaluator) == set(NINE)
    for errors in by_evaluator.values():
        assert len(errors) == 2
        assert errors == pytest.approx([0.1, 0.1], abs=0.06)


def test_the_whole_half_is_used_once() -> None:
    by_evaluator = errors_of_subsets(event(700), 0, 1)
    again = errors_of_subsets(event(700), 3_000, 1)
    assert by_evaluator["isotonic"] == pytest.approx(again["isotonic"])


def test_a_file_is_calibrated_on_one_half_and_evaluated_on_the_other(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    logits = 3.0 * random.standard_normal((2_000, 3))
    labels = (logits / 3.0 + random.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(tmp_path / "net.npz", logits=logits, labels=labels)
    by_size = run(tmp_path / "net.npz", "TempS")
    assert [len(by_size[str(size)]["beta"]) for size, _ in SUBSETS] == [count for _, count in SUBSETS]
    assert by_size["0"]["Platt"][0] < 0.05


def test_a_failed_fit_is_recorded(tmp_path: Path) -> None:
    np.savez(tmp_path / "net.npz", probs=np.full((100, 3), 1 / 3), labels=np.zeros(100, dtype=int))
    assert run(tmp_path / "net.npz", "VecS") == {"problem": "missing-class"}


def test_a_shift_keeps_the_differences_within_a_row() -> None:
    moved = shifted(np.array([[1.0, 3.0], [5.0, 5.0]]), np.array([[10.0, 10.0], [0.0, 2.0]]))
    assert moved == pytest.approx(np.array([[9.0, 11.0], [1.0, 1.0]]))


def test_calibrators_are_ordered_by_the_error_of_the_whole_half() -> None:
    of_calibrators = answers("net")
    assert order_of(of_calibrators, "net", "ES_15") == list(FIVE)
    assert order_of(of_calibrators, "net", "Platt") == list(FIVE)[::-1]
    assert "whole order for 0 of 1 files" in order_summary(of_calibrators, ["net"])
    assert f"is {(28 - 8) / 36:.2f} on average" in order_summary(of_calibrators, ["net"])


def test_the_page_names_what_has_not_been_measured() -> None:
    measured = {
        **answers("net"),
        RealTask("other", "TempS"): answer(*[0.01] * len(NINE)),
        RealTask("bad", "VecS"): {"problem": "x"},
    }
    text = page(measured, np.arange(27.0).reshape(3, 9), 1, ["bad", "large", "net", "other"])
    assert "1 published classifiers" in text
    for file in ("large", "other"):
        assert f"- {file}: not run with every calibrator" in text
    assert "- bad: not every calibrator has a map" in text
    assert "- VecS on bad: x" in text
    assert "nan" not in text
    assert len(PAPER) == len(SUBSETS)
    with pytest.raises(ValueError, match="no file"):
        page({RealTask("other", "TempS"): answer(*[0.01] * len(NINE))}, np.zeros((3, 9)), 1, ["other"])
