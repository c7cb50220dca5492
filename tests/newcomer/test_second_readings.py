"""Tasks with files that have a second reading with other numbers: both commands are printed, and each one works."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from tests.newcomer.conftest import Typed

_MEASURES = "--measure accuracy --measure confidence-gap --measure brier --measure auroc"


def _values(typed: Typed, line: str) -> dict[str, float]:
    found = typed(f"{line} --json")
    assert found.exit_code == 0, found.stderr
    return {name: measure["value"] for name, measure in json.loads(found.stdout)["measures"].items()}


def _commands(message: str) -> list[str]:
    return re.findall(r"^  (calibrant .+)$", message, re.MULTILINE)


def _of_library(p: Any, y: Any, **options: Any) -> dict[str, Any]:
    names = re.findall(r"--measure (\S+)", _MEASURES)
    found = calibrant.evaluate(p, y, measures=names, **options)
    return {name: pytest.approx(found[name].value) for name in names}


#: One of two readings is that of the other class.
other_class = pytest.mark.filterwarnings("ignore:predictions are clearly lower")


# --- Two columns whose classes have no names


@other_class
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "npz"])
@pytest.mark.parametrize(
    ("labels", "first"), [("ham,spam", "ham,spam"), ("yes,no", "no,yes"), ("b,a", "a,b"), ("7,3", "3,7")]
)
def test_two_columns_without_names_are_offered_in_both_orders(
    typed: Typed, scores: Any, form: str, labels: str, first: str
) -> None:
    """Evaluate what ``predict_proba`` returns beside labels that are strings; class 1 is the second of ``labels``."""
    p, words = scores["p"].to_numpy(), labels.split(",")
    both, y = np.column_stack([1.0 - p, p]), scores["y"].to_numpy()
    frame = pd.DataFrame({"label": [words[k] for k in y], "prob_0": 1.0 - p, "prob_1": p})
    lists = frame[["label"]].assign(prob=both.tolist())
    if form == "csv":
        frame.to_csv("two.csv", index=False)
    elif form == "parquet":
        lists.to_parquet("two.parquet")
    elif form == "npz":
        np.savez("two.npz", label=frame["label"].to_numpy(dtype=str), prob=both)
    else:
        lists.to_json("two.jsonl", orient="records", lines=True, double_precision=15)
    refused = typed(f"calibrant evaluate two.{form} {_MEASURES}")
    assert refused.exit_code == 2
    commands = _commands(refused.stderr)
    order = [command.partition("--class-names ")[2] for command in commands]
    assert order == [first, ",".join(first.split(",")[::-1])]
    expected = [_of_library(both, y if names == labels else 1 - y) for names in order]
    assert [_values(typed, command) for command in commands] == expected
    assert expected[0] != expected[1]


@pytest.mark.parametrize("labels", ["spam,ham", "yes,no"])
def test_a_positive_label_that_is_sorted_first_does_not_say_which_of_two_columns_is_its(
    typed: Typed, scores: Any, labels: str
) -> None:
    """Name the positive label of columns ``prob_0`` and ``prob_1``; it is that of ``prob_1`` only by its number."""
    p, words = scores["p"].to_numpy(), labels.split(",")
    frame = pd.DataFrame({"label": [words[k] for k in scores["y"]], "prob_0": 1.0 - p, "prob_1": p})
    frame.to_csv("two.csv", index=False)
    refused = typed(f"calibrant evaluate two.csv --pos-label {words[1]} {_MEASURES}")
    assert refused.exit_code == 2
    commands = _commands(refused.stderr)
    assert [command.split()[-1] for command in commands] == [labels, ",".join(words[::-1])]
    expected = _of_library(np.column_stack([1.0 - p, p]), scores["y"])
    assert _values(typed, commands[0]) == expected
    assert _values(typed, commands[1]) != expected
