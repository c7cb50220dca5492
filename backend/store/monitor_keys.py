"""The names of the Redis keys of one monitor; all others are in ``backend.store.keyspace``."""

from __future__ import annotations

from dataclasses import dataclass


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
