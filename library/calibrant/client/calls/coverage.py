"""Evaluate prediction sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.client.answers import CoverageAnswer
from calibrant.client.frames import ArrayLike
from calibrant.client.requests import read, with_rows
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Steps
from calibrant.core.arrays import array_of, check_aligned, group_names


def evaluate_sets(
    patience: Patience,
    sets: Any,
    labels: ArrayLike,
    *,
    alpha: float | None = None,
    class_names: Sequence[Any] | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
    weights_kind: str | None = None,
    interval: float | None = None,
) -> Steps[CoverageAnswer]:
    """Measure how often prediction sets have the label of their row, by class, size and group, and how large they are.

    Parameters
    ----------
    sets : PredictionSets, array_like of bool, shape (n, K), or sequence of n collections
        As for ``calibrant.evaluate_sets``.
    labels : array_like, shape (n,)
        Number of the class of each row, or its name.
    alpha : float, optional
        Error level of the sets, if they do not have one.
    class_names : sequence, optional
        Names of the classes in the order of their numbers; needed for names.
    groups : array_like, shape (n,), or frame, optional
        Group of each row.
    weights : array_like, shape (n,), optional
        Weights of the rows.
    weights_kind : {"importance", "frequency"}, optional
        Kind of weights; by default importance.
    interval : float, optional
        Level of the intervals; by default 0.95.

    Returns
    -------
    CoverageAnswer
        The response of ``POST /coverage``.

    Examples
    --------
    >>> found = client.evaluate_sets([["cat"], ["cat", "dog"]], ["cat", "dog"], class_names=["cat", "dog"], alpha=0.1)
    >>> found.coverage, found.mean_size
    (1.0, 1.5)
    """
    from calibrant.sets.evaluation import read_alpha  # which needs SciPy
    from calibrant.sets.rows import read_members

    check_aligned({"sets": sets, "labels": labels, "groups": groups, "weights": weights})
    members, rows = read_members(sets, labels, class_names)
    arrays: dict[str, Any] = {"predictions": members.astype(np.uint8), "labels": rows.labels}
    if groups is not None:
        arrays["groups"] = np.array(group_names(groups), dtype=np.str_)
    if weights is not None:
        arrays["weights"] = array_of(weights, "weights")
    names = None if rows.class_names is None else list(rows.class_names)
    fields: dict[str, Any] = {"alpha": read_alpha(alpha, rows.alpha), "class_names": names, "interval": interval}
    request = with_rows("/coverage", arrays, {**fields, "weights_kind": weights_kind}, reads=True)
    return read(CoverageAnswer, (yield from send(patience, request)))
