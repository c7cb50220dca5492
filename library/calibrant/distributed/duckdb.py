"""Tallies by DuckDB, which reads files and relations larger than memory in one process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from calibrant.core.batch import Scale
from calibrant.core.docstrings import shares
from calibrant.core.errors import CalibrationError, EmptyBatch, InvalidOption, requires
from calibrant.distributed.arrow import EVALUATE, FIT, ROWS, TALLY, Columns, counted, divided
from calibrant.distributed.parquet import PARQUETS
from calibrant.evaluation import Report
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.evaluation import evaluate_tally, fit_tally
from calibrant.monitoring.event_tally import EventTally

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


@shares(TALLY)
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
    source : duckdb.DuckDBPyRelation, str, path or sequence of these
        A relation; or Parquet or CSV files: a folder of Parquet files, a pattern, a file, or several, local or by a URL
        that DuckDB supports.
    connection : duckdb.DuckDBPyConnection, optional
        Connection that reads the files. By default a new one in memory.

    Raises
    ------
    MissingExtra
        If DuckDB is not installed.

    Notes
    -----
    DuckDB scans, filters and joins with all its threads. NumPy counts the batches, which is several times faster than a
    ``GROUP BY`` over an arcsine, and assigns rows to the same cells as ``calibrant.tally``.

    Examples
    --------
    >>> from calibrant.distributed import duckdb
    >>> counted = duckdb.tally("data/*.parquet", prediction="p", label="y")  # doctest: +SKIP
    """
    with requires("duckdb"):
        import duckdb
    columns = Columns.read(
        prediction=prediction, label=label, group=group, fold=fold, weight=weight, reduction=reduction, scale=scale
    )
    if isinstance(source, duckdb.DuckDBPyRelation):
        counts = _count(source, columns, "the relation")
    else:
        several = [source] if isinstance(source, str | PurePath) else source
        with closing(duckdb.connect()) if connection is None else nullcontext(connection) as opened:
            counts = _count_files(opened, [_pattern(str(path)) for path in several], columns)
    if counts is None:
        raise EmptyBatch.at("/source", "has no rows")
    return counts


@shares(EVALUATE)
def evaluate(source: Any, *, connection: DuckDBPyConnection | None = None, **options: Any) -> Report:
    """Measure how well the predictions of files or a relation are calibrated.

    >>> from calibrant.distributed import duckdb
    >>> report = duckdb.evaluate("data/*.parquet", prediction="p", label="y")  # doctest: +SKIP
    """
    columns, others = divided(options)
    return evaluate_tally(tally(source, connection=connection, **columns), **others)


@shares(FIT)
def fit(source: Any, method: str, *, connection: DuckDBPyConnection | None = None, **options: Any) -> CalibrationMap:
    """Fit a calibration map to files or a relation.

    >>> from calibrant.distributed import duckdb
    >>> fitted = duckdb.fit("data/*.parquet", "isotonic", prediction="p", label="y")  # doctest: +SKIP
    """
    columns, others = divided(options)
    return fit_tally(tally(source, connection=connection, **columns), method, **others)


def _pattern(name: str) -> str:
    """Return the pattern of the files of a folder, or the name itself."""
    known = name.endswith((*PARQUETS, *_CSV)) or any(sign in name for sign in "*?[")
    return name if known else f"{name.rstrip('/')}/**/*.parquet"


def _count_files(connection: DuckDBPyConnection, patterns: list[str], columns: Columns) -> EventTally | None:
    """Count all files at once; if a row is invalid, read them one by one to name its file."""
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
    """Return the files as a lazy relation; a query with parameters would read them at once."""
    texts = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
    return connection.sql(f"FROM {read}([{texts}])")


def _count(relation: DuckDBPyRelation, columns: Columns, where: str) -> EventTally | None:
    for argument, name in columns.named.items():
        if name not in relation.columns:
            raise InvalidOption.at(f"/{argument}", "names a column that does not exist")
    with _batches(relation, list(dict.fromkeys(columns.named.values()))) as batches:
        return counted(batches, columns, where)


def _batches(relation: DuckDBPyRelation, names: list[str]) -> Any:
    """Return a reader of some columns, batch by batch."""
    chosen = relation.project(", ".join('"' + name.replace('"', '""') + '"' for name in names))
    # DuckDB 1.4 has only the older name. Its Arrow stream interface would read everything at once.
    read = chosen.to_arrow_reader if hasattr(chosen, "to_arrow_reader") else chosen.fetch_record_batch
    return read(ROWS)
