"""Bounds of jobs over HTTP, and the delay that a refused caller gets."""

from __future__ import annotations

import contextlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import httpx
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from backend.store.budget import Quotas
from backend.store.clock import now
from backend.store.errors import QueueFull, TooManyJobs
from backend.store.jobs.backlog import (
    FOR_JOB,
    FOR_PLACE,
    KEPT,
    MOST_FOR_JOB,
    MOST_FOR_PLACE,
    NEAR,
    PATIENCE,
    read_ends,
    wait_for_job,
)
from backend.store.keyspace import Keyspace, Shared, new_id
from backend.store.store import Store
from service.settings import Settings
from tests.integration.conftest import claimed, serving, serving_client, submitted
from tests.integration.responses import body_of, code_of

ROWS = {"predictions": [0.1, 0.4, 0.6, 0.9] * 5, "labels": [0, 1, 0, 1] * 5}
ASYNC = {"Prefer": "respond-async"}
MANY = 50


def _api(redis_url: str, **settings: Any) -> contextlib.AbstractContextManager[httpx.Client]:
    """An API without workers, with these settings."""
    return serving_client(Settings(redis_url, **settings))


def _post(http: httpx.Client, **headers: str) -> httpx.Response:
    return http.post("/evaluate", json=ROWS, headers=ASYNC | headers)


def _measured(redis: Redis, *, apart: float, ends: int = 30) -> None:
    """Have jobs ended so many seconds apart, all of which had waited, the last of them now."""
    moment = now().timestamp()
    for i in reversed(range(ends)):
        redis.lpush(Shared.ends("evaluations"), f"{moment - i * apart:.6f} {moment - (i + 1) * apart!r}")


def test_fifty_concurrent_posts_queue_exactly_the_bound_of_the_tenant(redis: Redis, redis_url: str) -> None:
    with _api(redis_url, quota_jobs=10) as api, ThreadPoolExecutor(MANY) as threads:
        answers = list(threads.map(lambda _: _post(api), range(MANY)))
        assert Counter(answer.status_code for answer in answers) == {202: 10, 429: MANY - 10}
        refused = [answer for answer in answers if answer.status_code == 429]
        assert {code_of(answer) for answer in refused} == {(429, "too-many-jobs")}
        assert {answer.headers["Retry-After"] for answer in refused} == {str(FOR_PLACE)}
        # Nothing of a request that was refused is stored.
        assert redis.zcard(Keyspace().batches()) == 10
        assert api.get("/limits").json()["used"]["quota_jobs"] == 10
        queued = [answer.json()["id"] for answer in answers if answer.status_code == 202]
        assert api.post(f"/jobs/{queued[0]}/cancel").status_code == 200
        again = list(threads.map(lambda _: _post(api).status_code, range(5)))
        assert sorted(again) == [202, 429, 429, 429, 429]
    assert redis.keys("*taken-places*") == []


def test_the_bound_of_all_jobs_holds_over_tenants_and_processes(redis: Redis, redis_url: str) -> None:
    key_store = ApiKeyStore(redis)
    keys = [key_store.create(name, tenant=name, scope="write").text for name in ("one", "other")]
    with (
        _api(redis_url, max_queued_jobs=7) as first,
        _api(redis_url, max_queued_jobs=7) as second,
        ThreadPoolExecutor(MANY) as threads,
    ):

        def post(i: int) -> httpx.Response:
            return _post((first, second)[i % 2], Authorization=f"Bearer {keys[i // 2 % 2]}")

        answers = list(threads.map(post, range(MANY)))
        assert Counter(answer.status_code for answer in answers) == {202: 7, 503: MANY - 7}
        refused = [answer for answer in answers if answer.status_code == 503]
        assert {code_of(answer) for answer in refused} == {(503, "queue-full")}
        assert {answer.headers["Retry-After"] for answer in refused} == {str(FOR_PLACE)}
        stores = [Store.of(redis, tenant) for tenant in ("one", "other")]
        unended = {store.keys.tenant: store.charges.queued_jobs() for store in stores}
        assert sum(unended.values()) == redis.scard(Shared.unended()) == 7
        # What has ended makes room for any tenant.
        store = next(store for store in stores if unended[store.keys.tenant])
        store.jobs.cancel(cast(bytes, redis.srandmember(store.keys.unended_jobs())).decode())
        assert post(0).status_code == 202
        assert post(2).status_code == 503
    assert redis.zcard(Shared.taken_places()) == 0


def test_a_bound_of_none_bounds_nothing(redis: Redis, redis_url: str) -> None:
    with _api(redis_url, max_queued_jobs=0, quota_jobs=0) as api:
        assert {_post(api).status_code for _ in range(3)} == {202}


def test_a_request_that_is_refused_for_its_bytes_takes_no_place(redis: Redis, redis_url: str) -> None:
    with _api(redis_url, quota_bytes=10, quota_jobs=1) as api:
        for _ in range(2):
            assert code_of(_post(api)) == (429, "quota-exceeded")
        assert redis.keys("*taken-places*") == []
        gone = api.post("/maps", json={"batch": "batch_gone", "method": "pl"})
        assert code_of(gone) == (422, "unknown-batch-reference")


def test_a_refused_request_may_be_resent_with_its_idempotency_key(redis: Redis, redis_url: str) -> None:
    for bounds in ({"quota_jobs": 1}, {"max_queued_jobs": 1}):
        redis.flushall()
        with _api(redis_url, **bounds) as api:
            first = _post(api, **{"Idempotency-Key": "first"})
            assert _post(api, **{"Idempotency-Key": "second"}).status_code in (429, 503)
            assert _post(api, **{"Idempotency-Key": "first"}).json() == first.json()
            assert api.post(first.headers["Location"] + "/cancel").status_code == 200
            assert body_of(_post(api, **{"Idempotency-Key": "second"}), 202)["id"] != first.json()["id"]


def test_a_job_that_is_known_needs_no_further_place(redis: Redis) -> None:
    store = Store.of(redis, quotas=Quotas(queued_jobs=1, all_jobs=1))
    known = submitted(store)
    store.places.take(known.id)
    with pytest.raises(TooManyJobs):
        store.places.take(new_id("job"))
    assert redis.keys("*taken-places*") == []


def test_a_place_that_its_process_left_behind_is_free_again_after_a_while(redis: Redis) -> None:
    store = Store.of(redis, quotas=Quotas(queued_jobs=1))
    store.places.take("job_left")
    # Asking again for the same job takes no second place.
    store.places.take("job_left")
    with pytest.raises(TooManyJobs):
        store.places.take("job_new")
    for key in (store.keys.taken_places(), Shared.taken_places()):
        for member in cast(list[bytes], redis.zrange(key, 0, -1)):
            redis.zincrby(key, -PATIENCE - 1, member)
    store.places.take("job_new")
    assert redis.zrange(Shared.taken_places(), 0, -1) == [b"default:job_new"]
    store.places.give_back("job_new")
    assert redis.keys("*taken-places*") == []


def test_far_from_the_bounds_no_place_is_written(redis: Redis) -> None:
    for quotas in (Quotas(), Quotas(queued_jobs=NEAR + 1, all_jobs=NEAR + 1)):
        Store.of(redis, quotas=quotas).places.take(new_id("job"))
        assert redis.keys("*taken-places*") == []
    Store.of(redis, quotas=Quotas(queued_jobs=NEAR + 1, all_jobs=NEAR)).places.take(new_id("job"))
    assert redis.zcard(Shared.taken_places()) == redis.zcard(Keyspace().taken_places()) == 1


def test_counts_of_jobs_return_to_zero_after_repeated_ends(redis: Redis, store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(lambda i: submitted(store, kind=("fit", "evaluate")[i % 2]), range(20)))
        assert redis.hgetall(Shared.unended_of("fit")) == {b"default": b"10"}
        list(threads.map(lambda i: store.jobs.cancel(jobs[i // 2].id), range(40)))
    assert redis.keys("calibrant::unended*") == []
    assert redis.scard(store.keys.unended_jobs()) == 0
    # One that was queued before all jobs were counted ends without being counted out.
    old, new = submitted(store), submitted(store)
    redis.srem(Shared.unended(), f"default:{old.id}")
    redis.hincrby(Shared.unended_of("fit"), "default", -1)
    store.jobs.cancel(old.id)
    assert redis.hgetall(Shared.unended_of("fit")) == {b"default": b"1"}
    store.jobs.cancel(new.id)
    assert redis.keys("calibrant::unended*") == []


def test_the_last_ends_of_jobs_that_ran_are_kept(redis: Redis, store: Store) -> None:
    before = now().timestamp()
    for _ in range(KEPT + 3):
        claimed(store, submitted(store).id).succeed({})
    store.jobs.cancel(submitted(store).id)
    ends = read_ends(cast(list[bytes], redis.lrange(Shared.ends("fits"), 0, -1)))
    assert len(ends) == KEPT
    assert all(before - 1 < end.queued <= end.moment < now().timestamp() + 1 for end in ends)
    assert [end.moment for end in ends] == sorted((end.moment for end in ends), reverse=True)


@pytest.mark.parametrize(
    ("apart", "seconds"),
    [
        (20.0, 20),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((0.001, 1), (2.0, 2), (1000.0, MOST_FOR_PLACE))),
    ],
)
def test_retry_after_of_a_refusal_is_the_measured_time_until_a_place_is_free(
    redis: Redis, redis_url: str, apart: float, seconds: int
) -> None:
    _measured(redis, apart=apart)
    for bounds in ({"quota_jobs": 1}, {"max_queued_jobs": 1}):
        with _api(redis_url, **bounds) as api:
            first = _post(api)
            refused = _post(api)
            assert refused.status_code in (429, 503)
            assert seconds <= int(refused.headers["Retry-After"]) <= seconds + 1
            assert api.post(first.headers["Location"] + "/cancel").status_code == 200


def test_a_bound_that_was_lowered_is_waited_for_until_enough_have_ended(redis: Redis) -> None:
    _measured(redis, apart=2.0)
    for tenant in ("default", "other"):
        for _ in range(5):
            submitted(Store.of(redis, tenant))
    store = Store.of(redis, quotas=Quotas(queued_jobs=2, all_jobs=4))
    with pytest.raises(TooManyJobs) as refused:
        store.places.take(new_id("job"))
    # Four of its own must end, and two tenants take turns: eight ends.
    assert 16 <= (refused.value.retry_after or 0) <= 17
    with pytest.raises(QueueFull) as full:
        Store.of(redis, quotas=Quotas(all_jobs=4)).places.take(new_id("job"))
    assert 14 <= (full.value.retry_after or 0) <= 15


def test_retry_after_of_a_job_is_its_measured_time(redis: Redis, redis_url: str) -> None:
    with _api(redis_url) as api:
        unmeasured = _post(api)
        assert unmeasured.headers["Retry-After"] == str(FOR_JOB)
        assert api.post(unmeasured.headers["Location"] + "/cancel").status_code == 200
        _measured(redis, apart=2.0)
        queued = [_post(api) for _ in range(10)]
        seconds = [int(answer.headers["Retry-After"]) for answer in queued]
        assert seconds == pytest.approx([2 * (i + 1) for i in range(10)], abs=1)
        # A job's place is its own, also when others came after it.
        looked = [int(api.get(answer.headers["Location"]).headers["Retry-After"]) for answer in queued]
        assert looked == pytest.approx(seconds, abs=2)
        # The other tenant's one job does not wait for all of these.
        other = Store.of(redis, "other")
        assert wait_for_job(redis, other.keys, submitted(other, kind="evaluate", queue="evaluations")) == pytest.approx(
            4, abs=1
        )
        _measured(redis, apart=30.0, ends=KEPT)
        assert int(_post(api).headers["Retry-After"]) == MOST_FOR_JOB


def test_a_real_worker_is_measured(http: httpx.Client) -> None:
    queued = _post(http)
    assert 1 <= int(queued.headers["Retry-After"]) <= MOST_FOR_JOB
    ended = http.get(queued.headers["Location"], headers={"Prefer": "wait=600"})
    assert ended.json()["status"] == "succeeded"
    assert "Retry-After" not in ended.headers
    text = http.get("/metrics").text
    rate = next(line for line in text.splitlines() if line.startswith("calibrant_queue_throughput{"))
    assert float(rate.rpartition(" ")[2]) > 0


def test_a_run_of_each_kind_of_job_has_its_own_time_limit(store: Store, redis_url: str) -> None:
    with _api(redis_url, fit_timeout=7, evaluate_timeout=9) as api:
        evaluation = _post(api)
        fit = api.post("/maps", json=ROWS | {"method": "platt"}, headers=ASYNC)
    queued = [store.jobs.get(answer.json()["id"]) for answer in (evaluation, fit)]
    assert [(job.timeout, job.queue) for job in queued] == [(9, "evaluations"), (7, "fits")]


def test_a_map_of_many_levels_may_make_as_many_bytes_as_a_body(redis: Redis, redis_url: str) -> None:
    rows = {"mean": [0.5 * i for i in range(60)], "variance": [1.0] * 60, "prediction_kind": "regression"}
    fit = {"method": "quantile-recalibration", "output_levels": [0.01 * i for i in range(1, 100)], "name": "wide"}
    with serving(Settings(redis_url, max_unpacked_bytes=100_000)) as url:
        httpx.post(f"{url}/maps", json={**rows, "observed": rows["mean"], **fit}, timeout=600).raise_for_status()
        assert httpx.post(f"{url}/calibrate", json={**rows, "map": "wide"}, timeout=600).status_code == 200
        many = rows | {"mean": [0.0] * 200, "variance": [1.0] * 200, "map": "wide"}
        calls = (("calibrate", many), ("evaluate", many | {"observed": [0.5] * 200}))
        answers = [httpx.post(f"{url}/{path}", json=body, timeout=600) for path, body in calls]
    for refused in answers:
        assert (refused.status_code, refused.json()["type"]) == (413, "/problems/too-large")
        assert refused.json()["detail"].startswith("the map makes 158,400 bytes of these forecasts")


def test_a_fit_of_many_levels_is_a_job_and_of_more_is_refused(redis: Redis, redis_url: str) -> None:
    centre = [0.001 * i for i in range(20_000)]
    rows = {"mean": centre, "variance": [1.0] * 20_000, "observed": centre, "prediction_kind": "regression"}
    levels = [0.0009 * i for i in range(1, 1001)]
    fit = rows | {"method": "quantile-recalibration", "output_levels": levels}
    with _api(redis_url) as api:
        assert api.post("/maps", json=fit).status_code == 202
        refused = api.post("/maps", json=fit | {"output_levels": [*levels, 0.95]})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/output_levels")
