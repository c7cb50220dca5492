"""The evidence after every job has ended: jobs and maps as callers see them, and the content of the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import httpx
import numpy as np
import numpy.typing as npt
import orjson
from redis import Redis

from backend.store.jobs.runs import read_events
from backend.store.keyspace import Keyspace
from benchmarks.chaos.core import left_over
from benchmarks.chaos.ledger import ChaosLedger, Promise
from benchmarks.chaos.moves import Mover, monitor_faults, move_faults
from benchmarks.chaos.scorer import ScoringEvidence
from calibrant import load
from calibrant.client import Calibrant, ProblemResponse

#: Input of event maps.
VECTOR = np.concatenate([[0.0, 1.0], np.linspace(1e-6, 1 - 1e-6, 197), [0.5]])


@dataclass(frozen=True)
class Change:
    """A change of a job's status, by the store's clock."""

    at: float
    status: str


@dataclass(frozen=True)
class AcknowledgedJob:
    """An acknowledged job: its end as first reported, and its status now; None if it does not exist."""

    promise: Promise
    reported: str | None
    status: str | None
    map: str | None
    changes: tuple[Change, ...]
    problem: str | None = None


@dataclass(frozen=True)
class Map:
    """An acknowledged map: its first and last document, and whether it gives the results of the document."""

    id: str
    first: bytes
    last: bytes | None
    applies: bool


@dataclass(frozen=True)
class ChaosEvidence:
    """All evidence."""

    jobs: tuple[AcknowledgedJob, ...]
    maps: tuple[Map, ...]
    #: Ids that the store lists.
    stored_jobs: frozenset[str]
    stored_maps: frozenset[str]
    #: Name -> version -> map.
    versions: dict[str, dict[int, str]]
    #: Keys that should not remain after the jobs, and their number.
    left: dict[str, int]
    #: Jobs that were returned to two requests.
    doubled: tuple[str, ...] = ()
    #: Status -> answers.
    answers: dict[int, int] = field(default_factory=dict)
    #: Maps of which the audit log has the fit, once for each of its entries.
    audited: tuple[str, ...] = ()
    #: What the audit log does not tell of the moves of aliases and the changes of monitors.
    moves: tuple[str, ...] = ()
    #: Maps that no job fitted, and what the clients got that scored them.
    scored: frozenset[str] = frozenset()
    scoring: ScoringEvidence = field(default_factory=ScoringEvidence)
    #: What the audit log does not tell of the changes of API keys, and keys that work or fail against their changes.
    key_entries: tuple[str, ...] = ()
    key_uses: tuple[str, ...] = ()


def gather(ledger: ChaosLedger, mover: Mover, redis: Redis, keys: Keyspace, client: Calibrant) -> ChaosEvidence:
    """Collect the evidence, over HTTP and from the store."""
    jobs = tuple(acknowledged_job(ledger, promise, redis, keys, client) for promise in ledger.promises.values())
    names = {job.promise.name for job in jobs if job.promise.name is not None}
    return ChaosEvidence(
        jobs=jobs,
        maps=tuple(_map(map_id, first, client) for map_id, first in ledger.documents.items()),
        stored_jobs=members(redis, keys.jobs()),
        stored_maps=members(redis, keys.maps()),
        versions={name: _versions(redis, keys, name) for name in sorted(names)},
        left=left_over(redis),
        doubled=tuple(ledger.doubled),
        answers=dict(ledger.answers),
        audited=tuple(str((entry.after or {})["id"]) for entry in client.audit_log(action="map-fitted")),
        moves=(*move_faults(client, mover.acknowledged), *monitor_faults(client)),
    )


def acknowledged_job(
    ledger: ChaosLedger, promise: Promise, redis: Redis, keys: Keyspace, client: Calibrant
) -> AcknowledgedJob:
    """An acknowledged job, over HTTP and from its events."""
    reported = ledger.ends.get(promise.job_id)
    changes = tuple(status_changes(redis, keys, promise.job_id))
    try:
        job = client.job(promise.job_id)
    except ProblemResponse:
        return AcknowledgedJob(promise, reported, None, None, changes)
    map_id = None if job.result is None else cast(str | None, job.result.get("map"))
    return AcknowledgedJob(
        promise, reported, job.status, map_id, changes, None if job.problem is None else job.problem.type
    )


def status_changes(redis: Redis, keys: Keyspace, job_id: str) -> Iterator[Change]:
    """All changes of a job's status; an event's id starts with the store's milliseconds."""
    last: str | None = None
    while events := read_events(redis, keys, job_id, last):
        for event in events:
            if event.name == "status":
                yield Change(int(event.id.partition("-")[0]) / 1000, event.job.status)
        last = events[-1].id


def _map(map_id: str, first: bytes, client: Calibrant) -> Map:
    """The current map; values of the service are compared exactly with those of the document in this process."""
    try:
        document = client.export_map(map_id)
        fitted = load(document)
        asked = VECTOR if fitted.n_classes is None else _rows(fitted.n_classes)
        served = client.calibrate(map_id, asked)
    except (ProblemResponse, httpx.HTTPError):
        return Map(map_id, first, None, applies=False)
    here = fitted.apply(asked)
    same = served.dtype == here.dtype and served.tobytes() == here.tobytes()
    return Map(map_id, _canonical(first), orjson.dumps(document, option=orjson.OPT_SORT_KEYS), applies=same)


def _rows(n_classes: int) -> npt.NDArray[np.float64]:
    """Input of a map with this number of classes."""
    rows: npt.NDArray[np.float64] = np.random.default_rng(0).dirichlet(np.ones(n_classes), len(VECTOR))
    return rows


def _canonical(document: bytes) -> bytes:
    """A document with sorted fields; other content is unchanged."""
    try:
        return orjson.dumps(orjson.loads(document), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONDecodeError:
        return document


def members(redis: Redis, key: str) -> frozenset[str]:
    """The members of a sorted set."""
    return frozenset(member.decode() for member in cast(list[bytes], redis.zrange(key, 0, -1)))


def _versions(redis: Redis, keys: Keyspace, name: str) -> dict[int, str]:
    ids = cast(dict[bytes, bytes], redis.hgetall(keys.versions(name)))
    return {int(version): map_id.decode() for version, map_id in ids.items()}
