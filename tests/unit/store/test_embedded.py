"""The memory that an embedded store counts on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backend.store.server.embedded import machine_memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({}, MACHINE),
        ({"memory.max": "max\n"}, MACHINE),
        ({"memory.max": "1048576\n"}, 1 << 20),
        ({"memory/memory.limit_in_bytes": "2097152\n"}, 2 << 20),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE),
    ],
)
def test_the_memory_is_that_of_the_container_if_it_has_less_than_the_machine(
    files: dict[str, str], memory: int, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine_memory(tmp_path) == memory
