"""The rows of monitors: labelled rows, predictions now, and labels when they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Unpack

from calibrant.client.answers import RefusedRow, Taken
from calibrant.client.frames import ArrayLike
from calibrant.client.monitored import Beside, Form, arrays_of, packed, pieces
from calibrant.client.requests import path_of, read
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import JSON, Request, Steps

#: Rows of a request.
_PIECE = 100_000
_COUNTS = [field.name for field in fields(Taken) if field.name != "refusals"]


def send_rows(
    patience: Patience,
    monitor: str,
    predictions: ArrayLike,
    labels: ArrayLike,
    *,
    form: Form = "npz",
    piece: int = _PIECE,
    key: str | None = None,
    **beside: Unpack[Beside],
) -> Steps[Taken]:
    """Send labelled rows, in requests of at most ``piece`` rows; what became of all of them.

    ``predictions`` (n,) or (n, K), ``labels`` (n,), and beside them ``ids``, ``timestamps`` and ``groups`` (n,). Each
    request counts once, also where its connection breaks; sent again by another process, it counts once by its ids, or
    by a ``key`` of your own. ``form`` is how rows travel: ``npz``, ``arrow`` (which needs pyarrow) or ``json``. Row
    numbers in ``refusals`` are those of the arrays.

    >>> client.send_rows("inbox", [0.1, 0.8], [0, 1], ids=["mail-1", "mail-2"]).joined
    2
    """
    given = {"predictions": predictions, "labels": labels, **beside}
    return (yield from _sent(patience, monitor, "rows", given, form, piece, key))


def send_predictions(
    patience: Patience,
    monitor: str,
    ids: ArrayLike,
    predictions: ArrayLike,
    *,
    timestamps: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    form: Form = "npz",
    piece: int = _PIECE,
    key: str | None = None,
) -> Steps[Taken]:
    """Send predictions whose labels are not known yet, by your ``ids``; the rest as of ``send_rows``.

    >>> client.send_predictions("inbox", ["mail-3", "mail-4"], [0.2, 0.7]).accepted
    2
    """
    given = {"ids": ids, "predictions": predictions, "timestamps": timestamps, "groups": groups}
    return (yield from _sent(patience, monitor, "predictions", given, form, piece, key))


def send_labels(
    patience: Patience,
    monitor: str,
    ids: ArrayLike,
    labels: ArrayLike,
    *,
    timestamps: ArrayLike | None = None,
    form: Form = "npz",
    piece: int = _PIECE,
    key: str | None = None,
) -> Steps[Taken]:
    """Send labels of predictions that were sent, or will be, with these ``ids``; the rest as of ``send_rows``.

    ``timestamps`` are when they became known: now, where they are not given.

    >>> client.send_labels("inbox", ["mail-4"], [1]).joined
    1
    """
    given = {"ids": ids, "labels": labels, "timestamps": timestamps}
    return (yield from _sent(patience, monitor, "labels", given, form, piece, key))


def _sent(
    patience: Patience, monitor: str, what: str, given: Mapping[str, Any], form: Form, piece: int, key: str | None
) -> Steps[Taken]:
    path, taken = path_of("monitors", monitor, what), list[tuple[int, Taken]]()
    for start, arrays in pieces(arrays_of(given), piece):
        media, content = packed(arrays, form)
        headers = {"Accept": JSON, "Content-Type": media}
        if key is not None:
            headers["Idempotency-Key"] = f"{key}-{start}"
        answer = yield from ask(patience, Request("POST", path, headers=headers, content=content))
        taken.append((start, read(Taken, answer)))
    return _together(taken)


def _together(taken: Sequence[tuple[int, Taken]]) -> Taken:
    """The counts of all requests, and their refusals by the rows of the whole."""
    refusals = [
        RefusedRow(row=start + refused.row, code=refused.code, detail=refused.detail)
        for start, one in taken
        for refused in one.refusals
    ]
    counts = {name: sum(getattr(one, name) for _, one in taken) for name in _COUNTS}
    return Taken(**counts, refusals=refusals)
