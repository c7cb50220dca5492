"""Sources that an administrator declares: roots below which a tenant's requests name files."""

from __future__ import annotations

from functools import lru_cache

from backend.settings import shared_setting
from backend.store.errors import UnknownSource
from calibrant.distributed.storage import Storage, storage_of
from schemas.sources import SourceDeclaration, read_declarations


class Sources:
    """The sources of a service, as seen by one tenant."""

    def __init__(self, setting: str, tenant: str) -> None:
        self._declared, self._tenant = _declared(setting), tenant

    @classmethod
    def of_environment(cls, tenant: str) -> Sources:
        """The sources of a worker, whose supervisor writes the setting to the environment of its tasks."""
        return cls(shared_setting("sources"), tenant)

    def find(self, name: str, *, write: bool = False, pointer: str = "/source/source") -> SourceDeclaration:
        """Return a source that the tenant may use; raises ``UnknownSource``, also for one of other tenants."""
        source = self._declared.get(name)
        if source is None or (source.tenants is not None and self._tenant not in source.tenants):
            raise UnknownSource("is not a source of this service that the tenant may use", pointer)
        if write and not source.write:
            raise UnknownSource("is a source that may only be read", pointer)
        return source


def opened(source: SourceDeclaration) -> Storage:
    """Open the storage of a source."""
    return storage_of(source.root, endpoint=source.endpoint, region=source.region)


@lru_cache(maxsize=8)
def _declared(setting: str) -> dict[str, SourceDeclaration]:
    return read_declarations(setting)
