"""References: the four ways in which a map is named."""

from __future__ import annotations

import re
from typing import NamedTuple

from schemas.base import ID_PREFIX

_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_ID = re.compile(rf"{ID_PREFIX}[A-Za-z0-9._-]{{1,64}}\Z")
_NAMED = re.compile(rf"({_WORD})(?::([1-9][0-9]{{0,8}})|@({_WORD}))?\Z")


class Reference(NamedTuple):
    """``map_id``; or ``name``, with ``version`` or ``alias``, or alone for its newest version."""

    map_id: str | None = None
    name: str | None = None
    version: str | None = None
    alias: str | None = None

    @property
    def exact(self) -> bool:
        """Whether it means the same map for ever: an id, or a version."""
        return self.map_id is not None or self.version is not None


def read_reference(ref: str) -> Reference | None:
    """Read ``map_ID``, ``name``, ``name:version`` or ``name@alias``; None for what can be no map's."""
    if ref.startswith(ID_PREFIX):
        return Reference(map_id=ref) if _ID.match(ref) else None
    named = _NAMED.match(ref)
    return Reference(None, *named.groups()) if named else None


def is_name(text: str) -> bool:
    """Whether it can be the name of a map, or an alias."""
    return re.fullmatch(_WORD, text) is not None and not text.startswith(ID_PREFIX)
