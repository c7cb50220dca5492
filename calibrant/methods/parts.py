"""Fits that are made of several curves, one a class or one a rank: how they are parted, and put together again.

A part is a run of neighbouring curves. What it fits depends on the batch, the fit and the seed alone, never on the
other parts: parts may be fitted anywhere, in any order, and together they are what one process fits in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from calibrant.batch import Batch
from calibrant.errors import CalibrationError
from calibrant.maps.constant import Constant
from calibrant.maps.curves import Curve
from calibrant.maps.one_vs_rest import OneVsRest
from calibrant.maps.ranks import Ranks
from calibrant.maps.transforms import Transform, check_classes
from calibrant.methods.method import FitContext, Method
from calibrant.progress import Rising
from calibrant.reductions import Classes, Event, Vector, reduce, whole_vector

#: The reductions under which a map is made of curves of events.
OF_CURVES = ("classwise", "top-label", "ranks", "within-ranks")
#: At most so many parts, each worth at least so many seconds of estimated work.
MOST_PARTS, LEAST_SECONDS = 32, 0.25


def count_parts(curves: int, seconds: float, *, most: int = MOST_PARTS, least: float = LEAST_SECONDS) -> int:
    """Into how many parts curves go that take ``seconds`` in all; a part is worth ``least`` seconds if that can be.

    Examples
    --------
    >>> count_parts(100, 2.2), count_parts(100, 0.1), count_parts(100, 500.0), count_parts(3, 500.0)
    (8, 1, 32, 3)
    """
    return int(max(1, min(most, curves, seconds / least)))


def curves_of(part: int, parts: int, curves: int) -> range:
    """The curves of one part: neighbours, so many that no part has two more than another.

    Examples
    --------
    >>> [curves_of(part, 3, 10) for part in range(3)]
    [range(0, 3), range(3, 6), range(6, 10)]
    """
    if not 0 <= part < parts <= curves:
        raise ValueError("parts are counted from 0, and have a curve each")
    return range(curves * part // parts, curves * (part + 1) // parts)


def curves_under(reduction: str, wrapping: Mapping[str, Any], n_classes: int) -> int:
    """How many curves a map of K classes is made of under this reduction, with the options that it adds."""
    if reduction in ("classwise", "top-label"):
        return n_classes if reduction == "classwise" else 1
    most = n_classes - 1 if reduction == "within-ranks" else n_classes  # all classes together are certain
    return int(min(wrapping["n_ranks"] or most, most))


@dataclass(frozen=True)
class CurveFits:
    """The curves of a fit to one batch, under one of ``OF_CURVES``; ``wrapping`` are the options that it adds."""

    method: Method
    options: Mapping[str, Any]
    reduction: str
    wrapping: Mapping[str, Any]
    batch: Batch

    def __len__(self) -> int:
        return curves_under(self.reduction, self.wrapping, self.batch.predictions.n_classes or 1)

    @cached_property
    def vector(self) -> Vector:
        """The batch as whole vectors."""
        return whole_vector(self.batch)

    def fitted(self, chosen: range, context: FitContext, told: Rising) -> tuple[Curve, ...]:
        """The curves of a run of classes or ranks, each a part of what is told. What a fit raises names its own."""
        curves = []
        for part, (name, event) in enumerate(self._events(chosen)):
            told.begin(part)
            told(0, 1, name)
            try:
                curves.append(self._curve(event, _below(name, told, context)))
            except CalibrationError as error:
                raise type(error)(f"{name}: {error.detail}", error.offences) from error
        told.begin(len(chosen))
        told(0, 1, "curves")
        return tuple(curves)

    def together(self, curves: tuple[Curve, ...]) -> Transform:
        """The transform of all curves, in the order of the classes or ranks."""
        keep_order: bool = self.wrapping["keep_order"]
        if self.reduction == "classwise":
            return OneVsRest(curves, self.wrapping["renormalise"], keep_order)
        return Ranks(curves, self.reduction == "within-ranks", keep_order)

    def _events(self, chosen: range) -> Iterator[tuple[str, Event]]:
        if self.reduction == "classwise":
            check_classes(self.vector)
            yield from zip((f"class {k}" for k in chosen), Classes(self.vector).events(chosen), strict=True)
            return
        asked = "within-top" if self.reduction == "within-ranks" else "top"
        for rank in chosen:
            yield f"rank {rank + 1}", reduce(self.batch, f"{asked}:{rank + 1}")

    def _curve(self, event: Event, context: FitContext) -> Curve:
        """A curve; where a rank is never right, or always, (k + 1/2) / (m + 1) for k right of m."""
        if self.reduction != "classwise":
            cells = event.cells
            counted = cells.mass / float(cells.w2.sum()) if cells.kind == "importance" else 1.0
            positives, mass = float(cells.cumulative_wy[-1]) * counted, cells.mass * counted
            if not 0.0 < positives < mass:
                return Constant((positives + 0.5) / (mass + 1.0))
        return self.method.curve(event, context, self.options)[0]


def _below(name: str, told: Rising, context: FitContext) -> FitContext:
    """The context of one curve, whose stages stand below its name."""
    if context.progress is None:
        return context
    return replace(context, progress=lambda done, total, stage: told(done, total, f"{name}: {stage}"))
