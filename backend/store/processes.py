"""Child processes that end with their parent, whatever ends it."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends. Linux only; elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(
    arguments: Sequence[str],
    *,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a child that ends with this process, in a session of its own: Ctrl-C reaches the parent alone.

    ``log`` takes what it writes; None lets it write where the parent does.
    """
    return subprocess.Popen(  # noqa: S603 - the arguments are ours
        list(arguments),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=None if log is None else subprocess.STDOUT,
        env=None if environment is None else dict(environment),
        pass_fds=pass_fds,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


def stop(process: subprocess.Popen[bytes], *, patience: float) -> None:
    """Tell a child to stop; kill it after ``patience`` seconds. Returns when it has ended."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
