"""``/monitors``: definitions of monitors, and the results of ingestion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field

from schemas.base import DAY, HOUR, MINUTE, Document, Instant, Label, Name, Reference, Timestamp
from schemas.batches import Scale
from schemas.distributions import ForecastKind, Level, PredictionKind
from schemas.monitor_rules import EvidenceRule, Rule

#: Maximum number of each in one monitor.
MAX_WINDOWS, MAX_RULES, MAX_MONITOR_MEASURES, MAX_HOOKS = 8, 16, 8, 4
#: Maximum number of groups, and of time buckets, of a monitor.
MAX_MONITOR_GROUPS, MAX_BUCKETS = 1000, 10_000
#: Fewest and most rows of a reservoir, and most numbers of its vectors.
MIN_RESERVOIR, MAX_RESERVOIR, MAX_RESERVOIR_NUMBERS = 1000, 20_000, 1_000_000

#: Replaces the path and query of a hook's URL.
HIDDEN_PATH = "/..."

Recalibrating = Literal["off", "propose", "auto", "online", "adaptive"]


class WindowSpec(Document):
    """A window: the rows predicted in the last ``seconds``, or the last ``rows`` labelled rows."""

    name: Label = Field(examples=["day"], description="name of the window")
    seconds: int | None = Field(
        None, ge=MINUTE, le=400 * DAY, description="length in seconds, by the time of prediction"
    )
    rows: int | None = Field(
        None,
        ge=100,
        le=10**9,
        description="number of labelled rows. It may hold up to a sixteenth more, "
        "plus one chunk of a request (5,000 rows, or 50,000 without ids)",
    )


class ReferenceSpec(Document):
    """The reference that windows are compared with: the rows predicted in a span of time, or a stored batch."""

    start: Instant | None = None
    end: Instant | None = None
    batch: str | None = Field(None, description="id of a stored batch; the monitor keeps a tally of it")


class HookSpec(Document):
    """A webhook that receives alarms, signed according to Standard Webhooks 1.0."""

    name: Label = Field("hook", description="name of the hook")
    url: str = Field(
        max_length=2000,
        examples=["https://alerts.example.com/calibrant"],
        repr=False,
        description="URL that receives the events",
    )
    secret: str | None = Field(
        None,
        max_length=200,
        repr=False,
        description="``whsec_`` followed by the base64 of 24 to 64 bytes; if omitted, generated and returned once",
    )
    old_secret: str | None = Field(
        None, max_length=200, repr=False, description="also signs events during a change of the secret"
    )
    old_secret_until: Instant | None = Field(None, description="when ``old_secret`` expires; default: a day from now")

    @property
    def origin(self) -> str:
        """The URL's scheme, host and port."""
        scheme, mark, rest = self.url.partition("://")
        return f"{scheme}{mark}{re.split('[/?#]', rest, maxsplit=1)[0]}"

    @property
    def shown_url(self) -> str:
        """The URL's scheme, host and port; the path and the query may contain secrets."""
        path = self.url.removeprefix(self.origin)
        return self.origin + (HIDDEN_PATH if path.strip("/") else path)

    def shown(self, *, secret: bool = False) -> HookSpec:
        """The hook as callers see it; includes ``secret`` only if it was generated for this caller."""
        hidden = {"url": self.shown_url, "old_secret": None, "secret": self.secret if secret else None}
        return self.model_copy(update=hidden)


#: The policies by which a monitor moves an alias by itself.
PROMOTING = ("auto", "online", "adaptive")


class RecalibrationSpec(Document):
    """How a monitor recalibrates.

    On an alarm, ``propose`` and ``auto`` fit a challenger; ``auto`` moves the alias to it if it is better. ``online``
    keeps a map that is updated after each time bucket with labels, and moves the alias to versions of it. ``adaptive``
    moves the alias to versions of a map to prediction sets, whose error level follows the coverage.
    """

    policy: Recalibrating = Field("off", description="whether an alarm fits a challenger, and what becomes of it")
    name: Name | None = Field(
        None, description="name whose next version a challenger becomes; default: that of the monitor's map"
    )
    alias: Name = Field(
        "champion",
        description="alias that ``auto`` or an accepted proposal moves; the monitor's map must be ``name@alias``",
    )
    method: str = Field(
        "platt",
        description="method of challengers; for regression only ``quantile-recalibration``, which is the default there",
    )
    options: dict[str, Any] = Field(
        {},
        description="options of the method; for ``online``: memories, window and rows_per_round of the map; for "
        "``adaptive``: gamma",
    )
    window: Label | None = Field(
        None,
        description="window whose rows the challenger is fitted to, or that ``online`` starts with; default: the first",
    )
    after: int | None = Field(
        None,
        ge=0,
        le=400 * DAY,
        description="the window ends this many seconds ago, and ``online`` counts a time bucket this many seconds "
        "after its end; default: the longest ``after`` of the evidence rules",
    )
    level: float = Field(
        0.95,
        gt=0.5,
        lt=1,
        description="confidence level of the paired interval of the gain in log loss; ``online`` writes a version when "
        "the e-value against the map in force reaches 1 / (1 - level)",
    )
    least_rows: int = Field(1000, ge=100, description="minimum number of labelled rows of a challenger")
    pause: int = Field(
        HOUR,
        ge=0,
        description="minimum seconds between two challengers while an alarm stays raised, or two versions by evidence",
    )
    every: int = Field(DAY, ge=MINUTE, le=400 * DAY, description="seconds between two scheduled versions")

    @property
    def promotes(self) -> bool:
        """Whether the monitor moves the alias by itself."""
        return self.policy in PROMOTING


def _no_default(schema: dict[str, Any]) -> None:
    """Remove the default of a field from the schema: generated clients would send it as if the caller had set it."""
    del schema["default"]


class MonitorFields(Document):
    """The fields of a monitor that can be changed later."""

    description: str | None = Field(None, max_length=2000)
    windows: list[WindowSpec] = Field([WindowSpec(name="day", seconds=DAY)], min_length=1, max_length=MAX_WINDOWS)
    measures: list[str | dict[str, Any]] = Field(
        ["ece", "ks", "log-loss"],
        min_length=1,
        max_length=MAX_MONITOR_MEASURES,
        description="names of measures, or objects with a name, options and `as`",
    )
    interval: float | None = Field(0.95, gt=0, lt=1, description="level of the intervals")
    rules: list[Rule] = Field([EvidenceRule(kind="evidence")], max_length=MAX_RULES)
    reference: ReferenceSpec | None = None
    hooks: list[HookSpec] = Field([], max_length=MAX_HOOKS)
    recalibration: RecalibrationSpec = RecalibrationSpec()
    retention: int = Field(
        90 * DAY,
        ge=HOUR,
        le=1000 * DAY,
        description="seconds that buckets are kept; at least the horizon and the longest window, at most 10,000 "
        "buckets; default of a new monitor: 90 days, or 10,000 buckets if that is shorter",
        json_schema_extra=_no_default,
    )


#: The most levels, or samples of a row, of a monitor of regression: more are not stored until the outcome is known.
MAX_LEVELS = 200


class MonitorForecast(Document):
    """The form of the forecasts of a monitor of regression."""

    kind: ForecastKind = Field(description="kind of the forecasts")
    levels: list[Level] | None = Field(None, min_length=1, max_length=MAX_LEVELS, description="of quantiles, ascending")
    level: Level | None = Field(None, description="of intervals")
    n_samples: int | None = Field(None, ge=1, le=MAX_LEVELS, description="number of samples of each row")

    @property
    def width(self) -> int:
        """The number of values of each forecast."""
        return len(self.levels or ()) or self.n_samples or 2


class MonitorBody(MonitorFields):
    """The body of ``POST /monitors``."""

    name: Name = Field(description="name of the monitor")
    prediction_kind: PredictionKind = Field(
        "classification", description="``regression``: rows have forecasts of a number, and observed outcomes"
    )
    forecast: MonitorForecast | None = Field(None, description="for ``regression``: form of the forecasts")
    reduction: str | None = Field(
        None, description="binary (default for one column), confidence (default for several), class:k or top:r"
    )
    n_classes: int | None = Field(None, ge=2, le=100_000, description="K, for predictions of several columns")
    coverage: Level | None = Field(
        None,
        description="nominal coverage of prediction sets of ``n_classes`` classes; the prediction of a row is then K "
        "numbers, 1 if its set has the class and 0 if not, and the counted event is that the set has the label",
    )
    scale: Scale = "probability"
    map: Reference | None = Field(None, description="map that is applied to rows on arrival, in its state at that time")
    bucket: int | None = Field(
        None, ge=MINUTE, le=DAY, description="length of a time bucket in seconds; default: 1/24 of the shortest window"
    )
    horizon: int = Field(
        30 * DAY,
        ge=MINUTE,
        le=400 * DAY,
        description="seconds that predictions wait for labels; ids are kept for ``skew`` seconds more; default: 30 "
        "days, or the retention if that is shorter",
        json_schema_extra=_no_default,
    )
    skew: int = Field(300, ge=0, le=DAY, description="seconds that the time of a row may lie in the future")
    max_groups: int = Field(
        100,
        ge=0,
        le=MAX_MONITOR_GROUPS,
        description="maximum number of groups; further groups are counted as ``(other)``",
    )
    max_ids: int = Field(10_000_000, ge=1000, description="maximum number of ids stored at a time")
    reservoir: int | None = Field(
        None,
        ge=MIN_RESERVOIR,
        le=MAX_RESERVOIR,
        description="for K classes: number of rows of each time window, and of the reference, whose vectors are kept "
        "as a uniform sample, from which the label shift of all classes is estimated; at most 1,000,000 / K",
    )


def _no_defaults(schema: dict[str, Any]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)


class MonitorPatch(MonitorFields):
    """The body of ``PATCH /monitors/{name}``, a JSON merge patch (RFC 7396): null removes, omitted fields are kept."""

    model_config = ConfigDict(json_schema_extra=_no_defaults)


class MonitorRecord(MonitorBody):
    """A monitor with the secrets of its hooks, which responses omit."""

    id: str = Field(
        validation_alias=AliasChoices("id", "uid"),  # the name in documents of earlier versions
        description="unique id; a new monitor with the same name has another",
    )
    created_at: Timestamp
    created_by: str | None = None
    configured_by: str | None = Field(
        None, description="id of the API key that created or last changed it; null if it is not known"
    )
    started_at: Instant = Field(description="rows predicted earlier are not counted as evidence")


class StoredMonitor(MonitorRecord):
    """A monitor as it is stored."""

    format: int = 2

    @classmethod
    def of(cls, record: MonitorRecord) -> StoredMonitor:
        """Create the stored document of a record."""
        return cls(**record.model_dump())

    def record(self) -> MonitorRecord:
        """The record in the stored document."""
        return MonitorRecord(**self.model_dump(exclude={"format"}))


class RefusedRow(Document):
    """A row that was not counted, and the reason."""

    row: int = Field(description="index of the row")
    code: str
    detail: str
    rows: int = Field(
        1, description="number of rows refused for this reason, if it is listed once; ``row`` is the first"
    )


class IngestionCounts(Document):
    """Numbers of rows by outcome. Every row is accepted, a duplicate, contradicted or refused."""

    accepted: int = Field(description="new predictions, labels or labelled rows")
    joined: int = Field(description="of the accepted: those now counted with their label")
    waiting: int = Field(description="of the accepted: labels without a prediction yet")
    duplicates: int = Field(description="already stored with the same values")
    contradicted: int = Field(description="already stored with another label, which is kept")
    refused: int = Field(description="invalid and not counted; can be corrected and sent again")
    other_group: int = Field(0, description="of the accepted: rows of groups beyond ``max_groups``")


class IngestionResult(IngestionCounts):
    """The result of ingesting the rows of one request. Every row is accepted, a duplicate, contradicted or refused."""

    ignored: int = Field(0, description="events of types other than predictions and labels; they do not count as rows")
    refusals: list[RefusedRow] = Field([])


class Counts(Document):
    """Counts since the monitor was created."""

    predictions: int = Field(description="distinct predictions, with or without a label")
    labels: int = Field(description="distinct labels")
    joined: int = Field(description="predictions with a label")
    expired: int = Field(description="predictions whose label did not arrive before the horizon")
    pending: int = Field(description="predictions waiting for a label")
    waiting: int = Field(description="labels waiting for a prediction")
    unmatched: int = Field(description="labels whose prediction did not arrive before the horizon")
    duplicates: int = Field(description="rows whose id was counted before")
    contradicted: int = Field(description="rows that differ from the row with the same id")
    refused: int = Field(description="invalid rows")

    @classmethod
    def of(cls, totals: Mapping[str, int]) -> Self:
        """Complete totals with pending and waiting counts: arrived, but neither joined nor expired.

        >>> Counts.of({"predictions": 5, "labels": 3, "joined": 2, "expired": 1}).pending
        2
        >>> Counts.of({"labels": 3, "joined": 2, "unmatched": 1}).waiting
        0
        """
        counts = {name: totals.get(name, 0) for name in cls.model_fields}
        pending = counts["predictions"] - counts["joined"] - counts["expired"]
        waiting = counts["labels"] - counts["joined"] - counts["unmatched"]
        return cls.model_validate(counts | {"pending": pending, "waiting": waiting})
