"""Alarms of monitors, the audit log, proposed maps, and webhook deliveries."""

from __future__ import annotations

from typing import Literal

from calibrant.client.answers import (
    AlarmsAnswer,
    AuditAnswer,
    AuditEntry,
    DeliveriesAnswer,
    DeliveryRecord,
    DeliverySummary,
    MonitorEvent,
    Proposal,
    RecalibrationRequested,
    RuleState,
)
from calibrant.client.calls.pages import pages
from calibrant.client.requests import get, path_of, read
from calibrant.client.retries import Patience, send
from calibrant.client.steps import JSON, Answer, Items, Request, Steps


def alarms(patience: Patience, monitor: str) -> Steps[list[RuleState]]:
    """Return the status of every rule of a monitor.

    Parameters
    ----------
    monitor : str
        Name of the monitor.

    Returns
    -------
    list of RuleState
        Status and last reading of each rule.

    Examples
    --------
    >>> [rule.rule for rule in client.alarms("inbox")]
    ['evidence']
    """
    answer = yield from send(patience, get(path_of("monitors", monitor, "alarms"), {"limit": 1}))
    return read(AlarmsAnswer, answer).rules


def alarm_events(patience: Patience, monitor: str) -> Items[MonitorEvent]:
    """Iterate over the events of a monitor's alarms, newest first.

    Parameters
    ----------
    monitor : str
        Name of the monitor.

    Yields
    ------
    MonitorEvent
        An alarm that was raised, cleared or acknowledged, or a step of recalibration.

    Examples
    --------
    >>> list(client.alarm_events("inbox"))
    []
    """
    yield from pages(patience, path_of("monitors", monitor, "alarms"), {}, AlarmsAnswer)


def acknowledge(patience: Patience, monitor: str, rule: str) -> Steps[RuleState]:
    """Acknowledge an alarm. Evidence and drift restart with rows predicted from now on; a threshold stays raised.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    rule : str
        Name of the rule.

    Returns
    -------
    RuleState
        The rule.

    Raises
    ------
    ProblemResponse
        If the rule has no raised alarm, or it was already acknowledged.
    """
    answer = yield from _post(patience, path_of("monitors", monitor, "alarms", rule, "acknowledge"))
    return read(RuleState, answer)


def audit(patience: Patience, monitor: str) -> Items[AuditEntry]:
    """Iterate over the audit log of a monitor, newest first.

    Parameters
    ----------
    monitor : str
        Name of the monitor.

    Yields
    ------
    AuditEntry
        An action and who took it.

    Examples
    --------
    >>> list(client.audit("inbox"))
    []
    """
    yield from pages(patience, path_of("monitors", monitor, "audit"), {}, AuditAnswer)


def recalibrate(
    patience: Patience, monitor: str, *, correction: Literal["label-shift"] | None = None
) -> Steps[RecalibrationRequested]:
    """Request a recalibration now: a map fitted to the counts of the monitor, whether or not an alarm is raised.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    correction : {"label-shift"}, optional
        Instead of a fit to labelled rows, a map corrected for the class frequencies of the window, without labels.
        It assumes that only they changed, and waits to be accepted.

    Returns
    -------
    RecalibrationRequested
        The request.

    Examples
    --------
    >>> client.recalibrate("inbox").number
    1
    """
    query = {} if correction is None else {"correction": correction}
    request = Request("POST", path_of("monitors", monitor, "recalibrate"), query, {"Accept": JSON})
    answer = yield from send(patience, request)
    return read(RecalibrationRequested, answer)


def proposal(patience: Patience, monitor: str) -> Steps[Proposal]:
    """Return the proposed map that can be accepted or rejected.

    Parameters
    ----------
    monitor : str
        Name of the monitor.

    Returns
    -------
    Proposal
        The proposal.

    Raises
    ------
    ProblemResponse
        If there is no proposal.
    """
    answer = yield from send(patience, get(path_of("monitors", monitor, "proposal")))
    return read(Proposal, answer)


def accept_proposal(patience: Patience, monitor: str, *, if_match: Proposal | None = None) -> Steps[Proposal]:
    """Accept the proposed map: make it the next version of its name and move the alias to it.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    if_match : Proposal, optional
        The proposal that was reviewed, as ``proposal`` returned it. No other one is accepted, such as one that
        replaced it meanwhile. By default, the proposal that is waiting now is accepted.

    Returns
    -------
    Proposal
        The accepted proposal, with the version.

    Raises
    ------
    ProblemResponse
        If there is no proposal, or the alias has moved since; with code ``precondition-failed`` if another proposal
        than ``if_match`` is waiting.

    Examples
    --------
    Accept a map if its gain is sure to be above 0.01, and no other map::

        proposed = client.proposal("inbox")
        if proposed.found.low is not None and proposed.found.low > 0.01:
            client.accept_proposal("inbox", if_match=proposed)
    """
    return (yield from _decide(patience, monitor, "accept", if_match))


def reject_proposal(patience: Patience, monitor: str, *, if_match: Proposal | None = None) -> Steps[Proposal]:
    """Reject the proposed map; the alias does not move.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    if_match : Proposal, optional
        The proposal that was reviewed, as ``proposal`` returned it; no other one is rejected.

    Returns
    -------
    Proposal
        The rejected proposal.

    Raises
    ------
    ProblemResponse
        If there is no proposal; with code ``precondition-failed`` if another proposal than ``if_match`` is waiting.

    Examples
    --------
    Reject the map that was reviewed, and no other map::

        proposed = client.proposal("inbox")
        client.reject_proposal("inbox", if_match=proposed)
    """
    return (yield from _decide(patience, monitor, "reject", if_match))


def _decide(patience: Patience, monitor: str, decision: str, if_match: Proposal | None) -> Steps[Proposal]:
    headers = {"Accept": JSON}
    if if_match is not None:
        # The entity tag belongs to the bytes of the waiting proposal. No proposal has the tag of an id, so the server
        # refuses the decision about another one.
        waiting = yield from send(patience, get(path_of("monitors", monitor, "proposal")))
        none, same = f'"{if_match.id}"', read(Proposal, waiting) == if_match
        headers["If-Match"] = waiting.headers.get("ETag", none) if same else none
    request = Request("POST", path_of("monitors", monitor, "proposal", decision), headers=headers)
    return read(Proposal, (yield from send(patience, request)))


def deliveries(
    patience: Patience, monitor: str, *, status: str | None = None, hook: str | None = None
) -> Items[DeliverySummary]:
    """Iterate over the webhook deliveries of a monitor, newest first.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    status : {"pending", "succeeded", "dead"}, optional
        Only deliveries with this status; ``dead`` ones are not retried.
    hook : str, optional
        Only deliveries to this webhook.

    Yields
    ------
    DeliverySummary
        A delivery.

    Examples
    --------
    >>> list(client.deliveries("inbox", status="dead"))
    []
    """
    query = {"status": status, "hook": hook}
    yield from pages(patience, path_of("monitors", monitor, "deliveries"), query, DeliveriesAnswer)


def resend(patience: Patience, monitor: str, delivery_id: str) -> Steps[DeliveryRecord]:
    """Deliver an event again with the same id, with a new series of tries.

    Parameters
    ----------
    monitor : str
        Name of the monitor.
    delivery_id : str
        Id of the delivery.

    Returns
    -------
    DeliveryRecord
        The delivery.
    """
    answer = yield from _post(patience, path_of("monitors", monitor, "deliveries", delivery_id, "resend"))
    return read(DeliveryRecord, answer)


def _post(patience: Patience, path: str) -> Steps[Answer]:
    return (yield from send(patience, Request("POST", path, headers={"Accept": JSON})))
