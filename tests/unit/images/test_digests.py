"""``make image-digests`` with a command in the place of skopeo, since no registry can be reached from a test."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
FILES = ("docker/Dockerfile", "docker-compose.yml", ".env.example", "deploy/kubernetes/components/redis/redis.yaml")
ANSWERS = """#!/bin/sh
echo "sha256:$(printf '%s' "$4" | sha256sum | cut -d ' ' -f 1)"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / "root" / name)
    return tmp_path / "root"


def _run(root: Path, skopeo: str | None) -> subprocess.CompletedProcess[str]:
    tools = root.parent / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sha256sum", "cut"):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(str(shutil.which(name)))
    if skopeo is not None:
        (tools / "skopeo").write_text(skopeo)
        (tools / "skopeo").chmod(0o755)
    command = [sys.executable, str(REPOSITORY / "docker/digests.py"), "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": str(tools)}, check=False)


def _named(root: Path) -> dict[str, set[str]]:
    """File -> images of others that it names, with their digests."""
    image = re.compile(r"\b(?:python|redis):\d+\.\d+\.\d+-[\w.-]+(?:@sha256:[0-9a-f]{64})?")
    return {name: set(image.findall((root / name).read_text("utf-8"))) for name in FILES}


def test_every_image_gets_the_digest_of_its_tag_in_every_file(root: Path) -> None:
    tags = {name: {image.partition("@")[0] for image in images} for name, images in _named(root).items()}
    assert all(tags.values())
    ran = _run(root, ANSWERS)
    assert ran.returncode == 0, ran.stderr

    def pinned(tag: str) -> str:
        return f"{tag}@sha256:{hashlib.sha256(f'docker://docker.io/library/{tag}'.encode()).hexdigest()}"

    wanted = {name: {pinned(tag) for tag in of_image} for name, of_image in tags.items()}
    assert _named(root) == wanted
    assert set(ran.stdout.split()) == set.union(*wanted.values())
    # Again, with other answers: digests are replaced, not added.
    assert _run(root, ANSWERS.replace("'%s'", "'x%s'")).returncode == 0
    again = _named(root)
    assert {name: {image.partition("@")[0] for image in images} for name, images in again.items()} == tags
    assert not any(again[name] & wanted[name] for name in FILES)


@pytest.mark.parametrize(
    ("skopeo", "message"),
    [(None, "image-digests needs one of"), ("#!/bin/sh\necho unreachable >&2\nexit 1\n", "unreachable")],
)
def test_a_file_is_not_changed_without_a_digest(root: Path, skopeo: str | None, message: str) -> None:
    before = _named(root)
    ran = _run(root, skopeo)
    assert ran.returncode == 1
    assert message in ran.stderr
    assert _named(root) == before
