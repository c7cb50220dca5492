"""Prediction sets: sizes, names, plain JSON and frames."""

from __future__ import annotations

import json

import numpy as np
import pytest

from calibrant import PredictionSets

MEMBERS = np.array([[True, False, False], [True, False, True], [False, False, False]])
SETS = PredictionSets(MEMBERS, ("bird", "cat", "dog"), alpha=0.1)


def test_sets_list_their_classes_in_the_order_of_the_columns() -> None:
    assert SETS.to_lists() == [["bird"], ["bird", "dog"], []]
    assert PredictionSets(MEMBERS, (0, 1, 2), alpha=0.1).to_lists() == [[0], [0, 2], []]
    assert PredictionSets(MEMBERS[:0], (0, 1, 2), alpha=0.1).to_lists() == []


def test_a_set_abstains_unless_it_has_exactly_one_class() -> None:
    assert SETS.sizes.tolist() == [1, 2, 0]
    assert SETS.abstains.tolist() == [False, True, True]
    assert len(SETS) == 3


def test_sets_are_plain_json() -> None:
    assert json.loads(json.dumps(SETS.to_dict())) == {
        "alpha": 0.1,
        "classes": ["bird", "cat", "dog"],
        "sets": [["bird"], ["bird", "dog"], []],
    }


def test_a_frame_has_one_row_for_each_set() -> None:
    pytest.importorskip("pandas")
    frame = SETS.to_frame()
    assert list(frame["set"].iloc[1]) == ["bird", "dog"]
    assert frame["size"].tolist() == [1, 2, 0]


def test_the_text_counts_empty_sets_and_sets_of_one_class() -> None:
    shown = {line.split("  ")[0]: line.split()[-1] for line in repr(SETS).splitlines()[2:]}
    assert shown == {
        "classes": "3",
        "mean size": "1",
        "largest size": "2",
        "sets of one class": "1",
        "empty sets": "1",
    }
    assert "<table>" in SETS._repr_html_()
