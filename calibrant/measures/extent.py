"""How much a measure has to read, for the estimate of what it costs."""

from __future__ import annotations

from typing import NamedTuple

from calibrant.batch import Batch
from calibrant.reductions import MANY, Classes, Subject, Vector


class Extent(NamedTuple):
    """How much a measure has to read: ``rows`` of ``n_classes`` probabilities each, for ``events`` in turn."""

    rows: int
    n_classes: int = 1
    events: int = 1


def extent(subject: Subject) -> Extent:
    """The extent of a subject."""
    if isinstance(subject, Classes):
        return Extent(len(subject), 1, subject.vector.n_classes)
    return Extent(len(subject), subject.n_classes if isinstance(subject, Vector) else 1)


def extent_of(batch: Batch, reduction: str) -> Extent:
    """The extent of ``subject(batch, reduction)``, without making it."""
    n, K = len(batch), batch.predictions.n_classes or 2
    if reduction in MANY:
        return Extent(n, 1, K) if reduction == "classwise" else Extent(n, K)
    # Some measures of the confidence look at the whole vector.
    return Extent(n * K) if reduction == "pooled" else Extent(n, K if reduction == "confidence" else 1)
