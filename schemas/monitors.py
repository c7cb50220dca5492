"""``/monitors``: definitions of monitors, their rows and their state."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Document, Name, Reference
from schemas.batches import Scale

#: Seconds.
MINUTE, HOUR, DAY = 60, 3600, 86_400
#: At most so many of each, in one monitor.
MAX_WINDOWS, MAX_RULES, MAX_MONITOR_MEASURES, MAX_HOOKS = 8, 16, 8, 4
#: A monitor tells at most so many groups apart; and keeps at most so many time buckets.
MAX_MONITOR_GROUPS, MAX_BUCKETS = 1000, 10_000

#: Shown in the place of a hook's path and query.
HIDDEN_PATH = "/..."

Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Recalibrating = Literal["off", "propose", "auto"]


class WindowSpec(Document):
    """A window: the rows predicted in the last ``seconds``, or the last ``rows`` that were labelled."""

    name: Label = Field(examples=["day"])
    seconds: int | None = Field(None, ge=MINUTE, le=400 * DAY, description="by the time of prediction")
    rows: int | None = Field(None, ge=100, le=10**9, description="to within a sixteenth of them, and one request")


class ReferenceSpec(Document):
    """What windows are compared with: the rows predicted in a fixed span of time, or a stored batch."""

    start: float | None = Field(None, description="seconds since 1970")
    end: float | None = Field(None, description="seconds since 1970")
    batch: str | None = Field(None, description="id of a stored batch; its tally is kept with the monitor")


class EvidenceRule(Document):
    """An alarm by a test that stays valid however often it is looked at."""

    kind: Literal["evidence"]
    name: Label = Field("evidence")
    alpha: float = Field(0.01, gt=0, lt=0.5, description="the chance of ever a false alarm, since the last start")
    after: int = Field(
        0,
        ge=0,
        le=400 * DAY,
        description="only buckets that ended so many seconds ago count: give the time after which labels are complete, "
        "if one outcome is known sooner than the other",
    )


class ThresholdRule(Document):
    """An alarm by a measure above a bound, with hysteresis."""

    kind: Literal["threshold"]
    name: Label = Field("threshold")
    measure: str = Field("ece", description="the key of one of the monitor's measures")
    window: Label
    group: str | None = Field(None, description="of one group alone; None: of all rows")
    above: float = Field(description="raised above this")
    clear_below: float | None = Field(None, description="cleared below this; default: ``above``")
    by: Literal["value", "lower", "debiased"] = Field("value", description="which number is compared")
    looks: int = Field(1, ge=1, le=1000, description="so many looks in a row, to raise and to clear")
    least_rows: int = Field(100, ge=1, description="labelled rows that the window has at least")


Rule = Annotated[EvidenceRule | ThresholdRule, Field(discriminator="kind")]


class HookSpec(Document):
    """Where alarms are delivered to, signed as Standard Webhooks 1.0 says."""

    name: Label = Field("hook")
    url: str = Field(max_length=2000, examples=["https://alerts.example.com/calibrant"], repr=False)
    secret: str | None = Field(
        None,
        max_length=200,
        repr=False,
        description="``whsec_`` and 24 to 64 bytes in base64; made and shown once where not given",
    )
    old_secret: str | None = Field(
        None, max_length=200, repr=False, description="signs beside ``secret`` while receivers change over"
    )
    old_secret_until: float | None = Field(
        None, description="seconds since 1970 at which ``old_secret`` ends; a day from now where it is not given"
    )

    @property
    def shown_url(self) -> str:
        """The URL's scheme, host and port: in the path, as in the query, secrets may stand."""
        scheme, mark, rest = self.url.partition("://")
        end = next((i for i, letter in enumerate(rest) if letter in "/?#"), len(rest))
        return f"{scheme}{mark}{rest[:end]}" + (HIDDEN_PATH if rest[end:].strip("/") else rest[end:])

    def shown(self, *, secret: bool = False) -> HookSpec:
        """The hook as callers see it, with its ``secret`` where that was made for the caller."""
        hidden = {"url": self.shown_url, "old_secret": None, "secret": self.secret if secret else None}
        return self.model_copy(update=hidden)


class RecalibrationSpec(Document):
    """What is done on an alarm: ``propose`` and ``auto`` fit a challenger, ``auto`` moves the alias if it is better."""

    policy: Recalibrating = "off"
    name: Name | None = Field(None, description="the name whose next version a challenger becomes; default: the map's")
    alias: Name = Field(
        "champion", description="what ``auto``, or an accepted proposal, moves; a monitor's map must be ``name@alias``"
    )
    method: str = "platt"
    options: dict[str, Any] = Field({})
    window: Label | None = Field(None, description="the window of its rows; default: the first")
    after: int | None = Field(
        None,
        ge=0,
        le=400 * DAY,
        description="the window ends so many seconds ago; default: the longest ``after`` of the rules of evidence",
    )
    level: float = Field(0.95, gt=0.5, lt=1, description="of the paired interval of the gain in log loss")
    least_rows: int = Field(1000, ge=100)
    pause: int = Field(HOUR, ge=0, description="seconds between two challengers, while an alarm stays")


def _no_default(schema: dict[str, Any]) -> None:
    """Leave the default of a field to its description: generated clients would send it, as if the caller chose it."""
    del schema["default"]


class MonitorFields(Document):
    """What of a monitor may be changed later."""

    description: str | None = Field(None, max_length=2000)
    windows: list[WindowSpec] = Field([WindowSpec(name="day", seconds=DAY)], min_length=1, max_length=MAX_WINDOWS)
    measures: list[str | dict[str, Any]] = Field(
        ["ece", "ks", "log-loss"], min_length=1, max_length=MAX_MONITOR_MEASURES
    )
    interval: float | None = Field(0.95, gt=0, lt=1)
    rules: list[Rule] = Field([EvidenceRule(kind="evidence")], max_length=MAX_RULES)
    reference: ReferenceSpec | None = None
    hooks: list[HookSpec] = Field([], max_length=MAX_HOOKS)
    recalibration: RecalibrationSpec = RecalibrationSpec()
    retention: int = Field(
        90 * DAY,
        ge=HOUR,
        le=1000 * DAY,
        description="seconds that buckets are kept; default: 90 days, or 10,000 buckets",
        json_schema_extra=_no_default,
    )


class MonitorBody(MonitorFields):
    """The body of ``POST /monitors``."""

    name: Name
    reduction: str | None = Field(
        None, description="binary (default of one column), confidence (default of several), class:k or top:r"
    )
    n_classes: int | None = Field(None, ge=2, le=100_000, description="K, of predictions of several columns")
    scale: Scale = "probability"
    map: Reference | None = Field(None, description="a map to apply first, as it is when a row comes")
    bucket: int | None = Field(
        None, ge=MINUTE, le=DAY, description="seconds of a time bucket; default: a 24th of the shortest window"
    )
    horizon: int = Field(
        30 * DAY,
        ge=MINUTE,
        le=400 * DAY,
        description="seconds that predictions wait for labels, and ids are known; default: 30 days, or the retention",
        json_schema_extra=_no_default,
    )
    skew: int = Field(300, ge=0, le=DAY, description="seconds that a row's time may lie in the future")
    max_groups: int = Field(100, ge=0, le=MAX_MONITOR_GROUPS, description="those beyond are counted as ``(other)``")
    max_ids: int = Field(10_000_000, ge=1000, description="ids that are known at once")


class MonitorPatch(Document):
    """The body of ``PATCH /monitors/{name}``: what is given is changed."""

    description: str | None = Field(None, max_length=2000)
    windows: list[WindowSpec] | None = Field(None, min_length=1, max_length=MAX_WINDOWS)
    measures: list[str | dict[str, Any]] | None = Field(None, min_length=1, max_length=MAX_MONITOR_MEASURES)
    interval: float | None = Field(None, gt=0, lt=1)
    rules: list[Rule] | None = Field(None, max_length=MAX_RULES)
    reference: ReferenceSpec | None = None
    hooks: list[HookSpec] | None = Field(None, max_length=MAX_HOOKS)
    recalibration: RecalibrationSpec | None = None
    retention: int | None = Field(None, ge=HOUR, le=1000 * DAY)


class MonitorRecord(MonitorBody):
    """A monitor as it is stored; hooks keep their secrets here, and are shown without."""

    uid: str = Field(description="another one for each monitor that ever had this name")
    created_at: str
    created_by: str | None = None
    started_at: float = Field(description="seconds since 1970: rows predicted earlier are not evidence")


class StoredMonitor(MonitorRecord):
    """A monitor as it is stored."""

    format: int = 1

    @classmethod
    def of(cls, record: MonitorRecord) -> StoredMonitor:
        """The document of a record."""
        return cls(**record.model_dump())

    def record(self) -> MonitorRecord:
        """The record of the document."""
        return MonitorRecord(**self.model_dump(exclude={"format"}))


class RefusedRow(Document):
    """A row that was not counted, and why."""

    row: int
    code: str
    detail: str


class Taken(Document):
    """What became of the rows of one request. Every row is in one of the counts."""

    accepted: int = Field(description="predictions, labels or labelled rows that are new")
    joined: int = Field(description="of them, those that are now counted with their label")
    waiting: int = Field(description="of them, labels without a prediction yet")
    duplicates: int = Field(description="known already, with the same values")
    contradicted: int = Field(description="known already with another label, which stays")
    refused: int = Field(description="not counted; each may be sent again once it is mended")
    other_group: int = Field(0, description="of the accepted, those of groups beyond ``max_groups``")
    ignored: int = Field(0, description="events of a type that tells of no prediction and no label; none is a row")
    refusals: list[RefusedRow] = Field([], description="the first of the refused and the contradicted")


class Counts(Document):
    """Counts since a monitor began."""

    predictions: int = Field(description="distinct predictions, labelled at once or not")
    labels: int = Field(description="distinct labels")
    joined: int = Field(description="predictions with a label")
    expired: int = Field(description="predictions whose label did not come before the horizon")
    pending: int = Field(description="predictions that wait for a label")
    waiting: int = Field(description="labels that wait for a prediction")
    unmatched: int = Field(description="labels whose prediction did not come before the horizon")
    duplicates: int
    contradicted: int
    refused: int
