"""Changes of one monitor at the same time: its definition, its reference and its secrets belong together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from redis import Redis

from backend.monitors.definitions import Require, change_monitor, define_monitor
from backend.store.errors import UnknownMonitor
from backend.store.keyspace import Keyspace
from backend.store.monitors.reference import read_reference
from backend.store.store import Store
from calibrant.monitoring.tally import from_bytes
from schemas.base import Document
from schemas.monitors import MonitorBody, MonitorPatch, MonitorRecord, StoredMonitor
from service.callers import LOCAL
from service.context import Context
from service.process import Process
from service.settings import Settings
from tests.integration.responses import patched
from tests.known import known

#: The numbers of rows of the batches that are references.
SIZES = (10, 20)
HOST = "a.example.com"


def batches(api: httpx.Client) -> dict[str, int]:
    """Stored batches of different sizes."""
    rows = {n: {"predictions": [0.25, 0.75] * (n // 2), "labels": [0, 1] * (n // 2)} for n in SIZES}
    return {api.post("/batches", json=body).json()["id"]: n for n, body in rows.items()}


def in_process(redis_url: str, work: Callable[[Context], None]) -> None:
    """Run ``work`` with the context of a request of a running process."""

    async def run() -> None:
        process = Process(Settings(redis_url, webhook_hosts=HOST, store_timeout=60.0))  # on a busy machine too
        async with process.running():
            await asyncio.to_thread(
                work, Context(process, LOCAL, {"state": {"memory": process.memory, "caller": LOCAL}})
            )

    asyncio.run(run())


def change(here: Context, require: Require = lambda _: None, **fields: object) -> MonitorRecord:
    changes = MonitorPatch.model_validate(fields)
    return change_monitor(here, here.targets, "inbox", changes, require)[0]


def meanwhile(work: Callable[[], object]) -> Require:
    """A condition during whose first check something else is done by another thread, from beginning to end."""
    left = [work]

    def require(_: Document | None) -> None:
        if left:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(left.pop()).result()

    return require


def test_a_change_to_the_same_reference_does_not_keep_that_of_another_change(
    api: httpx.Client, store: Store, redis_url: str
) -> None:
    first, second = batches(api)
    monitor = api.post("/monitors", json={"name": "inbox", "reference": {"batch": first}}).json()

    def work(here: Context) -> None:
        other = meanwhile(lambda: change(here, reference={"batch": second}, description="other"))
        changed = change(here, other, reference={"batch": first})
        assert (changed.reference, changed.description) == (made_reference(first), "other")

    in_process(redis_url, work)
    reference = known(read_reference(store.redis, store.keys, monitor["id"]).tally)
    assert len(reference) == SIZES[0]


def made_reference(batch: str) -> object:
    return MonitorPatch.model_validate({"reference": {"batch": batch}}).reference


def test_a_generated_secret_is_kept_by_a_change_at_the_same_time(store: Store, redis_url: str) -> None:
    hook = {"name": "hook", "url": f"https://{HOST}/in"}
    shown: list[str | None] = []

    def work(here: Context) -> None:
        define_monitor(here, here.targets, MonitorBody.model_validate({"name": "inbox"}))

        def add() -> None:
            shown.extend(stored.secret for stored in change(here, hooks=[hook]).hooks)

        change(here, meanwhile(add), hooks=[hook, hook | {"name": "second"}])

    in_process(redis_url, work)
    assert [hook.secret for hook in store.monitors.get("inbox").hooks][:1] == shown


def test_a_change_of_a_monitor_that_is_deleted_and_defined_again_is_of_the_new_one(
    api: httpx.Client, store: Store, redis_url: str
) -> None:
    first, second = batches(api)
    api.post("/monitors", json={"name": "inbox", "reference": {"batch": first}})

    def work(here: Context) -> None:
        def again() -> None:
            here.store.monitors.delete("inbox")
            body = {"name": "inbox", "reference": {"batch": second}, "horizon": 7200}
            define_monitor(here, here.targets, MonitorBody.model_validate(body))

        changed = change(here, meanwhile(again), reference={"batch": first})
        assert changed.horizon == 7200
        reference = known(read_reference(store.redis, store.keys, changed.id).tally)
        assert len(reference) == SIZES[0]
        with pytest.raises(UnknownMonitor):
            change(here, meanwhile(lambda: here.store.monitors.delete("inbox")), reference={"batch": second})

    in_process(redis_url, work)
    assert store.redis.keys("calibrant:default:monitor:*") == []


@pytest.mark.slow
def test_a_definition_is_never_stored_with_the_reference_of_another(api: httpx.Client, redis: Redis) -> None:
    keys, sizes = Keyspace(), batches(api)
    first, second = sizes
    uid = api.post("/monitors", json={"name": "inbox", "reference": {"batch": first}}).json()["id"]
    done = threading.Event()

    def pair() -> tuple[int, int]:
        """The sizes of the reference by the definition and by its tally, read in one transaction."""
        with redis.pipeline() as pipe:
            pipe.hget(keys.monitor_definitions(), "inbox")
            pipe.get(keys.monitor(uid).reference())
            stored, tally = pipe.execute()
        reference = known(StoredMonitor.model_validate_json(stored).record().reference)
        assert reference.batch is not None
        return sizes[reference.batch], len(from_bytes(tally))

    def read() -> set[tuple[int, int]]:
        pairs = {pair()}
        while not done.is_set():
            pairs.add(pair())
        return pairs | {pair()}

    def write(batch: str) -> None:
        for _ in range(30):
            patched(api, "/monitors/inbox", {"reference": {"batch": batch}}).raise_for_status()

    with ThreadPoolExecutor(3) as threads:
        reading = threads.submit(read)
        try:
            list(threads.map(write, [first, second]))
        finally:
            done.set()
        assert reading.result() == {(n, n) for n in SIZES}
