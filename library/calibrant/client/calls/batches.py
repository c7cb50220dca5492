"""Batches: predictions and labels stored once, used many times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.client.answers import BatchesAnswer, BatchRecord
from calibrant.client.calls.pages import pages
from calibrant.client.frames import ArrayLike, split_rows
from calibrant.client.requests import get, path_of, read, with_rows
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import JSON, Items, Request, Steps


def upload(
    patience: Patience,
    predictions: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    scale: str = "probability",
    weights_kind: str = "frequency",
    ttl: int | None = None,
) -> Steps[BatchRecord]:
    """Store a batch: ``predictions`` (n,) or (n, K), integer or boolean ``labels`` (n,), ``weights``, ``groups`` (n,).

    Each may be numpy's, a list, or a Series or DataFrame of pandas or polars, whose columns are the classes in order.
    ``ttl`` is the seconds that it is kept.

    >>> client.upload([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1]).positive_rate
    0.5
    """
    given = {"predictions": predictions, "labels": labels, "weights": weights, "groups": groups}
    arrays, _ = split_rows(given)
    options = {"scale": scale, "weights_kind": weights_kind, "ttl": ttl}
    answer = yield from ask(patience, with_rows("/batches", arrays, options))
    return read(BatchRecord, answer)


def append(
    patience: Patience,
    batch: str,
    predictions: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    key: str | None = None,
) -> Steps[BatchRecord]:
    """Append rows to a stored batch, once even where the connection breaks; also by who sends ``key`` again.

    >>> stored = client.upload([0.1, 0.9], [0, 1])
    >>> client.append(stored.id, [0.4], [0]).n
    3
    """
    arrays, _ = split_rows({"predictions": predictions, "labels": labels, "weights": weights, "groups": groups})
    headers: Mapping[str, str] = {} if key is None else {"Idempotency-Key": key}
    answer = yield from ask(patience, with_rows(path_of("batches", batch, "rows"), arrays, {}, headers=headers))
    return read(BatchRecord, answer)


def batch(patience: Patience, batch_id: str) -> Steps[BatchRecord]:
    """What is known of a stored batch.

    >>> client.batch(client.upload([0.1, 0.9]).id).arrays
    ['predictions']
    """
    answer = yield from ask(patience, get(path_of("batches", batch_id)))
    return read(BatchRecord, answer)


def batches(
    patience: Patience, *, created_after: str | None = None, created_before: str | None = None
) -> Items[BatchRecord]:
    """The stored batches that have not expired, newest first; pages are read as they are needed.

    Times are RFC 3339 with an offset.

    >>> stored = client.upload([0.1, 0.9])
    >>> stored.id in [batch.id for batch in client.batches()]
    True
    """
    query: dict[str, Any] = {"created_after": created_after, "created_before": created_before}
    yield from pages(patience, "/batches", query, BatchesAnswer)


def delete_batch(patience: Patience, batch_id: str) -> Steps[None]:
    """Forget a batch now; refused while a job that has not ended needs it.

    >>> client.delete_batch(client.upload([0.1, 0.9]).id)
    """
    yield from ask(patience, Request("DELETE", path_of("batches", batch_id), headers={"Accept": JSON}, forgets=True))
