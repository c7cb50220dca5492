"""Recalibration that follows a stream: what a monitor remembers between time buckets, and what callers see of it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.base import Document, Instant, Timestamp

#: Number of versions that are listed, the latest ones; the maps of all versions are kept.
MOST_VERSIONS = 20

#: Why a version was written.
OnlineReason = Literal["schedule", "evidence", "alarm", "request"]


class OnlineVersion(Document):
    """A version of the map; the probabilities of rows from then on are those of its stored document."""

    map: str
    version: int | None = Field(None, description="its version; null if the alias could not be moved to it")
    at: Timestamp = Field(description="when it was written")
    reason: OnlineReason = Field(description="why the version was made")
    rounds: int = Field(description="number of time buckets that it was updated with")
    rows: int = Field(description="number of their labelled rows")


class OnlineFields(Document):
    """The progress of a map that follows a monitor's stream."""

    static: str | None = Field(None, description="id of the map that it corrects; null: none")
    in_force: str | None = Field(None, description="id of the map that the alias points at; null: none")
    started_at: Timestamp = Field(description="when it started, or restarted because of another map or other options")
    rounds: int = Field(0, description="number of time buckets with labels that it was updated with")
    rows: int = Field(0, description="number of their labelled rows")
    unlabelled: int = Field(
        0,
        description="number of predictions in these buckets that had no label in time, and never count; if there are "
        "many, set `after`",
    )
    weights: dict[str, float] = Field({}, description="weight of each expert in the next version; the sum is 1")
    log_e: float = Field(
        0.0, description="log loss of the map in force minus that of the online map, in nats, since the last version"
    )
    rows_since: int = 0
    versions: list[OnlineVersion] = Field([], description=f"the last {MOST_VERSIONS}, oldest first")


class OnlineStanding(OnlineFields):
    """The same with what the next step needs; the states of the map are stored separately, in the same transaction."""

    options: dict[str, Any] = Field(description="options of the map")
    following: int = Field(description="first time bucket that was not counted yet")
    written_at: Instant


class OnlineReading(OnlineFields):
    """The progress as callers see it."""

    bound: float = Field(description="a version is written when `log_e` reaches it: log(1 / (1 - `level`))")
    counted_until: Instant
    next_at: Instant = Field(description="when the next version is due, if there are new rows")


# --- The error level of prediction sets, by adaptive conformal inference


class AdaptiveVersion(Document):
    """A version of a map to prediction sets with another error level."""

    map: str
    version: int | None = Field(None, description="its version; null if the alias could not be moved to it")
    at: Timestamp = Field(description="when it was written")
    level: float = Field(description="its error level; up to 0 sets have all classes, from 1 on none")
    rows: int = Field(description="number of labelled rows that the level follows from")
    misses: int


class AdaptiveFields(Document):
    """The progress of an error level that follows a monitor's stream."""

    in_force: str = Field(description="id of the map that the alias points at")
    started_at: Timestamp = Field(description="when it started, or restarted because of another map or other options")
    target: float = Field(description="error level that the stream should have: 1 - the coverage of the monitor")
    gamma: float = Field(description="step of the level after each label")
    first: float = Field(description="error level of the map in force at the start")
    level: float = Field(description="error level of the map in force")
    rows: int = Field(0, description="number of labelled rows in the counted time buckets")
    misses: int = 0
    rows_since: int = 0
    delay: int = Field(0, description="the most sets that were made after a set before its label was counted")
    versions: list[AdaptiveVersion] = Field([], description=f"the last {MOST_VERSIONS}, oldest first")


class AdaptiveStanding(AdaptiveFields):
    """The same with what the next step needs."""

    following: int = Field(description="first time bucket that was not counted yet")
    first_since: int = Field(0, description="first time bucket that was counted since the last version")
    written_at: Instant


class AdaptiveReading(AdaptiveFields):
    """The progress as callers see it."""

    next_level: float = Field(description="error level of the next version, after the labels that were counted")
    error: float | None = Field(None, description="share of the labelled sets that did not have the label")
    bound: float | None = Field(
        None, description="largest possible distance of the error from the target with this delay; null without labels"
    )
    counted_until: Instant
    next_at: Instant = Field(description="when the next version is due, if there are new rows")
