"""What an example is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

_NONE: Mapping[str, str] = MappingProxyType({})

#: The ids of the document's examples; whoever sends one puts an id of his own in their place.
IDS: Mapping[str, str] = MappingProxyType(
    {
        kind: f"{kind}_{digits * 3}"
        for kind, digits in (
            ("batch", "5e0b7d91ac"),
            ("map", "c49f02e6b8"),
            ("job", "7a31d8f504"),
            ("monitor", "e2860b4f93"),
            ("event", "1fd5c07a62"),
            ("delivery", "b93e4a718c"),
            ("proposal", "4c07d6b1e9"),
        )
    }
)
BATCH, MAP, JOB, DELIVERY = IDS["batch"], IDS["map"], IDS["job"], IDS["delivery"]


class Example(NamedTuple):
    """One request: the call as the document writes it, what to send, and the status that it is answered with."""

    call: str
    name: str
    summary: str
    body: Mapping[str, Any] | bytes | None = None
    status: int = 200
    path: Mapping[str, str] = _NONE
    query: Mapping[str, str] = _NONE
    headers: Mapping[str, str] = _NONE
