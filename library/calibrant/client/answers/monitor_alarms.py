"""Generated from schemas/monitor_alarms.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from calibrant.client.answers.document import Document
from calibrant.client.answers.monitors import RecalibrationSpec

RuleKind = Literal["evidence", "threshold", "drift"]
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
RuleStatus = Literal["unknown", "ok", "alarm"]
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
class ChangeReading(Document):
    """When calibration changed, estimated from the time buckets up to the alarm, and how."""

    time: str  # estimated time of the change
    interval: tuple[str, str]  # 95 % interval of the time
    predictions: tuple[float, float]  # predictions whose gap since then is clearest
    gap: float  # their observed frequency minus their mean since then; above 0: they are too low
    rows: int  # number of their labelled rows since then
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEvidence(Document):
    """Evidence that predictions are distributed differently than in the reference, since the last start of the rule.

    Without drift, the probability that ``log_e`` ever reaches ``bound`` is at most the rule's alpha.
    """

    log_e: float  # natural logarithm of the e-value at the last check
    largest: float  # largest value at any check since the start
    bound: float  # log(1 / alpha)
    level: float  # exp(-largest), at most 1: an anytime-valid p-value
    since: str  # start of the period with the strongest evidence, a time bucket
    low: float  # predictions from here to `high` changed most clearly
    high: float
    reference_share: float  # share of the predictions in this range in the reference
    share: float  # share of the predictions in this range since then
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmData(Document):
    """An alarm, at the time when it was raised, cleared or acknowledged."""

    monitor: str
    rule: str  # name of the rule
    kind: RuleKind
    measure: str | None = None  # for a threshold: key of the measure
    window: str | None = None  # for a threshold: name of the window
    group: str | None = None  # for a threshold: the group; None for all rows
    value: float | None = None  # the compared value; for evidence and drift: the logarithm of the e-value
    bound: float | None = None  # the bound that the value is compared with
    rows: int | None = None  # number of labelled rows in the computation; for drift: of predictions
    since: str | None = None  # when the alarm was raised
    change: ChangeReading | None = None  # for an evidence rule: when calibration changed, and how
    description: str | None = None  # for evidence and drift: the error or the drift in words
    drift: DriftEvidence | None = None  # for drift: how the predictions changed


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalibrationData(Document):
    """A challenger compared with the champion."""

    monitor: str
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
class HookTestData(Document):
    """A requested test of a hook; it does not indicate a change of the monitor."""

    monitor: str
    hook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorEvent(Document):
    """An event of a monitor. Its ``id`` is sent in the header ``webhook-id``, the other fields in the body."""

    id: str
    type: EventType
    timestamp: str  # time of the event, not of the delivery
    data: AlarmData | HookTestData | RecalibrationData
    page: str | None = None  # address of the monitor's page; only in webhooks, if the workers have `--public-url`


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReading(Document):
    """Evidence against calibration since the last start of the rule.

    ``log_e`` may be compared with ``bound`` at any time: if the model is calibrated, the probability that it ever
    reaches ``bound`` is at most the rule's alpha.
    """

    log_e: float  # natural logarithm of the e-value at the last check
    largest: float  # largest value at any check since the start
    bound: float  # log(1 / alpha)
    level: float  # exp(-largest), at most 1: an anytime-valid p-value
    since: str | None  # start of the period with the strongest evidence, a time bucket
    shape: Literal["line", "curve", "part"]  # shape of the error with the strongest evidence
    delta: float  # its size: log-odds of the outcome minus those of the prediction
    spread: float  # for a line: change of `delta` per unit of half the logit
    low: float  # smallest prediction that it concerns
    high: float  # largest prediction that it concerns
    description: str  # description of the error
    #: once the alarm is raised: when calibration changed, and how; None if it is unknown
    change: ChangeReading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdReading(Document):
    """A measure and its bound at the last check."""

    measure: str
    window: str
    group: str | None = None
    value: float | None  # the compared value; None if undefined
    above: float
    clear_below: float
    looks: int  # consecutive checks, each on different rows, that indicate the other status


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState(Document):
    """The current state of a rule, and since when."""

    rule: str
    kind: RuleKind
    status: RuleStatus = "unknown"  # `unknown` until there are enough rows
    since: str | None = None  # when the status last changed
    alarms: int = 0  # number of times that the alarm was raised
    rows: int = 0  # number of labelled rows in the last check; for drift: of predictions
    looked_at: str | None = None
    challengers: int = 0  # number of challengers requested for the raised alarm
    acknowledged_at: str | None = None  # for a threshold that is still raised
    acknowledged_by: str | None = None
    started_at: float = 0.0  # for evidence and drift: rows predicted earlier are excluded; seconds since 1970
    definition: str = ""  # digest of the rule; a changed rule starts again
    evidence: EvidenceReading | None = None
    threshold: ThresholdReading | None = None
    drift: DriftEvidence | None = None
    reason: str | None = None  # for drift: why the rule cannot be checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion(Document):
    """The reason to fit a challenger, or to write a version of an online map: an alarm of a rule, or a request."""

    rule: str | None = None  # None for a request
    number: int  # number of the rule's alarm, of the request, or of the version, counted from 1
    reason: OnlineReason | None = None  # for a version of an online map: why it was written
    attempt: int = 1  # an alarm that stays raised causes further attempts; counted from 1
    correction: Correction | None = None  # of a request: what is corrected without labels


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalibrationRequested(Document):
    """A requested challenger, and how it will be fitted."""

    monitor: str
    number: int  # number of the request, counted from 1; a pending request is returned again
    requested_at: str
    requested_by: str | None  # name of the API key; None if the service runs without keys
    recalibration: RecalibrationSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Document):
    """A challenger that was better than the champion, or has an assumption, and waits to be accepted or rejected."""

    id: str
    created_at: str
    occasion: Occasion
    map: str  # id of the challenger, which has no name or version yet
    name: str  # name whose next version it becomes if accepted
    alias: str  # alias that is moved to it if accepted
    version: int | None = None  # version of the challenger, in the response that accepts it
    revision: int | None  # revision of the alias at the comparison; None: there was no alias
    found: RecalibrationData


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Document):
    """One action, and who performed it."""

    at: str
    action: AuditAction
    who: str | None = None  # name of the API key; None: the service itself, or a service without keys
    rule: str | None = None
    alarm: int | None = None  # number of the rule's alarm, or of the request if there is no rule; counted from 1
    detail: str | None = None  # reason
    found: RecalibrationData | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmsAnswer(Document):
    """The current state of every rule, and a page of events, newest first."""

    rules: list[RuleState]
    items: list[MonitorEvent]
    next: str | None  # cursor of the next page


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAnswer(Document):
    """A page of the audit log, newest first."""

    items: list[AuditEntry]
    next: str | None  # cursor of the next page


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Document):
    """One attempt: the response status, or the reason why there is none. Nothing else of a response is stored."""

    number: int  # counted from 1, including resends
    at: str
    status: int | None = None
    error: AttemptError | None = None
    seconds: float | None = None  # duration


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRecord(Document):
    """The delivery of an event to one hook."""

    format: int = 1
    id: str
    monitor: str
    hook: str
    status: DeliveryStatus = "pending"
    event: MonitorEvent
    attempts: list[Attempt] = field(default_factory=list)  # the last 20, oldest first
    tried: int = 0  # attempts since the event was created or resent
    created_at: str
    ended_at: str | None = None
    next_at: str | None = None  # time of the next attempt; None if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySummary(Document):
    """A delivery in a list."""

    id: str
    hook: str
    status: DeliveryStatus
    event: str
    type: EventType
    tried: int
    last: Attempt | None = None  # the last attempt
    created_at: str
    ended_at: str | None = None
    next_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveriesAnswer(Document):
    """A page of deliveries, newest first."""

    items: list[DeliverySummary]
    next: str | None  # cursor of the next page
