"""Services without their start: their processes are forks of one that has imported what they need.

A start takes up to a second of processor time, nearly all of it for imports. Before its first test, when it has no
threads, each process that runs tests forks a server, which forks a process of a service whenever a test starts one.
That becomes a child of the process of the tests: its number, signals and status are those of one that was started, and
it has the arguments, environment and files of the command. tests/e2e starts the real one.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import gc
import json
import logging
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, AnyStr, NoReturn

from _pytest.assertion.rewrite import AssertionRewritingHook

from backend.store.processes import die_with_parent

_PR_SET_CHILD_SUBREAPER = 36
#: Above all numbers of files that a command names.
_FREE = 4096
#: What the commands import, directly or not, once they run.
_NEEDED = ("service.commands.api", "service.server", "workers.command", "workers.supervisor")
_lock = threading.Lock()
_server: socket.socket | None = None
_owner = 0


def begin() -> None:
    """Fork the server of this process, which has no threads yet; on systems other than Linux, services are started."""
    global _server, _owner
    if sys.platform != "linux":
        return
    ours, theirs = socket.socketpair()
    tests = os.getpid()
    if os.fork() == 0:
        try:
            _serve(theirs.detach(), tests)
        finally:
            os._exit(os.EX_SOFTWARE)
    theirs.close()
    _server, _owner = ours, tests


class Popen(subprocess.Popen[AnyStr]):
    """A process of a module: ``python -m module``, with ``-P`` or without. Others start as those of subprocess do.

    It begins a session, and ends with the process of the tests.
    """

    def _execute_child(
        self,
        args: Sequence[str],
        executable: str | None,
        preexec: Callable[[], object] | None,
        close: bool,
        pass_fds: Sequence[int],
        folder: str | Path | None,
        environment: Mapping[str, str] | None,
        *others: Any,
    ) -> None:
        command = list(map(str, args))
        at = command.index("-m") if "-m" in command else 0
        if _owner != os.getpid() or command[0] != sys.executable or command[1:at] not in ([], ["-P"]) or not at:
            super()._execute_child(args, executable, preexec, close, pass_fds, folder, environment, *others)  # type: ignore[misc]
            return
        request = _request_of(command[at + 1 :], folder, environment, has_folder=at == 1)
        self.pid = _fork(others[3:9], pass_fds, request)
        self._child_created = True
        self._close_pipe_fds(*others[3:9])  # type: ignore[attr-defined]


def _request_of(
    command: list[str], folder: str | Path | None, environment: Mapping[str, str] | None, *, has_folder: bool
) -> dict[str, Any]:
    """The arguments of ``_run`` other than files; ``has_folder`` says whether modules are looked for in the folder."""
    here, variables = os.path.abspath(folder or "."), dict(os.environ if environment is None else environment)
    path = [entry for entry in variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if has_folder:
        path.insert(0, here)
    return {"module": command[0], "arguments": command[1:], "folder": here, "path": path, "environment": variables}


def start(
    arguments: Sequence[str],
    *,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command as ``backend.store.processes.spawn`` does."""
    return Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=None if log is None else subprocess.STDOUT,
        env=environment,
        pass_fds=pass_fds,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


def stack(**options: Any) -> AbstractContextManager[Any]:
    """``service.stack.stack`` with the API and the worker as forks."""
    from service.stack import stack

    return stack(start=start, **options)


def _fork(pipes: Sequence[int], pass_fds: Sequence[int], request: dict[str, Any]) -> int:
    """Send a request to the server; returns the number of the process, which has become a child of this one.

    ``pipes`` are the two ends of the input, of the output and of the errors, -1 where they are those of this process.
    """
    assert _server is not None
    files = [file if pipe == -1 else pipe for file, pipe in enumerate((pipes[0], pipes[3], pipes[5]))] + [*pass_fds]
    body = json.dumps(request | {"numbers": [0, 1, 2, *pass_fds]}).encode()
    with _lock:
        _adopt(orphans=True)
        try:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
            _server.sendmsg([len(body).to_bytes(4, "big")], ancillary)
            _server.sendall(body)
            if not (pid := _server.recv(4, socket.MSG_WAITALL)):
                raise ChildProcessError("the server of processes has ended")
            return int.from_bytes(pid, "big")
        finally:
            _adopt(orphans=False)


def _adopt(*, orphans: bool) -> None:
    """Make this process the parent of processes below it that lose theirs, or init again."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans))


# --- The server, and the processes that it forks


def _serve(number: int, tests: int) -> None:
    """Fork a process for each request until the process ``tests`` ends."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    _close_all_but({0, 1, 2, number})
    channel = socket.socket(fileno=number)
    while True:
        size, ancillary, _, _ = channel.recvmsg(4, socket.CMSG_SPACE(64 * array.array("i").itemsize))
        if not size:
            os._exit(os.EX_OK)
        request = json.loads(channel.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
        for name in _NEEDED:
            import_module(name)
        files = array.array("i", ancillary[0][2])
        waiting, going = os.pipe()
        between = os.fork()
        if between == 0:
            if os.fork() == 0:
                try:
                    os.close(going)
                    os.read(
                        waiting, 1
                    )  # ends when the process between has ended, and the one of the tests is the parent
                    die_with_parent()
                    if os.getppid() == tests:
                        channel.sendall(os.getpid().to_bytes(4, "big"))
                        channel.detach()
                        _run(files, **request)
                finally:
                    os._exit(os.EX_SOFTWARE)
            os._exit(os.EX_OK)
        os.waitpid(between, 0)
        for file in (waiting, going, *files):
            os.close(file)


def _run(
    files: Sequence[int],
    *,
    module: str,
    arguments: list[str],
    folder: str,
    path: list[str],
    environment: dict[str, str],
    numbers: list[int],
) -> None:
    """Run a module as a program, with the given files as those of ``numbers``, and end."""
    os.setsid()
    faulthandler.disable()
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, _FREE) for file in files]
    _close_all_but(set(high))
    for file, number in zip(high, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    # What an interpreter begins with, and pytest changes.
    for name in (signal.SIGTERM, signal.SIGABRT):
        signal.signal(name, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    atexit._clear()
    gc.callbacks.clear()
    gc.set_threshold(700, 10, 10)
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    tempfile.tempdir = None
    random.seed()
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, AssertionRewritingHook)]
    if not hasattr(sys.modules.get(module), "__path__"):
        sys.modules.pop(module, None)  # with the loader of pytest
    sys.path[:0] = path
    sys.modules["__main__"] = types.ModuleType("__main__")
    program = functools.partial(runpy.run_module, module, run_name="__main__", alter_sys=True)
    end_with(program, [module, *arguments], folder, environment)


def end_with(program: Callable[[], object], argv: list[str], folder: str, environment: dict[str, str]) -> NoReturn:
    """Run a program in this process, which has its files, and end with its status."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - until it ends
    status: Any = 0
    try:
        program()
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if isinstance(status, str):
        sys.stderr.write(f"{status}\n")
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    for output in (sys.stdout, sys.stderr):
        if not output.closed:
            output.flush()
    os._exit(status or 0)  # the end of an interpreter would copy all that it shares with its parent


def _close_all_but(files: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in files:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(int(name))
