"""What becomes of a challenger or a version of a map: a proposal to move the alias, or the reason why there is none."""

from __future__ import annotations

from typing import Any, TypeVar

from backend.monitors.alarms import recalibrated, step_of
from backend.monitors.definitions import target_of
from backend.store.clock import at
from backend.store.keyspace import derived_id
from backend.store.monitors.standings import StandingChange
from schemas.monitor_alarms import AuditAction, Occasion, Proposal, RecalibrationData, RecalibrationType, Standing
from schemas.monitor_online import (
    MOST_VERSIONS,
    AdaptiveStanding,
    AdaptiveVersion,
    OnlineReason,
    OnlineStanding,
    OnlineVersion,
)
from schemas.monitors import MonitorRecord


class NotFollowed(Exception):
    """The map of a policy cannot follow the stream: why, and the code of the reason."""

    def __init__(self, why: str, code: str) -> None:
        super().__init__(why)
        self.why, self.code = why, code


def data_of(record: MonitorRecord, **known: Any) -> RecalibrationData:
    """What is known of a recalibration of the monitor's alias."""
    alias = record.recalibration.alias
    return RecalibrationData(monitor=record.name, name=target_of(record), alias=alias, **known)


def proposal_of(
    record: MonitorRecord,
    occasion: Occasion,
    challenger: str,
    data: RecalibrationData,
    revision: int | None,
    now: float,
) -> Proposal:
    """The proposal to move the alias, which has a ``revision`` unless it is new, to a challenger."""
    return Proposal(
        id=derived_id("proposal", f"{record.id} {occasion.seed}"),
        created_at=at(now),
        occasion=occasion,
        map=challenger,
        name=target_of(record),
        alias=record.recalibration.alias,
        revision=revision,
        found=data,
    )


#: The progress of a policy that follows the stream.
Progress = TypeVar("Progress", OnlineStanding, AdaptiveStanding)


def written(
    record: MonitorRecord,
    standing: Standing,
    progress: Progress,
    version: OnlineVersion | AdaptiveVersion,
    reason: OnlineReason,
    revision: int | None,
    now: float,
    *,
    gain: float | None = None,
    **changes: Any,
) -> tuple[Progress, Standing]:
    """The progress with a new version and other ``changes``, and the standing with the decision to move the alias."""
    occasion = Occasion(number=standing.versions + 1, reason=reason)
    data = data_of(record, champion=progress.in_force, challenger=version.map, gain=gain, rows=progress.rows_since)
    proposal = proposal_of(record, occasion, version.map, data, revision, now)
    versions = [*progress.versions, version][-MOST_VERSIONS:]
    changes |= {"in_force": version.map, "rows_since": 0, "written_at": now, "versions": versions}
    decision = {"versions": occasion.number, "asked": [], "moving": proposal, "moved_by": None, "moved_for": None}
    return progress.model_copy(update=changes), standing.model_copy(update=decision)


def refused(
    record: MonitorRecord,
    standing: Standing,
    occasion: Occasion,
    data: RecalibrationData,
    why: str | None,
    now: float,
    *,
    failed: bool = False,
) -> StandingChange:
    """The change to a standing without a proposal, because there is no better map, or making one ``failed``."""
    type_: RecalibrationType = "monitor.recalibration.failed" if failed else "monitor.recalibration.declined"
    action: AuditAction = "recalibration-failed" if failed else "recalibration-declined"
    event = recalibrated(record, occasion, type_, data, now)
    return StandingChange(standing, [event], [step_of(action, now, occasion, data, detail=why)])


def unwritten(
    record: MonitorRecord, standing: Standing, declined: NotFollowed, now: float, *, failed: bool = False
) -> StandingChange:
    """The change if a policy cannot follow the stream, or writing its version ``failed``, which counts as one."""
    number = standing.versions + 1
    after = standing.model_copy(update={"asked": [], "versions": number, "last_asked": now})
    asked = standing.asked if record.recalibration.policy == "online" else []
    occasion = asked[0] if asked else Occasion(number=number, reason="schedule")
    return refused(record, after, occasion, data_of(record, code=declined.code), declined.why, now, failed=failed)
