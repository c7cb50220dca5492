"""When a delivery is tried again: ever later, never at the same time for two."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: Seconds between two attempts.
DELAYS = (5.0, 30.0, 120.0, 600.0, 3600.0, 21_600.0, 86_400.0)
#: The longest that a receiver may ask to wait by ``Retry-After``.
MOST_SECONDS = 86_400.0


@dataclass(frozen=True)
class Plan:
    """The delay behind each attempt; behind one that has none a delivery is dead. ``jitter`` is a share of a delay."""

    delays: tuple[float, ...] = DELAYS
    jitter: float = 0.25

    @property
    def attempts(self) -> int:
        """How often a delivery is tried."""
        return len(self.delays) + 1

    def after(self, tried: int, wait: int | None = None) -> float | None:
        """Seconds until the next attempt, behind so many; None behind the last.

        What the receiver asks to ``wait`` lengthens them, up to a day.
        """
        if tried >= self.attempts:
            return None
        delay = self.delays[tried - 1] * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - jitter
        return max(delay, min(float(wait or 0), MOST_SECONDS))
