"""The names of all keys, in one place: every key of a tenant begins with the tenant."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

#: The only tenant until keys name others.
DEFAULT_TENANT = "default"

#: The channel on which every change of a job is told, by its key.
CHANGES = "calibrant:job-changes"

Kind = Literal["batch", "map", "job", "part"]


@dataclass(frozen=True)
class Keyspace:
    """The keys of one tenant."""

    tenant: str = DEFAULT_TENANT

    def _key(self, *parts: str) -> str:
        return ":".join(("calibrant", self.tenant, *parts))

    def batch(self, batch_id: str) -> str:
        """Hash: the record and the arrays of a batch, in chunks."""
        return self._key("batch", batch_id)

    def batches(self) -> str:
        """Sorted set: ids of batches by time of creation; those that expired leave it when they are met."""
        return self._key("batches")

    def map(self, map_id: str) -> str:
        """String: the record of a map, JSON."""
        return self._key("map", map_id)

    def maps(self) -> str:
        """Sorted set: ids of all maps by time of creation."""
        return self._key("maps")

    def newest_versions(self) -> str:
        """Hash: name -> the newest version number ever given."""
        return self._key("newest-versions")

    def versions(self, name: str) -> str:
        """Hash: version -> map id, of one name."""
        return self._key("versions", name)

    def job(self, job_id: str) -> str:
        """String: the record of a job, JSON."""
        return self._key("job", job_id)

    def jobs(self) -> str:
        """Sorted set: ids of jobs by time of creation; those that expired leave it when they are met."""
        return self._key("jobs")

    def job_events(self, job_id: str) -> str:
        """Stream: the changes of a job."""
        return self._key("job-events", job_id)

    def idempotency(self, digest: str) -> str:
        """String: what a request with an idempotency key was and what it was answered, JSON."""
        return self._key("idempotency", digest)

    def idempotency_lease(self, digest: str) -> str:
        """String: who is at work on the request of an idempotency key."""
        return self._key("idempotency-lease", digest)


def new_id(kind: Kind) -> str:
    """A fresh id that cannot be guessed: ``batch_``, ``map_``, ``job_`` or ``part_`` and 120 random bits."""
    return f"{kind}_{secrets.token_hex(15)}"


def derived_id(kind: Kind, seed: str) -> str:
    """The id that a secret ``seed`` gives: the same one however often the work that needs it is done again."""
    return f"{kind}_{hashlib.sha256(f'{kind} {seed}'.encode()).hexdigest()[:30]}"
