"""What a change adds to lists and counts, as the script that commits it is told."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrant.tallies.tally import Tally, merged
from storage.monitor_keys import MonitorKeys
from storage.monitors.lists import LONG
from storage.monitors.series import KINDS, SPAN, TallyKind, by_rows, by_span

Tallies = Mapping[int, tuple[Tally, Tally | None]]
Counts = Mapping[int, Mapping[str, int]]


@dataclass
class Additions:
    """Keys and blobs, and the plan that tells which blob is added to which key.

    A tally that is added to several lists is one blob, counted from 1.
    """

    keys: list[str] = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)
    plan: dict[str, Any] = field(default_factory=dict)


def additions(keys: MonitorKeys, tallies: Tallies, counts: Counts, close: int) -> Additions:
    """What is added to time buckets, to their spans and, where ``close`` is not 0, to the open row bucket."""
    added = Additions()
    lists: list[tuple[str, int, int]] = []
    rows: list[tuple[str, str, int]] = []
    for kind in KINDS:
        own = {bucket: tally for bucket, both in tallies.items() if (tally := both[KINDS.index(kind)]) is not None}
        if own:
            lists += _of_kind(added, kind, own)
            if close:
                whole = _joined(added, [(at, own[bucket]) for series, bucket, at in lists if series == kind])
                rows.append((by_rows(kind), keys.stem(by_rows(kind)), whole))
    added.keys = [keys.tallies(series, number) for series, number, _ in lists]
    added.keys += [keys.counts(bucket) for bucket in counts]
    spans = _by_span(counts)
    added.keys += [keys.span_counts(span) for span in spans]
    added.plan = {"lists": lists, "counts": [*counts.values(), *spans.values()], "long": LONG}
    added.plan["buckets"] = sorted({*tallies, *counts})
    if rows:
        added.plan["rows"] = (sum(len(measured) for measured, _ in tallies.values()), close, rows)
    return added


def _of_kind(added: Additions, kind: TallyKind, own: Mapping[int, Tally]) -> list[tuple[str, int, int]]:
    """The series, number and blob of every list of time buckets and spans."""
    found: list[tuple[str, int, int]] = []
    spans: defaultdict[int, list[tuple[int, Tally]]] = defaultdict(list)
    for bucket, tally in own.items():
        added.blobs.append(tally.to_bytes())
        found.append((kind, bucket, len(added.blobs)))
        spans[bucket // SPAN].append((len(added.blobs), tally))
    return found + [(by_span(kind), span, _joined(added, parts)) for span, parts in spans.items()]


def _joined(added: Additions, parts: list[tuple[int, Tally]]) -> int:
    """The blob of all rows of some tallies, each of which has one."""
    if len(parts) > 1:
        added.blobs.append(merged(tally for _, tally in parts).to_bytes())
        return len(added.blobs)
    return parts[0][0]


def _by_span(counts: Counts) -> dict[int, Counter[str]]:
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for bucket, counted in counts.items():
        found[bucket // SPAN].update(counted)
    return found
