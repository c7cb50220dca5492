"""Commands that need no manual: readings, names of other tools, held-out rows, periods and output files."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest

import calibrant
from calibrant.io.cells import periods
from calibrant.io.errors import InvalidTimes
from tests.commands import error_of, succeeds
from tests.unit.cli.conftest import Run, file_of


def _text(stderr: str) -> str:
    return " ".join(stderr.replace("│", " ").split())


def test_a_calibrated_file_has_two_readings_with_a_command_each(
    run: Run, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("fit", csv, "--method", "platt", "--out", "map.json").exit_code == 0
    assert run("calibrate", csv, "--map", "map.json", "--out", "calibrated.csv").exit_code == 0
    error = error_of(run("evaluate", "calibrated.csv", "--measure", "ece"), 2)
    commands = re.findall(r"^  calibrant (evaluate .*)$", error, re.MULTILINE)
    assert [command.split()[-1] for command in commands] == ["p", "calibrated"]
    outputs = [run(*shlex.split(command)).stdout for command in commands]
    assert "ece" in outputs[0] != outputs[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["evaluat"], 2, "Command 'evaluat' is unknown; did you mean evaluate?"),
        (["plot"], 2, "did you mean diagram?"),
        (["update", "FILE"], 2, "did you mean fit --method update?"),
        (["Brier", "FILE"], 2, "did you mean evaluate --measure brier?"),
        (["reliability", "FILE"], 2, "did you mean diagram --diagram"),
        (["decision_curve", "FILE"], 2, "did you mean decide?"),
        (["shift-prior", "FILE"], 2, "did you mean fit --method prior-shift?"),
        (["evaluate", "FILE", "-m", "ece"], 2, "did you mean --measure"),
        (["evaluate", "FILE", "--bins", "9"], 2, "did you mean --measure"),
        (["evaluate", "FILE", "--labels", "y.csv"], 2, "did you mean --labels-from FILE --id COLUMN"),
        (["grades", "FILE", "--pd", "pd"], 2, "did you mean --prediction"),
        (["decide", "FILE", "--top", "100"], 2, "did you mean --capacity"),
        (["decide", "FILE", "--level", "0.9"], 2, "No such option: --level"),
        (["evaluate", "FILE", "--measure", "ecee"], 1, "did you mean ece"),
        (["evaluate", "FILE", "--map", "platt"], 2, "calibrant fit FILE --method platt --out map.json"),
        (["evaluate", "FILE", "--class-names", "a"], 2, "different names separated by commas"),
        (["evaluate", "FILE", "--decimal", "x"], 2, "must be . or ,"),
        (["evaluate", "FILE", "--time", "id"], 1, "has no time in row 1"),
        (["evaluate", "FILE", "--time", "id", "--group", "site"], 2, "cannot be combined with --group"),
        (["evaluate", "FILE", "--time", "date"], 1, "the file has no column 'date'"),
        (["fit", "FILE", "--holdout", "1"], 2, "must be between 0 and 1"),
        (["fit", "FILE", "--holdout", "0.001", "--method", "platt"], 1, "leaves no rows on one side"),
    ],
)
def test_a_wrong_command_is_answered_with_the_right_one(
    run: Run, csv: Path, arguments: list[str], code: int, message: str
) -> None:
    assert message in _text(error_of(run(*(str(csv) if word == "FILE" else word for word in arguments)), code))


def test_rows_held_out_are_not_fitted(run: Run, csv: Path, tmp_path: Path) -> None:
    output = tmp_path / "map.json"
    completed = run("fit", csv, "--method", "isotonic", "--holdout", "0.3", "--out", output)
    assert "fitted isotonic (binary) to 210 rows" in completed.stderr
    assert "held-out scores (90 rows) of the event binary: log loss " in completed.stderr
    assert "in-sample" in run("evaluate", csv, "--map", output).stdout  # 210 of the 300 rows are those of the fit


def test_clusters_are_held_out_whole_and_stay_in_one_fold(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    p = random.random(300)
    labels, sites = (random.random(300) < p).astype(int), np.arange(300) // 10
    file, output = tmp_path / "sites.csv", tmp_path / "map.json"
    lines = [f"{a!r},{b},site {c}" for a, b, c in zip(p.tolist(), labels, sites, strict=True)]
    file.write_text("\n".join(["p,label,site", *lines, ""]), "utf-8")
    run("fit", file, "--method", "spline", "--cluster", "site", "--out", output)
    local = calibrant.fit("spline", p, labels, clusters=[f"site {c}" for c in sites])
    assert json.loads(output.read_bytes())["parameters"] == local.to_document()["parameters"]
    completed = run("fit", file, "--method", "platt", "--cluster", "site", "--holdout", "0.3", "--out", output)
    assert "fitted platt (binary) to 210 rows" in completed.stderr
    assert run("fit", file, "--method", "spline", "--cluster", "nowhere").exit_code == 1


def test_class_names_go_from_a_map_to_its_output(run: Run, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    probs = generator.dirichlet([1.0, 1.0, 1.0], size=90)
    names = [str(generator.choice(["bird", "cat", "dog"], p=row)) for row in probs]
    rows = [f"{','.join(map(repr, row.tolist()))},{name}" for row, name in zip(probs, names, strict=True)]
    file, document = tmp_path / "pets.csv", tmp_path / "pets.json"
    file.write_text("\n".join(["bird,cat,dog,species", *rows, ""]), "utf-8")
    completed = run("fit", file, "--method", "isotonic", "--out", document)
    assert "reduction: classwise" in completed.stderr
    assert json.loads(document.read_bytes())["class_names"] == ["bird", "cat", "dog"]
    turned = [",".join([*reversed(row.split(",")[:3])]) for row in rows]
    by_name = run("calibrate", "-", "--map", document, stdin="\n".join(["dog,cat,bird", *turned, ""]).encode())
    lines = [line.split(",") for line in run("calibrate", file, "--map", document).stdout.splitlines()]
    assert lines[0][-3:] == ["calibrated_bird", "calibrated_cat", "calibrated_dog"]
    assert [line.split(",")[-3:] for line in by_name.stdout.splitlines()] == [line[-3:] for line in lines]


def test_decimal_commas_are_written_as_they_are_read(run: Run, tmp_path: Path) -> None:
    file, document = tmp_path / "excel.csv", tmp_path / "map.json"
    file.write_text("sep=;\ny;p\n1;0,75\n0;0,25\n1;0,5\n0;0,5\n", "utf-8")
    assert run("fit", file, "--decimal", ",", "--method", "isotonic", "--out", document).exit_code == 0
    completed = run("calibrate", file, "--decimal", ",", "--map", document)
    assert completed.stdout.splitlines() == ["y;p;calibrated", "1;0,75;1,0", "0;0,25;0,0", "1;0,5;0,5", "0;0,5;0,5"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_columns_that_are_only_passed_on_keep_what_the_file_says(run: Run, tmp_path: Path, suffix: str) -> None:
    file, document, output = tmp_path / "r.csv", tmp_path / "map.json", tmp_path / f"out{suffix}"
    cells = ["007,1.10,+1,1,0.50,1e-04,12345678901234567890,1", "8,1.2,2,0,0.25,0.5,1,0"]
    rows = [f'"{i}",{cells[i % 2]}' for i in range(40_000)]
    file.write_text("\n".join(['"",id,version,sign,n,p,w,long,y', *rows, ""]), "utf-8")
    options = ["--prediction", "p", "--method", "platt", "--out", document]
    assert run("fit", file, "--label", "y", *options).exit_code == 0
    succeeds(run("calibrate", file, "--map", document, "--prediction", "p", "--out", output))
    read = pyarrow.parquet.read_table if suffix == ".parquet" else pyarrow.feather.read_table
    table = read(output).slice(0, 2).drop_columns(["calibrated"])
    assert table.to_pydict() == {
        "": [0, 1],
        "id": ["007", "8"],
        "version": ["1.10", "1.2"],
        "sign": ["+1", "2"],
        "n": [1, 0],
        "p": [0.5, 0.25],
        "w": [1e-4, 0.5],
        "long": ["12345678901234567890", "1"],
        "y": [1, 0],
    }


def test_calibrated_files_may_be_json_lines_or_compressed(run: Run, csv: Path, tmp_path: Path) -> None:
    document, lines, packed = tmp_path / "map.json", tmp_path / "out.jsonl", tmp_path / "out.csv.gz"
    assert run("fit", csv, "--method", "platt", "--out", document).exit_code == 0
    text = run("calibrate", csv, "--map", document).stdout
    assert run("calibrate", csv, "--map", document, "--out", packed).exit_code == 0
    assert gzip.decompress(packed.read_bytes()).decode() == text
    assert run("calibrate", csv, "--map", document, "--out", lines).exit_code == 0
    first = json.loads(lines.read_text("utf-8").splitlines()[0])
    assert ",".join(map(str, first.values())) == text.splitlines()[1]
    vectors = file_of(tmp_path / "in.jsonl", '{"id": "007", "p": 0.5, "x": [1, 2]}\n')
    assert run("calibrate", vectors, "--map", document, "--out", lines).exit_code == 0
    row = json.loads(lines.read_bytes())
    assert (row["id"], row["x"], list(row)) == ("007", [1, 2], ["id", "p", "x", "calibrated"])


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2024-01-31", "20240401", "2024-04-30T12:00:00Z"], ["2024-01", "2024-04", "2024-04"]),
        (["2020-01-01", "2024-01-01 10:00"], ["2020", "2024"]),
        (["2024-01-01 10:30:00 UTC", "2024-01-02 09:00:00.5 UTC"], ["2024-01-01 10:00", "2024-01-02 09:00"]),
        (["2020", "2021.0", "2020"], ["2020", "2021", "2020"]),
        (["2024-01", "2024-05"], ["2024-01", "2024-05"]),
        (["45000.25", "45000.75", "45001"], ["2023-03-15 06:00", "2023-03-15 18:00", "2023-03-16 00:00"]),
        (["0", "45000.25"], ["1970-01-01 00:00", "1970-01-01 12:00"]),
        (["1704067200", "1704326400.5", "1704326400000"], ["2024-01-01", "2024-01-04", "2024-01-04"]),
        (["2024-01-01 10:30", "2024-01-01 10:59", "2024-01-01 11:00"], ["2024-01-01 10:00"] * 2 + ["2024-01-01 11:00"]),
    ],
)
def test_the_period_depends_on_the_time_between_the_first_and_the_last_row(
    times: list[str], expected: list[str]
) -> None:
    assert periods(times, "column 't'") == expected


@pytest.mark.parametrize("bad", ["yesterday", "31.01.2024", "inf", "nan", "1e300", "99999999"])
def test_an_invalid_time_is_refused_with_its_row(bad: str) -> None:
    with pytest.raises(InvalidTimes, match="column 't' has no time in row 2"):
        periods(["2024-01-01", bad], "column 't'")
