"""Tallies by DuckDB, in one process: SQL counts files and relations larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.batch import TOLERANCE, Scale
from calibrant.distributed.arrow import counted
from calibrant.distributed.columns import Columns, divided
from calibrant.distributed.extra import needed
from calibrant.errors import EmptyBatch, InvalidOption
from calibrant.evaluation import MAX_GROUPS, Report
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.reductions import resolve_event
from calibrant.tallies.event_tally import EventTally, check_groups, merge
from calibrant.tallies.front import evaluate_tally, fit_tally
from calibrant.tallies.grid import CELLS, borders
from calibrant.tallies.tally import FOLDS, Tally

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

#: Types whose numbers SQL may read as doubles.
_NUMBERS = {
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "float", "double", "decimal",
}  # fmt: skip
_INTEGERS = _NUMBERS - {"float", "double", "decimal"}
_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


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
    """Count the rows of files, or of any relation, in DuckDB.

    Parameters
    ----------
    source : a DuckDB relation; or Parquet or CSV, as a folder of Parquet files, a pattern, a file or a list of these,
        local or by a URL that DuckDB knows
    prediction : the column of the predictions, numbers or lists of K numbers, or K columns
    label : the column of the labels
    group : the column of the groups' names, texts or integers; null is no group
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
        of the first thing wrong; it names the row by its number from 0, and of local Parquet the file
    ImportError
        where DuckDB is not installed

    Notes
    -----
    Probabilities (n,) are counted by one ``GROUP BY``. Vectors and logits are fetched as Arrow batches of 131,072 rows
    and counted as ``calibrant.distributed.arrow`` does: what SQL makes of a sum or an exponential differs in the last
    digit, and so would ties.
    """
    columns = Columns.read(
        prediction=prediction, label=label, group=group, fold=fold, weight=weight, reduction=reduction, scale=scale
    )
    with _read(source, connection) as read:
        types = _types(read.whole, columns)
        found = _by_sql(read.whole, columns) if _sql_counts(columns, types) else None
        if found is None:
            found = _by_rows(read, columns)
    if found is None or not len(found):
        raise EmptyBatch.at("/source", "has no rows")
    return found


def evaluate(source: Any, *, connection: DuckDBPyConnection | None = None, **asked: Any) -> Report:
    """Measure how well the predictions of files or a relation are calibrated.

    Takes what ``tally`` takes, and beside it what ``calibrant.evaluate_tally`` takes: ``measures``, ``diagrams``,
    ``map``, ``interval``, ``resamples``, ``seed``.
    """
    columns, others = divided(asked)
    return evaluate_tally(tally(source, connection=connection, **columns), **others)


def fit(source: Any, method: str, *, connection: DuckDBPyConnection | None = None, **asked: Any) -> CalibrationMap:
    """Fit a calibration map to files or a relation.

    Takes what ``tally`` takes, and beside it what ``calibrant.fit_tally`` takes: ``seed``, ``device`` and the method's
    options.
    """
    columns, others = divided(asked)
    return fit_tally(tally(source, connection=connection, **columns), method, **others)


@dataclass(frozen=True)
class _Read:
    """What is read: as one relation, and, made when it is asked for, file by file with their names."""

    whole: DuckDBPyRelation
    parts: Callable[[], Iterator[tuple[str, DuckDBPyRelation]]]


@contextmanager
def _read(source: Any, connection: DuckDBPyConnection | None) -> Iterator[_Read]:
    with needed("duckdb"):
        import duckdb
    if isinstance(source, duckdb.DuckDBPyRelation):
        yield _Read(source, lambda: iter([("the relation", source)]))
        return
    patterns = [_pattern(str(one)) for one in ([source] if isinstance(source, str | PurePath) else source)]
    if not patterns:
        raise EmptyBatch.at("/source", "has no files")
    opened = duckdb.connect() if connection is None else connection
    csv = all(name.endswith(_CSV) for name in patterns)

    def files(names: list[str]) -> DuckDBPyRelation:
        return opened.sql(f"FROM {'read_csv' if csv else 'read_parquet'}(?)", params=[names])

    def parts() -> Iterator[tuple[str, DuckDBPyRelation]]:
        for pattern in patterns:
            for (name,) in opened.execute("SELECT file FROM glob(?) ORDER BY file", [pattern]).fetchall():
                yield name, files([name])

    try:
        if opened.execute("SELECT count(*) FROM glob(?)", [patterns]).fetchone() != (0,):
            yield _Read(files(patterns), parts)
            return
        raise EmptyBatch.at("/source", "has no files")
    finally:
        if connection is None:
            opened.close()


def _pattern(name: str) -> str:
    """What DuckDB reads: a folder's files, else the name itself."""
    known = name.endswith((".parquet", ".parq", ".pq", *_CSV)) or any(sign in name for sign in "*?[")
    return name if known else f"{name.rstrip('/')}/**/*.parquet"


def _types(relation: DuckDBPyRelation, columns: Columns) -> dict[str, str]:
    """The type of each column that is read, by the argument that names it."""
    there = dict(zip(relation.columns, relation.types, strict=True))
    for argument, name in columns.named.items():
        if name not in there:
            raise InvalidOption.at(f"/{argument}", "names a column that is not there")
    return {argument: there[name].id for argument, name in columns.named.items()}


def _sql_counts(columns: Columns, types: dict[str, str]) -> bool:
    """Whether SQL counts these columns as numpy does: one probability a row, of numbers."""
    return (
        columns.scale == "probability"
        and types.get("prediction") in _NUMBERS
        and types["label"] in _NUMBERS | {"boolean"}
        and types.get("group", "varchar") in _INTEGERS | {"varchar", "enum"}
        and types.get("fold", "integer") in _NUMBERS
        and types.get("weight", "integer") in _NUMBERS
    )


def _by_sql(relation: DuckDBPyRelation, columns: Columns) -> EventTally | None:
    """The tally by one ``GROUP BY``, or None where a row is wrong."""
    name = resolve_event(columns.reduction, None)
    counted_there = relation.query("rows_at_rest", counting_sql(columns))
    if counted_there is None:
        raise TypeError("a query of DuckDB gave no relation")
    found = counted_there.fetchnumpy()
    keys = np.asarray(found["key"], dtype=np.int64)
    if np.any(keys < 0):
        return None
    group = np.ma.asarray(found["grp"])
    missing = np.ma.getmaskarray(group)
    names = sorted({str(text) for text in group.compressed().tolist()})
    check_groups(names)
    place = {text: 1 + i for i, text in enumerate(names)}
    number = np.array(
        [0 if null else place[str(text)] for text, null in zip(group.data.tolist(), missing.tolist(), strict=True)],
        dtype=np.int64,
    )
    keys += number * (2 * CELLS * FOLDS)
    order = np.argsort(keys)
    rows = np.asarray(found["n"], dtype=np.int64)
    order = order[rows[order] > 0]  # rows of weight 0 are in no cell
    made = Tally(keys.astype(np.uint32)[order], rows[order], np.asarray(found["total"], dtype=np.float64)[order])
    return EventTally(made, name, groups=tuple(names), clipped=int(np.sum(found["clipped"])))


def counting_sql(columns: Columns, table: str = "rows_at_rest") -> str:
    """The query that counts probabilities (n,) by group and key; the key is -1 where a row is wrong.

    The cell is found by the arcsine and then by comparison with the borders, as ``calibrant.tallies.grid.place`` does:
    the arcsine alone differs in its last digit between libraries. ``fsum`` adds up with Kahan's compensation.
    """
    (prediction,) = map(_quoted, columns.predictions)
    optional = {"grp": columns.group, "fold": columns.fold, "w": columns.weight}
    group, fold, w = (None if name is None else _quoted(name) for name in optional.values())
    edges = "[" + ", ".join(map(repr, borders().tolist())) + "]::DOUBLE[]"
    return f"""
        WITH given AS (
            SELECT
                {prediction}::DOUBLE AS p,
                {_quoted(columns.label)}::DOUBLE AS y,
                {"NULL::VARCHAR" if group is None else f"{group}::VARCHAR"} AS grp,
                {"0" if fold is None else f"{fold}::DOUBLE"} AS fold,
                {"1" if w is None else f"{w}::DOUBLE"} AS w
            FROM {table}
        ), checked AS (
            SELECT
                least(greatest(p, 0.0), 1.0) AS p,
                p < 0.0 OR p > 1.0 AS clipped,
                y, grp, fold, w,
                coalesce(
                    p BETWEEN {-TOLERANCE!r} AND {1.0 + TOLERANCE!r}
                    AND y IN (0, 1)
                    AND fold IN ({", ".join(map(str, range(FOLDS)))})
                    AND w >= 0 AND w < 9007199254740992 AND w = floor(w),
                    false
                ) AS good
            FROM given
        ), near AS (
            SELECT *, least(floor(asin(sqrt(p)) * {2.0 * CELLS / np.pi!r})::INTEGER, {CELLS - 1}) AS cell FROM checked
        ), keyed AS (
            SELECT
                *,
                CASE WHEN NOT good THEN -1 ELSE
                    ((fold * {CELLS} + cell
                      - (p < list_extract({edges}, cell + 1))::INTEGER
                      + (cell < {CELLS - 1} AND p >= list_extract({edges}, cell + 2))::INTEGER) * 2 + y)::INTEGER
                END AS key
            FROM near
        )
        SELECT
            grp, key,
            {"count(*)" if w is None else "sum(w)"} AS n,
            {"fsum(p)" if w is None else "fsum(w * p)"} AS total,
            count_if(clipped) AS clipped
        FROM keyed
        GROUP BY grp, key
        LIMIT {(MAX_GROUPS + 2) * (FOLDS * CELLS * 2 + 1)}
    """  # noqa: S608 - names are quoted, and nothing else is the caller's


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _by_rows(read: _Read, columns: Columns) -> EventTally | None:
    """The tally by numpy, of batches that DuckDB reads; raises the error of the first wrong row."""
    with needed("duckdb"):
        import pyarrow as pa
    wanted = ", ".join(map(_quoted, dict.fromkeys(columns.named.values())))
    found = []
    for where, relation in read.parts():
        with pa.RecordBatchReader.from_stream(relation.project(wanted)) as batches:
            part = counted(batches, columns, where)
        if part is not None:
            found.append(part)
    return merge(found) if found else None
