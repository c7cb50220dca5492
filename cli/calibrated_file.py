"""Calibrated probabilities as a file: beside the columns that they came from, where those are text."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cli.bars import bar
from cli.exits import Refused
from cli.output import opened, plain
from cli.rows import name_of

if TYPE_CHECKING:
    from calibrant.cells import Floats

#: How a file that is written may end.
FORMS = (".csv", ".tsv", ".txt", ".npz")
_COLUMN = "calibrated"
#: Rows that are written at once.
_BLOCK = 1 << 14


def write_calibrated(
    source: BinaryIO, file: Path, calibrated: Floats, classes: Sequence[str] | None, out: Path
) -> None:
    """Write ``calibrated`` (n,) or (n, K); after the columns of ``source`` where it is text; raises ``Refused``.

    ``file`` is what the source is called, ``classes`` are the names of its classes.
    """
    if out.suffix.lower() == ".npz":
        import numpy as np

        with opened(out) as npz:
            np.savez(npz, allow_pickle=False, calibrated=calibrated)
        return
    from tabular.bounds import Bounds
    from tabular.csv_table import CsvTable
    from tabular.kinds import open_table

    with open_table(source, name_of(file), Bounds()) as table:
        text = table if isinstance(table, CsvTable) else None
        separator = "\t" if out.suffix.lower() == ".tsv" else "," if text is None else text.separator
        header = [] if text is None else [column.name for column in table.columns]
        rows = chain(() if text is None else text.rows(), repeat([]))
        with opened(out) as written, bar() as shown:
            written.write(_lines([header + _names(header, calibrated, classes)], separator))
            columns = calibrated.reshape(len(calibrated), -1)
            for at in range(0, len(columns), _BLOCK):
                block = columns[at : at + _BLOCK].tolist()
                # The shortest digits that are read as the same number again.
                lines = [old + [repr(p) for p in new] for old, new in zip(islice(rows, len(block)), block, strict=True)]
                written.write(_lines(lines, separator))
                shown(at + len(block), len(columns), "writing")


def _names(header: Sequence[str], calibrated: Floats, classes: Sequence[str] | None) -> list[str]:
    """The names of the new columns, none of which may be there already."""
    if calibrated.ndim == 1:
        names = [_COLUMN]
    else:
        told = classes if classes is not None else map(str, range(calibrated.shape[1]))
        names = [f"{_COLUMN}_{name}" for name in told]
    for name in names:
        if name in header:
            raise Refused(f"the file has a column '{plain(name)}' already: rename it")
    return names


def _lines(rows: Sequence[Sequence[str]], separator: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    # Bytes of other columns that are no UTF-8 were read as lone surrogates, and are written as they were.
    return text.getvalue().encode("utf-8", "surrogateescape")
