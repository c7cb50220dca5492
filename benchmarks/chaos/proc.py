"""Processes from the kernel's tables."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path


def children(pid: int) -> list[int]:
    """The child processes of a process without zombies; none if it has ended."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                pids.extend(map(int, (task / "children").read_text().split()))
    return sorted(child for child in pids if not is_over(child))


def is_over(pid: int) -> bool:
    """Whether a process has ended, zombies included."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def resident(pid: int) -> int:
    """Resident memory of a process in bytes; 0 if it has ended."""
    with contextlib.suppress(OSError):
        line = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return 0 if line is None else int(line[1]) * 1024
    return 0
