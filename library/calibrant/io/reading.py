"""Read a person's file: what kind it is by its content, which column is what, and the arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from calibrant.evaluation import MAX_GROUPS
from calibrant.io.bounds import MAX_BYTES, Bounds
from calibrant.io.columns import Chosen, check_scale, choose
from calibrant.io.errors import MissingValue, TooManyGroups, WrongShape
from calibrant.io.kinds import open_table
from calibrant.io.labels import Classes, read_labels
from calibrant.io.source import opened
from calibrant.io.table import Asked, Coded, Sheet, Table, Values
from calibrant.io.texts import quoted, row_of, span

__all__ = ["Asked", "Sheet", "read_sheet"]


def read_sheet(
    source: Path | BinaryIO,
    *,
    name: str,
    asked: Asked = Asked(),  # noqa: B008 - frozen
    max_rows: int | None,
    labelled: bool = True,
    max_bytes: int = MAX_BYTES,
    heavy: Callable[[], None] | None = None,
    spool: Callable[[int], None] | None = None,
) -> Sheet:
    """Read a CSV, NPZ, NPY, Parquet or Arrow file, also one packed by gzip or Zstandard.

    Parameters
    ----------
    source
        A path, or a stream, which stays open; one that can seek is read from its beginning.
    name
        What the person calls the file: for messages and, where the content does not say it, the kind.
    asked
        What is not to be guessed.
    max_rows, max_bytes
        More rows, or more bytes once unpacked, are refused. None is no limit of rows but that of 1e8 numbers.
    labelled
        Whether labels are needed. Where not, none are looked for: a column of them is read only if asked for.
    heavy
        Called before more than 1 MiB is unpacked or read; a ``CalibrationError`` that it raises ends the reading.
    spool
        Called with the size that a temporary file is about to have; a ``CalibrationError`` ends the reading as well.

    Raises
    ------
    TabularError
        What is wrong, in words for the person, next to which field; nothing else is raised for any content.
    """
    bounds = Bounds(rows=max_rows, bytes=max_bytes, heavy=heavy, spool=spool)
    with opened(source, bounds) as file, open_table(file, name, bounds) as table:
        chosen = choose(table.columns, asked, labelled=labelled)
        return _sheet(table, chosen, asked, table.read(chosen.places))


def _sheet(table: Table, chosen: Chosen, asked: Asked, values: Values) -> Sheet:
    names = [table.columns[at].name for at in chosen.places.predictions]
    predictions = values.predictions
    _check_shapes(values)
    said = check_scale(predictions, asked.scale, span(names))
    classes = _classes(table, chosen, asked, values)
    return Sheet(
        predictions,
        None if classes is None else classes.labels,
        values.weights,
        None if values.groups is None else _groups(values.groups, table, chosen),
        asked.scale,
        None if classes is None else classes.names,
        (*table.said, *chosen.said, *(() if classes is None else classes.said), *said),
    )


def _check_shapes(values: Values) -> None:
    """Raise ``WrongShape`` for columns that are not of one length, which arrays of an archive may be."""
    n = len(values.predictions)
    lengths = {
        "labels": None if values.labels is None else len(values.labels.codes),
        "weights": None if values.weights is None else len(values.weights),
        "groups": None if values.groups is None else len(values.groups.codes),
    }
    for field, length in lengths.items():
        if length is not None and length != n:
            raise WrongShape(f"there are {length:,} {field} for {n:,} rows of predictions")


def _classes(table: Table, chosen: Chosen, asked: Asked, values: Values) -> Classes | None:
    if values.labels is None or chosen.places.labels is None:
        return None
    n_classes = 2 if values.predictions.ndim == 1 else values.predictions.shape[1]
    name = table.columns[chosen.places.labels].name
    return read_labels(values.labels, name, chosen.classes, n_classes, asked.mapping)


def _groups(coded: Coded, table: Table, chosen: Chosen) -> list[str]:
    name = "" if chosen.places.groups is None else table.columns[chosen.places.groups].name
    if len(coded.texts) > MAX_GROUPS:
        raise TooManyGroups(f"column {quoted(name)} has more than {MAX_GROUPS:,} different groups", field="groups")
    if "" in coded.texts:
        row = row_of(coded.first(coded.texts.index("")))
        raise MissingValue(f"{row} of column {quoted(name)} is empty", field="groups")
    return [coded.texts[code] for code in coded.codes.tolist()]
