"""What a calibrator is, and fits that are made of several curves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from calibrant.batch import Batch
from calibrant.errors import CalibrationError, InvalidOption
from calibrant.maps.curves import Constant, Curve
from calibrant.maps.ranks import OneVsRest, Ranks
from calibrant.maps.transforms import Transform, check_classes
from calibrant.options import Option, read_values
from calibrant.progress import Progress, report, step
from calibrant.reductions import Classes, Event, Vector, reduce, whole_vector

#: A function, and the diagnostics of its fit.
FittedCurve = tuple[Curve, dict[str, Any]]
FittedTransform = tuple[Transform, dict[str, Any]]


@dataclass(frozen=True)
class FitContext:
    """What a fit is given beside its data and options. ``progress`` may raise to end it."""

    seed: int = 0
    device: str = "cpu"
    progress: Progress | None = None


@dataclass(frozen=True)
class Traits:
    """What is known of a method's maps, as short texts."""

    takes: str
    parameters: str
    outside: str
    monotone: str
    keeps_top_label: str
    differentiable: str


def _accept(subject: Event | Vector, **options: Any) -> None:
    """Nothing to refuse that the fit itself would not refuse at once."""


@dataclass(frozen=True)
class Method:
    """An entry of the catalogue.

    ``event`` fits a curve to an event, ``vector`` a transform to the whole vector, or is None where the method has
    none; both take the subject, the context and the options. ``runs`` says whether the service may fit it inline;
    ``check`` refuses, before a job is made of it, what the fit would refuse. ``options`` are a table, or a dataclass
    that checks itself and is handed on as ``options``.
    """

    name: str
    title: str
    definition: str
    source: str
    traits: Traits
    event: Callable[..., FittedCurve] | None = None
    vector: Callable[..., FittedTransform] | None = None
    options: Mapping[str, Option] | type[Any] = field(default_factory=dict)
    runs: Literal["inline", "job"] = "inline"
    #: Whether its fit runs on the context's device.
    on_device: bool = False
    #: Whether the distance of its map from the diagonal measures how well predictions are calibrated.
    evaluates: bool = True
    #: Estimated seconds of a fit to n rows (n K of them of a vector of K), for these options.
    seconds: Callable[[int, int, Mapping[str, Any]], float] = lambda n, K, _options: 3e-7 * n * K
    check: Callable[..., None] = _accept

    def read_options(self, options: Mapping[str, Any], *, where: str = "") -> dict[str, Any]:
        """Check options by name; raises ``InvalidOption`` naming the first that is wrong, below ``where``."""
        if isinstance(self.options, Mapping):
            return read_values(options, self.options, self.name, where=where)
        known = self.known_options()
        if any(name not in known for name in options):
            names = ", ".join(known)
            raise InvalidOption.at(where, f"has an option that {self.name} does not know; its options: {names}")
        # JSON has no tuples.
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
        try:
            return {"options": self.options(**values)}
        except InvalidOption as error:
            raise error.under(where) from None

    def curve(self, event: Event, context: FitContext, options: Mapping[str, Any]) -> FittedCurve:
        """Fit to an event, with options that are read."""
        if self.event is None:
            raise TypeError(f"{self.name} fits no event")
        return self.event(event, context, **options)

    def known_options(self) -> dict[str, dict[str, Any]]:
        """Every option, with its default and, if the options are a table, a description of the allowed values."""
        if isinstance(self.options, Mapping):
            return {name: {"default": o.default, "allowed": o.allowed} for name, o in self.options.items()}
        return {f.name: {"default": f.default, "allowed": None} for f in dataclasses.fields(self.options)}


def fit_curve(method: Method, event: Event) -> FittedCurve:
    """Fit to an event with the method's own defaults."""
    return method.curve(event, FitContext(), method.read_options({}))


# --- Fits of several curves, one for each class or rank: in parts, and joined
#
# A part is a run of neighbouring curves. What it fits depends on the batch, the fit and the seed alone, never on the
# other parts: parts may be fitted anywhere, in any order, and together they are what one process fits in a row.

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

    def fitted(self, chosen: range, context: FitContext, steps: int) -> tuple[Curve, ...]:
        """The curves of a run of classes or ranks, each one of ``steps``. An error names the class or rank it is of."""
        curves = []
        for part, (name, event) in enumerate(self._events(chosen)):
            with step(part, steps, name):
                try:
                    curves.append(self._curve(event, context))
                except CalibrationError as error:
                    raise type(error)(f"{name}: {error.detail}", error.offences) from error
        report(len(chosen), steps, "curves")
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
        prefix = "within-top" if self.reduction == "within-ranks" else "top"
        for rank in chosen:
            yield f"rank {rank + 1}", reduce(self.batch, f"{prefix}:{rank + 1}")

    def _curve(self, event: Event, context: FitContext) -> Curve:
        """A curve; where a rank is never right, or always, (k + 1/2) / (m + 1) for k right of m."""
        if self.reduction != "classwise":
            cells = event.cells
            counted = cells.mass / float(cells.w2.sum()) if cells.kind == "importance" else 1.0
            positives, mass = float(cells.cumulative_wy[-1]) * counted, cells.mass * counted
            if not 0.0 < positives < mass:
                return Constant((positives + 0.5) / (mass + 1.0))
        return self.method.curve(event, context, self.options)[0]
