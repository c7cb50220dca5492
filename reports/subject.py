"""What a report is of: what only the caller knows beside the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Subject:
    """The ``name`` of the file or batch, and how its report was made.

    ``said`` is what was guessed of the file, a sentence each; ``version`` that of Calibrant; ``when`` it was made, None
    where that shall not be told; ``options`` those of the evaluation, as ``POST /evaluate`` takes them, never a key;
    ``classes`` the names of the classes in order, where they have any; ``weights`` what weights count, None without;
    ``map`` the name of the map that was applied; ``scale`` what the predictions are. ``command`` made the report, as it
    was typed, never with a key; ``loading`` are lines of Python that read the ``rows`` of a file, and ``applying`` the
    expression of the map; ``origin`` says in words where the rows come from, where there are no such lines.
    """

    name: str
    version: str
    when: datetime | None = None
    said: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    weights: str | None = None
    map: str | None = None
    scale: str = "probability"
    command: str | None = None
    loading: tuple[str, ...] = ()
    applying: str | None = None
    origin: str | None = None
