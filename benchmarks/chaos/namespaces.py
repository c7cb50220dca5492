"""Machines as network namespaces, each with its own link to one switch, which can be cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from benchmarks.chaos.cluster import Site

#: From the block reserved for network tests (RFC 2544).
_NETWORK = "198.18.77"
_HERE = f"{_NETWORK}.1"


class NamespaceSwitch:
    """A switch in this machine's namespace, so that the harness reaches all, and a namespace per name."""

    def __init__(self, names: Sequence[str]) -> None:
        # Interface names have at most 15 bytes; other runs on this machine need different names.
        self._tag = f"c{os.getpid() % 100_000}"
        self._names = list(names)
        self.sites = {
            name: Site(f"{_NETWORK}.{10 + i}", (_ip(), "netns", "exec", self._namespace(name)))
            for i, name in enumerate(self._names)
        }

    def make(self) -> None:
        """Create everything; raises ``PermissionError`` if that is not allowed."""
        _run("link", "add", self._tag, "type", "bridge")
        _run("address", "add", f"{_HERE}/24", "dev", self._tag)
        _run("link", "set", self._tag, "up")
        for name in self._names:
            namespace, near, far = self._namespace(name), self._cable(name), "eth0"
            _run("netns", "add", namespace)
            _run("link", "add", near, "type", "veth", "peer", "name", far, "netns", namespace)
            _run("link", "set", near, "master", self._tag)
            _run("link", "set", near, "up")
            _run("-n", namespace, "address", "add", f"{self.sites[name].host}/24", "dev", far)
            for interface in (far, "lo"):
                _run("-n", namespace, "link", "set", interface, "up")

    def cut(self, name: str) -> None:
        """Cut a link."""
        _run("link", "set", self._cable(name), "down")

    def mend(self, name: str) -> None:
        """Restore a link."""
        _run("link", "set", self._cable(name), "up")

    def remove(self) -> None:
        """Remove everything; a link is removed with its namespace."""
        namespaces = [("netns", "delete", self._namespace(name)) for name in self._names]
        for arguments in (*namespaces, ("link", "delete", self._tag)):
            with contextlib.suppress(PermissionError):  # it was not created
                _run(*arguments)

    def _namespace(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _cable(self, name: str) -> str:
        return f"{self._tag}-{self._names.index(name)}"


@contextlib.contextmanager
def network(names: Sequence[str]) -> Iterator[NamespaceSwitch]:
    """A network as a context manager; raises ``PermissionError`` if none can be created."""
    switch = NamespaceSwitch(names)
    try:
        switch.make()
        yield switch
    finally:
        switch.remove()


def _ip() -> str:
    return shutil.which("ip") or "ip"


def _run(*arguments: str) -> None:
    try:
        done = subprocess.run([_ip(), *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError as error:
        raise PermissionError("iproute2 is not installed (Debian: apt-get install iproute2)") from error
    if done.returncode:
        raise PermissionError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
