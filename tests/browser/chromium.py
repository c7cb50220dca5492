"""The Chromium that the tests drive: which one it is, and how it is started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import BrowserType

#: Names the binary; it comes before whatever is on PATH.
VARIABLE = "TEST_CHROMIUM"
#: The shell takes a third less processor time than the whole browser; Playwright too prefers it.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
HOW = (
    "there is no Chromium for the tests of the page: install one by `apt-get install chromium-headless-shell` or "
    f"by `.venv/bin/playwright install chromium`, or name its binary in {VARIABLE}"
)
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class NoChromium(Exception):
    """No Chromium was found; the words say how to get one."""

    def __init__(self) -> None:
        super().__init__(HOW)


def find_chromium(own: BrowserType) -> Path:
    """The binary that the variable names, or one on PATH, or Playwright's own; raises ``NoChromium``."""
    named = os.environ.get(VARIABLE)
    path = named if named else next(filter(None, map(shutil.which, NAMES)), own.executable_path)
    if not os.access(path, os.X_OK):
        raise NoChromium
    return Path(path)


def flags() -> list[str]:
    """What it is started with; its sandbox does not work for root."""
    return [*_FLAGS, "--no-sandbox"] if os.geteuid() == 0 else list(_FLAGS)
