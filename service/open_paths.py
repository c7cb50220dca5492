"""The paths that need no API key: probes, and pages that tell nothing of what is stored."""

from __future__ import annotations

#: Pages that whoever is signed in sees as himself, and everyone else as a stranger.
PERSONAL_PATHS = frozenset({"/", "/ui/sign-in", "/ui/sign-out"})
OPEN_PATHS = PERSONAL_PATHS | {"/docs", "/openapi.json", "/problems", "/v2/health/live", "/v2/health/ready"}
OPEN_PREFIXES = ("/health/", "/problems/", "/assets/")
#: What people look at, and where what is refused is told in words.
PAGES = "/ui/"


def is_open(path: str) -> bool:
    """Whether a path is served to whoever asks."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def is_page(path: str) -> bool:
    """Whether a path is a page rather than a call."""
    return path == "/" or path.startswith(PAGES)
