"""What pyproject.toml asks for, one requirement a line: ``dependencies``, or the extra of a name.

A layer made from these lines is made anew only when one of them changes.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(project: Path, names: list[str]) -> list[str]:
    """The requirements of each name, in order."""
    told = tomllib.loads(project.read_text("utf-8"))["project"]
    groups = {"dependencies": told["dependencies"], **told["optional-dependencies"]}
    return [line for name in names for line in groups[name]]


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(Path("pyproject.toml"), sys.argv[1:])) + "\n")
