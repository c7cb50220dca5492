"""The store as the deployments start it: their own command, with a server of this machine in its place."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml
from redis import Redis

from backend.store.processes import spawn, stop
from backend.store.server.connection import UNAVAILABLE
from backend.store.server.embedded import server_binary
from tests.images.building import REPOSITORY

_PATIENCE = 20.0
#: A server of this machine with a port and a folder of its own; it overwrites its command line, so that is kept.
_SERVER = """#!/bin/sh
echo "$0 $*" > {data}/started
for word; do
    shift
    [ "$word" != /data ] || word={data}
    set -- "$@" "$word"
done
exec {binary} "$@" --bind 127.0.0.1 --port {port}
"""


class ConfiguredStore(NamedTuple):
    """A running store: its URL with the password, the number of its process, and the command line that began it."""

    url: str
    process: int
    started: str


def compose_command() -> list[str]:
    """What docker-compose.yml starts its store by."""
    service = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text("utf-8"))["services"]["redis"]
    # Compose reads $ as the beginning of a variable of its own, and $$ as $.
    parts = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", part) for part in [*service["entrypoint"], *service["command"]]]
    return [part.replace("$$", "$") for part in parts]


def kubernetes_command() -> list[str]:
    """What the manifests start theirs by."""
    text = (REPOSITORY / "deploy/kubernetes/components/redis/redis.yaml").read_text("utf-8")
    (stateful,) = (document for document in yaml.safe_load_all(text) if document["kind"] == "StatefulSet")
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    return [*container["command"], *container["args"]]


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def configured_store(command: list[str], folder: Path, password: str) -> Iterator[ConfiguredStore]:
    """Run the command with ``_SERVER`` in the place of its ``redis-server``."""
    port, store, tools = free_port(), folder / "store", folder / "tools"
    for folder_of_store in (store, tools):
        folder_of_store.mkdir(exist_ok=True)
    server = tools / "redis-server"
    server.write_text(_SERVER.format(binary=server_binary(), port=port, data=store), encoding="utf-8")
    server.chmod(0o755)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "REDISCLI_AUTH": password}
    with (folder / "store.log").open("ab") as log:
        process = spawn(command, log=log, environment=environment)
        try:
            url = f"redis://:{password}@127.0.0.1:{port}/0"
            _await_ready(url)
            yield ConfiguredStore(url, process.pid, (store / "started").read_text("utf-8"))
        finally:
            stop(process, patience=_PATIENCE)


def _await_ready(url: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    with contextlib.closing(Redis.from_url(url)) as redis:
        while True:
            try:
                redis.ping()
            except UNAVAILABLE:
                if time.monotonic() > deadline:
                    raise
            else:
                return
