"""``/monitors/{name}/deliveries``: events on their way to those who listen, and what became of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Document
from schemas.monitor_events import EventId, EventType, MonitorEvent
from schemas.pages import PageQuery

DeliveryStatus = Literal["pending", "succeeded", "dead"]
#: Why an attempt got no status of a receiver. ``interrupted``: the process that made it ended, or still makes it.
AttemptError = Literal[
    "interrupted",
    "not-admitted",
    "not-resolved",
    "address-refused",
    "not-connected",
    "tls-failed",
    "timed-out",
    "broken-answer",
    "no-hook",
    "no-secret",
]
#: A delivery keeps so many of its last attempts.
MOST_ATTEMPTS = 20


class Attempt(Document):
    """One attempt: the status that the receiver answered, or why there is none. Nothing else of an answer is kept."""

    number: int = Field(description="counted from 1, over all times that it was sent again")
    at: str
    status: int | None = None
    error: AttemptError | None = None
    seconds: float | None = Field(None, description="that it took")


class DeliveryRecord(Document):
    """An event on its way to one hook."""

    format: int = 1
    id: str
    monitor: str
    hook: str
    status: DeliveryStatus = "pending"
    event: MonitorEvent
    attempts: list[Attempt] = Field([], description=f"the last {MOST_ATTEMPTS}, oldest first")
    tried: int = Field(0, description="attempts since it was last asked for")
    created_at: str
    ended_at: str | None = None
    next_at: str | None = Field(None, description="when it is tried next; null where it is not")


class DeliverySummary(Document):
    """A delivery in a list."""

    id: str
    hook: str
    status: DeliveryStatus
    event: EventId
    type: EventType
    tried: int
    last: Attempt | None = Field(None, description="the last attempt")
    created_at: str
    ended_at: str | None = None
    next_at: str | None = None

    @classmethod
    def of(cls, record: DeliveryRecord) -> DeliverySummary:
        """What a list tells of a delivery."""
        return cls(
            id=record.id,
            hook=record.hook,
            status=record.status,
            event=record.event.id,
            type=record.event.type,
            tried=record.tried,
            last=record.attempts[-1] if record.attempts else None,
            created_at=record.created_at,
            ended_at=record.ended_at,
            next_at=record.next_at,
        )


class DeliveriesQuery(PageQuery):
    """Which deliveries ``GET /monitors/{name}/deliveries`` is asked for."""

    status: DeliveryStatus | None = Field(None, description="``dead``: the dead letters")
    hook: str | None = Field(None, max_length=32, description="to this hook alone")


class DeliveriesAnswer(Document):
    """A page of deliveries, newest first."""

    items: list[DeliverySummary]
    next: str | None = Field(description="cursor of the page that follows")
