"""The protocol of maps of the whole vector, their application, and readers of their documents."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol, cast

import numpy as np

from calibrant.core.batch import Predictions
from calibrant.core.cells import Floats
from calibrant.core.errors import MissingClass
from calibrant.core.progress import check
from calibrant.core.reductions import Vector
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.maps.parameters import FittedFunction

#: Input of a transform: given logits or logarithms of probabilities; given probabilities or the softmax of logits; or
#: either as given, with a method ``of_logits``.
Takes = Literal["logits", "probabilities", "either"]

#: Elements of a matrix that are processed at once.
_BLOCK = 1 << 18
#: Number of blocks between two checks for cancellation.
_BLOCKS = 4


class Transform(FittedFunction, Protocol):
    """A fitted function of a vector."""

    takes: ClassVar[Takes]

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities, float64 ``(n, K)``, for its input ``(n, K)``, float64 or float32."""
        ...


def transformed(transform: Transform, of: Predictions | Vector) -> Floats:
    """Return calibrated probabilities ``(n, K)``, converting predictions to the input of the transform in blocks."""
    logits = None if transform.takes == "probabilities" else of.logits
    needs_logits = transform.takes == "logits" and logits is None
    function: Any = transform if logits is None or transform.takes == "logits" else cast(Any, transform).of_logits
    if logits is None:
        logits = of.values if isinstance(of, Predictions) else of.p
    calibrated = np.empty(logits.shape)
    for part in blocks_of_rows(logits, 1 if needs_logits else _BLOCKS):
        check()
        calibrated[part] = function(logits_block(logits[part], True) if needs_logits else logits[part])
    return calibrated


def blocks_of_rows(rows: Floats, times: int = 1) -> list[slice]:
    """Return blocks of rows of ``(n, K)``, each of ``times`` 2 MB in float64."""
    height = times * max(1, _BLOCK // rows.shape[1])
    return [slice(start, start + height) for start in range(0, len(rows), height)]


def logits_block(rows: Floats, probabilities: bool) -> Floats:
    """Return a copy of logits ``(h, K)``, or ``logarithms`` of probabilities, in float64."""
    block: Floats = rows.astype(np.float64)
    return logarithms(block) if probabilities else block


def logarithms(p: Floats, axis: int = 1) -> Floats:
    """Overwrite probabilities with their logarithms, and return them; classes are along ``axis``.

    A probability of 0 becomes 2^-52, or half of the smallest probability of its row if that is smaller, so that the
    order of the classes and the ratios of small probabilities are kept.
    """
    if p.min() <= 0.0:
        least = np.where(p > 0.0, p, np.inf).min(axis=axis, keepdims=True)
        number = np.finfo(p.dtype)
        floor = np.maximum(np.minimum(least / 2.0, PROBABILITY_CLIP), number.smallest_subnormal).astype(p.dtype)
        np.maximum(p, floor, out=p)
    return np.log(p, out=p)


def check_classes(vector: Vector) -> None:
    """Raise ``MissingClass`` for the first class without rows."""
    rows = vector.labels if vector.w is None else vector.labels[vector.w > 0.0]
    missing = np.flatnonzero(np.bincount(rows, minlength=vector.n_classes) == 0)
    if len(missing):
        raise MissingClass.at("/labels", f"contain no row of class {missing[0]}, but this fit needs every class")


def normalised(p: Floats) -> Floats:
    """Return rows divided by their sum ``(n, K)``; rows of zeros become 1/K."""
    total = p.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0.0)
    return shares


def in_order_of(p: Floats, ranking: Floats) -> Floats:
    """Rearrange the values of each row of ``p (n, K)`` so that classes have the same order as in ``ranking (n, K)``.

    Of equal values in ``ranking`` the first class ranks first.
    """
    rearranged = np.empty_like(p)
    order = np.argsort(-ranking, axis=1, kind="stable")
    np.put_along_axis(rearranged, order, -np.sort(-p, axis=1), axis=1)
    return rearranged
