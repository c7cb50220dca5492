from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.clock import stamp
from backend.store.keyspace import new_id
from backend.store.store import Store
from calibrant.client import Calibrant, ProblemResponse
from schemas.jobs import JobRecord, Progress
from tests.integration.conftest import claimed

P, Y = np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 0, 1, 1])


class Breaking:
    """A proxy that cuts its first connections: the first after it passed the request on, the others amid the answer."""

    def __init__(self, upstream: tuple[str, int], listener: socket.socket, cuts: list[int]) -> None:
        self._upstream, self._listener, self._cuts = upstream, listener, cuts
        self.connections = 0

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                self.connections += 1
                most = self._cuts.pop(0) if self._cuts else None
                threading.Thread(target=self._pass_on, args=(caller, most), daemon=True).start()

    def _pass_on(self, caller: socket.socket, most: int | None) -> None:
        """Pass a connection on; cut it after ``most`` bytes of answer."""
        with caller, socket.create_connection(self._upstream) as server, contextlib.suppress(OSError):
            threading.Thread(target=_pump, args=(caller, server), daemon=True).start()
            passed = 0
            while received := server.recv(65536):
                portion = received if most is None else received[: most - passed]
                caller.sendall(portion)
                passed += len(portion)
                if most is not None and passed >= most:
                    caller.shutdown(socket.SHUT_RDWR)
                    return


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while received := source.recv(65536):
            sink.sendall(received)


@contextlib.contextmanager
def _broken(api: httpx.Client, cuts: list[int]) -> Iterator[tuple[Calibrant, Breaking]]:
    """A client whose connections are cut after so many bytes of answer, one after the other, and then no more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Breaking((api.base_url.host, api.base_url.port or 80), listener, cuts)
        thread = threading.Thread(target=proxy.run)
        thread.start()
        with Calibrant(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
            yield client, proxy
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _submitted(store: Store) -> JobRecord:
    job = JobRecord(id=new_id("job"), kind="fit", status="queued", created_at=stamp(), ttl=60, spec={})
    return store.jobs.submit(job)


def test_a_request_resent_after_a_broken_connection_runs_once(api: httpx.Client, redis: Redis) -> None:
    with _broken(api, [1, 10]) as (client, proxy):
        batch = client.upload(P, Y, ttl=60)
        assert proxy.connections == 3
    assert [b["id"] for b in api.get("/batches").json()["items"]] == [batch.id]
    with _broken(api, [1, 10]) as (client, _):
        assert client.append(batch.id, P, Y).n == 8
        assert client.append(batch.id, P, Y).n == 12
        assert client.append(batch.id, P, Y, key="a").n == 16
        assert client.append(batch.id, P, Y, key="a").n == 16


def test_events_are_taken_up_where_a_connection_broke(api: httpx.Client, store: Store) -> None:
    job = _submitted(store)
    run = claimed(store, job.id)
    for done in range(20):
        run.report(Progress(done=done + 1, total=20))
    # Cut within the headers, within the first event, and within a later one.
    with _broken(api, [20, 400, 2000]) as (client, proxy), ThreadPoolExecutor(1) as threads:
        events = client.events(job.id)
        first = [next(events) for _ in range(22)]
        threads.submit(run.succeed, {"map": "map_x"})
        seen = first + list(events)
        assert proxy.connections == 4
    assert [event.job.progress.done for event in seen] == [0, 0, *range(1, 21), 20]
    assert len({event.id for event in seen}) == len(seen)
    assert seen[-1].job.status == "succeeded"
    with Calibrant(str(api.base_url)) as client:
        assert list(client.events(job.id, after=seen[-1].id)) == []
        assert list(client.events(job.id, after=seen[9].id)) == seen[10:]


def test_jobs_are_listed_across_pages_and_cancelled(api: httpx.Client, store: Store) -> None:
    ids = [_submitted(store).id for _ in range(130)]
    with Calibrant(str(api.base_url)) as client:
        assert client.cancel(ids[0]).status == "cancelled"
        assert sorted(job.id for job in client.jobs()) == sorted(ids)
        assert [job.id for job in client.jobs(status="cancelled")] == [ids[0]]
        for refused in (client.cancel, client.job, lambda job: list(client.events(job))):
            with pytest.raises(ProblemResponse) as caught:
                refused("job_unknown")
            assert caught.value.problem.type == "/problems/unknown-job"
