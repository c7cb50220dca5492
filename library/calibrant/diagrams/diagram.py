"""What a diagram is, what it shows, and how a request for one is drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from calibrant.errors import CalibrationError, MissingExtra
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import Extent
from calibrant.options import Option
from calibrant.progress import step
from calibrant.reductions import Event, Subject

Runs = Literal["inline", "job"]
#: Seconds that a row costs a diagram, which sorts and adds up.
_ROW = 3e-7
#: What stands in place of intervals where rows hang together.
DEPENDENT = "no intervals: the probabilities of one row hang together"


@dataclass(frozen=True)
class Picture:
    """The numbers that a diagram draws: arrays and numbers, all finite. ``problem`` says what is missing of them."""

    problem: str | None = field(default=None, kw_only=True)

    def to_document(self) -> dict[str, Any]:
        """The fields as plain JSON, without the problem."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "problem"}


@dataclass(frozen=True)
class Diagram:
    """An entry of the catalogue.

    ``draw`` makes the picture of an event; it takes the resampling, for its seed and how many resamples, and the
    options. ``shown`` says what each field of the picture is. ``runs`` decides from the options whether the service
    leaves it to a job, ``seconds`` how long n events (n K under pooled) take.
    """

    name: str
    title: str
    definition: str
    source: str
    draw: Callable[..., Picture]
    shown: Mapping[str, str]
    cost: str
    options: Mapping[str, Option] = field(default_factory=dict)
    runs: Callable[[Mapping[str, Any]], Runs] = lambda _: "inline"
    seconds: Callable[[int, Mapping[str, Any], Resampling], float] = lambda n, _options, _resampling: _ROW * n


@dataclass(frozen=True)
class DiagramRequest:
    """A request for a diagram, with every option filled in and the key of its result."""

    key: str
    diagram: Diagram
    options: Mapping[str, Any]

    @property
    def runs(self) -> Runs:
        """Whether the service draws it at once or leaves it to a job."""
        return self.diagram.runs(self.options)

    def seconds(self, extent: Extent, resampling: Resampling = PLAIN) -> float:
        """Estimated seconds of ``drawn``."""
        return self.diagram.seconds(extent.rows, self.options, resampling)

    def drawn(self, subject: Subject, resampling: Resampling = PLAIN) -> dict[str, Any]:
        """The diagram of one subject as plain JSON: ``data``, the ``definition`` in full and the ``problem`` or None.

        ``data`` is None where the diagram cannot be drawn: under ``classwise`` and ``canonical``, and of an event that
        lacks what it needs.
        """
        definition = {"name": self.diagram.name, **self.options}
        if not isinstance(subject, Event):
            problem = "no diagram: it is defined for one event, under binary, confidence, class:k, top:r or pooled"
            return {"data": None, "definition": definition, "problem": problem}
        try:
            picture = self.diagram.draw(subject, resampling, **self.options)
        except MissingExtra:
            raise
        except CalibrationError as error:
            return {"data": None, "definition": definition, "problem": f"no diagram: {error.detail}"}
        return {"data": picture.to_document(), "definition": definition, "problem": picture.problem}


def diagrams_of(
    requests: Iterable[DiagramRequest], subject: Subject, resampling: Resampling
) -> dict[str, dict[str, Any]]:
    """The diagrams of all requests, by key."""
    drawn, requests = {}, list(requests)
    for i, request in enumerate(requests):
        with step(i, len(requests), request.key):
            drawn[request.key] = request.drawn(subject, resampling)
    return drawn


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Picture):
        return value.to_document()
    return value.item() if isinstance(value, np.generic) else value
