"""The service counts sources on a cluster of Dask: two processes, some of which are killed."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.config
import httpx
import numpy as np
import pyarrow as pa
import pytest
from dask.distributed import Client, LocalCluster
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet

import calibrant
from backend.settings import check_scheduler
from calibrant.client import Calibrant
from calibrant.core.errors import EngineUnavailable, OutOfRange
from calibrant.core.progress import reporting
from calibrant.distributed.arrow import Columns
from calibrant.distributed.cluster import gather_on_cluster
from calibrant.distributed.scan import Scan
from calibrant.distributed.storage import storage_of
from calibrant.monitoring.event_tally import EventTally
from tests.integration.conftest import patient
from tests.integration.failing_workers import KilledOnce
from tests.integration.responses import problem_of
from tests.rows import draw_event
from tests.warm_service import stack

N, FILES = 40_000, 8
COLUMNS = Columns.read(prediction="score", label="outcome", group="country")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """Two processes, which other clients find by the address of their scheduler."""
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": 1}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as started,
        Client(started, set_as_default=False) as client,
    ):
        yield client


def _scheduler(cluster: Client) -> str:
    address: str = cluster.scheduler_info()["address"]
    return address


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of two countries, of which each is a part."""
    folder, (p, y) = tmp_path_factory.mktemp("root"), draw_event(N, 7, 1.3)
    for i in range(FILES):
        part = slice(i * N // FILES, (i + 1) * N // FILES)
        path = folder / f"country={('de', 'no')[i % 2]}" / f"part-{i}.parquet"
        path.parent.mkdir(exist_ok=True)
        parquet.write_table(pa.table({"score": p[part], "outcome": y[part]}), path)
    return folder


@pytest.fixture(scope="module")
def whole() -> EventTally:
    p, y = draw_event(N, 7, 1.3)
    return calibrant.tally(p, y, groups=np.tile(np.repeat(["de", "no"], N // FILES), FILES // 2))


def _gathered(root: Path, scheduler: str, patience: float = 60.0) -> Any:
    scan = Scan.of(storage_of(f"file://{root}"), "**/*.parquet")
    return gather_on_cluster(scan, {"root": f"file://{root}"}, COLUMNS, scheduler=scheduler, patience=patience)


def _check(tally: EventTally, whole: EventTally) -> None:
    assert (tally.groups, tally.reduction, len(tally)) == (whole.groups, whole.reduction, len(whole))
    assert_array_equal(tally.tally.keys, whole.tally.keys)
    assert_array_equal(tally.tally.rows, whole.tally.rows)
    assert_allclose(tally.tally.p_sum, whole.tally.p_sum, rtol=1e-12)


@pytest.mark.slow
def test_rows_on_killed_workers_are_lost_or_counted_twice(
    cluster: Client, root: Path, whole: EventTally, tmp_path: Path
) -> None:
    undisturbed = _gathered(root, _scheduler(cluster)).value
    _check(undisturbed, whole)
    plugins = [KilledOnce(tmp_path, "executing", 2), KilledOnce(tmp_path, "memory", 1)]
    for plugin in plugins:
        cluster.register_plugin(plugin)
    try:
        content = _gathered(root, _scheduler(cluster))
    finally:
        for plugin in plugins:
            cluster.unregister_worker_plugin(plugin.name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["executing-0", "executing-1", "memory-0"]
    assert (content.basis.rows, content.basis.files, content.basis.engine) == (N, FILES, "dask")
    _check(content.value, whole)
    assert_array_equal(content.value.tally.p_sum, undisturbed.tally.p_sum)


@pytest.mark.slow
def test_a_cancelled_job_leaves_its_parts_in_the_cluster(cluster: Client, root: Path) -> None:
    def cancel(done: int, _total: int, _stage: str) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), reporting(cancel):
        _gathered(root, _scheduler(cluster))

    async def is_empty(dask_scheduler: Any) -> bool:
        import asyncio

        async with asyncio.timeout(300):
            while dask_scheduler.tasks:  # until the scheduler has read that the client left
                await asyncio.sleep(0)
        return True

    assert cluster.run_on_scheduler(is_empty)


@pytest.mark.slow
def test_an_invalid_row_on_a_cluster_is_reported_without_its_file_or_with_its_value(
    cluster: Client, tmp_path: Path
) -> None:
    parquet.write_table(
        pa.table({"score": [0.5, 7.25], "outcome": [0, 1], "country": ["de", "no"]}), tmp_path / "bad.parquet"
    )
    with pytest.raises(OutOfRange, match=r"bad\.parquet, row 1: predictions") as caught:
        _gathered(tmp_path, _scheduler(cluster))
    assert "7.25" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "patience", "message"),
    [(signal.SIGKILL, 60.0, "was lost"), (signal.SIGSTOP, 10.0, "does not answer")],
)
def test_a_scheduler_that_is_killed_or_stopped_during_the_work_is_waited_for(
    root: Path, tmp_path: Path, number: signal.Signals, patience: float, message: str
) -> None:
    file = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "dask", "scheduler", "--host", "tcp://127.0.0.1", "--port", "0", "--no-dashboard"]
    with subprocess.Popen(
        [*command, "--scheduler-file", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as started:
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            address = _scheduler(client)

        def strike(_done: int, _total: int, _stage: str) -> None:
            started.send_signal(number)

        with contextlib.ExitStack() as ended, reporting(strike):
            ended.callback(started.kill)  # also if it is stopped
            with pytest.raises(EngineUnavailable, match=message):
                _gathered(root, address, patience)  # which waits, since there is no worker


def _failure(root: Path, scheduler: str) -> str:
    """The errors of a process of its own, since a client that never connected may wait for a lock when it is freed."""
    lines = ("import sys", "from pathlib import Path", f"from {__name__} import _gathered")
    code = "\n".join((*lines, "_gathered(Path(sys.argv[1]), sys.argv[2], patience=0.5)"))
    ended = subprocess.run(
        [sys.executable, "-c", code, str(root), scheduler], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    return ended.stderr


@pytest.mark.slow
def test_a_scheduler_that_accepts_connections_and_is_silent_is_waited_for(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        errors = _failure(root, f"tcp://127.0.0.1:{silent.getsockname()[1]}")
    assert "EngineUnavailable: the Dask scheduler accepts connections but does not answer" in errors


@pytest.mark.slow
def test_a_scheduler_without_certificates_fails_otherwise_than_one_that_is_away(root: Path) -> None:
    assert "EngineUnavailable: the Dask scheduler cannot be reached" in _failure(root, "tls://127.0.0.1:9")


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("", True),
        ("tls://dask.example.com:8786", True),
        ("tcp://[::1]:8786", True),
        ("http://dask:8786", False),
        ("tcp://user:secret@dask:8786", False),
        ("tcp://dask", False),
        ("inproc://10.0.0.1/1/1", False),
        ("tls://dask:8786/path", False),
    ],
)
def test_an_address_of_a_scheduler_is_checked_otherwise(text: str, accepted: bool) -> None:
    with contextlib.nullcontext() if accepted else pytest.raises(ValueError, match="HOST:PORT"):
        check_scheduler(text)


# --- Over HTTP


@pytest.fixture(scope="module")
def served(cluster: Client, root: Path, folder: Path) -> Iterator[httpx.Client]:
    """A service with a source and the cluster."""
    inherited = patient() | {
        "CALIBRANT_SOURCES": json.dumps({"scores": {"root": f"file://{root}"}}),
        "CALIBRANT_DASK_SCHEDULER": _scheduler(cluster),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / "engines.log").open("ab") as log, contextlib.ExitStack() as opened:
        running = opened.enter_context(
            stack(host="127.0.0.1", port=0, data=folder / "engines", log=log, inherited=inherited)
        )
        yield opened.enter_context(httpx.Client(base_url=running.url, timeout=600))


def _source(**changes: Any) -> dict[str, Any]:
    columns = {"predictions": "score", "labels": "outcome", "groups": "country"}
    return {"source": "scores", "path": "**/*.parquet", "columns": columns, "engine": "dask"} | changes


@pytest.mark.slow
def test_results_of_a_cluster_differ_from_those_of_a_tally(served: httpx.Client, whole: EventTally) -> None:
    options: dict[str, Any] = {"measures": ["ece", "brier", "auroc"], "interval": 0.9}
    columns = {"predictions": "score", "labels": "outcome"}
    with Calibrant(str(served.base_url), timeout=600) as client:  # which waits for jobs
        answer = client.evaluate(source=_source(), **options)
        made = client.fit("beta", source=_source(columns=columns))
        local = client.evaluate(source=_source(engine="local"), measures=["ece"])
    assert answer.basis is not None
    assert (answer.basis.engine, answer.basis.form, answer.basis.rows) == ("dask", "tally", N)
    report = calibrant.evaluate_tally(whole, **options)
    for key, result in report.measures.items():
        assert answer.measures[key].value == pytest.approx(result.value, rel=1e-12, abs=1e-15)
        assert answer.measures[key].interval == pytest.approx(result.interval, rel=1e-12, abs=1e-15)
    assert set(answer.groups or ()) == {"de", "no"}
    fitted = calibrant.fit_tally(whole, "beta")
    assert made.n == N
    assert_allclose(calibrant.load(made.document).apply([0.2, 0.8]), fitted.apply([0.2, 0.8]), rtol=1e-9)
    assert local.basis is not None
    assert (local.basis.engine, local.n) == ("local", N)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/evaluate", {"classes": [0]}, "/classes"),
        ("/compare", {"maps": ["x"]}, "/maps"),
        (
            "/evaluate",
            {"source": {"columns": {"predictions": "score", "labels": "outcome", "weights": "w"}}},
            "/weights_kind",
        ),
        (
            "/compare",
            {"source": {"columns": {"models": {"a": "score", "b": "other"}, "labels": "outcome"}}},
            "/source/engine",
        ),
    ],
)
def test_a_request_that_needs_the_rows_is_sent_to_a_cluster(
    served: httpx.Client, path: str, body: dict[str, Any], pointer: str
) -> None:
    sent = body | {"source": _source(**body.get("source", {}))}
    status, code, place = problem_of(served.post(path, json=sent))
    assert (status, code, place) == (422, "invalid-field", pointer)
