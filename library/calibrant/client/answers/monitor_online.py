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
