from __future__ import annotations

import pytest
from redis.exceptions import AuthenticationError, OutOfMemoryError, ResponseError

from backend.store.server.connection import UNAVAILABLE, connect, connect_async, error_name, refusal_of, safe_url
from backend.store.server.redis_url import UnreadableUrl, read_url

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://", "redis://localhost:6379/0"),
        (f"redis://:{SECRET}@host", "redis://host:6379/0"),
        (f"redis://user:{SECRET}@[::1]:7000/3", "redis://[::1]:7000/3"),
        (f"rediss://host/1?ssl_ca_certs=/ca.pem&password={SECRET}", "rediss://host:6379/1"),
        (f"unix://:{SECRET}@/run/redis.sock?db=2", "unix:///run/redis.sock"),
        (f"redis+sentinel://u:{SECRET}@one,two:7,[::1]:8/mymaster/4", "redis+sentinel://one:26379,two:7,[::1]:8/mymaster/4"),
        (f"rediss+sentinel://one/m?sentinel_password={SECRET}", "rediss+sentinel://one:26379/m/0"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_its_secrets(url: str, text: str) -> None:
    assert safe_url(url) == text
    assert read_url(url).has_secret is (SECRET in url)
    assert SECRET not in repr(read_url(url))


def test_credentials_databases_and_options_are_read() -> None:
    place = read_url("rediss+sentinel://us%40er:p%2F%23%3Aw@a,b/m/2?ssl_check_hostname=false&sentinel_username=s")
    tls = {"ssl_check_hostname": False}
    assert place.options == {"username": "us@er", "password": "p/#:w", "db": 2} | tls
    assert place.sentinel_options == {"username": "s"} | tls
    assert (place.service, place.hosts) == ("m", (("a", 26379), ("b", 26379)))
    assert read_url("unix:///s?db=2").options["db"] == 2


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://", {}),
        ("REDIS://Host:7", {"host": "host", "port": 7}),
        ("redis://u%40:p%2F%23%3A%20@[::1]/3", {"username": "u@", "password": "p/#: ", "host": "::1", "db": 3}),
        ("redis://host/3?db=4&password=x", {"host": "host", "db": 4, "password": "x"}),
        (
            "rediss://host?ssl_cert_reqs=none&ssl_check_hostname=no",
            {"host": "host", "ssl_cert_reqs": "none", "ssl_check_hostname": False},
        ),
        ("unix://:p@/run/a%20b.sock?db=2", {"path": "/run/a b.sock", "password": "p", "db": 2}),
    ],
)
def test_blocking_and_plain_pools_have_the_options_of_the_url(url: str, expected: dict[str, object]) -> None:
    for pool in (connect(url).connection_pool, connect_async(url).connection_pool):
        options = pool.connection_kwargs
        assert {name: options.get(name) for name in expected} == expected
        assert pool.connection_class.__name__.startswith("SSL") is url.startswith("rediss")


@pytest.mark.parametrize(
    "url",
    [
        "", "redis", "http://host", f"redis://:{SECRET}/x@host", f"redis://:{SECRET}?x@host", f"redis://:{SECRET}#x@host",
        f"redis://host:{SECRET}", f"redis://host/{SECRET}", f"redis://host/0/{SECRET}", "redis://one,two",
        f"redis://host?{SECRET}=1", f"redis://host?db={SECRET}", "redis://host?ssl_ca_certs=/x",
        f"redis://host?sentinel_password={SECRET}", "redis+sentinel://one,two", "redis+sentinel://one,/m", "unix://",
        "unix://host/path", "rediss://host?ssl_check_hostname=perhaps", "rediss://host?ssl_cert_reqs=never",
        f"redis://[{SECRET}", "redis://host:99999", "redis://host?retry_on_error=x",
    ],
)  # fmt: skip
def test_a_url_that_names_no_store_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(UnreadableUrl) as refused:
        connect(url)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert safe_url(url) == "an invalid URL"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ResponseError("MISCONF Errors writing to the AOF file"), "MISCONF"),
        (OutOfMemoryError("command not allowed", status_code="OOM"), "OOM"),
        (ResponseError("NOREPLICAS Not enough good replicas to write."), "NOREPLICAS"),
    ],
)
def test_a_temporary_error_of_redis_is_an_outage(error: ResponseError, kind: str) -> None:
    refusal = refusal_of(error)
    assert isinstance(refusal, UNAVAILABLE)
    assert error_name(refusal) == kind


def test_an_error_of_a_redis_command_is_not_an_outage() -> None:
    assert refusal_of(ResponseError("WRONGTYPE Operation against a key")) is None
    assert refusal_of(ResponseError("wrong number of arguments", status_code="ERR")) is None


def test_a_logged_error_has_its_type_and_the_message_of_the_system() -> None:
    assert error_name(AuthenticationError(f"{SECRET} is wrong", status_code="WRONGPASS")) == "WRONGPASS"
    assert error_name(ConnectionRefusedError(111, "Connection refused")) == "ConnectionRefusedError: Connection refused"
