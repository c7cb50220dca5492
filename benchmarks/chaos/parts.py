"""The processes of a deployment, each restarted when it ends, as by an orchestrator."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from backend.store.processes import spawn, stop

#: Seconds between the end of a process and its next start.
RESTART_SECONDS = 0.2
_PATIENCE = 30.0
#: Seconds after which the end of a process is noticed at the latest.
_NOTICED_SECONDS = 1.0


class Absence(NamedTuple):
    """A time without a process that can be expected to work."""

    began: float
    ended: float


class DeploymentProcess:
    """One process of a deployment.

    ``before`` precedes its command, for example to enter a network namespace. A thread starts it and
    waits for it, from the first start to ``end``: the kernel ends a child with the thread that started it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.environment = dict(os.environ if environment is None else environment)
        self.starts = 0
        #: The times from the end of a process, or the request to end it, to the next start; by the monotonic clock.
        self.absences: list[Absence] = []
        self._command = [*before, *command]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._wanted = threading.Event()
        self._wanted.set()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)

    def start(self) -> None:
        """Start it, and restart it whenever it ends."""
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The id of its current process; None between an end and the next start."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    def signal(self, number: int) -> int | None:
        """Send a signal to its process and return its id; None if there is none."""
        pid = self.pid
        if pid is None:
            return None
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._leave()
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return None
        return pid

    def restart(self) -> None:
        """Stop its process and wait for the next one, which has the current environment."""
        before = self.starts
        process = self._process
        self._leave()
        if process is not None:
            stop(process, patience=_PATIENCE)
        while self.starts == before:
            time.sleep(RESTART_SECONDS / 4)

    def hold(self) -> None:
        """Stop it, until ``release``."""
        self._wanted.clear()
        self._leave()
        process = self._process
        if process is not None:
            stop(process, patience=_PATIENCE)

    def release(self) -> None:
        """Let it run again."""
        self._wanted.set()

    def end(self) -> None:
        """Stop it for good."""
        self._ended.set()
        self._leave()
        self._wanted.set()
        process = self._process
        if process is not None:
            stop(process, patience=_PATIENCE)
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    def was_away(self, since: float, until: float) -> bool:
        """Whether it was not there at some time between two moments."""
        return any(absence.ended > since and absence.began < until + _NOTICED_SECONDS for absence in self.absences)

    def _leave(self) -> None:
        if not self.absences or self.absences[-1].ended < float("inf"):
            self.absences.append(Absence(time.monotonic(), float("inf")))

    def _keep(self) -> None:
        with self._log.open("ab") as log:
            while not self._ended.is_set():
                self._process = spawn(self._command, log=log, environment=self.environment)
                self.starts += 1
                if self.absences:
                    self.absences[-1] = Absence(self.absences[-1].began, time.monotonic())
                status = self._process.wait()
                self._leave()
                log.write(f"--- {self.name} ended with {status} at {time.time():.3f}\n".encode())
                log.flush()
                self._ended.wait(RESTART_SECONDS)
                self._wanted.wait()
