"""``make image-digests``: pin the images that others publish by the digest of their tag, wherever they are named.

A tag that its publisher moves then changes nothing here. The digest is that of the index of all platforms.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

#: Every file that names such an image, and must name the same one.
FILES = (
    "docker/Dockerfile",
    "docker-compose.yml",
    ".env.example",
    "deploy/kubernetes/components/redis/redis.yaml",
)
_IMAGE = re.compile(r"\b((?:python|redis):\d+\.\d+\.\d+-[\w.-]+)(@sha256:[0-9a-f]{64})?")
_COMMANDS = {
    "skopeo": ["inspect", "--format", "{{.Digest}}", "docker://docker.io/library/{image}"],
    "crane": ["digest", "docker.io/library/{image}"],
    "docker": ["buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", "docker.io/library/{image}"],
}


def digest(image: str) -> str:
    """The digest that the registry has for a tag now, by the first tool of this machine that can look it up."""
    tool = next((name for name in _COMMANDS if shutil.which(name)), None)
    if tool is None:
        raise SystemExit(f"image-digests needs one of {', '.join(_COMMANDS)}")
    command = [tool, *(part.replace("{image}", image) for part in _COMMANDS[tool])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    found = ran.stdout.strip()
    if ran.returncode != 0 or not re.fullmatch(r"sha256:[0-9a-f]{64}", found):
        raise SystemExit(f"no digest of {image}; nothing was changed\n{' '.join(command)}\n{ran.stderr.strip()}")
    return found


def main() -> None:
    """Look up every digest, then write the files."""
    parser = argparse.ArgumentParser(prog="make image-digests")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="The repository.")
    paths = [parser.parse_args().root / name for name in FILES]
    texts = {path: path.read_text("utf-8") for path in paths}
    images = sorted({found[1] for text in texts.values() for found in _IMAGE.finditer(text)})
    digests = {image: digest(image) for image in images}
    for path, text in texts.items():
        path.write_text(_IMAGE.sub(lambda found: f"{found[1]}@{digests[found[1]]}", text), encoding="utf-8")
    for image, found in digests.items():
        sys.stdout.write(f"{image}@{found}\n")


if __name__ == "__main__":
    main()
