"""Webhooks: the hooks of a monitor, and the creation, attempts and retries of deliveries."""

from __future__ import annotations

import contextlib
import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from backend.monitors.webhook_requests import AttemptOutcome, InvalidSecret, Sender, check_secret, headers, read_secret
from backend.monitors.webhook_targets import (
    TargetRefused,
    Targets,
)
from backend.requester import Requester
from backend.store.clock import at, now, stamp
from backend.store.errors import UnknownDelivery, UnknownHook, UnknownMonitor
from backend.store.keyspace import derived_id
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.deliveries import Deliveries
from backend.store.store import Store
from calibrant import __version__
from calibrant.core.errors import CalibrationError
from schemas.base import DAY
from schemas.monitor_alarms import (
    AlarmData,
    DeliveryRecord,
    DeliveryStatus,
    EventType,
    HookTestData,
    MonitorEvent,
    RecalibrationData,
)
from schemas.monitors import HIDDEN_PATH, HookSpec, MonitorRecord

# --- Validation of hooks, and their signing keys

#: Seconds that a replaced secret continues to sign.
ROTATION_SECONDS = DAY


class HookRefused(CalibrationError):
    """A hook whose URL is not allowed."""

    code = "hook-refused"


def prepare(
    hooks: Sequence[HookSpec],
    targets: Targets,
    *,
    now: float,
    make: Callable[[str], str],
    before: Sequence[HookSpec] = (),
) -> list[HookSpec]:
    """Validate hooks and complete their secrets; ``make`` generates the secret for a hook name.

    An existing hook (in ``before``) keeps its secrets if none are given, and its URL if the shown form is given. A hook
    with a new secret also signs with the previous one for a day. Raises ``HookRefused``, and ``InvalidOption`` for a
    malformed secret.
    """
    known = {hook.name: hook for hook in before}
    return [prepare_hook(hook, known.get(hook.name), targets, now, make, f"/hooks/{i}") for i, hook in enumerate(hooks)]


def prepare_hook(
    hook: HookSpec, before: HookSpec | None, targets: Targets, now: float, make: Callable[[str], str], place: str
) -> HookSpec:
    """Validate one hook as ``prepare`` does; its errors are at ``place``."""
    url = before.url if before is not None and hook.url == before.shown_url else hook.url
    if url.endswith(HIDDEN_PATH):
        raise HookRefused.at(
            f"{place}/url", f"ends with {HIDDEN_PATH}, the placeholder for a hidden path; send the full URL"
        )
    try:
        targets.admit(url)
    except TargetRefused as error:
        raise HookRefused.at(f"{place}/url", str(error)) from None
    check_secret(hook.secret, f"{place}/secret")
    check_secret(hook.old_secret, f"{place}/old_secret")
    secret, old, until = _secrets(hook, before)
    if old is None:
        until = None
    elif until is None:
        until = now + ROTATION_SECONDS
    changed = {"url": url, "secret": secret or make(hook.name), "old_secret": old, "old_secret_until": until}
    return hook.model_copy(update=changed)


def _secrets(hook: HookSpec, before: HookSpec | None) -> tuple[str | None, str | None, float | None]:
    """The secret of a hook, its old secret, and until when that signs: as given, else as before."""
    if before is None or hook.old_secret is not None:
        return hook.secret or (before.secret if before else None), hook.old_secret, hook.old_secret_until
    if hook.secret in (None, before.secret):
        until = before.old_secret_until if hook.old_secret_until is None else hook.old_secret_until
        return before.secret, before.old_secret, until
    return hook.secret, before.secret, hook.old_secret_until


def keys_of(hook: HookSpec, now: float) -> list[bytes]:
    """The keys that sign for a hook, newest first; raises ``InvalidSecret`` if it has none."""
    keys = [read_secret(hook.secret or "")]
    if hook.old_secret is not None and (hook.old_secret_until is None or now < hook.old_secret_until):
        keys.append(read_secret(hook.old_secret))
    return keys


# --- Creating deliveries: one per event and hook, idempotent


def event_of(
    monitor: MonitorRecord,
    seed: str,
    type_: EventType,
    data: AlarmData | RecalibrationData | HookTestData,
    *,
    moment: float,
) -> MonitorEvent:
    """The event of a monitor at ``moment``, in seconds since 1970.

    Its id is derived from the monitor, the type and ``seed``, which identifies the occasion, such as ``rule:7`` for the
    seventh alarm of a rule. A repeated report of the same occasion, for example after a crash, has the same id.
    """
    return MonitorEvent(
        id=derived_id("event", f"{monitor.id} {type_} {seed}"), type=type_, timestamp=at(moment), data=data
    )


def queue_deliveries(store: Store, monitor: MonitorRecord, event: MonitorEvent) -> None:
    """Queue the delivery of an event to all hooks of a monitor. Idempotent: each hook gets one delivery.

    Raises ``UnknownMonitor``.
    """
    for hook in monitor.hooks:
        with contextlib.suppress(UnknownHook):  # it was removed since the monitor was read
            queue_delivery(store, monitor, hook, event)


def queue_delivery(store: Store, monitor: MonitorRecord, hook: HookSpec, event: MonitorEvent) -> DeliveryRecord:
    """Create the delivery of an event to one hook, once.

    Raises ``UnknownMonitor`` and ``UnknownHook`` if they were deleted since the monitor was read.
    """
    record = DeliveryRecord(
        id=derived_id("delivery", f"{event.id} {hook.name}"),
        monitor=monitor.name,
        hook=hook.name,
        event=event,
        created_at=(moment := stamp()),
        next_at=moment,
    )
    return Deliveries(store.redis, store.keys, monitor.id).create(record)


def request_test(requester: Requester, name: str, hook: str) -> DeliveryRecord:
    """Create the delivery of a ``monitor.test`` event; raises ``UnknownMonitor`` and ``UnknownHook``."""
    store = requester.store
    monitor = store.monitors.get(name)
    spec = next((defined for defined in monitor.hooks if defined.name == hook), None)
    if spec is None:
        raise UnknownHook("the monitor has no such hook")
    seed = requester.seed or secrets.token_hex(16)
    event = event_of(monitor, seed, "monitor.test", HookTestData(monitor=name, hook=hook), moment=now().timestamp())
    return queue_delivery(store, monitor, spec, event)


# --- Retries, with increasing delays and jitter

#: Seconds between two attempts.
DELAYS = (5.0, 30.0, 120.0, 600.0, 3600.0, 21_600.0, 86_400.0)
#: Maximum delay that a receiver can request with ``Retry-After``.
MOST_SECONDS = 86_400.0


@dataclass(frozen=True)
class RetrySchedule:
    """The delay after each attempt; after the last one a delivery is dead. ``jitter`` is a fraction of the delay."""

    delays: tuple[float, ...] = DELAYS
    jitter: float = 0.25

    @property
    def attempts(self) -> int:
        """The maximum number of attempts."""
        return len(self.delays) + 1

    def after(self, tried: int, wait: int | None = None) -> float | None:
        """Seconds until the next attempt after ``tried`` attempts; None after the last one.

        A longer ``wait`` requested by the receiver is respected, up to a day.
        """
        if tried >= self.attempts:
            return None
        delay = self.delays[tried - 1] * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - jitter
        return max(delay, min(float(wait or 0), MOST_SECONDS))


# --- One attempt at a delivery

log = logging.getLogger(__name__)

#: After a failed attempt that was slower than this, other deliveries to the hook wait for so long, so that an
#: unresponsive receiver rarely delays deliveries to others.
SLOW_SECONDS, AWAY_SECONDS = 2.0, 30.0


@dataclass(frozen=True)
class Means:
    """The sender of deliveries, the retry schedule, and the public address of the service, empty if unknown."""

    sender: Sender
    plan: RetrySchedule = field(default_factory=RetrySchedule)
    slow_seconds: float = SLOW_SECONDS
    public_url: str = ""


def attempt(store: Store, uid: str, delivery_id: str, means: Means) -> float | None:
    """Attempt a pending delivery once; returns the seconds until the next attempt, None for never."""
    deliveries = Deliveries(store.redis, store.keys, uid)
    try:
        monitor = Definitions(store.redis, store.keys).by_uid(uid)
        known = deliveries.get(delivery_id)
        if known.status == "pending" and 0.0 < (wait := deliveries.away(known.hook)) <= AWAY_SECONDS:
            return wait  # a longer time means that a clock was set back
        begun = deliveries.begin(delivery_id, means.plan.attempts)
        if begun is None:
            return None
        hook = next((spec for spec in monitor.hooks if spec.name == begun.hook), None)
        return _settle(deliveries, begun, hook, means)
    except (UnknownMonitor, UnknownDelivery):  # deleted or expired, possibly while it was sent
        return None


def _settle(deliveries: Deliveries, begun: DeliveryRecord, hook: HookSpec | None, means: Means) -> float | None:
    """Make the attempt and record its outcome."""
    began = time.monotonic()
    page = f"{means.public_url.rstrip('/')}/ui/monitors/{begun.monitor}" if means.public_url else None
    outcome = _send(begun, hook, means.sender, page)
    took = time.monotonic() - began
    attempted = begun.attempts[-1].model_copy(
        update={"status": outcome.status, "error": outcome.error, "seconds": round(took, 3)}
    )
    after = None if _is_final(outcome) else means.plan.after(begun.tried, outcome.wait)
    status: DeliveryStatus = "succeeded" if outcome.succeeded else "dead" if after is None else "pending"
    if outcome.succeeded or took > means.slow_seconds:
        deliveries.keep_away(begun.hook, 0.0 if outcome.succeeded else AWAY_SECONDS)
    if status == "dead":
        log.warning("%s to a hook of monitor %s is dead: %s", begun.id, begun.monitor, outcome.error or outcome.status)
    return deliveries.end(begun, attempted, status, after)


def _is_final(outcome: AttemptOutcome) -> bool:
    """Whether no further attempt is useful or needed."""
    return outcome.succeeded or outcome.gone or outcome.error == "no-hook"


def _send(begun: DeliveryRecord, hook: HookSpec | None, sender: Sender, page: str | None) -> AttemptOutcome:
    """Sign the event for its hook, and post it with the address of the monitor's page."""
    if hook is None:
        return AttemptOutcome(error="no-hook")
    moment = now().timestamp()
    body = begun.event.body(page).encode()
    try:
        signed = headers(keys_of(hook, moment), begun.event.id, int(moment), body)
        target = sender.targets.admit(hook.url)
    except InvalidSecret:
        return AttemptOutcome(error="no-secret")
    except TargetRefused:
        return AttemptOutcome(error="not-admitted")
    about = {"Content-Type": "application/json", "User-Agent": f"Calibrant/{__version__}"}
    return sender.post(target, body, about | signed)
