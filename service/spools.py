"""The temporary files of requests, which all together take no more than their volume has free."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from threading import Lock

from service.callers import Caller
from service.errors import SpoolFull
from service.shares import Exhausted, Shares


class Spools:
    """The room for temporary files on the volume of ``tempfile.gettempdir()``, of which a tenant has at most half.

    ``most`` is less than what the volume has free, or 0.
    """

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._shares = Shares(0, least=0)
        self._written = 0
        self._lock = Lock()

    @contextlib.contextmanager
    def spool(self, caller: Caller) -> Iterator[Spool]:
        """Room for one file, given back on the way out."""
        spool = Spool(self, caller)
        try:
            yield spool
        finally:
            spool.give_back()

    def reserve(self, caller: Caller, more: int) -> None:
        """Reserve room; raises ``SpoolFull``."""
        try:
            # Other programs write there too: what is free is looked at each time.
            free = shutil.disk_usage(tempfile.gettempdir()).free
        except OSError as error:
            raise SpoolFull("no folder for temporary files can be written to") from error
        room = free + self._written
        try:
            self._shares.take(caller, more, total=min(room, self._most) if self._most else room)
        except Exhausted as full:
            raise SpoolFull(f"{full.holder} may have at most {full.most} bytes of temporary files now") from full

    def give_back(self, caller: Caller, reserved: int, written: int) -> None:
        """Give back the room of a file that is no longer there."""
        self.count(-written)
        self._shares.give_back(caller, reserved)

    def count(self, written: int) -> None:
        """Count bytes that have been written, and so are not free any more."""
        with self._lock:
            self._written += written


class Spool:
    """The room of one temporary file."""

    def __init__(self, spools: Spools, caller: Caller) -> None:
        self._spools = spools
        self._caller = caller
        self._reserved = 0
        self._written = 0

    def reserve(self, size: int) -> None:
        """Have room for a file of so many bytes in all; raises ``SpoolFull``."""
        if size > self._reserved:
            self._spools.reserve(self._caller, size - self._reserved)
            self._reserved = size

    def grow(self, size: int) -> None:
        """Have room for, and count as written, a file that grows to so many bytes; raises ``SpoolFull``."""
        self.reserve(size)
        self._spools.count(size - self._written)
        self._written = size

    def give_back(self) -> None:
        """Give it back."""
        self._spools.give_back(self._caller, self._reserved, self._written)
        self._reserved = self._written = 0
