"""Tasks with files that another reading would fit too: a wrong one is never taken without a word."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from tests.commands import error_of
from tests.newcomer.conftest import Typed
from tests.rows import draw_classes


@pytest.mark.slow
@pytest.mark.parametrize("gap", ["", ".", "-", "NULL", "\\N", "unknown", "#VALUE!", "-9", "99"])
def test_a_label_with_gaps_is_offered_beside_another_flag(typed: Typed, scores: Any, gap: str) -> None:
    """Evaluate predictions of an outcome that some rows lack, beside a feature of 0 and 1."""
    died = scores["y"].astype(str).mask(scores.index % 9 == 0, gap)
    frame = pd.DataFrame({"died": died, "female": (scores["sex"] == "f").astype(int), "p": scores["p"]})
    frame.to_csv("patients.csv", index=False)
    error = error_of(typed("calibrant evaluate patients.csv"), 2)
    assert re.findall(r"calibrant evaluate patients.csv --label \w+", error) == [
        f"calibrant evaluate patients.csv --label {name}" for name in ("died", "female")
    ]
    assert typed("calibrant evaluate patients.csv --label died").exit_code == 1
    assert typed("calibrant evaluate patients.csv --label female").exit_code == 0


def test_names_of_classes_with_gaps_are_the_labels(typed: Typed, pets: Any) -> None:
    """Evaluate columns of three classes whose label is missing in some rows, beside a flag."""
    frame = pets.assign(species=pets["species"].mask(pets.index % 9 == 0, "."), tagged=np.arange(600) % 2)
    frame.to_csv("pets.csv", index=False)
    assert "missing in 67 rows of column 'species'" in error_of(typed("calibrant evaluate pets.csv"), 1)


@pytest.mark.slow
def test_predictions_of_the_other_class_are_reported(typed: Typed, scores: Any) -> None:
    """Evaluate and fit the probability of survival, called a risk, against deaths, and ``predict_proba(X)[:, 0]``."""
    p, y = scores["p"].to_numpy(), scores["y"].to_numpy()
    pd.DataFrame({"died": y, "risk_prob": 1 - p}).to_csv("patients.csv", index=False)
    for command in ("evaluate", "fit", "report"):
        assert typed(f"calibrant {command} patients.csv").output.count("of class 0, pass 1 - p") == 1
    for call in (calibrant.evaluate, partial(calibrant.fit, "platt"), calibrant.report, calibrant.tally):
        with pytest.warns(UserWarning, match="pass 1 - p") as warned:
            call(1 - p, y)
        assert len(warned) == 1
        assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="pass -z"):
        calibrant.fit("platt", np.log((1 - p) / p), y, scale="logit")
    with pytest.warns(UserWarning, match="swap the two columns"):
        calibrant.evaluate(np.column_stack([p, 1 - p]), y)


def test_random_and_few_predictions_are_not_reported_as_of_the_other_class(scores: Any) -> None:
    """Evaluate predictions that say nothing, and a handful of bad ones."""
    random, y = np.random.default_rng(0), scores["y"].to_numpy()
    for rows in (20, 60, 600):
        for _ in range(20):
            calibrant.evaluate(random.beta(0.1, 1, size=rows), y[:rows], measures=["brier"])
    calibrant.evaluate([0.9, 0.8, 0.2, 0.1], [0, 0, 1, 1])
    calibrant.evaluate(np.full(600, 0.3), y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["avg_logprob", "logprob", "log_prob", "logp"])
def test_logarithms_of_probabilities_are_not_logits(typed: Typed, scores: Any, name: str) -> None:
    """Evaluate the log-probabilities of answers of a language model, which an option would make logits."""
    pd.DataFrame({"correct": scores["y"], name: np.log(scores["p"])}).to_csv("answers.csv", index=False)
    for flags in ("", "--scale logit", f"--prediction {name}", f"--prediction {name} --scale logit"):
        assert "np.exp(logprob)" in error_of(typed(f"calibrant evaluate answers.csv {flags}"), 1)


def test_logarithms_of_all_probabilities_are_logits(typed: Typed, pets: Any) -> None:
    """Evaluate what ``predict_log_proba`` or ``log_softmax`` returns for every class."""
    logarithms = {f"log_prob_{k}": np.log(pets[name]) for k, name in enumerate(("bird", "cat", "dog"))}
    labels = pets["species"].map({"bird": 0, "cat": 1, "dog": 2})
    pd.DataFrame(logarithms).assign(label=labels).to_csv("pets.csv", index=False)
    refused = typed("calibrant evaluate pets.csv")
    assert "add --scale logit" in refused.stderr
    expected = calibrant.evaluate(pets[["bird", "cat", "dog"]].to_numpy(), labels)["ece"].value
    printed = json.loads(typed("calibrant evaluate pets.csv --scale logit --json").stdout)
    assert printed["measures"]["ece"]["value"] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["confidence", "conf", "prob_pct", "Percent", "score"])
@pytest.mark.parametrize("digits", [-1, 1])
def test_percentages_are_named(typed: Typed, scores: Any, name: str, digits: int) -> None:
    """Evaluate confidences from 0 to 100, as a language model states them or a spreadsheet shows them."""
    frame = pd.DataFrame({"correct": scores["y"], name: np.round(100 * scores["p"], digits)})
    frame.astype({name: int} if digits < 0 else {}).to_csv("answers.csv", index=False)
    error = error_of(typed("calibrant evaluate answers.csv"), 1)
    assert f"column '{name}' are above 1 but not above 100; they look like percentages" in error
    assert "; add --scale percent" in error
    command = "calibrant evaluate answers.csv --scale percent --reduction binary --json"
    expected = calibrant.evaluate(np.round(100 * scores["p"], digits) / 100, scores["y"])["brier"].value
    for text in (command, f"{command} --prediction {name}"):
        assert json.loads(typed(text).stdout)["measures"]["brier"]["value"] == pytest.approx(expected)
    assert "like percentages" in typed(f"calibrant evaluate answers.csv --prediction {name} --scale logit").stderr


def test_classes_that_are_floats_are_numbers(typed: Typed) -> None:
    """Evaluate and calibrate columns 2.0, 0.0 and 1.0, as ``classes_`` of a model of float labels names them."""
    p, y = draw_classes(400)
    expected = pytest.approx(calibrant.evaluate(p, y)["ece"].value)
    frame = pd.DataFrame(p, columns=[0.0, 1.0, 2.0])[[2.0, 0.0, 1.0]]
    named = [frame, frame.rename(columns=str), frame.rename(columns=lambda k: f"prob_{k}"), dict(frame.items())]
    for columns in named:
        assert calibrant.evaluate(columns, y.astype(float))["ece"].value == expected
    assert calibrant.evaluate(p, y + 1.0, class_names=[1.0, 2.0, 3.0])["ece"].value == expected
    assert calibrant.evaluate(frame.rename(columns=lambda k: k + 1), y + 1.0)["ece"].value == expected
    fitted = calibrant.fit("temperature", frame, y)
    np.testing.assert_array_equal(fitted.apply(frame)[[0.0, 1.0, 2.0]].to_numpy(), fitted.apply(p))
    for columns in named[:3]:
        columns.assign(label=y.astype(float)).to_csv("val.csv", index=False)
        printed = json.loads(typed("calibrant evaluate val.csv --json").stdout)
        assert printed["measures"]["ece"]["value"] == expected


def test_a_single_column_of_the_float_class_0_is_refused(typed: Typed, scores: Any) -> None:
    """Evaluate ``prob_0.0`` alone, which is not the probability of class 1."""
    pd.DataFrame({"label": scores["y"].astype(float), "prob_0.0": 1 - scores["p"]}).to_csv("val.csv", index=False)
    assert typed("calibrant evaluate val.csv").exit_code == 1
