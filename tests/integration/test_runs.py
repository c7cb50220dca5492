"""The runs of jobs in the store: claimed once, fenced, lost, given back, and taken in turns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from backend.store.clock import seconds_of
from backend.store.errors import RunLost
from backend.store.jobs.leases import ALIVE_SECONDS, LOST_SECONDS, announce, read_leases, read_supervisors, renew
from backend.store.jobs.queues import (
    EVALUATIONS,
    FITS,
    GPU_FITS,
    MOST_SECONDS_AHEAD,
    Message,
    TenantLine,
    forget_worker,
    queue_key,
    read_workers,
    rq_queue,
    take,
)
from backend.store.jobs.recovery import LOOK_SECONDS, MISSING_SECONDS, Recovery
from backend.store.jobs.runs import DELAYS, MOST_KILLS, Run
from backend.store.keyspace import Keyspace, Shared
from backend.store.store import Store
from schemas.jobs import Progress, WorkersRecord
from tests.integration.conftest import claimed, submitted
from tests.known import known

pytestmark = pytest.mark.slow


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def _looks(recovery: Recovery, clock: Clock, seconds: float) -> None:
    """Look every so often, for so long."""
    for _ in range(round(seconds / LOOK_SECONDS) + 1):
        recovery.look()
        clock.seconds += LOOK_SECONDS


def test_how_many_of_a_tenants_jobs_wait_before_one_is_known(redis: Redis, store: Store) -> None:
    other = Store(redis, Keyspace("other"), store.quotas)
    jobs = [submitted(store) for _ in range(2)]
    submitted(other)
    jobs += [submitted(store) for _ in range(3)]
    assert [store.jobs.before(job) for job in jobs] == [0, 1, 2, 3, 4]
    store.jobs.cancel(jobs[0].id)
    assert [store.jobs.before(job) for job in jobs[1:]] == [0, 1, 2, 3]
    assert store.jobs.before(store.jobs.get(jobs[0].id)) is None


def _queued(redis: Redis, queue: str = FITS) -> list[str]:
    return TenantLine(redis, Keyspace(), queue).messages()


def _next(store: Store, redis: Redis) -> Run:
    """What a free worker does: take a message and claim its job."""
    taken = known(take(redis, "a-worker", [FITS]))
    job_id, _, run = taken[1].rpartition("-")
    for tenant in ("default", "other"):
        claim = Store.of(redis, tenant).runs.claim(Message(tenant, job_id, int(run)), "a-worker", FITS)
        if claim is not None:
            return claim
    raise AssertionError("nobody's job")


def test_concurrent_claims_of_a_job_give_one_run(store: Store, redis: Redis) -> None:
    job = submitted(store)
    message = Message("default", job.id, 1)
    with ThreadPoolExecutor(8) as threads:
        runs = list(threads.map(lambda i: store.runs.claim(message, f"worker-{i}", FITS), range(8)))
    (run,) = [run for run in runs if run is not None]
    assert [lease.owner for lease in read_leases(redis)] == [run.lease.owner]
    assert (store.jobs.get(job.id).status, store.jobs.get(job.id).run) == ("running", 1)
    assert _queued(redis) == []
    assert redis.keys("rq:job:*") == []


def test_a_claim_whose_answer_was_lost_is_claimed_again_by_its_worker_alone(store: Store, redis: Redis) -> None:
    message = Message("default", submitted(store).id, 1)
    first = store.runs.claim(message, "a-worker", FITS)
    again = store.runs.claim(message, "a-worker", FITS)
    assert first is not None
    assert again is not None
    assert (again.job, again.lease) == (first.job, first.lease)
    assert store.runs.claim(message, "another", FITS) is None


def test_a_job_that_cannot_be_read_is_passed_over_and_the_others_are_recovered(store: Store, redis: Redis) -> None:
    later, damaged, lost = (claimed(store, submitted(store).id) for _ in range(3))
    redis.set(Keyspace().job(later.job.id), later.job.model_copy(update={"format": 99}).model_dump_json())
    redis.set(Keyspace().job(damaged.job.id), "{")
    clock = Clock()
    recovery = Recovery(redis, clock)
    _looks(recovery, clock, 2 * LOST_SECONDS)
    recovery.worker_ended("a-worker", killed=True)
    assert store.jobs.get(lost.job.id).status == "queued"


def test_messages_of_a_later_supervisor_are_ignored(redis: Redis) -> None:
    known = WorkersRecord(id="a", host="h", pid=1, device="cpu", queues=[FITS], processes=1)
    announce(redis, known)
    announce(redis, known.model_copy(update={"id": "b", "format": 99}))
    assert read_supervisors(redis) == [known]


def test_a_run_that_was_taken_away_changes_nothing(store: Store, redis: Redis) -> None:
    old = claimed(store, submitted(store).id)
    old.lose()
    new = claimed(store, old.job.id)
    assert new.job.run == 2
    with pytest.raises(RunLost):
        old.report(Progress(done=1, total=2))
    with pytest.raises(RunLost):
        old.succeed({"map": "old"})
    old.lose(killed=True)
    old.release()
    assert not renew(redis, old.lease, 1)
    assert renew(redis, new.lease, 1)
    new.succeed({"map": "new"})
    assert store.jobs.get(old.job.id).result == {"map": "new"}
    assert read_leases(redis) == {}


def test_a_lost_job_is_retried_with_growing_delays_and_then_fails(store: Store, redis: Redis) -> None:
    job = submitted(store)
    clock = Clock()
    for losses, delay in enumerate(DELAYS, 1):
        claimed(store, job.id).lose()
        waiting = store.jobs.get(job.id)
        assert (waiting.status, waiting.losses) == ("queued", losses)
        due = redis.zscore(Shared.delayed(), f"default:{job.id}")
        if delay:
            moment = seconds_of(redis.time())
            assert due is not None
            assert moment + delay - 1 < due <= moment + delay
            redis.zadd(Shared.delayed(), {f"default:{job.id}": moment})
            _looks(Recovery(redis, clock), clock, 0)
        assert _queued(redis) == [f"{job.id}-{losses + 1}"]
    claimed(store, job.id).lose()
    failed = store.jobs.get(job.id)
    assert failed.status == "failed"
    assert known(failed.problem).type == "/problems/worker-lost"
    assert (_queued(redis), redis.zcard(Shared.delayed()), read_leases(redis)) == ([], 0, {})


def test_a_job_that_kills_its_worker_ends_sooner(store: Store, redis: Redis) -> None:
    job = submitted(store)
    for _ in range(MOST_KILLS):
        claimed(store, job.id).lose(killed=True)
    assert store.jobs.get(job.id).status == "failed"
    assert _queued(redis) == []


def test_a_job_that_is_given_back_waits_at_the_front_of_its_line_and_counts_no_loss(store: Store, redis: Redis) -> None:
    jobs = [submitted(store) for _ in range(5)]
    run = _next(store, redis)
    run.release()
    order = [_next(store, redis).job.id for _ in jobs]
    assert order[0] == jobs[0].id
    assert store.jobs.get(jobs[0].id).losses == 0


def test_a_lease_that_is_not_renewed_is_lost_and_one_that_is_stays(store: Store, redis: Redis) -> None:
    idle, busy = (claimed(store, submitted(store).id) for _ in range(2))
    clock = Clock()
    recovery = Recovery(redis, clock)
    for times in range(1, 12):
        renew(redis, busy.lease, times)
        lost = store.jobs.get(idle.job.id).status == "queued"
        assert lost == (clock.seconds > LOST_SECONDS)
        _looks(recovery, clock, 0)
    assert store.jobs.get(busy.job.id).status == "running"


def test_no_lease_is_lost_while_the_store_is_unavailable(store: Store, redis: Redis) -> None:
    run = claimed(store, submitted(store).id)
    clock = Clock()
    recovery = Recovery(redis, clock)
    _looks(recovery, clock, 0.5)
    clock.seconds += 60.0  # no look came through
    recovery.look()
    assert store.jobs.get(run.job.id).status == "running"


def test_a_thousand_jobs_of_one_tenant_delay_anothers_by_one(store: Store, redis: Redis) -> None:
    for _ in range(1000):
        submitted(store)
    other = submitted(Store.of(redis, "other"))
    assert len(rq_queue(redis, FITS).get_job_ids()) == 2
    order = [_next(store, redis).job.id for _ in range(2)]
    assert order[-1] == other.id
    rest = [_next(store, redis).job.id for _ in range(999)]
    assert len(set(order + rest)) == 1001
    assert redis.keys("calibrant::fronts") == []
    assert redis.keys("calibrant:*:waiting:*") == redis.keys("calibrant:*:taken:*") == []


def test_two_tenants_take_turns(store: Store, redis: Redis) -> None:
    mine = [submitted(store).id for _ in range(20)]
    theirs = [submitted(Store.of(redis, "other")).id for _ in range(20)]
    order = [_next(store, redis).job.id for _ in range(40)]
    for done in range(4, 40):
        ahead = sum(job in mine for job in order[:done]) - sum(job in theirs for job in order[:done])
        assert abs(ahead) <= 1
    assert [job for job in order if job in mine] == mine


def test_jobs_of_a_line_that_are_cancelled_leave_it(store: Store, redis: Redis) -> None:
    jobs = [submitted(store).id for _ in range(6)]
    for job in (jobs[0], jobs[4]):
        store.jobs.cancel(job)
    assert [_next(store, redis).job.id for _ in range(4)] == [jobs[1], jobs[2], jobs[3], jobs[5]]
    assert redis.keys("rq:job:*") == []


def test_a_message_that_was_lost_before_its_claim_is_queued_again(store: Store, redis: Redis) -> None:
    job = submitted(store)
    assert take(redis, "a-worker", [FITS]) == (FITS, f"{job.id}-1")
    clock = Clock()
    recovery = Recovery(redis, clock)
    _looks(recovery, clock, MISSING_SECONDS / 2)
    assert take(redis, "another", [FITS]) is None
    _looks(recovery, clock, LOST_SECONDS)
    assert take(redis, "another", [FITS]) == (FITS, f"{job.id}-1")
    # The worker was only slow: the message that is doubled now runs nothing twice.
    assert claimed(store, job.id).job.run == 1
    assert _queued(redis) == []
    assert store.runs.claim(Message("default", job.id, 1), "another", FITS) is None


def test_jobs_that_nobody_knows_of_are_found(store: Store, redis: Redis) -> None:
    queued, running = submitted(store), claimed(store, submitted(store).id)
    redis.delete(queue_key(FITS), Keyspace().taken(FITS), Keyspace().line(FITS), Shared.leases())
    Recovery(redis, Clock()).look()
    assert sorted(_queued(redis)) == sorted([f"{queued.id}-1", f"{running.job.id}-2"])


def test_a_delay_that_redis_clock_put_off_is_over(store: Store, redis: Redis) -> None:
    job = submitted(store)
    for _ in range(2):
        claimed(store, job.id).lose()
    redis.zadd(Shared.delayed(), {f"default:{job.id}": redis.time()[0] + 3600})
    Recovery(redis, Clock()).look()
    assert _queued(redis) == [f"{job.id}-3"]


def test_jobs_for_a_gpu_go_to_a_cpu_once_no_gpu_worker_is_left(store: Store, redis: Redis) -> None:
    jobs = [submitted(store, queue=GPU_FITS) for _ in range(4)]
    clock = Clock()
    recovery = Recovery(redis, clock)
    announce(redis, WorkersRecord(id="a", host="h", pid=1, device="cuda", queues=[GPU_FITS], processes=1))
    _looks(recovery, clock, 2 * LOST_SECONDS)
    assert len(_queued(redis, GPU_FITS)) == 4
    redis.delete(Shared.supervisor("a"))
    _looks(recovery, clock, 2 * LOST_SECONDS)
    assert _queued(redis, GPU_FITS) == []
    assert sorted(TenantLine(redis, Keyspace(), FITS).messages()) == sorted(f"{job.id}-1" for job in jobs)
    assert {store.jobs.get(job.id).queue for job in jobs} == {FITS}


def test_a_job_lost_on_a_gpu_is_run_on_a_cpu(store: Store, redis: Redis) -> None:
    job = submitted(store, queue=GPU_FITS)
    claimed(store, job.id).lose()
    assert (_queued(redis, GPU_FITS), _queued(redis, FITS)) == ([], [f"{job.id}-2"])


def test_queues_of_other_kinds_are_lines_of_their_own(store: Store, redis: Redis) -> None:
    fits = [submitted(store).id for _ in range(3)]
    evaluation = submitted(store, kind="evaluate", queue=EVALUATIONS).id
    assert _queued(redis, EVALUATIONS) == [f"{evaluation}-1"]
    assert _queued(redis, FITS) == [f"{job}-1" for job in fits]


@pytest.fixture
def tenants(redis: Redis) -> dict[str, Store]:
    """The stores of three tenants, each of which has an API key."""
    for name in "abc":
        ApiKeyStore(redis).create(name, tenant=name, scope="write")
    return {name: Store.of(redis, name) for name in "abc"}


def _taken(redis: Redis, worker: str, *queues: str) -> str | None:
    """The job that a free worker takes."""
    taken = take(redis, worker, queues or [FITS])
    return None if taken is None else taken[1].rpartition("-")[0]


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_the_last_free_worker_starts_no_job_of_a_tenant_that_runs_on_the_others(
    redis: Redis, tenants: dict[str, Store], workers: int
) -> None:
    names = [f"w{i}" for i in range(workers)]
    for name in names:
        assert _taken(redis, name) is None
    mine = [submitted(tenants["a"]).id for _ in range(2 * workers)]
    assert [_taken(redis, name) for name in names] == [*mine[: workers - 1], None]
    theirs = submitted(tenants["b"]).id
    assert _taken(redis, names[-1]) == theirs
    # A worker that looks for a message again has ended its run: it is the last free one.
    assert _taken(redis, names[0]) == (mine[1] if workers == 2 else None)


def test_the_last_free_worker_starts_a_job_of_a_tenant_that_runs_none(redis: Redis, tenants: dict[str, Store]) -> None:
    for name in ("w0", "w1", "w2"):
        assert _taken(redis, name) is None
    jobs = {name: [submitted(store).id for _ in range(2)] for name, store in tenants.items()}
    assert [_taken(redis, name) for name in ("w0", "w1", "w2")] == [jobs["a"][0], jobs["b"][0], jobs["c"][0]]
    assert _taken(redis, "w1") == jobs["b"][1]


def test_one_worker_runs_all_jobs_of_a_tenant(redis: Redis, tenants: dict[str, Store]) -> None:
    jobs = [submitted(tenants["a"]).id for _ in range(3)]
    assert [_taken(redis, "w0") for _ in jobs] == jobs


def test_the_only_tenant_of_a_service_without_keys_runs_on_every_worker(store: Store, redis: Redis) -> None:
    jobs = [submitted(store).id for _ in range(3)]
    assert [_taken(redis, name) for name in ("w0", "w1", "w2")] == jobs


def test_a_tenant_that_runs_an_evaluation_starts_no_fit_on_the_last_free_worker(
    redis: Redis, tenants: dict[str, Store]
) -> None:
    queues = (FITS, EVALUATIONS)
    for name in ("w0", "w1"):
        assert _taken(redis, name, *queues) is None
    evaluation = submitted(tenants["a"], kind="evaluate", queue=EVALUATIONS).id
    fit = submitted(tenants["a"]).id
    assert [_taken(redis, name, *queues) for name in ("w0", "w1")] == [evaluation, None]
    assert _taken(redis, "w0", *queues) == fit


def test_the_last_free_worker_is_counted_for_every_queue_that_it_serves(
    redis: Redis, tenants: dict[str, Store]
) -> None:
    gpu, cpu = (GPU_FITS, FITS), (FITS,)
    assert [_taken(redis, "g", *gpu), _taken(redis, "c", *cpu)] == [None, None]
    slow, fast = submitted(tenants["a"]).id, submitted(tenants["a"], queue=GPU_FITS).id
    assert _taken(redis, "c", *cpu) == slow
    assert _taken(redis, "g", *gpu) is None  # no other worker would be left for fits
    theirs = submitted(tenants["b"]).id
    assert _taken(redis, "g", *gpu) == theirs
    assert _taken(redis, "c", *cpu) is None
    assert _taken(redis, "g", *gpu) == fast


def test_a_worker_that_ends_is_neither_free_nor_busy(redis: Redis, tenants: dict[str, Store]) -> None:
    for name in ("w0", "w1", "w2"):
        assert _taken(redis, name) is None
    jobs = [submitted(tenants["a"]).id for _ in range(3)]
    assert _taken(redis, "w0") == jobs[0]
    forget_worker(redis, "w2")
    assert _taken(redis, "w1") is None
    forget_worker(redis, "w0")
    assert _taken(redis, "w1") == jobs[1]
    assert _taken(redis, "w3") is None
    assert _taken(redis, "w4") == jobs[2]  # another worker has joined


def test_workers_whose_supervisor_died_are_forgotten_by_the_clock_of_another(
    redis: Redis, tenants: dict[str, Store]
) -> None:
    record = WorkersRecord(id="a", host="h", pid=1, device="cpu", queues=[FITS], processes=2)
    clock, times = Clock(), 0
    recovery = Recovery(redis, clock)
    announce(redis, record, ["dead"], times)
    for times in range(1, round(2 * ALIVE_SECONDS / LOOK_SECONDS)):
        announce(redis, record, ["alive"], times)
        assert ("dead" in read_workers(redis)) == (clock.seconds <= ALIVE_SECONDS)
        _looks(recovery, clock, 0)
    assert set(read_workers(redis)) == {"alive"}
    jobs = [submitted(tenants["a"]).id for _ in range(2)]
    assert [_taken(redis, name) for name in ("alive", "new")] == [jobs[0], None]


def test_short_jobs_go_first_in_the_line_of_a_tenant(store: Store, redis: Redis) -> None:
    seconds = {submitted(store, seconds=seconds).id: seconds for seconds in (40.0, 2.0, 30.0, 1.0, 2.0)}
    order = [_next(store, redis).job.id for _ in seconds]
    assert [seconds[job] for job in order] == [1.0, 2.0, 2.0, 30.0, 40.0]


def test_short_jobs_of_one_tenant_go_before_long_ones_of_another(redis: Redis, tenants: dict[str, Store]) -> None:
    long = [submitted(tenants["a"], seconds=50.0).id for _ in range(3)]
    short = [submitted(tenants["b"], seconds=1.0).id for _ in range(3)]
    assert [_taken(redis, "w0") for _ in range(6)] == short + long


@pytest.mark.parametrize("other", ["a", "b"])
def test_a_long_job_lets_shorter_ones_pass_for_a_bounded_amount_of_work(
    redis: Redis, tenants: dict[str, Store], other: str
) -> None:
    long = submitted(tenants["a"], seconds=3600.0).id
    passed = -1
    while passed < 0 or _taken(redis, "w0") != long:
        passed += 1
        submitted(tenants[other], seconds=5.0)
    assert passed == MOST_SECONDS_AHEAD / 5.0 - 1


def test_tenants_share_a_worker_by_the_estimated_time_of_their_jobs(redis: Redis, tenants: dict[str, Store]) -> None:
    seconds = {"a": 20.0, "b": 4.0}
    jobs = {
        submitted(tenants[name], seconds=seconds[name]).id: name
        for name, number in (("a", 20), ("b", 100))
        for _ in range(number)
    }
    share = {"a": 0.0, "b": 0.0}
    for _ in range(60):
        taken = known(_taken(redis, "w0"))
        share[jobs[taken]] += seconds[jobs[taken]]
    assert min(share.values()) >= 0.4 * sum(share.values())


def test_a_message_that_is_missing_in_its_queue_is_queued_again(store: Store, redis: Redis) -> None:
    jobs = [submitted(store).id for _ in range(2)]
    redis.delete(queue_key(FITS))
    clock = Clock()
    _looks(Recovery(redis, clock), clock, 2 * MISSING_SECONDS)
    assert [_taken(redis, "w0") for _ in jobs] == jobs


def test_a_clock_that_was_set_back_keeps_no_dead_supervisor_and_no_dead_leader(store: Store, redis: Redis) -> None:
    record = WorkersRecord(id="a", host="h", pid=1, device="cpu", queues=[FITS], processes=1)
    announce(redis, record)
    redis.expire(Shared.supervisor("a"), 3600)
    assert read_supervisors(redis) == []
    announce(redis, record)
    assert read_supervisors(redis) == [record]
    redis.set(Shared.leader(), "dead", ex=3600)
    job = submitted(store)
    redis.delete(queue_key(FITS), Keyspace().line(FITS))
    Recovery(redis, Clock()).look()
    assert _queued(redis) == [f"{job.id}-1"]
