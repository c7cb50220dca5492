"""What the server has and allows: catalogues, limits, and whether it is up."""

from __future__ import annotations

from calibrant.client.answers import DiagramEntry, Health, LimitsAnswer, MeasureEntry, MethodEntry
from calibrant.client.requests import get, read
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import Steps


def measures(patience: Patience) -> Steps[list[MeasureEntry]]:
    """Every measure, with its definition, range, options, cost and source.

    >>> "ece" in [measure.name for measure in client.measures()]
    True
    """
    return read(list[MeasureEntry], (yield from ask(patience, get("/measures"))))


def methods(patience: Patience) -> Steps[list[MethodEntry]]:
    """Every calibrator, with its options and source, and whether its fit is a job.

    >>> [method.runs for method in client.methods() if method.name == "averaged"]
    ['job']
    """
    return read(list[MethodEntry], (yield from ask(patience, get("/methods"))))


def diagrams(patience: Patience) -> Steps[list[DiagramEntry]]:
    """Every diagram, with what each of its data is, its options, cost and source.

    >>> "reliability" in [diagram.name for diagram in client.diagrams()]
    True
    """
    return read(list[DiagramEntry], (yield from ask(patience, get("/diagrams"))))


def limits(patience: Patience) -> Steps[LimitsAnswer]:
    """What a request, a key and a tenant may take, and what the tenant has taken.

    >>> client.limits().limits["max_rows"].value > 0
    True
    """
    return read(LimitsAnswer, (yield from ask(patience, get("/limits"))))


def live(patience: Patience) -> Steps[None]:
    """Return once the server answers.

    >>> client.live()
    """
    read(Health, (yield from ask(patience, get("/health/live"))))


def ready(patience: Patience) -> Steps[None]:
    """Return once the server can work; raises ``ProblemResponse`` where its store is away.

    >>> client.ready()
    """
    read(Health, (yield from ask(patience, get("/health/ready"))))
