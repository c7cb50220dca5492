"""Tasks of which some need a second try: what the first one says to do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calibrant
from tests.commands import error_of
from tests.newcomer.conftest import Typed
from tests.unit.io.test_messages import CASES, Case

_NAMES = ["bird", "cat", "dog"]


def test_columns_by_name_need_no_frame(pets: Any) -> None:
    """Evaluate and calibrate a dictionary of columns, and a table of Arrow."""
    expected = calibrant.evaluate(pets[_NAMES], pets["species"])["ece"].value
    columns = {name: pets[name].to_numpy() for name in ("dog", "bird", "cat")}
    assert calibrant.evaluate(columns, pets["species"])["ece"].value == pytest.approx(expected)
    table = pa.Table.from_pandas(pets[_NAMES])
    assert calibrant.evaluate(table, pa.array(pets["species"]))["ece"].value == expected
    fitted = calibrant.fit("temperature", columns, pets["species"])
    np.testing.assert_allclose(fitted.apply(columns), fitted.apply(table))
    with pytest.raises(calibrant.CalibrationError, match="pass one of these arrays"):
        calibrant.evaluate({"logits": pets[_NAMES], "labels": pets["species"]}, pets["species"])


def test_rows_that_do_not_sum_to_1_get_a_remedy(pets: Any) -> None:
    """Pass scores of one sigmoid a class, as for labels that do not exclude each other."""
    p = pets[_NAMES].to_numpy()
    with pytest.raises(calibrant.CalibrationError, match="evaluate each column if the classes do not exclude"):
        calibrant.evaluate(0.9 * p, pets["species"], class_names=_NAMES)


def test_two_columns_are_evaluated_by_their_confidence_and_the_report_says_so(scores: Any) -> None:
    """Pass both columns of predict_proba, and read what the default is of."""
    of_columns = calibrant.evaluate(np.column_stack([1 - scores["p"], scores["p"]]), scores["y"])
    assert 'pass predictions[:, 1] or reduction="binary"' in repr(of_columns)
    assert 'reduction="binary"' not in repr(calibrant.evaluate(scores["p"], scores["y"]))


def test_a_result_names_how_to_get_what_it_does_not_have(scores: Any) -> None:
    """Look for a measure that was not computed, call show, and draw with bins."""
    report = calibrant.evaluate(scores["p"], scores["y"])
    with pytest.raises(KeyError, match=r'evaluate with measures=\["ks"\]'):
        report["KS"]
    with pytest.raises(AttributeError, match=r"use plot\(\)"):
        report.show()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="no argument bins; pass n_bins"):
        report.plot(bins=20)
    with pytest.raises(calibrant.CalibrationError, match="the results of"):
        calibrant.plot(scores["p"], scores["y"])
    with pytest.raises(KeyError, match="did you mean variance-platt"):
        calibrant.DISTRIBUTION_METHODS["variance-plat"]
    assert "\npit                   PIT histogram\n" in repr(calibrant.DISTRIBUTION_DIAGRAMS)


def test_a_missing_folder_is_named(scores: Any) -> None:
    """Save a report and a map into a folder that does not exist yet."""
    fitted = calibrant.fit("platt", scores["p"], scores["y"])
    for save in (calibrant.report(scores["p"], scores["y"]).save, fitted.save):
        with pytest.raises(FileNotFoundError, match="the folder 'results' does not exist; create it first"):
            save("results/of_today")
    Path("results").mkdir()
    fitted.save(Path("results") / "map.json")
    assert calibrant.load("results/map.json") == fitted
    Path("other.json").write_text('{"a": 1}', "utf-8")
    with pytest.raises(calibrant.CalibrationError, match=r"as in the documents of map.save\(path\)"):
        calibrant.load("other.json")


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("calibrant fit scores.csv --n-bins 20", "--option n_bins=20"),
        ("calibrant fit scores.csv --test-size 0.3", "--holdout"),
        ("calibrant evaluate scores.csv --format json", "--json"),
        ("calibrant evaluate scores.csv --out result.json", "--json > result.json"),
        ("calibrant version", "--version"),
        ("calibrant diagram scores.csv --diagram corpp", "did you mean corp?"),
    ],
)
def test_an_option_of_another_command_or_tool_names_what_to_type(
    typed: Typed, scores: Any, line: str, remedy: str
) -> None:
    """Type options and commands that other tools have."""
    scores.to_csv("scores.csv", index=False)
    error = error_of(typed(line))
    assert "by-size" not in error
    assert remedy in " ".join(error.replace("│", "").split())  # which a box wraps


def test_a_map_recognises_parts_of_its_rows_also_rounded(scores: Any, pets: Any) -> None:
    """Fit on the first half, and evaluate on a part of it, on all rows, and on the half as a file has it."""
    p, y = scores["p"].to_numpy(), scores["y"].to_numpy()
    fitted = calibrant.fit("isotonic", p[:300], y[:300])
    order = np.random.default_rng(1).permutation(300)
    for rows, digits in ((slice(0, 150), 17), (slice(0, 600), 17), (slice(0, 300), 4), (np.tile(order, 2), 6)):
        report = calibrant.evaluate(p[rows].round(digits), y[rows], map=fitted)
        assert report.in_sample is True
        assert "in-sample" in repr(report)
    for rows in (slice(300, 600), slice(280, 600)):
        assert calibrant.evaluate(p[rows], y[rows], map=fitted).in_sample is False
    assert calibrant.compare(p, y, {"mine": fitted}, measures=["brier"]).measures["brier"].ranking == ("uncalibrated",)
    fitted = calibrant.fit("temperature", pets[_NAMES][:400], pets["species"][:400])
    assert calibrant.evaluate(pets[_NAMES].round(6), pets["species"], map=fitted).in_sample is True
    assert calibrant.evaluate(pets[_NAMES][400:], pets["species"][400:], map=fitted).in_sample is False


def test_equal_predictions_of_new_rows_are_no_rows_of_the_fit(scores: Any) -> None:
    """Evaluate a forest of ten trees on held-out rows, whose predictions are those of the fit too."""
    p, y = scores["p"].round(1).to_numpy(), scores["y"].to_numpy()
    fitted = calibrant.fit("platt", p[:300], y[:300])
    assert calibrant.evaluate(p[300:], y[300:], map=fitted).in_sample is False
    assert calibrant.evaluate(p[:300], y[:300], map=fitted).in_sample is True


def test_a_fit_to_very_few_events_warns() -> None:
    """Fit Venn-Abers to three frauds among 300 payments."""
    p = np.linspace(0.001, 0.9, 300)
    y = np.isin(np.arange(300), (200, 280, 299)).astype(int)
    with pytest.warns(UserWarning, match="of 300 rows, 3 have the label 1, so the map and its gain are uncertain"):
        fitted = calibrant.fit("venn-abers", p, y)
    lower, upper = fitted.bounds(p)
    assert np.max(upper - lower) > 0.3


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_log_probabilities_get_their_remedy(shape: tuple[int, ...]) -> None:
    """Pass what predict_log_proba returns."""
    logs = np.log([0.5, 0.5, 0.9, 0.1]).reshape(shape)
    with pytest.raises(calibrant.CalibrationError, match="pass the exponential of log-probabilities"):
        calibrant.evaluate(logs, [0, 1, 1, 0][: len(logs)])


def test_missing_values_of_arrow_are_counted_and_the_first_row_is_named() -> None:
    """Pass columns of Arrow with nulls."""
    predictions = pa.chunked_array([[0.1, 0.2], [None, 0.9]])
    with pytest.raises(calibrant.CalibrationError, match="predictions: 1 value is missing, first in row 2"):
        calibrant.evaluate(predictions, [0, 1, 1, 0])
    with pytest.raises(calibrant.CalibrationError, match="labels: 2 values are missing, first in row 0"):
        calibrant.evaluate([0.1, 0.2], pa.array([None, None], pa.int64()))


def test_errors_name_options_of_the_command(typed: Typed, scores: Any) -> None:
    """Ask for a diagram of two models, leave out --by, and name an unknown score."""
    scores.assign(obs=scores["y"], mean=scores["p"], std=1.0).to_csv("scores.csv", index=False)
    unknown = typed("calibrant diagram scores.csv --label y --prediction p --diagram roc").stderr
    assert "by-size" in unknown
    assert "cost-plane" not in unknown
    message = typed("calibrant diagram scores.csv --label y --prediction p --diagram cost-plane").stderr
    assert "--diagram: cannot be cost-plane, which needs two models; in Python use calibrant.cost_plane" in message
    line = "calibrant fit scores.csv --regression --label obs --method conformal --by site --out map.json"
    assert typed(line).exit_code == 0
    assert "--by: is missing" in typed("calibrant calibrate scores.csv --map map.json").stderr
    scores.assign(obs=scores["y"], mean=scores["p"], std=2.0).to_csv("others.csv", index=False)
    line = "calibrant evaluate scores.csv --regression --label obs --against others.csv --score rmse"
    assert "--score: must be one of: crps" in typed(line).stderr


def test_a_map_of_more_classes_than_the_file_has_is_refused(typed: Typed, pets: Any, scores: Any) -> None:
    """Evaluate a map of three classes on a file of one column."""
    pets.to_csv("pets.csv", index=False)
    scores[["y", "p"]].to_csv("scores.csv", index=False)
    assert typed("calibrant fit pets.csv --method temperature --out map.json").exit_code == 0
    for command in ("evaluate", "report", "diagram"):
        error = error_of(typed(f"calibrant {command} scores.csv --map map.json"), 1)
        assert "the predictions have 2 classes, but there are 3 class names (of the option or of the map)" in error


def _line(case: Case) -> str:
    """Return the command that reads the file of a case with its options."""
    options = case.options
    flags = [f"--prediction {shlex.quote(name)}" for name in options.predictions or ()]
    flags += [f"--label {options.labels}"] if options.labels else []
    flags += [f"--weight {options.weights}"] if options.weights else []
    flags += [f"--group {name}" for name in options.groups or ()]
    flags += [f"--map-label {text}={number}" for text, number in (options.mapping or {}).items()]
    return " ".join(["calibrant evaluate preds.csv --measure brier", *flags])


def _remedies(message: str, line: str) -> list[str]:
    """Return the commands that a message prints, and those with the options that it names."""
    commands = re.findall(r"^  (calibrant .+)$", message, re.MULTILINE)
    last = "" if commands else message.strip().splitlines()[-1]
    added = re.findall(r"(?:\badd |did you mean |\()(--.+?)(?=\?|\)| in the order|$)", last)
    return [*commands, *(f"{line} {flags}" for text in added for flags in text.split(" or "))]


@pytest.mark.slow
def test_every_remedy_that_a_refused_file_prints_works_when_it_is_typed(typed: Typed) -> None:
    """Type each command, and each option, that the message about a file prints."""
    tried = set[str]()
    for name, case in CASES.items():
        Path("preds.csv").write_bytes(case.content.encode() if isinstance(case.content, str) else case.content)
        refused = typed(_line(case))
        for command in _remedies(refused.stderr, _line(case)):
            completed = typed(command)
            assert completed.exit_code == 0 or "--map-label" in completed.stderr, (name, command, completed.stderr)
            for last in _remedies(completed.stderr, command) if completed.exit_code else ():
                assert typed(last).exit_code == 0, (name, last)
            tried.add(name)
    assert len(tried) > 20


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("y,lower,upper\n1,0,2\n0,-1,1\n", 1),
        ("y,lo-90,hi-90,lo-50,hi-50\n1,0,3,1,2\n0,-1,2,0,1\n", 2),
        ("y,mean,std,q0.05,q0.95\n1,0,2,0,2\n0,-1,1,-1,3\n", 2),
        ("y,mean,mu,std\n1,0,2,1\n0,-1,1,1\n", 2),
        ("y,target,mean,std\n1,1,0,2\n0,1,-1,1\n", 2),
        ("y,x_0,x_1,x_2,x_3,x_4\n1,0,1,2,3,4\n0,0,1,2,3,4\n", 1),
        ("a,mean,std\n1,0,2\n0,-1,1\n", 1),
        ("y;mean;std\n1,5;0,5;2,5\n0,5;1,5;1,5\n", 1),
    ],
)
def test_every_remedy_that_a_file_of_forecasts_prints_works_when_it_is_typed(
    typed: Typed, text: str, count: int
) -> None:
    """Type each command, and each option, that the message about forecasts prints."""
    Path("forecasts.csv").write_text(text, "utf-8")
    line = f"calibrant evaluate forecasts.csv --regression --measure {'interval-score' if 'lo' in text else 'crps'}"
    commands = _remedies(typed(line).stderr, line)
    assert len(commands) == count
    for command in commands:
        assert typed(command).exit_code == 0, command
