"""Which jobs have ended."""

from __future__ import annotations

from calibrant.client.answers.jobs import Status

#: The statuses that never change again.
FINAL: frozenset[Status] = frozenset({"succeeded", "failed", "cancelled"})
