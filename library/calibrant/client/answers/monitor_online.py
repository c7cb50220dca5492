"""Generated from schemas/monitor_online.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from calibrant.client.answers.document import WireAnswer

OnlineReason = Literal["schedule", "evidence", "alarm", "request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineVersion(WireAnswer):
    """A version of the map; the probabilities of rows from then on are those of its stored document."""

    map: str  # id of the map
    version: int | None = None  # its version; None if the alias could not be moved to it
    at: str  # when it was written
    reason: OnlineReason  # why the version was made
    rounds: int  # number of time buckets that it was updated with
    rows: int  # number of their labelled rows


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineReading(WireAnswer):
    """The progress as callers see it."""

    static: str | None = None  # id of the map that it corrects; None: none
    in_force: str | None = None  # id of the map that the alias points at; None: none
    started_at: str  # when it started, or restarted because of another map or other options
    rounds: int = 0  # number of time buckets with labels that it was updated with
    rows: int = 0  # number of their labelled rows
    #: number of predictions in these buckets that had no label in time, and never count; if there are many, set
    #: `after`
    unlabelled: int = 0
    weights: dict[str, float] = field(default_factory=dict)  # weight of each expert in the next version; the sum is 1
    log_e: float = 0.0  # log loss of the map in force minus that of the online map, in nats, since the last version
    rows_since: int = 0  # number of labelled rows since the last version
    versions: list[OnlineVersion] = field(default_factory=list)  # the last 20, oldest first
    bound: float  # a version is written when `log_e` reaches it: log(1 / (1 - `level`))
    counted_until: str  # end of the last counted time bucket
    next_at: str  # when the next version is due, if there are new rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveVersion(WireAnswer):
    """A version of a map to prediction sets with another error level."""

    map: str  # id of the map
    version: int | None = None  # its version; None if the alias could not be moved to it
    at: str  # when it was written
    level: float  # its error level; up to 0 sets have all classes, from 1 on none
    rows: int  # number of labelled rows that the level follows from
    misses: int  # number of them whose set did not have the label


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveReading(WireAnswer):
    """The progress as callers see it."""

    in_force: str  # id of the map that the alias points at
    started_at: str  # when it started, or restarted because of another map or other options
    target: float  # error level that the stream should have: 1 - the coverage of the monitor
    gamma: float  # step of the level after each label
    first: float  # error level of the map in force at the start
    level: float  # error level of the map in force
    rows: int = 0  # number of labelled rows in the counted time buckets
    misses: int = 0  # number of them whose set did not have the label
    rows_since: int = 0  # number of labelled rows since the last version
    delay: int = 0  # the most sets that were made after a set before its label was counted
    versions: list[AdaptiveVersion] = field(default_factory=list)  # the last 20, oldest first
    next_level: float  # error level of the next version, after the labels that were counted
    error: float | None = None  # share of the labelled sets that did not have the label
    #: largest possible distance of the error from the target with this delay; None without labels
    bound: float | None = None
    counted_until: str  # end of the last counted time bucket
    next_at: str  # when the next version is due, if there are new rows
