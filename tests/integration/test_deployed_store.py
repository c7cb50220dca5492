"""The store as docker-compose.yml and the manifests start it, with a server of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError

from tests.images.stores import compose_command, configured_store, kubernetes_command

PASSWORD = "0123456789abcdef0123456789abcdef"

COMMANDS = {"compose": compose_command(), "kubernetes": kubernetes_command()}

deployments = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


@deployments
def test_the_store_asks_for_its_password_which_no_command_line_shows(command: list[str], tmp_path: Path) -> None:
    with configured_store(command, tmp_path, PASSWORD) as store:
        wrong = store.url.replace(PASSWORD, "another")
        with contextlib.closing(Redis.from_url(wrong)) as stranger, pytest.raises(AuthenticationError):
            stranger.ping()
        assert "--appendfsync always" in store.started
        assert PASSWORD not in store.started


@deployments
def test_acknowledged_writes_survive_a_kill(command: list[str], tmp_path: Path) -> None:
    with configured_store(command, tmp_path, PASSWORD) as store, contextlib.closing(Redis.from_url(store.url)) as redis:
        settings = redis.config_get("appendfsync", "maxmemory-policy")
        assert settings == {"appendfsync": "always", "maxmemory-policy": "noeviction"}
        redis.set("kept", "1")
        os.kill(store.process, signal.SIGKILL)
    with configured_store(command, tmp_path, PASSWORD) as store, contextlib.closing(Redis.from_url(store.url)) as redis:
        assert redis.get("kept") == b"1"
