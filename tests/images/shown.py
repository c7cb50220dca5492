"""What the built images are shown to do: answer, fit, and hold to what a hardened container may."""

from __future__ import annotations

import contextlib
import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import calibrant
from tests.images.building import Builder, Image
from tests.images.containers import USER, Container, Started
from tests.images.stores import compose_command, configured_store, free_port

_PATIENCE = 60.0


def show(builder: Builder, api: Image, worker: Image, host: Image, *, folder: Path) -> Iterator[str]:
    """Run the images, those of the service on a store with a password; give a line for each thing that was seen."""
    yield from _hosts(builder, host, folder / "host.log")
    password = secrets.token_hex(16)
    with contextlib.ExitStack() as held:
        store = held.enter_context(configured_store(compose_command(), folder, password))
        port = free_port()
        variables = {"CALIBRANT_REDIS_URL": store.url, "CALIBRANT_PORT": str(port)}
        of_api = Container(api, held.enter_context(builder.mounted(api.name)), variables)
        of_worker = Container(worker, held.enter_context(builder.mounted(worker.name)), variables)
        yield from _trees(of_api, of_worker)
        key = _printed(of_worker.run("calibrant", "keys", "create", "shown", "--scope", "admin"))
        log = folder / "log"
        running = _up(held, "api", of_api, log)
        working = _up(held, "worker-cpu", of_worker, log)
        for name, process in (("api", running), ("worker-cpu", working)):
            _require(process.user() == USER, f"{name}: runs as {process.user()}")
            _require(password not in process.command_lines(), f"{name}: a command line shows the password")
        yield f"both run as {USER} on a read-only root; no command line shows the password"
        yield from _calls(f"http://127.0.0.1:{port}", key)
        for name, process in (("worker-cpu", working), ("api", running)):
            started = time.monotonic()
            status = process.stop(patience=_PATIENCE)
            _require(status == 0, f"{name}: SIGTERM gave status {status}")
            yield f"{name}: ended by SIGTERM in {time.monotonic() - started:.1f} s with status 0"


def _trees(api: Container, worker: Container) -> Iterator[str]:
    """What stands in the images, and what does not."""
    for name, container in (("api", api), ("worker-cpu", worker)):
        _require(container.run("touch", "/opt/calibrant/x").returncode != 0, f"{name}: its root can be written to")
        _require(container.run("touch", "/tmp/x").returncode == 0, f"{name}: /tmp cannot be written to")
        for package in ("pip", "torch"):
            ran = container.run("python", "-c", f"import {package}")
            _require("ModuleNotFoundError" in ran.stderr, f"{name}: it has {package}")
    yield "api, worker-cpu: no torch, no pip"


def _hosts(builder: Builder, image: Image, log: Path) -> Iterator[str]:
    """A host with a map where each platform has it, as each platform starts it, by other users than its own."""
    fitted = calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    body, expected = {"instances": [0.25, 0.75]}, {"predictions": fitted.apply([0.25, 0.75]).tolist()}
    for user, folder, arguments, path in (
        (USER, "mnt/models", (), "/v1/models/spam:predict"),
        (0, "opt/ml/model", ("serve",), "/invocations"),
        (1_000_650_000, "mnt/models", ("/mnt/models",), "/predict"),
    ):
        port = free_port()
        variables = {"AIP_HTTP_PORT": str(port), "AIP_PREDICT_ROUTE": "/predict"}
        with contextlib.ExitStack() as held:
            container = Container(image, held.enter_context(builder.mounted(image.name)), variables, user)
            (maps := container.root / folder).mkdir(parents=True)
            fitted.save(maps / "spam.json")
            for package in ("pip", "torch", "sklearn", "redis", "pyarrow"):
                ran = container.run("python", "-c", f"import {package}")
                _require("ModuleNotFoundError" in ran.stderr, f"host: it has {package}")
            began = time.monotonic()
            process = _up(held, "host", container, log, *arguments)
            took = time.monotonic() - began
            url = f"http://127.0.0.1:{port}"
            _require(_answer(httpx.post(url + path, json=body), 200) == expected, f"host: other predictions at {path}")
            memory = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.first()}/status").read_text("utf-8"))
            resident = int(memory[1]) / 1024 if memory is not None else 0.0
            status = process.stop(patience=_PATIENCE)
            _require(status == 0, f"host: SIGTERM gave status {status}")
            started = " ".join(arguments) or "no argument"
            yield f"host, user {user}, {started}: well after {took:.1f} s, {resident:.0f} MiB, POST {path}: 200"


def _up(held: contextlib.ExitStack, name: str, container: Container, log: Path, *arguments: str) -> Started:
    """The image's own command, once its own health check is content."""
    process = held.enter_context(container.started(held.enter_context(log.open("ab")), *arguments))
    deadline = time.monotonic() + _PATIENCE
    while not container.is_well():
        ended = process.outer.poll() is not None
        _require(not ended and time.monotonic() < deadline, f"{name} is not well:\n{log.read_text('utf-8')[-4000:]}")
    return process


def _calls(url: str, key: str) -> Iterator[str]:
    """Evaluate, fit at once, fit by a job, apply, and look at it."""
    rng = np.random.default_rng(1)
    p = rng.uniform(size=5000)
    batch = {"predictions": p.tolist(), "labels": (rng.uniform(size=p.size) < p**2).astype(int).tolist()}
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=_PATIENCE) as http:
        _require(httpx.post(f"{url}/evaluate", json=batch).status_code == 401, "api: it answers without a key")
        report = _answer(http.post("/evaluate", json=batch), 200)
        yield f"POST /evaluate: ece {report['measures']['ece']['value']:.4f} of 5000 rows"
        _answer(http.post("/maps", json={**batch, "method": "platt", "name": "quick"}), 201)
        yield "POST /maps, platt: 201"
        started = time.monotonic()
        asked = {**batch, "method": "averaged", "name": "long"}
        record = _answer(http.post("/maps", json=asked, headers={"Prefer": "wait=30"}), 201)
        yield f"POST /maps, averaged, by a job: {record['id']} after {time.monotonic() - started:.1f} s"
        asked = {**batch, "map": "long"}
        after = _answer(http.post("/evaluate", json=asked, headers={"Prefer": "respond-async, wait=30"}), 200)
        yield f"POST /evaluate of it, by a job: ece {after['after']['measures']['ece']['value']:.4f} after"
        _answer(http.post("/calibrate", json={"map": "long", "predictions": [0.1, 0.9]}), 200)
        yield "POST /calibrate: 200"
        yield from _seen(http, batch)


def _seen(http: httpx.Client, batch: dict[str, Any]) -> Iterator[str]:
    """What is drawn on a root that nothing can be written to: a picture, a report, and the page."""
    for path, asked, begins in (
        ("/diagrams", {"headers": {"Accept": "image/png"}, "json": {**batch, "diagram": "reliability"}}, b"\x89PNG"),
        ("/evaluate", {"headers": {"Accept": "text/html"}, "json": batch}, b"<!doctype html>"),
        ("/maps/long/diagram.svg", None, b"<svg"),
        ("/ui/sign-in", None, b"<!doctype html>"),
    ):
        answer = http.get(path) if asked is None else http.post(path, **asked)  # type: ignore[arg-type]
        _require(answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:400]}")
        _require(begins in answer.content[:200], f"{path}: begins with {answer.content[:40]!r}")
    yield "a PNG of POST /diagrams, an HTML report, the SVG of a map and the page: 200"


def _answer(response: httpx.Response, status: int) -> Any:
    _require(response.status_code == status, f"{response.request.url.path}: {response.status_code} {response.text}")
    return response.json()


def _printed(ran: subprocess.CompletedProcess[str]) -> str:
    _require(ran.returncode == 0, f"{ran.args[-3:]}: {ran.stderr}")
    return ran.stdout.strip()


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)
