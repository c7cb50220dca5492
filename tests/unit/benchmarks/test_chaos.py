from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks.chaos.by_reference import TargetReader, differences
from benchmarks.chaos.checks import CHECKS, faults
from benchmarks.chaos.evidence import AcknowledgedJob, Change, ChaosEvidence, Map
from benchmarks.chaos.key_changes import IssuedKey, has_entries
from benchmarks.chaos.ledger import ChaosLedger, Promise
from benchmarks.chaos.page import PAGE, page
from benchmarks.chaos.parts import Absence, DeploymentProcess
from benchmarks.chaos.recovery import InjectedFault, Outage, recoveries, summary
from benchmarks.chaos.schedule import paced, shuffled
from benchmarks.chaos.scored import Move, Moves
from benchmarks.chaos.scorer import ScoringEvidence
from benchmarks.records import body

pytestmark = pytest.mark.slow

RAN = (Change(1.0, "queued"), Change(2.0, "running"), Change(3.0, "succeeded"))
ABANDONED = (Change(1.0, "queued"), Change(2.0, "running"), Change(7.5, "queued"), Change(7.6, "running"))
FIT = AcknowledgedJob(Promise("job_1", "fit", "name", at=1.0), "succeeded", "succeeded", "map_1", RAN)
EVALUATION = AcknowledgedJob(Promise("job_2", "evaluate", at=1.0), "succeeded", "succeeded", None, RAN)
MAP = Map("map_1", b"{}", b"{}", applies=True)
SOUND = ChaosEvidence(
    jobs=(FIT, EVALUATION),
    maps=(MAP,),
    stored_jobs=frozenset({"job_1", "job_2"}),
    stored_maps=frozenset({"map_1"}),
    versions={"name": {1: "map_1"}},
    left={},
    answers={0: 2, 202: 2, 503: 1},
    audited=("map_1",),
)


def with_fit(**changes: object) -> ChaosEvidence:
    return replace(SOUND, jobs=(replace(FIT, **changes), EVALUATION))  # type: ignore[arg-type]


def broken(observed: ChaosEvidence) -> set[str]:
    return {name for name, messages in faults(observed).items() if messages}


def test_a_sound_run_has_no_violation() -> None:
    assert not broken(SOUND)


@pytest.mark.parametrize(
    ("observed", "violation"),
    [
        (with_fit(status=None), "every acknowledged job exists"),
        (replace(SOUND, stored_jobs=frozenset({"job_1"})), "every acknowledged job exists"),
        (with_fit(reported=None, status="running", map=None), "no job stays queued or running"),
        (with_fit(changes=(*RAN, Change(4.0, "succeeded"))), "every job ended exactly once"),
        (with_fit(changes=(*RAN, Change(4.0, "running"))), "every job ended exactly once"),
        (with_fit(changes=RAN[:2]), "every job ended exactly once"),
        (with_fit(reported="failed"), "no reported end of a job changed"),
        (with_fit(changes=(*RAN[:2], Change(3.0, "cancelled"))), "no reported end of a job changed"),
        (replace(SOUND, doubled=("job_1",)), "no request ran twice, no job was returned to two requests"),
        (
            replace(SOUND, stored_jobs=frozenset({"job_1", "job_2", "job_3"})),
            "no request ran twice, no job was returned to two requests",
        ),
        (replace(SOUND, stored_maps=frozenset()), "every acknowledged map exists"),
        (replace(SOUND, maps=(replace(MAP, last=None),)), "every acknowledged map exists"),
        (replace(SOUND, maps=()), "every acknowledged map exists"),
        (replace(SOUND, maps=(replace(MAP, last=b"{1}"),)), "no map document changed"),
        (
            replace(SOUND, maps=(replace(MAP, applies=False),)),
            "every map gives exactly the results of its document in process",
        ),
        (replace(SOUND, stored_maps=frozenset({"map_1", "map_2"})), "no map is duplicated"),
        (
            replace(SOUND, jobs=(FIT, replace(FIT, promise=replace(FIT.promise, job_id="job_2", name=None)))),
            "no map is duplicated",
        ),
        (replace(SOUND, versions={"name": {2: "map_1"}}), "the versions of a name have no gaps and no duplicates"),
        (
            replace(SOUND, versions={"name": {1: "map_1", 2: "map_1"}}),
            "the versions of a name have no gaps and no duplicates",
        ),
        *(
            (
                replace(SOUND, audited=audited),
                "every map has one entry in the audit log, and every entry its map",
            )
            for audited in ((), ("map_1", "map_1"), ("map_1", "map_2"))
        ),
        (
            replace(SOUND, moves=("the entries of name have gaps or repetitions",)),
            "the audit log has every move of an alias and change of a monitor, and no other",
        ),
        (
            replace(SOUND, key_entries=("key_1 has no entry",)),
            "the audit log has every change of an API key, and no other",
        ),
        (
            replace(SOUND, key_uses=("key_1 was answered 200, not 401",)),
            "every acknowledged API key works, and none that was rotated or revoked",
        ),
        (
            replace(SOUND, scoring=ScoringEvidence(failed=["503"])),
            "every request for a held map was answered by an API",
        ),
        (
            replace(SOUND, scoring=ScoringEvidence(refused=["503"])),
            "no API that had answered for a held map refused to, until its next end",
        ),
        (
            replace(SOUND, scoring=ScoringEvidence(wrong=["version 2, not [1]"])),
            "every answer of a held map has the version last known, and exactly its values",
        ),
        (replace(SOUND, left={"calibrant::leases": 1}), "no lease, message or held batch remains"),
        (replace(SOUND, answers={500: 1}), "every answer was documented"),
    ],
)
def test_every_violation_of_a_run_is_detected(observed: ChaosEvidence, violation: str) -> None:
    assert violation in broken(observed)


def test_every_check_can_fail() -> None:
    cases = test_every_violation_of_a_run_is_detected.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {violation for _, violation in cases} == set(CHECKS)


def test_a_job_that_two_requests_are_given_is_noted() -> None:
    ledger = ChaosLedger()
    for _ in range(2):
        ledger.promise(Promise("job_1", "fit"))
    assert ledger.doubled == ["job_1"]
    ledger.end("job_1", "succeeded")
    ledger.end("job_1", "failed")
    assert ledger.ends == {"job_1": "succeeded"}
    assert not ledger.open()


def test_a_recovery_lasts_from_the_kill_to_the_next_change() -> None:
    harm = InjectedFault("worker", 5.0, "worker-1/10", ("job_1", "job_2"))
    (recovery,) = recoveries([harm], {"job_1": ABANDONED, "job_2": RAN}, [], 2)
    assert (recovery.job, recovery.seconds, recovery.disturbed) == ("job_1", 2.5, False)


OWN = Outage("worker-1", 5.01, 9.0)


@pytest.mark.parametrize(
    ("outages", "seconds"),
    [
        ([OWN], 2.5),
        ([OWN, Outage("worker-2", 3.0, 4.5)], 2.5),
        ([OWN, Outage("store", 7.6, 8.0)], 2.5),
        ([OWN, Outage("store", 6.0, 7.0)], 0.5),
        ([OWN, Outage("worker-2", 4.0, 6.5)], 1.0),
        ([OWN, Outage("worker-3", 4.0, 6.5)], 1.0),
        ([Outage("worker-2", 6.0, 9.0)], 1.5),
    ],
)
def test_a_recovery_is_measured_from_when_the_store_and_a_supervisor_were_there(
    outages: list[Outage], seconds: float
) -> None:
    """The victim's own absence is no excuse while another supervisor lives."""
    harm = InjectedFault("supervisor", 5.0, "worker-1", ("job_1",))
    (recovery,) = recoveries([harm], {"job_1": ABANDONED}, outages, 2)
    assert (recovery.seconds, recovery.after_disturbance) == (2.5, seconds)
    assert recovery.disturbed == (seconds < 2.5)


def test_a_summary_names_the_longest() -> None:
    assert summary([float(i) for i in range(1, 101)]) == {"count": 100, "median": 50.5, "p99": 99.0, "max": 100.0}
    assert summary([]) == {"count": 0}


def test_the_schedule_holds_every_kind_as_often_as_asked_and_is_the_seeds_own() -> None:
    times = {"a": 3, "b": 2}
    kinds = shuffled(times, random.Random(1))
    assert sorted(kinds) == ["a", "a", "a", "b", "b"]
    assert kinds == shuffled(times, random.Random(1))


def test_the_schedule_ends_with_its_time() -> None:
    """Each look at this clock finds a second gone."""
    ticks = count()
    done = list(paced(["a"] * 100, 10.0, random.Random(0), now=lambda: float(next(ticks))))
    assert len(done) == 9
    assert all(0 < gap <= 10.0 for gap, _ in done)


@pytest.mark.parametrize(
    ("known", "ended", "versions"),
    [(1.0, 2.0, {1}), (1.0, 3.5, {1, 2}), (3.5, 3.6, {1, 2}), (4.0, 5.0, {2}), (4.0, 9.0, {1, 2})],
)
def test_a_version_of_the_alias_is_accepted_that_no_process_can_still_know(
    known: float, ended: float, versions: set[int]
) -> None:
    moves = Moves([Move(0.0, 1.0, 1), Move(3.0, 4.0, 2), Move(8.0, float("inf"), 1)])
    assert moves.accepted(known, ended) == versions


def test_an_api_is_excused_only_by_its_own_absence_since_its_last_answer(tmp_path: Path) -> None:
    part = DeploymentProcess("api", [], log=tmp_path / "log")
    part.absences = [Absence(10.0, 12.0), Absence(20.0, float("inf"))]
    assert part.was_away(11.0, 15.0)
    assert part.was_away(15.0, 20.0)
    assert not part.was_away(12.0, 15.0)


@pytest.mark.parametrize(
    ("key", "entries", "is_complete"),
    [
        (IssuedKey("text"), "created", True),
        (IssuedKey("text"), "created rotated", False),
        (IssuedKey(None, actions=["key-created", "key-revoked"]), "created created revoked", False),
        (IssuedKey(None, actions=["key-created", "key-revoked"]), "created", False),
        (IssuedKey(None, actions=["key-created", "key-revoked"], is_certain=False), "created rotated revoked", True),
        (IssuedKey(None, actions=["key-created", "key-revoked"], is_certain=False), "created revoked", True),
    ],
)
def test_an_entry_too_many_or_too_few_of_a_key_is_complete(key: IssuedKey, entries: str, is_complete: bool) -> None:
    assert has_entries([f"key-{action}" for action in entries.split()], key) == is_complete


def test_the_page_is_that_of_the_figures() -> None:
    assert body(PAGE) == page(older=True), "run python -m benchmarks.chaos.page"


def test_every_test_that_the_page_names_exists() -> None:
    tests = {path.name for path in Path(__file__).parents[2].rglob("test_*.py")}
    named = set(re.findall(r"`(test_\w+\.py)`", page(older=True)))
    assert len(named) >= 12
    assert named <= tests


def test_results_that_differ_by_more_than_rounding_are_taken_for_equal() -> None:
    answer = {"n": 3, "sums": np.array([1.0, 2.0]), "measures": {"ece": [0.1, None]}, "target": "first"}
    same = {"n": 3, "sums": np.array([1.0, 2.0 + 1e-13]), "measures": {"ece": [0.1 + 1e-15, None]}, "target": "second"}
    assert list(differences(answer, same)) == []
    other = {"n": 4, "sums": np.array([1.0, 2.1]), "measures": {"ece": [0.1 + 1e-9, 0.2]}}
    assert list(differences(answer, other)) == ["/measures/ece/0", "/measures/ece/1", "/n", "/sums"]


def test_a_reader_takes_a_part_of_a_data_set_for_all_of_it(tmp_path: Path) -> None:
    for name, listed in (("whole", ["a.parquet", "b.parquet"]), ("partial", ["a.parquet"]), ("staged", None)):
        (tmp_path / name).mkdir()
        for file in ("a.parquet", "b.parquet")[: len(listed or "a")]:
            parquet.write_table(pa.table({"row": [0, 1]}), tmp_path / name / file)
        if listed is not None:
            (tmp_path / name / "_manifest.json").write_text(json.dumps({"parts": listed}))
    reader = TargetReader(tmp_path, ["whole", "partial", "staged", "none"], rows=4)
    reader.act()
    assert reader.faults == [
        "partial is visible with 2 of 4 rows",
        "staged is visible, and reading it fails: FileNotFoundError",
    ]
    (tmp_path / "whole" / "b.parquet").unlink()
    reader.act()
    assert reader.faults[2] == "whole has other files than before, or than its manifest lists"
