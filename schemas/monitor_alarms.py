"""``/monitors/{name}/alarms``, ``/audit``, ``/proposal`` and ``/deliveries``, and the events sent by webhooks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.audit import Author
from schemas.base import Document, Instant, Timestamp
from schemas.monitor_online import AdaptiveStanding, OnlineReason, OnlineStanding
from schemas.monitor_rules import ChangeReading, DriftEvidence, Rule, RuleKind, RuleState, SetCoverageReading
from schemas.monitors import RecalibrationSpec
from schemas.pages import PageQuery

# --- The events of a monitor, as webhooks send them
#
# The body has the structure that Standard Webhooks 1.0 recommends: ``type``, the ``timestamp`` of the event, and
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


class AlarmData(Document):
    """An alarm, at the time when it was raised, cleared or acknowledged."""

    monitor: str
    rule: str
    kind: RuleKind = Field(description="kind of the rule")
    measure: str | None = Field(None, description="key of the compared measure, if there is one")
    window: str | None = Field(None, description="name of the window, if there is one")
    group: str | None = Field(None, description="the group of the window; null for all rows")
    value: float | None = Field(
        None, description="the compared value; of an anytime-valid test: the logarithm of the e-value"
    )
    bound: float | None = Field(None, description="the bound that the value is compared with")
    rows: int | None = Field(None, description="number of rows that the rule counted")
    since: Timestamp | None = Field(None, description="when the alarm was raised")
    change: ChangeReading | None = Field(None, description="for an evidence rule: when calibration changed, and how")
    description: str | None = Field(None, description="what the alarm reports, in words")
    drift: DriftEvidence | None = Field(None, description="for drift: how the predictions changed")
    coverage: SetCoverageReading | None = Field(None, description="for coverage: how often sets have their label")


class RecalibrationData(Document):
    """A challenger compared with the champion."""

    monitor: str
    rule: str | None = Field(None, description="name of the rule whose alarm started it; null if requested by a caller")
    name: str | None = Field(None, description="name of the map")
    alias: str | None = Field(None, description="the alias that is, or would be, moved")
    champion: str | None = Field(None, description="id of the map that the alias points or pointed at; null: none")
    challenger: str | None = Field(None, description="id of the fitted map; null: none")
    gain: float | None = Field(
        None,
        description="log loss of the champion minus that of the challenger, in nats; for regression that of the bin "
        "of the outcome",
    )
    low: float | None = Field(None, description="lower end of the interval of the gain")
    high: float | None = Field(None, description="upper end of the interval of the gain")
    rows: int | None = Field(
        None, description="number of held-out rows in the comparison; if there are too few, of all rows"
    )
    since: Timestamp | None = Field(
        None, description="start of the rows that it was fitted to; null: start of the window"
    )
    code: str | None = Field(None, description="reason why it was declined, or code of the problem if it failed")
    assumption: str | None = Field(
        None, description="what a challenger without labels assumes; it has no gain, because it was not compared"
    )


class HookTestData(Document):
    """A requested test of a hook; it does not indicate a change of the monitor."""

    monitor: str
    hook: str


class MonitorEvent(Document):
    """An event of a monitor. Its ``id`` is sent in the header ``webhook-id``, the other fields in the body."""

    id: EventId = Field(description="id of the event")
    type: EventType = Field(description="what happened")
    timestamp: Timestamp = Field(description="time of the event, not of the delivery")
    # Generated clients try the types in this order: the last one has the fewest required fields.
    data: AlarmData | HookTestData | RecalibrationData = Field(description="details of the event")
    page: str | None = Field(
        None, description="address of the monitor's page; only in webhooks, if the workers have `--public-url`"
    )

    def body(self, page: str | None = None) -> str:
        """The body that is sent and signed, identical for every attempt."""
        return self.model_copy(update={"page": page}).model_dump_json(exclude={"id"})


# --- ``/monitors/{name}/alarms``, ``/audit`` and ``/proposal``: the state of the rules, and the log of actions

#: Actions in the audit log; ``who`` of the entry gives the actor, null for the service itself.
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


class ReferenceState(Document):
    """The reference of a monitor when it was set."""

    definition: str = Field(description="digest of the reference's definition")
    map: str | None = Field(description="id of the map that was applied to rows then")


#: What a challenger without labels corrects.
Correction = Literal["label-shift"]


class RecalibrationQuery(Document):
    """The query of ``POST /monitors/{name}/recalibrate``."""

    correction: Correction | None = Field(
        None,
        description="``label-shift``: a map corrected for the class frequencies of the window, without labels, which "
        "assumes that only they changed and always waits to be accepted; default: a map fitted to labelled rows",
    )


class Occasion(Document):
    """The reason to fit a challenger, or to write a version of an online map: an alarm of a rule, or a request."""

    rule: str | None = Field(None, description="null for a request")
    number: int = Field(description="number of the rule's alarm, of the request, or of the version, counted from 1")
    reason: OnlineReason | None = Field(None, description="for a version of an online map: why it was written")
    attempt: int = Field(1, description="an alarm that stays raised causes further attempts; counted from 1")
    correction: Correction | None = Field(None, description="of a request: what is corrected without labels")

    @property
    def seed(self) -> str:
        """A name that is unique within the monitor; names of rules contain no space."""
        if self.reason is not None:
            return f"online version:{self.number}"
        named = f"{self.rule or 'by request'}:{self.number}"
        return named if self.attempt == 1 else f"{named}:{self.attempt}"


class RecalibrationRequested(Document):
    """A requested challenger, and how it will be fitted."""

    monitor: str
    number: int = Field(description="number of the request, counted from 1; a pending request is returned again")
    requested_at: Timestamp = Field(description="when it was requested")
    requested_by: str | None = Field(description="name of the API key; null if the service runs without keys")
    recalibration: RecalibrationSpec


class Proposal(Document):
    """A challenger that was better than the champion, or has an assumption, and waits to be accepted or rejected."""

    id: str = Field(description="id of the proposal")
    created_at: Timestamp
    occasion: Occasion = Field(description="why the challenger was requested")
    map: str = Field(description="id of the challenger, which has no name or version yet")
    name: str = Field(description="name whose next version it becomes if accepted")
    alias: str = Field(description="alias that is moved to it if accepted")
    version: int | None = Field(None, description="version of the challenger, in the response that accepts it")
    revision: int | None = Field(description="revision of the alias at the comparison; null: there was no alias")
    found: RecalibrationData = Field(description="what the comparison with the current map found")


class Standing(Document):
    """The state of a monitor's rules and recalibration between two checks; written as a whole."""

    format: int = 2
    rules: dict[str, RuleState] = Field({})
    asked: list[Occasion] = Field([], description="alarms and requests for which a challenger is to be fitted")
    last_asked: Instant | None = Field(None, description="time of the last attempt")
    requests: int = Field(0, description="number of requests by callers")
    rows_wanted: int = Field(
        0, description="number of labelled rows since the monitor began that the next attempt needs"
    )
    proposal: Proposal | None = None
    moving: Proposal | None = Field(None, description="accepted proposal whose alias is being moved")
    moved_by: str | None = None
    moved_for: Author | None = Field(None, description="who accepted it, for the audit log; null: the monitor")
    applied: str | None = Field(None, description="id of the map that was applied to rows at the last check")
    reference: ReferenceState | None = None
    online: OnlineStanding | None = Field(None, description="the map that follows the stream")
    adaptive: AdaptiveStanding | None = Field(None, description="the error level that follows the stream")
    versions: int = Field(0, description="number of attempts to write a version of it, including failed ones")

    def state_of(self, rule: Rule) -> RuleState:
        """The state of a rule; an unknown one before its first check."""
        return self.rules.get(rule.name, RuleState(rule=rule.name, kind=rule.kind))


class AuditEntry(Document):
    """One action, and who performed it."""

    at: Timestamp
    action: AuditAction = Field(description="what was done")
    who: str | None = Field(
        None, description="name of the API key; null: the service itself, or a service without keys"
    )
    rule: str | None = Field(None, description="name of the rule, if it is about one")
    alarm: int | None = Field(
        None, description="number of the rule's alarm, or of the request if there is no rule; counted from 1"
    )
    detail: str | None = Field(None, description="reason")
    found: RecalibrationData | None = Field(None, description="what a recalibration found")


class JournalQuery(Document):
    """A page of events or of audit entries."""

    limit: int = Field(20, ge=1, le=100)
    cursor: str | None = Field(None, max_length=200, description="the `next` of the previous page")


class AlarmsAnswer(Document):
    """The current state of every rule, and a page of events, newest first."""

    rules: list[RuleState] = Field(description="state of each rule")
    items: list[MonitorEvent]
    next: str | None


class AuditAnswer(Document):
    """A page of the audit log, newest first."""

    items: list[AuditEntry]
    next: str | None


# --- ``/monitors/{name}/deliveries``: events sent to webhooks, and the outcome of each attempt

DeliveryStatus = Literal["pending", "succeeded", "dead"]
#: Why an attempt has no response status. ``interrupted``: the process of the attempt ended, or is still running.
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
#: Number of attempts that a delivery keeps.
MOST_ATTEMPTS = 20


class Attempt(Document):
    """One attempt: the response status, or the reason why there is none. Nothing else of a response is stored."""

    number: int = Field(description="counted from 1, including resends")
    at: Timestamp = Field(description="when it was sent")
    status: int | None = Field(None, description="HTTP status of the response; null without one")
    error: AttemptError | None = Field(None, description="why there was no response; null with one")
    seconds: float | None = Field(None, description="duration")


class DeliveryRecord(Document):
    """The delivery of an event to one hook."""

    format: int = 1
    id: str = Field(description="id of the delivery")
    monitor: str
    hook: str
    status: DeliveryStatus = Field("pending", description="status of the delivery")
    event: MonitorEvent
    attempts: list[Attempt] = Field([], description=f"the last {MOST_ATTEMPTS}, oldest first")
    tried: int = Field(0, description="attempts since the event was created or resent")
    created_at: Timestamp
    ended_at: Timestamp | None = None
    next_at: Timestamp | None = Field(None, description="time of the next attempt; null if there is none")


class DeliverySummary(Document):
    """A delivery in a list."""

    id: str = Field(description="id of the delivery")
    hook: str
    status: DeliveryStatus = Field(description="status of the delivery")
    event: EventId = Field(description="id of the event")
    type: EventType = Field(description="type of the event")
    tried: int = Field(description="number of attempts")
    last: Attempt | None = Field(None, description="the last attempt")
    created_at: Timestamp
    ended_at: Timestamp | None = None
    next_at: Timestamp | None = Field(None, description="time of the next attempt; null if there is none")

    @classmethod
    def of(cls, record: DeliveryRecord) -> DeliverySummary:
        """Create the summary of a delivery."""
        last = record.attempts[-1] if record.attempts else None
        return cls.with_fields_of(record, event=record.event.id, type=record.event.type, last=last)


class DeliveriesQuery(PageQuery):
    """The query of ``GET /monitors/{name}/deliveries``."""

    status: DeliveryStatus | None = Field(None, description="``dead`` lists the dead letters")
    hook: str | None = Field(None, max_length=32, description="only deliveries to this hook")


class DeliveriesAnswer(Document):
    """A page of deliveries, newest first."""

    items: list[DeliverySummary]
    next: str | None
