"""What a calibrator is: how its curve or transform is fitted, its options, and what is known of its maps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.asked import Option, read_values
from calibrant.errors import InvalidOption
from calibrant.maps.curves import Curve
from calibrant.maps.transforms import Transform
from calibrant.progress import Progress
from calibrant.reductions import Event, Vector

#: A function, and what its fit told.
FittedCurve = tuple[Curve, dict[str, Any]]
FittedTransform = tuple[Transform, dict[str, Any]]


@dataclass(frozen=True)
class FitContext:
    """What a fit is given beside its data and options."""

    seed: int
    device: str
    progress: Progress | None


@dataclass(frozen=True)
class Traits:
    """What is known of a method's maps, in words."""

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
    #: Whether the distance of its map from the diagonal tells how well predictions are calibrated.
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
            told = ", ".join(known)
            raise InvalidOption.at(where, f"has an option that {self.name} does not know; its options: {told}")
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
        """Every option, with its default and, where the table tells them, the allowed values in words."""
        if isinstance(self.options, Mapping):
            return {name: {"default": o.default, "allowed": o.allowed} for name, o in self.options.items()}
        return {f.name: {"default": f.default, "allowed": None} for f in dataclasses.fields(self.options)}


def fit_curve(method: Method, event: Event, progress: Progress | None = None) -> FittedCurve:
    """Fit to an event with the method's own defaults."""
    return method.curve(event, FitContext(0, "cpu", progress), method.read_options({}))
