"""The names of the keys of one monitor; those of all others stand in ``backend.store.keyspace``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MonitorKeys:
    """The keys of one monitor; all but those numbered are there at most once."""

    prefix: str

    def _key(self, *parts: str) -> str:
        return ":".join((self.prefix, *parts))

    def name_of(self, key: str) -> str:
        """What one of these keys is called among those of its monitor."""
        return key.removeprefix(self._key(""))

    def named(self, name: str) -> str:
        """The key that is called so."""
        return self._key(name)

    def ids(self) -> str:
        """Hash: id of a row -> its entry, bytes."""
        return self._key("ids")

    def slots(self) -> str:
        """Sorted set: the slots of arrival that hold ids, by themselves."""
        return self._key("slots")

    def slot(self, slot: int) -> str:
        """List: the ids that arrived in a slot of time, in pieces, oldest first."""
        return self._key("slot", str(slot))

    def state(self) -> str:
        """Hash: the numbers that the scripts of a monitor keep."""
        return self._key("state")

    def once(self) -> str:
        """Sorted set: the names of the changes made lately, by the second until which they are known."""
        return self._key("once")

    def totals(self) -> str:
        """Hash: field -> its count since the monitor began."""
        return self._key("totals")

    def buckets(self) -> str:
        """Sorted set: the time buckets that there are, by themselves."""
        return self._key("buckets")

    def counts(self, bucket: int) -> str:
        """Hash: field -> its count in a time bucket."""
        return self._key("counts", str(bucket))

    def counts_stem(self) -> str:
        """What the names of the counts of time buckets begin with."""
        return self._key("counts", "")

    def span_counts_stem(self) -> str:
        """What the names of the counts of spans begin with."""
        return self._key("span-counts", "")

    def span_counts(self, span: int) -> str:
        """Hash: field -> its count in a span of time buckets."""
        return self._key("span-counts", str(span))

    def tallies(self, series: str, bucket: int) -> str:
        """List: the tallies of a bucket of a series, to be added; the first may be many that were."""
        return self._key(series, str(bucket))

    def stem(self, series: str) -> str:
        """What the names of a series' lists begin with; the number of a bucket follows."""
        return self._key(series, "")

    def generations(self) -> str:
        """Hash: ``series:bucket`` -> a number that is another whenever the front of its list is another."""
        return self._key("generations")

    def loose(self) -> str:
        """Set: ``series:bucket`` of the lists of more than one tally."""
        return self._key("loose")

    def row_buckets(self) -> str:
        """Hash: row bucket -> the rows in it; the newest is open."""
        return self._key("row-buckets")

    def groups(self) -> str:
        """Hash: name of a group -> its index."""
        return self._key("groups")

    def standing(self) -> str:
        """String: what its rules say, and what is to be done about it, JSON."""
        return self._key("standing")

    def alarms(self) -> str:
        """Sorted set: events, each its serial number and JSON, by the number."""
        return self._key("alarms")

    def unqueued_events(self) -> str:
        """List: the events whose deliveries are not queued yet, JSON, oldest first."""
        return self._key("untold")

    def audit(self) -> str:
        """Sorted set: entries of the audit, each its serial number and JSON, by the number."""
        return self._key("audit")

    def reference(self) -> str:
        """String: the tally that windows are compared with, bytes."""
        return self._key("reference")

    def deliveries(self) -> str:
        """Hash: id of a delivery -> its record, JSON."""
        return self._key("deliveries")

    def delivery_times(self) -> str:
        """Sorted set: ids of deliveries by time of creation."""
        return self._key("delivery-times")

    def hooks_away(self) -> str:
        """Hash: hook -> the second since 1970 until which nothing is sent to it, after an attempt that failed."""
        return self._key("hooks-away")

    def single(self) -> list[str]:
        """All keys but those that are numbered."""
        listing = (self.slots(), self.buckets(), self.row_buckets(), self.generations(), self.loose())
        events = (self.groups(), self.standing(), self.alarms(), self.unqueued_events(), self.audit(), self.reference())
        delivered = (self.deliveries(), self.delivery_times(), self.hooks_away())
        return [self.ids(), self.state(), self.once(), self.totals(), *listing, *events, *delivered]
