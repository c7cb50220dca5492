"""Tasks with objects as other libraries and file formats leave them in a notebook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from sklearn.metrics import log_loss

import calibrant
from tests.known import known
from tests.rows import draw_classes, draw_event

_NAMES = np.array(["bird", "cat", "dog"])


@pytest.fixture
def matrix() -> tuple[Any, Any]:
    """Return probabilities of three classes and integer labels."""
    return draw_classes(400)


def _log_loss(predictions: Any, labels: Any, **options: Any) -> float:
    report = calibrant.evaluate(predictions, labels, measures=["log-loss"], reduction="canonical", **options)
    return known(report["log-loss"].value)


def test_columns_with_numbers_may_have_any_order(matrix: tuple[Any, Any]) -> None:
    """Evaluate a frame whose columns 2, 0, 1 were sorted by something else."""
    p, y = matrix
    expected = pytest.approx(log_loss(y, p))
    assert _log_loss(pd.DataFrame(p)[[2, 0, 1]], y) == expected
    assert _log_loss(pl.DataFrame(p, schema=["p_0", "p_1", "p_2"])[["p_1", "p_2", "p_0"]], y) == expected
    assert _log_loss(pd.DataFrame(p, columns=[1, 2, 3])[[3, 1, 2]], y + 1) == expected
    shuffled = pd.DataFrame(p, columns=_NAMES)[["dog", "bird", "cat"]]
    assert _log_loss(shuffled, _NAMES[y], class_names=list(_NAMES)) == expected
    fitted = calibrant.fit("temperature", p, y)
    np.testing.assert_array_equal(fitted.apply(pd.DataFrame(p)[[2, 0, 1]]), fitted.apply(p))


def test_pos_label_finds_its_column() -> None:
    """Name the positive class, which is the first column of the frame."""
    p = np.array([0.1, 0.3, 0.8, 0.9])
    frame = pd.DataFrame({"yes": p, "no": 1 - p})
    report = calibrant.evaluate(frame, ["no", "no", "no", "yes"], pos_label="yes", reduction="binary")
    assert report.class_names == ("no", "yes")
    assert report["brier"].value == calibrant.evaluate(p, [0, 0, 0, 1])["brier"].value


def test_a_hugging_face_pipeline_returns_dictionaries(matrix: tuple[Any, Any]) -> None:
    """Evaluate the output of a pipeline with top_k=None, of one without it, and rows by label."""
    p, y = matrix
    expected = pytest.approx(log_loss(y, p))
    scored = [[{"label": str(_NAMES[k]), "score": float(row[k])} for k in range(3)] for row in p]
    ranked = [sorted(row, key=lambda entry: float(str(entry["score"]))) for row in scored]
    assert _log_loss(ranked, _NAMES[y]) == expected
    assert _log_loss(ranked, y, class_names={0: "bird", 1: "cat", 2: "dog"}) == expected
    assert _log_loss(p, _NAMES[y], class_names={"cat": 1, "bird": 0, "dog": 2}) == expected
    assert _log_loss([dict(zip(_NAMES, row, strict=True)) for row in p.tolist()], _NAMES[y]) == expected
    with pytest.raises(calibrant.CalibrationError, match="class_names"):
        calibrant.evaluate(ranked, y)  # whose numbers are not those of the alphabet
    with pytest.raises(calibrant.CalibrationError, match="top_k=None"):
        calibrant.evaluate([row[-1] for row in ranked], _NAMES[y])
    fitted = calibrant.fit("temperature", ranked, _NAMES[y])
    np.testing.assert_allclose(fitted.apply(ranked), fitted.apply(p))
    top = [{"label": "NEGATIVE", "score": 0.75}, {"label": "POSITIVE", "score": 0.625}]
    report = calibrant.evaluate(top, ["NEGATIVE", "POSITIVE"], pos_label="POSITIVE", reduction="binary")
    assert report["brier"].value == calibrant.evaluate([0.25, 0.625], [0, 1])["brier"].value


def test_half_precision_softmax_is_evaluated(matrix: tuple[Any, Any]) -> None:
    """Evaluate probabilities of a model in half precision, whose rows do not sum exactly to 1."""
    p, y = matrix
    for narrow in (torch.tensor(p).half(), torch.tensor(p).bfloat16(), p.astype(np.float16)):
        assert _log_loss(narrow, y) == pytest.approx(log_loss(y, p), abs=2e-3)
    with pytest.raises(calibrant.CalibrationError, match="sum to 1"):
        calibrant.evaluate(torch.tensor(1.1 * p / p.sum(axis=1, keepdims=True)).half().clip(0, 1), y)


def test_a_column_of_vectors_is_a_matrix(matrix: tuple[Any, Any]) -> None:
    """Evaluate what Spark and Parquet give: one column whose cells are vectors."""
    p, y = matrix
    expected = pytest.approx(log_loss(y, p))
    assert _log_loss(pd.Series(list(p)), pd.Series(y)) == expected
    assert _log_loss(pd.Series(p.tolist()), pd.Series(y)) == expected
    assert _log_loss(pl.Series(p.tolist()), pl.Series(y)) == expected


def test_numbers_in_an_object_column_are_numbers() -> None:
    """Evaluate a column of type object, as a database leaves it; other objects are counted."""
    p, y = [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]
    expected = calibrant.evaluate(p, y)["brier"].value
    assert calibrant.evaluate(pd.Series(p, dtype=object), y)["brier"].value == expected
    with pytest.raises(calibrant.CalibrationError, match="2 of 4 are not numbers; the first at /predictions/1"):
        calibrant.evaluate(pd.Series([0.1, "0.4", 0.6, "x"], dtype=object), y)
    assert calibrant.evaluate(p, np.array([b"no", b"yes", b"no", b"yes"]), pos_label="yes")["brier"].value == expected


@pytest.mark.parametrize(
    ("labels", "remedy"),
    [
        ([-1, 1, -1, 1], "pass pos_label"),
        ([1, 2, 1, 2], "pass pos_label"),
        ([0, 1, -100, 1], "leave out the rows with the label -100"),
    ],
)
def test_other_numbers_of_classes_get_a_remedy(labels: list[int], remedy: str) -> None:
    """Pass labels of other conventions, and read what to do."""
    with pytest.raises(calibrant.CalibrationError, match=remedy):
        calibrant.evaluate([0.1, 0.4, 0.6, 0.9], labels)
    assert calibrant.evaluate([0.1, 0.9], [-1, 1], pos_label=1)["ece"].value == pytest.approx(0.1)


def test_an_argument_that_is_not_an_array_is_named(matrix: tuple[Any, Any]) -> None:
    """Pass one-hot rows, swapped arguments, sparse matrices, sets and the tuple of a model with hidden states."""
    p, y = matrix
    for predictions, labels, remedy in [
        (p, np.eye(3)[y], "argmax"),
        (y, p, "predictions are the first argument"),
        (scipy.sparse.csr_matrix(p), y, "toarray"),
        ({0.5, 0.25}, [0, 1], "not set"),
        ((v for v in (0.5, 0.25)), [0, 1], "not generator"),
        ((np.log(p), np.zeros((len(p), 8))), y, "pass one of them"),
    ]:
        with pytest.raises(calibrant.CalibrationError, match=remedy):
            calibrant.evaluate(predictions, labels)


@pytest.fixture
def event() -> tuple[Any, Any]:
    """Return probabilities of an event and its labels."""
    return draw_event(300, 1)


def test_predicted_classes_in_place_of_probabilities_are_noticed(event: tuple[Any, Any]) -> None:
    """Pass the predicted classes by mistake."""
    p, y = event
    with pytest.warns(UserWarning, match="like predicted classes; pass probabilities"):
        calibrant.evaluate((p > 0.5).astype(int), y)
    with pytest.warns(UserWarning, match="like predicted classes; pass probabilities"):
        calibrant.tally((p > 0.5).astype(int), y)
    with pytest.warns(UserWarning, match="like predicted classes; pass probabilities"):
        calibrant.cost_plane(p, (p > 0.5).astype(int), y)
    with pytest.warns(UserWarning, match="like predicted classes; pass probabilities"):
        calibrant.measure_by_size((p > 0.5).astype(int), y, measures=["brier"], start_repetitions=2)


def test_a_map_is_a_table_in_a_notebook(event: tuple[Any, Any]) -> None:
    """Look at a fitted map."""
    p, y = event
    shown = calibrant.fit("platt", p, y)._repr_html_()
    assert "Map: platt" in shown
    assert "cross-fitted gain" in shown
    forecasts: dict[str, Any] = {"mean": np.zeros(50), "variance": np.ones(50)}
    scaled = calibrant.fit_distribution("variance-scaling", np.linspace(-3.0, 3.0, 50), **forecasts)
    assert "Map: variance-scaling" in scaled._repr_html_()
    assert repr(scaled).startswith("DistributionMap(")


def test_a_short_typo_is_understood(event: tuple[Any, Any]) -> None:
    """Type two letters of a measure in the wrong order."""
    with pytest.raises(calibrant.CalibrationError, match="did you mean ece"):
        calibrant.evaluate(*event, measures=["eec"])
