"""The background task ``deliver``: an attempt at a delivery of a monitor, or the next entries for an audit hook."""

from __future__ import annotations

from functools import cache, partial

from redis import Redis

from backend.monitors.audit_hooks import AUDIT, send_entries
from backend.monitors.webhook_requests import Sender
from backend.monitors.webhook_targets import Targets
from backend.monitors.webhooks import Means, attempt
from backend.settings import setting_here
from backend.store.chores import Chore
from backend.store.store import Store
from workers.settings import WorkerSettings


def deliver(redis: Redis, chore: Chore) -> float | None:
    """Attempt the delivery of a task; returns the seconds until the next attempt, None for never."""
    *target, uid, delivery_id = chore.id.split("/")  # tasks of earlier releases have no target
    store = Store.of(redis, chore.tenant)
    if uid == AUDIT:
        return send_entries(store, delivery_id, target[0], _means())
    return attempt(store, uid, delivery_id, _means())


@cache
def _means() -> Means:
    """Create the sender from the environment of this process, once."""
    setting = partial(setting_here, WorkerSettings)
    targets = Targets.read(setting("webhook_hosts"), setting("webhook_private_addresses"))
    return Means(Sender(targets), public_url=setting("public_url"))
