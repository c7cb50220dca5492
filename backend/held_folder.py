"""The folder in which an API process keeps the API keys and the maps that it holds in memory."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from backend.store.server.connection import safe_url
from schemas.held import CachedState

log = logging.getLogger(__name__)

_STATE = "state"
#: Names of files in the folder.
_OWN = re.compile(r"lock|(state|[0-9a-f]{64})(\.new)?")


class HeldFolder:
    """A folder of one process, mode 0700: a file for the state, and one for the document of each map.

    Raises ``OSError`` for a folder that has other files, belongs to another user, or is in use by another process.

    Files are replaced as a whole, and have the digest of their content in their name or first line: one that is damaged
    counts as missing. Of API keys it has the digests of their secrets, with which nobody can call the service.
    """

    def __init__(self, path: Path, redis_url: str) -> None:
        self._path = path
        self.store = digest_of(safe_url(redis_url).encode())
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user")
        if any(_OWN.fullmatch(name) is None for name in os.listdir(path)):
            raise OSError(errno.ENOTEMPTY, "it has other files")
        path.chmod(0o700)
        self._lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Let another process use the folder."""
        os.close(self._lock)

    def read(self) -> CachedState | None:
        """The state; None if there is none, or it is damaged, of another version, or of another store.

        Deletes all files that are not part of it.
        """
        state = self._state()
        known = {"lock", _STATE, *(cached.digest for cached in ([] if state is None else state.maps))}
        for name in set(os.listdir(self._path)) - known:
            (self._path / name).unlink()
        return state

    def write(self, state: CachedState) -> None:
        """Replace the state; raises ``OSError``."""
        content = state.model_dump_json().encode()
        self._write(_STATE, digest_of(content).encode() + b"\n" + content)

    def read_map(self, tenant: str, map_id: str, digest: str) -> dict[str, Any] | None:
        """The document of a map; None if it is missing, damaged, or of another map."""
        content = self._read(digest)
        if content is None or digest_of(content) != digest:
            return None
        owner, identity, document = orjson.loads(content)
        return document if (owner, identity) == (tenant, map_id) else None

    def write_map(self, tenant: str, map_id: str, document: dict[str, Any]) -> str | None:
        """Write the document of a map and return its digest; None if the disk does not allow it."""
        content = orjson.dumps([tenant, map_id, document])
        digest = digest_of(content)
        try:
            self._write(digest, content)
        except OSError as error:
            log.warning("held maps: a map is not written to %s (%s)", self._path, error.strerror)
            return None
        return digest

    def delete_map(self, digest: str) -> None:
        """Delete the document of a map."""
        (self._path / digest).unlink(missing_ok=True)

    def _state(self) -> CachedState | None:
        digest, _, content = (self._read(_STATE) or b"").partition(b"\n")
        if not digest:
            return None
        try:
            state = CachedState.model_validate_json(content)
        except ValidationError:
            state = None
        if state is None or digest.decode("ascii", "replace") != digest_of(content):
            log.warning("held maps: the state in %s is damaged or of another version, and not used", self._path)
            return None
        return state if state.store == self.store else None

    def _read(self, name: str) -> bytes | None:
        try:
            with open(os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                # Another user may have written it before the folder had its mode.
                return file.read() if os.fstat(file.fileno()).st_uid == os.geteuid() else None
        except OSError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        new = self._path / f"{name}.new"
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        new.replace(self._path / name)


def digest_of(content: bytes) -> str:
    """The SHA-256 of a file's content, hexadecimal."""
    return hashlib.sha256(content).hexdigest()
