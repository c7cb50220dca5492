"""Tallies by Dask: one per partition, merged in a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant.core.batch import Scale
from calibrant.core.docstrings import shares
from calibrant.core.errors import EmptyBatch, InvalidOption, NotANumber, requires
from calibrant.distributed.arrow import EVALUATE, FIT, NO_COLUMN, TALLY, Columns, counted, divided
from calibrant.distributed.parquet import count_piece, pieces_of
from calibrant.evaluation import Report
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.evaluation import evaluate_tally, fit_tally
from calibrant.monitoring.event_tally import EventTally, merge

#: Tallies that are merged at once.
_BRANCHES = 16


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
) -> EventTally:
    """Count the rows of partitioned data on the current Dask client, or on threads if there is none.

    Parameters
    ----------
    source : str, path, sequence of these, dask.dataframe.DataFrame or dask.bag.Bag
        Parquet files: a folder, a pattern such as ``data/*/part-*.parquet``, a file, or several, local or by a URL that
        pyarrow supports (``s3://``, ``gs://``, ``hdfs://``). Or a Dask DataFrame, or a Dask bag of dictionaries.
    group : str, optional
        Column of group names: strings, integers or dates; null means no group. It may be in the names of
        folders, as in ``country=no/``.

    Raises
    ------
    MissingExtra
        If Dask is not installed.

    Notes
    -----
    There is one task for each file, or for about 256 MB of row groups of a larger one. A task reads only the named
    columns and holds about 130,000 rows at a time. Only tallies are sent between workers.

    Examples
    --------
    >>> from calibrant.distributed import dask
    >>> counted = dask.tally("data/*.parquet", prediction="p", label="y")  # doctest: +SKIP
    """
    with requires("dask"):
        from dask.delayed import delayed
    columns = Columns.read(
        prediction=prediction, label=label, group=group, fold=fold, weight=weight, reduction=reduction, scale=scale
    )
    parts = _parts(source, columns)
    together = delayed(_together, pure=False)
    while len(parts) > 1:
        parts = [together(parts[i : i + _BRANCHES]) for i in range(0, len(parts), _BRANCHES)]
    counts: EventTally | None = parts[0].compute() if parts else None
    if counts is None:
        raise EmptyBatch.at("/source", "has no rows")
    return counts


@shares(EVALUATE)
def evaluate(source: Any, **options: Any) -> Report:
    """Measure how well the predictions of partitioned data are calibrated.

    >>> from calibrant.distributed import dask
    >>> report = dask.evaluate("data/*.parquet", prediction="p", label="y")  # doctest: +SKIP
    """
    columns, others = divided(options)
    return evaluate_tally(tally(source, **columns), **others)


@shares(FIT)
def fit(source: Any, method: str, **options: Any) -> CalibrationMap:
    """Fit a calibration map to partitioned data.

    >>> from calibrant.distributed import dask
    >>> fitted = dask.fit("data/*.parquet", "isotonic", prediction="p", label="y")  # doctest: +SKIP
    """
    columns, others = divided(options)
    return fit_tally(tally(source, **columns), method, **others)


def _parts(source: Any, columns: Columns) -> list[Any]:
    """Return a delayed tally for each partition."""
    with requires("dask"):
        from dask.delayed import delayed
    if not hasattr(source, "to_delayed"):
        count = delayed(count_piece, pure=False)
        return [count(piece, columns) for piece in pieces_of(source)]
    names = list(dict.fromkeys(columns.named.values()))
    if not hasattr(source, "columns"):
        count = delayed(_count_records, pure=False)
        return [count(part, columns, i) for i, part in enumerate(source.to_delayed())]
    for argument, name in columns.named.items():
        if list(source.columns).count(name) != 1:
            raise InvalidOption.at(f"/{argument}", NO_COLUMN)
    count = delayed(_count_frame, pure=False)
    return [count(part, columns, i) for i, part in enumerate(source[names].to_delayed())]


def _count_frame(frame: Any, columns: Columns, partition: int) -> EventTally | None:
    with requires("dask"):
        import pyarrow as pa
    try:
        batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # which would repeat the data
        raise _mixed(partition) from None
    return counted([batch], columns, f"partition {partition}")


def _count_records(records: Any, columns: Columns, partition: int) -> EventTally | None:
    with requires("dask"):
        import pyarrow as pa
    names = list(dict.fromkeys(columns.named.values()))
    try:
        chosen = [{name: record[name] for name in names} for record in records]
        batches = [pa.RecordBatch.from_pylist(chosen)] if chosen else []
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, KeyError):  # which would repeat the data
        raise _mixed(partition) from None
    return counted(batches, columns, f"partition {partition}")


def _mixed(partition: int) -> NotANumber:
    return NotANumber(
        f"partition {partition}: every row must have every column, and a column must have values of one type"
    )


def _together(parts: Sequence[EventTally | None]) -> EventTally | None:
    filled = [part for part in parts if part is not None]
    return merge(filled) if filled else None
