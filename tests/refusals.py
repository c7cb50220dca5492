"""How a call refuses bad input: the class of its error, and the place that it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def refused_at(
    pointer: str, error: type[Any], *, match: str | None = None, code: str | None = None, below: bool = False
) -> Iterator[None]:
    """What is called within raises this error, whose first offence is at this pointer, or also ``below`` it."""
    with pytest.raises(error, match=match) as caught:
        yield
    place = caught.value.offences[0].pointer
    assert place.startswith(pointer) if below else place == pointer
    assert code is None or caught.value.code == code
