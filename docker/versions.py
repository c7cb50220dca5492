"""The versions that the images are made of: those of this environment, with which the tests ran.

Writes docker/versions.txt, the packages that the service and its workers need, whatever brought them. Torch's own
version stands in constraints-cpu.txt and constraints-gpu.txt.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from requirements import requirements

REPOSITORY = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("versions.txt")
_ASKED = ["dependencies", "arrow", "telemetry", "worker"]


def versions(lines: list[str]) -> dict[str, str]:
    """Name -> version of what the requirements need, and of what that needs."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    left = [(Requirement(line), "") for line in lines]
    while left:
        needed, of_extra = left.pop()
        if needed.marker is not None and not needed.marker.evaluate({"extra": of_extra}):
            continue
        name = canonicalize_name(needed.name)
        there = distribution(name)
        found[name] = there.version
        for extra in {"", *needed.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                left += [(Requirement(line), extra) for line in there.requires or []]
    return found


if __name__ == "__main__":
    found = versions(requirements(REPOSITORY / "pyproject.toml", _ASKED))
    found.pop("torch")
    PAGE.write_text("".join(f"{name}=={found[name]}\n" for name in sorted(found)), encoding="utf-8")
