"""The names of all keys, in one place: every key of a tenant begins with the tenant.

What belongs to no tenant stands where the tenant's name would be empty, which no tenant's is.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

from backend.store.monitor_keys import MonitorKeys

#: The tenant of a service without API keys.
DEFAULT_TENANT = "default"

Kind = Literal["batch", "map", "job", "part", "monitor", "event", "delivery", "proposal"]


@dataclass(frozen=True)
class Keyspace:
    """The keys of one tenant."""

    tenant: str = DEFAULT_TENANT

    def _key(self, *parts: str) -> str:
        return ":".join(("calibrant", self.tenant, *parts))

    def batch(self, batch_id: str) -> str:
        """Hash: the record and the arrays of a batch, in chunks."""
        return self._key("batch", batch_id)

    def arriving(self, batch_id: str) -> str:
        """Hash: a batch that is being restored, until all of it is there."""
        return self._key("arriving", batch_id)

    def batches(self) -> str:
        """Sorted set: ids of batches by time of creation; those that expired leave it when they are met."""
        return self._key("batches")

    def upload(self, batch_id: str) -> str:
        """String: what the file of a batch was called and how it was read, JSON."""
        return self._key("upload", batch_id)

    def report_jobs(self, batch_id: str) -> str:
        """Hash: map id, or nothing -> the job that makes the report of a batch before and after it."""
        return self._key("report-jobs", batch_id)

    def batch_holds(self, batch_id: str) -> str:
        """Set: ids of the jobs that have not ended and need a batch."""
        return self._key("batch-holds", batch_id)

    def map(self, map_id: str) -> str:
        """String: the record of a map, JSON."""
        return self._key("map", map_id)

    def maps(self) -> str:
        """Sorted set: ids of all maps by time of creation."""
        return self._key("maps")

    def summaries(self) -> str:
        """Hash: map id -> its summary, JSON."""
        return self._key("summaries")

    def aliases(self, name: str) -> str:
        """Hash: alias -> where it points, JSON, of one name."""
        return self._key("aliases", name)

    def index(self, facet: str) -> str:
        """Sorted set: ids of the maps that have something in common, such as ``method:platt``, by time of creation."""
        return self._key("index", facet)

    def newest_versions(self) -> str:
        """Hash: name -> the newest version number ever given."""
        return self._key("newest-versions")

    def versions(self, name: str) -> str:
        """Hash: version -> map id, of one name."""
        return self._key("versions", name)

    def job(self, job_id: str) -> str:
        """String: the record of a job, JSON."""
        return self._key("job", job_id)

    def batch_bytes(self) -> str:
        """Hash: batch id -> the bytes that it takes; those that expired leave it when the sum is near the quota."""
        return self._key("batch-bytes")

    def unended_jobs(self) -> str:
        """Set: ids of the jobs that have not ended."""
        return self._key("unended-jobs")

    def taken_places(self) -> str:
        """Sorted set: ids of jobs that are about to be queued, by the time when their places were taken."""
        return self._key("taken-places")

    def jobs(self) -> str:
        """Sorted set: ids of jobs by time of creation; those that expired leave it when they are met."""
        return self._key("jobs")

    def job_events(self, job_id: str) -> str:
        """Stream: the changes of a job."""
        return self._key("job-events", job_id)

    def part_results(self, job_id: str) -> str:
        """Hash: part -> what it came to, JSON, of a job in parts that has not ended."""
        return self._key("part-results", job_id)

    def part_progress(self, job_id: str) -> str:
        """Hash: part -> the share of it that is done, of a job in parts that has not ended."""
        return self._key("part-progress", job_id)

    def part_gate(self, job_id: str) -> str:
        """String: exists for as long as the progress of a job in parts is not reported again."""
        return self._key("part-gate", job_id)

    def line(self, queue: str) -> str:
        """List: messages of this tenant's jobs that wait for a place in a queue."""
        return self._key("line", queue)

    def placed(self, queue: str) -> str:
        """Set: messages of this tenant's jobs that have a place in a queue, until they are claimed."""
        return self._key("placed", queue)

    def idempotency(self, digest: str) -> str:
        """String: what a request with an idempotency key was and what it was answered, JSON."""
        return self._key("idempotency", digest)

    def idempotency_lease(self, digest: str) -> str:
        """String: who is at work on the request of an idempotency key."""
        return self._key("idempotency-lease", digest)

    def monitors(self) -> str:
        """Sorted set: uids of all monitors by time of creation."""
        return self._key("monitors")

    def monitor_definitions(self) -> str:
        """Hash: name -> the record of a monitor, JSON."""
        return self._key("monitor-definitions")

    def monitor_names(self) -> str:
        """Hash: uid -> name; what belongs to a uid that is not here is deleted, or about to be."""
        return self._key("monitor-names")

    def monitor(self, uid: str) -> MonitorKeys:
        """The keys of one monitor."""
        return MonitorKeys(self._key("monitor", uid))


class Shared:
    """The keys that belong to no tenant: API keys, and what is counted over the whole store."""

    @staticmethod
    def tenants() -> str:
        """Set: the tenants that have stored anything or have an API key."""
        return "calibrant::tenants"

    @staticmethod
    def lines() -> str:
        """Set: ``tenant:queue`` of every line that is not empty."""
        return "calibrant::lines"

    @staticmethod
    def leases() -> str:
        """Hash: ``tenant:job`` of every job that runs -> its run, who runs it, and how often that was renewed."""
        return "calibrant::leases"

    @staticmethod
    def delayed() -> str:
        """Sorted set: ``tenant:job`` of jobs that wait to be run again, by the second since 1970 when they may."""
        return "calibrant::delayed"

    @staticmethod
    def chores_due() -> str:
        """Sorted set: ``kind:tenant:id`` of requested chores, by the second since 1970 when they are due."""
        return "calibrant::chores"

    @staticmethod
    def chores_held() -> str:
        """Sorted set: chores that wait in a queue or are being done, by the second when they count as lost."""
        return "calibrant::chores-held"

    @staticmethod
    def chore_owners() -> str:
        """Hash: chore -> the worker that does it."""
        return "calibrant::chore-owners"

    @staticmethod
    def chore_tries() -> str:
        """Hash: chore -> how often it was begun since it was last done."""
        return "calibrant::chore-tries"

    @staticmethod
    def supervisors() -> str:
        """Set: ids of supervisors; those that no longer tell of themselves leave it when they are met."""
        return "calibrant::supervisors"

    @staticmethod
    def supervisor(supervisor_id: str) -> str:
        """String: what one supervisor tells of its workers, JSON; gone seconds after its last word."""
        return f"calibrant::supervisor:{supervisor_id}"

    @staticmethod
    def leader() -> str:
        """String: whose recovery looks over what is long to look over; gone seconds after its last word."""
        return "calibrant::leader"

    @staticmethod
    def chore_counts() -> str:
        """Hash: ``kind:outcome`` -> how often chores of a kind came to it."""
        return "calibrant::counted-chores"

    @staticmethod
    def delivery_counts() -> str:
        """Hash: status -> the deliveries of all monitors that ended so."""
        return "calibrant::counted-deliveries"

    @staticmethod
    def job_counts() -> str:
        """Hash: kind, outcome and what is counted -> the jobs that ended so, and their seconds."""
        return "calibrant::job-counts"

    @staticmethod
    def unended() -> str:
        """Set: ``tenant:job`` of the jobs that have not ended."""
        return "calibrant::unended"

    @staticmethod
    def taken_places() -> str:
        """Sorted set: ``tenant:job`` of jobs that are about to be queued, by the time when their places were taken."""
        return "calibrant::taken-places"

    @staticmethod
    def unended_of(kind: str) -> str:
        """Hash: tenant -> how many jobs of this kind it has that have not ended, where it has any."""
        return f"calibrant::unended:{kind}"

    @staticmethod
    def busy_since() -> str:
        """String: since when there has always been a job that has not ended, if there is one; seconds since 1970."""
        return "calibrant::busy-since"

    @staticmethod
    def ends(queue: str) -> str:
        """List: the last ends of a queue's jobs, newest first: when it ended and when it was queued."""
        return f"calibrant::ends:{queue}"

    @staticmethod
    def monitors_to_delete() -> str:
        """Set: ``tenant:uid`` of the deleted monitors of which keys may be left."""
        return "calibrant::monitors-to-delete"

    @staticmethod
    def latest_of_monitors() -> str:
        """Hash: ``tenant:uid`` -> the latest values of a monitor, JSON."""
        return "calibrant::latest-of-monitors"

    @staticmethod
    def api_keys() -> str:
        """Hash: key id -> the record of an API key, JSON."""
        return "calibrant::api-keys"

    @staticmethod
    def changes() -> str:
        """Channel: what changed of that which processes keep in memory."""
        return "calibrant::changes"

    @staticmethod
    def job_changes() -> str:
        """Channel: the key of a job that has changed."""
        return "calibrant::job-changes"

    @staticmethod
    def session(digest: str) -> str:
        """String: a session of the web page, by the SHA-256 of its token, JSON."""
        return f"calibrant::session:{digest}"

    @staticmethod
    def sessions_of(key_id: str) -> str:
        """Sorted set: the sessions that an API key opened, as in ``session``, by when they were opened."""
        return f"calibrant::sessions-of:{key_id}"

    @staticmethod
    def page_token() -> str:
        """String: what goes with the forms of the web page where no API keys are in use."""
        return "calibrant::page-token"

    @staticmethod
    def shares() -> str:
        """String: the bytes of each tenant when they were measured last, JSON."""
        return "calibrant::shares"

    @staticmethod
    def measuring() -> str:
        """String: there while the bytes of the tenants are measured, and for the pause behind that."""
        return "calibrant::measuring"

    @staticmethod
    def requests(key_id: str, window: int) -> str:
        """Counter: the requests of an API key in a minute, counted since 1970."""
        return f"calibrant::requests:{key_id}:{window}"


def keys_of_all_tenants(*parts: str) -> str:
    """The pattern of such keys of every tenant; the last part may be ``*``."""
    return ":".join(("calibrant", "*", *parts))


def read_key(key: bytes) -> tuple[str, str]:
    """The tenant of a key, and what stands behind the name of its kind."""
    _, tenant, _, *name = key.decode().split(":", 3)
    return tenant, "".join(name)


def job_field(tenant: str, job_id: str) -> str:
    """The name of a job among those of all tenants."""
    return f"{tenant}:{job_id}"


def read_job_field(field: bytes) -> tuple[str, str]:
    """The tenant and the id of a job."""
    tenant, _, job_id = field.decode().rpartition(":")
    return tenant, job_id


def new_id(kind: Kind) -> str:
    """A fresh id that cannot be guessed: its kind, such as ``batch_``, and 120 random bits."""
    return f"{kind}_{secrets.token_hex(15)}"


def derived_id(kind: Kind, seed: str) -> str:
    """The id that a secret ``seed`` gives: the same one however often the work that needs it is done again."""
    return f"{kind}_{hashlib.sha256(f'{kind} {seed}'.encode()).hexdigest()[:30]}"
