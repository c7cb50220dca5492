"""Pictures: diagrams of rows, of stored batches and of the fits of maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack

from calibrant_client.asking import path_of, with_rows
from calibrant_client.rows import Rows, taken_apart
from calibrant_client.sending import Patience, ask
from calibrant_client.steps import Request, Steps

Form: TypeAlias = Literal["svg", "png"]

_MEDIA: Mapping[Form, str] = {"svg": "image/svg+xml", "png": "image/png"}


def diagram(
    patience: Patience,
    diagram: str | Mapping[str, Any] = "reliability",
    batch: str | None = None,
    *,
    form: Form = "svg",
    map: str | None = None,
    reduction: str | None = None,
    classes: Sequence[int] | None = None,
    **rows: Unpack[Rows],
) -> Steps[bytes]:
    """A picture of a stored batch, or of ``predictions`` and ``labels``; with ``map``, before and after it.

    ``diagram`` is a name, or an object with ``name`` and options.
    """
    fields = {"diagram": diagram, "batch": batch, "map": map, "reduction": reduction, "classes": classes}
    arrays, options = taken_apart(rows)
    request = with_rows("/diagrams", arrays, fields | options, headers={"Accept": _MEDIA[form]})
    return (yield from ask(patience, request)).content


def map_diagram(patience: Patience, ref: str, form: Form = "svg") -> Steps[bytes]:
    """A picture of a stored map's fit: the rows before and after it, from the bins that its record keeps."""
    request = Request("GET", path_of("maps", ref, f"diagram.{form}"), headers={"Accept": _MEDIA[form]})
    return (yield from ask(patience, request)).content
