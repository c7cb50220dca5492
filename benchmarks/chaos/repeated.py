"""An action that is repeated in a thread during the faults."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Repeater:
    """Calls ``act`` in a thread after every pause; runs as a context manager."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._act_on, daemon=True)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop after the present action."""
        self._stopped.set()
        self._thread.join()

    def act(self) -> None:
        """Act once."""
        raise NotImplementedError

    def _act_on(self) -> None:
        while not self._stopped.wait(self._pause_seconds):
            self.act()
