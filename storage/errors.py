"""What the store cannot find, or cannot do."""

from __future__ import annotations

from typing import ClassVar


class StorageError(Exception):
    """Base; ``code`` is stable. ``pointer`` is where in the request the cause stands, if it does."""

    code: ClassVar[str] = "storage-error"

    def __init__(self, detail: str, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer


class UnknownBatch(StorageError):
    """No such batch, or it has expired."""

    code = "unknown-batch"


class UnknownMap(StorageError):
    """No such map."""

    code = "unknown-map"


class UnknownJob(StorageError):
    """No such job, or it has expired."""

    code = "unknown-job"


class UnknownKey(StorageError):
    """No such API key."""

    code = "unknown-key"


class KeyConflict(StorageError):
    """An API key that is revoked already, or has two live secrets."""

    code = "key-conflict"


class UnsuitableStore(StorageError):
    """A Redis whose settings could lose what is stored."""

    code = "unsuitable-store"


class EmbeddedStoreFailed(StorageError):
    """The embedded server did not start."""

    code = "embedded-store-failed"


class FolderInUse(EmbeddedStoreFailed):
    """The data folder of an embedded server is held by another process."""

    code = "folder-in-use"
