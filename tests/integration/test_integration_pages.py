"""The pages of docs/how-to, as a reader follows them."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

import calibrant
from backend.store.api_keys import ApiKeyStore
from calibrant.client import Calibrant
from service.app import create_app
from service.settings import Settings
from service.stack import Stack
from tests.known import known

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _steps(page: Path) -> list[tuple[str, str, str]]:
    """Commands with the kind and text of what follows them."""
    blocks = _BLOCK.findall(page.read_text("utf-8"))
    return [
        (text, kind, output)
        for (shell, text), (kind, output) in itertools.pairwise(blocks)
        if shell == "sh" and kind in ("json", "text")
    ]


def _without_ids(text: str) -> str:
    return re.sub(r"map_[0-9a-f]{30}", "map_...", text)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_commands_of_the_page_of_the_protocol_print_the_shown_answers(service: Stack, tmp_path: Path) -> None:
    page = PAGES / "inference-protocol.md"
    steps = _steps(page)
    assert len(steps) == page.read_text("utf-8").count("```sh\n") == 6
    for command, kind, expected in steps:
        here = command.replace("localhost:8000", service.url.removeprefix("http://"))
        run = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", here], cwd=tmp_path, capture_output=True, text=True, timeout=600
        )
        assert run.returncode == 0, run.stderr
        said = _without_ids(run.stdout)
        if kind == "json":
            assert json.loads(said) == json.loads(expected), command
        else:
            assert said.rstrip() == expected.rstrip(), command


@pytest.fixture(scope="module")
def transformer() -> ModuleType:
    """The example, read from its file; KServe itself is imported only where it serves."""
    spec = known(importlib.util.spec_from_file_location("kserve_transformer", PAGES / "kserve_transformer.py"))
    module = importlib.util.module_from_spec(spec)
    known(spec.loader).exec_module(module)
    return module


RANDOM = np.random.default_rng(5)
PROBS = RANDOM.dirichlet([0.5] * 3, 400)
LABELS = RANDOM.integers(0, 3, 400)


@pytest.mark.parametrize("name", ["transformer-vector", "transformer-event", "transformer-bounds"])
def test_a_transformer_answers_calibrated_probabilities(
    service: Stack, client: Calibrant, transformer: ModuleType, name: str
) -> None:
    many = name == "transformer-vector"
    predictions, labels = (PROBS, LABELS) if many else (PROBS[:, 1], (LABELS == 1).astype(int))
    method = {"transformer-vector": "temperature", "transformer-event": "platt", "transformer-bounds": "venn-abers"}
    stored = client.fit(method[name], client.upload(predictions, labels).id, name=name)
    expected = calibrant.load(stored.document).apply(predictions)

    async def ask() -> tuple[Any, Any, Any]:
        column = predictions if many else predictions[:, None]
        answered = {"predictions": predictions.tolist(), "model": "kept"}
        asked = transformer.Calibrant.of({"CALIBRANT_URL": service.url, "CALIBRANT_MODEL": name})
        async with asked.http:
            return await asked.calibrate(predictions), await asked.calibrate(column), await asked.calibrate_v1(answered)

    plain, column, older = asyncio.run(ask())
    np.testing.assert_array_equal(plain, expected)
    np.testing.assert_array_equal(column, expected)
    assert older == {"predictions": expected.tolist(), "model": "kept"}


@pytest.mark.parametrize(
    ("model", "message"), [("nothing", "404: there is no such model"), ("a b/c", "404: there is no such endpoint")]
)
def test_a_transformer_fails_with_the_message_of_the_service(
    service: Stack, transformer: ModuleType, model: str, message: str
) -> None:
    async def ask() -> None:
        async with httpx.AsyncClient(base_url=service.url, timeout=600) as http:
            await transformer.Calibrant(http, model).calibrate(PROBS)

    with pytest.raises(RuntimeError, match=message):
        asyncio.run(ask())


def test_a_transformer_sends_the_key_of_its_environment(transformer: ModuleType, redis_url: str, redis: Redis) -> None:
    key = ApiKeyStore(redis).create("transformer", tenant="a", scope="read").text

    async def calibrate(environment: dict[str, str]) -> None:
        app = create_app(Settings(redis_url=redis_url))  # of this event loop, as its link to the store is
        client = transformer.Calibrant.of({"CALIBRANT_URL": "http://any", "CALIBRANT_MODEL": "x"} | environment)
        here = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://any", headers=client.http.headers)
        async with app.router.lifespan_context(app), client.http, here:
            await transformer.Calibrant(here, "x").calibrate(PROBS)

    for environment, client in (({}, "401"), ({"CALIBRANT_API_KEY": key}, "404: there is no such model")):
        with pytest.raises(RuntimeError, match=client):
            asyncio.run(calibrate(environment))
