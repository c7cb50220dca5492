"""The errors of the store, and the problem document of an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

from calibrant.core.errors import CalibrationError, Offence
from schemas.problem_table import problem
from schemas.problems import Problem, ProblemError, in_body

# --- Errors of the store


class StorageError(Exception):
    """Base class; ``code`` is stable. ``pointer`` locates the cause in the request, if it is there.

    ``retry_after`` is the estimated number of seconds until a retry can succeed, if known.
    """

    code: ClassVar[str] = "storage-error"

    def __init__(self, detail: str, pointer: str | None = None, *, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer
        self.retry_after = retry_after


class LaterFormat(StorageError):
    """A stored document has a newer format than this version supports."""

    code = "later-format"


class UnknownBatch(StorageError):
    """The batch does not exist, or has expired."""

    code = "unknown-batch"


class BatchInUse(StorageError):
    """A job that has not ended needs the batch, so it cannot be deleted."""

    code = "batch-in-use"


class UnknownMap(StorageError):
    """The map does not exist."""

    code = "unknown-map"


class UnknownAlias(StorageError):
    """The maps with this name do not have this alias."""

    code = "unknown-alias"


class MapInUse(StorageError):
    """An alias points at the version, so it cannot be deleted."""

    code = "map-in-use"


class OutputShapeChanged(StorageError):
    """The newest map of the name returns probabilities of another shape."""

    code = "output-shape-changed"


class UnknownJob(StorageError):
    """The job does not exist, or has expired."""

    code = "unknown-job"


class UnknownKey(StorageError):
    """The API key does not exist."""

    code = "unknown-key"


class KeyConflict(StorageError):
    """The API key is revoked, or already has two valid secrets."""

    code = "key-conflict"


class JobFinal(StorageError):
    """The job has ended and cannot change."""

    code = "job-final"


class RunLost(StorageError):
    """The run of the job was cancelled or replaced, so its results are discarded."""

    code = "run-lost"


class TimeLimit(StorageError):
    """A run of the job exceeded its time limit."""

    code = "time-limit"


class BatchFull(StorageError):
    """The batch would exceed its maximum number of rows or parts."""

    code = "batch-full"


class UnknownMonitor(StorageError):
    """The monitor does not exist."""

    code = "unknown-monitor"


class MonitorExists(StorageError):
    """A monitor with this name exists."""

    code = "monitor-exists"


class MonitorFull(StorageError):
    """The monitor has reached its limit of ids."""

    code = "monitor-full"


class UnknownDelivery(StorageError):
    """The monitor has no such delivery, or it was removed."""

    code = "unknown-delivery"


class UnknownHook(StorageError):
    """The monitor has no such hook."""

    code = "unknown-hook"


class UnknownRule(StorageError):
    """The monitor has no such rule."""

    code = "unknown-rule"


class NoAlarm(StorageError):
    """The alarm of the rule is not raised, or was already acknowledged."""

    code = "no-alarm"


class UnknownProposal(StorageError):
    """There is no pending proposal."""

    code = "unknown-proposal"


class ProposalOutdated(StorageError):
    """The alias of the proposal was moved after the comparison."""

    code = "proposal-outdated"


class InvalidCursor(StorageError):
    """The cursor was not issued by a page."""

    code = "invalid-cursor"


class IdempotencyConflict(StorageError):
    """The idempotency key was used by another request."""

    code = "idempotency-conflict"


class IdempotencyInProgress(StorageError):
    """The first request with the idempotency key is still in progress."""

    code = "idempotency-in-progress"


class QuotaExceeded(StorageError):
    """The tenant has reached a quota."""

    code = "quota-exceeded"


class StoreFull(StorageError):
    """The store, or one tenant's share of it, is full."""

    code = "store-full"


class TooManyJobs(StorageError):
    """The tenant has reached its limit of unfinished jobs."""

    code = "too-many-jobs"


class QueueFull(StorageError):
    """The service has reached its limit of unfinished jobs, counted over all tenants."""

    code = "queue-full"


class UnsuitableStore(StorageError):
    """The settings of Redis could lose data, or the service lacks an API key."""

    code = "unsuitable-store"


class DamagedBackup(StorageError):
    """The file is not a backup, or is incomplete."""

    code = "damaged-backup"


class StoreNotEmpty(StorageError):
    """The store to restore into is not empty."""

    code = "store-not-empty"


class EmbeddedStoreFailed(StorageError):
    """The embedded server did not start."""

    code = "embedded-store-failed"


class FolderInUse(EmbeddedStoreFailed):
    """Another process uses the data folder of the embedded server."""

    code = "folder-in-use"


class UnknownSource(StorageError):
    """A source that was not declared, or that the tenant may not use so."""

    code = "unknown-source"


class NoLabels(StorageError):
    """A stored batch without the labels that are needed."""

    code = "no-labels"


# --- References: 404 is for the path of a request; what its options name is invalid if it does not exist


class UnknownMapReference(UnknownMap):
    """The options of a request, or of a monitor, name a map that does not exist."""

    code = "unknown-map-reference"


class UnknownBatchReference(UnknownBatch):
    """The options of a request name a batch that does not exist, or has expired."""

    code = "unknown-batch-reference"


_REFERENCES: Mapping[type[StorageError], type[StorageError]] = MappingProxyType(
    {UnknownMap: UnknownMapReference, UnknownBatch: UnknownBatchReference}
)


def of_options(error: CalibrationError | StorageError) -> CalibrationError | StorageError:
    """The error of the options of a request, rather than of its path."""
    if isinstance(error, StorageError) and (reference := _REFERENCES.get(type(error))) is not None:
        return reference(error.detail, error.pointer)
    return error


# --- The problem document of an error, for responses and jobs

#: The error at a pointer with a detail.
Locate = Callable[[str, str], ProblemError]


def problem_of(error: CalibrationError | StorageError, locate: Locate = in_body) -> Problem:
    """Build the problem document of an error; its detail begins with the first place, as in ``/labels/4: must be``.

    A detail that counts the invalid rows of an array begins with the array.
    """
    if isinstance(error, CalibrationError):
        offences = error.offences
    else:
        offences = () if error.pointer is None else (Offence(error.pointer, error.detail),)
    places = [locate(offence.pointer, offence.detail) for offence in offences]
    detail = error.detail
    if places:
        array = offences[0].pointer[1:].partition("/")[0]
        counts = isinstance(error, CalibrationError) and detail.startswith(f"{array}: ")
        detail = f"/{detail}" if counts and places[0].pointer else f"{places[0].place}: {places[0].detail}"
    return problem(error.code, detail, places)
