"""Maps: fitted, applied, listed, described, exported and imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
import orjson

from calibrant.client.answers import JobAnswer, ListedMap, MapPage, MapRecord
from calibrant.client.calls.jobs import Progress, wait
from calibrant.client.calls.pages import pages
from calibrant.client.errors import unreadable
from calibrant.client.frames import Rows, given_back, numbers_of, split_rows
from calibrant.client.packing import Array, unpack
from calibrant.client.requests import get, path_of, read, with_fields, with_predictions, with_rows
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import JSON, Items, Request, Steps

Floats = npt.NDArray[np.float64]


class Bounds(NamedTuple):
    """Calibrated probabilities of a Venn-Abers map, and the pair that each is merged of, in the form of its input."""

    predictions: Any
    p0: Any
    p1: Any


def fit(
    patience: Patience,
    method: str = "averaged",
    batch: str | None = None,
    *,
    name: str | None = None,
    reduction: str | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    tags: Mapping[str, str] | None = None,
    description: str | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    **rows: Unpack[Rows],
) -> Steps[MapRecord]:
    """Fit a map to a stored batch, or to ``predictions`` and ``labels``, and wait for it.

    ``progress`` is called with its job, if there is one. Raises ``JobFailed`` for a fit that ended without a map,
    ``JobTimeout`` after ``timeout`` seconds.

    >>> client.fit("platt", name="spam", predictions=p, labels=y).method
    'platt'
    """
    fields: dict[str, Any] = {"method": method, "batch": batch, "name": name, "reduction": reduction, "seed": seed}
    fields |= {"options": dict(options or {}), "tags": dict(tags or {}), "description": description}
    arrays, how = split_rows(rows)
    answer = yield from ask(patience, with_rows("/maps", arrays, fields | how))
    if answer.status != 202:
        return read(MapRecord, answer)
    job = yield from wait(patience, read(JobAnswer, answer).id, timeout=timeout, progress=progress)
    return (yield from map(patience, str((job.result or {})["map"])))


def calibrate(patience: Patience, map: str, predictions: Any, *, scale: str | None = None) -> Steps[Any]:
    """Apply a stored map: calibrated probabilities of its event (n,), or of each class (n, K).

    They come in the form of ``predictions``: as numpy's array, or as a Series or DataFrame of pandas or polars with the
    same index, name and columns. Of the columns of a DataFrame a map of one event makes a Series.

    >>> client.calibrate("spam:1", [0.2, 0.8]).shape
    (2,)
    """
    arrays = yield from _calibrated(patience, {"map": map, "scale": scale}, predictions)
    return given_back(predictions, arrays["predictions"])


def bounds(patience: Patience, map: str, predictions: Any, *, scale: str | None = None) -> Steps[Bounds]:
    """Apply a Venn-Abers map, and tell the pair of probabilities that it merges; any other map is refused.

    >>> fitted = client.fit("venn-abers", predictions=p, labels=y)
    >>> merged, p0, p1 = client.bounds(fitted.id, [0.2, 0.8])
    >>> bool((p0 <= merged).all() and (merged <= p1).all())
    True
    """
    arrays = yield from _calibrated(patience, {"map": map, "scale": scale, "bounds": True}, predictions)
    return Bounds(*(given_back(predictions, arrays[name]) for name in ("predictions", "p0", "p1")))


def _calibrated(patience: Patience, fields: Mapping[str, Any], predictions: Any) -> Steps[dict[str, Array]]:
    given = numbers_of(predictions, "predictions")
    answer = yield from ask(patience, with_predictions("/calibrate", given, fields))
    try:
        return unpack(answer.content)
    except ValueError as error:
        raise unreadable(answer) from error


def map(patience: Patience, ref: str) -> Steps[MapRecord]:  # noqa: A001
    """A stored map by id, name, ``name:version`` or ``name@alias``.

    >>> client.map("spam").version
    1
    """
    answer = yield from ask(patience, get(path_of("maps", ref)))
    return read(MapRecord, answer)


def maps(
    patience: Patience,
    *,
    name: str | None = None,
    method: str | None = None,
    reduction: str | None = None,
    scale: str | None = None,
    alias: str | None = None,
    tags: Sequence[str] = (),
    created_by: str | None = None,
    n_classes: int | None = None,
) -> Items[ListedMap]:
    """The stored maps that pass every filter, newest first, read page by page as they are iterated over.

    ``tags`` are names, or ``name=value``; ``alias`` is one of the maps' own names' aliases, such as ``champion``.

    >>> [f"{stored.name}:{stored.version}" for stored in client.maps(name="spam")]
    ['spam:1']
    """
    query: dict[str, Any] = {"name": name, "method": method, "reduction": reduction, "scale": scale, "alias": alias}
    query |= {"created_by": created_by, "n_classes": n_classes, "tag": list(tags) or None}
    yield from pages(patience, "/maps", query, MapPage)


def describe(
    patience: Patience, ref: str, *, tags: Mapping[str, str | None] | None = None, description: str | None = None
) -> Steps[MapRecord]:
    """Set tags of a map, those of value None being removed, and its description; the rest stays as it is.

    >>> client.describe("spam", tags={"stage": "shadow"}).tags
    {'stage': 'shadow'}
    """
    changes = {"tags": None if tags is None else dict(tags), "description": description}
    answer = yield from ask(patience, with_fields("PATCH", path_of("maps", ref), changes))
    return read(MapRecord, answer)


def delete_map(patience: Patience, ref: str) -> Steps[None]:
    """Forget a map, named by id or ``name:version``, at which no alias points.

    >>> client.delete_map(client.fit("platt", predictions=p, labels=y).id)
    """
    yield from ask(patience, Request("DELETE", path_of("maps", ref), headers={"Accept": JSON}, forgets=True))


def export_map(patience: Patience, ref: str) -> Steps[dict[str, Any]]:
    """The document of a map, from whose numbers alone it can be applied: ``calibrant.load`` reads it.

    >>> client.export_map("spam:1")["method"]
    'platt'
    """
    answer = yield from ask(patience, get(path_of("maps", ref, "document")))
    try:
        document: dict[str, Any] = orjson.loads(answer.content)
    except ValueError as error:
        raise unreadable(answer) from error
    return document


def import_map(
    patience: Patience,
    document: Mapping[str, Any],
    *,
    name: str | None = None,
    tags: Mapping[str, str] | None = None,
    description: str | None = None,
) -> Steps[MapRecord]:
    """Store a map from its document.

    >>> client.import_map(client.export_map("spam:1")).imported
    True
    """
    fields = {"document": dict(document), "tags": dict(tags or {}), "name": name, "description": description}
    answer = yield from ask(patience, with_fields("POST", "/maps/import", fields))
    return read(MapRecord, answer)
