"""The chore ``deliver``: what a worker does when a delivery is due."""

from __future__ import annotations

import os
from functools import cache

from redis import Redis

from monitoring.delivering.attempting import Means, attempt
from monitoring.delivering.sending import Sender
from monitoring.delivering.targets import Targets
from storage.chores import Chore
from storage.store import Store

#: The settings of the same names, which the API is told as well; a supervisor leaves them to its workers.
HOSTS_VARIABLE, PRIVATE_VARIABLE = "CALIBRANT_WEBHOOK_HOSTS", "CALIBRANT_WEBHOOK_PRIVATE_ADDRESSES"


def deliver(redis: Redis, chore: Chore) -> float | None:
    """Try the delivery of a chore; in how many seconds it is to be tried again, None for never."""
    uid, _, delivery_id = chore.id.partition("/")
    return attempt(Store.of(redis, chore.tenant), uid, delivery_id, _means())


@cache
def _means() -> Means:
    """What the environment of this process says, read once."""
    given = Targets.read(os.environ.get(HOSTS_VARIABLE, ""), os.environ.get(PRIVATE_VARIABLE, ""))
    return Means(Sender(given))
