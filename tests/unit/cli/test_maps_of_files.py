"""Maps fitted to files, and files calibrated by them, without a server."""

from __future__ import annotations

import csv as tables
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import calibrant
from calibrant.core.cells import Floats
from tests.commands import document_of, error_of, notes_of, output_of
from tests.conftest import GOLDEN
from tests.unit.cli.conftest import Run, file_of


@pytest.fixture
def document(run: Run, csv: Path, tmp_path: Path) -> Path:
    path = tmp_path / "map.json"
    completed = run("fit", csv, "--method", "beta", "--out", path)
    assert (completed.exit_code, completed.stdout) == (0, "")
    assert re.search(
        r"in-sample scores \(optimistic\) of the event binary: log loss .* -> .*, plain ece .* -> ", completed.stderr
    )
    return path


def test_a_fit_writes_the_document_that_the_library_reads(document: Path, run: Run, csv: Path) -> None:
    fitted = calibrant.load(json.loads(document.read_bytes()))
    assert fitted.method == "beta"
    # Without a file the document is the answer.
    assert run("fit", csv, "--method", "beta").stdout == document.read_text("utf-8")


def test_a_known_prior_is_corrected_and_an_unknown_one_refused(run: Run, csv: Path) -> None:
    completed = run("fit", csv, "--method", "prior-shift", "--option", "kept_negatives=0.1")
    assert calibrant.load(json.loads(completed.stdout)).apply([0.5]) == pytest.approx(1 / 11)
    assert "exactly one of" in error_of(run("fit", csv, "--method", "prior-shift"), 1)
    both = ("--option", "new_rate=0.1", "--option", "positive_weight=9")
    assert "another change than new_rate" in error_of(run("fit", csv, "--method", "prior-shift", *both), 1)


def test_an_update_says_what_it_changes(run: Run) -> None:
    completed = run(
        "fit", GOLDEN / "clinical" / "rare_n3000.csv", "--method", "update", "--prediction", "p", "--label", "y"
    )
    assert "calibrant: update: intercept" in completed.stderr.splitlines()
    assert "intercept" in calibrant.load(json.loads(completed.stdout))._repr_html_()


def test_a_fit_of_vectors_names_what_each_score_is_of(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), 90)
    labels = (p.cumsum(axis=1) > random.random((90, 1))).argmax(axis=1)
    rows = "\n".join(",".join(map(str, [label, *row])) for label, row in zip(labels, p, strict=True))
    (tmp_path / "k.csv").write_text(f"label,prob_0,prob_1,prob_2\n{rows}\n", "utf-8")
    file, document = tmp_path / "k.csv", tmp_path / "map.json"
    completed = run("fit", file, "--method", "temperature", "--holdout", "0.3", "--out", document)
    assert re.search(
        r"in-sample scores \(optimistic\) of the whole vector: log loss .*; of the confidence: plain ece ",
        completed.stderr,
    )
    assert re.search(
        r"held-out scores \(.*\) of the whole vector: log loss .*, brier .*; of the confidence: plain ece ",
        completed.stderr,
    )
    before = re.search(r"held-out scores .* log loss (\S+) ->", completed.stderr)
    assert before is not None
    assert float(before[1]) == pytest.approx(_log_loss(p, labels), abs=0.3)
    assert "improvement of the whole vector (cross-fitted)" in run("evaluate", file, "--map", document).stdout
    of_class = run("evaluate", file, "--map", document, "--reduction", "canonical").stdout
    assert re.search(r"^improvement \(cross-fitted\) +value", of_class, re.MULTILINE)


def _log_loss(p: Floats, labels: Any) -> float:
    return float(-np.log(p[np.arange(len(p)), labels]).mean())


def test_options_of_a_method_are_read_as_json(run: Run, csv: Path) -> None:
    document = document_of(
        run("fit", csv, "--method", "histogram", "--option", "n_bins=5", "--option", "binning=equal-width")
    )
    assert len(document["parameters"]["heights"]) == 5
    for option, message in (("n_bins=many", "--option n_bins: must be"), ("nope=2", "--option: has an unknown option")):
        assert message in error_of(run("fit", csv, "--method", "histogram", "--option", option), 1)


def test_a_text_file_keeps_its_columns_and_gets_one_more(run: Run, csv: Path, csv_text: str, document: Path) -> None:
    printed = output_of(run("calibrate", csv, "--map", document))
    original = list(tables.DictReader(csv_text.splitlines()))
    written = list(tables.DictReader(printed.splitlines()))
    assert [{k: v for k, v in row.items() if k != "calibrated"} for row in written] == original
    fitted = calibrant.load(json.loads(document.read_bytes()))
    expected = fitted.apply([float(row["p"]) for row in original])
    assert [float(row["calibrated"]) for row in written] == expected.tolist()


def test_a_calibrated_file_keeps_the_separator_of_its_input(
    run: Run, csv_text: str, document: Path, tmp_path: Path
) -> None:
    text = csv_text.replace(",", ";")
    assert run("calibrate", "-", "--map", document, stdin=text.encode()).stdout.startswith("id;y;p;site;calibrated\n")
    output = tmp_path / "calibrated.tsv"
    assert run("calibrate", "-", "--map", document, "--out", output, stdin=text.encode()).stdout == ""
    assert output.read_text("utf-8").startswith("id\ty\tp\tsite\tcalibrated\n")


def test_cells_that_contain_separators_and_line_breaks_are_unchanged(run: Run, document: Path) -> None:
    text = 'p,note\n0.5,"a, b"\n0.25,"two\nlines"\n'
    rows = list(tables.reader(run("calibrate", "-", "--map", document, stdin=text.encode()).stdout.splitlines(True)))
    assert [row[1] for row in rows] == ["note", "a, b", "two\nlines"]
    assert [len(row) for row in rows] == [3, 3, 3]


def test_other_columns_in_another_encoding_stay_as_they_were(run: Run, document: Path) -> None:
    completed = run("calibrate", "-", "--map", document, stdin="p,town\n0.5,Köln\n".encode("latin-1"))
    assert completed.exit_code == 0
    assert b",K\xf6ln," in completed.stdout_bytes


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "utf-8"])
def test_calibrated_text_is_in_the_named_encoding(run: Run, document: Path, encoding: str) -> None:
    text = "".join(["p,town\n", *(f"0.5,Köln {i}\n" for i in range(20_000))])
    completed = run("calibrate", "-", "--map", document, "--encoding", encoding, stdin=text.encode(encoding))
    lines = completed.stdout_bytes.decode(encoding).splitlines()
    assert lines[0] == "p,town,calibrated"
    assert [line.rpartition(",")[0] for line in lines[1:]] == text.splitlines()[1:]


def test_names_of_classes_that_the_encoding_does_not_have_are_refused(run: Run, tmp_path: Path) -> None:
    names = ["a", "b", "日"]
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    calibrant.fit("temperature", probs, np.arange(60) % 3, class_names=names).save(tmp_path / "map.json")
    file = file_of(tmp_path / "preds.csv", "prob_0,prob_1,prob_2,town\n0.5,0.25,0.25,Köln\n".encode("cp1252"))
    error = error_of(
        run("calibrate", file, "--map", tmp_path / "map.json", "--encoding", "cp1252", "--out", tmp_path / "a.csv"), 1
    )
    assert error.endswith("the names of the classes cannot be written in cp1252; save the file as UTF-8\n")
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_names_of_classes_are_no_formulas_and_cells_of_the_file_are_unchanged(
    run: Run, tmp_path: Path, suffix: str
) -> None:
    names = ["=1+1", "-2", "\t@c", "+e", "\r=g"]
    probs = np.random.default_rng(0).dirichlet(np.ones(5), 60)
    calibrant.fit("temperature", probs, np.arange(60) % 5, class_names=names).save(tmp_path / "map.json")
    own = ["=1+1", "+49 30", "-x", "@me", "007"]
    source, output = tmp_path / f"preds.{suffix}", tmp_path / f"out.{suffix}"
    separator = "," if suffix == "csv" else "\t"
    with source.open("w", newline="") as file:
        head = [*(f"prob_{i}" for i in range(5)), "id"]
        tables.writer(file, delimiter=separator).writerows([head, *([0.2] * 5 + [cell] for cell in own)])
    assert run("calibrate", source, "--map", tmp_path / "map.json", "--out", output).exit_code == 0
    with output.open(newline="") as file:
        header, *rows = tables.reader(file, delimiter=separator)
    assert header[-5:] == [f"calibrated_{name}" for name in names]
    assert [row[5] for row in rows] == own


@pytest.mark.parametrize("cell", ["a\rb", "a\r\nb", "\r", "=1\r=2", 'a"b\rc'])
def test_a_carriage_return_in_a_cell_begins_no_row(run: Run, document: Path, tmp_path: Path, cell: str) -> None:
    own = [["p", "note"], ["0.5", cell], ["0.25", "x"]]
    source, output = tmp_path / "preds.csv", tmp_path / "out.csv"
    with source.open("w", newline="") as file:
        tables.writer(file, quoting=tables.QUOTE_ALL).writerows(own)
    assert run("calibrate", source, "--map", document, "--out", output).exit_code == 0
    with output.open(newline="") as file:
        assert [row[:2] for row in tables.reader(file)] == own


def test_json_lines_become_a_table_with_their_own_columns(run: Run, document: Path) -> None:
    lines = b'{"id": 7, "p": 0.5, "note": "a, b"}\n{"id": 8, "p": 0.25, "note": null}\n'
    rows = list(tables.reader(run("calibrate", "-", "--map", document, stdin=lines).stdout.splitlines()))
    assert [row[:3] for row in rows] == [["id", "p", "note"], ["7", "0.5", "a, b"], ["8", "0.25", ""]]
    assert rows[0][3:] == ["calibrated"]


def test_an_archive_gets_the_calibrated_column_alone(run: Run, document: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "preds.npz", tmp_path / "calibrated.npz"
    np.savez(source, p=np.array([0.2, 0.8]))
    assert run("calibrate", source, "--map", document).stdout.splitlines()[0] == "calibrated"
    assert run("calibrate", source, "--map", document, "--out", output).exit_code == 0
    fitted = calibrant.load(json.loads(document.read_bytes()))
    with np.load(output) as archive:
        assert archive["calibrated"].tolist() == fitted.apply([0.2, 0.8]).tolist()


def test_classes_get_a_column_each(run: Run, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    probs = generator.dirichlet([1.0, 1.0, 1.0], size=60)
    labels = [int(generator.choice(3, p=row)) for row in probs]
    lines = [f"{label},{','.join(map(repr, row.tolist()))}" for label, row in zip(labels, probs, strict=True)]
    text = "\n".join(["y,prob_0,prob_1,prob_2", *lines]).encode()
    document = tmp_path / "map.json"
    assert run("fit", "-", "--method", "temperature", "--out", document, stdin=text).exit_code == 0
    written = list(tables.reader(run("calibrate", "-", "--map", document, stdin=text).stdout.splitlines()))
    assert written[0][-3:] == ["calibrated_0", "calibrated_1", "calibrated_2"]
    assert sum(map(float, written[1][-3:])) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "arguments", "code", "message"),
    [
        ("p,calibrated\n0.5,1\n", [], 1, "already has a column 'calibrated'"),
        ("p\n0.5\n", ["--out", "preds.xlsx"], 2, "must end in"),
        ("logit\n0.5\n", ["--scale", "logit"], 1, "--scale: is logit, but the map was fitted on probability"),
    ],
)
def test_rows_that_cannot_be_calibrated_print_an_error(
    run: Run, document: Path, text: str, arguments: list[str], code: int, message: str
) -> None:
    completed = run("calibrate", "-", "--map", document, *arguments, stdin=text.encode())
    assert completed.exit_code == code
    assert message in " ".join(completed.stderr.replace("│", " ").split())
    assert completed.stdout == ""


def test_a_file_that_is_not_a_map_prints_an_error(run: Run, csv: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    for content, message in ((b"{nope", "invalid JSON in line 1"), (b"[]", "must be a JSON object"), (b"{}", "format")):
        path.write_bytes(content)
        assert message in error_of(run("calibrate", csv, "--map", path), 1)


def test_a_file_that_is_there_stays_as_it_was_where_nothing_can_be_written(
    run: Run, document: Path, tmp_path: Path
) -> None:
    output = file_of(tmp_path / "out.csv", "precious")
    completed = run("calibrate", "-", "--map", document, "--out", output, stdin=b"p,calibrated\n0.5,1\n")
    assert (completed.exit_code, output.read_text("utf-8")) == (1, "precious")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.json", "out.csv", "preds.csv"]
    assert run("calibrate", "-", "--map", document, "--out", output, stdin=b"p\n0.5\n").exit_code == 0
    assert output.read_text("utf-8").startswith("p,calibrated\n")


def test_a_missing_folder_is_reported_before_anything_is_fitted(run: Run, csv: Path, tmp_path: Path) -> None:
    error = error_of(run("fit", csv, "--method", "platt", "--out", tmp_path / "nowhere" / "map.json"), 2)
    assert "the folder" in error
    assert "fitted" not in error


def test_a_name_is_kept_by_a_server_alone(run: Run, csv: Path) -> None:
    assert "--server" in error_of(run("fit", csv, "--name", "spam"), 2)


def test_a_report_is_one_file_with_the_verdict_first(run: Run, csv: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    completed = run("report", csv, "--label", "y", "--prediction", "p", "--out", output)
    assert (completed.exit_code, completed.stdout) == (0, "")
    page = output.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert page.index("rejected, p &lt; 0.001") < page.index("<table")
    assert "preds.csv" in page
    assert "column &#39;" not in page  # nothing was guessed


def test_the_report_of_a_few_groups_draws_each(run: Run, tmp_path: Path) -> None:
    file, output = tmp_path / "sites.csv", tmp_path / "report.html"
    lines = [f"{i % 97 / 97},{int(i % 5 < 2)},{'north' if i % 2 else 'south'}" for i in range(400)]
    file.write_text("\n".join(["p,y,site", *lines]), "utf-8")
    completed = run("report", file, "--group", "site", "--out", output)
    assert (completed.exit_code, completed.stdout) == (0, "")
    drawn = [alt for alt in re.findall(r'<img[^>]* alt="([^"]*)"', output.read_text("utf-8")) if "north" in alt]
    assert len(drawn) == 1
    assert "south" in drawn[0]


def test_a_map_of_one_label_is_not_applied_to_the_column_of_the_other(run: Run, tmp_path: Path) -> None:
    def saved(name: str, head: str) -> Path:
        return file_of(tmp_path / name, f"y,{head}\n" + "yes,0.7\nno,0.2\nyes,0.6\nno,0.4\nyes,0.3\n" * 20)

    output = tmp_path / "yes.json"
    assert run("fit", saved("yes.csv", "p_yes"), "--method", "platt", "--out", output).exit_code == 0
    other = saved("-no.csv", "p_no")
    for command in ("calibrate", "evaluate"):
        error = error_of(run(command, other, "--map", output))
        assert "column 'p_no' is that of 'no', and 'yes' is class 1" in error
    assert run("calibrate", saved("p.csv", "p"), "--map", output).exit_code == 0


def test_decimal_commas_are_numbers_in_formats_with_types(run: Run, tmp_path: Path) -> None:
    file, document = tmp_path / "a.csv", tmp_path / "map.json"
    rows = [f"0,{i % 9 + 1}004;{i % 2};1,5 kg;0,{i % 9 + 1}" for i in range(40)]
    file.write_text("\n".join(["p;y;note;mixed", *rows[:-1], "0,5;1;2,5;007", ""]), encoding="utf-8")
    flags = ("--decimal", ",", "--prediction", "p")
    assert run("fit", file, *flags, "--method", "platt", "--label", "y", "--out", document).exit_code == 0
    for suffix in ("parquet", "jsonl"):
        output = tmp_path / f"out.{suffix}"
        assert run("calibrate", file, *flags, "--map", document, "--out", output).exit_code == 0
        read = pyarrow.parquet.read_table(output).to_pylist() if suffix == "parquet" else _lines_of(output)
        assert read[0]["p"] == 0.1004
        assert read[-1]["y"] == 1
        assert (read[0]["note"], read[-1]["note"]) == ("1,5 kg", "2,5")
        assert read[-1]["mixed"] == "007"


def _lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_fit_that_changes_nothing_says_so(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    p = random.uniform(size=200)
    file = tmp_path / "calibrated.csv"
    rows = [f"{q},{int(u < q)}" for q, u in zip(p, random.uniform(size=200), strict=True)]
    file.write_text("\n".join(["p,y", *rows, ""]), encoding="utf-8")
    completed = run("fit", file)
    assert json.loads(completed.stdout)["family"] == "identity"
    assert completed.stderr.splitlines()[-1].endswith("so the map leaves the predictions as they are")


def test_a_column_of_class_0_is_noted_before_a_map_of_class_1_is_applied(
    run: Run, document: Path, tmp_path: Path
) -> None:
    file = file_of(tmp_path / "zero.csv", "prob_0,prob_x\n0.25,0.5\n0.5,0.25\n")
    notes = notes_of(run("calibrate", file, "--map", document, "--prediction", "prob_0"))
    assert "column 'prob_0' is named after class 0, not class 1" in notes
    assert "class 0" not in run("calibrate", file, "--map", document, "--prediction", "prob_x").stderr


@pytest.mark.parametrize("flags", [(), ("--pos-label", "1")])
def test_a_map_finds_the_column_named_like_the_labels_in_a_file_without_them(
    run: Run, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    p = np.random.default_rng(0).uniform(0.01, 0.99, 60).round(3)
    labels = (np.random.default_rng(1).uniform(size=60) < p**2).astype(int)
    labelled, swapped, document = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "map.json"
    rows = [f"{y},{q},{1 - q:.3f}" for y, q in zip(labels, p, strict=True)]
    labelled.write_text("\n".join(["churn,prob_churn,prob_stay", *rows, ""]), encoding="utf-8")
    for file, header in ((swapped, "prob_churn,prob_stay"), (tmp_path / "c.csv", "prob_stay,prob_churn")):
        cells = [f"{q},{1 - q:.3f}" if file == swapped else f"{1 - q:.3f},{q}" for q in p]
        file.write_text("\n".join([header, *cells, ""]), encoding="utf-8")
    assert run("fit", labelled, *flags, "--method", "platt", "--out", document).exit_code == 0
    calibrated = [run("calibrate", file, "--map", document).stdout for file in (swapped, tmp_path / "c.csv")]
    first, second = ([row["calibrated_churn"] for row in tables.DictReader(text.splitlines())] for text in calibrated)
    assert first == second
