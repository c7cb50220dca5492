"""The rules of monitors: definitions, what a check reads for them, and their states."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from calibrant.core.choices import ErrorShape
from schemas.base import DAY, Document, Instant, Label, Timestamp


class EProcessReading(Document):
    """The values of an anytime-valid test since its last start."""

    log_e: float = Field(description="natural logarithm of the e-value at the last check")
    largest: float = Field(description="largest value at any check since the start")
    bound: float = Field(description="log(1 / alpha)")
    level: float = Field(description="exp(-largest), at most 1: an anytime-valid p-value")


# --- Evidence against calibration


class EvidenceRule(Document):
    """An alarm based on an anytime-valid test: frequent checks cause no additional false alarms."""

    kind: Literal["evidence"] = Field(description="kind of the rule")
    name: Label = Field("evidence", description="name of the rule")
    alpha: float = Field(0.01, gt=0, lt=0.5, description="probability of any false alarm since the last start")
    after: int = Field(
        0,
        ge=0,
        le=400 * DAY,
        description="only buckets that ended at least this many seconds ago count; if one outcome is known sooner than "
        "the other, set it to the time after which labels are complete",
    )


class ChangeReading(Document):
    """When calibration changed, estimated from the time buckets up to the alarm, and how."""

    time: Timestamp = Field(description="estimated time of the change")
    interval: tuple[Timestamp, Timestamp] = Field(description="95 % interval of the time")
    predictions: tuple[float, float] = Field(description="predictions whose gap since then is clearest")
    gap: float = Field(description="their observed frequency minus their mean since then; above 0: they are too low")
    rows: int = Field(description="number of their labelled rows since then")
    message: str = Field(examples=["since 14 March predictions of 0.2 to 0.4 are 8 points too low"])


class EvidenceReading(EProcessReading):
    """Evidence against calibration since the last start of the rule.

    ``log_e`` may be compared with ``bound`` at any time: if the model is calibrated, the probability that it ever
    reaches ``bound`` is at most the rule's alpha.
    """

    since: Timestamp | None = Field(description="start of the period with the strongest evidence, a time bucket")
    shape: ErrorShape = Field(description="shape of the error with the strongest evidence")
    delta: float = Field(description="its size: log-odds of the outcome minus those of the prediction")
    spread: float = Field(description="for a line: change of ``delta`` per unit of half the logit")
    low: float = Field(description="smallest prediction that it concerns")
    high: float = Field(description="largest prediction that it concerns")
    description: str = Field(
        validation_alias=AliasChoices("description", "told"),  # the name in documents of earlier versions
        description="description of the error",
    )
    change: ChangeReading | None = Field(
        None, description="once the alarm is raised: when calibration changed, and how; null if it is unknown"
    )


# --- A measure above a bound


class ThresholdRule(Document):
    """An alarm when a measure exceeds a bound, with hysteresis."""

    kind: Literal["threshold"] = Field(description="kind of the rule")
    name: Label = Field("threshold", description="name of the rule")
    measure: str = Field("ece", description="key of one of the monitor's measures")
    window: Label = Field(description="name of the window")
    group: str | None = Field(None, description="only this group; null: all rows")
    above: float = Field(description="the alarm is raised above this value")
    clear_below: float | None = Field(
        None, description="the alarm is cleared at or below this value; default: ``above``"
    )
    by: Literal["value", "lower", "debiased"] = Field(
        "value",
        description="which value is compared: the estimate, the lower end of its interval, or the debiased estimate",
    )
    looks: int = Field(1, ge=1, le=1000, description="number of consecutive checks needed to raise or clear the alarm")
    least_rows: int = Field(100, ge=1, description="minimum number of labelled rows in the window")


class ThresholdReading(Document):
    """A measure and its bound at the last check."""

    measure: str = Field(description="key of the measure")
    window: str = Field(description="name of the window")
    group: str | None = None
    value: float | None = Field(description="the compared value; null if undefined")
    above: float = Field(description="the alarm is raised above this value")
    clear_below: float = Field(description="the alarm is cleared at or below this value")
    looks: int = Field(description="consecutive checks, each on different rows, that indicate the other status")


# --- Drift of predictions


class DriftRule(Document):
    """An alarm when predictions are distributed differently than in the reference, based on an anytime-valid test."""

    kind: Literal["drift"] = Field(description="kind of the rule")
    name: Label = Field("drift", description="name of the rule")
    alpha: float = Field(0.01, gt=0, lt=0.5, description="probability of any false alarm since the last start")


class DriftEvidence(EProcessReading):
    """Evidence that predictions are distributed differently than in the reference, since the last start of the rule.

    Without drift, the probability that ``log_e`` ever reaches ``bound`` is at most the rule's alpha.
    """

    since: Timestamp = Field(description="start of the period with the strongest evidence, a time bucket")
    low: float = Field(description="predictions from here to ``high`` changed most clearly")
    high: float = Field(description="upper end of this range")
    reference_share: float = Field(description="share of the predictions in this range in the reference")
    share: float = Field(description="share of the predictions in this range since then")
    message: str = Field(examples=["since 14 March 31 % of the predictions are from 0.2 to 0.4, 12 % in the reference"])


# --- Coverage of prediction sets


class CoverageRule(Document):
    """An alarm when prediction sets have their labels less often than nominal, based on an anytime-valid test."""

    kind: Literal["coverage"] = Field(description="kind of the rule")
    name: Label = Field("coverage", description="name of the rule")
    alpha: float = Field(0.01, gt=0, lt=0.5, description="probability of any false alarm since the last start")
    after: int = Field(
        0,
        ge=0,
        le=400 * DAY,
        description="only buckets that ended at least this many seconds ago count; if labels of sets that miss are "
        "known sooner or later than others, set it to the time after which labels are complete",
    )


class SetCoverageReading(EProcessReading):
    """Evidence that prediction sets have their labels less often than nominal, since the last start of the rule.

    If each set has its label with at least the nominal probability, ``log_e`` ever reaches ``bound`` with at most the
    probability of the rule's alpha.
    """

    since: Timestamp = Field(description="start of the period with the strongest evidence, a time bucket")
    rows: int = Field(description="number of labelled sets since then")
    coverage: float = Field(description="share of them that have their label")
    nominal: float = Field(description="nominal coverage of the monitor")
    message: str = Field(examples=["since 14 March 81 % of 1,200 sets have their label, nominally 90 %"])


# --- All kinds: a kind is the value of ``kind`` in its rule, and the name of its field in the state

Rule = Annotated[EvidenceRule | ThresholdRule | DriftRule | CoverageRule, Field(discriminator="kind")]
RuleKind = Literal["evidence", "threshold", "drift", "coverage"]
RuleStatus = Literal["unknown", "ok", "alarm"]


class RuleState(Document):
    """The current state of a rule, and since when."""

    rule: str
    kind: RuleKind = Field(description="kind of the rule")
    status: RuleStatus = Field("unknown", description="``unknown`` until there are enough rows")
    since: Timestamp | None = Field(None, description="when the status last changed")
    alarms: int = Field(0, description="number of times that the alarm was raised")
    rows: int = Field(0, description="number of rows that the rule counted at its last check")
    looked_at: Timestamp | None = Field(None, description="when the rule was last checked")
    message: str | None = Field(None, description="what a raised alarm reports, in words")
    challengers: int = Field(0, description="number of challengers requested for the raised alarm")
    acknowledged_at: Timestamp | None = Field(
        None, description="for an alarm that stays raised after its acknowledgement"
    )
    acknowledged_by: str | None = Field(None, description="name of the API key that acknowledged the alarm")
    started_at: Instant = Field(0.0, description="rows predicted earlier are excluded")
    definition: str = Field("", description="digest of the rule; a changed rule starts again")
    evidence: EvidenceReading | None = Field(None, description="evidence of an evidence rule")
    threshold: ThresholdReading | None = Field(None, description="measure of a threshold rule")
    drift: DriftEvidence | None = Field(None, description="evidence of a drift rule")
    coverage: SetCoverageReading | None = Field(None, description="evidence of a coverage rule")
    reason: str | None = Field(None, description="why the rule cannot be checked")
