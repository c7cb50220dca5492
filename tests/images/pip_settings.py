"""Pip's settings on this machine, as a build sees them: a pip.conf, and the folders that it names."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

#: What tells where packages come from; the rest is a matter of taste.
_NAMES = ("index-url", "extra-index-url", "find-links", "trusted-host", "cert", "client-cert", "proxy")


class PipSettings(NamedTuple):
    """The text of a pip.conf, and where each path of this machine stands in the build."""

    text: str
    mounts: dict[Path, str]


def pip_settings() -> PipSettings:
    """Settings of pip's files and variables; local paths are renamed, so that nothing of a build hides under them."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    return of_listing(listed)


def of_listing(listed: str) -> PipSettings:
    """The settings that ``pip config list`` tells; a variable stands after the files and wins over them."""
    options: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, text = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in ("global", "install", ":env:") and option in _NAMES:
            # Printed as a Python string: line breaks are written as \n.
            options[option] = " ".join(shlex.split(text)[0].replace("\\n", " ").split())
    mounts: dict[Path, str] = {}
    lines = ["[global]"]
    for option, text in options.items():
        lines.append(f"{option} = {' '.join(_renamed(part, mounts) for part in text.split())}")
    return PipSettings("\n".join(lines) + "\n", mounts)


def _renamed(part: str, mounts: dict[Path, str]) -> str:
    """A word of a setting, in which a path that is there is another.

    Of an index in a folder the parent is mounted: its links lead out of it.
    """
    is_url = part.startswith("file://")
    path = Path(urlsplit(part).path if is_url else part)
    if not path.is_absolute() or not path.exists():
        return part
    root = path.parent if is_url else path
    inside = mounts.setdefault(root, f"/run/pip/{len(mounts)}")
    return f"file://{inside}/{path.name}" if is_url else inside
