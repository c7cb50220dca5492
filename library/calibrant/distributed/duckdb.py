"""Tallies by DuckDB, in one process: it reads files and relations larger than memory, and its batches are counted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from calibrant.batch import Scale
from calibrant.distributed.arrow import ROWS, Columns, counted, divided
from calibrant.errors import CalibrationError, EmptyBatch, InvalidOption, requires
from calibrant.evaluation import Report
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.evaluation import evaluate_tally, fit_tally
from calibrant.monitoring.event_tally import EventTally

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_PARQUET = (".parquet", ".parq", ".pq")


def tally(
    source: Any,
    *,
    prediction: str | Sequence[str],
    label: str,
    group: str | None = None,
    fold: str | None = None,
    weight: str | None = None,
    reduction: str | None = None,
    scale: Scale = "probability",
    connection: DuckDBPyConnection | None = None,
) -> EventTally:
    """Count the rows of files, or of any relation, that DuckDB reads.

    Parameters
    ----------
    source : a DuckDB relation; or Parquet or CSV, as a folder of Parquet files, a pattern, a file or a list of these,
        local or by a URL that DuckDB knows
    prediction : the column of the predictions, numbers or lists of K numbers, or K columns
    label : the column of the labels
    group : the column of the groups' names, texts, integers or dates; null is no group
    fold : the column of folds, integers from 0 to 4
    weight : the column of whole weights
    reduction, scale : as ``calibrant.tally`` takes them
    connection : what reads the files, with its settings; by default a new one in memory

    Returns
    -------
    EventTally
        what ``calibrant.tally`` would have counted

    Raises
    ------
    CalibrationError
        of the first thing wrong; it names the file, or the relation, and the row there, from 0
    MissingExtra
        if DuckDB is not installed

    Notes
    -----
    DuckDB scans, filters and joins on all its threads; its batches are counted by numpy as they come, which is several
    times faster than a ``GROUP BY`` over an arcsine, and puts every row into the very cell that it is in elsewhere.
    """
    with requires("duckdb"):
        import duckdb
    columns = Columns.read(
        prediction=prediction, label=label, group=group, fold=fold, weight=weight, reduction=reduction, scale=scale
    )
    if isinstance(source, duckdb.DuckDBPyRelation):
        found = _count(source, columns, "the relation")
    else:
        several = [source] if isinstance(source, str | PurePath) else source
        with closing(duckdb.connect()) if connection is None else nullcontext(connection) as opened:
            found = _count_files(opened, [_pattern(str(one)) for one in several], columns)
    if found is None:
        raise EmptyBatch.at("/source", "has no rows")
    return found


def evaluate(source: Any, *, connection: DuckDBPyConnection | None = None, **options: Any) -> Report:
    """Measure how well the predictions of files or a relation are calibrated.

    Takes what ``tally`` takes, and beside it what ``calibrant.evaluate_tally`` takes: ``measures``, ``diagrams``,
    ``map``, ``interval``, ``resamples``, ``seed``.
    """
    columns, others = divided(options)
    return evaluate_tally(tally(source, connection=connection, **columns), **others)


def fit(source: Any, method: str, *, connection: DuckDBPyConnection | None = None, **options: Any) -> CalibrationMap:
    """Fit a calibration map to files or a relation.

    Takes what ``tally`` takes, and beside it what ``calibrant.fit_tally`` takes: ``seed``, ``device`` and the method's
    options.
    """
    columns, others = divided(options)
    return fit_tally(tally(source, connection=connection, **columns), method, **others)


def _pattern(name: str) -> str:
    """What DuckDB reads: a folder's files, else the name itself."""
    known = name.endswith((*_PARQUET, *_CSV)) or any(sign in name for sign in "*?[")
    return name if known else f"{name.rstrip('/')}/**/*.parquet"


def _count_files(connection: DuckDBPyConnection, patterns: list[str], columns: Columns) -> EventTally | None:
    """The tally of all files at once; where a row is wrong they are read one by one, so that its file can be named."""
    read = "read_csv" if all(name.endswith(_CSV) for name in patterns) else "read_parquet"
    names = [
        name
        for pattern in patterns
        for (name,) in connection.execute("SELECT file FROM glob(?) ORDER BY file", [pattern]).fetchall()
    ]
    if not names:
        raise EmptyBatch.at("/source", "has no files")
    try:
        return _count(_opened(connection, read, names), columns, "the files")
    except CalibrationError:
        for name in names:
            _count(_opened(connection, read, [name]), columns, name)
        raise


def _opened(connection: DuckDBPyConnection, read: str, names: list[str]) -> DuckDBPyRelation:
    """The files as a relation that is not read yet, as one with parameters would be at once."""
    texts = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
    return connection.sql(f"FROM {read}([{texts}])")


def _count(relation: DuckDBPyRelation, columns: Columns, where: str) -> EventTally | None:
    for argument, name in columns.named.items():
        if name not in relation.columns:
            raise InvalidOption.at(f"/{argument}", "names a column that is not there")
    with _batches(relation, list(dict.fromkeys(columns.named.values()))) as batches:
        return counted(batches, columns, where)


def _batches(relation: DuckDBPyRelation, names: list[str]) -> Any:
    """A reader of some columns, batch by batch."""
    chosen = relation.project(", ".join('"' + name.replace('"', '""') + '"' for name in names))
    # DuckDB 1.4 has the older name alone, and through the Arrow stream interface would read everything at once.
    read = chosen.to_arrow_reader if hasattr(chosen, "to_arrow_reader") else chosen.fetch_record_batch
    return read(ROWS)
