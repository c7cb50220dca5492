"""Ingestion: the rows of a request are counted exactly once, in chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from time import time

import numpy as np
import numpy.typing as npt

from backend.held_map import HeldMap
from backend.monitors.kinds import check_map_now, kind_of_monitor
from backend.monitors.outcomes import (
    ABSENT,
    DELAY_BINS,
    DELAY_FIELDS,
    Apply,
    Countable,
    Decided,
    Entries,
    Labels,
    RowOutcome,
    by_bucket,
    decide_labels,
    decide_predictions,
    decide_rows,
    delay_bins,
    known,
    nothing,
)
from backend.monitors.rows import (
    MOST_NAMED,
    MonitorRows,
    What,
    Why,
    Whys,
    first_places,
    group_indices,
    lengths_of,
    screen,
)
from backend.requester import Requester
from backend.store.chores import Chore, schedule
from backend.store.errors import MonitorFull
from backend.store.monitors.ids import OTHER_GROUP, Ids
from backend.store.monitors.ledger import MOST_ROWS, Ledger, MonitorGroups, Once, RowChanges
from backend.telemetry.observed import note_rows
from calibrant.core.batch import Integers, Predictions
from calibrant.core.cells import Floats
from calibrant.monitoring.reservoir import NO_LABEL, Reservoir, Vectors, priorities_of
from calibrant.monitoring.tally import FOLDS
from schemas.base import DAY
from schemas.monitors import IngestionCounts, IngestionResult, MonitorRecord, RefusedRow

# --- The changes of decided rows

#: Counts of time buckets: bucket -> field -> increment.
Counts = dict[int, Counter[str]]


def change_of(decided: Decided, ids: Ids | None, read: Entries, now: float) -> RowChanges:
    """The change of rows whose ids had the entries ``read (n,)``; ``ids`` None: no ids are stored."""
    stored_ids, expected, entries = _kept(decided, ids, read)
    times = decided.predicted.entries["time"][decided.arrives]
    return RowChanges(
        stored_ids,
        expected,
        entries,
        now,
        tallies=decided.predicted.tallies(decided.counts, decided.labels),
        counts=_counts(decided),
        totals=_totals(decided),
        waiting=decided.predicted.waiting(decided.arrives & ~decided.counts, decided.counts & ~decided.arrives),
        first=float(times.min()) if len(times) else None,
    )


def _kept(decided: Decided, ids: Ids | None, read: Entries) -> tuple[Ids | None, Entries | None, Entries | None]:
    """The ids that change, their expected entries, and their new entries."""
    chosen = decided.changes
    if ids is None or not chosen.any():
        return None, None, None
    expected, entries = read, decided.entries
    if not chosen.all():
        ids, expected, entries = ids.taken(chosen), read[chosen], entries[chosen]
    return ids, expected if expected["kind"].any() else None, entries


def _counts(decided: Decided) -> Counts:
    """New predictions, joined rows and their delays, by time bucket of the prediction."""
    buckets = decided.predicted.entries["bucket"].astype(np.int64)
    by_bucket: Counts = {}
    for bucket, n in zip(*_tallied(buckets[decided.arrives]), strict=True):
        by_bucket.setdefault(bucket, Counter())["predictions"] = n
    joined = buckets[decided.counts] * DELAY_BINS + delay_bins(decided.delays[decided.counts])
    for code, n in zip(*_tallied(joined), strict=True):
        bucket, delay = divmod(code, DELAY_BINS)
        by_bucket.setdefault(bucket, Counter()).update({"joined": n, DELAY_FIELDS[delay]: n})
    return by_bucket


def _tallied(codes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[list[int], list[int]]:
    """The distinct codes, and the number of occurrences of each."""
    if len(codes) and codes.min() == codes.max():
        return [int(codes[0])], [len(codes)]
    distinct, n = np.unique(codes, return_counts=True)
    return distinct.tolist(), n.tolist()


def _totals(decided: Decided) -> dict[str, int]:
    masks = {
        "predictions": decided.arrives,
        "labels": decided.labelled,
        "joined": decided.counts,
        "duplicates": decided.outcome == RowOutcome.DUPLICATE,
        "contradicted": decided.outcome == RowOutcome.CONTRADICTED,
    }
    return {field: n for field, rows in masks.items() if (n := int(np.count_nonzero(rows)))}


# --- What decided rows add to the reservoirs of time buckets


@dataclass(frozen=True)
class Sampled:
    """Rows that may be added to a reservoir: ``priorities (n,)``, and ``vectors (n, K)`` as they were sent."""

    priorities: Floats
    vectors: Floats | Vectors

    def reservoirs(self, decided: Decided, bounds: Callable[[list[int]], Floats], size: int) -> dict[int, Reservoir]:
        """The new predictions and labels by time bucket, with priorities below the ``bounds`` of the buckets.

        At most ``size`` predictions of each bucket.
        """
        chosen = decided.arrives | decided.counts
        if not chosen.any():
            return {}
        buckets = decided.predicted.entries["bucket"]
        present, place = np.unique(buckets[chosen], return_inverse=True)
        rows = np.flatnonzero(chosen)
        rows = rows[self.priorities[rows] < bounds(present.tolist())[place]]
        if not len(rows):
            return {}
        return {bucket: self._rows(decided, rows[at]).at_most(size) for bucket, at in by_bucket(buckets[rows])}

    def _rows(self, decided: Decided, rows: Integers) -> Reservoir:
        labels = np.where(decided.counts[rows], decided.labels[rows], NO_LABEL).astype(np.int64)
        new = decided.arrives[rows]
        sample = Reservoir.of(self.priorities[rows[new]], self.vectors[rows[new]], labels[new])
        return sample.with_later(self.priorities[rows[~new]], labels[~new])


# --- The summary of a request

#: Reasons that usually apply to many rows of a request; the first row is listed, with their number.
LISTED_ONCE = (Why.TOO_OLD, Why.FORGOTTEN)
#: The name of the count of rows in groups beyond the limit, beside those of outcomes.
OTHERS = "OTHERS"


class Account:
    """Counts outcomes, and collects the first rows to list in the response."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._other = 0
        self._ignored = 0
        self._named: list[tuple[int, Why]] = []
        self._repeated: Counter[Why] = Counter()
        self._unknown: dict[int, str] = {}

    def add(self, outcome: npt.NDArray[np.uint8], numbers: Integers, *, other: int = 0) -> None:
        """Add decided rows; ``other`` of them are new and belong to a group beyond the limit."""
        counts = np.bincount(outcome, minlength=len(RowOutcome))
        self._counts.update({kind: int(counts[kind]) for kind in RowOutcome})
        self._other += other
        if counts[RowOutcome.CONTRADICTED]:
            first = np.flatnonzero(outcome == RowOutcome.CONTRADICTED)[:MOST_NAMED]
            self._name((int(row), Why.CONTRADICTED) for row in numbers[first])

    def refuse(self, why: npt.NDArray[np.uint8], numbers: Integers) -> None:
        """Add refused rows, each with its reason."""
        self._counts[RowOutcome.REFUSED] += len(why)
        for reason in LISTED_ONCE:
            rows = numbers[why == reason]
            if len(rows):
                if not self._repeated[reason]:
                    self._name([(int(rows[0]), reason)])
                self._repeated[reason] += len(rows)
        alone = ~np.isin(why, LISTED_ONCE)
        why, numbers = why[alone][:MOST_NAMED], numbers[alone][:MOST_NAMED]
        self._name((int(row), Why(int(reason))) for row, reason in zip(numbers, why, strict=True))

    def note_unknown(self, fields: Mapping[int, str]) -> None:
        """Add the unknown fields of rows, by position in the request."""
        self._unknown.update(fields)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._counts.total()

    @property
    def refused(self) -> int:
        """The number of refused rows."""
        return self._counts[RowOutcome.REFUSED]

    @property
    def known(self) -> int:
        """The number of rows that are counted, now or before."""
        return sum(self._counts[kind] for kind in RowOutcome if kind is not RowOutcome.REFUSED)

    def ignore(self, events: int) -> None:
        """Add events without predictions or labels."""
        self._ignored += events

    def answer(self) -> IngestionResult:
        """The summary for the response."""
        counts = counts_of({kind.name: n for kind in RowOutcome if (n := self._counts[kind])} | {OTHERS: self._other})
        return IngestionResult(**counts.model_dump(), ignored=self._ignored, refusals=self.refusals())

    def refusals(self) -> list[RefusedRow]:
        """The first rows to list in the response."""
        return [self._refusal(row, why) for row, why in self._named]

    def _refusal(self, row: int, why: Why) -> RefusedRow:
        detail, name = why.detail, self._unknown.get(row)
        if name is not None:
            detail = detail.replace("an unknown field", f"the unknown field {name}")
        return RefusedRow(row=row, code=why.code, detail=detail, rows=max(1, self._repeated[why]))

    def _name(self, rows: Iterable[tuple[int, Why]]) -> None:
        self._named = sorted([*self._named, *rows])[:MOST_NAMED]


def counts_of(counts: Mapping[str, int]) -> IngestionCounts:
    """The numbers of rows of a response, from those by outcome."""
    count = {kind: counts.get(kind.name, 0) for kind in RowOutcome}
    return IngestionCounts(
        accepted=count[RowOutcome.STORED] + count[RowOutcome.JOINED] + count[RowOutcome.WAITING],
        joined=count[RowOutcome.JOINED],
        waiting=count[RowOutcome.WAITING],
        duplicates=count[RowOutcome.DUPLICATE],
        contradicted=count[RowOutcome.CONTRADICTED],
        refused=count[RowOutcome.REFUSED],
        other_group=counts.get(OTHERS, 0),
    )


# --- Ingestion of the rows of a request in chunks; repeated rows are not counted again
#
# Rows are decided from the stored entries of their ids, and written in one step if the entries have not changed since.
# If another process changed them, nothing is written: the new entries are read, and the rows are decided again.

#: Chunk size of rows without ids, which need no lookup.
MOST_WITHOUT = 50_000
#: Minimum seconds for which a repeated request is recognized.
_SEEDS_KNOWN = 7 * DAY


class Ingestion:
    """Counts the rows of one request to one monitor.

    ``apply`` applies its map. ``seed`` makes a request idempotent: rows without ids count once per seed.

    With ``account``, the key of a hash, rows with ids count once per seed too, and the transaction that counts rows
    also adds their outcomes to the hash, by name, and that which closes the request the number of its ``rows``. Such a
    request has at most ``MOST_ROWS`` rows with ids.
    """

    def __init__(
        self,
        ledger: Ledger,
        groups: MonitorGroups,
        record: MonitorRecord,
        apply: Apply | None = None,
        seed: str | None = None,
        account: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._groups = groups
        self._record = record
        self._apply = apply
        self._seed = seed
        self._account = account
        self._rng = np.random.default_rng()
        self._kind = kind_of_monitor(record)
        self._layout = self._kind.layout

    def add(self, what: What, rows: MonitorRows, now: float, account: Account) -> None:
        """Count rows, and add their outcomes to the account.

        Raises ``UnknownMonitor`` and ``MonitorFull``; earlier rows stay counted, and are recognized by their ids.
        """
        why = screen(rows, what, self._record, now, self._kind.check_labels)
        for reason, instead in self._kind.reasons.items():
            why[why == reason] = instead
        rows = _fine(rows, why, account)
        rows = replace(rows, groups=group_indices(self._groups, rows.groups, rows.names), names=())
        add = self._add_labels if what == "labels" else partial(self._add_predictions, with_labels=what == "rows")
        for part in _parts(rows):
            add(part, now, account)

    def close(self, now: float, account: Account) -> None:
        """Count the refused rows of a request."""
        if account.refused or self._account is not None:
            totals = {"refused": account.refused} if account.refused else {}
            change = RowChanges(None, None, None, now, totals=totals, once=self._once("refused"))
            self._ledger.commit(self._noted(change, {"rows": account.rows}))

    def _add_labels(self, rows: MonitorRows, now: float, account: Account) -> None:
        if rows.ids is None or rows.labels is None:  # a row without either was refused
            return
        ids, labels, times = rows.ids, self._labels(rows.labels), rows.moments(now)
        sampled = self._sampled(rows, None)

        def decide(read: Entries, first: Integers | None) -> Decided:
            return decide_labels(read, first, labels, times, self._waited)

        read = known(self._ledger.entries(ids), self._layout)
        try:
            decided = self._settle(decide, rows, read, now, sampled)
        except MonitorFull:
            joins = read["kind"] != ABSENT
            if joins.all() or not joins.any():
                raise
            # Labels of unknown ids would be stored; the others need no more room.
            self._add_labels(_fine(rows, np.where(joins, np.uint8(0), np.uint8(Why.FULL)), account), now, account)
        else:
            account.add(decided.outcome, rows.numbers)

    def _add_predictions(self, rows: MonitorRows, now: float, account: Account, *, with_labels: bool) -> None:
        """Count predictions, with their labels if present; either all rows have ids or none."""
        rows, values = self._checked(rows, account)
        if not len(rows):
            return
        own = self._predicted(rows, values, now)
        labels = None if rows.labels is None else self._labels(rows.labels)
        sampled = self._sampled(rows, values)

        def decide(read: Entries, first: Integers | None) -> Decided:
            if labels is None or not with_labels:
                return decide_predictions(read, first, own, now)
            return decide_rows(read, first, own, labels, now)

        if rows.ids is None:
            piece = int(rows.numbers[0]) // MOST_WITHOUT
            decided = self._count(decide(nothing(len(rows), self._layout), None), rows, piece, now, sampled)
        else:
            decided = self._settle(decide, rows, nothing(len(rows), self._layout), now, sampled)
        account.add(decided.outcome, rows.numbers, other=_others(decided, rows.groups))

    def _checked(self, rows: MonitorRows, account: Account) -> tuple[MonitorRows, Floats]:
        """The rows with valid predictions, and those predictions."""
        predictions = np.zeros(0) if rows.predictions is None else rows.predictions.astype(np.float64, copy=False)
        why, values = self._kind.check_predictions(predictions)
        return (_fine(rows, why, account), values[why == 0]) if why.any() else (rows, values)

    def _predicted(self, rows: MonitorRows, values: Floats, now: float) -> Countable:
        """The predictions ready to be counted, each with its group and a random fold."""
        folds = self._rng.integers(0, FOLDS, len(rows))
        base = folds if rows.groups is None else rows.groups * FOLDS + folds
        return self._kind.countable(values, rows.moments(now), base, self._rng, self._apply)

    def _sampled(self, rows: MonitorRows, values: Floats | None) -> Sampled | None:
        """The rows with their vectors, if they are predictions, for a monitor with a reservoir."""
        record = self._record
        if record.reservoir is None or record.n_classes is None:
            return None
        ids = rows.ids
        priorities = self._rng.random(len(rows)) if ids is None else priorities_of(ids.strings(), record.id)
        none = np.broadcast_to(np.float32(0.0), (len(rows), record.n_classes))
        return Sampled(priorities, none if values is None else values)

    def _change(
        self, decided: Decided, rows: MonitorRows, read: Entries, now: float, sampled: Sampled | None
    ) -> RowChanges:
        """The change of decided rows, with what they add to reservoirs and to the account."""
        change = change_of(decided, rows.ids, read, now)
        if sampled is not None:
            vectors = self._ledger.buckets.vectors
            change = replace(change, vectors=sampled.reservoirs(decided, vectors.bounds, vectors.size))
        counts = np.bincount(decided.outcome, minlength=len(RowOutcome)).tolist()
        outcomes = {kind.name: counts[kind] for kind in RowOutcome} | {OTHERS: _others(decided, rows.groups)}
        return self._noted(change, outcomes)

    def _noted(self, change: RowChanges, counts: Mapping[str, int]) -> RowChanges:
        """The change with what it adds to the account, if there is one."""
        if self._account is None:
            return change
        return replace(change, account=(self._account, {name: n for name, n in counts.items() if n}))

    def _waited(self, entries: Entries) -> Countable:
        """The predictions of entries, of which some waited for a label."""
        return self._kind.waited(entries, self._rng, self._apply)

    def _labels(self, labels: Floats) -> Labels:
        """Labels as integers, or outcomes of forecasts."""
        return labels.astype(self._kind.label_type)

    def _settle(
        self,
        decide: Callable[[Entries, Integers | None], Decided],
        rows: MonitorRows,
        read: Entries,
        now: float,
        sampled: Sampled | None,
    ) -> Decided:
        """Decide rows with ids and write their changes; repeated until no other process interferes."""
        first: Integers | None = None
        once = None if self._account is None else self._once("ids")
        while True:
            decided = decide(read, first)
            conflict = self._ledger.commit(replace(self._change(decided, rows, read, now, sampled), once=once))
            if conflict is None:
                return decided
            places = np.flatnonzero(decided.changes)[conflict.indices]
            entries = known(conflict.entries, self._layout)
            if first is None and rows.ids is not None and (entries == read[places]).any():  # an id that occurs twice
                first = first_places(rows.ids)
            read[places] = entries

    def _count(self, decided: Decided, rows: MonitorRows, piece: int, now: float, sampled: Sampled | None) -> Decided:
        """Count rows without ids; with a seed only once per chunk of the request."""
        change = self._change(decided, rows, decided.predicted.entries, now, sampled)
        self._ledger.commit(replace(change, once=self._once(str(piece))))
        return decided

    def _once(self, piece: str) -> Once | None:
        """A key that identifies a chunk of a repeated request."""
        known_for = max(_SEEDS_KNOWN, self._record.horizon)
        return None if self._seed is None else Once(f"{self._seed}:{piece}", known_for)


def _others(decided: Decided, groups: Integers | None) -> int:
    """The number of new rows that belong to a group beyond the limit."""
    if groups is None:
        return 0
    is_new = (decided.outcome == RowOutcome.STORED) | (decided.outcome == RowOutcome.JOINED)
    return int(np.count_nonzero(is_new & (groups == OTHER_GROUP)))


def _fine(rows: MonitorRows, why: Whys, account: Account) -> MonitorRows:
    """The rows that are not refused; the account records the others."""
    fine = why == 0
    if not fine.all():
        account.refuse(why[~fine], rows.numbers[~fine])
    return rows.taken(fine)


def _parts(rows: MonitorRows) -> Iterator[MonitorRows]:
    """Yield the rows in chunks of bounded size: first those with ids, then those without."""
    if rows.ids is not None:
        has_id = lengths_of(rows.ids) > 0
        named = rows.taken(has_id)
        for start in range(0, len(named), MOST_ROWS):
            yield named.part(start, start + MOST_ROWS)
        rows = replace(rows.taken(~has_id), ids=None)
    # Chunks are defined by positions in the request, so that a repeated request has the same chunks.
    last = int(rows.numbers[-1]) // MOST_WITHOUT + 1 if len(rows) else 0
    cuts = np.searchsorted(rows.numbers, np.arange(last + 1) * MOST_WITHOUT).tolist()
    for start, stop in pairwise(cuts):
        if start < stop:
            yield rows.part(start, stop)


# --- For a request: count rows, and schedule a check of the monitor

#: Seconds from new rows to the check of the monitor, which also covers rows that arrive in between.
LOOK_AFTER = 1.0


def ingest(
    requester: Requester, record: MonitorRecord, parts: Iterable[tuple[What, MonitorRows]], *, ignored: int = 0
) -> IngestionResult:
    """Count rows in order, and schedule a check of the monitor; ``ignored`` is the number of events without rows.

    Raises ``UnknownMonitor``, ``MonitorFull``, ``UnknownMap`` if the monitor's map has been deleted, and the errors of
    ``check_map_now`` for predictions.
    """
    store, account, now, numbered = requester.store, Account(), time(), 0
    ledger, groups = Ledger(store.redis, store.keys, record), MonitorGroups(store.redis, store.keys, record)
    ingestion = Ingestion(ledger, groups, record, apply_of(requester.find_map, record), requester.seed)
    account.ignore(ignored)
    for what, rows in parts:
        account.note_unknown({row + numbered: name for row, name in rows.unknown.items()})
        try:
            ingestion.add(what, replace(rows, numbers=rows.numbers + numbered), now, account)
        except MonitorFull as full:
            raise MonitorFull(f"{full.detail}; {account.known:,} rows of this request are counted") from full
        numbered += len(rows)
    note_rows((numbered,))
    ingestion.close(now, account)
    taken = account.answer()
    if taken.accepted:
        schedule(store.redis, Chore("look", store.keys.tenant, record.id), LOOK_AFTER)
    return taken


def apply_of(find_map: Callable[[str], HeldMap], record: MonitorRecord) -> Apply | None:
    """The function that applies the map of a monitor, if it has one; raises ``UnknownMap``."""
    if record.map is None:
        return None
    fitted = find_map(record.map).map

    def apply(predictions: Predictions) -> Floats:
        check_map_now(record, fitted)
        return fitted.apply_checked(predictions)

    return apply
