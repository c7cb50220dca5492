"""Child processes that end with their parent, however it ends."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent ends. Linux only; does nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(
    arguments: Sequence[str],
    *,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a child that ends with this process, in a session of its own, so that Ctrl-C reaches only the parent.

    ``log`` receives its output; with None the child uses the output of the parent.
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
    """Terminate a child, and kill it after ``patience`` seconds. Returns when it has ended."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
