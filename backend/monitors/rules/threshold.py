"""The rule ``threshold``: a measure of a window above a bound."""

from __future__ import annotations

from dataclasses import dataclass

from backend.monitors.kinds import kind_of_monitor
from backend.monitors.rows import MAX_GROUP_BYTES
from backend.monitors.rules.rule import NOTHING, Check, Description, Fact, RuleType, moved
from backend.monitors.windows import check_window
from backend.store.clock import at
from calibrant.core.errors import InvalidOption
from schemas.monitor_rules import RuleState, ThresholdReading, ThresholdRule
from schemas.monitors import MonitorBody


@dataclass(frozen=True)
class ComparedValue:
    """The number of labelled rows and the value that a check compares, None if undefined."""

    rows: int
    value: float | None


class ThresholdRuleType(RuleType[ThresholdRule, ComparedValue]):
    """A threshold has hysteresis: it is raised and cleared after several checks in a row."""

    model = ThresholdRule
    calm = None
    restarts = None
    recalibrates = True
    charts = ("error", "frequency")

    def validate(self, rule: ThresholdRule, body: MonitorBody, where: str) -> None:
        """The measure, the window and the compared number must exist."""
        measures = kind_of_monitor(body).numbers_by_measure()
        if rule.measure not in measures:
            raise InvalidOption.at(
                f"{where}/measure", f"must be the key of one of the measures: {', '.join(sorted(measures))}"
            )
        check_window(body, rule.window, f"{where}/window")
        if rule.group is not None and len(rule.group.encode("utf-8", "replace")) > MAX_GROUP_BYTES:
            raise InvalidOption.at(f"{where}/group", f"must be at most {MAX_GROUP_BYTES} bytes, as the groups of rows")
        if rule.clear_below is not None and rule.clear_below > rule.above:
            raise InvalidOption.at(f"{where}/clear_below", "must not exceed above")
        if rule.by == "lower" and body.interval is None:
            raise InvalidOption.at(f"{where}/by", "lower needs an interval, and the monitor has none")
        if rule.by != "value":
            numbers = measures[rule.measure]()
            if rule.by not in numbers:
                message = f"{rule.by} is not available for {rule.measure}, which has {', '.join(numbers)}"
                raise InvalidOption.at(f"{where}/by", message)

    def observe(self, rule: ThresholdRule, state: RuleState, check: Check) -> ComparedValue:
        """The value is None without the window, the measure or the group, or with too few rows."""
        gathered = check.windows.get(rule.window)
        tally = None if gathered is None else gathered.tally
        if gathered is not None and rule.group is not None:
            index = check.groups.get(rule.group)
            tally = None if index is None or gathered.groups is None else gathered.groups.of_group(index)
        n = 0 if tally is None else len(tally)
        if tally is None or not n or n < rule.least_rows:
            return ComparedValue(n, None)
        level = check.record.interval if rule.by == "lower" else None
        reading = kind_of_monitor(check.record).reading(tally, rule.measure, level)
        if reading is None:
            return ComparedValue(n, None)
        lower = None if reading.interval is None else reading.interval[0]
        return ComparedValue(n, {"value": reading.value, "lower": lower, "debiased": reading.debiased}[rule.by])

    def conclude(self, rule: ThresholdRule, state: RuleState, seen: ComparedValue, moment: float) -> RuleState:
        """Raise an alarm after ``looks`` checks in a row above the bound; clear it after as many up to ``clear_below``.

        A check of unchanged rows, or of too few rows, does not count.
        """
        clear = rule.above if rule.clear_below is None else rule.clear_below
        known = state.threshold
        looks = 0 if known is None else known.looks
        same = known is not None and (state.rows, known.value) == (seen.rows, seen.value)
        counts = seen.value is not None and seen.rows >= rule.least_rows and not same
        status = state.status
        if counts and seen.value is not None:
            turns = seen.value > rule.above if status != "alarm" else seen.value <= clear
            looks = looks + 1 if turns else 0
            if looks >= rule.looks:
                status, looks = "ok" if status == "alarm" else "alarm", 0
            elif status == "unknown" and not turns:
                status = "ok"
        reading = ThresholdReading.with_fields_of(rule, value=seen.value, clear_below=clear, looks=looks)
        after = state.model_copy(update={"rows": seen.rows, "looked_at": at(moment), "threshold": reading})
        return moved(after, status, moment)

    def describe(self, state: RuleState) -> Description:
        """The measure and its bound; there is no message."""
        threshold = state.threshold
        if threshold is None:
            return NOTHING
        facts = [
            Fact(threshold.measure, threshold.value, "decimals"),
            Fact("Alarm above", threshold.above, "decimals"),
            Fact("Window", threshold.window, "text"),
        ]
        if threshold.group is not None:
            facts.append(Fact("Group", threshold.group, "text"))
        alarm = threshold.model_dump(include={"measure", "window", "group", "value"}) | {"bound": threshold.above}
        return Description(None, facts, alarm)


THRESHOLD = ThresholdRuleType()
