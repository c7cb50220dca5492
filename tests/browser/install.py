"""Install Chromium for the tests of the page if there is none; if that fails, say how to install it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from playwright.sync_api import sync_playwright

from tests.browser.chromium import VARIABLE, NoChromium, find_chromium


def _is_there() -> bool:
    with sync_playwright() as playwright:
        try:
            find_chromium(playwright.chromium)
        except NoChromium:
            return False
        return True


def _ways() -> list[list[str]]:
    """The commands that install one, the best first: the distribution's comes with the libraries that it needs.

    None mends a variable that names what is not there.
    """
    if os.environ.get(VARIABLE):
        return []
    ways = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    apt_get = shutil.which("apt-get")
    if apt_get is not None and os.geteuid() == 0:
        # Another program may be installing something; on a machine that is new there may be no list of packages yet.
        wait = ("-o", "DPkg::Lock::Timeout=300")
        install = [apt_get, *wait, "install", "-y", "--no-install-recommends", "chromium-headless-shell"]
        ways = [install, [apt_get, *wait, "update"], install, *ways]
    return ways


def main() -> int:
    """Install one unless one is there; the exit status."""
    for way in _ways():
        if _is_there():
            return 0
        print("no Chromium yet:", " ".join(way), file=sys.stderr)  # noqa: T201
        subprocess.run(way, check=False)
    if _is_there():
        return 0
    print(NoChromium(), file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main())
