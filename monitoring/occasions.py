"""Upon what challengers are asked for: an alarm that is raised, one that stays as rows come, someone's request."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.monitor_alarms import Occasion, RuleState, Standing
from schemas.monitors import MonitorRecord

#: A tenth of the rows that a challenger needs are to be new before another one is tried.
_SHARE = 10


def rested(record: MonitorRecord, standing: Standing, now: float) -> bool:
    """Whether the pause after the last challenger has passed."""
    return standing.last_asked is None or now >= standing.last_asked + record.recalibration.pause


def rows_between(record: MonitorRecord, labelled: int | None) -> int:
    """How many labelled rows are to come before another challenger is worth a try, where there were so many."""
    least = record.recalibration.least_rows
    missing = 0 if labelled is None else least - labelled
    return max(least // _SHARE, missing)


def asked_again(
    record: MonitorRecord, standing: Standing, rules: Mapping[str, RuleState], joined: int, now: float
) -> RuleState | None:
    """The alarm that stays, upon which a challenger is to be asked for again; None where it is not the time.

    That is once the pause has passed, ``joined`` rows have labels and there are enough new ones among them, and nothing
    is under way or waits to be decided.
    """
    busy = standing.asked or standing.proposal is not None or standing.moving is not None
    if record.recalibration.policy == "off" or busy:
        return None
    if joined < standing.rows_wanted or not rested(record, standing, now):
        return None
    return next((rules[rule.name] for rule in record.rules if rules[rule.name].status == "alarm"), None)


def occasion_of(state: RuleState) -> tuple[RuleState, Occasion]:
    """The next challenger that is asked for upon a rule's alarm, and the rule with it counted."""
    attempt = state.challengers + 1
    counted = state.model_copy(update={"challengers": attempt})
    return counted, Occasion(rule=state.rule, number=state.alarms, attempt=attempt)


def spoken_since(standing: Standing, occasion: Occasion) -> str | None:
    """Since when evidence speaks: that of the rule which is seen to, else of any other that is raised."""
    raised = [state for state in standing.rules.values() if state.status == "alarm" and state.evidence is not None]
    raised.sort(key=lambda state: state.rule != occasion.rule)
    return raised[0].evidence.since if raised and raised[0].evidence is not None else None
