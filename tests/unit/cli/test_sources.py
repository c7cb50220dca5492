"""Folders, patterns and URLs as the input of commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from pyarrow import parquet

import calibrant
from calibrant.cli.sources import source_arguments, source_of
from tests.commands import document_of, error_of, succeeds
from tests.refusals import refused_at
from tests.unit.cli.conftest import Run

NAMED = ("--prediction", "p", "--label", "y")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for country in ("de", "no"):
        p = random.random(200).round(2)
        (tmp_path / "rows" / f"country={country}").mkdir(parents=True)
        rows = pa.table({"p": p, "y": (random.random(200) < p).astype(np.int64)})
        parquet.write_table(rows, tmp_path / "rows" / f"country={country}" / "part.parquet")
    return tmp_path / "rows"


def test_a_folder_has_other_results_than_its_rows(run: Run, folder: Path) -> None:
    rows = parquet.read_table(folder)
    expected = calibrant.evaluate(rows["p"], rows["y"], measures=["ece", "brier"])
    for name in (folder, folder / "*" / "*.parquet", f"file://{folder}/**/*.parquet"):
        completed = run("evaluate", name, *NAMED, "--measure", "ece", "--measure", "brier", "--json")
        assert completed.exit_code == 0, completed.stderr
        report = json.loads(completed.stdout)
        assert (report["n"], report["basis"]["form"]) == (400, "rows")
        assert report["measures"]["ece"]["value"] == pytest.approx(expected["ece"].value, rel=1e-12)
        assert "400 rows in 2 files" in completed.stderr


def test_conditions_select_other_rows(run: Run, folder: Path) -> None:
    conditions = ("--where", "country = de", "--where", "p < 0.5", "--where", "y in [0, 1]")
    document = document_of(run("evaluate", folder, *NAMED, *conditions, "--measure", "brier", "--json"))
    rows = parquet.read_table(folder / "country=de" / "part.parquet")
    assert document["n"] == int((rows["p"].to_numpy() < 0.5).sum())


def test_a_scored_folder_lacks_columns_or_is_written_twice(run: Run, folder: Path, tmp_path: Path) -> None:
    fitted = calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    fitted.save(tmp_path / "map.json")
    command = ("calibrate", folder, "--prediction", "p", "--map", tmp_path / "map.json", "--out", tmp_path / "scored")
    succeeds(run(*command))
    scored = parquet.read_table(tmp_path / "scored")
    assert scored.column_names == ["p", "y", "calibrated", "country"]
    assert_allclose(scored["calibrated"].to_numpy(), fitted.apply(scored["p"].to_numpy()), rtol=1e-15)
    assert "is a folder" in error_of(run(*command))


def test_the_scale_of_a_scored_folder_is_ignored(run: Run, folder: Path, tmp_path: Path) -> None:
    fitted = calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    fitted.save(tmp_path / "map.json")
    named = ("--prediction", "p", "--map", tmp_path / "map.json", "--out", tmp_path / "scored")
    succeeds(run("calibrate", folder, *named, "--scale", "percent"))
    rows = parquet.read_table(tmp_path / "scored")
    assert_allclose(rows["calibrated"].to_numpy(), fitted.apply(rows["p"].to_numpy() / 100), rtol=1e-15)


def test_a_map_that_is_fitted_to_a_folder_is_another(run: Run, folder: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(folder)
    expected = calibrant.fit("platt", rows["p"].to_numpy(), rows["y"].to_numpy())
    succeeds(run("fit", folder, *NAMED, "--method", "platt", "--out", tmp_path / "map.json"))
    p = np.linspace(0.01, 0.99, 9)
    assert_allclose(calibrant.load(tmp_path / "map.json").apply(p), expected.apply(p), rtol=1e-9)
    assert "--holdout" in error_of(run("fit", folder, *NAMED, "--holdout", "0.2"))
    assert "--group" in error_of(run("fit", folder, *NAMED, "--group", "country"))
    assert "--where" in error_of(run("fit", folder / "country=de" / "part.parquet", *NAMED, "--where", "p < 1"))


def test_models_in_the_columns_of_a_folder_are_compared_otherwise(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    p = random.random(300)
    rows = {"a": p, "b": p**2, "y": (random.random(300) < p).astype(np.int64)}
    (tmp_path / "rows").mkdir()
    parquet.write_table(pa.table(rows), tmp_path / "rows" / "x.parquet")
    models = ("--prediction", "a", "--prediction", "b", "--label", "y")
    document = document_of(run("compare", tmp_path / "rows", *models, "--measure", "log-loss", "--json"))
    in_file = run("compare", tmp_path / "rows" / "x.parquet", *models, "--measure", "log-loss", "--json")
    assert document == json.loads(in_file.stdout)
    assert "--prediction" in error_of(run("compare", tmp_path / "rows", *models[2:]))
    calibrant.fit("platt", p, rows["y"]).save(tmp_path / "map.json")
    succeeds(run("compare", tmp_path / "rows", *models[2:], "--map", tmp_path / "map.json", "--json"))


def test_a_scale_that_is_stated_is_taken_for_the_default(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    parquet.write_table(pa.table({"p": [0.1, 0.9]}), tmp_path / "rows" / "x.parquet")
    calibrant.fit("platt", [-2.0, -1.0, 1.0, 2.0], [0, 1, 0, 1], scale="logit").save(tmp_path / "map.json")
    named = ("--prediction", "p", "--map", tmp_path / "map.json", "--out", tmp_path / "scored")
    assert "logit" in error_of(run("calibrate", tmp_path / "rows", *named, "--scale", "probability"))
    assert run("calibrate", tmp_path / "rows", *named).exit_code == 0


def test_a_folder_is_scored_by_maps_to_probabilities_alone(run: Run, folder: Path, tmp_path: Path) -> None:
    p, y = np.linspace(0.0, 1.0, 40), np.arange(40) % 2
    calibrant.fit_sets(p, y).save(tmp_path / "sets.json")
    calibrant.fit_distribution("conformal", observed=p, mean=p, variance=p + 1.0).save(tmp_path / "forecasts.json")
    for name in ("sets", "forecasts"):
        named = ("--prediction", "p", "--map", tmp_path / f"{name}.json", "--out", tmp_path / "scored")
        refused = error_of(run("calibrate", folder, *named))
        assert "--map" in refused
        assert "probabilities" in refused
    for fitted in (None, calibrant.fit_sets(p, y)):
        with refused_at("/map", calibrant.CalibrationError):
            calibrant.calibrate_source(str(folder), str(tmp_path / "scored"), fitted, prediction="p")  # type: ignore[arg-type]
    assert not (tmp_path / "scored").exists()


@pytest.mark.parametrize("flag", ["--label", "--group", "--seed", "--alpha", "--bounds", "--support", "--option"])
def test_an_option_that_scoring_a_folder_does_not_have_is_ignored(
    run: Run, folder: Path, tmp_path: Path, flag: str
) -> None:
    calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).save(tmp_path / "map.json")
    named = ("--prediction", "p", "--map", tmp_path / "map.json", "--out", tmp_path / "scored")
    assert flag in error_of(run("calibrate", folder, *named, flag, *([] if flag == "--bounds" else ["1"])))
    assert not (tmp_path / "scored").exists()


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--label", "y"), "--prediction"),
        (("--prediction", "p"), "--label"),
        ((*NAMED, "--class-names", "a,b"), "--class-names"),
        ((*NAMED, "--where", "country"), "--where"),
        ((*NAMED, "--group", "p", "--group", "y"), "--group"),
        ((*NAMED, "--server", "http://127.0.0.1:9"), "--server"),
    ],
)
def test_an_option_that_a_folder_does_not_have_is_not_named(
    run: Run, folder: Path, flags: tuple[str, ...], named: str
) -> None:
    assert named in error_of(run("evaluate", folder, *flags))


@pytest.mark.parametrize("command", ["evaluate", "fit", "compare", "calibrate"])
def test_a_folder_for_a_server_ends_with_a_traceback(run: Run, folder: Path, command: str) -> None:
    completed = run(command, folder, *NAMED, "--server", "http://127.0.0.1:9")
    assert (completed.exit_code, completed.stdout) == (2, "")
    assert "a server reads the sources that it declares" in " ".join(completed.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("training = 1", ["training", "=", 1]),
        ("built in >= 2", ["built in", ">=", 2]),
        ("x<0.5", ["x", "<", 0.5]),
        ('country not in ["a=b", "c"]', ["country", "not in", ["a=b", "c"]]),
        ("country = in", ["country", "=", "in"]),
        ("name = nan", ["name", "=", "nan"]),
        ("name = Infinity", ["name", "=", "Infinity"]),
        ("code = 1_000", ["code", "=", "1_000"]),
        ("name = null", ["name", "=", None]),
    ],
)
def test_a_condition_is_read_as_another(text: str, condition: list[object]) -> None:
    assert source_arguments({"predictions": ["p"]}, [text])["where"] == [condition]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("s3://bucket/x/*.parquet", "s3://bucket/x/*.parquet"),
        ("gs://bucket/x.parquet", "gs://bucket/x.parquet"),
        ("file:///data/x", "file:///data/x"),
        ("rows/*.parquet", "rows/*.parquet"),
        ("rows.parquet", None),
        ("-", None),
    ],
)
def test_a_url_is_read_as_a_file(text: str, source: str | None) -> None:
    assert source_of(Path(text), None) == source


def test_an_option_of_a_fit_replaces_no_column(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,y,z\n0.2,0,1\n0.7,1,0\n0.4,0,1\n0.9,1,0\n", "utf-8")
    source = ["fit", str(tmp_path / "*.csv"), "--method", "platt", "--prediction", "p", "--label", "y", "--out", "-"]
    for option in ("label=z", "seed=3"):
        assert "is no option of platt" in error_of(run(*source, "--option", option))
