"""The base classes of diagrams, and requests for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.core.choices import Runs as Runs
from calibrant.core.errors import CalibrationError, MissingExtra
from calibrant.core.options import Described, Option
from calibrant.core.progress import step
from calibrant.core.reductions import Event, Subject, naming_reductions
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import Extent

#: Seconds per row of a diagram that sorts and sums.
_ROW = 3e-7


def no_intervals(event: Event) -> str | None:
    """Return the problem of a diagram without intervals, which assume independent events; None if they are."""
    if event.independent:
        return None
    several = "rows of a cluster" if event.clusters is not None else "the probabilities of one row"
    return f"no intervals: {several} are dependent"


@dataclass(frozen=True)
class Picture:
    """The data of a diagram: finite numbers and arrays. ``problem`` is the reason why data is missing, or None."""

    problem: str | None = field(default=None, kw_only=True)

    def to_document(self) -> dict[str, Any]:
        """Return the fields as JSON, without the problem."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "problem"}


@dataclass(frozen=True, repr=False)
class Diagram(Described):
    """An entry of the catalogue.

    Attributes
    ----------
    name, title, definition, source, cost : str
        Description.
    draw : callable
        Computes the data from an event, the resampling and the options.
    shown : mapping of str to str
        Description of each field of the data.
    options : mapping of str to Option
        Options with defaults.
    runs : callable
        Whether the service computes it inline or as a job, depending on the options.
    seconds : callable
        Estimated seconds for n events (n K under pooled).
    caption : str
        How the picture is read, and on logit axes if that differs.
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
    caption: str = field(kw_only=True)
    caption_on_logit_axes: str | None = field(default=None, kw_only=True)

    def caption_of(self, data: Mapping[str, Any]) -> str:
        """Return the caption of a picture of this data."""
        return (self.caption_on_logit_axes if data.get("axes") == "logit" else None) or self.caption


@dataclass(frozen=True)
class DiagramRequest:
    """A request for a diagram, with every option filled in and the key of its result."""

    key: str
    diagram: Diagram
    options: Mapping[str, Any]

    @property
    def runs(self) -> Runs:
        """Whether the service computes it inline or as a job."""
        return self.diagram.runs(self.options)

    def seconds(self, extent: Extent, resampling: Resampling = PLAIN) -> float:
        """Estimated seconds of ``drawn``."""
        return self.diagram.seconds(extent.rows, self.options, resampling)

    def drawn(self, subject: Subject, resampling: Resampling = PLAIN) -> dict[str, Any]:
        """Return the diagram of a subject as JSON: ``data``, the full ``definition``, and ``problem`` or None.

        ``data`` is None if the diagram is not defined: under ``classwise`` and ``canonical``, or if the event does not
        meet its requirements.
        """
        definition = {"name": self.diagram.name, **self.options}
        if not isinstance(subject, Event):
            events = "binary, confidence, class:k, top:r, within-top:r or pooled"
            problem = f"no diagram: it is defined for one event, under {events}"
            return {"data": None, "definition": definition, "problem": problem}
        try:
            with naming_reductions(subject, classwise=False):
                picture = self.diagram.draw(subject, resampling, **self.options)
        except MissingExtra:
            raise
        except CalibrationError as error:
            return {"data": None, "definition": definition, "problem": f"no diagram: {error.detail}"}
        return {"data": picture.to_document(), "definition": definition, "problem": picture.problem}


def diagrams_of(
    requests: Iterable[DiagramRequest], subject: Subject, resampling: Resampling
) -> dict[str, dict[str, Any]]:
    """Return the diagrams of all requests, by key."""
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


def read_argument(
    read: Callable[[Any], Sequence[DiagramRequest]], diagram: str, options: Mapping[str, Any]
) -> DiagramRequest:
    """Return the request of one diagram; errors name its arguments in place of a place in a list of diagrams."""
    try:
        (request,) = read([{"name": diagram, **options}])
    except CalibrationError as error:
        first = error.offences[0]
        place = first.pointer.removeprefix("/diagrams/0") or "/diagram"
        raise type(error).at(place, first.detail) from None
    return request
