"""The command ``calibrant`` without its start: it runs in a fork of a process that has imported what it needs.

A start takes more processor time than most of the commands that documents show. Arguments, folder, environment, input,
output and status are those of the command; tests/e2e starts the real one.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import calibrant
from calibrant import cli
from calibrant.cli import commands
from calibrant.cli.main import own_commands
from tests.known import known
from tests.warm_service import end_with

#: Sends a command with its open files to the process that runs it, and ends with its status.
_CLIENT = """#!{python} -IS
import array, json, os, socket, sys
with socket.socket(socket.AF_UNIX) as channel:
    channel.connect({address!r})
    files = array.array("i", [0, 1, 2])
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n"
    sent = channel.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    channel.sendall(request[sent:])
    sys.exit(int(channel.makefile().readline()))
"""


@contextlib.contextmanager
def warm_command(folder: Path) -> Iterator[Path]:
    """A folder for the beginning of ``PATH`` that contains ``calibrant``."""
    address, command = folder / "socket", folder / "bin" / "calibrant"
    command.parent.mkdir()
    command.write_text(_CLIENT.format(python=sys.executable, address=str(address)), "utf-8")
    command.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {__name__} import run; run({str(address)!r})"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert known(process.stdout).readline() == b"ready\n"
        yield command.parent
        known(process.stdin).close()


def run(address: str) -> None:
    """Run commands until the input ends, each in a fork."""
    for name in own_commands():
        import_module(f"{commands.__name__}.{name.replace('-', '_')}")
    for name in calibrant.__all__:
        getattr(calibrant, name)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        os.write(1, b"ready\n")
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _serve(connection)
            connection.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _serve(connection: socket.socket) -> None:
    """Run the command of a connection, send its status, and end."""
    line, ancillary, _, _ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    while not line.endswith(b"\n"):
        line += connection.recv(1 << 20)
    arguments, folder, environment = json.loads(line)
    files = array.array("i", ancillary[0][2])
    pid = os.fork()
    if pid == 0:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        end_with(cli.run, ["calibrant", *arguments], folder, environment)
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)
