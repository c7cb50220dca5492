"""The commands for predictive distributions."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from typer import BadParameter

import calibrant
from calibrant.cli.rows import check_alone
from calibrant.io.options import OPTIONS
from tests.commands import error_of, notes_of, output_of, succeeds
from tests.unit.cli.conftest import Run, file_of

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
N = 400


def _rows() -> dict[str, np.ndarray]:
    """Forecasts that are too narrow and too low."""
    random = np.random.default_rng(1)
    mean, std = random.normal(40, 3, N).round(4), np.exp(random.normal(0, 0.4, N)).round(4)
    observed = (mean + 0.3 + 1.6 * std * random.standard_normal(N)).round(4)
    site, day = np.array(["north", "south"] * (N // 2)), np.arange(N) // 4
    return {"y": observed, "mean": mean, "std": std, "site": site, "day": day, "horizon": np.arange(N) % 2}


ROWS = _rows()
QUANTILES = ROWS["mean"][:, None] + ROWS["std"][:, None] * norm.ppf(LEVELS)


def _write(path: Path, columns: dict[str, np.ndarray]) -> Path:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    path.write_text("\n".join(",".join(map(str, row)) for row in [tuple(columns), *rows]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def normal(tmp_path: Path) -> Path:
    return _write(tmp_path / "normal.csv", ROWS)


@pytest.fixture
def quantiles(tmp_path: Path) -> Path:
    columns = {f"q{level}": QUANTILES[:, i] for i, level in enumerate(LEVELS)}
    return _write(tmp_path / "quantiles.csv", {name: ROWS[name] for name in ("y", "day", "horizon")} | columns)


def test_the_table_has_the_values_of_the_library(run: Run, normal: Path) -> None:
    completed = run("evaluate", normal, "--regression", "--interval", 0.9, "--group", "site")
    assert completed.exit_code == 0, completed.stderr
    lines = completed.stdout.splitlines()
    assert lines[0] == "400 rows, normal"
    report = calibrant.evaluate_distribution(ROWS["y"], mean=ROWS["mean"], std=ROWS["std"], interval=0.9)
    for key, measure in report.measures.items():
        row = next(line.split() for line in lines if line.split()[:1] == [key])
        assert row[1] == f"{measure.value:.4f}"
    assert [line.split()[0] for line in lines if line.startswith(("north", "south"))] == ["north", "south"]
    assert "std: column 'std' (inferred from its name)" in completed.stderr
    assert lines[-1] == "The 90 % interval is below each value."


def test_json_is_the_document_of_the_report(run: Run, quantiles: Path) -> None:
    completed = run("evaluate", quantiles, "--regression", "--cluster", "day", "--json")
    expected = calibrant.evaluate_distribution(
        ROWS["y"], quantiles=QUANTILES, levels=LEVELS, clusters=ROWS["day"]
    ).to_dict()
    assert json.loads(completed.stdout) == json.loads(json.dumps(expected))


def test_a_map_is_fitted_evaluated_and_applied(run: Run, quantiles: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    notes = notes_of(
        run("fit", quantiles, "--regression", "--by", "horizon", "--cluster", "day", "--support", "0,", "--out", path)
    )
    assert re.search(r"cross-fitted gain of the quantile-score: 0\.\d+, \d", notes)
    expected = calibrant.fit_distribution(
        "averaged",
        ROWS["y"],
        quantiles=QUANTILES,
        levels=LEVELS,
        by=ROWS["horizon"],
        clusters=ROWS["day"],
        support=(0, None),
    )
    assert calibrant.load_distribution(path) == expected

    before_after = run("evaluate", quantiles, "--regression", "--by", "horizon", "--map", path, "--json")
    report = json.loads(before_after.stdout)
    assert report["in_sample"] is True
    assert report["after"]["measures"]["crps"]["value"] < report["measures"]["crps"]["value"]
    assert "after (in-sample)" in run("evaluate", quantiles, "--regression", "--by", "horizon", "--map", path).stdout

    output = tmp_path / "calibrated.csv"
    assert run("calibrate", quantiles, "--map", path, "--by", "horizon", "--out", output).exit_code == 0
    after = expected.apply(quantiles=QUANTILES, levels=LEVELS, by=ROWS["horizon"]).quantiles
    written = np.genfromtxt(output, delimiter=",", names=True, deletechars="")
    np.testing.assert_array_equal([written[f"calibrated_q{level}"] for level in LEVELS], after.T)

    arrays = tmp_path / "calibrated.npz"
    assert run("calibrate", quantiles, "--map", path, "--by", "horizon", "--out", arrays).exit_code == 0
    with np.load(arrays) as npz:
        np.testing.assert_array_equal(npz["quantiles"], after)
        assert npz["levels"].tolist() == LEVELS


def test_each_reading_of_a_calibrated_file_has_a_command(
    run: Run, normal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("fit", normal, "--regression", "--method", "variance-scaling", "--out", "map.json").exit_code == 0
    assert run("calibrate", normal, "--map", "map.json", "--out", "calibrated.csv").exit_code == 0
    error = error_of(run("evaluate", "calibrated.csv", "--regression", "--measure", "variance-ratio"), 2)
    commands = re.findall(r"^  calibrant (.*)$", error, re.MULTILINE)
    ratios = [run(*shlex.split(command)).stdout.split()[-1] for command in commands]
    assert len(ratios) == 2
    assert float(ratios[0]) > 2.0
    assert float(ratios[1]) == pytest.approx(1.0, abs=1e-4)


def test_a_map_that_returns_quantiles_is_compared_at_its_levels(run: Run, normal: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    assert run("fit", normal, "--regression", "--method", "quantile-recalibration", "--out", path).exit_code == 0
    completed = run("evaluate", normal, "--regression", "--map", path, "--json")
    report = json.loads(completed.stdout)
    assert report["kind"] == report["after"]["kind"] == "quantiles"
    assert "before the map: quantiles at the levels of the map" in completed.stderr


def test_intervals_have_their_level(run: Run, tmp_path: Path) -> None:
    columns = {"y": ROWS["y"], "lo": QUANTILES[:, 0], "hi": QUANTILES[:, -1]}
    path = _write(tmp_path / "intervals.csv", columns)
    error = error_of(run("evaluate", path, "--regression"), 1)
    assert "the level of the intervals is not in the file" in error
    completed = run(
        "evaluate", path, "--regression", "--level", 0.9, "--measure", "coverage", "--fail-above", "coverage=0.5"
    )
    inside = np.mean((ROWS["y"] >= QUANTILES[:, 0]) & (ROWS["y"] <= QUANTILES[:, -1]))
    assert completed.stdout.splitlines()[-1].split() == ["coverage", f"{inside:.4f}"]
    assert completed.exit_code == 4
    map_path = tmp_path / "map.json"
    options = ("--regression", "--level", "0.9")
    assert run("fit", path, *options, "--method", "conformal", "--out", map_path).exit_code == 0
    header = run("calibrate", path, "--level", "0.9", "--map", map_path).stdout.splitlines()[0]
    assert header == "y,lo,hi,calibrated_lower,calibrated_upper"


def test_held_out_rows_are_scored(run: Run, quantiles: Path, tmp_path: Path) -> None:
    completed = run(
        "fit", quantiles, "--regression", "--cluster", "day", "--holdout", 0.5, "--out", tmp_path / "map.json"
    )
    assert "calibrant: fitted averaged (quantiles) to 200 rows" in completed.stderr
    before, after = re.search(r"held-out \(200 rows\): crps ([\d.]+) -> ([\d.]+)", completed.stderr).groups()  # type: ignore[union-attr]
    assert float(after) < float(before)


def test_periods_are_groups(run: Run, tmp_path: Path) -> None:
    days = np.arange("2024-01-01", "2025-02-04", dtype="M8[D]")[:N].astype(str)
    path = _write(tmp_path / "days.csv", {"date": days, **{name: ROWS[name] for name in ("y", "mean", "std")}})
    lines = run("evaluate", path, "--regression", "--time", "date", "--measure", "rmse").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("2024-0")][:2] == ["2024-01", "2024-02"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["report", "normal.csv", "--regression", "--server", "http://127.0.0.1:1", "--support", "0,"], 2, "--support"),
        (["evaluate", "normal.csv", "--regression", "--reduction", "binary"], 2, "--reduction"),
        (["evaluate", "normal.csv", "--by", "day"], 2, "needs --regression"),
        (["evaluate", "normal.csv", "--regression", "--scale", "logit"], 2, "--scale"),
        (["fit", "normal.csv", "--support", "0,"], 2, "needs --regression"),
        (["fit", "normal.csv", "--regression", "--support", "1"], 2, "two numbers or one"),
        (["fit", "normal.csv", "--regression", "--method", "platt"], 1, "--method"),
        (["fit", "normal.csv", "--regression", "--scale", "logit"], 1, "identity"),
        (["evaluate", "normal.csv", "--regression", "--prediction", "mu"], 2, "part=column"),
        (["evaluate", "normal.csv", "--regression", "--prediction", "mean=mu"], 1, "no column 'mu'"),
        (["evaluate", "normal.csv", "--regression", "--level", "0.9"], 1, "a level is for intervals"),
        (["evaluate", "normal.csv", "--regression", "--levels", "a"], 2, "numbers separated by commas"),
        (["evaluate", "normal.csv", "--regression", "--measure", "ece"], 1, "--measure"),
        (["evaluate", "normal.csv", "--regression", "--fail-above", "ece=1"], 2, "measure is not requested"),
    ],
)
def test_invalid_options_and_files_are_refused(
    run: Run, normal: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(normal.parent)
    assert message in " ".join(error_of(run(*arguments), code).replace("│", " ").split())


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.kind is not None])
def test_an_option_of_a_file_for_the_other_kind_of_predictions_is_refused(name: str) -> None:
    option = OPTIONS[name]
    choice = True if option.type is bool else "stated"
    with pytest.raises(BadParameter) as caught:
        check_alone(regression=option.kind == "classes", columns={name: choice})
    assert caught.value.param_hint == option.flag
    check_alone(regression=option.kind == "classes", columns={name: option.default})


def _ordered(path: Path, *, pending: int = 6) -> Path:
    """The rows with the times at which they were made and known; the last outcomes are missing."""
    origin = np.datetime64("2026-01-01") + ROWS["day"]
    known = (origin + 1).astype("U10")
    observed = ROWS["y"].astype("U12")
    known[-pending:] = observed[-pending:] = ""
    return _write(path, ROWS | {"y": observed, "made": origin.astype("U10"), "known": known})


ORDER = ["--half-life", 7, "--time", "made", "--known", "known", "--label", "y"]


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_forecasts_are_recalibrated_in_the_order_of_time(run: Run, tmp_path: Path, suffix: str) -> None:
    file, output = _ordered(tmp_path / "ordered.csv"), tmp_path / f"out.{suffix}"
    more = ["--by", "horizon", "--option", "widen=1", "--support=-1000,"]
    assert "recalibrated 396 of 400 rows" in notes_of(run("calibrate", file, *ORDER, *more, "--out", output))
    origin, known = ROWS["day"].astype(float), ROWS["day"] + 1.0
    known[-6:] = np.nan
    wanted = calibrant.recalibrate_in_order(
        ROWS["y"],
        origin,
        known,
        half_life=7.0,
        horizon=ROWS["horizon"],
        widen=1.0,
        mean=ROWS["mean"],
        std=ROWS["std"],
    ).forecasts
    if suffix == "npz":
        with np.load(output) as arrays:
            np.testing.assert_allclose(arrays["variance"], wanted.variance, rtol=1e-12)
        return
    table = pd.read_csv(output)
    assert table.columns[-2:].tolist() == ["calibrated_mean", "calibrated_std"]
    np.testing.assert_allclose(table["calibrated_mean"], wanted.mean, rtol=1e-12)
    assert table["y"].isna().sum() == 6


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([*ORDER, "--map", "map.json"], 2, "cannot be combined with --map"),
        (ORDER[:4], 2, "--known"),
        (["--half-life", 7, "--known", "known"], 2, "--time"),
        (["--known", "known", "--map", "map.json"], 2, "needs --half-life"),
        (["--label", "y", "--map", "map.json"], 2, "needs --half-life"),
        ([], 2, "--half-life"),
        ([*ORDER, "--option", "speed=1"], 2, "must be shift, widen or narrow"),
        ([*ORDER, "--option", "shift=2"], 1, "the shift: must be a number from 0 to 1"),
        ([*ORDER, "--scale", "log1p"], 1, "--scale: must be identity"),
        ([*ORDER, "--scale", "logit"], 1, "--scale: must be one of"),
        ([*ORDER, "--support", "2,1"], 1, "support"),
        ([*ORDER, "--by", "site"], 1, "the horizon: must be numbers"),
        (["--half-life", 0, *ORDER[2:]], 1, "--half-life: must be a finite number above 0"),
        (["--half-life", 7, "--time", "made", "--known", "nope"], 1, "no column 'nope'"),
        (
            ["--half-life", 7, "--time", "known", "--known", "made", "--label", "y"],
            1,
            "missing in 6 rows of column",
        ),
    ],
)
def test_invalid_files_in_the_order_of_time_are_refused(
    run: Run, tmp_path: Path, arguments: list[object], code: int, message: str
) -> None:
    error = error_of(run("calibrate", _ordered(tmp_path / "ordered.csv"), *arguments), code)
    assert message in " ".join(error.replace("│", " ").split())


def test_a_map_of_the_other_kind_is_refused(run: Run, normal: Path, csv: Path, tmp_path: Path) -> None:
    assert run("fit", csv, "--method", "platt", "--out", tmp_path / "platt.json").exit_code == 0
    refused = run("evaluate", normal, "--regression", "--map", tmp_path / "platt.json")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (
        1,
        "calibrant: the map is one of class probabilities; omit --regression",
    )
    assert (
        run("fit", normal, "--regression", "--method", "variance-scaling", "--out", tmp_path / "v.json").exit_code == 0
    )
    assert "load_distribution" in error_of(run("evaluate", csv, "--map", tmp_path / "v.json"), 1)


def test_diagrams_are_drawn(run: Run, normal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("diagram", normal, "--regression").stderr.splitlines()[-1] == "calibrant: wrote coverage.svg"
    assert "coverage of 90 % intervals" in Path("coverage.svg").read_text("utf-8")
    assert run("fit", normal, "--regression", "--method", "variance-scaling", "--out", "map.json").exit_code == 0
    succeeds(run("diagram", normal, "--regression", "--diagram", "pit", "--map", "map.json", "--out", "pit.png"))
    assert Path("pit.png").read_bytes().startswith(b"\x89PNG")
    refused = run("diagram", normal, "--regression", "--diagram", "fan", "--time", "day")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (
        1,
        "calibrant: no diagram: times are not distinct: choose the rows of one series",
    )
    assert run("diagram", normal, "--regression", "--diagram", "reliability").exit_code == 1
    assert run("diagram", normal, "--time", "day").exit_code == 2


def test_a_report_has_its_command_and_python_that_repeats_it(
    run: Run, quantiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    succeeds(run("report", quantiles.name, "--regression", "--cluster", "day", "--by", "horizon", "--out", "page.html"))
    page = unescape(Path("page.html").read_text("utf-8"))
    assert "90 % intervals contain" in page
    command = re.search(r"<pre><code>calibrant (report [^<]*?)\s*</code>", page)
    assert command is not None
    assert run(*shlex.split(command[1])).exit_code == 0
    names: dict[str, object] = {}
    for block in re.findall(r"<pre><code>(from pathlib.*?)</code></pre>", page, re.DOTALL):
        exec(compile(block, "report.py", "exec"), names)
    assert isinstance(names["fitted"], calibrant.DistributionMap)
    assert isinstance(names["report"], calibrant.DistributionReport)


def test_a_report_of_a_map_shows_how_to_apply_it(
    run: Run, quantiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("fit", quantiles.name, "--regression", "--by", "horizon", "--out", "map.json").exit_code == 0
    succeeds(run("report", quantiles.name, "--regression", "--by", "horizon", "--map", "map.json"))
    page = unescape(Path("report.html").read_text("utf-8"))
    names: dict[str, object] = {}
    for block in re.findall(r"<pre><code>(from pathlib.*?)</code></pre>", page, re.DOTALL):
        exec(compile(block, "report.py", "exec"), names)
    assert "after" in names
    assert run("report", quantiles.name, "--support", "0,").exit_code == 2


@pytest.mark.parametrize("names", [("mean", "std"), ("q0.05", "q0.95"), ("lower", "upper"), ("sample_1", "sample_2")])
@pytest.mark.parametrize("command", [["evaluate"], ["fit", "--out", "map.json"]])
def test_forecasts_without_the_option_are_recognised(
    run: Run, tmp_path: Path, names: tuple[str, str], command: list[str]
) -> None:
    path = _write(tmp_path / "f.csv", {"y": ROWS["y"], names[0]: ROWS["mean"], names[1]: ROWS["mean"] + ROWS["std"]})
    assert error_of(run(*command, path), 1).endswith("; for forecasts of a number, add --regression\n")


def test_other_files_are_not_taken_for_forecasts(run: Run, tmp_path: Path) -> None:
    path = _write(tmp_path / "f.csv", {"age": ROWS["y"], "mean": ROWS["mean"], "q5": ROWS["std"]})
    assert "--regression" not in run("evaluate", path).stderr


def test_a_misspelt_column_of_a_part_is_suggested_as_that_part(run: Run, normal: Path) -> None:
    completed = run("evaluate", normal, "--regression", "--prediction", "mean=maen", "--prediction", "std=std")
    assert completed.stderr.endswith("did you mean --prediction mean=mean?\n")


def test_calibrate_needs_no_option_for_forecasts(run: Run, normal: Path) -> None:
    error = error_of(run("calibrate", normal, "--regression", "--map", "map.json"), 2)
    assert "the map has the kind of its predictions" in " ".join(error.replace("│", " ").split())


@pytest.mark.parametrize(
    ("names", "wildcard"),
    [
        ([str(i) for i in range(50)], "[0-9]*"),
        ([f"m{i:02}" for i in range(1, 9)], "m[0-9]*"),
        ([f"x[{i}" for i in range(6)], "x[[]*"),
    ],
)
def test_the_command_for_an_ensemble_runs(run: Run, tmp_path: Path, names: list[str], wildcard: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, len(names))), columns=names)
    path = tmp_path / "an ensemble.csv"
    frame.assign(y=rng.normal(size=40), min=0.0, model=1.5).to_csv(path, index=False)
    error = error_of(run("evaluate", path, "--regression", "--measure", "crps"), 2)
    message, command = error.splitlines()
    assert f"name them as samples={wildcard}:" in message
    assert command.endswith(f" --prediction 'samples={wildcard}'")
    printed = output_of(run(*shlex.split(command)[1:]))
    samples = frame.to_numpy()
    expected = calibrant.evaluate_distribution(pd.read_csv(path)["y"], samples=samples, measures=["crps"])
    assert f"{expected['crps'].value:.4f}" in printed


def test_numbered_columns_that_are_no_ensemble_are_not_offered(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "years.csv", "y,2020,2021,2022,2023,2024\n1,1,2,3,4,5\n")
    refused = run("evaluate", path, "--regression")
    assert (refused.exit_code, "ensemble" in refused.stderr) == (1, False)


def test_levels_that_are_missing_are_named_as_options(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "ends.csv", "y,lower,upper\n1,0,2\n2,1,3\n")
    assert run("evaluate", path, "--regression").stderr.endswith("set it, such as 0.9 (--level 0.9)\n")
    path.write_text('y,quantiles\n1,"[0, 1, 2]"\n2,"[1, 2, 3]"\n', encoding="utf-8")
    assert run("evaluate", path, "--regression").stderr.endswith("0.5 and 0.95 (--levels 0.05,0.5,0.95)\n")
    assert run("evaluate", path, "--regression", "--levels", "0.05,0.5,0.95").exit_code == 0


def test_long_files_of_quantiles_and_samples_are_pivoted(run: Run, tmp_path: Path) -> None:
    path = file_of(tmp_path / "long.csv", "id,quantile,value\n1,0.1,1\n1,0.9,2\n")
    output = run("evaluate", path, "--regression").stderr
    assert "frame.pivot(index=..., columns='quantile', values=...).reset_index()" in output
