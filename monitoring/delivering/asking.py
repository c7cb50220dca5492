"""Asking for deliveries: an event goes to every hook of its monitor, however often it is asked for."""

from __future__ import annotations

from schemas.monitor_deliveries import DeliveryRecord
from schemas.monitor_events import AlarmTold, EventType, HookTestTold, MonitorEvent, RecalibrationTold
from schemas.monitors import HookSpec, MonitorRecord
from storage.clock import at, stamp
from storage.keyspace import derived_id
from storage.monitors.deliveries import Deliveries
from storage.store import Store


def event_of(
    monitor: MonitorRecord,
    seed: str,
    type_: EventType,
    data: AlarmTold | RecalibrationTold | HookTestTold,
    *,
    moment: float,
) -> MonitorEvent:
    """The event that happened to a monitor at ``moment``, in seconds since 1970.

    Its id comes from the monitor, the type and ``seed``, which names this occasion, such as ``rule:7`` for the rule's
    seventh alarm: who tells of the same occasion again, as after a crash, tells of the same event.
    """
    return MonitorEvent(
        id=derived_id("event", f"{monitor.uid} {type_} {seed}"), type=type_, timestamp=at(moment), data=data
    )


def ask(store: Store, monitor: MonitorRecord, event: MonitorEvent) -> None:
    """Have an event delivered to all hooks of a monitor; each gets one delivery, however often this is asked for."""
    for hook in monitor.hooks:
        ask_one(store, monitor, hook, event)


def ask_one(store: Store, monitor: MonitorRecord, hook: HookSpec, event: MonitorEvent) -> str:
    """Have an event delivered to one hook, once; gives the id of the delivery."""
    record = DeliveryRecord(
        id=derived_id("delivery", f"{event.id} {hook.name}"),
        monitor=monitor.name,
        hook=hook.name,
        event=event,
        created_at=(asked := stamp()),
        next_at=asked,
    )
    Deliveries(store.redis, store.keys, monitor.uid).create(record)
    return record.id
