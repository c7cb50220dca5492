"""Building the images by buildah, which needs no container engine, on a base that debootstrap makes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.images.pip_settings import pip_settings

REPOSITORY = Path(__file__).parents[2]
BASE = "localhost/calibrant-base"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Image(NamedTuple):
    """A built image: seconds that its build took, uncompressed bytes in all and of the base, and its configuration."""

    name: str
    seconds: float
    size: int
    config: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        """What the image sets."""
        return dict(variable.split("=", 1) for variable in self.config["Env"])

    @property
    def command(self) -> list[str]:
        """What a container of it runs."""
        return [*self.config["Entrypoint"], *self.config["Cmd"]]

    @property
    def health_check(self) -> list[str]:
        """The command that tells whether a container is well."""
        kind, *command = self.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return [str(part) for part in command]


@dataclass(frozen=True)
class Builder:
    """A store of images in a folder of its own."""

    folder: Path

    def base(self) -> float:
        """Make the base from the distribution's packages, unless it is there; give the seconds."""
        started = time.monotonic()
        if BASE + ":latest" in self._buildah("images", "--format", "{{.Name}}:{{.Tag}}").split():
            return 0.0
        tree = self.folder / "base"
        shutil.rmtree(tree, ignore_errors=True)
        packages = "--include=python3,python3-venv,ca-certificates"
        _run("debootstrap", "--variant=minbase", packages, "bookworm", str(tree))
        for unused in ("var/cache/apt", "var/lib/apt/lists"):  # which published bases do not have either
            shutil.rmtree(tree / unused)
            (tree / unused).mkdir()
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", container, str(tree), "/")
        self._buildah("config", "--env", f"PATH={_PATH}", container)
        self._buildah("commit", "--quiet", "--rm", container, BASE)
        return time.monotonic() - started

    def build(self, target: str) -> Image:
        """Build one target of docker/Dockerfile, on this machine's settings of pip."""
        name = f"localhost/calibrant/{target}"
        settings = pip_settings()
        secret = self.folder / "pip.conf"
        secret.touch(mode=0o600)
        secret.write_text(settings.text, encoding="utf-8")
        mounts = [part for path, inside in settings.mounts.items() for part in ("--volume", f"{path}:{inside}:ro")]
        arguments = ["--build-arg", f"BASE={BASE}", "--secret", f"id=pip,src={secret}", *mounts]
        started = time.monotonic()
        self._buildah(
            "bud", "--isolation", "chroot", "--format", "docker", "--layers", *arguments,
            "--target", target, "--tag", name, "--file", "docker/Dockerfile", str(REPOSITORY),
        )  # fmt: skip
        seconds = time.monotonic() - started
        return Image(name, seconds, self.size(name), self._inspected(name)["Docker"]["config"])

    def size(self, name: str) -> int:
        """Bytes of the files of an image, where each layer counts in full."""
        with self.mounted(name) as root:
            return int(_run("du", "--summarize", "--bytes", str(root)).split()[0])

    @contextlib.contextmanager
    def mounted(self, name: str) -> Iterator[Path]:
        """The root file system of a new container of an image."""
        container = self._buildah("from", name).strip()
        try:
            yield Path(self._buildah("mount", container).strip())
        finally:
            self._buildah("rm", container)

    def _inspected(self, name: str) -> dict[str, Any]:
        image: dict[str, Any] = json.loads(self._buildah("inspect", "--type", "image", name))
        return image

    def _buildah(self, *arguments: str) -> str:
        where = ["--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run")]
        return _run("buildah", "--storage-driver", _driver(), *where, *arguments)


def _driver() -> str:
    """How layers are stored: on top of each other where the kernel can, else each as a copy."""
    driver = os.environ.get("STORAGE_DRIVER")
    if driver is not None:
        return driver
    return "overlay" if "\toverlay\n" in Path("/proc/filesystems").read_text("utf-8") else "vfs"


def _run(*command: str) -> str:
    ran = subprocess.run(list(command), capture_output=True, text=True, cwd=REPOSITORY, check=False)
    if ran.returncode != 0:
        # What went wrong stands at the end of a log.
        raise SystemExit(f"{command[0]} ended with status {ran.returncode}:\n{(ran.stdout + ran.stderr)[-4000:]}")
    return ran.stdout
