"""Tasks with files of which another reading has other numbers: each is read rightly, or refused with both commands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from tests.commands import error_of, notes_of, succeeds
from tests.newcomer.conftest import Typed, commands_of, values_of
from tests.rows import draw_classes

_MEASURES = "--measure accuracy --measure confidence-gap --measure selective-cost --measure brier"


@pytest.fixture
def guesses(pets: Any) -> Any:
    """Return a frame of the label, the predicted class and its confidence, and whether it is right."""
    p = pets[["bird", "cat", "dog"]]
    frame = pd.DataFrame({"label": pets["species"], "predicted_label": p.idxmax(axis=1), "score": p.max(axis=1)})
    return frame.assign(correct=frame["label"] == frame["predicted_label"])


def test_the_output_of_a_pipeline_beside_its_correctness_is_a_confidence(typed: Typed, guesses: Any) -> None:
    """Evaluate the label and the score of a pipeline beside whether the label is right."""
    frame = guesses[["predicted_label", "score", "correct"]].set_axis(["label", "score", "correct"], axis=1)
    frame.to_csv("pipeline.csv", index=False)
    printed = values_of(typed, f"calibrant evaluate pipeline.csv {_MEASURES}")
    assert printed["accuracy"] == pytest.approx(guesses["correct"].mean())
    assert "do not name a positive label" in typed("calibrant evaluate pipeline.csv --pos-label cat").stderr


@pytest.mark.parametrize(
    "names", ["confidence,correct", "conf,is_correct", "max_prob,correct", "Confidence,Is Correct"]
)
def test_confidences_and_correctness_are_evaluated_as_the_confidence(typed: Typed, guesses: Any, names: str) -> None:
    """Evaluate, report, fit and draw the confidence of an answer and whether it is right."""
    confidence, correct = names.split(",")
    guesses[["score", "correct"]].set_axis([confidence, correct], axis=1).to_csv("answers.csv", index=False)
    printed = values_of(typed, f"calibrant evaluate answers.csv {_MEASURES}")
    assert printed == values_of(typed, f"calibrant evaluate answers.csv {_MEASURES} --reduction confidence")
    assert printed["accuracy"] == pytest.approx(guesses["correct"].mean())
    assert printed["confidence-gap"] == pytest.approx(guesses["score"].mean() - guesses["correct"].mean())
    succeeds(typed("calibrant fit answers.csv --method platt --out map.json"))
    assert json.loads(Path("map.json").read_text("utf-8"))["reduction"] == "confidence"
    assert "600 rows, confidence" in typed("calibrant evaluate answers.csv --map map.json").stdout
    assert typed("calibrant calibrate answers.csv --map map.json").exit_code == 0
    assert typed("calibrant report answers.csv --out report.html").exit_code == 0
    assert "predicted class" in Path("report.html").read_text("utf-8")
    assert typed("calibrant diagram answers.csv --out answers.svg").exit_code == 0


def test_the_score_of_a_predicted_class_is_its_confidence(typed: Typed, guesses: Any) -> None:
    """Evaluate labels, predicted labels and the score of the predicted label."""
    guesses.drop(columns="correct").to_csv("guesses.csv", index=False)
    printed = values_of(typed, f"calibrant evaluate guesses.csv {_MEASURES}")
    assert printed["accuracy"] == pytest.approx(guesses["correct"].mean())
    assert printed["confidence-gap"] == pytest.approx(guesses["score"].mean() - guesses["correct"].mean())
    expected = calibrant.evaluate(guesses["score"], guesses["correct"], measures=["brier"], reduction="confidence")
    assert printed["brier"] == pytest.approx(expected["brier"].value)


def test_a_score_that_can_be_of_class_1_or_of_the_predicted_class_is_refused(typed: Typed) -> None:
    """Evaluate a few rows of labels 0 and 1 whose scores are all above one half."""
    rows = {"y_true": [1, 0, 0, 1], "y_pred": [1, 0, 0, 0], "score": [0.9, 0.8, 0.7, 0.6]}
    pd.DataFrame(rows).to_csv("few.csv", index=False)
    error = error_of(typed("calibrant evaluate few.csv --measure accuracy"), 2)
    commands = commands_of(error)
    assert [values_of(typed, command)["accuracy"] for command in commands] == [0.5, 0.75]
    pd.DataFrame({"correct": [1, 0, 0, 1], "p": rows["score"]}).to_csv("answers.csv", index=False)
    refused = typed("calibrant evaluate answers.csv --measure accuracy")
    assert [command.split()[-1] for command in commands_of(refused.stderr)] == ["binary", "confidence"]


def test_predicted_classes_with_other_names_than_the_labels_are_not_compared(typed: Typed) -> None:
    """Evaluate labels 0 and 1 beside POSITIVE and NEGATIVE with their scores."""
    names = ["POSITIVE", "NEGATIVE"] * 3
    rows = {"label": [1, 0, 0, 1, 1, 0], "predicted_label": names, "score": [0.9, 0.8, 0.7, 0.6, 0.9, 0.5]}
    pd.DataFrame(rows).to_csv("other.csv", index=False)
    error = error_of(typed("calibrant evaluate other.csv"), 1)
    assert "whose classes have other names than those of 'label'; name the positive label" in error
    assert typed("calibrant evaluate other.csv --pos-label 1").exit_code == 0


@pytest.mark.parametrize("names", [("w", "weight"), ("sample_weight", "n"), ("weights", "count")])
def test_weights_are_used_only_if_they_are_named(typed: Typed, scores: Any, names: tuple[str, str]) -> None:
    """Evaluate and fit a file with columns that may be weights; a note says how to use them."""
    frame = scores.assign(**{names[0]: np.arange(600) % 5 + 1.0, names[1]: np.linspace(48.5, 110.25, 600)})
    frame.to_csv("weighted.csv", index=False)
    completed = typed("calibrant evaluate weighted.csv --measure brier")
    for name in names:
        assert f"weights: none; column '{name}' is not used unless it is named (--weight)" in completed.stderr
    expected = calibrant.evaluate(scores["p"], scores["y"], measures=["brier"])["brier"].value
    assert values_of(typed, "calibrant evaluate weighted.csv --measure brier")["brier"] == pytest.approx(expected)
    weighted = calibrant.evaluate(scores["p"], scores["y"], measures=["brier"], weights=frame[names[1]])["brier"].value
    line = f"calibrant evaluate weighted.csv --measure brier --weight {names[1]}"
    assert values_of(typed, line)["brier"] == pytest.approx(weighted)
    forecasts = pd.DataFrame({"obs": scores["y"], "mean": scores["p"], "std": 1.0, names[0]: 2})
    forecasts.to_csv("forecasts.csv", index=False)
    shown = typed("calibrant evaluate forecasts.csv --regression").stderr
    assert f"column '{names[0]}' is not used unless it is named (--weight)" in shown


@pytest.mark.parametrize("scale", ["logprob", "avg_logprob", "log_likelihood", "loglik", "lp_logprob", "ll"])
def test_log_likelihoods_of_choices_are_read_with_their_softmax(typed: Typed, pets: Any, scale: str) -> None:
    """Evaluate the log-likelihoods of the choices of a question, with the option that the message names."""
    names = ["bird", "cat", "dog"]
    logs = np.log(pets[names].to_numpy()) - np.arange(600)[:, None] % 7  # unnormalised
    frame = pd.DataFrame(logs, columns=[f"{scale}_{name}" for name in names]).assign(answer=pets["species"])
    frame.to_csv("choices.csv", index=False)
    error = error_of(typed("calibrant evaluate choices.csv --measure brier --measure accuracy"), 1)
    assert "add --scale logit" in error
    expected = calibrant.evaluate(pets[names], pets["species"], measures=["brier", "accuracy"])
    line = "calibrant evaluate choices.csv --scale logit --measure brier --measure accuracy"
    assert values_of(typed, line) == {name: pytest.approx(expected[name].value) for name in ("brier", "accuracy")}


def _assert_evaluated_as(scores: Any, typed: Typed, frame: pd.DataFrame, form: str) -> None:
    """A file of this frame, which has the scores in another form, is evaluated as the scores."""
    if form == "npz":
        np.savez("scores.npz", y=np.array(frame["y"].tolist()), p=np.array(frame["p"].tolist()))
    elif form in ("jsonl", "json"):
        frame.to_json(f"scores.{form}", orient="records", lines=form == "jsonl", double_precision=15)
    else:
        write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[form]
        write(f"scores.{form}", index=False)
    expected = calibrant.evaluate(scores["p"], scores["y"], measures=["brier"])["brier"].value
    assert values_of(typed, f"calibrant evaluate scores.{form} --measure brier") == {"brier": pytest.approx(expected)}


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet", "npz"])
@pytest.mark.parametrize("boxed", [("p",), ("p", "y")])
def test_cells_of_one_element_are_that_element(typed: Typed, scores: Any, form: str, boxed: tuple[str, ...]) -> None:
    """Evaluate predictions that a model returned as arrays of one number per row."""
    frame = scores[["y", "p"]].assign(**{name: [[cell] for cell in scores[name].tolist()] for name in boxed})
    _assert_evaluated_as(scores, typed, frame, form)


@pytest.mark.parametrize(
    ("labels", "first"),
    [("nein,ja", "ja"), ("No,Yes", "Yes"), ("non,oui", "oui"), ("negative,positive", "positive"), ("-1,1", "1")],
)
def test_the_positive_label_of_a_known_pair_is_offered_first(
    typed: Typed, scores: Any, labels: str, first: str
) -> None:
    """Evaluate labels of two words; both commands are printed, and each one works."""
    words = labels.split(",")
    scores.assign(y=[words[k] for k in scores["y"]])[["y", "p"]].to_csv("words.csv", index=False)
    commands = commands_of(typed("calibrant evaluate words.csv --measure brier").stderr)
    assert [shlex.split(command)[-1] for command in commands] == [first, words[0]]
    expected = calibrant.evaluate(scores["p"], scores["y"], measures=["brier"])["brier"].value
    assert values_of(typed, commands[0])["brier"] == pytest.approx(expected)
    assert values_of(typed, commands[1])["brier"] != pytest.approx(expected)


def test_predicted_classes_that_are_strings_are_named(typed: Typed, pets: Any) -> None:
    """Evaluate what ``predict`` returns in place of what ``predict_proba`` returns."""
    guess = pets[["bird", "cat", "dog"]].idxmax(axis=1)
    for name in ("y_pred", "prediction", "output"):
        pd.DataFrame({"y_true": pets["species"], name: guess}).to_csv("hard.csv", index=False)
        for flags in ("", f"--prediction {name}"):
            error = error_of(typed(f"calibrant evaluate hard.csv {flags}"), 1)
            assert f"column '{name}' has predicted classes, not probabilities; save" in error
            assert "model.predict_proba(X)" in error


def test_columns_of_two_models_are_not_two_classes(typed: Typed, scores: Any) -> None:
    """Name the columns of two models; the message says what two columns are, and how to compare two models."""
    scores.assign(a=scores["p"], b=scores["p"] ** 2).to_csv("two.csv", index=False)
    error = error_of(typed("calibrant evaluate two.csv --label y --prediction a --prediction b --measure brier"), 2)
    assert "swap" not in error
    assert "are read as the probabilities of 2 classes" in error
    assert "calibrant compare two.csv --label y --prediction a --prediction b" in error
    for command, power in zip(commands_of(error)[1:], (1, 2), strict=True):
        expected = calibrant.evaluate(scores["p"] ** power, scores["y"], measures=["brier"])["brier"].value
        assert values_of(typed, command)["brier"] == pytest.approx(expected)


@pytest.mark.parametrize("digits", [3, 4])
def test_rounded_rows_are_read_alike_by_the_command_and_the_library(typed: Typed, digits: int) -> None:
    """Evaluate twenty classes of few decimals, whose rows do not quite sum to 1."""
    p, y = draw_classes(200, 20)
    rounded = p.round(digits)
    assert np.abs(rounded.sum(axis=1) - 1).max() > 1e-4
    expected = calibrant.evaluate(rounded, y, measures=["brier"])["brier"].value
    pd.DataFrame(rounded).add_prefix("prob_").assign(label=y).to_csv("rounded.csv", index=False)
    assert values_of(typed, "calibrant evaluate rounded.csv --measure brier")["brier"] == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "xlsx"])
@pytest.mark.parametrize("written", ["[{0}]", "[[{0}]]", "tensor({0})", "array([{0}])", "{{{0}}}", "({0},)"])
def test_texts_of_one_element_are_that_element(typed: Typed, scores: Any, form: str, written: str) -> None:
    """Evaluate predictions that a spreadsheet, JSON or PostgreSQL has as the text of an array."""
    frame = pd.DataFrame({"y": scores["y"], "p": [written.format(repr(float(p))) for p in scores["p"]]})
    _assert_evaluated_as(scores, typed, frame, form)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_texts_of_vectors_are_the_probabilities_of_the_classes(typed: Typed, pets: Any, form: str) -> None:
    """Evaluate arrays of PostgreSQL, as its ``copy`` writes them."""
    p = pets[["bird", "cat", "dog"]].to_numpy()
    y = pets["species"].map({"bird": 0, "cat": 1, "dog": 2})
    frame = pd.DataFrame({"label": y, "probs": ["{" + ",".join(map(repr, row)) + "}" for row in p.tolist()]})
    frame.to_csv("pets.csv", index=False)
    frame.to_json("pets.jsonl", orient="records", lines=True)
    expected = calibrant.evaluate(p, y, measures=["brier"])["brier"].value
    assert values_of(typed, f"calibrant evaluate pets.{form} --measure brier") == {"brier": pytest.approx(expected)}


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_nested_lists_of_one_element_are_that_element(typed: Typed, scores: Any, form: str) -> None:
    """Evaluate predictions of shape (1, 1) a row, as a network returns them for one row at a time."""
    frame = pd.DataFrame({"y": [[k] for k in scores["y"].tolist()], "p": [[[p]] for p in scores["p"].tolist()]})
    _assert_evaluated_as(scores, typed, frame, form)


@pytest.mark.parametrize("kind", ["importance", "frequency"])
def test_a_fit_prints_how_it_used_the_weights(typed: Typed, scores: Any, kind: str) -> None:
    """Fit maps of probabilities and of forecasts to weighted rows."""
    scores.assign(w=np.arange(600) % 4, mean=0.5, std=1.0)[["y", "p", "w", "mean", "std"]].to_csv("w.csv", index=False)
    flags = f"w.csv --weight w --weights-kind {kind} --out map.json"
    for line in (f"{flags} --prediction p --method platt", f"{flags} --regression --method variance-scaling"):
        assert f"to 600 rows, with {kind} weights" in notes_of(typed(f"calibrant fit {line}"))
