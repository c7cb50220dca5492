"""Which of several models, as a newcomer asks it: in a notebook, of one file, and of two files with ids."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

import calibrant
from tests.commands import document_of, error_of
from tests.newcomer.conftest import Typed, commands_of


@pytest.fixture
def table(scores: Any) -> pd.DataFrame:
    """The scores of two models with labels and ids."""
    frame = pd.DataFrame({"customer": [f"c{i}" for i in range(len(scores))], "churn": scores["y"]})
    return frame.assign(forest=scores["p"], boosting=scores["p"] ** 2)


def test_a_mapping_and_a_frame_of_models_have_the_same_ranking(table: pd.DataFrame) -> None:
    """Compare two models by name, and the columns of a frame; print the result and draw both."""
    models = {"forest": table["forest"], "boosting": table["boosting"]}
    comparison = calibrant.compare(models, table["churn"])
    assert comparison.ranking == calibrant.compare(table[["forest", "boosting"]], table["churn"]).ranking
    assert "rank by log-loss" in str(comparison)
    assert len(calibrant.plot(comparison)) == 2


def test_the_ece_does_not_rank_models(table: pd.DataFrame) -> None:
    """Rank models by their ECE, and read why that is refused."""
    with pytest.raises(calibrant.CalibrationError, match="proper scores"):
        calibrant.compare(table[["forest", "boosting"]], table["churn"], rank_by="ece")


def test_the_command_that_an_error_prints_compares_two_columns(typed: Typed, table: pd.DataFrame) -> None:
    """Evaluate a file with the scores of two models, and type the first command of the message."""
    table.to_csv("scores.csv", index=False)
    columns = "--prediction forest --prediction boosting --label churn"
    error = error_of(typed(f"calibrant evaluate scores.csv {columns}"), 2)
    document = document_of(typed(f"{commands_of(error)[0]} --json"))
    expected = calibrant.compare(table[["forest", "boosting"]], table["churn"]).measures["log-loss"].ranking
    assert document["comparison"]["measures"]["log-loss"]["ranking"] == list(expected or ())


def test_two_files_of_other_order_are_joined_on_a_column(typed: Typed, table: pd.DataFrame) -> None:
    """Compare a file for each model, of which one lacks some customers, and follow the message."""
    table[["customer", "churn", "forest"]].rename(columns={"forest": "p"}).to_csv("forest.csv", index=False)
    other = table[["customer", "boosting"]].rename(columns={"boosting": "p"}).iloc[:0:-1]
    other.to_csv("boosting.csv", index=False)
    command = "calibrant compare forest.csv boosting.csv --id customer --label churn"
    assert "--inner" in error_of(typed(command), 1)
    completed = typed(f"{command} --inner --json")
    assert json.loads(completed.stdout)["n"] == len(table) - 1


def test_labels_come_from_another_file(typed: Typed, table: pd.DataFrame) -> None:
    """Evaluate predictions whose labels are in a second file."""
    table[["customer", "forest"]].rename(columns={"forest": "p"}).to_csv("predictions.csv", index=False)
    table[["customer", "churn"]].iloc[::-1].to_csv("outcomes.csv", index=False)
    document = document_of(
        typed("calibrant evaluate predictions.csv --labels-from outcomes.csv --id customer --label churn --json")
    )
    expected = calibrant.evaluate(table["forest"], table["churn"])["ece"].value
    assert document["measures"]["ece"]["value"] == expected
