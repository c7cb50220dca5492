"""Hosts: in the process of a test, and as ``calibrant host`` runs them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

import calibrant
from backend.held_map import HeldMap
from service.hosts.app import HostApp, HostProcess, HostRoute
from service.settings import ScoringSettings
from tests.warm_service import Popen

Call = tuple[str, str, dict[str, Any]]
RANDOM = np.random.default_rng(49)
P = RANDOM.random(400)
Y = (RANDOM.random(400) < P).astype(int)
PROBS = RANDOM.dirichlet(np.ones(3), 400)
LABELS = np.array([RANDOM.choice(3, p=row) for row in PROBS])
CLASSES = ("cat", "dog", "bird")
SITES = ["north", "south"] * 200
COUNTRIES = np.array(["DE", "FR"])[(P * 1000).astype(int) % 2]


@cache
def hosted() -> Mapping[str, Any]:
    """Maps by name: of an event, of vectors, on logits, of features, of distributions, and to prediction sets."""
    names = list(CLASSES)
    shifted = (np.random.default_rng(7).random(400) < np.where(COUNTRIES == "DE", P**3, P**0.3)).astype(int)
    of_labels = (np.random.default_rng(8).random((400, 3)) < PROBS).astype(int)
    return {
        "spam": calibrant.fit("isotonic", P**1.5, Y),
        "pets": calibrant.fit("temperature", PROBS, LABELS, class_names=names),
        "plain": calibrant.fit("temperature", PROBS, LABELS),
        "bounds": calibrant.fit("venn-abers", P, Y),
        "logits": calibrant.fit("platt", np.log(P / (1 - P)), Y, scale="logit"),
        "top": calibrant.fit("platt", PROBS, LABELS, reduction="confidence", class_names=names),
        "segments": calibrant.fit("segments", P, shifted, features={"country": COUNTRIES, "age": 80 * P}),
        "sets": calibrant.fit_sets(PROBS, LABELS, class_names=names),
        "numbers": calibrant.fit_sets(P, Y),
        "random": calibrant.fit_sets(
            PROBS, LABELS, method="aps", conditional="group", groups=SITES, randomised=True, class_names=names
        ),
        "levels": calibrant.fit_sets(PROBS, LABELS, method="aps", adjustable=True, randomised=True, class_names=names),
        "labels": calibrant.fit_sets(PROBS, of_labels, method="crc", alpha=0.2),
        "wind": calibrant.fit_distribution("conformal", observed=10 * P, mean=9 * P, variance=P + 1),
    }


def host_of(*names: str, routes: list[HostRoute] | None = None, **settings: Any) -> HostApp:
    """A host of some maps."""
    maps = {name: HeldMap(name, hosted()[name], None) for name in names}
    return HostApp(HostProcess(ScoringSettings(**settings), maps), *(routes or ()))


def ask(app: HostApp, *calls: Call) -> list[httpx.Response]:
    """Responses to calls, each a method, a path and options of the request."""

    async def responses() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return [await client.request(method, path, **options) for method, path, options in calls]

    return asyncio.run(responses())


def post(app: HostApp, path: str, body: Any, kind: str | None = "application/json", **headers: str) -> httpx.Response:
    """The response to a body: of JSON unless it consists of bytes."""
    content = body if isinstance(body, bytes) else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    sent = {name.replace("_", "-"): text for name, text in headers.items()} | ({"content-type": kind} if kind else {})
    return ask(app, ("POST", path, {"content": content, "headers": sent}))[0]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file of each map."""
    folder = tmp_path_factory.mktemp("maps")
    for name, fitted in hosted().items():
        fitted.save(folder / f"{name}.json")
    return folder


class RunningHost:
    """A running command: its URL, its process and the lines that it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        assert process.stderr is not None
        for line in process.stderr:
            self.lines.append(line)
            if "Uvicorn running on " in line:
                self.url = line.partition("Uvicorn running on ")[2].split()[0]
                break
        else:
            raise AssertionError("".join(self.lines))
        # A full pipe would stop the process.
        self._reader = threading.Thread(target=self.lines.extend, args=(process.stderr,))
        self._reader.start()

    def stop(self) -> None:
        """Tell the command to end, and wait until it has."""
        self.process.terminate()
        self._reader.join()
        self.process.wait()


@contextlib.contextmanager
def running_host(
    *arguments: str, python: tuple[str, ...] = (), port: str | None = "0", **variables: Any
) -> Iterator[RunningHost]:
    """Run ``calibrant host``, on a free port unless ``port`` is None."""
    command = [sys.executable, *python, "-m", "calibrant", "host", "--log-format", "text", *arguments]
    command += [] if port is None else ["--port", port]
    with Popen(
        command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=os.environ | variables
    ) as process:
        try:
            host = RunningHost(process)
            yield host
            host.stop()
        finally:
            process.kill()
