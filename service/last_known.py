"""What a process last knew of the store: whether it may still be used, and its copy on the disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from pathlib import Path

from backend.held_folder import HeldFolder
from backend.held_maps import HeldMaps
from backend.store.link import Link
from schemas.held import CachedState
from schemas.keys import KeyRecord
from service.callers import Keyring
from service.issuer import Issuer
from service.settings import Settings

log = logging.getLogger(__name__)

#: Seconds between two looks for changes to write, and after which an unchanged state is written again.
_LOOK_SECONDS, _AGAIN_SECONDS = 1.0, 10.0
#: Seconds by which the clock may have been set back since the state was written.
_CLOCK_SECONDS = 60.0


class LastKnown:
    """The API keys and maps in memory, which calls may use for some time while the store is unavailable.

    A copy in a folder, with the keys of the issuer of tokens, survives the process. With ``needs_key`` they are of no
    use without API keys or an issuer.
    """

    def __init__(
        self,
        link: Link,
        keyring: Keyring,
        maps: HeldMaps,
        settings: Settings,
        *,
        needs_key: bool,
        issuer: Issuer | None = None,
    ) -> None:
        self._link = link
        self._keyring = keyring
        self._maps = maps
        self._issuer = issuer
        self._seconds = settings.serve_stale_seconds
        self._needs_key = needs_key
        self._path = Path(settings.held_folder) if settings.held_folder and self._seconds else None
        self._redis_url = settings.redis_url
        self._folder: HeldFolder | None = None
        self._closed = asyncio.Event()

    @property
    def usable(self) -> bool:
        """Whether calls may use them while the store is unavailable."""
        return self._link.age < self._seconds and (bool(self._keyring) or not self._needs_key)

    @property
    def can_score(self) -> bool:
        """Whether calls may use them, and there is a map to apply."""
        return self.usable and len(self._maps) > 0

    def restore(self) -> None:
        """Take over the copy of an earlier process; without one that may be used, start without."""
        if self._path is None:
            return
        try:
            folder = HeldFolder(self._path, self._redis_url)
            state = folder.read()
        except OSError as error:
            log.warning("held maps: %s cannot be used (%s)", self._path, error.strerror)
            return
        self._folder = folder
        self._maps.restore(folder, [] if state is None else state.maps)
        if state is not None and -_CLOCK_SECONDS < (age := time.time() - state.as_of) < self._seconds:
            if self._issuer is not None:
                self._issuer.restore(state.issuer)
            self._keyring.read(state.keys)
            self._link.resume(max(age, 0.0))

    async def run(self) -> None:
        """Write the copy while the store is available, until closed or cancelled."""
        written: tuple[int, list[KeyRecord]] | None = None
        at = 0.0
        while not self._closed.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), _LOOK_SECONDS)
            current = self._maps.revision, self._keyring.records
            is_due = current != written or time.monotonic() - at >= _AGAIN_SECONDS
            if self._folder is not None and self._link.fresh and is_due:
                as_of = time.time() - self._link.age
                await asyncio.to_thread(self._write, self._folder, as_of, current[1])
                written, at = current, time.monotonic()
        if self._folder is not None:
            self._folder.close()

    def close(self) -> None:
        """Make ``run`` end."""
        self._closed.set()

    def _write(self, folder: HeldFolder, as_of: float, keys: list[KeyRecord]) -> None:
        try:
            issuer = None if self._issuer is None else self._issuer.cached()
            state = CachedState(store=folder.store, as_of=as_of, keys=keys, maps=self._maps.cached(), issuer=issuer)
            folder.write(state)
        except OSError as error:
            log.warning("held maps: %s cannot be written (%s)", self._path, error.strerror)
