"""Generated from schemas/monitor_alarms.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from calibrant.client.answers.document import WireAnswer
from calibrant.client.answers.monitor_rules import ChangeReading, DriftEvidence, RuleState, SetCoverageReading
from calibrant.client.answers.monitors import RecalibrationSpec

RuleKind = Literal["evidence", "threshold", "drift", "coverage"]
EventType = Literal[
    "monitor.alarm.raised",
    "monitor.alarm.cleared",
    "monitor.alarm.acknowledged",
    "monitor.recalibration.proposed",
    "monitor.recalibration.applied",
    "monitor.recalibration.declined",
    "monitor.recalibration.failed",
    "monitor.test",
]
OnlineReason = Literal["schedule", "evidence", "alarm", "request"]
Correction = Literal["label-shift"]
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
DeliveryStatus = Literal["pending", "succeeded", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmData(WireAnswer):
    """An alarm, at the time when it was raised, cleared or acknowledged."""

    monitor: str  # name of the monitor
    rule: str  # name of the rule
    kind: RuleKind  # kind of the rule
    measure: str | None = None  # key of the compared measure, if there is one
    window: str | None = None  # name of the window, if there is one
    group: str | None = None  # the group of the window; None for all rows
    value: float | None = None  # the compared value; of an anytime-valid test: the logarithm of the e-value
    bound: float | None = None  # the bound that the value is compared with
    rows: int | None = None  # number of rows that the rule counted
    since: str | None = None  # when the alarm was raised
    change: ChangeReading | None = None  # for an evidence rule: when calibration changed, and how
    description: str | None = None  # what the alarm reports, in words
    drift: DriftEvidence | None = None  # for drift: how the predictions changed
    coverage: SetCoverageReading | None = None  # for coverage: how often sets have their label


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalibrationData(WireAnswer):
    """A challenger compared with the champion."""

    monitor: str  # name of the monitor
    rule: str | None = None  # name of the rule whose alarm started it; None if requested by a caller
    name: str | None = None  # name of the map
    alias: str | None = None  # the alias that is, or would be, moved
    champion: str | None = None  # id of the map that the alias points or pointed at; None: none
    challenger: str | None = None  # id of the fitted map; None: none
    #: log loss of the champion minus that of the challenger, in nats; for regression that of the bin of the outcome
    gain: float | None = None
    low: float | None = None  # lower end of the interval of the gain
    high: float | None = None  # upper end of the interval of the gain
    rows: int | None = None  # number of held-out rows in the comparison; if there are too few, of all rows
    since: str | None = None  # start of the rows that it was fitted to; None: start of the window
    code: str | None = None  # reason why it was declined, or code of the problem if it failed
    #: what a challenger without labels assumes; it has no gain, because it was not compared
    assumption: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTestData(WireAnswer):
    """A requested test of a hook; it does not indicate a change of the monitor."""

    monitor: str  # name of the monitor
    hook: str  # name of the hook


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorEvent(WireAnswer):
    """An event of a monitor. Its ``id`` is sent in the header ``webhook-id``, the other fields in the body."""

    id: str  # id of the event
    type: EventType  # what happened
    timestamp: str  # time of the event, not of the delivery
    data: AlarmData | HookTestData | RecalibrationData  # details of the event
    page: str | None = None  # address of the monitor's page; only in webhooks, if the workers have `--public-url`


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion(WireAnswer):
    """The reason to fit a challenger, or to write a version of an online map: an alarm of a rule, or a request."""

    rule: str | None = None  # None for a request
    number: int  # number of the rule's alarm, of the request, or of the version, counted from 1
    reason: OnlineReason | None = None  # for a version of an online map: why it was written
    attempt: int = 1  # an alarm that stays raised causes further attempts; counted from 1
    correction: Correction | None = None  # of a request: what is corrected without labels


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalibrationRequested(WireAnswer):
    """A requested challenger, and how it will be fitted."""

    monitor: str  # name of the monitor
    number: int  # number of the request, counted from 1; a pending request is returned again
    requested_at: str  # when it was requested
    requested_by: str | None  # name of the API key; None if the service runs without keys
    recalibration: RecalibrationSpec  # what follows an alarm


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(WireAnswer):
    """A challenger that was better than the champion, or has an assumption, and waits to be accepted or rejected."""

    id: str  # id of the proposal
    created_at: str  # when it was created
    occasion: Occasion  # why the challenger was requested
    map: str  # id of the challenger, which has no name or version yet
    name: str  # name whose next version it becomes if accepted
    alias: str  # alias that is moved to it if accepted
    version: int | None = None  # version of the challenger, in the response that accepts it
    revision: int | None  # revision of the alias at the comparison; None: there was no alias
    found: RecalibrationData  # what the comparison with the current map found


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(WireAnswer):
    """One action, and who performed it."""

    at: str  # time of the entry
    action: AuditAction  # what was done
    who: str | None = None  # name of the API key; None: the service itself, or a service without keys
    rule: str | None = None  # name of the rule, if it is about one
    alarm: int | None = None  # number of the rule's alarm, or of the request if there is no rule; counted from 1
    detail: str | None = None  # reason
    found: RecalibrationData | None = None  # what a recalibration found


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmsAnswer(WireAnswer):
    """The current state of every rule, and a page of events, newest first."""

    rules: list[RuleState]  # state of each rule
    items: list[MonitorEvent]  # entries of this page
    next: str | None  # cursor of the next page


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAnswer(WireAnswer):
    """A page of the audit log, newest first."""

    items: list[AuditEntry]  # entries of this page
    next: str | None  # cursor of the next page


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(WireAnswer):
    """One attempt: the response status, or the reason why there is none. Nothing else of a response is stored."""

    number: int  # counted from 1, including resends
    at: str  # when it was sent
    status: int | None = None  # HTTP status of the response; None without one
    error: AttemptError | None = None  # why there was no response; None with one
    seconds: float | None = None  # duration


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRecord(WireAnswer):
    """The delivery of an event to one hook."""

    format: int = 1  # version of the format of this document
    id: str  # id of the delivery
    monitor: str  # name of the monitor
    hook: str  # name of the hook
    status: DeliveryStatus = "pending"  # status of the delivery
    event: MonitorEvent  # the event that is delivered
    attempts: list[Attempt] = field(default_factory=list)  # the last 20, oldest first
    tried: int = 0  # attempts since the event was created or resent
    created_at: str  # when it was created
    ended_at: str | None = None  # when the last attempt ended; None before
    next_at: str | None = None  # time of the next attempt; None if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySummary(WireAnswer):
    """A delivery in a list."""

    id: str  # id of the delivery
    hook: str  # name of the hook
    status: DeliveryStatus  # status of the delivery
    event: str  # id of the event
    type: EventType  # type of the event
    tried: int  # number of attempts
    last: Attempt | None = None  # the last attempt
    created_at: str  # when it was created
    ended_at: str | None = None  # when the last attempt ended; None before
    next_at: str | None = None  # time of the next attempt; None if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveriesAnswer(WireAnswer):
    """A page of deliveries, newest first."""

    items: list[DeliverySummary]  # entries of this page
    next: str | None  # cursor of the next page
