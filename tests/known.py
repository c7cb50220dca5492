"""Values that may be None by their type and are not in a test."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def known(answer: T | None) -> T:
    """The answer, which is there."""
    assert answer is not None
    return answer
