"""The commands about monitors, against the whole service."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from calibrant.client import Calibrant
from service.stack import Stack
from tests.commands import invoked
from tests.integration.redis_server import until

Run = Callable[..., Result]
NUMBERS = np.random.default_rng(4)
P = np.round(NUMBERS.uniform(size=400), 4)
Y = (NUMBERS.uniform(size=400) < P).astype(int)


@pytest.fixture
def run(service: Stack) -> Run:
    def run(*arguments: str | Path) -> Result:
        words = ["monitors", *map(str, arguments), "--server", service.url]
        return invoked(None, *words)

    return run


@pytest.fixture
def monitor(run: Run) -> Iterator[str]:
    created = run(
        "create", "cli", "--window", "day=24h", "--window", "last=1000", "--measure", "ece", "--measure", "ks"
    )
    assert (created.exit_code, created.stdout) == (0, "cli\n"), created.stderr
    yield "cli"
    assert run("delete", "cli").exit_code == 0


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Predictions and labels in a file each, the latter in another order and one of them unknown."""
    predicted = [f"mail {i},{P[i]},{'a' if i % 2 else 'b'},2026-01-01T00:00:00Z" for i in range(400)]
    (tmp_path / "predicted.csv").write_text("\n".join(["id,p,site,at", *predicted, ""]))
    known = [f"mail {i},{'spam' if Y[i] else 'ham'}" for i in reversed(range(400))]
    (tmp_path / "known.csv").write_text("\n".join(["id,is", *known, "mail 400,spam", ""]))
    rows = [f"{P[i]},{Y[i]}" for i in range(400)]
    (tmp_path / "rows.csv").write_text("\n".join(["p,label", *rows, ""]))
    return tmp_path


def test_predictions_are_sent_now_and_labels_later_and_shown(run: Run, monitor: str, files: Path) -> None:
    sent = run("send", monitor, files / "predicted.csv", "--what", "predictions", "--id", "id", "--group", "site")
    assert (sent.exit_code, sent.stdout) == (0, "400 accepted\n"), sent.stderr
    mapped = ["--map-label", "ham=0", "--map-label", "spam=1"]
    labels = ["send", monitor, files / "known.csv", "--what", "labels", "--id", "id", "--label", "is", *mapped]
    assert run(*labels).stdout == "401 accepted, 400 joined, 1 waiting\n"
    assert run(*labels).stdout == "401 duplicates\n"
    shown = run("show", monitor).stdout
    assert [line.split() for line in shown.splitlines() if line.startswith(("joined", "waiting"))] == [
        ["joined", "400"],
        ["waiting", "1"],
    ]
    (day,) = [line for line in shown.splitlines() if line.startswith("day ")]
    assert day.split()[1:4] == ["400", "100.0", "%"]
    reading = json.loads(run("show", monitor, "--json").stdout)
    assert reading["windows"][0]["groups"].keys() == {"a", "b"}
    assert f"{reading['windows'][0]['measures']['ece']['value']:.4f}" in day


def test_times_without_an_offset_are_read_as_utc_without_a_note(run: Run, monitor: str, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    for name, text in (("naive", now.replace(tzinfo=None).isoformat()), ("aware", now.isoformat())):
        (tmp_path / f"{name}.csv").write_text(f"p,label,at\n0.5,1,{text}\n")
        sent = run("send", monitor, tmp_path / f"{name}.csv", "--time", "at")
        assert (sent.exit_code, sent.stdout) == (0, "1 accepted, 1 joined\n")
        assert ("column 'at' has times without an offset" in sent.stderr) == (name == "naive")


def test_an_error_names_no_option_that_a_command_does_not_have(run: Run, monitor: str) -> None:
    assert run("create", monitor).stderr == "calibrant: the name: there is already a monitor with this name\n"
    assert run("create", "other", "--measure", "eec").stderr.startswith("calibrant: --measure: is unknown; did you")


def test_a_command_says_that_weights_are_not_sent(run: Run, monitor: str, tmp_path: Path) -> None:
    rows = [f"{P[i]},{Y[i]},{1 + i % 3}" for i in range(400)]
    (tmp_path / "weighted.csv").write_text("\n".join(["p,label,w", *rows, ""]))
    sent = run("send", monitor, tmp_path / "weighted.csv")
    assert (sent.exit_code, sent.stdout) == (0, "400 accepted, 400 joined\n")
    assert "weights: not sent, because monitors count each row once" in sent.stderr


@pytest.mark.slow
def test_a_window_is_shown_with_estimates_from_weighted_rows(
    service: Stack, run: Run, monitor: str, files: Path
) -> None:
    run("send", monitor, files / "predicted.csv", "--what", "predictions", "--id", "id", "--group", "site")
    with Calibrant(service.url) as client:
        p = [(i + 0.5) / 300 for i in range(300)]
        batch = client.upload(p, [int(x > 0.4) for x in p], weights=p, weights_kind="importance").id
        read = client.monitor(monitor, windows=["day"], reference=batch).windows[0].estimates
    assert read is not None
    assert (read.status, read.reference) == ("estimated", batch)
    assert read.effective == pytest.approx(sum(p) ** 2 / sum(x * x for x in p))
    shown = run("show", monitor, "--window", "day", "--reference", batch)
    assert "estimates of day" in shown.stdout, shown.stderr
    refused = run("show", monitor, "--reference", "batch_0", "--window", "day")
    assert refused.exit_code == 1
    assert "batch" in refused.stderr


def test_labelled_rows_are_sent_and_refused_rows_are_printed(run: Run, monitor: str, files: Path) -> None:
    assert run("send", monitor, files / "rows.csv").stdout == "400 accepted, 400 joined\n"
    old = run("send", monitor, files / "predicted.csv", "--what", "predictions", "--id", "id", "--time", "at")
    assert (old.exit_code, old.stdout) in ((0, "400 accepted\n"), (1, "400 refused\n"))
    (files / "labels.csv").write_text("id,y\na,1\nb,7\n")
    refused = run("send", monitor, files / "labels.csv", "--what", "labels", "--id", "id", "--label", "y")
    assert refused.exit_code == 1
    assert "row 2: " in refused.stderr


def test_a_german_file_is_sent_with_the_options_that_errors_offer(run: Run, monitor: str, files: Path) -> None:
    rows = [f"ä{i};{str(P[i]).replace('.', ',')};{'krank' if Y[i] else 'gesund'}" for i in range(400)]
    (files / "german.csv").write_bytes("\n".join(["id;p;label", *rows, ""]).encode("cp1252"))
    words: list[str | Path] = ["send", monitor, files / "german.csv", "--id", "id"]
    for offered in (["--decimal", ","], ["--map-label", "gesund=0", "--map-label", "krank=1"]):
        assert " ".join(offered) in run(*words).stderr
        words += offered
    refused = run(*words)
    assert refused.stderr.splitlines()[-1].endswith(" --encoding cp1252")
    sent = run(*words, "--encoding", "cp1252")
    assert (sent.exit_code, sent.stdout) == (0, "400 accepted, 400 joined\n"), sent.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--what", "labels", "--label", "is"], 2, "--id"),
        (["--what", "verdicts"], 2, "rows, predictions or labels"),
        (["--what", "labels", "--id", "key", "--label", "is"], 1, "no column 'key'; it has 'id', 'is'"),
        (["--what", "labels", "--id", "id", "--label", "is"], 1, "row 1 is not a class; map it with --map-label"),
        (["--what", "labels", "--id", "id"], 1, "--what labels needs --label"),
    ],
)
def test_a_file_that_cannot_be_sent_prints_one_line(
    run: Run, files: Path, words: list[str], code: int, message: str
) -> None:
    refused = run("send", "any", files / "known.csv", *words)
    assert refused.exit_code == code
    assert message in " ".join(refused.stderr.split())


def test_a_definition_of_a_file_is_taken_whole_and_flags_come_first(run: Run, tmp_path: Path) -> None:
    definition = {
        "name": "ignored",
        "horizon": 7200,
        "measures": ["ks"],
        "windows": [{"name": "week", "seconds": 604800}],
    }
    (tmp_path / "monitor.json").write_text(json.dumps(definition))
    created = run("create", "defined", "--definition", tmp_path / "monitor.json", "--measure", "brier", "--json")
    assert created.exit_code == 0, created.stderr
    record = json.loads(created.stdout)
    assert (record["name"], record["horizon"], record["measures"]) == ("defined", 7200, ["brier"])
    listed = run("list").stdout
    assert "brier" in next(line for line in listed.splitlines() if line.startswith("defined"))
    assert run("delete", "defined").exit_code == 0
    gone = run("show", "defined")
    assert (gone.exit_code, "there is no monitor with this name" in gone.stderr) == (1, True)
    assert run("create", "x", "--window", "day").exit_code == 2


@pytest.mark.slow
def test_an_alarm_is_watched_as_it_comes_and_shown(service: Stack, run: Run, monitor: str) -> None:
    assert run("alarms", monitor).exit_code == 0
    command = [
        sys.executable,
        "-m",
        "calibrant",
        "monitors",
        "watch",
        monitor,
        "--first",
        "--json",
        "--every",
        "0.2",
    ]
    with (
        subprocess.Popen(
            [*command, "--server", service.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching,
        Calibrant(service.url) as client,
    ):
        assert watching.stdout is not None
        assert watching.stderr is not None
        try:
            assert watching.stderr.readline() == f"calibrant: watching {monitor}\n"
            client.send_rows(monitor, np.full(4000, 0.9), np.arange(4000) % 2)
            event = json.loads(watching.stdout.readline())
            assert watching.wait(timeout=600) == 4
        finally:
            watching.send_signal(signal.SIGKILL)
    assert (event["type"], event["data"]["rule"]) == ("monitor.alarm.raised", "evidence")
    shown = run("alarms", monitor)
    assert shown.exit_code == 4
    assert "alarm" in next(line for line in shown.stdout.splitlines() if line.startswith("evidence"))
    already = run("watch", monitor, "--first")
    assert (already.exit_code, already.stderr) == (4, f"calibrant: watching {monitor}; raised alarms: evidence\n")


def test_a_monitor_is_made_with_its_bucket_and_retention(run: Run) -> None:
    created = run("create", "kept", "--bucket", "600", "--retention", "86400", "--window", "hour=1h", "--json")
    assert created.exit_code == 0, created.stderr
    monitor = json.loads(created.stdout)
    assert (monitor["bucket"], monitor["retention"]) == (600, 86400)
    assert run("delete", "kept").exit_code == 0


@pytest.mark.slow
def test_show_has_the_experts_of_an_online_map_and_alarms_the_time_of_the_change(
    run: Run, service: Stack, tmp_path: Path
) -> None:
    name = f"online-{time.time_ns()}"
    file = tmp_path / "online.json"
    file.write_text(json.dumps({"recalibration": {"policy": "online", "every": 60}, "bucket": 60, "retention": 86_400}))
    window = ("--window", "hour=1h")
    created = run("create", name, "--definition", file, *window)
    assert created.exit_code == 0, created.stderr
    with Calibrant(service.url) as client:
        p = np.tile(P, 5)
        client.send_rows(name, p, np.tile(1 - Y, 5), timestamps=time.time() - 3000.0 + np.arange(2000))
        client.send_rows(name, p, np.tile(1 - Y, 5))

        def versioned_with_an_alarm() -> bool:
            reading = client.monitor(name)
            return bool(reading.online and reading.online.versions and reading.rules[0].status == "alarm")

        until(versioned_with_an_alarm)
    shown = run("show", name).stdout
    assert re.search(r"time buckets +\d\d", shown), shown
    assert re.search(r"weight of \S+ +\d+\.\d %", shown)
    alarms = run("alarms", name)
    assert alarms.exit_code == 4
    assert re.search(r"evidence: since \d+ \w+ predictions.* points too (low|high)", alarms.stdout), alarms.stdout
    assert run("delete", name).exit_code == 0
