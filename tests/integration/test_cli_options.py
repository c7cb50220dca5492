"""Every option of a command takes effect or is refused, in this process and with a server, which answers the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer
from typer.testing import Result

from benchmarks.pages.commands import all_commands
from calibrant.cli.main import app
from calibrant.client import Calibrant
from calibrant.io.options import OPTIONS
from service.stack import Stack
from tests.commands import invoked

N = 90
RANDOM = np.random.default_rng(12)
P = RANDOM.uniform(0.05, 0.95, N).round(3)
SITE = np.where(RANDOM.uniform(size=N) < 0.5, "north", "south")
Y = (RANDOM.uniform(size=N) < np.where(SITE == "north", P**4.0, P**0.25)).astype(int)
Q = np.clip(P + RANDOM.normal(0.0, 0.15, N), 0.02, 0.98).round(3)
MEAN = RANDOM.normal(5.0, 1.0, N).round(3)
OUTCOME = np.abs(RANDOM.normal(MEAN, 1.5)).round(3)

#: Options of a file that change what is read from it, in one reader for both; the others are passed on with the rows.
OF_THE_READER = {
    *("predictions", "labels", "drop_missing", "mapping", "pos_label", "decimal", "encoding"),
    *("ids", "labels_from", "inner", "categorical", "levels", "level"),
}
#: Options that say where, or in what form, the result is written.
OF_THE_OUTPUT = {"--json", "--out", "--server", "--help"}
EVENT = "{rows} --prediction p --label y"
#: What is passed on with the rows of an event: an option, and after | what it is added to.
OF_ROWS = {
    "--weight": "--weight w",
    "--weights-kind": "--weights-kind frequency | --weight n",
    "--scale": "--scale logit",
    "--class-names": "--class-names 1,0",
    "--reduction": "--reduction confidence",
    "--group": "--group site",
    "--cluster": "--cluster patient --interval 0.8",
    "--feature": "--feature age",
    "--time": "--time day",
    "--by": "--by age",
    "--known": "--known day",
    "--where": "--where site=north",
    "--regression": "--regression",
}
OF_FORECASTS = {
    **{flag: option for flag, option in OF_ROWS.items() if flag != "--regression"},
    "--cluster": "--cluster patient | --interval 0.8",
    "--scale": "--scale log1p",
    "--by": "--by h",
}


class Case(NamedTuple):
    """A command that succeeds, and its options: each is added to it, with what follows | if the option needs that."""

    words: str
    options: Mapping[str, str]


_RESAMPLED = "--measure ks --interval 0.8"
CASES: Mapping[str, Case] = {
    "evaluate": Case(
        f"evaluate {EVENT} --measure ece",
        {
            **OF_ROWS,
            "--measure": "--measure ks",
            "--interval": "--interval 0.8",
            "--resamples": f"--resamples 200 | {_RESAMPLED}",
            "--seed": f"--seed 5 | {_RESAMPLED}",
            "--cluster-variance": "--cluster-variance cr0 | --measure brier --interval 0.8 --cluster patient",
            "--map": "--map {platt}",
            "--against": "--against {forecasts}",
            "--score": "--score crps",
            "--lags": "--lags 2",
            "--fail-above": "--fail-above ece=0.0001",
            "--fail-by": "--fail-by upper | --fail-above ece=0.24 --interval 0.8",
        },
    ),
    "evaluate --regression": Case(
        "evaluate {forecasts} --regression --label y --measure crps",
        {
            **OF_FORECASTS,
            "--measure": "--measure rmse",
            "--interval": "--interval 0.8",
            "--resamples": "--resamples 200",
            "--seed": "--seed 5",
            "--cluster-variance": "--cluster-variance cr0 | --cluster patient",
            "--map": "--map {scaling}",
            "--against": "--against {others}",
            "--score": "--score squared-error | --against {others}",
            "--lags": "--lags 2 | --against {others}",
            "--by": "--by h",
            "--fail-above": "--fail-above crps=0.0001",
            "--fail-by": "--fail-by upper | --fail-above crps=0.8 --interval 0.8",
        },
    ),
    "compare": Case(
        "compare {rows} --prediction p --prediction q --label y --measure ece",
        {
            **OF_ROWS,
            "--cluster": "--cluster patient",
            "--measure": "--measure ks",
            "--rank-by": "--rank-by brier",
            "--correction": "--correction max-t",
            "--interval": "--interval 0.8",
            "--resamples": "--resamples 200",
            "--seed": "--seed 5",
            "--cluster-variance": "--cluster-variance cr0 | --cluster patient",
            "--map": "--map {platt}",
        },
    ),
    "compare --map": Case(
        f"compare {EVENT} --map {{platt}} --map {{isotonic}} --measure ece",
        {
            **OF_ROWS,
            "--cluster": "--cluster patient",
            "--feature": "--feature age",
            "--measure": "--measure ks",
            "--rank-by": "--rank-by brier",
            "--correction": "--correction holm",
            "--interval": "--interval 0.8",
            "--resamples": "--resamples 200",
            "--seed": "--seed 5",
            "--cluster-variance": "--cluster-variance cr0 | --cluster patient --measure brier",
            "--map": "--map {venn}",
        },
    ),
    "fit": Case(
        f"fit {EVENT} --method histogram",
        {
            **OF_ROWS,
            "--method": "--method platt",
            "--option": "--option n_bins=4",
            "--seed": "--seed 5 | --holdout 0.3",
            "--holdout": "--holdout 0.3",
            "--support": "--support 0,",
            "--reduction": "--reduction confidence",
            "--cluster": "--cluster patient | --method spline",
            "--feature": "--feature site | --method segments --feature age",
        },
    ),
    "fit --method lac": Case(
        f"fit {EVENT} --method lac --option conditional=group --group site", {"--group": "--group other"}
    ),
    "fit --regression": Case(
        "fit {forecasts} --regression --label y --method std-isotonic",
        {
            **OF_FORECASTS,
            "--cluster": "--cluster patient",
            "--method": "--method variance-scaling",
            "--option": "--option shape=pl | --method variance-platt",
            "--seed": "--seed 5 | --holdout 0.3",
            "--holdout": "--holdout 0.3",
            "--support": "--support 0, | --method quantile-recalibration",
            "--scale": "--scale log1p | --method quantile-recalibration",
        },
    ),
    "calibrate": Case(
        "calibrate {rows} --prediction p --map {platt}",
        {
            **{flag: OF_ROWS[flag] for flag in ("--scale", "--group", "--time", "--by", "--known", "--where")},
            "--map": "--map {isotonic}",
            "--half-life": "--half-life 5",
            "--support": "--support 0,",
            "--option": "--option widen=1",
            "--seed": "--seed 5",
            "--bounds": "--bounds",
            "--alpha": "--alpha 0.2",
        },
    ),
    "calibrate --bounds": Case("calibrate {rows} --prediction p --map {venn}", {"--bounds": "--bounds"}),
    "calibrate sets": Case(
        "calibrate {rows} --prediction p --map {sets} --seed 3",
        {"--alpha": "--alpha 0.4", "--seed": "--seed 5", "--scale": "--scale logit"},
    ),
    "calibrate sets by group": Case(
        "calibrate {rows} --prediction p --map {grouped} --group site", {"--group": "--group other"}
    ),
    "calibrate forecasts": Case("calibrate {forecasts} --map {by} --by h", {"--by": "--by other"}),
    "calibrate --half-life": Case(
        "calibrate {forecasts} --half-life 5 --time t --known k --label y",
        {
            "--half-life": "--half-life 9",
            "--support": "--support 4,6",
            "--option": "--option shift=0.1",
            "--scale": "--scale log1p",
            "--by": "--by h",
            "--seed": "--seed 5",
            "--group": "--group site",
        },
    ),
    "decide": Case(
        f"decide {EVENT} --thresholds 0.2,0.5",
        {
            **OF_ROWS,
            "--cluster": "--cluster patient",
            "--costs": "--costs 1,5",
            "--capacity": "--capacity 0.2",
            "--precision": "--precision 0.5",
            "--recall": "--recall 0.7",
            "--thresholds": "--thresholds 0.3",
            "--interval": "--interval 0.8",
        },
    ),
    "decide --costs": Case(
        f"decide {EVENT} --costs 1,5",
        {
            **OF_ROWS,
            "--cluster": "--cluster patient",
            "--interval": "--interval 0.8",
            "--seed": "--seed 5",
            "--thresholds": "--thresholds 0.2",
        },
    ),
    "grades": Case(
        f"grades {EVENT} --group site",
        {
            **OF_ROWS,
            "--group": "--group other",
            "--weight": "--weight n --weights-kind frequency",
            "--weights-kind": "--weights-kind importance | --weight n --weights-kind frequency",
            "--count": "--count n",
            "--correlation": "--correlation 0.1",
            "--confidence": "--confidence 0.75",
        },
    ),
    "coverage": Case(
        "coverage {rows} --prediction s0 --prediction s1 --label y",
        {**OF_ROWS, "--alpha": "--alpha 0.1", "--interval": "--interval 0.8"},
    ),
    "segments": Case(
        f"segments {EVENT} --feature age --feature site --min-rows 10 --confidence 0.01",
        {
            **OF_ROWS,
            "--feature": "--feature site",
            "--max-order": "--max-order 1",
            "--n-bins": "--n-bins 4",
            "--min-rows": "--min-rows 30",
            "--n-segments": "--n-segments 1",
            "--confidence": "--confidence 0.9",
            "--held-out": "--held-out 0.5",
            "--multicalibration": "--multicalibration",
            "--seed": "--seed 5 | --held-out 0.5",
        },
    ),
    "recommend": Case(
        f"recommend {EVENT}", {**OF_ROWS, "--cluster": "--cluster patient", "--seed": "--seed 5"}
    ),
    "diagram": Case(
        f"diagram {EVENT} --out -",
        {
            **OF_ROWS,
            "--diagram": "--diagram corp",
            "--interval": "--interval 0.8",
            "--seed": "--seed 5",
            "--map": "--map {platt}",
            "--theme": "--theme dark",
            "--width": "--width 400",
        },
    ),
    "diagram --regression": Case(
        "diagram {forecasts} --regression --label y --out -",
        {
            **OF_FORECASTS,
            "--diagram": "--diagram pit",
            "--seed": "--seed 5",
            "--map": "--map {scaling}",
            "--theme": "--theme dark",
            "--width": "--width 400",
            "--interval": "--interval 0.8",
            "--time": "--time k | --diagram fan",
        },
    ),
    "report": Case(
        f"report {EVENT} --out -",
        {
            **OF_ROWS,
            "--seed": "--seed 5",
            "--map": "--map {platt}",
            "--sets": "--sets {sets}",
            "--grades": "--grades | --group site",
            "--costs": "--costs 1,5",
            "--capacity": "--capacity 0.2",
            "--precision": "--precision 0.5",
            "--recall": "--recall 0.7",
            "--support": "--support 0,",
        },
    ),
}  # fmt: skip

#: Options without an effect in a process of its own: what they change is stored on a server.
OF_A_SERVER = {"fit": {"--name": "--name some-name", "--allow-shape-change": "--allow-shape-change"}}
#: Outputs that are not the same with a server, and why.
UNEQUAL = {
    "report": "has its command line",
    "diagram --regression": "has the name of the file, which a server does not know",
}
#: Options that change nothing here, and why.
WITHOUT_EFFECT = {
    ("recommend", "--seed"): "only more than 20,000 rows are sampled",
    **dict.fromkeys(
        (("evaluate --regression", "--seed"), ("diagram --regression", "--seed")),
        "draws only what conformal maps of intervals with ties exclude",
    ),
    ("calibrate --half-life", "--support"): "clips quantiles, and these are normal distributions",
    **dict.fromkeys(
        (("decide", "--reduction"), ("decide --costs", "--reduction"), ("segments", "--reduction")),
        "one column is the probability of the event, whatever its name",
    ),
}


def _table(columns: Mapping[str, Any]) -> str:
    """Columns as CSV; booleans are 0 and 1."""
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    return "\n".join(
        [",".join(columns), *(",".join(str(int(x) if x in (True, False) else x) for x in row) for row in rows), ""]
    )


@pytest.fixture(scope="module")
def names(service: Stack, tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What commands have for the names in braces, without and with the server: files, and files or names of maps."""
    folder = tmp_path_factory.mktemp("options")
    columns = {
        "y": Y, "p": P, "q": Q, "w": RANDOM.uniform(0.5, 2.0, N).round(2), "n": RANDOM.integers(1, 4, N),
        "site": SITE, "other": np.roll(SITE, 7), "patient": np.arange(N) // 3, "age": RANDOM.integers(20, 80, N),
        "day": [f"2026-01-{1 + i // 9:02d}" for i in range(N)], "s0": P < 0.7, "s1": P > 0.3,
    }  # fmt: skip
    std = RANDOM.uniform(0.8, 2.0, N).round(3)
    of_forecasts = {
        "y": OUTCOME, "mean": MEAN, "std": std, "h": 1 + np.arange(N) % 3, "other": 1 + np.arange(N) % 2,
        "t": np.arange(N), "k": np.arange(N) + 1,
        **{name: columns[name] for name in ("w", "n", "site", "patient", "age", "day")},
    }  # fmt: skip
    tables = {"rows": columns, "forecasts": of_forecasts, "others": of_forecasts | {"std": np.full(N, 2.0)}}
    here = {name: str(folder / f"{name}.csv") for name in tables}
    for name, table in tables.items():
        Path(here[name]).write_text(_table(table))
    there = dict(here)
    normal: dict[str, Any] = {"mean": MEAN, "std": std}
    with Calibrant(service.url) as client:
        random_sets = {"alpha": 0.2, "randomised": True, "adjustable": True}
        maps = {
            "platt": client.fit("platt", P, Y),
            "isotonic": client.fit("isotonic", P, Y),
            "venn": client.fit("venn-abers", P, Y),
            "sets": client.fit("aps", P, Y, options=random_sets),
            "grouped": client.fit("lac", P, Y, options={"alpha": 0.2, "conditional": "group"}, groups=SITE),
            "scaling": client.fit_distribution("variance-scaling", OUTCOME, **normal),
            "by": client.fit_distribution("location-scale", OUTCOME, **normal, by=[str(1 + i % 3) for i in range(N)]),
        }
        for name, fitted in maps.items():  # comparisons have the names of files and of stored maps
            there[name], path = fitted.id, folder / f"{fitted.id}.json"
            here[name] = str(path)
            path.write_text(json.dumps(client.export_map(fitted.id)))
    return here, there


class Outcome(NamedTuple):
    """What a command did, and whether it was refused."""

    code: int
    output: bytes
    message: str

    @property
    def is_refused(self) -> bool:
        return self.code in (1, 2)


def _outcome(server: str | None, words: str, names: Mapping[str, object]) -> Outcome:
    result: Result = invoked(server, *(word.format_map(names) for word in shlex.split(words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), words
    return Outcome(result.exit_code, result.stdout_bytes, result.stderr)


def _comparable(output: bytes) -> Any:
    """What a command printed: a document without the ids of maps and what is null, or text."""
    return _without_ids(json.loads(output)) if output.startswith(b"{") else output


def _without_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ids(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_ids(part) for name, part in value.items() if name != "map" and part is not None}


COMMANDS = dict(all_commands(typer.main.get_command(app)))


def _flags_of(words: str) -> set[str]:
    """The options of the command that begins with these words."""
    command = COMMANDS[f"calibrant {words.split()[0]}"]
    return {flag for option in command.params for flag in option.opts if flag.startswith("--")}


OPTION_CASES = [
    (case, flag) for case, (words, options) in CASES.items() for flag in options if flag in _flags_of(words)
]


def _with(words: str, added: str) -> str:
    """A command with options in place of those of the same names."""
    flags = {word for word in shlex.split(added) if word.startswith("--")}
    left: list[str] = []
    is_replaced = False
    for word in shlex.split(words):
        is_replaced = word in flags if word.startswith("--") else is_replaced
        if not is_replaced:
            left.append(word)
    return shlex.join([*left, *shlex.split(added)])


def test_every_option_of_a_command_with_and_without_a_server_has_a_case() -> None:
    of_reader = {OPTIONS[name].flag for name in OF_THE_READER}
    for name, command in COMMANDS.items():
        flags = {flag: option for option in command.params for flag in option.opts if flag.startswith("--")}
        if "--server" not in flags or flags["--server"].help.endswith(
            "(required); CALIBRANT_API_KEY holds the API key."
        ):
            continue
        word = name.removeprefix("calibrant ")
        tested = {flag for case, (words, options) in CASES.items() if words.split()[0] == word for flag in options}
        tested |= OF_A_SERVER.get(word, {}).keys()
        assert flags.keys() - tested - of_reader - OF_THE_OUTPUT == set(), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*logits are in")
@pytest.mark.parametrize(("case", "flag"), OPTION_CASES)
def test_an_option_takes_effect_or_is_refused_with_and_without_a_server(
    service: Stack, names: tuple[Mapping[str, str], Mapping[str, str]], case: str, flag: str
) -> None:
    words, options = CASES[case]
    option, _, needed = options[flag].partition(" | ")
    words = f"{_with(words, needed)}{' --json' if '--json' in _flags_of(words) else ''}"
    outcomes = []
    for server, words_of in zip((None, service.url), names, strict=True):
        before, after = _outcome(server, words, words_of), _outcome(server, _with(words, option), words_of)
        assert not before.is_refused, before.message
        if (case, flag) not in WITHOUT_EFFECT:
            assert after.is_refused or (before.code, before.output) != (after.code, after.output)
        outcomes.append(after)
    here, there = outcomes
    assert here.code == there.code, (here.message, there.message)
    if not here.is_refused and case not in UNEQUAL:
        assert _comparable(here.output) == _comparable(there.output)


@pytest.mark.parametrize(("command", "flag"), [(name, flag) for name, flags in OF_A_SERVER.items() for flag in flags])
def test_an_option_about_what_a_server_stores_is_refused_without_one(
    names: tuple[Mapping[str, str], Mapping[str, str]], command: str, flag: str
) -> None:
    refused = _outcome(None, f"{CASES[command].words} {OF_A_SERVER[command][flag]}", names[0])
    assert (refused.code, "--server" in refused.message) == (2, True), refused.message
