"""Sending rows to monitors: labelled rows, predictions, and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Unpack

from calibrant.client.answers import IngestionResult
from calibrant.client.frames import ArrayLike
from calibrant.client.monitored import Encoding, RowFields, arrays_of, packed, pieces
from calibrant.client.requests import path_of, read
from calibrant.client.retries import Patience, send
from calibrant.client.steps import JSON, Request, Steps

#: Default number of rows per request.
PIECE = 100_000
_COUNTS = [field.name for field in fields(IngestionResult) if field.name != "refusals"]


def send_rows(
    patience: Patience,
    monitor: str,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    labels: ArrayLike,
    *,
    form: Encoding = "npz",
    piece: int = PIECE,
    key: str | None = None,
    **fields: Unpack[RowFields],
) -> Steps[IngestionResult]:
    """Send labelled rows to a monitor.

    Retries within this call are idempotent. To make sending again from another process idempotent, use ``ids`` or a
    ``key``.

    Parameters
    ----------
    predictions : array_like, or mapping of str to array_like
        (n,) or (n, K). For a monitor of regression a mapping with ``mean`` and ``std`` or ``variance``, ``quantiles``,
        ``samples``, or ``lower`` and ``upper``, or these columns, with variances.
    labels : array_like
        (n,), integers or booleans; for a monitor of regression, the outcomes.
    **fields
        ``ids`` (n,), integers or strings; ``timestamps`` (n,), seconds since 1970 or datetimes, by default now; and
        ``groups`` (n,), one name per row.

    Returns
    -------
    IngestionResult
        Counts over all requests; ``refusals`` have indices into the arrays.

    Examples
    --------
    >>> client.send_rows("inbox", [0.1, 0.8], [0, 1], ids=["mail-1", "mail-2"]).joined
    2
    """
    columns = {"predictions": predictions, "labels": labels, **fields}
    return (yield from _sent(patience, monitor, "rows", columns, form, piece, key))


def send_predictions(
    patience: Patience,
    monitor: str,
    ids: ArrayLike,
    predictions: ArrayLike | Mapping[str, ArrayLike],
    *,
    timestamps: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    form: Encoding = "npz",
    piece: int = PIECE,
    key: str | None = None,
) -> Steps[IngestionResult]:
    """Send predictions without labels to a monitor; ``send_labels`` adds the labels later.

    Parameters
    ----------
    ids : array_like
        (n,), integers or strings that join the predictions with their labels.
    predictions : array_like, or mapping of str to array_like
        As for ``send_rows``.
    timestamps, groups
        As for ``send_rows``.

    Returns
    -------
    IngestionResult
        Counts over all requests; ``refusals`` have indices into the arrays.

    Examples
    --------
    >>> client.send_predictions("inbox", ["mail-3", "mail-4"], [0.2, 0.7]).accepted
    2
    """
    columns = {"ids": ids, "predictions": predictions, "timestamps": timestamps, "groups": groups}
    return (yield from _sent(patience, monitor, "predictions", columns, form, piece, key))


def send_labels(
    patience: Patience,
    monitor: str,
    ids: ArrayLike,
    labels: ArrayLike,
    *,
    timestamps: ArrayLike | None = None,
    form: Encoding = "npz",
    piece: int = PIECE,
    key: str | None = None,
) -> Steps[IngestionResult]:
    """Send labels for predictions with the same ids, which may also arrive later.

    Parameters
    ----------
    ids : array_like
        (n,), ids of the predictions.
    labels : array_like
        (n,), integers or booleans.
    timestamps : array_like, optional
        When the labels became known; by default now.

    Returns
    -------
    IngestionResult
        Counts over all requests; ``refusals`` have indices into the arrays.

    Examples
    --------
    >>> client.send_labels("inbox", ["mail-4"], [1]).joined
    1
    """
    columns = {"ids": ids, "labels": labels, "timestamps": timestamps}
    return (yield from _sent(patience, monitor, "labels", columns, form, piece, key))


def _sent(
    patience: Patience, monitor: str, what: str, columns: Mapping[str, Any], form: Encoding, piece: int, key: str | None
) -> Steps[IngestionResult]:
    path, outcomes = path_of("monitors", monitor, what), list[tuple[int, IngestionResult]]()
    for start, arrays in pieces(arrays_of(columns), piece):
        media, content = packed(arrays, form)
        headers = {"Accept": JSON, "Content-Type": media}
        if key is not None:
            headers["Idempotency-Key"] = f"{key}-{start}"
        answer = yield from send(patience, Request("POST", path, headers=headers, content=content))
        outcomes.append((start, read(IngestionResult, answer)))
    return _merged(outcomes)


def _merged(outcomes: Sequence[tuple[int, IngestionResult]]) -> IngestionResult:
    """Add the counts of all requests; the rows of refusals become indices into the whole arrays."""
    refusals = [replace(refused, row=start + refused.row) for start, result in outcomes for refused in result.refusals]
    counts = {name: sum(getattr(result, name) for _, result in outcomes) for name in _COUNTS}
    return IngestionResult(**counts, refusals=refusals)
