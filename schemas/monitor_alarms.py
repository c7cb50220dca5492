"""``/monitors/{name}/alarms``, ``/audit`` and ``/proposal``: what the rules say now, and what was done about it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Document
from schemas.monitor_events import MonitorEvent, RecalibrationTold
from schemas.monitors import RecalibrationSpec

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
    told: str = Field(description="the error in words")


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
    challengers: int = Field(0, description="how often a challenger was asked for upon the alarm that is raised")
    acknowledged_at: str | None = Field(None, description="of a threshold that is still raised")
    acknowledged_by: str | None = None
    started_at: float = Field(0.0, description="of evidence: rows predicted earlier are none; seconds since 1970")
    definition: str = Field("", description="digest of the rule: one that is changed begins anew")
    evidence: EvidenceReading | None = None
    threshold: ThresholdReading | None = None


class Occasion(Document):
    """Upon what a challenger is asked for: one alarm of one rule, or someone's request."""

    rule: str | None = Field(None, description="null: someone asked")
    number: int = Field(description="of the rule's alarms, or of the requests, counted from 1")
    attempt: int = Field(1, description="an alarm that stays is seen to again; counted from 1")

    @property
    def seed(self) -> str:
        """Its name among those of a monitor; no rule has a space in its name."""
        named = f"{self.rule or 'by request'}:{self.number}"
        return named if self.attempt == 1 else f"{named}:{self.attempt}"


class RecalibrationRequested(Document):
    """That a challenger was asked for, and how it will be made."""

    monitor: str
    number: int = Field(description="of the request, counted from 1; one that waits still is asked for again")
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
    requests: int = Field(0, description="how often one was asked for by someone")
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
    detail: str | None = Field(None, description="why, in words")
    found: RecalibrationTold | None = None


class JournalQuery(Document):
    """Which events, or entries of the audit, are asked for: the newest, or those behind a page."""

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
