"""Every command and example of the guide for auditors, with keys of the scopes that it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from calibrant.client import Calibrant
from service.settings import Settings
from tests.integration.conftest import serving

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "audit.md"
_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"calibrant keys create (\w+)((?: --scope [a-z:]+)+)")


@pytest.fixture
def keys(redis: Redis) -> dict[str, str]:
    """The keys of the guide, and their texts."""
    created = _KEY.findall(GUIDE.read_text("utf-8"))
    store = ApiKeyStore(redis)
    scopes = {name: " ".join(scope.replace("--scope", "").split()) for name, scope in created}
    return {name: store.create(name, tenant="default", scope=scope).text for name, scope in scopes.items()}


@pytest.fixture
def url(keys: dict[str, str], redis_url: str) -> Iterator[str]:
    with serving(Settings(redis_url, webhook_hosts="siem.example.com")) as url:
        yield url


@pytest.mark.slow
def test_the_guide_answers_the_questions_of_an_auditor(
    url: str, keys: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(keys) == {"training", "approver", "auditor", "admin"}
    tokens = {f"{name.upper()}_KEY": text for name, text in keys.items()}
    environment = os.environ | tokens | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    blocks = _BLOCK.findall(GUIDE.read_text("utf-8"))
    assert [kind for kind, *_ in blocks] == ["sh", "sh", "python", "python", "sh", "sh"]
    with Calibrant(url, api_key=keys["auditor"]) as auditor:
        names: dict[str, object] = {"auditor": auditor}
        for kind, text, printed in blocks:
            here = text.replace("http://localhost:8000", url).replace("localhost:8000", url.removeprefix("http://"))
            if kind == "python":
                exec(compile(here, str(GUIDE), "exec"), names)
                output = capsys.readouterr().out
            else:
                run = ["bash", "-euo", "pipefail", "-c", here]
                done = subprocess.run(
                    run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
                )
                assert done.returncode == 0, done.stderr
                output = done.stdout
            assert '"/problems/' not in output, output
            for line in printed.splitlines():
                assert re.search(f"^{'.*'.join(map(re.escape, line.split('...')))}$", output, re.MULTILINE), output
    assert len((tmp_path / "audit.jsonl").read_text("utf-8").splitlines()) == 2
