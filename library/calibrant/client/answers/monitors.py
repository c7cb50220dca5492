"""Generated from schemas/monitors.py by `make reference`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from calibrant.client.answers.document import WireAnswer

Recalibrating = Literal["off", "propose", "auto", "online", "adaptive"]
ForecastKind = Literal["normal", "quantiles", "samples", "interval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec(WireAnswer):
    """A window: the rows predicted in the last ``seconds``, or the last ``rows`` labelled rows."""

    name: str  # name of the window
    seconds: int | None = None  # length in seconds, by the time of prediction
    #: number of labelled rows. It may hold up to a sixteenth more, plus one chunk of a request (5,000 rows, or 50,000
    #: without ids)
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSpec(WireAnswer):
    """The reference that windows are compared with: the rows predicted in a span of time, or a stored batch."""

    start: str | None = None  # start
    end: str | None = None  # end
    batch: str | None = None  # id of a stored batch; the monitor keeps a tally of it


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpec(WireAnswer):
    """A webhook that receives alarms, signed according to Standard Webhooks 1.0."""

    name: str = "hook"  # name of the hook
    url: str = field(repr=False)  # URL that receives the events
    #: `whsec_` followed by the base64 of 24 to 64 bytes; if omitted, generated and returned once
    secret: str | None = field(default=None, repr=False)
    old_secret: str | None = field(default=None, repr=False)  # also signs events during a change of the secret
    old_secret_until: str | None = None  # when `old_secret` expires; default: a day from now


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalibrationSpec(WireAnswer):
    """How a monitor recalibrates.

    On an alarm, ``propose`` and ``auto`` fit a challenger; ``auto`` moves the alias to it if it is better. ``online``
    keeps a map that is updated after each time bucket with labels, and moves the alias to versions of it. ``adaptive``
    moves the alias to versions of a map to prediction sets, whose error level follows the coverage.
    """

    policy: Recalibrating = "off"  # whether an alarm fits a challenger, and what becomes of it
    name: str | None = None  # name whose next version a challenger becomes; default: that of the monitor's map
    alias: str = "champion"  # alias that `auto` or an accepted proposal moves; the monitor's map must be `name@alias`
    #: method of challengers; for regression only `quantile-recalibration`, which is the default there
    method: str = "platt"
    #: options of the method; for `online`: memories, window and rows_per_round of the map; for `adaptive`: gamma
    options: dict[str, Any] = field(default_factory=dict)
    #: window whose rows the challenger is fitted to, or that `online` starts with; default: the first
    window: str | None = None
    #: the window ends this many seconds ago, and `online` counts a time bucket this many seconds after its end;
    #: default: the longest `after` of the evidence rules
    after: int | None = None
    #: confidence level of the paired interval of the gain in log loss; `online` writes a version when the e-value
    #: against the map in force reaches 1 / (1 - level)
    level: float = 0.95
    least_rows: int = 1000  # minimum number of labelled rows of a challenger
    #: minimum seconds between two challengers while an alarm stays raised, or two versions by evidence
    pause: int = 3600
    every: int = 86_400  # seconds between two scheduled versions


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorForecast(WireAnswer):
    """The form of the forecasts of a monitor of regression."""

    kind: ForecastKind  # kind of the forecasts
    levels: list[float] | None = None  # of quantiles, ascending
    level: float | None = None  # of intervals
    n_samples: int | None = None  # number of samples of each row


class MonitorPatch(TypedDict, total=False):
    """The body of ``PATCH /monitors/{name}``, a JSON merge patch (RFC 7396): None removes, omitted fields are kept."""

    description: str | None  # free text
    windows: Sequence[Mapping[str, Any]]  # windows of the monitor
    measures: Sequence[str | Mapping[str, Any]]  # names of measures, or objects with a name, options and `as`
    interval: float | None  # level of the intervals
    rules: Sequence[Mapping[str, Any]]  # alarm rules
    reference: Mapping[str, Any] | None  # rows that windows are compared with
    hooks: Sequence[Mapping[str, Any]]  # webhooks to which alarms are delivered
    recalibration: Mapping[str, Any]  # what follows an alarm
    #: seconds that buckets are kept; at least the horizon and the longest window, at most 10,000 buckets; default of a
    #: new monitor: 90 days, or 10,000 buckets if that is shorter
    retention: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow(WireAnswer):
    """A row that was not counted, and the reason."""

    row: int  # index of the row
    code: str  # code of the problem
    detail: str  # what is wrong
    rows: int = 1  # number of rows refused for this reason, if it is listed once; `row` is the first


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionResult(WireAnswer):
    """The result of ingesting the rows of one request. Every row is accepted, a duplicate, contradicted or refused."""

    accepted: int  # new predictions, labels or labelled rows
    joined: int  # of the accepted: those now counted with their label
    waiting: int  # of the accepted: labels without a prediction yet
    duplicates: int  # already stored with the same values
    contradicted: int  # already stored with another label, which is kept
    refused: int  # invalid and not counted; can be corrected and sent again
    other_group: int = 0  # of the accepted: rows of groups beyond `max_groups`
    ignored: int = 0  # events of types other than predictions and labels; they do not count as rows
    refusals: list[RefusedRow] = field(default_factory=list)  # the first refused and contradicted rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(WireAnswer):
    """Counts since the monitor was created."""

    predictions: int  # distinct predictions, with or without a label
    labels: int  # distinct labels
    joined: int  # predictions with a label
    expired: int  # predictions whose label did not arrive before the horizon
    pending: int  # predictions waiting for a label
    waiting: int  # labels waiting for a prediction
    unmatched: int  # labels whose prediction did not arrive before the horizon
    duplicates: int  # rows whose id was counted before
    contradicted: int  # rows that differ from the row with the same id
    refused: int  # invalid rows
