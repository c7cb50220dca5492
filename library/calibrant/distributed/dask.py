"""Tallies by Dask: made where the data lies, partition by partition, and added up by a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant.batch import Scale
from calibrant.distributed.arrow import Columns, counted, divided
from calibrant.distributed.parquet import count_piece, pieces_of
from calibrant.errors import EmptyBatch, InvalidOption, NotANumber, requires
from calibrant.evaluation import Report
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.evaluation import evaluate_tally, fit_tally
from calibrant.monitoring.event_tally import EventTally, merge

#: Tallies that are added up at once.
_BRANCHES = 16


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
    """Count the rows of partitioned data on the current Dask client, or on threads where there is none.

    Parameters
    ----------
    source : Parquet, as a folder, a pattern such as ``data/*/part-*.parquet``, a file or a list of these, local or by a
        URL that pyarrow knows (``s3://``, ``gs://``, ``hdfs://``); or a Dask DataFrame, or a Dask bag of dictionaries
    prediction : the column of the predictions, numbers or lists of K numbers, or K columns
    label : the column of the labels
    group : the column of the groups' names, texts, integers or dates; null is no group. Folders may name it, as
        ``country=no/``
    fold : the column of folds, integers from 0 to 4
    weight : the column of whole weights
    reduction, scale : as ``calibrant.tally`` takes them

    Returns
    -------
    EventTally
        what one process would have counted

    Raises
    ------
    CalibrationError
        of the first thing wrong that a partition meets; it names the file or partition, and the row there, from 0
    MissingExtra
        if Dask is not installed

    Notes
    -----
    One task a file, or about 256 MB of row groups of a larger one. A task reads the columns named and no others, and
    holds about 130,000 rows at a time; what travels are tallies.
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
    found: EventTally | None = parts[0].compute() if parts else None
    if found is None:
        raise EmptyBatch.at("/source", "has no rows")
    return found


def evaluate(source: Any, **options: Any) -> Report:
    """Measure how well the predictions of partitioned data are calibrated.

    Takes what ``tally`` takes, and beside it what ``calibrant.evaluate_tally`` takes: ``measures``, ``diagrams``,
    ``map``, ``interval``, ``resamples``, ``seed``.
    """
    columns, others = divided(options)
    return evaluate_tally(tally(source, **columns), **others)


def fit(source: Any, method: str, **options: Any) -> CalibrationMap:
    """Fit a calibration map to partitioned data.

    Takes what ``tally`` takes, and beside it what ``calibrant.fit_tally`` takes: ``seed``, ``device`` and the method's
    options.
    """
    columns, others = divided(options)
    return fit_tally(tally(source, **columns), method, **others)


def _parts(source: Any, columns: Columns) -> list[Any]:
    """What counts each partition, not yet computed."""
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
            raise InvalidOption.at(f"/{argument}", "names a column that is not there, or is there twice")
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
        kept = [{name: record[name] for name in names} for record in records]
        batches = [pa.RecordBatch.from_pylist(kept)] if kept else []
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, KeyError):  # which would repeat the data
        raise _mixed(partition) from None
    return counted(batches, columns, f"partition {partition}")


def _mixed(partition: int) -> NotANumber:
    return NotANumber(f"partition {partition}: each of its rows must hold every column, with values of one kind")


def _together(parts: Sequence[EventTally | None]) -> EventTally | None:
    found = [part for part in parts if part is not None]
    return merge(found) if found else None
