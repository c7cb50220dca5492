"""The checks after fault injection, as pure functions of the collected evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from benchmarks.chaos.evidence import ChaosEvidence
from schemas.jobs import FINAL

#: Documented answers to a request for a job or a map; 0 is no answer, because a process is down.
DOCUMENTED = frozenset({0, 200, 202, 409, 429, 503})
_FINAL = frozenset[str](FINAL)

Faults = Iterator[str]


def _lost_jobs(evidence: ChaosEvidence) -> Faults:
    for job in evidence.jobs:
        if job.status is None or job.promise.job_id not in evidence.stored_jobs:
            yield f"{job.promise.job_id} was acknowledged but does not exist"


def _unended_jobs(evidence: ChaosEvidence) -> Faults:
    for job in evidence.jobs:
        if job.status is not None and job.status not in _FINAL:
            yield f"{job.promise.job_id} stays {job.status}"


def _ends(evidence: ChaosEvidence) -> Faults:
    for job in evidence.jobs:
        finals = [i for i, change in enumerate(job.changes) if change.status in _FINAL]
        if len(finals) != 1:
            yield f"{job.promise.job_id} ended {len(finals)} times"
        elif finals[0] != len(job.changes) - 1:
            yield f"{job.promise.job_id} changed after its end"


def _changed_ends(evidence: ChaosEvidence) -> Faults:
    for job in evidence.jobs:
        statuses = (job.reported, job.status, *(change.status for change in job.changes))
        ends = sorted({status for status in statuses if status is not None} & _FINAL)
        if len(ends) > 1:
            yield f"{job.promise.job_id} was reported as {' and as '.join(ends)}"


def _doubled_jobs(evidence: ChaosEvidence) -> Faults:
    for job_id in evidence.doubled:
        yield f"{job_id} was returned to two requests"
    for job_id in sorted(evidence.stored_jobs - {job.promise.job_id for job in evidence.jobs}):
        yield f"{job_id} is stored but was never acknowledged"


def _lost_maps(evidence: ChaosEvidence) -> Faults:
    seen = {stored_map.id for stored_map in evidence.maps}
    for job in evidence.jobs:
        if job.promise.kind == "fit" and job.status == "succeeded":
            if job.map not in evidence.stored_maps:
                yield f"{job.promise.job_id} succeeded without its map"
            elif job.map not in seen:
                yield f"the map of {job.promise.job_id} was never read"
    for stored_map in evidence.maps:
        if stored_map.last is None:
            yield f"{stored_map.id} was acknowledged but does not exist"


def _changed_maps(evidence: ChaosEvidence) -> Faults:
    for stored_map in evidence.maps:
        if stored_map.last is not None and stored_map.last != stored_map.first:
            yield f"{stored_map.id} has a changed document"


def _wrong_maps(evidence: ChaosEvidence) -> Faults:
    for stored_map in evidence.maps:
        if stored_map.last is not None and not stored_map.applies:
            yield f"{stored_map.id} does not give the results of its document"


def _doubled_maps(evidence: ChaosEvidence) -> Faults:
    maps_of_jobs = Counter(job.map for job in evidence.jobs if job.map is not None)
    for map_id, times in maps_of_jobs.items():
        if times > 1:
            yield f"{map_id} is the map of {times} jobs"
    for map_id in sorted(evidence.stored_maps - set(maps_of_jobs) - evidence.scored):
        yield f"{map_id} is stored and belongs to no job that succeeded"


def _versions(evidence: ChaosEvidence) -> Faults:
    for name, versions in evidence.versions.items():
        asked = {job.map for job in evidence.jobs if job.promise.name == name and job.map is not None}
        if sorted(versions) != list(range(1, len(asked) + 1)) or set(versions.values()) != asked:
            yield f"{name} has versions {sorted(versions)} for {len(asked)} maps"


def _audited(evidence: ChaosEvidence) -> Faults:
    entries = Counter(evidence.audited)
    for map_id in sorted(evidence.stored_maps | entries.keys()):
        if entries[map_id] != 1 or map_id not in evidence.stored_maps:
            yield f"{map_id} has {entries[map_id]} entries in the audit log"


def _moves(evidence: ChaosEvidence) -> Faults:
    yield from evidence.moves


def _unscored(evidence: ChaosEvidence) -> Faults:
    yield from evidence.scoring.failed


def _refused(evidence: ChaosEvidence) -> Faults:
    yield from evidence.scoring.refused


def _misscored(evidence: ChaosEvidence) -> Faults:
    yield from evidence.scoring.wrong


def _key_entries(evidence: ChaosEvidence) -> Faults:
    yield from evidence.key_entries


def _key_uses(evidence: ChaosEvidence) -> Faults:
    yield from evidence.key_uses


def _left(evidence: ChaosEvidence) -> Faults:
    for name, times in sorted(evidence.left.items()):
        yield f"{times} of {name} remain"


def _answers(evidence: ChaosEvidence) -> Faults:
    for status, times in sorted(evidence.answers.items()):
        if status not in DOCUMENTED:
            yield f"{times} requests were answered {status}"


#: Check -> the violations in the evidence.
CHECKS: dict[str, Callable[[ChaosEvidence], Faults]] = {
    "every acknowledged job exists": _lost_jobs,
    "no job stays queued or running": _unended_jobs,
    "every job ended exactly once": _ends,
    "no reported end of a job changed": _changed_ends,
    "no request ran twice, no job was returned to two requests": _doubled_jobs,
    "every acknowledged map exists": _lost_maps,
    "no map document changed": _changed_maps,
    "every map gives exactly the results of its document in process": _wrong_maps,
    "no map is duplicated": _doubled_maps,
    "the versions of a name have no gaps and no duplicates": _versions,
    "every map has one entry in the audit log, and every entry its map": _audited,
    "the audit log has every move of an alias and change of a monitor, and no other": _moves,
    "the audit log has every change of an API key, and no other": _key_entries,
    "every acknowledged API key works, and none that was rotated or revoked": _key_uses,
    "every request for a held map was answered by an API": _unscored,
    "no API that had answered for a held map refused to, until its next end": _refused,
    "every answer of a held map has the version last known, and exactly its values": _misscored,
    "no lease, message or held batch remains": _left,
    "every answer was documented": _answers,
}


def faults(evidence: ChaosEvidence) -> dict[str, list[str]]:
    """The violations of each check."""
    return {name: list(check(evidence)) for name, check in CHECKS.items()}
