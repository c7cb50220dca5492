"""What is told of a monitor to those who listen: the events, as webhooks carry them.

A body has the structure that Standard Webhooks 1.0 recommends: ``type``, the ``timestamp`` of what happened, ``data``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Document

AlarmType = Literal["monitor.alarm.raised", "monitor.alarm.cleared", "monitor.alarm.acknowledged"]
RecalibrationType = Literal[
    "monitor.recalibration.proposed",
    "monitor.recalibration.applied",
    "monitor.recalibration.declined",
    "monitor.recalibration.failed",
]
HookTestType = Literal["monitor.test"]
EventType = Literal[AlarmType, RecalibrationType, HookTestType]

EventId = Annotated[str, Field(pattern=r"^event_[0-9a-f]{30}$")]


class AlarmTold(Document):
    """An alarm, as it was when it was raised, cleared or acknowledged."""

    monitor: str
    rule: str = Field(description="name of the rule")
    kind: Literal["evidence", "threshold"]
    measure: str | None = Field(None, description="of a threshold: the key of the measure")
    window: str | None = Field(None, description="of a threshold: the window that it looks at")
    group: str | None = Field(None, description="of a threshold: the group; null for all rows")
    value: float | None = Field(None, description="the number compared; of an evidence rule: the e-value's logarithm")
    bound: float | None = Field(None, description="what it is compared with")
    rows: int | None = Field(None, description="labelled rows that it was computed from")
    since: str | None = Field(None, description="since when the alarm is raised")


class RecalibrationTold(Document):
    """A challenger beside the champion."""

    monitor: str
    rule: str | None = Field(None, description="name of the rule whose alarm began it; null where someone asked for it")
    name: str | None = Field(None, description="name of the map")
    alias: str | None = Field(None, description="the alias that is moved, or would be")
    champion: str | None = Field(None, description="id of the map at which the alias points, or pointed; null: none")
    challenger: str | None = Field(None, description="id of the map that was fitted; null: none was")
    gain: float | None = Field(None, description="log loss of the champion less that of the challenger, in nats")
    low: float | None = Field(None, description="lower end of the interval of the gain")
    high: float | None = Field(None, description="upper end of the interval of the gain")
    rows: int | None = Field(
        None, description="rows that it was compared on, none of which it was fitted to; too few: all that there are"
    )
    since: str | None = Field(None, description="when the rows begin that it was fitted to; null: with the window")
    code: str | None = Field(None, description="why it was declined, or code of the problem where it failed")


class HookTestTold(Document):
    """That someone asked for a test of a hook; nothing has happened to the monitor."""

    monitor: str
    hook: str


class MonitorEvent(Document):
    """Something that happened to a monitor. Its ``id`` goes into the header ``webhook-id``, the rest into the body."""

    id: EventId
    type: EventType
    timestamp: str = Field(description="when it happened, not when it was delivered")
    # In this order, in which generated clients try them: the last requires least.
    data: AlarmTold | HookTestTold | RecalibrationTold

    def body(self) -> str:
        """What is sent and signed, the same bytes at every attempt."""
        return self.model_dump_json(exclude={"id"})
