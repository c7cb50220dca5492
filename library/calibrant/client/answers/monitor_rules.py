"""Generated from schemas/monitor_rules.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.client.answers.document import WireAnswer

ErrorShape = Literal["line", "curve", "part"]
RuleKind = Literal["evidence", "threshold", "drift", "coverage"]
RuleStatus = Literal["unknown", "ok", "alarm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRule(WireAnswer):
    """An alarm based on an anytime-valid test: frequent checks cause no additional false alarms."""

    kind: Literal["evidence"]  # kind of the rule
    name: str = "evidence"  # name of the rule
    alpha: float = 0.01  # probability of any false alarm since the last start
    #: only buckets that ended at least this many seconds ago count; if one outcome is known sooner than the other, set
    #: it to the time after which labels are complete
    after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReading(WireAnswer):
    """When calibration changed, estimated from the time buckets up to the alarm, and how."""

    time: str  # estimated time of the change
    interval: tuple[str, str]  # 95 % interval of the time
    predictions: tuple[float, float]  # predictions whose gap since then is clearest
    gap: float  # their observed frequency minus their mean since then; above 0: they are too low
    rows: int  # number of their labelled rows since then
    message: str  # what happened, in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceReading(WireAnswer):
    """Evidence against calibration since the last start of the rule.

    ``log_e`` may be compared with ``bound`` at any time: if the model is calibrated, the probability that it ever
    reaches ``bound`` is at most the rule's alpha.
    """

    log_e: float  # natural logarithm of the e-value at the last check
    largest: float  # largest value at any check since the start
    bound: float  # log(1 / alpha)
    level: float  # exp(-largest), at most 1: an anytime-valid p-value
    since: str | None  # start of the period with the strongest evidence, a time bucket
    shape: ErrorShape  # shape of the error with the strongest evidence
    delta: float  # its size: log-odds of the outcome minus those of the prediction
    spread: float  # for a line: change of `delta` per unit of half the logit
    low: float  # smallest prediction that it concerns
    high: float  # largest prediction that it concerns
    description: str  # description of the error
    #: once the alarm is raised: when calibration changed, and how; None if it is unknown
    change: ChangeReading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRule(WireAnswer):
    """An alarm when a measure exceeds a bound, with hysteresis."""

    kind: Literal["threshold"]  # kind of the rule
    name: str = "threshold"  # name of the rule
    measure: str = "ece"  # key of one of the monitor's measures
    window: str  # name of the window
    group: str | None = None  # only this group; None: all rows
    above: float  # the alarm is raised above this value
    clear_below: float | None = None  # the alarm is cleared at or below this value; default: `above`
    #: which value is compared: the estimate, the lower end of its interval, or the debiased estimate
    by: Literal["value", "lower", "debiased"] = "value"
    looks: int = 1  # number of consecutive checks needed to raise or clear the alarm
    least_rows: int = 100  # minimum number of labelled rows in the window


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdReading(WireAnswer):
    """A measure and its bound at the last check."""

    measure: str  # key of the measure
    window: str  # name of the window
    group: str | None = None  # name of the group; None for all rows or none
    value: float | None  # the compared value; None if undefined
    above: float  # the alarm is raised above this value
    clear_below: float  # the alarm is cleared at or below this value
    looks: int  # consecutive checks, each on different rows, that indicate the other status


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRule(WireAnswer):
    """An alarm when predictions are distributed differently than in the reference, based on an anytime-valid test."""

    kind: Literal["drift"]  # kind of the rule
    name: str = "drift"  # name of the rule
    alpha: float = 0.01  # probability of any false alarm since the last start


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEvidence(WireAnswer):
    """Evidence that predictions are distributed differently than in the reference, since the last start of the rule.

    Without drift, the probability that ``log_e`` ever reaches ``bound`` is at most the rule's alpha.
    """

    log_e: float  # natural logarithm of the e-value at the last check
    largest: float  # largest value at any check since the start
    bound: float  # log(1 / alpha)
    level: float  # exp(-largest), at most 1: an anytime-valid p-value
    since: str  # start of the period with the strongest evidence, a time bucket
    low: float  # predictions from here to `high` changed most clearly
    high: float  # upper end of this range
    reference_share: float  # share of the predictions in this range in the reference
    share: float  # share of the predictions in this range since then
    message: str  # what happened, in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRule(WireAnswer):
    """An alarm when prediction sets have their labels less often than nominal, based on an anytime-valid test."""

    kind: Literal["coverage"]  # kind of the rule
    name: str = "coverage"  # name of the rule
    alpha: float = 0.01  # probability of any false alarm since the last start
    #: only buckets that ended at least this many seconds ago count; if labels of sets that miss are known sooner or
    #: later than others, set it to the time after which labels are complete
    after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCoverageReading(WireAnswer):
    """Evidence that prediction sets have their labels less often than nominal, since the last start of the rule.

    If each set has its label with at least the nominal probability, ``log_e`` ever reaches ``bound`` with at most the
    probability of the rule's alpha.
    """

    log_e: float  # natural logarithm of the e-value at the last check
    largest: float  # largest value at any check since the start
    bound: float  # log(1 / alpha)
    level: float  # exp(-largest), at most 1: an anytime-valid p-value
    since: str  # start of the period with the strongest evidence, a time bucket
    rows: int  # number of labelled sets since then
    coverage: float  # share of them that have their label
    nominal: float  # nominal coverage of the monitor
    message: str  # what happened, in one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState(WireAnswer):
    """The current state of a rule, and since when."""

    rule: str  # name of the rule
    kind: RuleKind  # kind of the rule
    status: RuleStatus = "unknown"  # `unknown` until there are enough rows
    since: str | None = None  # when the status last changed
    alarms: int = 0  # number of times that the alarm was raised
    rows: int = 0  # number of rows that the rule counted at its last check
    looked_at: str | None = None  # when the rule was last checked
    message: str | None = None  # what a raised alarm reports, in words
    challengers: int = 0  # number of challengers requested for the raised alarm
    acknowledged_at: str | None = None  # for an alarm that stays raised after its acknowledgement
    acknowledged_by: str | None = None  # name of the API key that acknowledged the alarm
    started_at: str = "1970-01-01T00:00:00.000Z"  # rows predicted earlier are excluded
    definition: str = ""  # digest of the rule; a changed rule starts again
    evidence: EvidenceReading | None = None  # evidence of an evidence rule
    threshold: ThresholdReading | None = None  # measure of a threshold rule
    drift: DriftEvidence | None = None  # evidence of a drift rule
    coverage: SetCoverageReading | None = None  # evidence of a coverage rule
    reason: str | None = None  # why the rule cannot be checked
