"""The paths that need no API key: probes, and pages that tell nothing of what is stored."""

from __future__ import annotations

OPEN_PATHS = frozenset({"/", "/docs", "/openapi.json", "/problems", "/v2/health/live", "/v2/health/ready"})
OPEN_PREFIXES = ("/health/", "/problems/", "/assets/")


def is_open(path: str) -> bool:
    """Whether a path is served to whoever asks."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)
