"""The errors of the store, and the problem document of an error."""

from __future__ import annotations

from typing import ClassVar

from calibrant.errors import CalibrationError
from schemas.problem_table import problem
from schemas.problems import Problem, ProblemError

# --- Errors of the store: things that it does not have, and operations that it refuses


class StorageError(Exception):
    """Base; ``code`` is stable. ``pointer`` is where in the request the cause stands, if it does.

    ``retry_after`` is the seconds until the same may be done, where that has been estimated.
    """

    code: ClassVar[str] = "storage-error"

    def __init__(self, detail: str, pointer: str | None = None, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer
        self.retry_after = retry_after


class LaterFormat(StorageError):
    """A stored document of a later format than this version knows."""

    code = "later-format"


class UnknownBatch(StorageError):
    """No such batch, or it has expired."""

    code = "unknown-batch"


class BatchInUse(StorageError):
    """A batch that a job needs cannot be deleted before the job has ended."""

    code = "batch-in-use"


class UnknownMap(StorageError):
    """No such map."""

    code = "unknown-map"


class UnknownAlias(StorageError):
    """A name that has no such alias."""

    code = "unknown-alias"


class MapInUse(StorageError):
    """A version at which an alias points cannot be deleted."""

    code = "map-in-use"


class UnknownJob(StorageError):
    """No such job, or it has expired."""

    code = "unknown-job"


class UnknownKey(StorageError):
    """No such API key."""

    code = "unknown-key"


class KeyConflict(StorageError):
    """An API key that is revoked already, or has two live secrets."""

    code = "key-conflict"


class JobFinal(StorageError):
    """A job that has ended, and so changes no more."""

    code = "job-final"


class RunLost(StorageError):
    """A run of a job that was cancelled or taken away: what it writes does not count."""

    code = "run-lost"


class TimeLimit(StorageError):
    """A run of a job that took longer than it may."""

    code = "time-limit"


class BatchFull(StorageError):
    """More rows or parts than a batch may have."""

    code = "batch-full"


class UnknownMonitor(StorageError):
    """No such monitor."""

    code = "unknown-monitor"


class MonitorExists(StorageError):
    """A monitor of the name is there already."""

    code = "monitor-exists"


class MonitorFull(StorageError):
    """A monitor that knows as many ids as it may."""

    code = "monitor-full"


class UnknownDelivery(StorageError):
    """No such delivery of the monitor, or one that is forgotten."""

    code = "unknown-delivery"


class UnknownHook(StorageError):
    """A monitor that has no such hook."""

    code = "unknown-hook"


class UnknownRule(StorageError):
    """No such rule of a monitor."""

    code = "unknown-rule"


class NoAlarm(StorageError):
    """A rule whose alarm is not raised, or was acknowledged already."""

    code = "no-alarm"


class UnknownProposal(StorageError):
    """No proposal waits to be decided."""

    code = "unknown-proposal"


class ProposalOutdated(StorageError):
    """A proposal whose alias was moved after the comparison."""

    code = "proposal-outdated"


class InvalidCursor(StorageError):
    """A cursor that no page gave."""

    code = "invalid-cursor"


class IdempotencyConflict(StorageError):
    """An idempotency key that another request has used."""

    code = "idempotency-conflict"


class IdempotencyInProgress(StorageError):
    """An idempotency key whose first request is still at work."""

    code = "idempotency-in-progress"


class QuotaExceeded(StorageError):
    """More than a tenant may keep."""

    code = "quota-exceeded"


class StoreFull(StorageError):
    """The store, or one tenant's share of it, has no room for more."""

    code = "store-full"


class TooManyJobs(StorageError):
    """More jobs that have not ended than a tenant may have."""

    code = "too-many-jobs"


class QueueFull(StorageError):
    """More jobs that have not ended, of all tenants, than the service takes."""

    code = "queue-full"


class UnsuitableStore(StorageError):
    """A Redis whose settings could lose what is stored."""

    code = "unsuitable-store"


class DamagedBackup(StorageError):
    """A file that is no backup, or not all of one."""

    code = "damaged-backup"


class StoreNotEmpty(StorageError):
    """A store that holds something already, where a backup is to be restored."""

    code = "store-not-empty"


class EmbeddedStoreFailed(StorageError):
    """The embedded server did not start."""

    code = "embedded-store-failed"


class FolderInUse(EmbeddedStoreFailed):
    """The data folder of an embedded server is held by another process."""

    code = "folder-in-use"


# --- The problem document of an error, for answers and for jobs alike


def problem_of(error: CalibrationError | StorageError) -> Problem:
    """Build the document of an error; its code is its row in the table."""
    if isinstance(error, CalibrationError):
        places = [ProblemError(pointer=o.pointer, detail=o.detail) for o in error.offences]
    else:
        places = [] if error.pointer is None else [ProblemError(pointer=error.pointer, detail=error.detail)]
    return problem(error.code, error.detail, places)
