"""The names of all keys, in one place: every key of a tenant begins with the tenant."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Literal

#: The only tenant until keys name others.
DEFAULT_TENANT = "default"

Kind = Literal["batch", "map", "job"]


@dataclass(frozen=True)
class Keyspace:
    """The keys of one tenant."""

    tenant: str = DEFAULT_TENANT

    def _key(self, *parts: str) -> str:
        return ":".join(("calibrant", self.tenant, *parts))

    def batch(self, batch_id: str) -> str:
        """Hash: the record and the arrays of a batch, in chunks."""
        return self._key("batch", batch_id)

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


def new_id(kind: Kind) -> str:
    """A fresh id that cannot be guessed: ``batch_``, ``map_`` or ``job_`` and 120 random bits."""
    return f"{kind}_{secrets.token_hex(15)}"
