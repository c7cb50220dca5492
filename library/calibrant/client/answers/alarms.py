"""Alarms of monitors: rules, events, proposed maps, the audit log and webhook deliveries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from calibrant.client.answers.document import Document
from calibrant.client.answers.monitors import RecalibrationSpec

RuleKind = Literal["evidence", "threshold", "drift"]
RuleStatus = Literal["unknown", "ok", "alarm"]
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
DeliveryStatus = Literal["pending", "succeeded", "dead"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReading(Document):
    """When calibration changed, estimated from the counts up to the alarm, and how."""

    time: str
    interval: tuple[str, str]  # of the time, with level 95 %
    predictions: tuple[float, float]  # range whose gap since then is clearest
    gap: float  # observed frequency minus mean prediction since then; above 0: the predictions are too low
    rows: int  # labelled rows in the range since then
    message: str  # the change as text


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReading(Document):
    """Evidence against calibration since the last start: an e-process and the error that it points to."""

    log_e: float  # natural logarithm of the e-value at the last look
    largest: float  # largest ``log_e`` at any look since the start
    bound: float  # log(1 / alpha)
    level: float  # exp(-largest), at most 1: an anytime-valid p-value
    since: str | None  # start of the period with the strongest evidence, a time bucket
    shape: Literal["line", "curve", "part"]  # of the error
    delta: float  # size of the error: log-odds of the outcome minus those of the prediction
    spread: float  # of a line: added to ``delta`` per unit of half the logit
    low: float  # smallest prediction that the error concerns
    high: float  # largest prediction that the error concerns
    description: str  # the error as text
    change: ChangeReading | None = None  # of a raised alarm


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdReading(Document):
    """A measure and its bound at the last look."""

    measure: str
    window: str
    group: str | None = None
    value: float | None  # the number that is compared
    above: float
    clear_below: float
    looks: int  # consecutive looks that point to the other status


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEvidence(Document):
    """Evidence that predictions are distributed differently than in the reference."""

    log_e: float  # natural logarithm of the e-value at the last look
    largest: float  # largest ``log_e`` at any look since the start
    bound: float  # log(1 / alpha)
    level: float  # exp(-largest), at most 1: an anytime-valid p-value
    since: str  # start of the period with the strongest evidence, a time bucket
    low: float  # predictions from here to ``high`` changed most clearly
    high: float
    reference_share: float  # of the predictions in this range
    share: float  # since then
    message: str  # the drift as text


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState(Document):
    """A rule of a monitor and its status."""

    rule: str
    kind: RuleKind
    status: RuleStatus = "unknown"  # unknown until there are enough rows
    since: str | None = None  # when the status began
    alarms: int = 0  # number of times that the alarm was raised
    rows: int = 0  # labelled rows at the last look; of drift: predictions
    looked_at: str | None = None
    challengers: int = 0  # challengers that were requested for the alarm that is raised
    acknowledged_at: str | None = None  # of a threshold that is still raised
    acknowledged_by: str | None = None
    started_at: float = 0.0  # of evidence and drift: rows predicted earlier do not count; seconds since 1970
    definition: str = ""  # digest of the rule; a rule that is changed starts again
    evidence: EvidenceReading | None = None
    threshold: ThresholdReading | None = None
    drift: DriftEvidence | None = None
    reason: str | None = None  # why a rule of drift cannot be checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion(Document):
    """Why a challenger was requested or an online version written: an alarm of a rule, or a call of ``recalibrate``."""

    rule: str | None = None  # None: requested by a call
    number: int  # of the rule's alarms, of the requests, or of the versions, from 1
    reason: OnlineReason | None = None  # of a version of an online map
    attempt: int = 1  # from 1; an alarm that stays raised has several
    correction: Literal["label-shift"] | None = None  # of a request: what is corrected without labels


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalibrationRequested(Document):
    """A request for a challenger, and how it is fitted."""

    monitor: str
    number: int  # of the request, from 1
    requested_at: str
    requested_by: str | None  # name of the API key
    recalibration: RecalibrationSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmData(Document):
    """An alarm when it was raised, cleared or acknowledged."""

    monitor: str
    rule: str
    kind: RuleKind
    measure: str | None = None  # of a threshold
    window: str | None = None  # of a threshold
    group: str | None = None  # of a threshold; None: all rows
    value: float | None = None  # the number that is compared; of evidence and drift: log of the e-value
    bound: float | None = None  # what ``value`` is compared with
    rows: int | None = None  # labelled rows
    since: str | None = None  # when the alarm was raised
    change: ChangeReading | None = None  # of evidence
    description: str | None = None  # of evidence and drift: in words
    drift: DriftEvidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalibrationData(Document):
    """A challenger compared with the champion."""

    monitor: str
    rule: str | None = None  # None: requested by a call
    name: str | None = None
    alias: str | None = None
    champion: str | None = None  # id of the map at the alias; None: there was none
    challenger: str | None = None  # id of the fitted map; None: none was fitted
    gain: float | None = None  # log loss of the champion minus that of the challenger, in nats
    low: float | None = None  # lower end of the interval of the gain
    high: float | None = None
    rows: int | None = None  # held-out rows of the comparison; all rows if there were too few
    since: str | None = None  # when the rows of the fit begin; None: with the window
    code: str | None = None  # why it was declined, or the problem's code if it failed
    assumption: str | None = None  # of a challenger without labels, which was not compared


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTestData(Document):
    """A test of a webhook."""

    monitor: str
    hook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorEvent(Document):
    """An event of a monitor."""

    id: str
    type: EventType
    timestamp: str  # when it happened, not when it was delivered
    data: AlarmData | HookTestData | RecalibrationData
    page: str | None = None  # address of the monitor's page, in webhooks


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Document):
    """A challenger that was better than the champion and waits to be accepted or rejected."""

    id: str
    created_at: str
    occasion: Occasion
    map: str  # id of the challenger
    name: str  # name that it becomes the next version of when it is accepted
    alias: str  # alias that is moved to it when it is accepted
    version: int | None = None  # only in the answer of ``accept_proposal``
    revision: int | None  # of the alias at the comparison; None: there was no alias
    found: RecalibrationData


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Document):
    """An action on a monitor, and who took it."""

    at: str
    action: AuditAction
    who: str | None = None  # name of the API key; None: the server itself, or a server without keys
    rule: str | None = None
    alarm: int | None = None  # number of the rule's alarm, or of the request if there is no rule; from 1
    detail: str | None = None
    found: RecalibrationData | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmsAnswer(Document):
    """The status of every rule, and a page of events, newest first."""

    rules: list[RuleState]
    items: list[MonitorEvent]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAnswer(Document):
    """A page of the audit log, newest first."""

    items: list[AuditEntry]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Document):
    """An attempt to deliver an event: the status of the receiver's response, or the error."""

    number: int  # from 1, over all times that the event was sent again
    at: str
    status: int | None = None
    error: AttemptError | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRecord(Document):
    """The delivery of an event to a webhook."""

    format: int = 1
    id: str
    monitor: str
    hook: str
    status: DeliveryStatus = "pending"
    event: MonitorEvent
    attempts: list[Attempt] = field(default_factory=list)  # the last ones, oldest first
    tried: int = 0  # attempts since it was last requested
    created_at: str
    ended_at: str | None = None
    next_at: str | None = None  # time of the next attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySummary(Document):
    """A delivery in a list."""

    id: str
    hook: str
    status: DeliveryStatus
    event: str  # id of the event
    type: EventType
    tried: int
    last: Attempt | None = None
    created_at: str
    ended_at: str | None = None
    next_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveriesAnswer(Document):
    """A page of deliveries, newest first."""

    items: list[DeliverySummary]
    next: str | None
