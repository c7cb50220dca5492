"""What becomes of a challenger or a version of a map: a proposal to move the alias, or the reason why there is none."""

from __future__ import annotations

from typing import Any

from backend.monitors.alarms import recalibrated, step_of
from backend.monitors.definitions import target_of
from backend.store.clock import at
from backend.store.keyspace import derived_id
from backend.store.monitors.standings import StandingChange
from schemas.monitor_alarms import AuditAction, Occasion, Proposal, RecalibrationData, RecalibrationType, Standing
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


def moving(proposal: Proposal) -> dict[str, object]:
    """The fields of a standing whose policy has decided to move the alias to a version that it wrote."""
    of_version = {"versions": proposal.occasion.number, "asked": []}
    return of_version | {"moving": proposal, "moved_by": None, "moved_for": None}


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


def without_version(standing: Standing, now: float) -> Standing:
    """The standing after a version that was not written, which counts as one."""
    return standing.model_copy(update={"asked": [], "versions": standing.versions + 1, "last_asked": now})
