"""One attempt at a delivery, from its record to what became of it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from calibrant import __version__
from monitoring.delivering.hooks import keys_of
from monitoring.delivering.schedule import Plan
from monitoring.delivering.sending import Outcome, Sender
from monitoring.delivering.signing import InvalidSecret, headers
from monitoring.delivering.targets import TargetRefused
from schemas.monitor_deliveries import DeliveryRecord, DeliveryStatus
from schemas.monitors import HookSpec
from storage.clock import now
from storage.errors import UnknownDelivery, UnknownMonitor
from storage.monitors.definitions import Definitions
from storage.monitors.deliveries import Deliveries
from storage.store import Store

log = logging.getLogger(__name__)

#: A failed attempt that took longer holds the others to this hook back for so long, so that a receiver that does not
#: answer holds up those of others no more than now and then.
SLOW_SECONDS, AWAY_SECONDS = 2.0, 30.0


@dataclass(frozen=True)
class Means:
    """What deliveries are made with, and when they are tried again."""

    sender: Sender
    plan: Plan = field(default_factory=Plan)
    slow_seconds: float = SLOW_SECONDS


def attempt(store: Store, uid: str, delivery_id: str, means: Means) -> float | None:
    """Try a delivery once, if it is still to be made; in how many seconds it is to be tried again, None for never."""
    deliveries = Deliveries(store.redis, store.keys, uid)
    try:
        monitor = Definitions(store.redis, store.keys).by_uid(uid)
        known = deliveries.get(delivery_id)
        if known.status == "pending" and (wait := deliveries.away(known.hook)):
            return wait
        begun = deliveries.begin(delivery_id, means.plan.attempts)
        if begun is None:
            return None
        hook = next((each for each in monitor.hooks if each.name == begun.hook), None)
        return _settle(deliveries, begun, hook, means)
    except (UnknownMonitor, UnknownDelivery):  # deleted, or forgotten, even while it was sent
        return None


def _settle(deliveries: Deliveries, begun: DeliveryRecord, hook: HookSpec | None, means: Means) -> float | None:
    """Make an attempt that has begun, and write down what it came to."""
    began = time.monotonic()
    outcome = _send(begun, hook, means.sender)
    took = time.monotonic() - began
    made = begun.attempts[-1].model_copy(
        update={"status": outcome.status, "error": outcome.error, "seconds": round(took, 3)}
    )
    after = None if _is_final(outcome) else means.plan.after(begun.tried, outcome.wait)
    status: DeliveryStatus = "succeeded" if outcome.succeeded else "dead" if after is None else "pending"
    if outcome.succeeded or took > means.slow_seconds:
        deliveries.keep_away(begun.hook, 0.0 if outcome.succeeded else AWAY_SECONDS)
    if status == "dead":
        log.warning("%s to a hook of monitor %s is dead: %s", begun.id, begun.monitor, outcome.error or outcome.status)
    return deliveries.end(begun, made, status, after)


def _is_final(outcome: Outcome) -> bool:
    """Whether another attempt would come to nothing else, or none is needed."""
    return outcome.succeeded or outcome.gone or outcome.error == "no-hook"


def _send(begun: DeliveryRecord, hook: HookSpec | None, sender: Sender) -> Outcome:
    """Sign the event for its hook, and post it."""
    if hook is None:
        return Outcome(error="no-hook")
    moment = now().timestamp()
    body = begun.event.body().encode()
    try:
        signed = headers(keys_of(hook, moment), begun.event.id, int(moment), body)
        target = sender.targets.admit(hook.url)
    except InvalidSecret:
        return Outcome(error="no-secret")
    except TargetRefused:
        return Outcome(error="not-admitted")
    about = {"Content-Type": "application/json", "User-Agent": f"Calibrant/{__version__}"}
    return sender.post(target, body, about | signed)
