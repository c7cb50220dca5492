from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from schemas.results import ReportAnswer
from tests.commands import error_of, output_of
from tests.unit.cli.conftest import Run, file_of


def _columns(csv_text: str) -> tuple[np.ndarray, np.ndarray]:
    rows = [line.split(",") for line in csv_text.splitlines()[1:]]
    return np.array([float(row[2]) for row in rows]), np.array([int(row[1]) for row in rows])


def test_the_printed_table_has_the_values_of_the_library(run: Run, csv: Path, csv_text: str) -> None:
    completed = run("evaluate", csv, "--label", "y", "--prediction", "p")
    assert (completed.exit_code, completed.stderr) == (0, "")
    lines = completed.stdout.splitlines()
    assert lines[0] == "300 rows, binary"
    report = calibrant.evaluate(*_columns(csv_text))
    for key, measure in report.measures.items():
        row = next(line.split() for line in lines if line.split()[:1] == [key])
        assert row[1] == f"{measure.value:.4f}"


def test_inferred_columns_are_printed_on_standard_error(run: Run, csv: Path) -> None:
    completed = run("evaluate", csv)
    assert completed.exit_code == 0
    assert "labels: column 'y' (inferred from its name)" in completed.stderr
    assert "predictions: column 'p'" in completed.stderr
    assert "inferred from its name" not in completed.stdout


def test_json_is_the_answer_of_the_wire_to_the_last_digit(run: Run, csv: Path, csv_text: str) -> None:
    completed = run("evaluate", csv, "--measure", "ks", "--measure", '{"name": "ece", "norm": 2, "as": "l2"}', "--json")
    answer: Any = ReportAnswer.model_validate_json(completed.stdout)
    report = calibrant.evaluate(*_columns(csv_text), measures=["ks", {"name": "ece", "norm": 2, "as": "l2"}])
    assert {key: m.value for key, m in answer.measures.items()} == {key: m.value for key, m in report.measures.items()}
    assert answer.after is None
    assert "after" not in json.loads(completed.stdout)


def test_standard_input_is_read_like_a_file(run: Run, csv: Path, csv_text: str) -> None:
    from_file, from_pipe = run("evaluate", csv), run("evaluate", "-", stdin=csv_text.encode())
    assert from_pipe.stdout == from_file.stdout
    assert from_pipe.exit_code == 0


def test_groups_have_a_table_with_their_largest_gap(run: Run, csv: Path) -> None:
    completed = run("evaluate", csv, "--group", "site", "--measure", "ks")
    rows = [line.split() for line in completed.stdout.splitlines()]
    assert [row[0] for row in rows if row and row[0] in ("north", "south")] == ["north", "south"]
    assert "largest gap" in completed.stdout


def test_measures_are_pooled_over_groups(run: Run, csv: Path) -> None:
    options = ("--group", "site", "--measure", "oe-ratio", "--interval", "0.95", "--resamples", "100")
    pooled = json.loads(run("evaluate", csv, *options, "--json").stdout)["pooled"]["oe-ratio"]
    assert (pooled["groups"], pooled["scale"], pooled["prediction_interval"]) == (2, "log", None)
    shown = run("evaluate", csv, *options).stdout
    low, high = pooled["interval"]
    assert f"oe-ratio, pooled: {pooled['value']:.4f}, interval {low:.4f} to {high:.4f}, of another group -" in shown


def test_groups_have_intervals_before_and_after_a_map(run: Run, csv: Path, tmp_path: Path) -> None:
    assert run("fit", csv, "--method", "platt", "--out", tmp_path / "map.json").exit_code == 0
    options = ("--group", "site", "--map", tmp_path / "map.json", "--measure", "ece", "--interval", "0.9")
    completed, answer = run("evaluate", csv, *options), json.loads(run("evaluate", csv, *options, "--json").stdout)
    tables = completed.stdout.partition("group, before the map")[2].partition("group, after the map (in-sample)")
    for table, of in ((tables[0], "measures"), (tables[2], "after")):
        for name, group in answer["groups"].items():
            ece = (group[of] if of == "measures" else group[of]["measures"])["ece"]
            low, high = ece["interval"]
            assert f"{ece['debiased']:.4f}" in table.partition(name)[2]
            assert f"{low:.4f} to {high:.4f}" in table.partition(name)[2]
    assert completed.stdout.endswith("The 90 % interval, from 1,000 resamples, is below each value.\n")


def test_two_columns_of_groups_are_measured_by_their_combinations(run: Run, csv: Path, csv_text: str) -> None:
    header, *rows = csv_text.splitlines()
    csv.write_text("\n".join([f"{header},half", *(f"{row},{i % 2}" for i, row in enumerate(rows))]), "utf-8")
    completed = run("evaluate", csv, "--group", "site", "--group", "half", "--measure", "ks", "--json")
    assert set(json.loads(completed.stdout)["groups"]) == {
        f"{site}, {half}" for site in ("north", "south") for half in "01"
    }
    assert "--group half" in error_of(run("evaluate", csv, "--group", "site", "--group", "hal"), 1)


def test_measures_before_and_after_a_map_are_reported(run: Run, csv: Path, tmp_path: Path) -> None:
    document = tmp_path / "map.json"
    assert run("fit", csv, "--method", "platt", "--out", document).exit_code == 0
    printed = output_of(run("evaluate", csv, "--map", document, "--measure", "ece"))
    header, row = (line for line in printed.splitlines() if line.startswith(("measure", "ece")))
    assert header.split()[:3] == ["measure", "before", "after"]
    before, after = map(float, row.split()[1:3])
    assert after < before
    assert "improvement" in printed


def test_weights_of_two_are_rows_twice(run: Run, csv: Path, csv_text: str, tmp_path: Path) -> None:
    header, *rows = csv_text.splitlines()
    weighted, twice = tmp_path / "weighted.csv", tmp_path / "twice.csv"
    weighted.write_text("\n".join([f"{header},w", *(f"{row},2" for row in rows)]), encoding="utf-8")
    twice.write_text("\n".join([header, *rows, *rows]), encoding="utf-8")
    flags = ("--measure", "ece", "--json")
    by_weight = json.loads(run("evaluate", weighted, "--weight", "w", *flags).stdout)["measures"]["ece"]["value"]
    by_row = json.loads(run("evaluate", twice, *flags).stdout)["measures"]["ece"]["value"]
    assert by_weight == pytest.approx(by_row, abs=1e-12)


def test_the_kind_of_weights_is_an_option(run: Run, csv: Path, csv_text: str, tmp_path: Path) -> None:
    header, *rows = csv_text.splitlines()
    weighted, halves = tmp_path / "weighted.csv", tmp_path / "halves.csv"
    weighted.write_text("\n".join([f"{header},w", *(f"{row},{1 + i % 3}" for i, row in enumerate(rows))]), "utf-8")
    halves.write_text("\n".join([f"{header},w", *(f"{row},{0.5 + i % 3}" for i, row in enumerate(rows))]), "utf-8")
    flags = ("--weight", "w", "--measure", "ks")
    reports = [
        json.loads(run("evaluate", weighted, *flags, "--json", *kind).stdout)
        for kind in ((), ("--weights-kind", "importance"), ("--weights-kind", "frequency"))
    ]
    assert [report["weights_kind"] for report in reports] == ["importance", "importance", "frequency"]
    p_values = [report["measures"]["ks"]["p_value"] for report in reports]
    assert p_values[0] == p_values[1] > p_values[2]
    assert "importance weights" in run("evaluate", weighted, *flags).stdout
    error = error_of(run("evaluate", halves, *flags, "--weights-kind", "frequency"))
    assert "300 are not whole numbers" in " ".join(error.split())
    assert run("evaluate", halves, *flags, "--weights-kind", "counts").exit_code == 2


def test_several_columns_are_classes_in_the_order_given(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "classes.csv", "truth,b,a\n0,0.7,0.3\n1,0.2,0.8\n0,0.6,0.4\n1,0.1,0.9\n")
    flags = ("--label", "truth", "--measure", "accuracy", "--json")
    in_order = run("evaluate", path, "--prediction", "b", "--prediction", "a", *flags)
    turned = run("evaluate", path, "--prediction", "a", "--prediction", "b", *flags)
    accuracies = [json.loads(answer.stdout)["measures"]["accuracy"]["value"] for answer in (in_order, turned)]
    assert accuracies == [1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--fail-above", "ece=0.9"], 0, None),
        (["--fail-above", "ece=0.01"], 4, "(value), above 0.01"),
        (
            ["--fail-above", "brier=0.9", "--fail-above", "ece=0.01", "--fail-by", "debiased"],
            4,
            "(debiased), above 0.01",
        ),
        (["--fail-above", "ece=0.01", "--fail-by", "upper", "--interval", "0.9"], 4, "upper end of the interval"),
        (["--fail-above", "ece=0.01", "--fail-by", "upper"], 4, "upper end of the interval"),
        (["--fail-above", "ece=0.01", "--fail-by", "upper", "--measure", "ece"], 2, "needs --interval"),
        (["--fail-above", "smooth-ece=0.01"], 2, "measure is not requested"),
        (["--fail-above", "ece"], 2, "such as ece=0.05"),
        (["--fail-above", "ece=nan"], 2, "such as ece=0.05"),
        (["--fail-above", "brier=0.1", "--fail-by", "debiased"], 4, "(value), above 0.1"),
        (["--fail-above", "auroc=0.1", "--measure", "auroc", "--fail-by", "lower"], 2, "needs --interval"),
    ],
)
def test_a_gate_fails_with_a_code_of_its_own(
    run: Run, csv: Path, arguments: list[str], code: int, message: str | None
) -> None:
    completed = run("evaluate", csv, *arguments)
    assert completed.exit_code == code
    assert message is None or message in " ".join(completed.stderr.split())
    # A report is written whether it passes or not, but not where nothing was measured.
    assert ("300 rows" in completed.stdout) == (code != 2)


def test_after_a_map_the_gate_looks_at_what_the_map_gives(run: Run, csv: Path, tmp_path: Path) -> None:
    document = tmp_path / "map.json"
    run("fit", csv, "--method", "isotonic", "--out", document)
    gate = ("--measure", "ece", "--fail-above", "ece=0.02")
    assert run("evaluate", csv, *gate).exit_code == 4
    assert run("evaluate", csv, *gate, "--map", document).exit_code == 0


def test_a_map_of_other_classes_than_the_rows_is_refused(run: Run, tmp_path: Path) -> None:
    file, document = tmp_path / "rows.csv", tmp_path / "map.json"
    rows = [f"{(i % 20) / 20},{'spam' if i % 20 > 3 * (i % 7) else 'ham'}" for i in range(200)]
    file.write_text("\n".join(["p,label", *rows]))
    assert run("fit", file, "--method", "platt", "--pos-label", "spam", "--out", document).exit_code == 0
    for command in (["evaluate", file], ["diagram", file, "--diagram", "by-size", "--out", tmp_path / "drawn.svg"]):
        error = error_of(run(*command, "--map", document, "--pos-label", "ham"))
        assert "the rows have 'spam', 'ham'" in " ".join(error.split())
