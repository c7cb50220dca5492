"""Acknowledging an alarm: that someone has seen it."""

from __future__ import annotations

from monitoring.evidence import next_start
from monitoring.happening import entry_of, happened
from monitoring.rules import begun
from schemas.monitor_alarms import AuditEntry, RuleState, Standing
from schemas.monitors import EvidenceRule, MonitorRecord
from storage.chores import Chore
from storage.clock import at
from storage.errors import NoAlarm, UnknownRule
from storage.monitors.standings import Change, Standings
from storage.store import Store


def acknowledge(store: Store, record: MonitorRecord, name: str, who: str | None, now: float) -> RuleState:
    """Note that an alarm was seen; evidence begins anew, a threshold stays raised until it is cleared.

    Raises ``UnknownRule``, and ``NoAlarm`` where none is raised or it was acknowledged already.
    """
    look = Chore("look", store.keys.tenant, record.uid)

    def change(record: MonitorRecord, standing: Standing) -> Change:
        rule = next((rule for rule in record.rules if rule.name == name), None)
        state = standing.rules.get(name)
        if rule is None:
            raise UnknownRule("the monitor has no such rule")
        if state is None or state.status != "alarm" or state.acknowledged_at is not None:
            raise NoAlarm("the rule's alarm is not raised, or was acknowledged already")
        event, entries = happened(record, state, "acknowledged", now), [entry_of(state, "acknowledged", now, who)]
        started_at = None
        if isinstance(rule, EvidenceRule):
            started_at = next_start(record, now)
            after = begun(rule, state, started_at)
            entries.append(AuditEntry(at=at(now), action="evidence-restarted", who=who))
        else:
            after = state.model_copy(update={"acknowledged_at": at(now), "acknowledged_by": who})
        left = standing.model_copy(update={"rules": standing.rules | {name: after}})
        return Change(left, [event], entries, started_at, [look])

    changed = Standings(store.redis, store.keys, record).change(change)
    if changed is None:
        raise NoAlarm("the rule's alarm is not raised")
    return changed.standing.rules[name]
