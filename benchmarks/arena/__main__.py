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
    run_stage("run", *with_worlds(folders))
    run_stage("page", RESULTS)


def with_worlds(folders: list[Path], *options: str) -> list[Path]:
    """The folders, and one with base models that are trained now, by options of this stage, if none has HDF5 files."""
    if any(True for folder in folders for _ in folder.glob("*.h5")):
        return folders
    run_stage("worlds", WORLDS, *options)
    return [WORLDS, *folders]


def run_stage(stage: str, *arguments: Path | str) -> None:
    """Run a module of this package in a process of its own, which then loads what this stage needs alone."""
    command = [sys.executable, "-m", f"benchmarks.arena.{stage}", *map(str, arguments)]
    subprocess.run(command, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
