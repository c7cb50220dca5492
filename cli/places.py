"""What is wrong and where, in the words of the command line: flags and rows in the place of JSON Pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schemas.row_words import in_rows

#: Field of the wire's contract -> the flag that sets it.
_FLAGS = {
    "measures": "--measure",
    "diagram": "--diagram",
    "diagrams": "--diagram",
    "theme": "--theme",
    "width": "--width",
    "reduction": "--reduction",
    "interval": "--interval",
    "resamples": "--resamples",
    "seed": "--seed",
    "scale": "--scale",
    "map": "--map",
    "method": "--method",
    "options": "--option",
    "name": "--name",
    "ref": "the map",
    "document": "the document",
}
_OF_ROWS = ("predictions", "labels", "weights", "groups")


class Place(Protocol):
    """One place that is wrong, as the library and a server both tell it."""

    @property
    def pointer(self) -> str: ...  # noqa: D102
    @property
    def detail(self) -> str: ...  # noqa: D102


def line_of(detail: str, places: Sequence[Place]) -> str:
    """What is told of an error with its ``detail``: the first place, which is what a person mends first.

    >>> from calibrant.errors import Offence
    >>> line_of("", [Offence("/labels/17", "is not 0 or 1")])
    'labels in row 18: is not 0 or 1'
    >>> line_of("", [Offence("/measures/0", "must be one of: ece, ks")])
    '--measure: must be one of: ece, ks'
    """
    if not places:
        return detail
    if (told := in_rows(detail)) is not None:
        return told
    first = places[0]
    field, *rest = first.pointer.split("/")[1:] or [""]
    if field in _OF_ROWS and rest and rest[0].isdigit():
        return f"{field} in row {int(rest[0]) + 1}: {first.detail}"
    if field not in _FLAGS:
        return detail
    inner = " ".join(part for part in rest if not part.isdigit())
    return f"{_FLAGS[field]}{f' {inner}' if inner else ''}: {first.detail}"
