"""Chores: queued once, done at least once, given back when a worker ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from backend.store.census import take_census
from backend.store.chores import (
    KINDS,
    LEASE_SECONDS,
    MOST_OF_TENANT,
    MOST_TO_TARGET,
    Chore,
    Kind,
    begin,
    done,
    forget,
    later,
    owner_ended,
    queue_due,
    queue_of,
    renew,
    schedule,
)
from backend.store.jobs.leases import announce, retire
from backend.store.jobs.queues import message_key, queue_key
from backend.store.keyspace import Shared
from schemas.jobs import WorkersRecord

LOOK = Chore("look", "default", "a")
QUEUE = queue_key(queue_of("look"))


def taken(redis: Redis, chore: Chore, owner: str = "w") -> int:
    """As a worker takes the next message."""
    assert redis.lpop(queue_key(queue_of(chore.kind))) == chore.message.encode()
    return begin(redis, chore, owner)


def queued(redis: Redis, kind: Kind) -> list[Chore]:
    """The tasks whose messages are in a queue."""
    messages = cast(list[bytes], redis.lrange(queue_key(queue_of(kind)), 0, -1))
    return [chore for message in messages if (chore := Chore.read(message.decode())) is not None]


def taken_next(redis: Redis, kind: Kind) -> Chore:
    """The next task of a queue, which begins."""
    (chore, *_) = queued(redis, kind)
    assert taken(redis, chore)
    return chore


def expire(redis: Redis, chore: Chore) -> None:
    """As if its lease had not been renewed for as long as it lasts."""
    redis.zadd(Shared.chores_held(), {chore.field: 1.0}, xx=True)


def due_in(redis: Redis, chore: Chore) -> float:
    score, (now, micro) = redis.zscore(Shared.chores_due(), chore.field), redis.time()
    assert score is not None
    return float(score) - now - micro / 1e6


def test_a_chore_names_itself_in_its_message() -> None:
    for chore in (LOOK, Chore("deliver", "a:b", "dlv_1"), Chore("recalibrate", "Zürich", "x-y")):
        assert Chore.read(chore.message) == chore
    assert Chore.read("xyz") is None
    assert Chore.read(b"sweep:default:a".hex()) is None
    assert Chore.read(b"look:".hex()) is None


def test_repeated_requests_for_a_chore_enqueue_one_message(redis: Redis) -> None:
    for _ in range(5):
        schedule(redis, LOOK)
        assert queue_due(redis) == ["look"]
        expire(redis, LOOK)  # nobody takes it for long
        assert queue_due(redis) == ["look"]
    assert redis.lrange(QUEUE, 0, -1) == [LOOK.message.encode()]


def test_a_delayed_chore_waits_and_its_earliest_time_counts(redis: Redis) -> None:
    schedule(redis, LOOK, 60)
    assert queue_due(redis) == []
    schedule(redis, LOOK, 600)
    assert 50 < due_in(redis, LOOK) <= 60
    schedule(redis, LOOK)
    assert queue_due(redis) == ["look"]


def test_a_chore_that_is_done_is_gone_or_comes_again(redis: Redis) -> None:
    schedule(redis, LOOK)
    queue_due(redis)
    assert taken(redis, LOOK) == 1
    assert done(redis, LOOK, "w", 60)
    assert 50 < due_in(redis, LOOK) <= 60
    forget(redis, LOOK)
    assert redis.keys("calibrant::chore*") == []
    assert not redis.exists(message_key(LOOK.message))


def test_a_chore_requested_while_it_runs_runs_once_more(redis: Redis) -> None:
    schedule(redis, LOOK)
    queue_due(redis)
    assert taken(redis, LOOK)
    schedule(redis, LOOK)
    assert queue_due(redis) == []
    assert done(redis, LOOK, "w", 60)
    assert queue_due(redis) == ["look"]


def test_one_worker_alone_has_a_chore(redis: Redis) -> None:
    schedule(redis, LOOK)
    queue_due(redis)
    assert taken(redis, LOOK) == 1
    assert begin(redis, LOOK, "v") == 0
    assert not renew(redis, LOOK, "v")
    assert not done(redis, LOOK, "v")
    assert renew(redis, LOOK, "w")


def test_a_chore_whose_lease_ends_is_done_again_by_another(redis: Redis) -> None:
    schedule(redis, LOOK)
    queue_due(redis)
    taken(redis, LOOK)
    expire(redis, LOOK)
    queue_due(redis)
    assert due_in(redis, LOOK) > 0.4
    schedule(redis, LOOK)
    assert queue_due(redis) == ["look"]
    assert taken(redis, LOOK, "v") == 2
    assert not done(redis, LOOK, "w")
    assert done(redis, LOOK, "v")


def test_a_message_that_is_lost_is_written_again(redis: Redis) -> None:
    schedule(redis, LOOK)
    queue_due(redis)
    redis.lpop(QUEUE)
    assert queue_due(redis) == []
    expire(redis, LOOK)
    assert queue_due(redis) == ["look"]
    assert taken(redis, LOOK) == 1


def test_pauses_after_failures_grow_up_to_a_bound(redis: Redis) -> None:
    pauses = []
    for i in range(12):
        schedule(redis, LOOK)
        queue_due(redis)
        assert taken(redis, LOOK) == i + 1
        assert later(redis, LOOK, "w")
        pauses.append(due_in(redis, LOOK))
    assert pauses[0] <= 1.5
    assert 100 < pauses[-1] <= 450
    assert pauses[5] > pauses[1]


def test_tries_are_counted_by_what_they_came_to(redis: Redis) -> None:
    ends: list[Callable[[Chore], object]] = [
        lambda chore: later(redis, chore, "w"),
        lambda chore: owner_ended(redis, "w"),
        lambda chore: done(redis, chore, "w", 60),
        lambda chore: done(redis, chore, "w"),
    ]
    for chore in (LOOK, Chore("deliver", "a:b", "c")):
        for end in ends:
            schedule(redis, chore)
            queue_due(redis)
            assert taken(redis, chore)
            assert end(chore)
            assert not done(redis, chore, "w")  # it is the owner's no more, and counts no more
    expected = {("look", "done"): 2, ("look", "failed"): 2, ("deliver", "done"): 2, ("deliver", "failed"): 2}
    assert take_census(redis).chores == expected


def test_the_chores_of_a_worker_that_ended_are_given_back(redis: Redis) -> None:
    other = Chore("look", "default", "b")
    for chore, owner in ((LOOK, "w"), (other, "v")):
        schedule(redis, chore)
        queue_due(redis)
        taken(redis, chore, owner)
    assert owner_ended(redis, "w") == [LOOK.field]
    assert due_in(redis, LOOK) <= 1.5
    assert redis.hkeys(Shared.chore_owners()) == [other.field.encode()]


def test_tenants_take_turns_whatever_one_of_them_has_waiting(redis: Redis) -> None:
    many = [Chore("deliver", "a", str(i)) for i in range(1100)]
    for chore in many:
        schedule(redis, chore)
    queue_due(redis)
    other = Chore("deliver", "b:c", "x")
    schedule(redis, other)
    queue_due(redis)
    assert [taken_next(redis, "deliver") for _ in range(4)] == [many[0], other, *many[1:3]]


@pytest.fixture
def keys(redis: Redis) -> None:
    """API keys of two tenants, so that one may be alone."""
    for tenant in ("a", "b"):
        ApiKeyStore(redis).create(tenant, tenant=tenant, scope="write")


def _announce(redis: Redis, number: int) -> None:
    """Running supervisors."""
    for i in range(number):
        announce(redis, WorkersRecord(id=f"s{i}", host="h", pid=1, device="cpu", queues=["fits"], processes=1))


def _begin_kind(redis: Redis, kind: Kind) -> list[Chore]:
    """All tasks of a kind that any number of workers begin."""
    begun = []
    while kind in queue_due(redis):
        begun.append(taken_next(redis, kind))
    return begun


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"deliver"}))
@pytest.mark.parametrize("supervisors", [1, 3])
def test_a_tenant_with_keys_runs_at_most_one_task_of_a_kind_for_each_supervisor(
    redis: Redis, keys: None, kind: Kind, supervisors: int
) -> None:
    _announce(redis, supervisors)
    mine = [Chore(kind, "a", f"m{i}") for i in range(2 * supervisors + 1)]
    for chore in mine:
        schedule(redis, chore)
    assert _begin_kind(redis, kind) == mine[:supervisors]
    theirs = Chore(kind, "b", "m")
    schedule(redis, theirs)
    assert _begin_kind(redis, kind) == [theirs]
    # An end makes room, and so does a task that fails or whose worker dies.
    assert done(redis, mine[0], "w")
    assert _begin_kind(redis, kind) == [mine[supervisors]]
    assert later(redis, mine[supervisors], "w")
    assert _begin_kind(redis, kind) == [mine[supervisors + 1]]
    assert len(owner_ended(redis, "w")) == supervisors + 1
    for chore in (theirs, *mine[: supervisors + 2]):
        forget(redis, chore)  # a pause may end meanwhile
    assert _begin_kind(redis, kind) == mine[supervisors + 2 :]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"deliver"}))
def test_the_only_tenant_of_a_service_without_keys_runs_its_tasks_on_every_worker(redis: Redis, kind: Kind) -> None:
    _announce(redis, 1)
    chores = [Chore(kind, "default", f"m{i}") for i in range(3)]
    for chore in chores:
        schedule(redis, chore)
    assert _begin_kind(redis, kind) == chores


def test_supervisors_that_died_do_not_count_for_a_tenant(redis: Redis, keys: None) -> None:
    _announce(redis, 2)
    redis.delete(Shared.supervisor("s1"))  # it was not renewed
    chores = [Chore("recalibrate", "a", f"m{i}") for i in range(3)]
    for chore in chores:
        schedule(redis, chore)
    assert _begin_kind(redis, "recalibrate") == chores[:1]
    retire(redis, "s0")  # the others end their tasks while no supervisor runs
    assert done(redis, chores[0], "w")
    assert _begin_kind(redis, "recalibrate") == chores[1:2]


def _deliveries(tenant: str, target: str, number: int) -> list[Chore]:
    return [Chore("deliver", tenant, f"{target}/uid/{i}") for i in range(number)]


def _begin_all(redis: Redis) -> list[Chore]:
    """All tasks that workers with many threads begin."""
    begun = []
    while queue_due(redis):
        begun.append(taken_next(redis, "deliver"))
    return begun


def test_deliveries_of_a_tenant_run_side_by_side_up_to_a_bound_for_each_target(redis: Redis) -> None:
    targets = {target: _deliveries("a", target, 5) for target in ("0a", "0b", "0c")}
    for chores in targets.values():
        for chore in chores:
            schedule(redis, chore)
    begun = _begin_all(redis)
    assert len(begun) == MOST_OF_TENANT
    assert max(len(set(begun) & set(chores)) for chores in targets.values()) == MOST_TO_TARGET
    other = _deliveries("b:0a", "0a", 3)
    for chore in other:
        schedule(redis, chore)
    assert _begin_all(redis) == other[:MOST_TO_TARGET]
    ended = 0
    while begun:
        assert done(redis, begun.pop(), "w")
        ended += 1
        begun += _begin_all(redis)
        assert len(begun) <= MOST_OF_TENANT
    assert ended == 15


def test_deliveries_whose_worker_died_do_not_count_as_running(redis: Redis) -> None:
    chores = _deliveries("a", "0a", 4)
    for chore in chores:
        schedule(redis, chore)
    assert _begin_all(redis) == chores[:2]
    assert len(owner_ended(redis, "w")) == 2
    assert _begin_all(redis) == chores[2:]
    for chore in chores[2:]:
        expire(redis, chore)
    redis.zadd(Shared.chores_due(), {chore.field: 1.0 for chore in chores[:2]})
    assert _begin_all(redis) == chores[:2]


def test_the_target_that_has_waited_longest_is_next(redis: Redis) -> None:
    chores = [chore for target in ("0a", "0b", "0c", "0d", "0e", "0f") for chore in _deliveries("a", target, 3)]
    for i, chore in enumerate(chores):
        redis.zadd(Shared.chores_due(), {chore.field: 1.0 + i})
    order = []
    begun = _begin_all(redis)
    while begun:
        order += begun
        for chore in begun:
            assert done(redis, chore, "w")
        begun = _begin_all(redis)
    assert {chore.id[:2] for chore in order[: 2 * MOST_OF_TENANT]} >= {"0a", "0b", "0c"}
    assert sorted(chore.id for chore in order) == sorted(chore.id for chore in chores)


def test_a_chore_that_waits_in_line_can_be_asked_for_again_or_forgotten(redis: Redis) -> None:
    first, second, third = (Chore("look", "default", name) for name in "abc")
    for chore in (first, second, third):
        schedule(redis, chore)
    queue_due(redis)
    schedule(redis, second)
    queue_due(redis)
    forget(redis, second)
    assert [taken_next(redis, "look") for _ in range(2)] == [first, third]
    assert redis.lrange(QUEUE, 0, -1) == []
    assert all(done(redis, chore, "w") for chore in (first, third))
    queue_due(redis)
    assert redis.keys("calibrant::chore*") == []


def test_a_line_goes_on_after_a_message_that_another_release_took(redis: Redis) -> None:
    first, second = (Chore("look", "default", name) for name in "ab")
    for chore in (first, second):
        schedule(redis, chore)
    queue_due(redis)
    redis.lpop(QUEUE)
    redis.hset(Shared.chore_owners(), first.field, "w")  # it knows no lines
    assert queue_due(redis) == ["look"]
    assert taken_next(redis, "look") == second


def test_a_clock_that_was_set_back_postpones_nothing(redis: Redis) -> None:
    queue_due(redis)
    later_one = Chore("look", "default", "b")
    schedule(redis, later_one, 60)
    schedule(redis, LOOK)
    assert queue_due(redis) == ["look"]
    assert taken(redis, LOOK)
    # As if all this had happened when the clock was an hour ahead.
    for key, chore in ((Shared.chores_due(), later_one), (Shared.chores_held(), LOOK)):
        redis.zincrby(key, 3600, chore.field)
    redis.incrbyfloat(Shared.queued_at(), 3600)
    assert queue_due(redis) == []
    assert 50 < due_in(redis, later_one) <= 61
    held = redis.zscore(Shared.chores_held(), LOOK.field)
    assert held is not None
    assert 0 < float(held) - redis.time()[0] <= LEASE_SECONDS + 1


@dataclass
class Chances:
    """Workers and callers that act at random; ``asked`` are the tasks that did not begin since they were asked for."""

    redis: Redis
    draw: random.Random
    asked: set[Chore] = field(default_factory=set)
    running: dict[Chore, str] = field(default_factory=dict)

    def ask(self) -> None:
        kind, tenant, name = self.draw.choice(KINDS[:2]), self.draw.choice(("a", "a:b", "c")), self.draw.choice("xyz")
        self.asked.add(chore := Chore(kind, tenant, name))
        schedule(self.redis, chore)

    def take(self) -> None:
        kind = self.draw.choice(KINDS[:2])
        waiting = queued(self.redis, kind)
        if waiting and self.draw.random() < 0.1:  # the worker ends before the task begins
            self.redis.lpop(queue_key(queue_of(kind)))
        elif waiting and taken(self.redis, waiting[0], owner := f"w{self.draw.random()}"):
            self.running[waiting[0]] = owner
            self.asked.discard(waiting[0])

    def end(self) -> None:
        if not self.running:
            return
        chore, owner = self.running.popitem()
        match self.draw.choice(("done", "later", "lost", "expired")):
            case "done":
                assert done(self.redis, chore, owner)
                return
            case "later":
                assert later(self.redis, chore, owner)
            case "lost":
                assert owner_ended(self.redis, owner) == [chore.field]
            case _:
                expire(self.redis, chore)
        self.asked.add(chore)

    def finish(self) -> None:
        """Everything is done, as if time had passed."""
        for chore, owner in self.running.items():
            done(self.redis, chore, owner)
        while left := [key for key in (Shared.chores_due(), Shared.chores_held()) if self.redis.exists(key)]:
            for key in left:
                for member in cast(list[bytes], self.redis.zrange(key, 0, -1)):
                    self.redis.zadd(key, {member: 1.0})
            for kind in queue_due(self.redis):
                chore = taken_next(self.redis, kind)
                self.asked.discard(chore)
                assert done(self.redis, chore, "w")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_whatever_happens_every_chore_is_done_after_it_was_last_asked_for(redis: Redis, seed: int) -> None:
    chances = Chances(redis, random.Random(seed))
    steps = (chances.ask, chances.ask, chances.take, chances.end, lambda: queue_due(redis))
    for _ in range(300):
        chances.draw.choice(steps)()
        for kind in KINDS[:2]:
            tenants = [chore.tenant for chore in queued(redis, kind)]
            assert len(set(tenants)) == len(tenants)
    chances.finish()
    assert chances.asked == set()
    assert redis.keys("calibrant::chore*") == []
