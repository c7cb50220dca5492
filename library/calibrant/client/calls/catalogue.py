"""Catalogues, limits and health of the server."""

from __future__ import annotations

from calibrant.client.answers import DiagramEntry, Health, LimitsAnswer, MeasureEntry, MethodEntry
from calibrant.client.requests import get, read
from calibrant.client.retries import Patience, send
from calibrant.client.steps import Steps


def measures(patience: Patience) -> Steps[list[MeasureEntry]]:
    """Return all measures with definition, range, options, cost and source.

    Examples
    --------
    >>> "ece" in [measure.name for measure in client.measures()]
    True
    """
    return read(list[MeasureEntry], (yield from send(patience, get("/measures"))))


def methods(patience: Patience) -> Steps[list[MethodEntry]]:
    """Return all calibrators with options, source, and whether their fit is a job.

    Examples
    --------
    >>> [method.runs for method in client.methods() if method.name == "averaged"]
    ['job']
    """
    return read(list[MethodEntry], (yield from send(patience, get("/methods"))))


def diagrams(patience: Patience) -> Steps[list[DiagramEntry]]:
    """Return all diagrams with their data fields, options, cost and source.

    Examples
    --------
    >>> "reliability" in [diagram.name for diagram in client.diagrams()]
    True
    """
    return read(list[DiagramEntry], (yield from send(patience, get("/diagrams"))))


def limits(patience: Patience) -> Steps[LimitsAnswer]:
    """Return the limits of requests, API keys and tenants, and the quotas that the tenant has used.

    Examples
    --------
    >>> client.limits().limits["max_rows"].value > 0
    True
    """
    return read(LimitsAnswer, (yield from send(patience, get("/limits"))))


def live(patience: Patience) -> Steps[None]:
    """Check that the server responds.

    Examples
    --------
    >>> client.live()
    """
    read(Health, (yield from send(patience, get("/health/live"))))


def ready(patience: Patience) -> Steps[None]:
    """Check that the server and its store are available.

    Raises
    ------
    ProblemResponse
        If the store is not available.

    Examples
    --------
    >>> client.ready()
    """
    read(Health, (yield from send(patience, get("/health/ready"))))
