"""What every kind of rule has, and how the state of a rule begins, moves and restarts."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from backend.monitors.windows import Gathered
from backend.store.clock import at
from backend.store.monitors.buckets import Buckets
from calibrant.monitoring.tally import Tally
from schemas.monitor_alarms import ReferenceState
from schemas.monitor_rules import EProcessReading, Rule, RuleKind, RuleState, RuleStatus
from schemas.monitors import MonitorBody, MonitorRecord

SomeRule = TypeVar("SomeRule", bound=Rule)
Seen = TypeVar("Seen")

#: How the page formats a value of the card of a rule.
Unit = Literal["count", "decimals", "e_value", "text", "times"]


@dataclass(frozen=True)
class Check:
    """What a check at ``now`` reads for rules.

    ``windows`` has the rows of each window, ``groups`` the index of each group, by name.
    ``applied`` is the id of the monitor's map, None without one; ``reference_tally`` reads the rows of the reference.
    """

    record: MonitorRecord
    buckets: Buckets
    windows: Mapping[str, Gathered]
    groups: Mapping[str, int]
    reference: ReferenceState | None
    reference_tally: Callable[[], Tally | None]
    applied: str | None
    now: float


@dataclass(frozen=True)
class Fact:
    """A line of the card of a rule; the value of unit ``times`` is a time, or a time and the ends of its interval."""

    term: str
    value: Any
    unit: Unit


@dataclass(frozen=True)
class Description:
    """What the last check of a rule found: what a raised alarm reports, facts, and the fields of its ``AlarmData``."""

    message: str | None
    facts: Sequence[Fact]
    alarm: Mapping[str, Any]


#: The description of a rule that was not checked yet.
NOTHING = Description(None, (), {})


class RuleType(ABC, Generic[SomeRule, Seen]):
    """A kind of rule. What its checks find is in the field of ``RuleState`` with the name of the kind."""

    #: That of the model.
    kind: ClassVar[RuleKind]
    model: type[SomeRule]
    #: The sentence on the page about a checked rule without an alarm.
    calm: ClassVar[str | None]
    #: What starts again when its alarm is acknowledged: the rule, or the evidence, which all rules of it share.
    restarts: ClassVar[Literal["rule", "evidence"] | None]
    #: Whether an alarm causes challengers.
    recalibrates: ClassVar[bool]
    #: Keys of the charts of the page that show its alarms.
    charts: ClassVar[Sequence[str]]

    def __init_subclass__(cls) -> None:
        """Read the kind from the model, if the class has one."""
        super().__init_subclass__()
        if "model" in vars(cls):
            (cls.kind,) = get_args(cls.model.model_fields["kind"].annotation)

    def among(self, rules: Iterable[Rule]) -> list[SomeRule]:
        """The rules of this kind."""
        return [rule for rule in rules if isinstance(rule, self.model)]

    @abstractmethod
    def validate(self, rule: SomeRule, body: MonitorBody, where: str) -> None:
        """Raise a ``CalibrationError`` at ``where`` if the rule does not fit the monitor."""

    def begin(self, rule: SomeRule, before: RuleState | None, record: MonitorRecord) -> RuleState:
        """The state to continue from: the previous state, or a new one if the rule or its start has changed."""
        definition = digest(self.definition(rule, record))
        if before is not None and before.definition == definition and self.continues(before, record):
            return before
        state = RuleState(rule=rule.name, kind=self.kind, alarms=0 if before is None else before.alarms)
        return state.model_copy(update={"started_at": self.start(record), "definition": definition})

    def definition(self, rule: SomeRule, record: MonitorRecord) -> str:
        """The text that changes if the rule has to start again."""
        return rule.model_dump_json()

    def start(self, record: MonitorRecord) -> float:
        """The time of the first rows that count, seconds since 1970."""
        return 0.0

    def continues(self, state: RuleState, record: MonitorRecord) -> bool:
        """Whether the start of a state is still that of the rule."""
        return True

    @abstractmethod
    def observe(self, rule: SomeRule, state: RuleState, check: Check) -> Seen:
        """Read what the rule needs; ``state`` is that before the check."""

    @abstractmethod
    def conclude(self, rule: SomeRule, state: RuleState, seen: Seen, moment: float) -> RuleState:
        """The state after a check; a pure function."""

    @abstractmethod
    def describe(self, state: RuleState) -> Description:
        """What the last check found, for alarms, the page and the audit log."""


class EProcessRuleType(RuleType[SomeRule, Seen]):
    """A rule that raises an alarm, until its next start, once an e-value reaches 1 / alpha at any check."""

    def tested(self, state: RuleState, reading: EProcessReading, rows: int, moment: float, **update: Any) -> RuleState:
        """The state with the reading of a check, if it is the largest since the start, else with its ``log_e``."""
        known = getattr(state, self.kind)
        if known is not None and reading.log_e < known.largest:
            reading = known.model_copy(update={"log_e": reading.log_e, "bound": reading.bound} | update)
        raised = reading.largest >= reading.bound
        changes = {"rows": rows, "looked_at": at(moment), "reason": None, self.kind: reading}
        return moved(state.model_copy(update=changes), "alarm" if raised else "ok", moment)

    def facts(self, reading: EProcessReading) -> list[Fact]:
        """The e-value and the threshold."""
        return [Fact("E-value", reading.log_e, "e_value"), Fact("Threshold", reading.bound, "e_value")]


def restarted(state: RuleState, started_at: float) -> RuleState:
    """The state of the same rule that starts again."""
    identity = state.model_dump(include={"rule", "kind", "alarms", "definition"})
    return RuleState(**identity, started_at=started_at)


def moved(state: RuleState, status: RuleStatus, moment: float) -> RuleState:
    """The state with a new status, which starts now if it has changed."""
    if status == state.status:
        return state
    raised = status == "alarm"
    changes = {"status": status, "since": at(moment), "alarms": state.alarms + raised, "challengers": 0}
    return state.model_copy(update=changes | {"acknowledged_at": None, "acknowledged_by": None})


def digest(text: str) -> str:
    """A short digest of a definition."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
