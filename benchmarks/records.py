"""Records of long benchmarks, which a later run of the same code reuses, and the range of the figures on pages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".calibrant"
_LIBRARY = ROOT / "library" / "calibrant"
#: Packages of the library that compute no figures of these benchmarks.
_NOT_NUMERIC = ("cli", "client", "io", "plots", "reports")

Values = TypeVar("Values", float, npt.NDArray[np.float64])


class ImpossibleFigure(ValueError):
    """A figure that cannot be what it is called, so that no page is written."""


def possible(values: Values, name: str, *, low: float = -1.0, high: float = 1.0) -> Values:
    """Return values unchanged; raise ``ImpossibleFigure`` if any is not in [low, high], or is not a number.

    Calibration errors, distances of maps, Brier scores, frequencies, and their differences are in [-1, 1].

    >>> possible(0.03, "ECE", low=0.0)
    0.03
    """
    outside = ~((np.asarray(values) >= low - 1e-9) & (np.asarray(values) <= high + 1e-9))
    if outside.any():
        first = np.asarray(values)[outside].flat[0]
        raise ImpossibleFigure(f"{name} must be in [{low:g}, {high:g}], but {outside.sum()} of them are not: {first:g}")
    return values


def sources(program: Path) -> list[Path]:
    """Return the files that determine the records of a program: the numeric library, and the program or its package."""
    own = [program] if program.parent == Path(__file__).parent else program.parent.glob("*.py")
    numeric = (f for f in _LIBRARY.rglob("*.py") if f.relative_to(_LIBRARY).parts[0] not in _NOT_NUMERIC)
    return sorted({*own, *numeric})


def version(files: Iterable[Path]) -> str:
    """Return a digest of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def current(name: str, program: str) -> Path:
    """Return the file of the records of a program (its ``__file__``), which other code does not share."""
    path = KEPT / f"{name}-{version(sources(Path(program)))}.jsonl"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def read(path: Path) -> Iterator[Any]:
    """Read the stored records, without lines that a killed run left incomplete."""
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def append(path: Path, record: Any) -> None:
    """Store a record. The line break comes first, so that an incomplete line before does not spoil this one."""
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(record))
