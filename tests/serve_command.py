"""A process of ``calibrant serve``."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def serve_command(
    command: Sequence[str | Path], log: IO[bytes], *arguments: str | Path, **options: Any
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process of a command that serves on any free port, and the address that it prints; killed if it goes on."""
    whole = [*command, "serve", "--port", "0", *arguments]
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=log, **options)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().decode()
        address = re.search(r"http://\S+?:\d+", line)
        assert address, f"{line}; see {log.name}"
        yield process, address[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
