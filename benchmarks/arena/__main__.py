"""All stages: ``python -m benchmarks.arena [FOLDER...]`` with folders of HDF5 files in CalArena's layout, or of NPZ.

Unless a folder has HDF5 files, base models are trained on the data sets that packages ship, into build/arena.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.arena.run import RESULTS

WORLDS = Path("build/arena/worlds")


def main() -> None:
    """Run the stages one after the other; each resumes what it has begun."""
    folders = [Path(name) for name in sys.argv[1:]]
    for folder in folders:
        if not folder.is_dir():
            sys.exit(f"{folder} is not a folder")
    if not any(True for folder in folders for _ in folder.glob("*.h5")):
        run_stage("worlds", WORLDS)
        folders.insert(0, WORLDS)
    run_stage("run", *folders)
    run_stage("page", RESULTS)


def run_stage(stage: str, *arguments: Path | str) -> None:
    """Run a module of this package in a process of its own, which then loads what this stage needs alone."""
    command = [sys.executable, "-m", f"benchmarks.arena.{stage}", *map(str, arguments)]
    subprocess.run(command, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
