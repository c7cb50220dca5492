"""Tasks on the command line, with files as pandas, R, Excel and Hugging Face write them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

import calibrant
from tests.commands import error_of, notes_of, output_of, succeeds
from tests.newcomer.conftest import Typed, values_of


def test_pandas_writes_its_index_too(typed: Typed, scores: Any, ece: Any) -> None:
    """Evaluate what ``to_csv`` writes: the first column is the index, without a name."""
    scores[["y", "p"]].to_csv("scores.csv")
    assert values_of(typed, "calibrant evaluate scores.csv")["ece"] == ece
    pd.read_csv("scores.csv").to_csv("again.csv", index=False)  # now the column is called "Unnamed: 0"
    assert values_of(typed, "calibrant evaluate again.csv")["ece"] == ece


def test_r_writes_row_names_quotes_and_logical_labels(typed: Typed, scores: Any, ece: Any) -> None:
    """Evaluate what R's ``write.csv`` writes: row names, quoted names, TRUE and FALSE."""
    rows = [f'"{i + 1}",{str(row.y == 1).upper()},{row.p:.15g}' for i, row in enumerate(scores.itertuples())]
    Path("glm.csv").write_text("\n".join(['"","default","prob"', *rows, ""]), "utf-8")
    assert values_of(typed, "calibrant evaluate glm.csv")["ece"] == ece


def test_tidymodels_puts_the_class_into_the_column_name(typed: Typed, scores: Any, ece: Any) -> None:
    """Evaluate the predictions of a tidymodels workflow: .pred_No, .pred_Yes and the predicted class."""
    frame = pd.DataFrame({"truth": scores["y"].map({0: "No", 1: "Yes"})})
    frame[".pred_class"] = np.where(scores["p"] > 0.5, "Yes", "No")
    frame[".pred_No"], frame[".pred_Yes"] = 1 - scores["p"], scores["p"]
    frame.to_csv("predictions.csv", index=False)
    assert values_of(typed, "calibrant evaluate predictions.csv --reduction binary")["ece"] == ece


@pytest.mark.parametrize("labels", ["label", "intent"])
@pytest.mark.parametrize("column", ["prob_{}", "{}_prob", "{}"])
def test_some_names_of_classes_are_numbers(typed: Typed, column: str, labels: str) -> None:
    """Evaluate classes such as 'refund' and '404', with a column for each."""
    names, y = ["refund", "404", "500"], np.arange(40) % 3
    p = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    frame = pd.DataFrame(p, columns=[column.format(name) for name in names])
    frame.assign(**{labels: [names[k] for k in y]}).to_csv("intents.csv", index=False)
    printed = values_of(typed, "calibrant evaluate intents.csv --reduction canonical --measure log-loss")
    assert printed["log-loss"] == pytest.approx(-np.log(p[np.arange(40), y]).mean(), abs=1e-4)


def test_excel_writes_semicolons_and_decimal_commas(typed: Typed, scores: Any, ece: Any) -> None:
    """Evaluate a file from an Excel that writes decimal commas; the message names the flag."""
    scores[["y", "p"]].to_csv("excel.csv", sep=";", decimal=",", index_label="customer", encoding="utf-8-sig")
    assert "--decimal ," in error_of(typed("calibrant evaluate excel.csv"))
    assert values_of(typed, "calibrant evaluate excel.csv --decimal ,")["ece"] == ece


def test_an_excel_workbook_is_a_file_as_others_are(typed: Typed, scores: Any, ece: Any) -> None:
    """Evaluate a workbook that a colleague sent, with a title above the table, and calibrate it."""
    scores[["y", "p"]].to_excel("scores.xlsx", startrow=2, sheet_name="May")
    book = openpyxl.load_workbook("scores.xlsx")
    book["May"]["A1"] = "Scores of May"
    book.save("scores.xlsx")
    assert values_of(typed, "calibrant evaluate scores.xlsx")["ece"] == ece
    assert typed("calibrant fit scores.xlsx --method platt --out map.json").exit_code == 0
    assert typed("calibrant calibrate scores.xlsx --map map.json --out calibrated.csv").exit_code == 0
    assert list(pd.read_csv("calibrated.csv")) == ["y", "p", "calibrated"]


def test_predicted_classes_are_not_probabilities(typed: Typed, scores: Any, ece: Any) -> None:
    """Evaluate a file with y_true, y_pred and y_pred_proba."""
    frame = pd.DataFrame(
        {"y_true": scores["y"], "y_pred": (scores["p"] > 0.5).astype(int), "y_pred_proba": scores["p"]}
    )
    frame.to_csv("val.csv", index=False)
    assert values_of(typed, "calibrant evaluate val.csv")["ece"] == ece


def test_a_wildcard_names_the_columns_of_all_classes(typed: Typed, pets: Any) -> None:
    """Evaluate columns y_pred_proba_bird, y_pred_proba_cat and so on, named by a wildcard or not at all."""
    frame = pets.rename(columns={name: f"y_pred_proba_{name}" for name in ("bird", "cat", "dog")})
    frame.assign(y_pred="bird").to_csv("val.csv", index=False)
    ece = values_of(typed, "calibrant evaluate val.csv --label species --prediction 'y_pred_proba_*'")["ece"]
    assert ece == pytest.approx(values_of(typed, "calibrant evaluate val.csv --label species")["ece"])


def test_several_readings_are_printed_as_commands(typed: Typed, scores: Any) -> None:
    """Evaluate a file with the scores of two models, and copy one of the commands that the message offers."""
    scores[["y"]].assign(p_lr=scores["p"], p_rf=scores["p"] ** 2).to_csv("two.csv", index=False)
    error = error_of(typed("calibrant evaluate two.csv --interval 0.95"), 2)
    commands = re.findall(r"calibrant evaluate \S.*", error)
    assert len(commands) == 2
    assert all("--interval 0.95" in command for command in commands)
    for command, power in zip(commands, (1, 2), strict=True):
        expected = calibrant.evaluate(scores["p"].to_numpy() ** power, scores["y"].to_numpy()).measures["ece"].value
        assert values_of(typed, command)["ece"] == pytest.approx(expected)


def test_headings_of_classes_need_no_flags(typed: Typed, pets: Any) -> None:
    """Evaluate, fit and calibrate a file whose columns are called bird, cat, dog and species."""
    pets.to_csv("pets.csv", index=False)
    assert typed("calibrant evaluate pets.csv").exit_code == 0
    Path("pets.json").write_text(typed("calibrant fit pets.csv").stdout, "utf-8")  # calibrant fit pets.csv > pets.json
    header = output_of(typed("calibrant calibrate pets.csv --map pets.json")).splitlines()[0].split(",")
    assert header == [*pets.columns, "calibrated_bird", "calibrated_cat", "calibrated_dog"]


def test_class_names_give_numbered_columns_their_names(typed: Typed, pets: Any) -> None:
    """Evaluate columns prob_0 to prob_2 against text labels, by naming the classes in order."""
    pets.columns = ["prob_0", "prob_1", "prob_2", "label"]
    pets.to_csv("pets.csv", index=False)
    succeeds(typed("calibrant evaluate pets.csv --class-names bird,cat,dog --reduction classwise"))
    assert "--class-names" in error_of(typed("calibrant evaluate pets.csv"))


def test_pos_label_names_the_event_of_a_score(typed: Typed, scores: Any, ece: Any) -> None:
    """Evaluate the scores of a Hugging Face sentiment pipeline against POSITIVE and NEGATIVE."""
    frame = pd.DataFrame({"label": scores["y"].map({0: "NEGATIVE", 1: "POSITIVE"}), "score": scores["p"]})
    frame.to_csv("sentiment.csv", index=False)
    assert values_of(typed, "calibrant evaluate sentiment.csv --pos-label POSITIVE")["ece"] == ece


def test_time_shows_calibration_by_period(typed: Typed, scores: Any) -> None:
    """See whether calibration drifted from January to February."""
    scores.assign(date=pd.date_range("2024-01-01", "2024-02-29", periods=600)).to_csv("scores.csv", index=False)
    printed = output_of(typed("calibrant evaluate scores.csv --time date"))
    assert "2024-01" in printed
    assert "2024-02" in printed


def test_parquet_stays_parquet(typed: Typed, scores: Any) -> None:
    """Fit and calibrate a Parquet file with boolean labels, and keep its columns."""
    frame = pd.DataFrame({"id": np.arange(600), "y": scores["y"] == 1, "p": scores["p"]})
    frame.to_parquet("scores.parquet")
    assert typed("calibrant fit scores.parquet --method platt --out map.json").exit_code == 0
    succeeds(typed("calibrant calibrate scores.parquet --map map.json --out calibrated.parquet"))
    calibrated = pd.read_parquet("calibrated.parquet")
    assert list(calibrated.columns) == ["id", "y", "p", "calibrated"]
    assert calibrated["id"].equals(frame["id"])


def test_a_report_without_out_is_a_file(typed: Typed, scores: Any) -> None:
    """Write a report without reading the help first."""
    scores.to_csv("scores.csv", index=False)
    completed = typed("calibrant report scores.csv")
    assert completed.exit_code == 0
    assert "report.html" in completed.output
    assert "<html" in Path("report.html").read_text("utf-8")


def test_all_missing_values_are_counted(typed: Typed, scores: Any) -> None:
    """Learn at once how many values are missing, not only where the first is."""
    p = scores["p"].mask(scores.index % 17 == 0)  # 36 rows
    y = scores["y"].mask(scores.index % 31 == 1)  # 20 rows
    scores.assign(p=p, y=y).to_csv("scores.csv", index=False)
    error = error_of(typed("calibrant evaluate scores.csv"))
    assert "36" in error
    assert "20" in error
    assert "add --drop-missing" in error
    assert "left out" in typed("calibrant evaluate scores.csv --drop-missing").stderr


def test_a_map_on_its_own_rows_is_called_in_sample(typed: Typed, scores: Any) -> None:
    """A map evaluated on its own rows is reported as in-sample; held-out rows do better."""
    scores.to_csv("scores.csv", index=False)
    assert typed("calibrant fit scores.csv --method isotonic --out map.json").exit_code == 0
    own = typed("calibrant evaluate scores.csv --map map.json")
    assert "in-sample" in own.output
    assert "cross-fitted" in own.output
    split = typed("calibrant fit scores.csv --method isotonic --holdout 0.3 --out split.json")
    assert split.exit_code == 0, split.stderr
    assert "held-out" in split.output


@pytest.mark.parametrize(
    ("text", "flags", "remedy"),
    [
        ("Kunde;Wahrscheinlichkeit;label\nK1;0,25;0\nK2;0,75;1\n", "", "--decimal ,"),
        ("p;label\n12,5 %;0\n75,0 %;1\n", "--decimal ,", "set the scale to percent; add --scale percent"),
        ("Model,,Truth\nid,p,label\n7,0.25,0\n8,0.75,1\n", "", "in the second line"),
        ('logit,label\n"1,234.5",1\n"-1,234.5",0\n', "--scale logit", "separators of thousands"),
        ("margin,label\n1.5,1\n-1.25,0\n", "--scale logit", "--prediction margin"),
        ("margin,label\n1.5,1\n-1.25,0\n", "", "--scale logit"),
    ],
)
def test_damage_done_by_a_spreadsheet_is_named(typed: Typed, text: str, flags: str, remedy: str) -> None:
    """Evaluate files with numbers as people write them, and read how to mend each."""
    Path("excel.csv").write_text(text, "utf-8-sig")
    assert remedy in error_of(typed(f"calibrant evaluate excel.csv {flags}"), 1)


@pytest.mark.slow
@pytest.mark.parametrize(("sign", "mark", "flags"), [("%", ".", ""), (" %", ",", " --decimal ,")])
@pytest.mark.parametrize("column", ["p", "score"])
def test_percent_signs_are_read_with_the_scale_percent(
    typed: Typed, scores: Any, sign: str, mark: str, flags: str, column: str
) -> None:
    """Evaluate and calibrate a file in which a spreadsheet has written percentages with their sign."""
    scores["p"] = scores["p"].round(3)
    expected = calibrant.evaluate(scores["p"], scores["y"], measures=["ece"])["ece"].value
    texts = [f"{100 * p:.1f}{sign}".replace(".", mark) for p in scores["p"]]
    scores[["y"]].assign(**{column: texts}).to_csv("signs.csv", sep=";", index=False)
    assert "add --scale percent" in error_of(typed(f"calibrant evaluate signs.csv{flags}"), 1)
    flags = f"--scale percent{flags}"
    assert values_of(typed, f"calibrant evaluate signs.csv {flags} --measure ece")["ece"] == pytest.approx(expected)
    assert typed(f"calibrant fit signs.csv {flags} --method platt --out map.json").exit_code == 0
    assert typed(f"calibrant calibrate signs.csv {flags} --map map.json --out calibrated.csv").exit_code == 0
    assert sign in Path("calibrated.csv").read_text("utf-8")
    with Path("signs.csv").open("a", encoding="utf-8") as file:
        file.write("1;\n0;n/a\n")
    dropped = values_of(typed, f"calibrant evaluate signs.csv {flags} --measure ece --drop-missing")
    assert dropped["ece"] == pytest.approx(expected)


def test_percent_signs_are_read_where_the_first_rows_are_equal(typed: Typed) -> None:
    """Evaluate a file that begins with many rows of the same grade."""
    rows = [("5 %", k % 2) for k in range(3000)] + [("40 %", 1), ("60 %", 0)]
    pd.DataFrame(rows, columns=["p", "y"]).to_csv("equal.csv", index=False)
    assert typed("calibrant evaluate equal.csv --scale percent --measure brier").exit_code == 0


def test_a_pipeline_of_hugging_face_predicts_the_label(typed: Typed, scores: Any) -> None:
    """Evaluate the rows of a pipeline beside the true label: ``label`` is what the model predicts."""
    predicted, p = scores["p"] > 0.5, np.maximum(scores["p"], 1 - scores["p"])
    frame = pd.DataFrame({"label": np.where(predicted, "POSITIVE", "NEGATIVE"), "score": p})
    frame["true"] = np.where(scores["y"] == 1, "POSITIVE", "NEGATIVE")
    frame.to_json("pipeline.jsonl", orient="records", lines=True)
    correct = (predicted == (scores["y"] == 1)).to_numpy()
    expected = calibrant.evaluate(p.to_numpy(), correct)["ece"].value
    assert values_of(typed, "calibrant evaluate pipeline.jsonl")["ece"] == pytest.approx(expected)
    error = error_of(typed("calibrant evaluate pipeline.jsonl --pos-label POSITIVE"))
    assert "the confidence in 'label'" in error


def test_an_option_given_twice_is_refused(typed: Typed, scores: Any) -> None:
    """Ask for two labels, of which the last would win without a word."""
    scores.to_csv("scores.csv", index=False)
    error = error_of(typed("calibrant evaluate scores.csv --prediction p --label y --label=site"), 2)
    assert "--label takes one value" in error
    assert typed("calibrant evaluate scores.csv --measure ece --measure ks").exit_code == 0


def test_a_column_of_counts_is_used_if_it_is_named(typed: Typed, scores: Any) -> None:
    """Evaluate a table of R's ``dplyr::count``, in which each row stands for ``n`` rows; a note names the flag."""
    counted = scores.assign(p=scores["p"].round(1)).groupby(["y", "p"]).size().rename("n").reset_index()
    counted.to_csv("counted.csv", index=False)
    notes = notes_of(typed("calibrant evaluate counted.csv"))
    assert "weights: none; column 'n' is not used unless it is named (--weight)" in notes
    expected = calibrant.evaluate(scores["p"].round(1).to_numpy(), scores["y"].to_numpy()).measures["ece"].value
    assert values_of(typed, "calibrant evaluate counted.csv --weight n")["ece"] == pytest.approx(expected)


def test_a_calibrated_file_needs_no_weights_and_groups(typed: Typed, scores: Any) -> None:
    """Calibrate a file with columns that look like weights and groups, which a map does not use."""
    scores.to_csv("scores.csv", index=False)
    assert typed("calibrant fit scores.csv --label y --method platt --out map.json").exit_code == 0
    scores.assign(w="a", weight=-1, group=1).to_csv("more.csv", index=False)
    notes = notes_of(typed("calibrant calibrate more.csv --map map.json --out calibrated.csv"))
    assert "weights" not in notes
    assert "groups" not in notes
    forecasts = {"obs": scores["y"], "mean": scores["p"], "std": 1.0, "made": range(600), "known": range(1, 601)}
    pd.DataFrame(forecasts).assign(w=1, weight=1, group=1).to_csv("forecasts.csv", index=False)
    line = "calibrant calibrate forecasts.csv --half-life 9 --time made --known known --out calibrated.csv"
    assert typed(line).exit_code == 0
    assert "weights" not in typed(line).stderr


def test_the_weights_of_other_forecasts_are_not_used(typed: Typed) -> None:
    """Compare forecasts with those of a file that has weights."""
    pd.DataFrame({"obs": [1.0, 2.0, 4.0], "mean": [1.0, 2.0, 3.0], "std": 1.0}).to_csv("one.csv", index=False)
    pd.DataFrame({"obs": [1.0, 2.0, 4.0], "mean": [2.0, 2.0, 2.0], "std": 1.0, "w": 2}).to_csv("two.csv", index=False)
    assert "weights" not in notes_of(typed("calibrant evaluate one.csv --regression --against two.csv"))


def test_a_class_is_shown_by_its_name(typed: Typed, pets: Any) -> None:
    """Fit and evaluate a map of one class by name; JSON keeps numbers."""
    pets.to_csv("pets.csv", index=False)
    fitted = typed("calibrant fit pets.csv --method platt --reduction class:dog --holdout .3 --out map.json")
    assert fitted.stderr.count("class:dog") == 3
    assert "class:2" not in fitted.stderr
    assert json.loads(Path("map.json").read_text("utf-8"))["reduction"] == "class:2"
    completed = typed("calibrant evaluate pets.csv --map map.json")
    assert completed.stdout.startswith("600 rows, class:dog\n")
    assert "class:2" not in completed.stdout
    drawn = typed("calibrant diagram pets.csv --map map.json --out -").stdout
    assert "class:dog" in drawn
    assert "class:2" not in drawn
    document = json.loads(typed("calibrant evaluate pets.csv --map map.json --json").stdout)
    assert document["reduction"] == "class:2"


@pytest.mark.parametrize("seed", range(4))
def test_held_out_clusters_have_about_the_fraction_of_the_rows(typed: Typed, scores: Any, seed: int) -> None:
    """Hold out a third of the rows by two clusters, of which one has two thirds."""
    sizes = scores.assign(site=np.where(np.arange(600) % 3, "large", "small"), obs=scores["y"], mean=0.5, std=1.0)
    sizes.to_csv("scores.csv", index=False)
    line = f"calibrant fit scores.csv --cluster site --holdout 0.3 --seed {seed} --out map.json"
    fitted = typed(f"{line} --method platt --label y --prediction p").stderr
    assert "to 400 rows" in fitted
    assert "held-out scores (200 rows)" in fitted
    fitted = typed(f"{line} --regression --method variance-scaling --label obs").stderr
    assert "to 400 rows" in fitted
    assert "held-out (200 rows)" in fitted


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl", ".csv"])
def test_arrays_are_calibrated_into_tables(typed: Typed, scores: Any, suffix: str) -> None:
    """Write the calibrated probabilities of an NPZ and an NPY file as a table."""
    p, y = scores["p"].to_numpy(), scores["y"].to_numpy()
    np.savez("scores.npz", predictions=p, labels=y)
    np.save("scores.npy", p)
    assert typed("calibrant fit scores.npz --method platt --out map.json").exit_code == 0
    readers: dict[str, Any] = {".parquet": pd.read_parquet, ".arrow": pd.read_feather, ".csv": pd.read_csv}
    for file in ("scores.npz", "scores.npy"):
        succeeds(typed(f"calibrant calibrate {file} --map map.json --out calibrated{suffix}"))
        read = readers.get(suffix, lambda path: pd.read_json(path, lines=True))(f"calibrated{suffix}")
        assert list(read.columns) == ["calibrated"]
        np.testing.assert_allclose(read["calibrated"], calibrant.load("map.json").apply(p), atol=1e-9)
