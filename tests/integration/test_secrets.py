"""The store's password stands in no process list, log, answer, page or message, whatever goes wrong."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path

import httpx
import pytest
from redis.exceptions import RedisError
from typer.testing import CliRunner, Result

from backend.store.server.connection import connect
from calibrant.cli.main import app
from calibrant.client import Calibrant
from service.stack import stack
from tests.integration.redis_server import ready, redis_server, until

pytestmark = pytest.mark.slow

PASSWORD = "pa55-of-the-store"
P, Y = [0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 0, 1] * 10


def _command_lines() -> bytes:
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(process.read_bytes())
    return b"\n".join(lines)


def _invoke(*arguments: str, **variables: str) -> Result:
    """Run a command in this process, which shows as much of an error as a process of its own."""
    ended = CliRunner().invoke(app, [*arguments], env=variables)
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
    return ended


def _run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "calibrant", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | variables,
    )


def test_a_password_is_nowhere_to_be_read_while_the_store_is_there_and_while_it_is_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with redis_server(tmp_path / "redis") as server, log.open("ab") as file:
        server.tell("CONFIG", "SET", "requirepass", PASSWORD)
        url = server.url.replace("127", f":{PASSWORD}@127")
        running = stack(
            host="127.0.0.1", port=0, data=tmp_path, log=file, redis_url=url, level="debug", log_format="json"
        )
        with running as served, httpx.Client(base_url=served.url, timeout=600) as api:
            until(lambda: ready(api))
            with Calibrant(served.url) as client:
                assert client.fit("pl", client.upload(P, Y).id, timeout=600).method == "pl"
            outputs = [_command_lines()]
            outputs += [api.get(path).content for path in ("/metrics", "/limits", "/docs", "/openapi.json", "/maps")]
            with server.admin(password=PASSWORD) as redis:
                redis.config_set("requirepass", "another-one")
                redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
                redis.execute_command("CLIENT", "KILL", "TYPE", "normal")
            until(lambda: api.get("/health/ready").status_code == 503)
            outputs += [api.get(path).content for path in ("/health/ready", "/maps", "/limits", "/metrics")]
            outputs.append(_command_lines())
    outputs.append(log.read_bytes())
    assert b"-m\0calibrant\0worker" in outputs[0]
    assert b"WRONGPASS" in outputs[-1]
    assert PASSWORD.encode() not in b"".join(outputs)


@pytest.mark.parametrize("end", ["", "/0", "/x", "?y=1", "#z", ":port"])
def test_no_message_of_a_command_repeats_a_password(end: str) -> None:
    url = f"redis://:{PASSWORD}@127.0.0.1:1{end}"
    run = _invoke("keys", "list", CALIBRANT_REDIS_URL=url)
    assert run.exit_code in (1, 2)
    assert PASSWORD not in run.stdout + run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("command", ["api", "worker", "serve"])
def test_no_help_repeats_a_password(command: str) -> None:
    run = _invoke(command, "--help", CALIBRANT_REDIS_URL=f"redis://:{PASSWORD}@127.0.0.1:1")
    assert PASSWORD not in run.stdout + run.stderr


def test_a_password_in_a_flag_is_refused_with_the_way_to_give_it() -> None:
    for command in (("api",), ("worker",), ("serve",), ("keys", "list")):
        refused = _run(*command, "--redis-url", f"redis://:{PASSWORD}@127.0.0.1:1")
        assert refused.returncode == 2
        assert "CALIBRANT_REDIS_URL" in refused.stderr
        assert PASSWORD not in refused.stdout + refused.stderr


def test_a_file_may_hold_the_url_of_the_store(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    with redis_server(tmp_path / "redis", "--requirepass", PASSWORD) as server:
        secret.write_text(server.url.replace("127", f":{PASSWORD}@127") + "\n")
        created = _invoke("keys", "create", "one", "--redis-url-file", str(secret))
        assert created.exit_code == 0, created.stderr
        assert "one" in _invoke("keys", "list", CALIBRANT_REDIS_URL_FILE=str(secret)).stdout
    both = _invoke("keys", "list", CALIBRANT_REDIS_URL_FILE=str(secret), CALIBRANT_REDIS_URL="unix:///nowhere")
    assert both.exit_code == 2
    missing = _run("api", "--redis-url-file", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert PASSWORD not in both.stderr + missing.stderr


def test_no_error_of_the_store_and_no_log_of_one_repeats_a_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with redis_server(tmp_path, "--requirepass", "another") as server:
        for url in (server.url.replace("127", f":{PASSWORD}@127"), f"redis+sentinel://:{PASSWORD}@127.0.0.1:1/m"):
            redis = connect(url)
            with pytest.raises(RedisError) as raised:
                redis.ping()
            shown = "".join(traceback.format_exception(raised.value))
            shown += repr(redis) + repr(redis.connection_pool) + str(raised.value)
            assert PASSWORD not in shown + caplog.text
            redis.close()
