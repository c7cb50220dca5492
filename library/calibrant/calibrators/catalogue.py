"""The catalogue of calibrators by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from calibrant.calibrators.entries import binnings, events, piecewise, splines, vectors
from calibrant.calibrators.method import Method
from calibrant.errors import UnknownMethod

_GROUPS = (events, binnings, splines, piecewise, vectors)

METHODS: Mapping[str, Method] = MappingProxyType({entry.name: entry for group in _GROUPS for entry in group.METHODS})


def read_method(method: object) -> Method:
    """Find a calibrator by name; raises ``UnknownMethod``."""
    if not isinstance(method, str) or method not in METHODS:
        raise UnknownMethod.at("/method", f"must be one of: {', '.join(METHODS)}")
    return METHODS[method]
