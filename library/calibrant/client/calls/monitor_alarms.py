"""The alarms of monitors, the audit log, proposed maps, and deliveries."""

from __future__ import annotations

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
from calibrant.client.retries import Patience, ask
from calibrant.client.steps import JSON, Answer, Items, Request, Steps


def alarms(patience: Patience, monitor: str) -> Steps[list[RuleState]]:
    """What every rule of a monitor says now, and why.

    >>> [rule.rule for rule in client.alarms("inbox")]
    ['evidence']
    """
    answer = yield from ask(patience, get(path_of("monitors", monitor, "alarms"), {"limit": 1}))
    return read(AlarmsAnswer, answer).rules


def alarm_events(patience: Patience, monitor: str) -> Items[MonitorEvent]:
    """What happened to a monitor's alarms, newest first; pages are read as they are needed.

    >>> list(client.alarm_events("inbox"))
    []
    """
    yield from pages(patience, path_of("monitors", monitor, "alarms"), {}, AlarmsAnswer)


def acknowledge(patience: Patience, monitor: str, rule: str) -> Steps[RuleState]:
    """Say that an alarm has been seen and dealt with: evidence begins anew with the rows that are predicted from now.

    Raises ``ProblemResponse`` where the rule has raised none.
    """
    answer = yield from _post(patience, path_of("monitors", monitor, "alarms", rule, "acknowledge"))
    return read(RuleState, answer)


def audit(patience: Patience, monitor: str) -> Items[AuditEntry]:
    """Every step that was taken for a monitor and by whom, newest first; pages are read as they are needed.

    >>> list(client.audit("inbox"))
    []
    """
    yield from pages(patience, path_of("monitors", monitor, "audit"), {}, AuditAnswer)


def recalibrate(patience: Patience, monitor: str) -> Steps[RecalibrationRequested]:
    """Ask for a map now, fitted to what the monitor has counted, whether or not an alarm is raised.

    >>> client.recalibrate("inbox").number
    1
    """
    answer = yield from _post(patience, path_of("monitors", monitor, "recalibrate"))
    return read(RecalibrationRequested, answer)


def proposal(patience: Patience, monitor: str) -> Steps[Proposal]:
    """The map that waits to be accepted or rejected; raises ``ProblemResponse`` where there is none."""
    answer = yield from ask(patience, get(path_of("monitors", monitor, "proposal")))
    return read(Proposal, answer)


def accept_proposal(patience: Patience, monitor: str) -> Steps[Proposal]:
    """Move the alias to the proposed map; raises ``ProblemResponse`` where there is none, or it has moved since."""
    return read(Proposal, (yield from _post(patience, path_of("monitors", monitor, "proposal", "accept"))))


def reject_proposal(patience: Patience, monitor: str) -> Steps[Proposal]:
    """Leave the alias where it is; raises ``ProblemResponse`` where nothing is proposed."""
    return read(Proposal, (yield from _post(patience, path_of("monitors", monitor, "proposal", "reject"))))


def deliveries(
    patience: Patience, monitor: str, *, status: str | None = None, hook: str | None = None
) -> Items[DeliverySummary]:
    """The events that went to a monitor's hooks, newest first; those of status ``dead`` are not tried again.

    >>> list(client.deliveries("inbox", status="dead"))
    []
    """
    query = {"status": status, "hook": hook}
    yield from pages(patience, path_of("monitors", monitor, "deliveries"), query, DeliveriesAnswer)


def resend(patience: Patience, monitor: str, delivery_id: str) -> Steps[DeliveryRecord]:
    """Deliver an event once more, with the same id, from the first of its tries on."""
    answer = yield from _post(patience, path_of("monitors", monitor, "deliveries", delivery_id, "resend"))
    return read(DeliveryRecord, answer)


def _post(patience: Patience, path: str) -> Steps[Answer]:
    return (yield from ask(patience, Request("POST", path, headers={"Accept": JSON})))
