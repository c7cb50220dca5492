"""The documentation of one problem."""

from __future__ import annotations

from typing import NamedTuple


class ProblemRow(NamedTuple):
    """HTTP status and title of one code, what causes it and how to remedy it, each a sentence or two."""

    status: int
    title: str
    cause: str
    remedy: str
