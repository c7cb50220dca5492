"""Each Lua script, run by a real store from its own file."""

from __future__ import annotations

import json
import struct
from typing import Any, cast

from redis import Redis

from backend.store.server.connection import SCRIPTS, Script

#: KEYS of every script of chores.
CHORES = ("due", "held", "owners", "tries", "counts", "placed", "lines", "clock", "api-keys", "supervisors")
#: KEYS of the scripts of one line.
LINE = ("fronts", "work", "line", "taken", "queue", "wake")
TASK = "look:default:uid"
#: Other ARGV of ``chores/queue``, up to the fields of a message.
QUEUEING = (30, 1000, 20, 1, 300, 1, "chores-", "message:", "queue:", "queues", 2, 4, "supervisor:")


def test_every_script_has_a_test() -> None:
    parts = {"chores/common", "chores/owned", "queues/common"}
    files = {f"{path.parent.name}/{path.stem}" for path in SCRIPTS.glob("*/*.lua")} - parts
    assert [name for name in files if f"test_{name.replace('/', '_')}" not in globals()] == []


def test_a_script_is_sent_without_its_comments() -> None:
    assert "--" in (SCRIPTS / "leases" / "renew.lua").read_text("utf-8")
    assert "--" not in Script("leases/renew").text
    assert Script("leases/renew").text.startswith("#!lua flags=allow-oom\n")


# --- Chores


def _seconds(redis: Redis, key: str) -> float:
    """Seconds from now until the time of the task."""
    return float(redis.zscore(key, TASK) or 0.0) - int(redis.time()[0])


def _chore(redis: Redis, name: str, *arguments: Any, owned: bool = False) -> Any:
    names = ("chores/common", *(["chores/owned"] if owned else []), f"chores/{name}")
    return Script(*names).run(redis, CHORES, *arguments)


def _begun(redis: Redis) -> None:
    _chore(redis, "ask", TASK, 0)
    _chore(redis, "queue", *QUEUEING, "func", "f")
    assert _chore(redis, "begin", TASK, "me", 30, "message:x") == 1


def test_chores_ask(redis: Redis) -> None:
    _chore(redis, "ask", TASK, 50)
    _chore(redis, "ask", TASK, 100)
    assert 0 < _seconds(redis, "due") <= 51


def test_chores_forget(redis: Redis) -> None:
    _chore(redis, "ask", TASK, 50)
    redis.hset("tries", TASK, 3)
    _chore(redis, "forget", TASK)
    assert (redis.exists("due"), redis.exists("tries")) == (0, 0)


def test_chores_queue(redis: Redis) -> None:
    for uid in ("a", "b"):
        _chore(redis, "ask", f"look:default:{uid}", 0)
    _chore(redis, "queue", *QUEUEING, "func", "f")
    [message] = cast(list[bytes], redis.lrange("queue:chores-look", 0, -1))
    assert bytes.fromhex(message.decode()) in (b"look:default:a", b"look:default:b")
    assert redis.hget(b"message:" + message, "func") == b"f"
    assert (redis.smembers("queues"), redis.zcard("lines:look:default")) == ({b"queue:chores-look"}, 1)


def test_chores_begin(redis: Redis) -> None:
    _begun(redis)
    assert redis.hgetall("owners") == {TASK.encode(): b"me"}
    assert _chore(redis, "begin", TASK, "another", 30, "message:x") == 0


def test_chores_renew(redis: Redis) -> None:
    _begun(redis)
    assert _chore(redis, "renew", TASK, "another", 300, owned=True) == 0
    assert _seconds(redis, "held") <= 31
    assert _chore(redis, "renew", TASK, "me", 300, owned=True) == 1
    assert _seconds(redis, "held") > 31


def test_chores_done(redis: Redis) -> None:
    _begun(redis)
    assert _chore(redis, "done", TASK, "another", "", owned=True) == 0
    assert _chore(redis, "done", TASK, "me", "60", owned=True) == 1
    assert (redis.exists("held", "owners", "tries"), redis.hgetall("counts")) == (0, {b"look:done": b"1"})
    assert 0 < _seconds(redis, "due") <= 61


def test_chores_later(redis: Redis) -> None:
    _begun(redis)
    assert _chore(redis, "later", TASK, "another", 100, 300, 1, owned=True) == 0
    assert _chore(redis, "later", TASK, "me", 100, 300, 1, owned=True) == 1
    assert (redis.exists("held", "owners"), redis.hgetall("counts")) == (0, {b"look:failed": b"1"})
    assert 0 < _seconds(redis, "due") <= 101


# --- Budgets, idempotency keys and leases


def test_budget_measure(redis: Redis) -> None:
    redis.mset({"calibrant:a:x": "1" * 1000, "calibrant:b:x": "1", "other": "1"})
    cursor, *counted = Script("budget/measure").run(redis, (), 0, 500)
    sizes = dict(zip(counted[::2], map(int, counted[1::2]), strict=True))
    assert (cursor, set(sizes)) == (b"0", {b"a", b"b"})
    assert sizes[b"a"] > 1000 > sizes[b"b"] > 0


def test_idempotency_renew(redis: Redis) -> None:
    redis.set("lease", "me", ex=10)
    assert Script("idempotency/renew").run(redis, ["lease"], "another", 100) == 0
    assert redis.ttl("lease") <= 10
    assert Script("idempotency/renew").run(redis, ["lease"], "me", 100) == 1
    assert redis.ttl("lease") > 10


def test_leases_renew(redis: Redis) -> None:
    redis.hset("leases", "job", "1 me 0")
    assert Script("leases/renew").run(redis, ["leases"], "job", "1 another ", 7) == 0
    assert Script("leases/renew").run(redis, ["leases"], "job", "1 me ", 7) == 1
    assert redis.hget("leases", "job") == b"1 me 7"


def test_recovery_lead(redis: Redis) -> None:
    lead = Script("recovery/lead")
    assert [lead.run(redis, ["leader"], name, 20) for name in ("a", "b", "a")] == [1, 0, 1]
    redis.set("leader", "a", ex=1000)  # the clock of the store was set back
    assert lead.run(redis, ["leader"], "b", 20) == 1


# --- Jobs


def test_backlog_ended(redis: Redis) -> None:
    for queued in (1.5, 2.5, 3.5):
        Script("backlog/ended").run(redis, ["ends"], queued, 2)
    assert [entry.split()[1] for entry in redis.lrange("ends", 0, -1)] == [b"3.5", b"2.5"]


def test_backlog_take(redis: Redis) -> None:
    keys = ("job", "unended", "taken", "all-unended", "all-taken")
    take = Script("backlog/take")
    assert [take.run(redis, keys, f"t:{job}", job, 2, 0, 120, 1000) for job in "abca"] == [
        [0, 0],
        [0, 0],
        [1, 0],
        [0, 0],
    ]
    redis.set("job", "known")
    assert take.run(redis, keys, "t:c", "c", 2, 0, 120, 1000) == [0, 0]


def _begun_job(redis: Redis) -> None:
    redis.zadd("taken", {"a": 1})
    redis.zadd("all-taken", {"t:a": 1})
    for _ in range(2):
        keys = ("unended", "taken", "all-unended", "all-taken", "tenants", "since")
        Script("backlog/begin").run(redis, keys, "a", "t")


def test_backlog_begin(redis: Redis) -> None:
    _begun_job(redis)
    assert (redis.smembers("unended"), redis.smembers("all-unended")) == ({b"a"}, {b"t:a"})
    assert (redis.exists("taken", "all-taken"), redis.hgetall("tenants"), redis.exists("since")) == (0, {b"t": b"1"}, 1)


def test_backlog_end(redis: Redis) -> None:
    _begun_job(redis)
    for _ in range(2):
        Script("backlog/end").run(redis, ("unended", "all-unended", "tenants"), "a", "t")
        assert redis.exists("unended", "all-unended", "tenants") == 0


def test_runs_hold(redis: Redis) -> None:
    redis.hset("batch", "n", 4)
    redis.expire("batch", 100)
    Script("runs/hold").run(redis, ("batch", "holds"), "job", "expires")
    assert (redis.ttl("batch"), redis.smembers("holds")) == (-1, {b"job"})
    Script("runs/hold").run(redis, ("missing", "other-holds"), "job", "expires")
    assert redis.exists("other-holds") == 0


def test_runs_release(redis: Redis) -> None:
    redis.hset("batch", "n", 4)
    redis.expire("batch", 100)
    for job in ("a", "b"):
        Script("runs/hold").run(redis, ("batch", "holds"), job, "expires")
    Script("runs/release").run(redis, ("batch", "holds"), "a", "expires")
    assert redis.ttl("batch") == -1
    Script("runs/release").run(redis, ("batch", "holds"), "b", "expires")
    assert (0 < redis.ttl("batch") <= 100, redis.hgetall("batch")) == (True, {b"n": b"4"})


def test_runs_note(redis: Redis) -> None:
    redis.set("part", json.dumps({"run": 1}))
    note, keys = Script("runs/note"), ("part", "shares", "gate")
    assert note.run(redis, keys, 2, 0, "0.5", 60_000) is None
    assert note.run(redis, keys, 1, 0, "0.5", 60_000) == [b"0.5"]
    assert note.run(redis, keys, 1, 1, "0.25", 60_000) == []
    assert redis.hgetall("shares") == {b"0": b"0.5", b"1": b"0.25"}


def _line(redis: Redis, name: str, *arguments: Any) -> Any:
    return Script("queues/common", f"queues/{name}").run(redis, LINE, *arguments)


def _entered(redis: Redis) -> None:
    for message, seconds, front in (("slow", 50, 0), ("quick", 1, 0), ("first", 60, 1)):
        assert _line(redis, "enter", message, "t:fits", "t", seconds, front) == 1


def test_queues_enter(redis: Redis) -> None:
    _entered(redis)
    assert _line(redis, "enter", "slow", "t:fits", "t", 50, 0) == 0
    assert redis.zrange("line", 0, -1) == [b"first", b"quick", b"slow"]
    assert (redis.lrange("queue", 0, -1), redis.hgetall("fronts")) == ([b"first"], {b"t:fits": b"first"})


def test_queues_leave(redis: Redis) -> None:
    _entered(redis)
    _line(redis, "leave", "first", "t:fits")
    assert redis.lrange("queue", 0, -1) == [b"quick"]
    for message in ("quick", "slow"):
        _line(redis, "leave", message, "t:fits")
    assert redis.exists("queue", "fronts", "line", "taken") == 0


def test_queues_replace(redis: Redis) -> None:
    _entered(redis)
    redis.delete("queue")
    assert _line(redis, "replace", "quick", "t:fits") == 1
    assert redis.lrange("queue", 0, -1) == [b"first"]
    assert _line(redis, "replace", "unknown", "t:fits") == 0


def test_queues_take(redis: Redis) -> None:
    own = ("of:t|line|fits", "of:t|taken|fits", "q:fits", "w:fits")
    enter = Script("queues/common", "queues/enter")
    enter.run(redis, ("fronts", "work", *own), "m1", "t:fits", "t", 5, 0)
    keys = ("fronts", "work", "workers", "tenants", "api-keys")
    names = ("fits", "fits", "q:", "w:", "of:", "|line|", "|taken|")
    take = Script("queues/common", "queues/take")
    assert take.run(redis, keys, "me", *names) == [b"fits", b"m1"]
    assert (redis.hgetall("tenants"), redis.hget("fronts", "t:fits")) == ({b"me": b"t"}, b"")
    assert take.run(redis, keys, "me", *names) is None
    assert redis.exists("tenants") == 0


# --- Monitors


def test_definitions_note(redis: Redis) -> None:
    Script("definitions/note").run(redis, ["deleted"], "t:uid")
    assert redis.smembers("deleted") == {b"t:uid"}


def test_audit_append(redis: Redis) -> None:
    script, keys = Script("audit/append"), ("ids", "entries", "routine", "serial", "order")
    for number in range(4):
        script.run(redis, keys, 3, 86_400_000, "aaaaaaaa", number % 2, f'{{"n":{number}}}')
    ids = cast(list[bytes], redis.zrange("ids", 0, -1))
    assert ids == sorted(ids)
    entries = [json.loads(entry or b"")["n"] for entry in cast(list["bytes | None"], redis.hmget("entries", ids))]
    assert entries == [0, 2, 3]  # of two routine entries, the older one made room
    assert (redis.zrange("routine", 0, -1), redis.get("serial")) == (ids[2:], b"4")
    assert redis.zrange("order", 0, -1, withscores=True) == [(ids[0], 1.0), (ids[1], 3.0), (ids[2], 4.0)]


def test_standings_append(redis: Redis) -> None:
    Script("standings/append").run(redis, ("journal", "state"), "serial", 2, "a", "b", "c")
    assert redis.zrange("journal", 0, -1) == [b"2 b", b"3 c"]
    assert redis.hget("state", "serial") == b"3"


def test_buckets_drop(redis: Redis) -> None:
    for before in (5, 3):
        Script("buckets/drop").run(redis, ["state"], before)
        assert redis.hget("state", "dropped") == b"5"


def test_buckets_cover(redis: Redis) -> None:
    redis.zadd("buckets", {str(bucket): bucket for bucket in (1, 4, 5, 6, 7, 8, 9)})
    spans, single = Script("buckets/cover").run(redis, ("buckets", "state"), 1, 8, 4)
    assert (_doubles(spans), _doubles(single)) == ((1.0,), (1.0, 8.0))
    redis.hset("state", "dropped", 5)  # the list of span 1 still has the rows of bucket 4
    spans, single = Script("buckets/cover").run(redis, ("buckets", "state"), 1, 8, 4)
    assert (_doubles(spans), _doubles(single)) == ((), (1.0, 4.0, 5.0, 6.0, 7.0, 8.0))


def _doubles(packed: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(packed) // 8}d", packed)


def test_buckets_versions(redis: Redis) -> None:
    redis.hset("generations", "raw:7", 3)
    redis.rpush("raw-7", "a", "b")
    redis.hset("counts-7", mapping={"predictions": 9, "joined": 5, "expired": 1})
    packed = Script("buckets/versions").run(redis, ["generations"], "raw", "raw-", "counts-", 7, 8)
    assert _doubles(packed) == (3.0, 2.0, 9.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    packed = Script("buckets/versions").run(redis, ["generations"], "raw", "raw-", "", 7)
    assert _doubles(packed) == (3.0, 2.0, 0.0, 0.0, 0.0)


def test_buckets_compact(redis: Redis) -> None:
    keys = ("list", "generations", "loose", "state")
    redis.rpush("list", "a", "b", "c")
    redis.hset("generations", "raw:7", 1)
    redis.hset("state", "generations", 1)
    redis.sadd("loose", "raw:7")
    compact = Script("buckets/compact")
    assert compact.run(redis, keys, "raw:7", 9, 3, "abc") == 0
    assert compact.run(redis, keys, "raw:7", 1, 4, "abc") == 0
    assert compact.run(redis, keys, "raw:7", 1, 3, "abc") == 1
    assert (redis.lrange("list", 0, -1), redis.hget("generations", "raw:7"), redis.exists("loose")) == (
        [b"abc"],
        b"2",
        0,
    )


def test_ledger_groups(redis: Redis) -> None:
    groups = Script("ledger/groups")
    assert groups.run(redis, ("uids", "groups"), "uid", 2, 2, "a") is None
    redis.hset("uids", "uid", "name")
    assert groups.run(redis, ("uids", "groups"), "uid", 2, 2, "a", "b", "c", "a") == [2, 3, 1, 2]


def test_ledger_commit(redis: Redis) -> None:
    keys = (
        *("uids", "ids", "slots", "new-ids", "old-ids", "state", "totals", "buckets", "generations", "loose"),
        *("row-buckets", "recent", "list-7", "counts-7"),
    )

    def commit(change: str, expected: str, entries: str, uid: str = "uid") -> Any:
        plan = {
            "once": [change, 300],
            "max_ids": 10,
            "slot": 1,
            "fresh": 0 if expected else 2,
            "totals": {"predictions": 2},
        }
        plan |= {
            "lists": [["raw", 7, 1]],
            "buckets": [7],
            "counts": [{"predictions": 2}],
            "long": [64, 32],
            "first": 1.5,
        }
        packed = ("ab", "1", expected, "2" if expected else "", entries, "2", "chunk")
        return Script("ledger/commit").run(redis, keys, uid, json.dumps(plan), *packed, b"tally")

    assert commit("one", "", "xxyy") == [b"gone"]
    redis.hset("uids", "uid", "name")
    assert commit("one", "", "xxyy") == [b"done", [], 0]
    assert commit("one", "", "xxyy") == [b"done", [], 0]  # sent again by a broken connection
    assert (redis.hgetall("ids"), redis.lrange("list-7", 0, -1)) == ({b"a": b"xx", b"b": b"yy"}, [b"tally"])
    assert (redis.hgetall("counts-7"), redis.hget("totals", "predictions")) == ({b"predictions": b"2"}, b"2")
    assert (redis.hget("state", "first"), redis.zrange("buckets", 0, -1)) == (b"1.500", [b"7"])
    assert commit("two", "", "zzzz") == [b"conflict", [0, 1], [b"xx", b"yy"]]
    assert commit("three", "xxyy", "zzzz") == [b"done", [], 0]
    assert redis.hget("ids", "a") == b"zz"
