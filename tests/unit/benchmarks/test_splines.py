"""The benchmark of splines: every table of the paper from the halves of a small network."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import calibrant
from benchmarks.splines.experiment import (
    ACCURACIES,
    EVENTS,
    KNOTS,
    SPLINES,
    VECTORS,
    Record,
    halves,
    networks,
    run,
)
from benchmarks.splines.page import page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("networks") / "small_cifar10_logits.npz"
    logits, labels, _ = calibrant.logistic_normal(3000, n_classes=5, temperature=2.0, accuracy=0.8, seed=0)
    np.savez(path, logits=logits, labels=labels)
    np.savez(path.with_name("another.npz"), logits=logits, labels=labels)
    return path


@pytest.fixture(scope="module")
def record(network: Path) -> Record:
    return run(network, 0)


def test_the_files_of_the_networks_are_found_and_halved(network: Path) -> None:
    assert networks(network.parent) == [network]
    training, held_out = halves(network, 1)
    assert len(training) == len(held_out) == 1500
    again, _ = halves(network, 2)
    assert not np.array_equal(training.labels, again.labels)


def test_every_calibrator_has_every_measure_of_every_event(record: Record) -> None:
    splines = {f"{name}, {knots} knots" for name in SPLINES for knots in KNOTS}
    assert set(record) == {"uncalibrated", "perfect", *VECTORS, *splines}
    for by_event in record.values():
        assert set(by_event) - {"accuracy"} == set(EVENTS)
        assert all(set(by_event[event]) == {"ks", "ece", "kde-ece", "mce", "brier"} for event in EVENTS)
    before, after = record["uncalibrated"]["confidence"], record["spline, 6 knots"]["confidence"]
    assert after["ks"] < 0.4 * before["ks"]
    assert after["ece"] < before["ece"]


def test_accuracies_are_those_of_the_ranked_classes(network: Path, record: Record) -> None:
    _, held_out = halves(network, 0)
    order = np.argsort(-held_out.predictions.values, axis=1)
    first, second = (float((order[:, rank] == held_out.labels).mean()) for rank in (0, 1))
    accuracies = record["uncalibrated"]["accuracy"]
    assert accuracies == pytest.approx(dict(zip(ACCURACIES, (first, second, first + second), strict=True)))
    assert record["temperature"]["accuracy"] == accuracies  # it keeps the order
    assert record["matrix-odir"]["accuracy"] != accuracies


def test_the_page_has_the_tables_of_the_paper(record: Record) -> None:
    text = page({("small_cifar10", 0): record, ("small_cifar10", 1): record})
    for title in ("Table 1", "Table 2", "Table 4", "Table 5", "Table 6", "Table 7", "KDE-ECE", "MCE", "Brier score"):
        assert re.search(rf"^#+ {title}", text, re.MULTILINE), title
    assert "mean over 2 halves" in text
    for title, measure in zip(("Top-1", "Top-2", "Within-top-2"), ACCURACIES, strict=True):
        _, _, own = text.partition(f"### {title}\n")
        assert f"{100 * record['vector']['accuracy'][measure]:.3f}" in own.partition("\n###")[0], title
    for title in ("ECE", "KDE-ECE", "MCE", "Brier score"):
        for event, name in (("top:2", "top-2"), ("within-top:2", "within-top-2")):
            _, _, own = text.partition(f"### {title}, {name}\n")
            measure = title.lower().removesuffix(" score")
            error = record["temperature"][event][measure]
            assert (f"{100 * error:.3f}" if measure == "ece" else f"{error:.4f}") in own.partition("\n###")[0], title
    shown = f"{100 * record['temperature']['confidence']['ks']:.3f}"
    assert shown in text.partition("## Table 2")[0]
    assert "0.269 to 1.028" in text
    json.dumps(record)


def test_matrix_scaling_and_dirichlet_calibration_are_one_map_of_probabilities() -> None:
    logits, labels, _ = calibrant.logistic_normal(500, n_classes=4, temperature=2.0, seed=0)
    probs = softmax(logits, axis=1)
    matrix, dirichlet = (calibrant.fit(name, probs, labels, reduction="canonical") for name in VECTORS[-2:])
    np.testing.assert_allclose(matrix.apply(probs), dirichlet.apply(probs), atol=1e-12)
