"""Batches: stored predictions and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.client.answers import BatchRecord
from calibrant.client.frames import ArrayLike, split_rows
from calibrant.client.requests import path_of, read, with_rows
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Steps


def upload(
    patience: Patience,
    predictions: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: ArrayLike | None = None,
    groups: Any = None,
    scale: str = "probability",
    weights_kind: str = "importance",
    ttl: int | None = None,
) -> Steps[BatchRecord]:
    """Store a batch of predictions.

    Parameters
    ----------
    predictions : array_like
        (n,) for P(Y=1), or (n, K); the columns of a DataFrame are the classes in order.
    labels : array_like, optional
        (n,), integers 0 to K - 1 or booleans; or others, with ``class_names``, ``pos_label`` or a frame of predictions
        whose columns are named after them.
    class_names : sequence, optional
        Labels of the classes in the order of the columns, which the batch and its maps keep.
    pos_label : str, int or bool, optional
        Label of the positive class, for two classes.
    weights : array_like, optional
        (n,), at least 0.
    groups : array_like or frame, optional
        Group of each row, or several columns.
    scale : {"probability", "logit"}
        Scale of the predictions.
    weights_kind : {"importance", "frequency"}
        Kind of weights.
    ttl : int, optional
        Seconds until the batch expires; by default chosen by the server.

    Returns
    -------
    BatchRecord
        The stored batch.

    Raises
    ------
    UnusableRows
        If the rows cannot be sent.

    Examples
    --------
    >>> client.upload([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1]).positive_rate
    0.5
    """
    given = {"predictions": predictions, "labels": labels, "weights": weights, "groups": groups}
    arrays, named = split_rows({**given, "class_names": class_names, "pos_label": pos_label})
    options = {**named, "scale": scale, "weights_kind": weights_kind, "ttl": ttl}
    answer = yield from send(patience, with_rows("/batches", arrays, options))
    return read(BatchRecord, answer)


def append(
    patience: Patience,
    batch: str | BatchRecord,
    predictions: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    key: str | None = None,
) -> Steps[BatchRecord]:
    """Append rows to a stored batch; retries are idempotent.

    Parameters
    ----------
    batch : str or BatchRecord
        Id of the batch.
    predictions, labels, weights, groups
        As for ``upload``.
    key : str, optional
        Idempotency key; a repeated call with the same key does not append again.

    Returns
    -------
    BatchRecord
        The batch after the append.

    Examples
    --------
    >>> stored = client.upload([0.1, 0.9], [0, 1])
    >>> client.append(stored.id, [0.4], [0]).n
    3
    """
    arrays, _ = split_rows({"predictions": predictions, "labels": labels, "weights": weights, "groups": groups})
    headers: Mapping[str, str] = {} if key is None else {"Idempotency-Key": key}
    answer = yield from send(patience, with_rows(path_of("batches", batch, "rows"), arrays, {}, headers=headers))
    return read(BatchRecord, answer)
