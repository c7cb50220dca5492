"""``make image-test``: build the images, run them, post to them, and tell what was seen."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.images.building import Builder
from tests.images.shown import show

_TOOLS = ("buildah", "debootstrap", "unshare", "setpriv", "chroot")


def main() -> None:
    """Build, run, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.images")
    parser.add_argument("--folder", type=Path, default=Path(".images"), help="Where base, layers and images are kept.")
    folder: Path = parser.parse_args().folder.resolve()
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise SystemExit(f"image-test needs {', '.join(missing)}: apt-get install buildah debootstrap")
    if os.geteuid() != 0:
        raise SystemExit("image-test needs root: it mounts, and changes the root of processes")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    builder = Builder(folder)
    base = builder.base()
    images = [builder.build(target) for target in ("api", "worker-cpu", "host")]
    sys.stdout.write(f"base: {base:.0f} s\n")
    for image in images:
        sys.stdout.write(f"{image.name}: {image.seconds:.0f} s, {image.size / 1e6:.0f} MB\n")
    with tempfile.TemporaryDirectory(prefix="calibrant-images-") as run:
        for line in show(builder, *images, folder=Path(run)):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
