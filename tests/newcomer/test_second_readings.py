"""Tasks with files that have a second reading with other numbers: both commands are printed, and each one works."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from tests.commands import error_of
from tests.newcomer.conftest import Typed, commands_of, values_of

_MEASURES = "--measure accuracy --measure confidence-gap --measure brier --measure auroc"


def _of_library(p: Any, y: Any, **options: Any) -> dict[str, Any]:
    names = re.findall(r"--measure (\S+)", _MEASURES)
    report = calibrant.evaluate(p, y, measures=names, **options)
    return {name: pytest.approx(report[name].value) for name in names}


#: One of two readings is that of the other class.
other_class = pytest.mark.filterwarnings("ignore:predictions are clearly lower")


# --- Two columns whose classes have no names


@pytest.mark.slow
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
    error = error_of(typed(f"calibrant evaluate two.{form} {_MEASURES}"), 2)
    commands = commands_of(error)
    order = [command.partition("--class-names ")[2] for command in commands]
    assert order == [first, ",".join(first.split(",")[::-1])]
    expected = [_of_library(both, y if names == labels else 1 - y) for names in order]
    assert [values_of(typed, command) for command in commands] == expected
    assert expected[0] != expected[1]


@pytest.mark.parametrize("labels", ["spam,ham", "yes,no"])
def test_a_positive_label_that_is_sorted_first_does_not_say_which_of_two_columns_is_its(
    typed: Typed, scores: Any, labels: str
) -> None:
    """Name the positive label of columns ``prob_0`` and ``prob_1``; it is that of ``prob_1`` only by its number."""
    p, words = scores["p"].to_numpy(), labels.split(",")
    frame = pd.DataFrame({"label": [words[k] for k in scores["y"]], "prob_0": 1.0 - p, "prob_1": p})
    frame.to_csv("two.csv", index=False)
    error = error_of(typed(f"calibrant evaluate two.csv --pos-label {words[1]} {_MEASURES}"), 2)
    commands = commands_of(error)
    assert [command.split()[-1] for command in commands] == [labels, ",".join(words[::-1])]
    expected = _of_library(np.column_stack([1.0 - p, p]), scores["y"])
    assert values_of(typed, commands[0]) == expected
    assert values_of(typed, commands[1]) != expected


# --- The confidence in a predicted class


@pytest.mark.slow
@pytest.mark.parametrize("name", ["confidence", "conf", "max_prob", "msp"])
@pytest.mark.parametrize("outcome", ["hit", "label", "match", "em", "passed"])
def test_confidences_beside_outcomes_with_another_name_than_correct_are_offered_with_both_reductions(
    typed: Typed, pets: Any, name: str, outcome: str
) -> None:
    """Evaluate the confidence in one of three classes, and whether an answer is right, called otherwise."""
    p = pets[["bird", "cat", "dog"]]
    right = (p.idxmax(axis=1) == pets["species"]).astype(int)
    pd.DataFrame({outcome: right, name: p.max(axis=1)}).to_csv("answers.csv", index=False)
    error = error_of(typed(f"calibrant evaluate answers.csv {_MEASURES}"), 2)
    commands = commands_of(error)
    by_command = [values_of(typed, command) for command in commands]
    assert by_command == [_of_library(p.max(axis=1), right, reduction=of) for of in ("binary", "confidence")]
    assert by_command[0] != by_command[1]
    if name == "confidence":
        for command in ("fit answers.csv --method platt --out map.json", "report answers.csv --out report.html"):
            of_both = commands_of(typed(f"calibrant {command}").stderr)
            assert [typed(line).exit_code for line in of_both] == [0, 0]


def test_confidences_of_one_half_and_more_need_no_reduction(typed: Typed, scores: Any) -> None:
    """Evaluate the confidence in one of two classes, of which both reductions have the same values."""
    p = np.maximum(scores["p"], 1.0 - scores["p"])
    right = (scores["p"] > 0.5) == (scores["y"] == 1)
    pd.DataFrame({"hit": right.astype(int), "confidence": p}).to_csv("answers.csv", index=False)
    assert (
        values_of(typed, f"calibrant evaluate answers.csv {_MEASURES}")
        == _of_library(p, right, reduction="confidence")
        == _of_library(p, right)
    )


@pytest.mark.slow
@other_class
@pytest.mark.parametrize("threshold", [0.8, 1.0])
@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), ("0.0", "1.0"), ("no", "yes"), ("ham", "spam")])
def test_scores_above_another_threshold_may_be_those_of_one_class(
    typed: Typed, scores: Any, labels: tuple[Any, Any], threshold: float
) -> None:
    """Evaluate the rows with a score above one half, and predicted classes above a threshold of 0.8, or only one."""
    predicted = (scores["p"] > threshold).astype(int)
    frame = pd.DataFrame({"y_true": [labels[k] for k in scores["y"]], "y_pred": [labels[k] for k in predicted]})
    frame.assign(score=scores["p"])[scores["p"] > 0.5].to_csv("alerts.csv", index=False)
    error = error_of(typed(f"calibrant evaluate alerts.csv {_MEASURES}"), 2)
    p, y, right = (column[scores["p"] > 0.5] for column in (scores["p"], scores["y"], scores["y"] == predicted))
    expected = [_of_library(p, y), _of_library(p, right)]
    assert [values_of(typed, command) for command in commands_of(error)] == expected


@pytest.mark.parametrize("labels", [("no", "yes"), ("ham", "spam"), (0, 1), (-1, 1), (1, 2), ("0.0", "1.0")])
def test_scores_beside_predicted_labels_are_the_confidence_in_them(
    typed: Typed, scores: Any, labels: tuple[Any, Any]
) -> None:
    """Evaluate labels that are strings or numbers, the predicted labels, and scores that no threshold separates."""
    predicted = (scores["p"] > 0.5).astype(int)
    score = np.maximum(scores["p"], 1.0 - scores["p"])
    frame = pd.DataFrame({"y_true": [labels[k] for k in scores["y"]], "y_pred": [labels[k] for k in predicted]})
    frame.assign(score=score).to_csv("guesses.csv", index=False)
    assert values_of(typed, f"calibrant evaluate guesses.csv {_MEASURES}") == _of_library(
        score, predicted == scores["y"], reduction="confidence"
    )


@pytest.mark.parametrize("name", ["confidence", "max_prob", "p_max", "top1_prob", "score"])
@pytest.mark.parametrize("predicted", ["predicted_label", "pred"])
def test_confidences_below_one_half_in_predicted_strings_need_no_reduction(
    typed: Typed, pets: Any, name: str, predicted: str
) -> None:
    """Evaluate the confidence in one of three predicted strings, in lower or upper case."""
    p = pets[["bird", "cat", "dog"]]
    classes = p.idxmax(axis=1)
    frame = pd.DataFrame({"label": pets["species"], predicted: classes.str.title(), name: p.max(axis=1)})
    assert frame[name].min() < 0.5
    frame.to_csv("guesses.csv", index=False)
    expected = _of_library(p.max(axis=1), classes == pets["species"], reduction="confidence")
    assert values_of(typed, f"calibrant evaluate guesses.csv {_MEASURES}") == expected


@pytest.mark.parametrize("name", ["p_max", "top1_prob", "softmax_max --prediction softmax_max"])
def test_names_of_the_largest_probability_are_those_of_confidences(typed: Typed, pets: Any, name: str) -> None:
    """Evaluate the largest of three probabilities, and whether the answer is a hit."""
    p, (column, *options) = pets[["bird", "cat", "dog"]], name.split(" ", 1)
    hit = (p.idxmax(axis=1) == pets["species"]).astype(int)
    pd.DataFrame({"hit": hit, column: p.max(axis=1)}).to_csv("answers.csv", index=False)
    error = error_of(typed(" ".join(["calibrant evaluate answers.csv", *options, _MEASURES])), 2)
    expected = [_of_library(p.max(axis=1), hit, reduction=of) for of in ("binary", "confidence")]
    assert [values_of(typed, command) for command in commands_of(error)] == expected


def test_confidences_beside_three_labels_alone_have_no_reading(typed: Typed, pets: Any) -> None:
    """Evaluate confidences without the predicted class."""
    p = pets[["bird", "cat", "dog"]]
    pd.DataFrame({"label": pets["species"], "confidence": p.max(axis=1)}).to_csv("answers.csv", index=False)
    assert commands_of(error_of(typed("calibrant evaluate answers.csv"), 1)) == []


@pytest.mark.parametrize("option", ["", "--label gold"])
def test_the_label_of_a_pipeline_is_the_predicted_class_also_in_another_case(
    typed: Typed, scores: Any, option: str
) -> None:
    """Evaluate what a pipeline of Hugging Face writes, beside the labels."""
    predicted, score = scores["p"] > 0.5, np.maximum(scores["p"], 1.0 - scores["p"])
    frame = pd.DataFrame({"label": np.where(predicted, "POSITIVE", "NEGATIVE"), "score": score})
    frame.assign(gold=np.where(scores["y"] == 1, "positive", "negative")).to_csv("pipeline.csv", index=False)
    assert values_of(typed, f"calibrant evaluate pipeline.csv {option} {_MEASURES}") == _of_library(
        score, predicted == scores["y"], reduction="confidence"
    )


@pytest.mark.parametrize("option", ["", "--label gold"])
def test_the_label_of_a_pipeline_beside_numbers_is_not_taken_for_them(typed: Typed, scores: Any, option: str) -> None:
    """Evaluate scores of predicted strings, beside labels that are 0 and 1."""
    predicted, score = scores["p"] > 0.5, np.maximum(scores["p"], 1.0 - scores["p"])
    frame = pd.DataFrame({"label": np.where(predicted, "POSITIVE", "NEGATIVE"), "score": score, "gold": scores["y"]})
    frame.to_csv("pipeline.csv", index=False)
    assert "the confidence in 'label'" in error_of(typed(f"calibrant evaluate pipeline.csv {option}"), 1)
    of_event = values_of(typed, f"calibrant evaluate pipeline.csv {option} --pos-label 1 {_MEASURES}")
    assert of_event == _of_library(score, scores["y"])


@pytest.mark.parametrize("name", ["top1", "decision", "model_answer"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_confidences_beside_a_column_with_the_values_of_the_labels_are_refused(
    typed: Typed, pets: Any, name: str, n_classes: int
) -> None:
    """Evaluate the confidence in a predicted class whose column has a name that is not known."""
    p = pets[["bird", "cat", "dog"][:n_classes]]
    p = p.div(p.sum(axis=1), axis=0)
    predicted = p.to_numpy().argmax(axis=1)
    labels = np.random.default_rng(1).integers(0, n_classes, len(p))
    frame = pd.DataFrame({"label": labels, name: predicted, "confidence": p.max(axis=1)})
    frame.to_csv("guesses.csv", index=False)
    assert f"call column '{name}' 'predicted_label'" in error_of(typed("calibrant evaluate guesses.csv"), 1)
    frame.rename(columns={name: "predicted_label"}).to_csv("guesses.csv", index=False)
    assert values_of(typed, f"calibrant evaluate guesses.csv {_MEASURES}") == _of_library(
        p.max(axis=1), predicted == labels, reduction="confidence"
    )


# --- Percentages of at most 1


@pytest.mark.parametrize("name", ["prob_pct", "default_probability_percent", "p (%)", "score_%", "prob_prozent"])
def test_small_numbers_in_a_column_of_percentages_may_be_probabilities(typed: Typed, scores: Any, name: str) -> None:
    """Evaluate a rare event, whose percentages are below 1, or fractions that are called percentages."""
    frame = scores[["y"]].assign(**{name: scores["p"]})
    frame.to_csv("rare.csv", index=False)
    error = error_of(typed(f"calibrant evaluate rare.csv {_MEASURES}"), 2)
    expected = [_of_library(scores["p"] / of, scores["y"]) for of in (1.0, 100.0)]
    assert [values_of(typed, command) for command in commands_of(error)] == expected
    frame.assign(**{name: 100.0 * scores["p"]}).to_csv("common.csv", index=False)
    assert "add --scale percent" in error_of(typed("calibrant evaluate common.csv"), 1)


# --- Log-likelihoods of choices, and columns of classes that the labels number


@pytest.mark.slow
@pytest.mark.parametrize("names", ["{}_logprob", "{}_ll", "log_prob_{}", "logit_{}", "lp_{}", "choice {}"])
@pytest.mark.parametrize("numbered", [False, True])
def test_every_remedy_for_the_logits_of_choices_leads_to_their_softmax(
    typed: Typed, pets: Any, names: str, numbered: bool
) -> None:
    """Evaluate the log-likelihoods of three choices with what the messages say to add."""
    animals = ["bird", "cat", "dog"]
    logs = np.log(pets[animals].to_numpy()) - np.arange(600)[:, None] % 7  # unnormalised
    number = pets["species"].map({name: k for k, name in enumerate(animals)})
    frame = pd.DataFrame({"label": number if numbered else pets["species"]})
    for k, name in enumerate(animals):
        frame[names.format(name)] = logs[:, k]
    frame.to_csv("choices.csv", index=False)
    error = error_of(typed(f"calibrant evaluate choices.csv {_MEASURES}"), 1)
    (remedy,) = re.findall(r"add (--scale logit[^;)]*)", error)
    expected = _of_library(pets[animals], number, class_names=animals)
    assert values_of(typed, f"calibrant evaluate choices.csv {_MEASURES} {remedy}") == expected


@pytest.mark.parametrize("outcome", ["label", "y"])
def test_logits_of_two_models_are_not_those_of_two_classes(typed: Typed, scores: Any, outcome: str) -> None:
    """Evaluate columns ``logit_a`` and ``logit_b`` beside labels 0 and 1."""
    z = np.log(scores["p"] / (1.0 - scores["p"]))
    pd.DataFrame({outcome: scores["y"], "logit_a": z, "logit_b": 2.0 * z}).to_csv("models.csv", index=False)
    assert typed(f"calibrant evaluate models.csv --scale logit {_MEASURES}").exit_code != 0


@other_class
def test_classes_that_the_labels_number_are_offered_in_both_orders(typed: Typed, pets: Any) -> None:
    """Evaluate columns of names in another order than that of the numbers of the labels."""
    number = pets["species"].map({"bird": 0, "cat": 1, "dog": 2})
    pets[["dog", "bird", "cat"]].assign(target=number).to_csv("pets.csv", index=False)
    commands = commands_of(typed(f"calibrant evaluate pets.csv {_MEASURES}").stderr)
    orders = (["dog", "bird", "cat"], ["bird", "cat", "dog"])
    assert [values_of(typed, command) for command in commands] == [
        _of_library(pets[order].to_numpy(), number) for order in orders
    ]


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        ("bad", "p_good"),
        ("died", "survival_prob"),
        ("DEFAULT", "prob_paid"),
        ("is_churn", "pRetained"),
    ],
)
def test_the_probability_of_the_opposite_of_the_labels_is_offered_for_both_labels(
    typed: Typed, scores: Any, outcome: str, name: str
) -> None:
    """Evaluate whether an applicant defaults beside the probability that he pays."""
    frame = pd.DataFrame({outcome: scores["y"], name: 1 - scores["p"]})
    frame.to_csv("opposite.csv", index=False)
    line = "calibrant evaluate opposite.csv --measure brier"
    commands = commands_of(error_of(typed(line), 2))
    assert [command.split("--pos-label ")[1][0] for command in commands] == ["0", "1"]
    expected = calibrant.evaluate(scores["p"], scores["y"], measures=["brier"])["brier"].value
    assert values_of(typed, commands[0])["brier"] == pytest.approx(expected)
    assert (values_of(typed, commands[1])["brier"] > (expected or 0.0)) is True


@pytest.mark.parametrize("label", ["1", "x", "yes"])
def test_empty_labels_beside_a_single_one_are_not_left_out_silently(typed: Typed, scores: Any, label: str) -> None:
    """Evaluate labels that are 1 for an event and empty otherwise, as spreadsheets have them."""
    labels = np.where(scores["y"] == 1, label, "")
    pd.DataFrame({"y": labels, "p": scores["p"]}).to_csv("ticks.csv", index=False)
    line = "calibrant evaluate ticks.csv --measure brier"
    (first,) = re.findall("add (--drop-missing --pos-label .*)", error_of(typed(line), 1))
    (second,) = re.findall("add (--pos-label .*)", error_of(typed(f"{line} --drop-missing"), 1))
    assert first == f"--drop-missing {second}"
    events = scores["p"][scores["y"] == 1]
    assert values_of(typed, f"{line} {first}")["brier"] == pytest.approx(np.mean((1.0 - events) ** 2))
    pd.DataFrame({"y": np.where(labels == "", "0", labels), "p": scores["p"]}).to_csv("ticks.csv", index=False)
    assert typed(f"{line} --pos-label {label}").exit_code == 0


@pytest.mark.parametrize("names", ["q01 q05 q09", "q010 q050 q090", "p005 p05 p095"])
def test_levels_that_all_begin_with_zero_are_offered_with_and_without_a_point(
    typed: Typed, scores: Any, names: str
) -> None:
    """Evaluate quantiles in columns whose names may have lost the points of their levels."""
    ends = names.split()
    quantiles = np.asarray(scores["p"])[:, None] + np.array([-1.3, 0.0, 1.3])
    frame = pd.DataFrame(quantiles, columns=ends).assign(observed=scores["y"])
    frame.to_csv("levels.csv", index=False)
    commands = commands_of(error_of(typed("calibrant evaluate levels.csv --regression --measure crps"), 2))
    points = [[f"0.{end[1:]}", f"0.{end[2:]}"] for end in ends]
    for command, levels in zip(commands, zip(*points, strict=True), strict=True):
        assert [f"q{float(level):.10g}={end}" in command for level, end in zip(levels, ends, strict=True)] == [True] * 3
        expected = calibrant.evaluate_distribution(
            scores["y"], quantiles=quantiles, levels=[float(level) for level in levels], measures=["crps"]
        )
        assert values_of(typed, command)["crps"] == pytest.approx(expected["crps"].value)


@pytest.mark.parametrize("end", ["0.1", "10", "1"])
def test_a_level_below_one_half_in_the_names_of_bounds_is_not_used(typed: Typed, scores: Any, end: str) -> None:
    """Evaluate intervals whose names have the share outside them, or the number of a horizon."""
    lower, upper = scores["p"] - 1.3, scores["p"] + 1.3
    frame = pd.DataFrame({"observed": scores["y"], f"lower_{end}": lower, f"upper_{end}": upper})
    frame.to_csv("bounds.csv", index=False)
    line = "calibrant evaluate bounds.csv --regression --measure interval-score"
    assert "the level of the intervals is not in the file, or is below 1/2 there" in error_of(typed(line), 1)
    expected = calibrant.evaluate_distribution(
        scores["y"], lower=lower, upper=upper, level=0.9, measures=["interval-score"]
    )
    assert values_of(typed, f"{line} --level 0.9")["interval-score"] == pytest.approx(expected["interval-score"].value)
