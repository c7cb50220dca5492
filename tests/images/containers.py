"""Processes in the root file system of an image, as a container engine would start them.

The root is read-only, /tmp alone is not, and nothing there can be executed; the process is the first of its own list of
processes, an unprivileged user that can gain nothing, and knows nothing of this machine beyond its options.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.chaos.proc import children
from tests.images.building import Image

USER = 10001
_START = """
set -eu
root=$1; user=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777,size=1g,noexec,nosuid,nodev tmpfs "$root/tmp"
mount -o remount,bind,ro "$root"
cd /
exec setpriv --no-new-privs chroot --userspec="$user:$user" "$root" "$@"
"""


@dataclass(frozen=True)
class Container:
    """An image's root file system, with the variables that its processes see, and their user."""

    image: Image
    root: Path
    variables: Mapping[str, str]
    user: int = USER

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self._arguments(command), env=self._environment, capture_output=True, text=True, timeout=600, check=False
        )

    def is_well(self) -> bool:
        """Whether the image's own health check says so."""
        return self.run(*self.image.health_check).returncode == 0

    @contextlib.contextmanager
    def started(self, log: IO[bytes], *arguments: str) -> Iterator[Started]:
        """The image's own command, or its entry point with arguments; what still runs at the end is killed."""
        command = [*self.image.config["Entrypoint"], *arguments] if arguments else self.image.command
        process = subprocess.Popen(
            self._arguments(command), env=self._environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield Started(process)
        finally:
            process.kill()
            process.wait()

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.image.environment, **self.variables}

    def _arguments(self, command: tuple[str, ...] | list[str]) -> list[str]:
        separate = ["/usr/bin/unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return [*separate, "/bin/sh", "-c", _START, "sh", str(self.root), str(self.user), *command]


@dataclass(frozen=True)
class Started:
    """A process that stands for a container, and in it the first one."""

    outer: subprocess.Popen[bytes]

    def first(self) -> int:
        """Number of the first process, as this machine counts."""
        (first,) = children(self.outer.pid)
        return first

    def command_lines(self) -> str:
        """The command lines of all its processes."""
        namespace = os.readlink(f"/proc/{self.first()}/ns/pid")
        lines = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "ns" / "pid") == namespace:
                    lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return "\n".join(lines)

    def user(self) -> int:
        """Whom the first process runs as."""
        return os.stat(f"/proc/{self.first()}").st_uid

    def stop(self, *, patience: float) -> int:
        """Tell the first process to end, as an engine does; give its status."""
        os.kill(self.first(), signal.SIGTERM)
        return self.outer.wait(patience)
