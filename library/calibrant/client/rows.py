"""The rows of a call: arrays that are checked, or the batch that stands in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from calibrant.client.frames import ArrayLike, check_aligned, labels_of, names_of, numbers_of
from calibrant.client.packing import Array


class Rows(TypedDict, total=False):
    """Rows by keyword: ``predictions`` (n,) or (n, K), integer or boolean ``labels`` (n,), ``weights`` (n,).

    ``groups`` are a name per row; ``scale`` is ``probability`` or ``logit``; ``weights_kind`` is ``frequency`` or
    ``importance``. Each array may be numpy's, a list, or a Series or DataFrame of pandas or polars, whose columns are
    the classes in order.
    """

    predictions: ArrayLike
    labels: ArrayLike | None
    weights: ArrayLike | None
    groups: ArrayLike | None
    scale: str | None
    weights_kind: str | None


_ARRAYS = ("predictions", "labels", "weights", "groups")
_OPTIONS = ("scale", "weights_kind")


def taken_apart(rows: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the options of rows; raises ``UnusableRows`` for those that cannot be sent."""
    unknown = sorted(set(rows) - {*_ARRAYS, *_OPTIONS})
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    given = {name: rows[name] for name in _ARRAYS if rows.get(name) is not None}
    check_aligned(given)
    return {name: _array(name, value) for name, value in given.items()}, {name: rows.get(name) for name in _OPTIONS}


def _array(name: str, value: Any) -> Array:
    if name == "labels":
        return labels_of(value)
    return names_of(value) if name == "groups" else numbers_of(value, name)
