"""How a reader refuses a body."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from calibrant.core.errors import CalibrationError


def refused(read: Callable[[], object]) -> tuple[str, str]:
    """Code and first pointer of the error that is raised."""
    with pytest.raises(CalibrationError) as caught:
        read()
    offences = caught.value.offences
    return caught.value.code, offences[0].pointer if offences else ""
