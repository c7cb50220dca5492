"""What a monitor answers: each of its windows as it is now, and beside its reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from redis import Redis

from calibrant.tallies.tally import Tally, merged
from monitoring.beside import label_rates_beside, mean_predictions_beside, measures_beside, shift
from monitoring.counting import counts_of
from monitoring.delays import quantiles
from monitoring.gathering import Gathered, Gatherer, Leaves
from monitoring.leaves import GROUP_KEYS
from monitoring.readings import Memory, read_diagram, read_rows
from monitoring.reference import buckets_left, reference_span
from monitoring.windows import window_span
from schemas.monitor_alarms import RuleState
from schemas.monitor_answers import DelayReading, ReferenceReading, RowsReading, WindowReading
from schemas.monitor_events import MonitorEvent
from schemas.monitors import Counts, MonitorRecord, WindowSpec
from storage.keyspace import Keyspace
from storage.monitors.buckets import Buckets
from storage.monitors.groups import NO_GROUP, OTHER, OTHER_GROUP, Groups
from storage.monitors.ledger import Ledger
from storage.monitors.reference import read_reference
from storage.monitors.standings import Standings
from storage.pages import Asked

#: Groups that are told apart where nobody says how many: the largest.
LARGEST = 20
#: Events that are looked through for alarms.
MOST_EVENTS = 1000
_SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Kept:
    """What a process keeps of all monitors, so that what did not change is neither read nor computed again."""

    leaves: Leaves = field(default_factory=Leaves)
    memory: Memory = field(default_factory=Memory)


class Reader:
    """Reads one monitor as it is defined by ``record``."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord, kept: Kept) -> None:
        self._redis = redis
        self._keys = keys
        self.record = record
        self.kept = kept
        self.buckets = Buckets(redis, keys, record)
        self._standings = Standings(redis, keys, record)
        self.gatherer = Gatherer(kept.leaves, self.buckets, record.uid)

    def of(self, record: MonitorRecord) -> Reader:
        """What reads the same monitor as another record defines it."""
        return Reader(self._redis, self._keys, record, self.kept)

    def rules(self) -> list[RuleState]:
        """What each rule said at the last look; a rule of which there was none yet is left out."""
        known = self._standings.read().rules
        return [known[rule.name] for rule in self.record.rules if rule.name in known]

    def raised(self) -> list[MonitorEvent]:
        """The latest alarms that were raised, oldest first."""
        found = self._standings.events(Asked(MOST_EVENTS)).items
        return [event for event in reversed(found) if event.type == "monitor.alarm.raised"]

    def counts(self) -> Counts:
        """The counts since the monitor began."""
        return counts_of(Ledger(self._redis, self._keys, self.record).totals())

    def group_names(self) -> dict[int, str]:
        """The names of the groups by their index."""
        known = Groups(self._redis, self._keys, self.record).all()
        return {OTHER_GROUP: OTHER, **{index: name for name, index in known.items()}}

    def gathered(self, window: WindowSpec, now: float) -> Gathered:
        """The rows of a window."""
        return self.gatherer.window(self.record, window, now)

    def window(
        self, window: WindowSpec, now: float, *, reference: ReferenceTally | None = None, groups: int = LARGEST
    ) -> WindowReading:
        """A window as it is now, beside the reference if there is one, with the largest of its groups."""
        record, memory = self.record, self.kept.memory
        found = self.gathered(window, now)
        whole = read_rows(found.tally, record, memory, intervals=True)
        timed = window.seconds is not None
        return WindowReading(
            **dict(whole),
            name=window.name,
            seconds=window.seconds,
            at_least=window.rows,
            start=window_span(record, window.seconds, now).start if window.seconds is not None else None,
            end=now if timed else None,
            predictions=found.predictions if timed else None,
            coverage=found.coverage if timed else None,
            delay=_delay(found),
            diagram=read_diagram(found.tally, record, memory),
            groups=self.groups(found, groups),
            reference=None if reference is None else self._beside(whole, found.tally, reference),
        )

    def rows_of(self, found: Gathered, group: int | None) -> Tally:
        """Of some rows all, or those of the group of an index."""
        if group is None:
            return found.tally
        return merged(()) if found.groups is None else found.groups.of_group(group)

    def groups(self, found: Gathered, most: int) -> dict[str, RowsReading]:
        """The largest groups of some rows, by name, without intervals."""
        if found.groups is None or not most:
            return {}
        names = self.group_names()
        return {
            names[index]: read_rows(found.groups.of_group(index), self.record, self.kept.memory, intervals=False)
            for index in largest_groups(found.groups, most)
            if index in names
        }

    def reference(self) -> ReferenceTally | None:
        """What windows are compared with, if anything: what is kept with the monitor, and of a span what is there."""
        if self.record.reference is None:
            return None
        kept, span = read_reference(self._redis, self._keys, self.record.uid), reference_span(self.record)
        if span is None:
            return ReferenceTally(kept.tally)
        first, last = buckets_left(span, kept)
        left = self.gatherer.span(first, last).tally if first <= last else merged([])
        return ReferenceTally(left if kept.tally is None else merged([kept.tally, left]))

    def _beside(self, whole: RowsReading, tally: Tally, reference: ReferenceTally) -> ReferenceReading:
        asked, there, level = self.record.reference, reference.tally, self.record.interval
        told = {} if asked is None else asked.model_dump()
        if there is None or not len(there):
            return ReferenceReading(**told, rows=0, problem="no comparison: the reference has no labelled rows")
        other = read_rows(there, self.record, self.kept.memory, intervals=True)
        return ReferenceReading(
            **told,
            rows=other.rows,
            measures=measures_beside(whole.measures, other.measures),
            label_rate=label_rates_beside(tally, there, level),
            mean_prediction=mean_predictions_beside(tally, there, level),
            shift=shift(tally, there),
            problem=None if whole.rows else "no comparison: the window has no labelled rows",
        )


@dataclass(frozen=True)
class ReferenceTally:
    """The rows that windows are compared with; None where those of a batch are not there."""

    tally: Tally | None


def largest_groups(groups: Tally, most: int) -> list[int]:
    """The indices of the groups of most rows, largest first; rows without a group are none."""
    if not len(groups.keys):
        return []
    rows = np.bincount(groups.keys // GROUP_KEYS, groups.rows)
    rows[NO_GROUP] = 0
    order: Sequence[int] = np.argsort(-rows, kind="stable")[:most].tolist()
    return [index for index in order if rows[index] > 0]


def _delay(found: Gathered) -> DelayReading | None:
    told = None if found.delays is None else quantiles(found.delays, _SHARES)
    if told is None or found.delays is None:
        return None
    return DelayReading(labels=sum(found.delays.values()), p50=told[0], p90=told[1], p99=told[2])
