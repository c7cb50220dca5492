"""``calibrant compare``: several columns of a file, several files, and maps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrant
from schemas.results import ReportAnswer
from tests.commands import document_of, error_of, succeeds
from tests.unit.cli.conftest import Run

RANDOM = np.random.default_rng(11)
N = 300
TRUE = RANDOM.random(N)
FRAME = pd.DataFrame(
    {
        "id": [f"row-{i}" for i in range(N)],
        "y": (RANDOM.random(N) < TRUE).astype(int),
        "model_a": TRUE.round(5),
        "model_b": (TRUE**2).round(5),
        "site": RANDOM.choice(["north", "south"], N),
    }
)
NAMES = ["model_a", "model_b"]


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    path = tmp_path / "scores.csv"
    FRAME.to_csv(path, index=False)
    return path


def _flags(*names: str) -> list[str]:
    return [word for name in names for word in ("--prediction", name)]


def _expected(**options: Any) -> calibrant.ComparisonReport:
    return calibrant.compare(FRAME[NAMES], FRAME["y"], **options)


def test_columns_of_a_file_are_compared_as_in_a_notebook(run: Run, scores: Path) -> None:
    completed = run("compare", scores, *_flags(*NAMES), "--label", "y", "--json")
    assert (completed.exit_code, completed.stderr) == (0, "")
    answer: Any = ReportAnswer.model_validate_json(completed.stdout)
    assert answer.comparison is not None
    assert answer.comparison.rank_by == "log-loss"
    for key, compared in _expected().measures.items():
        pairs = answer.comparison.measures[key].pairs
        assert [pair.p_value for pair in pairs] == [pair.p_value for pair in compared.pairs]
        assert [pair.interval for pair in pairs] == [pair.interval for pair in compared.pairs]
    assert answer.comparison.measures["log-loss"].ranks == {"model_a": (1, 1), "model_b": (2, 2)}


def test_tables_show_ranks_pairs_and_groups(run: Run, scores: Path) -> None:
    completed = run("compare", scores, *_flags(*NAMES), "--label", "y", "--group", "site")
    lines = [line.split() for line in completed.stdout.splitlines()]
    assert lines[0] == ["300", "rows,", "binary"]
    assert ["model_a", "1"] in [[line[0], line[-1]] for line in lines if len(line) > 4]
    assert ["auroc", "model_a", "-", "model_b"] in [line[:4] for line in lines]
    assert "simultaneous over all models" in completed.stdout
    assert sum(line[:1] == ["model_b"] for line in lines) == 3, "of all rows and of two groups"


def test_options_are_those_of_the_library(run: Run, scores: Path) -> None:
    flags = ["--rank-by", "brier", "--correction", "max-t", "--interval", "0.9", "--resamples", "200", "--seed", "3"]
    completed = run("compare", scores, *_flags(*NAMES), "--label", "y", "--measure", "ece", *flags, "--json")
    comparison = json.loads(completed.stdout)["comparison"]
    expected = _expected(
        measures=["ece"], rank_by="brier", correction="max-t", interval=0.9, resamples=200, seed=3
    ).to_dict()["comparison"]
    assert comparison["rank_by"] == "brier"
    assert list(comparison["measures"]) == ["ece", "brier"]
    for key in ("ece", "brier"):
        assert comparison["measures"][key]["pairs"] == expected["measures"][key]["pairs"]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A file of each model, in other orders; the second one without labels."""
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    FRAME[["id", "y", "model_a"]].rename(columns={"model_a": "p"}).to_csv(first, index=False)
    FRAME[["model_b", "id"]].rename(columns={"model_b": "p"}).sample(frac=1.0, random_state=2).to_csv(
        second, index=False
    )
    return [first, second]


def test_files_are_joined_on_their_ids(run: Run, files: list[Path]) -> None:
    comparison = document_of(run("compare", *files, "--id", "id", "--json"))["comparison"]
    assert [contestant["name"] for contestant in comparison["contestants"]] == ["a", "b"]
    expected = _expected().measures["log-loss"].pairs[0]
    assert comparison["measures"]["log-loss"]["pairs"][0]["p_value"] == expected.p_value


def test_the_columns_of_files_have_their_own_names(run: Run, files: list[Path]) -> None:
    expected = run("compare", *files, "--id", "id", "--json").stdout
    for file, name in zip(files, ("old model", "new model"), strict=True):
        pd.read_csv(file).rename(columns={"p": name}).to_csv(file, index=False)
    flags = _flags("old model", "new model")
    assert run("compare", *files, "--id", "id", *flags, "--json").stdout == expected
    assert "no column 'new model'" in error_of(
        run("compare", *files, "--id", "id", *_flags("new model", "old model")), 1
    )


def test_ids_without_a_partner_are_counted_and_left_out_only_with_a_flag(run: Run, files: list[Path]) -> None:
    pd.read_csv(files[1]).iloc[7:].to_csv(files[1], index=False)
    error = error_of(run("compare", *files, "--id", "id"), 1)
    assert "7 of the 300 ids in" in error
    assert "--inner" in error
    completed = run("compare", *files, "--id", "id", "--inner", "--json")
    assert "ids: 7 of the 300 ids in" in completed.stderr
    assert json.loads(completed.stdout)["n"] == 293


def test_duplicate_ids_and_other_labels_are_refused(run: Run, files: list[Path]) -> None:
    second = pd.read_csv(files[1])
    second.assign(y=0).to_csv(files[1], index=False)
    assert "has another label than" in error_of(run("compare", *files, "--id", "id"), 1)
    second.assign(id="row-1").to_csv(files[1], index=False)
    assert "299 rows have the ids of a later row" in error_of(run("compare", *files, "--id", "id"), 1)


def test_labels_of_another_file_are_joined(run: Run, tmp_path: Path) -> None:
    predictions, labels = tmp_path / "preds.csv", tmp_path / "outcomes.csv"
    FRAME[["id", *NAMES]].to_csv(predictions, index=False)
    FRAME[["id", "y", "site"]].sample(frac=1.0, random_state=4).to_csv(labels, index=False)
    joined = ["--labels-from", labels, "--id", "id", "--label", "y"]
    document = document_of(run("compare", predictions, *_flags(*NAMES), *joined, "--json"))
    expected = _expected().measures["brier"].pairs[0]
    assert document["comparison"]["measures"]["brier"]["pairs"][0]["p_value"] == expected.p_value
    column = ["--prediction", "model_a"]
    evaluated = run("evaluate", predictions, *column, *joined, "--measure", "brier", "--json")
    brier = calibrant.evaluate(FRAME["model_a"], FRAME["y"], measures=["brier"])["brier"].value
    assert json.loads(evaluated.stdout)["measures"]["brier"]["value"] == brier
    succeeds(run("fit", predictions, *column, *joined, "--method", "platt", "--out", tmp_path / "map.json"))
    succeeds(run("report", predictions, *column, *joined, "--out", tmp_path / "report.html"))
    assert "labels_from=" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--id", "id"], "--labels-from"),
        (["--labels-from", "x.csv"], "--id"),
        (["--inner"], "--labels-from"),
    ],
)
def test_half_a_join_is_a_usage_error(run: Run, scores: Path, flags: list[str], message: str) -> None:
    for command in ("evaluate", "fit", "report", "compare"):
        assert message in error_of(run(command, scores, *flags), 2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--prediction", "model_a"], 2, "must be given once for each"),
        ([], 2, "must be given once for each"),
        (["--prediction", "model_a", "--prediction", "model_a"], 2, "different column"),
        (["--prediction", "model_a", "--prediction", "nope"], 1, "no column 'nope'"),
        ([*_flags(*NAMES), "--rank-by", "ece"], 2, "--rank-by"),
        ([*_flags(*NAMES), "--interval", "2"], 1, "--interval"),
        ([*_flags(*NAMES), "--measure", "nope"], 1, "--measure"),
        (["--prediction", "model_a", "--map", "missing.json"], 1, "missing.json"),
    ],
)
def test_bad_options_end_in_one_line(run: Run, scores: Path, arguments: list[str], code: int, message: str) -> None:
    error = error_of(run("compare", scores, "--label", "y", *arguments), code)
    assert message in error
    assert "Traceback" not in error


def test_several_files_need_ids_and_one_column_each(run: Run, files: list[Path]) -> None:
    assert "--id" in error_of(run("compare", *files), 2)
    assert "one for each file" in error_of(run("compare", *files, "--id", "id", *_flags("p", "q", "r")), 2)
    assert "must be different" in error_of(run("compare", files[0], files[0], "--id", "id"), 2)
    assert "no column 'key'" in error_of(run("compare", *files, "--id", "key"), 1)


def test_maps_are_compared_on_the_predictions_of_a_file(run: Run, scores: Path, tmp_path: Path) -> None:
    columns = ["--prediction", "model_b", "--label", "y"]
    for method in ("platt", "isotonic"):
        assert run("fit", scores, *columns, "--method", method, "--out", tmp_path / f"{method}.json").exit_code == 0
    maps = [word for method in ("platt", "isotonic") for word in ("--map", tmp_path / f"{method}.json")]
    document = document_of(run("compare", scores, *columns, *maps, "--measure", "brier", "--json"))
    names = [contestant["name"] for contestant in document["comparison"]["contestants"]]
    assert names == ["uncalibrated", "platt", "isotonic"]
    assert run("compare", scores, *columns, *maps).exit_code == 0


def test_a_file_of_several_models_is_answered_with_the_command_that_compares_them(run: Run, scores: Path) -> None:
    error = error_of(run("evaluate", scores, *_flags(*NAMES), "--label", "y"), 2)
    assert f"compare {scores} --label y --prediction model_a --prediction model_b" in error
