"""Files as people have them: an error is one line, with its remedy, and never a traceback."""

from __future__ import annotations

import gzip
import io
import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from calibrant.cli.main import app
from tests.commands import error_of, output_of, succeeds
from tests.unit.cli.conftest import Run, file_of

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (PNG, "is a PNG image"),
        (b"y,p\n1,0.5\n0,\n", "row 2"),
        (b"y,p\n1,0.5\n0,abc\n", "row 2"),
        (b"y,p\n1,55\n0,20\n1,90\n", "percent"),
        (b"y,p\n1,-2.5\n0,1.5\n", "; add --scale logit"),
        (b"y,p\n1,0.5\n0,101\n", "(--scale logit)"),
        (b"y,logit\n1,0.5\n0,0.2\n", "to be logits"),
        (b"y,p\n1,0.5,3\n", "3 cells, but the header has 2"),
        (b"0.5,1\n0.2,0\n", "add a header line such as 'label,p'"),
        (b"y,p\n1,1\n0,0\n", "has predicted classes, not probabilities"),
        (b"y;p\n1;0,5\n0;0,25\n", "; add --decimal ,"),
        (b"y;p\n1;1,250\n0;0,25\n", "; if commas are the decimal mark, add --decimal ,"),
    ],
)
@pytest.mark.parametrize("through", ["file", "pipe"])
def test_an_unreadable_file_prints_one_line(
    run: Run, tmp_path: Path, content: bytes, message: str, through: str
) -> None:
    path = file_of(tmp_path / "preds.csv", content)
    completed = run("evaluate", path) if through == "file" else run("evaluate", "-", stdin=content)
    assert completed.exit_code == 1
    assert completed.stdout == ""
    (line,) = [line for line in completed.stderr.splitlines() if message in line]
    assert line.startswith(f"calibrant: {path if through == 'file' else 'standard input'}: ")
    assert len(completed.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,0.5,0.2"] * 1000, "predictions: 1,000 of 1,000 rows do not sum to 1, the first is row 1"),
        (["0,0.5,0.5", "1,0.9,0.2"], "predictions: 1 of 2 rows does not sum to 1, row 2"),
    ],
    ids=["many", "one"],
)
def test_rows_that_do_not_sum_to_one_are_counted(run: Run, tmp_path: Path, rows: list[str], message: str) -> None:
    path = file_of(tmp_path / "sums.csv", "\n".join(["y,prob_0,prob_1", *rows, ""]))
    assert run("evaluate", path).stderr.splitlines()[-1].startswith(f"calibrant: {message}; name one column per class")


@pytest.mark.parametrize(
    ("encoding", "text", "offered"),
    [
        ("cp1252", "étiquette;p\n1;0,5\n0;0,25\n", "cp1252"),
        ("cp1252", "label;p;région\n1;0,5;a\n0;0,25;b\n", "cp1252"),
        ("cp1252", "label;p;group\n1;0,5;é\n0;0,25;b\n", "cp1252"),
        ("utf-16-le", "label;p;g\n1;0,5;é\n0;0,25;b\n", "utf-16-le"),
        ("utf-16-be", "label;p;g\n1;0,5;é\n0;0,25;b\n", "utf-16-be"),
    ],
)
def test_the_command_that_names_an_encoding_runs(
    run: Run, tmp_path: Path, encoding: str, text: str, offered: str
) -> None:
    path = file_of(tmp_path / "it's mine.csv", text.encode(encoding))
    error = error_of(run("evaluate", path, "--decimal", ",", "--measure", "brier"), 1)
    message, command = error.splitlines()
    assert message.endswith("save the file as UTF-8, or name its encoding:") or "UTF-16" in message
    assert command.endswith(f" --encoding {offered}")
    assert ["brier", "0.1562"] in map(str.split, output_of(run(*shlex.split(command)[1:])).splitlines())


def test_ids_times_and_clusters_that_are_not_utf_8_are_refused(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "preds.csv", "y,mean,std,week\n1,1,2,a\n2,1,2,März\n".encode("cp1252"))
    refused = run("evaluate", path, "--regression", "--cluster", "week")
    message, command = refused.stderr.splitlines()
    assert "row 2 of column 'week' is not UTF-8" in message
    assert run(*shlex.split(command)[1:]).exit_code == 0
    path.write_bytes(b"y,mean,std,week\n1,1,2,a\n2,1,2,\x81\n")
    assert "row 2 of column 'week' is not cp1252" in run(*shlex.split(command)[1:]).stderr


def test_bytes_that_the_named_encoding_does_not_have_are_refused(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "preds.csv", b"label,p,g\n1,0.5,a\n0,0.4,\x81\n")
    refused = run("evaluate", path, "--group", "g", "--encoding", "cp1252")
    assert refused.stderr == (
        f"calibrant: {path}: row 2 of column 'g' is not cp1252; name the encoding of the file, or save it as UTF-8\n"
    )
    path.write_bytes("label,p\n1,0.5\n".encode("utf-32-le"))
    assert "the text is not utf-32-be" in run("evaluate", path, "--encoding", "utf-32-be").stderr
    path.write_bytes(b"label,p,g\n1,0.5,\xe9\n")
    assert "is not punycode" in run("evaluate", path, "--encoding", "punycode").stderr


@pytest.mark.parametrize("name", ["cp1253x", "rot13", "base64", "undefined", "a\0b"])
def test_only_encodings_of_text_are_accepted(run: Run, csv: Path, name: str) -> None:
    assert "must be an encoding of text" in error_of(run("evaluate", csv, "--encoding", name), 2)


def test_a_byte_order_mark_and_other_formats_decide_their_encoding(run: Run, csv: Path, tmp_path: Path) -> None:
    expected = run("evaluate", csv).stdout
    for encoding in ("utf-8-sig", "utf-16"):
        path = file_of(tmp_path / "marked.csv", csv.read_text("utf-8").encode(encoding))
        assert run("evaluate", path, "--encoding", "cp1252").stdout == expected
    rows = file_of(
        tmp_path / "preds.jsonl", '{"label": 1, "p": 0.5, "group": "é"}\n{"label": 0, "p": 0.5, "group": "b"}\n'
    )
    assert "é" in run("evaluate", rows, "--group", "group", "--encoding", "cp1252").stdout


_PROBS = {"a": {"bird": 0.5, "cat": 0.3, "dog": 0.2}, "b": {"bird": 0.1, "cat": 0.8, "dog": 0.1}}


@pytest.mark.parametrize(
    ("header", "index"),
    [("id,class,probability", "'id'"), ("id,class,probability,label", "['id', 'label']")],
)
@pytest.mark.parametrize("in_order", ["of cases", "of classes"])
def test_a_long_file_is_refused_with_its_pivot(
    run: Run, tmp_path: Path, header: str, index: str, in_order: str
) -> None:
    pairs = [(case, name) for case in _PROBS for name in _PROBS[case]]
    pairs = sorted(pairs, key=lambda pair: pair[1]) if in_order == "of classes" else pairs
    of_case = {"a": "bird", "b": "dog"}
    rows = [[case, name, str(_PROBS[case][name]), of_case[case]][: header.count(",") + 1] for case, name in pairs]
    path = file_of(tmp_path / "long.csv", "\n".join([header, *map(",".join, rows), ""]))
    refused = run("evaluate", path)
    assert refused.stderr == (
        f"calibrant: {path}: the file is long, with a row for each 'id' and 'class'; pivot it to a column per class, "
        f"as pandas does with frame.pivot(index={index}, columns='class', values='probability').reset_index()\n"
    )
    pivoted = pd.read_csv(path).pivot(index=header.split(",")[::3], columns="class", values="probability").reset_index()
    pivoted.assign(label=[of_case[case] for case in pivoted["id"]]).to_csv(tmp_path / "wide.csv", index=False)
    assert run("evaluate", tmp_path / "wide.csv").exit_code == 0


def test_events_of_a_case_that_sum_to_one_are_not_long(run: Run, tmp_path: Path) -> None:
    rows = [
        f"{game},{team},{p},{'yes' if team == 'home' else 'no'}"
        for game, of_home in enumerate((0.7, 0.4, 0.9))
        for team, p in (("home", of_home), ("away", round(1 - of_home, 1)))
    ]
    path = file_of(tmp_path / "games.csv", "\n".join(["game,team,p,won", *rows, ""]))
    refused = run("evaluate", path, "--label", "won")
    assert [line.split()[-2:] for line in refused.stderr.splitlines()[-2:]] == [
        ["--pos-label", "yes"],
        ["--pos-label", "no"],
    ]
    assert run("evaluate", path, "--label", "won", "--pos-label", "yes").exit_code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"r\x02\x01\0" + b"\0" * 200, "is a Stata file: save it as CSV"),
        (b"<stata_dta><header>" + b"\0" * 200, "is a Stata file: save it as CSV"),
        (b"\0" * 12 + b"\xc2\xea\x81\x60" + b"\0" * 200, "is a SAS data set: save it as CSV"),
        (b"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!", "is a SAS transport file: save it as CSV"),
        (b"$FL2@(#) SPSS DATA FILE\0\0", "is an SPSS file: save it as CSV"),
        (gzip.compress(b"X\n\0\0\0\3\0\4", mtime=0), "is an R data file: save it as CSV, with write.csv("),
        (gzip.compress(b"RDX3\nX\n\0\0\0\3", mtime=0), "is an R data file: save it as CSV, with write.csv("),
        (b"MATLAB 5.0 MAT-file, Platform\0\1", "is a MATLAB file: save it as CSV"),
        (b"\x89HDF\r\n\x1a\n\0", "is an HDF5 file: save it as NPZ or CSV"),
        (b'\x40\0\0\0\0\0\0\0{"logits":{"dtype":"F32"', "is a safetensors file: save it as NPZ"),
        (b"@RELATION p\n@ATTRIBUTE p NUMERIC\n@DATA\n0.5\n", "is an ARFF file: save it as CSV"),
    ],
)
def test_files_of_other_tools_are_named_with_a_remedy(run: Run, tmp_path: Path, content: bytes, message: str) -> None:
    path = file_of(tmp_path / "preds", content)
    assert run("evaluate", path).stderr.startswith(f"calibrant: {path}: {message}")


def test_a_json_document_of_rows_may_be_one_line(run: Run, csv: Path, tmp_path: Path) -> None:
    expected = run("evaluate", csv).stdout
    path = tmp_path / "preds.json"
    rows = pd.read_csv(csv, dtype={"p": str})[["y", "p"]].to_dict("records")
    for document in ({"results": rows}, {"model": "m", "rows": rows}):
        path.write_text(json.dumps(document), encoding="utf-8")
        assert run("evaluate", path).stdout == expected


def test_probabilities_with_labels_as_bigquery_writes_them_are_columns(run: Run, csv: Path, tmp_path: Path) -> None:
    path = tmp_path / "preds.jsonl"
    rows = pd.read_csv(csv)
    lines = [
        {
            "predicted_y": str(int(p > 0.5)),
            "predicted_y_probs": [{"label": "1", "prob": p}, {"label": "0", "prob": 1 - p}],
            "y": str(y),
        }
        for y, p in zip(rows["y"], rows["p"], strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    brier = run("evaluate", path, "--reduction", "binary", "--measure", "brier").stdout.split()[-1]
    assert brier == run("evaluate", csv, "--measure", "brier").stdout.split()[-1]


def test_a_submission_without_labels_names_the_column_of_its_predictions(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "submission.csv", "id,target\n1,0.5\n2,0.25\n")
    assert "(no other column than 'target' has numbers in [0, 1])" in run("evaluate", path).stderr


def test_raw_scores_are_read_with_the_options_that_errors_offer(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "raw.csv", "label,raw_score\n1,2.5\n0,-1.5\n")
    assert "for logits, add --scale logit --prediction raw_score)" in run("evaluate", path).stderr
    assert run("evaluate", path, "--scale", "logit").stderr.endswith("; add --prediction raw_score\n")
    assert run("evaluate", path, "--scale", "logit", "--prediction", "raw_score").exit_code == 0


def test_labels_are_never_offered_as_predictions(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "named.csv", "label,p\n0,0.5\n1,0.5\n")
    output = run("evaluate", path, "--label", "p").stderr
    assert "no column of predictions found" in output
    assert "--prediction label" not in output


def test_a_file_is_named_once(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "image.csv", PNG)
    assert run("evaluate", path).stderr.startswith(f"calibrant: {path}: is a PNG image")


def test_the_reduction_of_two_columns_is_printed(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "two.csv", "y,prob_0,prob_1\n0,0.75,0.25\n1,0.5,0.5\n")
    assert "reduction: confidence, the default for two columns" in run("evaluate", path).stderr
    assert "the default for two columns" not in run("evaluate", path, "--reduction", "class:1").stderr


def test_weights_below_zero_are_counted_in_rows(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "weights.csv", "y,p,w\n0,0.5,1\n1,0.5,-1\n1,0.5,-2\n")
    assert run("evaluate", path, "--weight", "w").stderr.endswith(
        "calibrant: weights: 2 of 3 are below 0, the first in row 2\n"
    )


def test_the_offered_flags_repair_the_command(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "mail.csv", "y,p\nspam,0.9\nnot spam,0.2\nspam,0.6\nnot spam,0.7\n")
    refused = run("evaluate", path)
    commands = [shlex.split(line)[1:] for line in refused.stderr.splitlines()[-2:]]
    assert [words[-2:] for words in commands] == [["--pos-label", "spam"], ["--pos-label", "not spam"]]
    by_name = run(*commands[0])
    mended = run("evaluate", path, "--map-label", "not spam=0", "--map-label", "spam=1")
    assert (mended.exit_code, mended.stdout.splitlines()[0]) == (0, "4 rows, binary")
    assert by_name.stdout == mended.stdout


@pytest.mark.parametrize(
    ("flag", "name", "near"),
    [("--label", "Y", "--label y"), ("--prediction", "P", "--prediction p"), ("--group", "sit", "--group site")],
)
def test_a_missing_column_is_reported_with_the_nearest_name(
    run: Run, csv: Path, flag: str, name: str, near: str
) -> None:
    assert error_of(run("evaluate", csv, flag, name), 1).splitlines()[-1].endswith(f"did you mean {near}?")


def test_semicolons_and_a_byte_order_mark_are_read_and_printed(run: Run, csv_text: str) -> None:
    plain = run("evaluate", "-", stdin=csv_text.encode())
    completed = run("evaluate", "-", stdin=b"\xef\xbb\xbf" + csv_text.replace(",", ";").encode())
    assert completed.stdout == plain.stdout
    assert "separated by semicolons" in completed.stderr


def test_an_archive_of_numpy_is_read_from_a_pipe(run: Run, csv_text: str, csv: Path) -> None:
    rows = [line.split(",") for line in csv_text.splitlines()[1:]]
    file = io.BytesIO()
    np.savez(file, p=np.array([float(row[2]) for row in rows]), y=np.array([int(row[1]) for row in rows]))
    assert run("evaluate", "-", stdin=file.getvalue()).stdout == run("evaluate", csv).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--measure", "nope"], 1, "--measure: must be one of"),
        (["--measure", '{"name": "ece", "n_bins": 0}'], 1, "--measure n_bins: must be"),
        (["--measure", "{nope"], 2, "is not valid JSON"),
        (["--reduction", "top:2"], 1, "--reduction"),
        (["--interval", "2"], 1, "--interval"),
        (["--resamples", "1", "--interval", "0.9"], 1, "--resamples"),
        (["--seed", "-1"], 1, "--seed"),
        (["--scale", "percents"], 2, "must be probability, percent or logit"),
        (["--map-label", "spam"], 2, "such as spam=1"),
        (["--map", "champion"], 2, "file does not exist"),
        (["--map", "missing.json"], 1, "No such file"),
        (["--server", "localhost"], 2, "must begin with http"),
        (["--nope"], 2, "No such option"),
    ],
)
def test_a_wrong_request_names_its_flag(run: Run, csv: Path, arguments: list[str], code: int, message: str) -> None:
    error = error_of(run("evaluate", csv, *arguments), code)
    assert message in " ".join(error.replace("│", " ").split())
    assert "Traceback" not in error


def test_a_missing_file_is_reported_by_its_name(run: Run, tmp_path: Path) -> None:
    missing = run("evaluate", tmp_path / "missing.csv")
    assert (missing.exit_code, missing.stderr) == (1, f"calibrant: {tmp_path}/missing.csv: No such file or directory\n")
    error = error_of(run("evaluate", tmp_path), 2)
    assert "--prediction" in error  # the files of a folder are read by the names of their columns


@pytest.mark.parametrize("group", ["maps", "jobs"])
def test_maps_and_jobs_need_a_server_and_say_so(run: Run, group: str) -> None:
    assert "CALIBRANT_SERVER" in error_of(run(group, "list"), 2)


def test_an_invalid_key_is_not_blamed_on_the_server(csv: Path) -> None:
    words = ["evaluate", str(csv), "--server", "http://127.0.0.1:9"]
    error = error_of(CliRunner().invoke(app, words, env={"CALIBRANT_API_KEY": "of two words"}), 2)
    assert "Invalid value for CALIBRANT_API_KEY" in error
    assert "two words" not in error


def test_a_server_that_is_away_has_a_code_of_its_own(run: Run, csv: Path) -> None:
    error = error_of(run("evaluate", csv, "--server", "http://127.0.0.1:9"), 3)
    assert error.splitlines()[-1].startswith("calibrant: cannot reach the server http://127.0.0.1:9")


def test_two_orders_of_the_columns_are_both_commands(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "encoded.csv", "label,prob_dog,prob_cat\n1,0.75,0.25\n0,0.25,0.75\n")
    for flags in ([], ["--prediction", "prob_*"]):
        error = error_of(run("evaluate", path, *flags), 2)
        orders = ("--prediction prob_cat --prediction prob_dog", "--prediction prob_dog --prediction prob_cat")
        commands = error.splitlines()[-2:]
        assert [line.partition(".csv ")[2] for line in commands] == list(orders)
        assert run("evaluate", path, *orders[0].split(), "--measure", "brier").exit_code == 0


def test_class_names_with_commas_are_quoted_and_suggested_so(run: Run, tmp_path: Path) -> None:
    path = file_of(
        tmp_path / "towns.csv",
        'label,p0,p1,p2\n"Paris, France",0.5,0.25,0.25\nBonn,0.25,0.5,0.25\nRome,0.25,0.25,0.5\n',
    )
    assert "--class-names 'Bonn,\"Paris, France\",Rome'" in run("evaluate", path).stderr
    succeeds(run("evaluate", path, "--class-names", '"Paris, France",Bonn,Rome', "--measure", "brier"))


def test_a_reduction_may_name_a_class_of_the_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "pets.csv"
    rows = ["dog,0.125,0.125,0.75", "cat,0.125,0.75,0.125", "bird,0.75,0.125,0.125", "cat,0.5,0.375,0.125"] * 100
    path.write_text("\n".join(["species,bird,cat,dog", *rows, ""]), encoding="utf-8")
    for command in (
        ("evaluate", "--json"),
        ("fit", "--method", "platt"),
        ("report", "--out", "-"),
        ("diagram", "--out", "-"),
    ):
        named, numbered = (run(*command, path, "--reduction", name) for name in ("class:dog", "class:2"))
        assert named.exit_code == numbered.exit_code == 0, named.stderr
        if command[0] != "report":  # which has the time and the command
            assert named.stdout == numbered.stdout
    succeeds(run("diagram", path, "--diagram", "by-size", "--reduction", "class:dog", "--out", "-"))


def test_one_column_is_that_of_class_1_for_every_command(run: Run, csv: Path) -> None:
    for command in (("evaluate", "--json"), ("fit", "--method", "platt"), ("diagram", "--out", "-")):
        of_class, binary = (run(*command, csv, "--reduction", name) for name in ("class:1", "binary"))
        assert of_class.exit_code == 0
        assert of_class.stdout == binary.stdout
        assert "must be class:1 for one column" in run(*command, csv, "--reduction", "class:0").stderr
