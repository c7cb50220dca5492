"""``make licences``: docs/reference/licences.md, the licence that each locked package states in its metadata.

Asks pip for the metadata of every entry of every lock, also of those that no marker installs here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs/reference/licences.md"
IMAGES = ("api", "worker-cpu", "worker-gpu")
NOT_STATED = "not stated"
_LOCKS = (*IMAGES, "build", "dev")
_CONSTRAINTS = {"worker-cpu": "constraints-cpu.txt", "worker-gpu": "constraints-gpu.txt", "dev": "constraints-cpu.txt"}
_HEADER = """# Licences

Made by `make licences` from the [locks](../how-to/deploy.md#supply-chain). A package's licence is what its own metadata
states; the text is in its `*.dist-info` folder. Packages that only some
platforms or Python versions need are listed too.

The images also contain Python (PSF-2.0) and the packages of their Debian base, whose licences are in
`/usr/share/doc/*/copyright`. Swagger UI and htmx are part of this repository
([their licences](../../service/assets/README.md)). Redis is an image of its own; version 7.4 is under RSALv2 or SSPLv1.

"""


def locked() -> dict[tuple[str, str], list[str]]:
    """(Package, version) -> the locks that have it; torch, which is in none, from its constraints."""
    texts = {lock: (REPOSITORY / "locks" / f"{lock}.txt").read_text("utf-8") for lock in _LOCKS}
    for lock, constraints in _CONSTRAINTS.items():
        texts[lock] += (REPOSITORY / constraints).read_text("utf-8")
    found = defaultdict(list)
    for lock, text in texts.items():
        for name, pinned in re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, re.MULTILINE):
            found[name, pinned].append(lock)
    return dict(sorted(found.items()))


def stated(expression: str | None, text: str | None, classifiers: Sequence[str]) -> str:
    """The licence of a package: its SPDX expression, or else its own words if short, or else its classifiers."""
    if expression:
        return expression
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: ")]
    short = text is not None and 0 < len(text) <= 60 and "\n" not in text
    if text and short and len(named) < 2:
        return text
    return ", ".join(named) or NOT_STATED


def page(licences: dict[tuple[str, str], str]) -> str:
    """The page, with the packages of the images first."""
    shipped, others = [], []
    for (name, pinned), locks in locked().items():
        begin = f"| {name} | {pinned} | {licences[name, pinned]} |"
        if set(locks) & set(IMAGES):
            shipped.append(begin + "".join(" yes |" if image in locks else " |" for image in IMAGES))
        else:
            others.append(begin)
    columns = "| package | version | licence |"
    lines = ["## In the images", "", f"{columns} {' | '.join(IMAGES)} |", "|---|---|---|---|---|---|", *shipped]
    lines += ["", "## For building and development alone", "", columns, "|---|---|---|", *others]
    return _HEADER + "\n".join(lines) + "\n"


def _looked_up() -> dict[tuple[str, str], str]:
    """The licences by pip's report of what it would install if markers did not count."""
    if int(version("pip").split(".")[0]) < 25:
        raise SystemExit("an older pip reports no licence expressions: run make install")
    versions = locked()
    with tempfile.TemporaryDirectory() as folder:
        requirements, report = Path(folder) / "requirements.txt", Path(folder) / "report.json"
        requirements.write_text("".join(f"{name}=={pinned}\n" for name, pinned in versions))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += ["--only-binary", ":all:", "--report", str(report), "--requirement", str(requirements)]
        subprocess.run(command, check=True)  # noqa: S603
        metadata = [install["metadata"] for install in json.loads(report.read_text("utf-8"))["install"]]
    found = {
        re.sub(r"[-_.]+", "-", one["name"]).lower(): stated(
            one.get("license_expression"), one.get("license"), one.get("classifier", [])
        )
        for one in metadata
    }
    return {(name, pinned): found[name] for name, pinned in versions}


if __name__ == "__main__":
    PAGE.write_text(page(_looked_up()), encoding="utf-8")
