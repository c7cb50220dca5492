"""Source that is generated from the code of another package, in the format of the project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: A file in the folder of the client, whose rules of ruff apply.
_FILE = Path("library/calibrant/client/generated.py")


def formatted(text: str, rules: str) -> str:
    """Correct what violates these rules of ruff, such as unsorted or unused imports, and format the text."""
    for options in (["check", "--select", rules, "--fix", "--quiet"], ["format"]):
        command = [sys.executable, "-m", "ruff", *options, "--stdin-filename", str(_FILE), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return text
