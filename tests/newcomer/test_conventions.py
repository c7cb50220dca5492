"""Tasks with files in the conventions of further tools: polars, R, SPSS, RapidMiner, Hugging Face, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant
from tests.commands import error_of
from tests.newcomer.conftest import Typed, values_of


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
def test_polars_writes_arrow_files(typed: Typed, scores: Any, ece: Any, pets: Any, compression: Any) -> None:
    """Evaluate what ``write_ipc`` of polars writes, also with strings and categories, and calibrate it."""
    pl.from_pandas(scores).write_ipc("scores.feather", compression=compression)
    assert values_of(typed, "calibrant evaluate scores.feather")["ece"] == ece
    frame = pl.from_pandas(pets)
    frame.write_ipc("pets.feather", compression=compression)
    frame.with_columns(pl.col("species").cast(pl.Categorical)).write_ipc("coded.feather", compression=compression)
    expected = float(calibrant.evaluate(pets[["bird", "cat", "dog"]], pets["species"])["ece"])
    assert values_of(typed, "calibrant evaluate pets.feather")["ece"] == pytest.approx(expected)
    assert values_of(typed, "calibrant evaluate coded.feather")["ece"] == pytest.approx(expected)
    assert typed("calibrant fit coded.feather --method temperature --out map.json").exit_code == 0
    assert typed("calibrant calibrate pets.feather --map map.json --out new.feather").exit_code == 0
    assert pl.read_ipc("new.feather").columns == [*pets.columns, "calibrated_bird", "calibrated_cat", "calibrated_dog"]


@pytest.mark.parametrize("names", [("LABEL_0", "LABEL_1"), ("confidence(no)", "confidence(yes)"), ("P(no)", "P(yes)")])
def test_columns_of_hugging_face_and_rapidminer_are_read_as_classes(
    typed: Typed, scores: Any, ece: Any, names: Any
) -> None:
    """Evaluate columns that are called LABEL_0 and LABEL_1 or confidence(yes) and confidence(no)."""
    labels = scores["y"] if names[0] == "LABEL_0" else scores["y"].map({0: "no", 1: "yes"})
    pd.DataFrame({names[1]: scores["p"], names[0]: 1 - scores["p"], "label": labels}).to_csv("val.csv", index=False)
    assert values_of(typed, "calibrant evaluate val.csv --reduction binary")["ece"] == ece


def test_labels_of_several_questions_are_not_probabilities(typed: Typed, scores: Any) -> None:
    """Evaluate one probability beside one-hot columns that are called label_0 and label_1."""
    pd.DataFrame({"label_0": 1 - scores["y"], "label_1": scores["y"], "pred": scores["p"]}).to_csv("v.csv", index=False)
    assert "calibrant evaluate v.csv --label label_1" in error_of(typed("calibrant evaluate v.csv"), 2)


@pytest.mark.parametrize("name", ["xgb_pred", "response", "PRE_1", "Wahrscheinlichkeit", "outputs", "y_hat"])
def test_names_of_probabilities_of_other_tools_are_known(typed: Typed, scores: Any, ece: Any, name: str) -> None:
    """Evaluate columns as stacked models, R, SPSS and German spreadsheets name them."""
    pd.DataFrame({"X": np.arange(600), "y_test": scores["y"], name: scores["p"]}).to_csv("val.csv", index=False)
    assert values_of(typed, "calibrant evaluate val.csv")["ece"] == ece


def test_a_pipeline_without_names_of_labels_is_compared_with_numbers(typed: Typed, scores: Any) -> None:
    """Evaluate LABEL_0 and LABEL_1 with their scores beside a column of 0 and 1."""
    p = np.maximum(scores["p"], 1 - scores["p"])
    label = np.where(scores["p"] > 0.5, "LABEL_1", "LABEL_0")
    pd.DataFrame({"label": label, "score": p, "gold": scores["y"]}).to_csv("pipeline.csv", index=False)
    expected = float(calibrant.evaluate(p, (scores["p"] > 0.5) == (scores["y"] == 1))["ece"])
    assert values_of(typed, "calibrant evaluate pipeline.csv")["ece"] == pytest.approx(expected)
    assert "column 'score', the confidence in the predicted class" in typed("calibrant evaluate pipeline.csv").stderr
    refused = typed("calibrant evaluate pipeline.csv --pos-label LABEL_1")
    assert "the confidence in 'label'" in refused.stderr


@pytest.mark.parametrize("form", ["[np.float64({}), np.float64({})]", "DenseVector([{},{}])", "array([{}, {}])"])
def test_vectors_are_read_as_python_prints_them(typed: Typed, scores: Any, ece: Any, form: str) -> None:
    """Evaluate what ``to_csv`` makes of a column of lists of numpy's numbers, and of Spark's vectors."""
    cells = [form.format(1 - p, p) for p in scores["p"]]
    pd.DataFrame({"label": scores["y"], "probability": cells}).to_csv("spark.csv", index=False)
    assert values_of(typed, "calibrant evaluate spark.csv --reduction binary")["ece"] == ece


def test_a_column_of_kilograms_is_not_read_as_weights(typed: Typed, scores: Any, ece: Any) -> None:
    """Evaluate predictions beside the features of patients, one of which is called weight."""
    frame = scores.assign(weight=np.linspace(48.5, 110.25, 600), height=180)
    frame.to_csv("patients.csv", index=False)
    assert values_of(typed, "calibrant evaluate patients.csv")["ece"] == ece
    weighted = float(calibrant.evaluate(frame["p"], frame["y"], weights=frame["weight"])["ece"])
    assert values_of(typed, "calibrant evaluate patients.csv --weight weight")["ece"] == pytest.approx(weighted)


@pytest.mark.parametrize("orient", ["records", "columns", "index", "split", "table"])
def test_json_is_read_as_pandas_writes_it(typed: Typed, scores: Any, ece: Any, orient: Any) -> None:
    """Evaluate what ``to_json`` writes without ``lines=True``."""
    scores[["y", "p"]].to_json("scores.json", orient=orient, double_precision=15)
    assert values_of(typed, "calibrant evaluate scores.json")["ece"] == ece


def test_json_of_a_service_has_rows_or_lists_beside_other_values(
    typed: Typed, scores: Any, ece: Any, pets: Any
) -> None:
    """Evaluate JSON with the name of the model, and lines with the output of the model as an object."""
    rows = [{"truth": bool(y), "output": {"score": p}} for y, p in zip(scores["y"], scores["p"], strict=True)]
    lists = {"model": "xgb", "classes": ["a", "b"], "truth": scores["y"].tolist(), "score": scores["p"].tolist()}
    for document in (rows, {"model": "xgb", "predictions": rows}, lists):
        Path("scores.json").write_text(json.dumps(document, indent=2), "utf-8")
        assert values_of(typed, "calibrant evaluate scores.json")["ece"] == ece
    Path("scores.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert values_of(typed, "calibrant evaluate scores.jsonl")["ece"] == ece
    names = ["bird", "cat", "dog"]
    expected = float(calibrant.evaluate(pets[names], pets["species"])["ece"])
    for form in (list, lambda row: dict(zip(names, row, strict=True))):
        nested = [{"gold": row[3], "output": {"id": "7", "probs": form(row[:3])}} for row in pets.to_numpy().tolist()]
        Path("pets.jsonl").write_text("\n".join(map(json.dumps, nested)), "utf-8")
        assert values_of(typed, "calibrant evaluate pets.jsonl --class-names bird,cat,dog")["ece"] == pytest.approx(
            expected
        )
