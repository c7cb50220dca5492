"""Monitors: their definition, and the counts of their rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.client.answers.document import Document
from calibrant.client.answers.maps import ForecastKind, PredictionKind, Scale

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

Recalibrating = Literal["off", "propose", "auto", "online"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec(Document):
    """A window: the rows predicted in the last ``seconds``, or the last labelled ``rows``."""

    name: str
    seconds: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSpec(Document):
    """What windows are compared with: the rows predicted in a fixed time span, or a stored batch."""

    start: float | None = None  # seconds since 1970
    end: float | None = None  # seconds since 1970
    batch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRule(Document):
    """An alarm by an anytime-valid test of calibration."""

    kind: Literal["evidence"]
    name: str = "evidence"
    alpha: float = 0.01  # probability of a false alarm at any time since the last start
    after: int = 0  # only time buckets that ended at least this many seconds ago count


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRule(Document):
    """An alarm by a measure above a bound, with hysteresis."""

    kind: Literal["threshold"]
    name: str = "threshold"
    measure: str = "ece"  # key of one of the monitor's measures
    window: str
    group: str | None = None  # None: all rows
    above: float
    clear_below: float | None = None  # None: same as ``above``
    by: Literal["value", "lower", "debiased"] = "value"  # which number is compared
    looks: int = 1  # consecutive looks that raise or clear the alarm
    least_rows: int = 100  # labelled rows that the window must have


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRule(Document):
    """An alarm by an anytime-valid test that predictions are distributed as in the reference."""

    kind: Literal["drift"]
    name: str = "drift"
    alpha: float = 0.01  # probability of a false alarm at any time since the last start


Rule = EvidenceRule | ThresholdRule | DriftRule


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpec(Document):
    """A webhook to which alarms are delivered; its URL and secrets are not in its ``repr``."""

    name: str = "hook"
    url: str = field(repr=False)  # scheme, host and port; a path or query is shown as /...
    secret: str | None = field(default=None, repr=False)  # only in the answer of the call that generated it
    old_secret: str | None = field(default=None, repr=False)
    old_secret_until: float | None = None  # seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalibrationSpec(Document):
    """How a monitor recalibrates: by a challenger after an alarm, or ``online``, by a map that follows the stream.

    ``auto`` and ``online`` move the alias.
    """

    policy: Recalibrating = "off"
    name: str | None = None  # name that the challenger becomes the next version of; None: the map's name
    alias: str = "champion"
    method: str = "platt"
    options: dict[str, Any] = field(default_factory=dict)  # of the method, or of the online map
    window: str | None = None  # window of the rows of the fit, or that online starts with; None: the first
    after: int | None = None  # the window ends this many seconds ago; None: the longest ``after`` of the rules
    level: float = 0.95  # of the paired interval of the gain in log loss
    least_rows: int = 1000
    pause: int = _HOUR  # seconds between two challengers while an alarm stays raised, or versions by evidence
    every: int = _DAY  # seconds between two scheduled versions of an online map


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorForecast(Document):
    """What the forecasts of a monitor of regression are given as."""

    kind: ForecastKind
    levels: list[float] | None = None  # of quantiles
    level: float | None = None  # of intervals
    n_samples: int | None = None  # of each row


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorAnswer(Document):
    """A monitor's definition, without the secrets of its webhooks."""

    description: str | None = None
    windows: list[WindowSpec] = field(default_factory=lambda: [WindowSpec(name="day", seconds=_DAY)])
    measures: list[str | dict[str, Any]] = field(default_factory=lambda: ["ece", "ks", "log-loss"])
    interval: float | None = 0.95  # level of the intervals
    rules: list[Rule] = field(default_factory=lambda: [EvidenceRule(kind="evidence")])
    reference: ReferenceSpec | None = None
    hooks: list[HookSpec] = field(default_factory=list)
    recalibration: RecalibrationSpec = field(default_factory=RecalibrationSpec)
    retention: int = 90 * _DAY  # seconds that counts are kept
    name: str
    prediction_kind: PredictionKind = "classification"
    forecast: MonitorForecast | None = None  # of regression
    reduction: str | None = None
    n_classes: int | None = None
    scale: Scale = "probability"
    map: str | None = None  # map that is applied to every prediction
    bucket: int | None = None  # seconds of a time bucket
    horizon: int = 30 * _DAY  # seconds that a prediction waits for its label
    skew: int = 5 * _MINUTE  # seconds that a row's time may be in the future
    max_groups: int = 100  # further groups are counted as ``(other)``
    max_ids: int = 10_000_000
    reservoir: int | None = None  # rows whose vectors are kept, for the label shift of K classes
    uid: str  # different for each monitor that ever had this name
    created_at: str
    created_by: str | None = None  # name of the API key
    started_at: float  # seconds since 1970; rows predicted earlier are not evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorsAnswer(Document):
    """A page of monitors, newest first."""

    items: list[MonitorAnswer]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow(Document):
    """A row that was not counted, and why."""

    row: int  # index into the arrays that were sent
    code: str
    detail: str
    rows: int = 1  # rows refused for this reason, if it is listed once


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionResult(Document):
    """The outcome of sending rows; every row is in one of the counts."""

    accepted: int  # new predictions, labels or labelled rows
    joined: int  # of the accepted, those now counted with their label
    waiting: int  # of the accepted, labels without a prediction yet
    duplicates: int  # received before, with the same content
    contradicted: int  # received before with another label, which is kept
    refused: int  # not counted; may be sent again once corrected
    other_group: int = 0  # of the accepted, those of groups beyond ``max_groups``
    ignored: int = 0  # events without a prediction or a label
    refusals: list[RefusedRow] = field(default_factory=list)  # the first refused and contradicted rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Document):
    """Counts since a monitor was created."""

    predictions: int  # distinct predictions
    labels: int  # distinct labels
    joined: int  # predictions with a label
    expired: int  # predictions whose label did not arrive before the horizon
    pending: int  # predictions that wait for a label
    waiting: int  # labels that wait for a prediction
    unmatched: int  # labels whose prediction did not arrive before the horizon
    duplicates: int
    contradicted: int
    refused: int
