"""An event loop whose seconds pass at once."""

from __future__ import annotations

import asyncio


class Clock(asyncio.SelectorEventLoop):
    """An event loop on which seconds pass at once when nothing else is to be done."""

    _seconds = 0.0

    def time(self) -> float:
        return self._seconds

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._seconds = max(self._seconds, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]

    def hold_up(self, seconds: float) -> None:
        """Have seconds pass in which the loop does nothing."""
        self._seconds += seconds
