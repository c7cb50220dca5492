"""Chores: queued once, done at least once, given back when a worker ends."""

from __future__ import annotations

from collections.abc import Callable

from redis import Redis

from backend.store.census import take_census
from backend.store.chores import Chore, begin, done, forget, later, owner_ended, queue_due, queue_of, renew, schedule
from backend.store.jobs.queues import message_key, queue_key
from backend.store.keyspace import Shared

LOOK = Chore("look", "default", "a")
QUEUE = queue_key(queue_of("look"))


def taken(redis: Redis, chore: Chore, owner: str = "w") -> int:
    """As a worker takes the next message."""
    assert redis.lpop(queue_key(queue_of(chore.kind))) == chore.message.encode()
    return begin(redis, chore, owner)


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


def test_a_chore_has_one_message_however_often_it_is_asked_for(redis: Redis) -> None:
    for _ in range(5):
        schedule(redis, LOOK)
        assert queue_due(redis) == ["look"]
        expire(redis, LOOK)  # nobody takes it for long
        assert queue_due(redis) == ["look"]
    assert redis.lrange(QUEUE, 0, -1) == [LOOK.message.encode()]


def test_what_is_asked_for_later_waits_and_the_soonest_counts(redis: Redis) -> None:
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


def test_a_chore_that_is_asked_for_while_it_is_done_is_done_once_more(redis: Redis) -> None:
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
