"""``/monitors/{name}/alarms``, ``/audit``, ``/proposal`` and ``/deliveries``, and the events that webhooks carry."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from schemas.base import Document
from schemas.monitors import RecalibrationSpec
from schemas.pages import PageQuery

# --- The events of a monitor, as webhooks carry them
#
# A body has the structure that Standard Webhooks 1.0 recommends: ``type``, the ``timestamp`` of what happened,
# ``data``.

AlarmType = Literal["monitor.alarm.raised", "monitor.alarm.cleared", "monitor.alarm.acknowledged"]
RecalibrationType = Literal[
    "monitor.recalibration.proposed",
    "monitor.recalibration.applied",
    "monitor.recalibration.declined",
    "monitor.recalibration.failed",
]
HookTestType = Literal["monitor.test"]
EventType = Literal[AlarmType, RecalibrationType, HookTestType]

EventId = Annotated[str, Field(pattern=r"^event_[0-9a-f]{30}$")]


class AlarmTold(Document):
    """An alarm, as it was when it was raised, cleared or acknowledged."""

    monitor: str
    rule: str = Field(description="name of the rule")
    kind: Literal["evidence", "threshold"]
    measure: str | None = Field(None, description="of a threshold: the key of the measure")
    window: str | None = Field(None, description="of a threshold: the window that it looks at")
    group: str | None = Field(None, description="of a threshold: the group; null for all rows")
    value: float | None = Field(None, description="the number compared; of an evidence rule: the e-value's logarithm")
    bound: float | None = Field(None, description="what it is compared with")
    rows: int | None = Field(None, description="labelled rows that it was computed from")
    since: str | None = Field(None, description="since when the alarm is raised")


class RecalibrationTold(Document):
    """A challenger beside the champion."""

    monitor: str
    rule: str | None = Field(None, description="name of the rule whose alarm began it; null if it was requested")
    name: str | None = Field(None, description="name of the map")
    alias: str | None = Field(None, description="the alias that is moved, or would be")
    champion: str | None = Field(None, description="id of the map at which the alias points, or pointed; null: none")
    challenger: str | None = Field(None, description="id of the map that was fitted; null: none was")
    gain: float | None = Field(None, description="log loss of the champion less that of the challenger, in nats")
    low: float | None = Field(None, description="lower end of the interval of the gain")
    high: float | None = Field(None, description="upper end of the interval of the gain")
    rows: int | None = Field(
        None, description="rows that it was compared on, none of which it was fitted to; too few: all that there are"
    )
    since: str | None = Field(None, description="when the rows begin that it was fitted to; null: with the window")
    code: str | None = Field(None, description="why it was declined, or code of the problem where it failed")


class HookTestTold(Document):
    """A requested test of a hook; nothing has happened to the monitor."""

    monitor: str
    hook: str


class MonitorEvent(Document):
    """Something that happened to a monitor. Its ``id`` goes into the header ``webhook-id``, the rest into the body."""

    id: EventId
    type: EventType
    timestamp: str = Field(description="when it happened, not when it was delivered")
    # In this order, in which generated clients try them: the last requires least.
    data: AlarmTold | HookTestTold | RecalibrationTold

    def body(self) -> str:
        """What is sent and signed, the same bytes at every attempt."""
        return self.model_dump_json(exclude={"id"})


# --- ``/monitors/{name}/alarms``, ``/audit`` and ``/proposal``: the state of the rules, and the log of actions

RuleKind = Literal["evidence", "threshold"]
RuleStatus = Literal["unknown", "ok", "alarm"]
#: What an entry of the audit says: whose doing follows from ``who``, null for the service itself.
AuditAction = Literal[
    "alarm-raised",
    "alarm-cleared",
    "alarm-acknowledged",
    "evidence-restarted",
    "recalibration-requested",
    "recalibration-declined",
    "recalibration-failed",
    "challenger-proposed",
    "proposal-replaced",
    "proposal-accepted",
    "proposal-rejected",
    "alias-moved",
    "alias-not-moved",
]


class EvidenceReading(Document):
    """Evidence against calibration, since the present start.

    ``log_e`` may be compared with ``bound`` at any look: under calibration it ever reaches it with a chance of at most
    the rule's alpha.
    """

    log_e: float = Field(description="natural logarithm of the e-value at the last look")
    largest: float = Field(description="the largest at any look since the start")
    bound: float = Field(description="log(1 / alpha)")
    level: float = Field(description="exp(-largest), at most 1: a p-value that is valid however often one looks")
    since: str | None = Field(description="the time bucket since which the rows speak loudest, by its beginning")
    shape: Literal["line", "curve", "part"] = Field(description="of the error that they speak loudest for")
    delta: float = Field(description="its size, in log-odds of the outcome above those of the prediction")
    spread: float = Field(description="of a line: what is added to ``delta`` for each unit of half the logit")
    low: float = Field(description="the predictions that it concerns, from here")
    high: float = Field(description="to here")
    description: str = Field(
        validation_alias=AliasChoices("description", "told"),  # what earlier versions stored
        description="the error as text",
    )


class ThresholdReading(Document):
    """A measure beside its bound, at the last look."""

    measure: str
    window: str
    group: str | None = None
    value: float | None = Field(description="the number that is compared; null where there is none")
    above: float
    clear_below: float
    looks: int = Field(description="looks in a row, on other rows each, that speak for the other status")


class RuleState(Document):
    """A rule: what it says now, and since when."""

    rule: str
    kind: RuleKind
    status: RuleStatus = Field("unknown", description="``unknown`` before there were rows enough")
    since: str | None = Field(None, description="when the status began")
    alarms: int = Field(0, description="how often it was raised")
    rows: int = Field(0, description="labelled rows that the last look saw")
    looked_at: str | None = None
    challengers: int = Field(0, description="how often a challenger was requested upon the alarm that is raised")
    acknowledged_at: str | None = Field(None, description="of a threshold that is still raised")
    acknowledged_by: str | None = None
    started_at: float = Field(0.0, description="of evidence: rows predicted earlier are none; seconds since 1970")
    definition: str = Field("", description="digest of the rule: one that is changed begins anew")
    evidence: EvidenceReading | None = None
    threshold: ThresholdReading | None = None


class Occasion(Document):
    """Why a challenger is fitted: one alarm of one rule, or a request."""

    rule: str | None = Field(None, description="null: a request")
    number: int = Field(description="of the rule's alarms, or of the requests, counted from 1")
    attempt: int = Field(1, description="an alarm that stays is seen to again; counted from 1")

    @property
    def seed(self) -> str:
        """Its name among those of a monitor; no rule has a space in its name."""
        named = f"{self.rule or 'by request'}:{self.number}"
        return named if self.attempt == 1 else f"{named}:{self.attempt}"


class RecalibrationRequested(Document):
    """A requested challenger, and how it will be fitted."""

    monitor: str
    number: int = Field(description="of the request, counted from 1; one that still waits is requested again")
    requested_at: str
    requested_by: str | None = Field(description="the API key's name; null: without keys")
    recalibration: RecalibrationSpec


class Proposal(Document):
    """A challenger that was better than the champion, and waits to be accepted or rejected."""

    id: str
    created_at: str
    occasion: Occasion
    map: str = Field(description="id of the challenger, which has no name and no version yet")
    name: str = Field(description="the name whose next version it becomes when it is accepted")
    alias: str = Field(description="what is moved to it when it is accepted")
    version: int | None = Field(None, description="the challenger's, in the answer that accepts it")
    revision: int | None = Field(description="of the alias when they were compared; null: there was none")
    found: RecalibrationTold


class Standing(Document):
    """What a monitor remembers between two looks, beside its rows: changed as a whole or not at all."""

    format: int = 1
    rules: dict[str, RuleState] = Field({})
    asked: list[Occasion] = Field([], description="alarms upon which a challenger is to be fitted")
    last_asked: float | None = Field(None, description="when one was tried last, seconds since 1970")
    requests: int = Field(0, description="how often one was requested by a caller")
    rows_wanted: int = Field(0, description="labelled rows since the monitor began, before another one is worth a try")
    proposal: Proposal | None = None
    moving: Proposal | None = Field(None, description="decided: its alias is being moved")
    moved_by: str | None = None
    applied: str | None = Field(None, description="id of the map that rows were mapped by at the last look")


class AuditEntry(Document):
    """One step that was taken, and by whom."""

    at: str
    action: AuditAction
    who: str | None = Field(None, description="the API key's name; null: the service itself, or without keys")
    rule: str | None = None
    alarm: int | None = Field(None, description="the rule's alarm, or without a rule the request; counted from 1")
    detail: str | None = Field(None, description="why")
    found: RecalibrationTold | None = None


class JournalQuery(Document):
    """Which events, or entries of the audit log: the newest, or those after a page."""

    limit: int = Field(20, ge=1, le=100)
    cursor: str | None = Field(None, max_length=200, description="the `next` of the page before")


class AlarmsAnswer(Document):
    """What every rule says now, and a page of what happened, newest first."""

    rules: list[RuleState]
    items: list[MonitorEvent]
    next: str | None = Field(description="cursor of the page that follows")


class AuditAnswer(Document):
    """A page of the audit, newest first."""

    items: list[AuditEntry]
    next: str | None = Field(description="cursor of the page that follows")


# --- ``/monitors/{name}/deliveries``: events that are sent to webhooks, and the outcome of each attempt

DeliveryStatus = Literal["pending", "succeeded", "dead"]
#: Why an attempt got no status of a receiver. ``interrupted``: the process that made it ended, or still makes it.
AttemptError = Literal[
    "interrupted",
    "not-admitted",
    "not-resolved",
    "address-refused",
    "not-connected",
    "tls-failed",
    "timed-out",
    "broken-answer",
    "no-hook",
    "no-secret",
]
#: A delivery keeps so many of its last attempts.
MOST_ATTEMPTS = 20


class Attempt(Document):
    """One attempt: the status that the receiver answered, or why there is none. Nothing else of an answer is kept."""

    number: int = Field(description="counted from 1, over all times that it was sent again")
    at: str
    status: int | None = None
    error: AttemptError | None = None
    seconds: float | None = Field(None, description="that it took")


class DeliveryRecord(Document):
    """An event on its way to one hook."""

    format: int = 1
    id: str
    monitor: str
    hook: str
    status: DeliveryStatus = "pending"
    event: MonitorEvent
    attempts: list[Attempt] = Field([], description=f"the last {MOST_ATTEMPTS}, oldest first")
    tried: int = Field(0, description="attempts since it was last requested")
    created_at: str
    ended_at: str | None = None
    next_at: str | None = Field(None, description="when it is tried next; null where it is not")


class DeliverySummary(Document):
    """A delivery in a list."""

    id: str
    hook: str
    status: DeliveryStatus
    event: EventId
    type: EventType
    tried: int
    last: Attempt | None = Field(None, description="the last attempt")
    created_at: str
    ended_at: str | None = None
    next_at: str | None = None

    @classmethod
    def of(cls, record: DeliveryRecord) -> DeliverySummary:
        """What a list tells of a delivery."""
        return cls(
            id=record.id,
            hook=record.hook,
            status=record.status,
            event=record.event.id,
            type=record.event.type,
            tried=record.tried,
            last=record.attempts[-1] if record.attempts else None,
            created_at=record.created_at,
            ended_at=record.ended_at,
            next_at=record.next_at,
        )


class DeliveriesQuery(PageQuery):
    """The query of ``GET /monitors/{name}/deliveries``."""

    status: DeliveryStatus | None = Field(None, description="``dead``: the dead letters")
    hook: str | None = Field(None, max_length=32, description="to this hook alone")


class DeliveriesAnswer(Document):
    """A page of deliveries, newest first."""

    items: list[DeliverySummary]
    next: str | None = Field(description="cursor of the page that follows")
