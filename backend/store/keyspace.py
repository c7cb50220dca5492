"""The names of all Redis keys; every key of a tenant starts with the tenant.

Shared keys have an empty tenant name, which no tenant has.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

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
        """Hash: a batch that is being stored or restored, until it is complete."""
        return self._key("arriving", batch_id)

    def batches(self) -> str:
        """Sorted set: ids of batches by time of creation; expired ones are removed when found."""
        return self._key("batches")

    def upload(self, batch_id: str) -> str:
        """String: the name of a batch's file and how it was interpreted, JSON."""
        return self._key("upload", batch_id)

    def report_jobs(self, batch_id: str) -> str:
        """Hash: ids of maps, separated by commas -> the job of the report with these maps."""
        return self._key("report-jobs", batch_id)

    def batch_holds(self, batch_id: str) -> str:
        """Set: ids of the unfinished jobs that need a batch."""
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
        """Hash: alias -> its record, JSON, for one name."""
        return self._key("aliases", name)

    def index(self, facet: str) -> str:
        """Sorted set: ids of the maps with a property, such as ``method:platt``, by time of creation."""
        return self._key("index", facet)

    def newest_versions(self) -> str:
        """Hash: name -> the newest version number ever assigned."""
        return self._key("newest-versions")

    def versions(self, name: str) -> str:
        """Hash: version -> map id, for one name."""
        return self._key("versions", name)

    def job(self, job_id: str) -> str:
        """String: the record of a job, JSON."""
        return self._key("job", job_id)

    def batch_bytes(self) -> str:
        """Hash: batch id -> its bytes; expired ones are removed when the sum is near the quota."""
        return self._key("batch-bytes")

    def unended_jobs(self) -> str:
        """Set: ids of unfinished jobs."""
        return self._key("unended-jobs")

    def taken_places(self) -> str:
        """Sorted set: ids of jobs about to be queued, by the time when their places were reserved."""
        return self._key("taken-places")

    def jobs(self) -> str:
        """Sorted set: ids of jobs by time of creation; expired ones are removed when found."""
        return self._key("jobs")

    def job_events(self, job_id: str) -> str:
        """Stream: the changes of a job."""
        return self._key("job-events", job_id)

    def part_results(self, job_id: str) -> str:
        """Hash: part -> its result, JSON, for an unfinished job with parts."""
        return self._key("part-results", job_id)

    def part_progress(self, job_id: str) -> str:
        """Hash: part -> its completed fraction, for an unfinished job with parts."""
        return self._key("part-progress", job_id)

    def part_gate(self, job_id: str) -> str:
        """String: exists while the progress of a job with parts must not be reported again."""
        return self._key("part-gate", job_id)

    def job_target(self, job_id: str) -> str:
        """String: where a job writes a data set, JSON, as long as something of it may have to be removed."""
        return self._key("job-target", job_id)

    def backfill(self, job_id: str) -> str:
        """Hash: how far a job has read the files of a backfill, and its counts by outcome."""
        return self._key("backfill", job_id)

    def line(self, queue: str) -> str:
        """Sorted set: messages of this tenant's jobs that wait for a worker of a queue, in their order."""
        return self._key("waiting", queue)

    def taken(self, queue: str) -> str:
        """Set: messages of this tenant's jobs that a worker of a queue has taken and not yet claimed."""
        return self._key("taken", queue)

    def idempotency(self, digest: str) -> str:
        """String: the request of an idempotency key and its response, JSON."""
        return self._key("idempotency", digest)

    def idempotency_lease(self, digest: str) -> str:
        """String: the holder of the lease of an idempotency key."""
        return self._key("idempotency-lease", digest)

    def audit(self) -> str:
        """Sorted set: ids of the entries of the audit log by time, in milliseconds since 1970."""
        return self._key("audit")

    def audit_entries(self) -> str:
        """Hash: id -> an entry of the audit log, JSON."""
        return self._key("audit-entries")

    def audit_routine(self) -> str:
        """Sorted set: ids of the entries of routine actions, by time."""
        return self._key("audit-routine")

    def audit_serial(self) -> str:
        """Counter: the entries that were ever written."""
        return self._key("audit-serial")

    def audit_order(self) -> str:
        """Sorted set: ids of the entries that were written here, not restored, by serial number."""
        return self._key("audit-order")

    def audit_hooks(self) -> str:
        """Hash: name -> a hook of the audit log and how far it is, JSON."""
        return self._key("audit-hooks")

    def monitors(self) -> str:
        """Sorted set: uids of all monitors by time of creation."""
        return self._key("monitors")

    def monitor_definitions(self) -> str:
        """Hash: name -> the record of a monitor, JSON."""
        return self._key("monitor-definitions")

    def monitor_names(self) -> str:
        """Hash: uid -> name; data of a missing uid is deleted or about to be."""
        return self._key("monitor-names")

    def monitor(self, uid: str) -> MonitorKeys:
        """The keys of one monitor."""
        return MonitorKeys(self._key("monitor", uid))


@dataclass(frozen=True)
class MonitorKeys:
    """The keys of one monitor; each exists at most once, except numbered ones."""

    prefix: str

    def _key(self, *parts: str) -> str:
        return ":".join((self.prefix, *parts))

    def name_of(self, key: str) -> str:
        """The name of a key within its monitor."""
        return key.removeprefix(self._key(""))

    def named(self, name: str) -> str:
        """The key with this name."""
        return self._key(name)

    def ids(self) -> str:
        """Hash: id of a row -> its entry, bytes."""
        return self._key("ids")

    def slots(self) -> str:
        """Sorted set: the time slots with ids, by their number."""
        return self._key("slots")

    def slot(self, slot: int) -> str:
        """List: the ids that arrived in a time slot, in chunks, oldest first."""
        return self._key("slot", str(slot))

    def state(self) -> str:
        """Hash: numbers that the scripts of a monitor maintain."""
        return self._key("state")

    def once(self) -> str:
        """Sorted set: the names of recent changes, by the time until which they are kept."""
        return self._key("once")

    def totals(self) -> str:
        """Hash: field -> its count since the monitor was created."""
        return self._key("totals")

    def buckets(self) -> str:
        """Sorted set: the time buckets, by their number."""
        return self._key("buckets")

    def counts(self, bucket: int) -> str:
        """Hash: field -> its count in a time bucket."""
        return self._key("counts", str(bucket))

    def counts_stem(self) -> str:
        """Prefix of the names of time bucket counts."""
        return self._key("counts", "")

    def span_counts_stem(self) -> str:
        """Prefix of the names of span counts."""
        return self._key("span-counts", "")

    def span_counts(self, span: int) -> str:
        """Hash: field -> its count in a span of time buckets."""
        return self._key("span-counts", str(span))

    def tallies(self, series: str, bucket: int) -> str:
        """List: the tallies of a bucket of a series, to be added; the first may be a compacted one."""
        return self._key(series, str(bucket))

    def stem(self, series: str) -> str:
        """Prefix of the names of a series' lists, followed by the number of a bucket."""
        return self._key(series, "")

    def generations(self) -> str:
        """Hash: ``series:bucket`` -> a number that changes whenever the front of the list is replaced."""
        return self._key("generations")

    def loose(self) -> str:
        """Set: ``series:bucket`` of the lists with more than one tally."""
        return self._key("loose")

    def row_buckets(self) -> str:
        """Hash: row bucket -> its number of rows; the newest is open."""
        return self._key("row-buckets")

    def groups(self) -> str:
        """Hash: name of a group -> its index."""
        return self._key("groups")

    def standing(self) -> str:
        """String: the state of its rules and recalibration, JSON."""
        return self._key("standing")

    def online(self) -> str:
        """Hash: states of an online map, JSON: ``now``, and time bucket -> the state in force from that bucket on."""
        return self._key("online")

    def alarms(self) -> str:
        """Sorted set: events, each a serial number and JSON, by the number."""
        return self._key("alarms")

    def unqueued_events(self) -> str:
        """List: the events whose deliveries are not queued yet, JSON, oldest first."""
        return self._key("untold")

    def audit(self) -> str:
        """Sorted set: audit entries, each a serial number and JSON, by the number."""
        return self._key("audit")

    def reference(self) -> str:
        """String: the tally of the reference, bytes."""
        return self._key("reference")

    def reference_vectors(self) -> str:
        """String: the reservoir of a batch, or of expired buckets of the reference, bytes."""
        return self._key("reference-vectors")

    def vector_bounds(self) -> str:
        """Sorted set: time bucket -> the priority from which its reservoir has no rows."""
        return self._key("vector-bounds")

    def label_shifts(self) -> str:
        """String: the label shift of each time window from the reservoir, JSON."""
        return self._key("label-shifts")

    def deliveries(self) -> str:
        """Hash: id of a delivery -> its record, JSON."""
        return self._key("deliveries")

    def delivery_times(self) -> str:
        """Sorted set: ids of deliveries by time of creation."""
        return self._key("delivery-times")

    def hooks_away(self) -> str:
        """Hash: hook -> the time until which nothing is sent to it after a failed attempt (seconds since 1970)."""
        return self._key("hooks-away")

    def single(self) -> list[str]:
        """All keys except numbered ones."""
        listing = (self.slots(), self.buckets(), self.row_buckets(), self.generations(), self.loose())
        events = (self.groups(), self.standing(), self.alarms(), self.unqueued_events(), self.audit(), self.reference())
        delivered = (self.deliveries(), self.delivery_times(), self.hooks_away(), self.online())
        sampled = (self.reference_vectors(), self.vector_bounds(), self.label_shifts())
        return [self.ids(), self.state(), self.once(), self.totals(), *listing, *events, *delivered, *sampled]


class Shared:
    """Keys that belong to no tenant: API keys, and counts over the whole store."""

    @staticmethod
    def tenants() -> str:
        """Set: the tenants that have stored anything or have an API key."""
        return "calibrant::tenants"

    @staticmethod
    def fronts() -> str:
        """Hash: ``tenant:queue`` of every line -> its message in the queue, empty if it has only taken messages."""
        return "calibrant::fronts"

    @staticmethod
    def work() -> str:
        """String: the estimated seconds of all messages that workers have taken so far."""
        return "calibrant::work"

    @staticmethod
    def wake(queue: str) -> str:
        """List: one element while workers of a queue that wait should look for a message."""
        return f"calibrant::wake:{queue}"

    @staticmethod
    def workers() -> str:
        """Hash: worker -> its queues, and the number of its renewals."""
        return "calibrant::workers"

    @staticmethod
    def tenants_of_workers() -> str:
        """Hash: worker that has taken a message -> the tenant, until it looks for the next one."""
        return "calibrant::tenants-of-workers"

    @staticmethod
    def target(place: str) -> str:
        """String: ``tenant:job`` of the job that writes a data set, by the digest of its place.

        ``:discarding`` follows while what the job has left is removed.
        """
        return f"calibrant::target:{place}"

    @staticmethod
    def leases() -> str:
        """Hash: ``tenant:job`` of every running job -> run, owner and number of renewals."""
        return "calibrant::leases"

    @staticmethod
    def delayed() -> str:
        """Sorted set: ``tenant:job`` of jobs waiting to run again, by the time when they may (seconds since 1970)."""
        return "calibrant::delayed"

    @staticmethod
    def chores_due() -> str:
        """Sorted set: ``kind:tenant:id`` of scheduled tasks, by the time when they are due (seconds since 1970)."""
        return "calibrant::chores"

    @staticmethod
    def chores_held() -> str:
        """Sorted set: queued and running tasks, by the time when they count as lost."""
        return "calibrant::chores-held"

    @staticmethod
    def chore_owners() -> str:
        """Hash: task -> the worker that runs it."""
        return "calibrant::chore-owners"

    @staticmethod
    def chore_tries() -> str:
        """Hash: task -> the number of attempts since it was last done."""
        return "calibrant::chore-tries"

    @staticmethod
    def chores_placed() -> str:
        """Hash: ``kind:tenant`` -> the task of this tenant with a message in the queue of this kind."""
        return "calibrant::chores-placed"

    @staticmethod
    def chore_lines() -> str:
        """Set: ``kind:tenant`` with tasks in a line.

        The line is a sorted set of due tasks, by their times; its key is this one with ``:kind:tenant``.
        """
        return "calibrant::chore-lines"

    @staticmethod
    def queued_at() -> str:
        """String: when due tasks were last queued (seconds since 1970)."""
        return "calibrant::queued-at"

    @staticmethod
    def supervisors() -> str:
        """Set: ids of supervisors; those without a record are removed when found."""
        return "calibrant::supervisors"

    @staticmethod
    def supervisor(supervisor_id: str) -> str:
        """String: the record of one supervisor, JSON; expires seconds after its last renewal."""
        return f"calibrant::supervisor:{supervisor_id}"

    @staticmethod
    def leader() -> str:
        """String: the id of the leader of recovery; expires seconds after its last renewal."""
        return "calibrant::leader"

    @staticmethod
    def chore_counts() -> str:
        """Hash: ``kind:outcome`` -> number of background tasks."""
        return "calibrant::counted-chores"

    @staticmethod
    def delivery_counts() -> str:
        """Hash: status -> number of ended deliveries of all monitors."""
        return "calibrant::counted-deliveries"

    @staticmethod
    def job_counts() -> str:
        """Hash: kind, outcome and quantity -> number and seconds of ended jobs."""
        return "calibrant::job-counts"

    @staticmethod
    def unended() -> str:
        """Set: ``tenant:job`` of unfinished jobs."""
        return "calibrant::unended"

    @staticmethod
    def taken_places() -> str:
        """Sorted set: ``tenant:job`` of jobs about to be queued, by the time when their places were reserved."""
        return "calibrant::taken-places"

    @staticmethod
    def unended_of(kind: str) -> str:
        """Hash: tenant -> its number of unfinished jobs of this kind, if any."""
        return f"calibrant::unended:{kind}"

    @staticmethod
    def busy_since() -> str:
        """String: since when there has always been an unfinished job, if there is one (seconds since 1970)."""
        return "calibrant::busy-since"

    @staticmethod
    def ends(queue: str) -> str:
        """List: the latest ends of a queue's jobs, newest first: when a job ended and when it was queued."""
        return f"calibrant::ends:{queue}"

    @staticmethod
    def monitors_to_delete() -> str:
        """Set: ``tenant:uid`` of deleted monitors that may have remaining keys."""
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
    def token_mapping() -> str:
        """String: what tokens of the issuer grant, JSON; missing without an issuer."""
        return "calibrant::token-mapping"

    @staticmethod
    def changes() -> str:
        """Channel: changes of data that processes cache."""
        return "calibrant::changes"

    @staticmethod
    def job_changes() -> str:
        """Channel: keys of changed jobs."""
        return "calibrant::job-changes"

    @staticmethod
    def session(digest: str) -> str:
        """String: a session of the web page, by the SHA-256 of its token, JSON."""
        return f"calibrant::session:{digest}"

    @staticmethod
    def sessions_of(key_id: str) -> str:
        """Sorted set: the sessions of an API key, as in ``session``, by the time when they were opened."""
        return f"calibrant::sessions-of:{key_id}"

    @staticmethod
    def page_token() -> str:
        """String: the token in the forms of the web page if the service has no API keys."""
        return "calibrant::page-token"

    @staticmethod
    def shares() -> str:
        """String: the bytes of each tenant at the last measurement, JSON."""
        return "calibrant::shares"

    @staticmethod
    def measuring() -> str:
        """String: exists while the bytes of tenants are measured, and during the pause afterwards."""
        return "calibrant::measuring"

    @staticmethod
    def requests(key_id: str, window: int) -> str:
        """Counter: the requests of an API key in one minute since 1970."""
        return f"calibrant::requests:{key_id}:{window}"


def keys_of_all_tenants(*parts: str) -> str:
    """The pattern of these keys for all tenants; the last part may be ``*``."""
    return ":".join(("calibrant", "*", *parts))


def read_key(key: bytes) -> tuple[str, str]:
    """The tenant of a key, and the part after its kind."""
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
    """A new random id: its kind, such as ``batch_``, and 120 random bits."""
    return f"{kind}_{secrets.token_hex(15)}"


def derived_id(kind: Kind, seed: str) -> str:
    """The id derived from a secret ``seed``; the same for every repetition of the same work."""
    return f"{kind}_{hashlib.sha256(f'{kind} {seed}'.encode()).hexdigest()[:30]}"
