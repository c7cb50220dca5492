"""Tallies by Spark: one per partition of a data frame, merged by the caller. Works with Spark Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from calibrant.core.batch import Scale
from calibrant.core.docstrings import shares
from calibrant.core.errors import EmptyBatch, InvalidOption
from calibrant.distributed.arrow import EVALUATE, FIT, NO_COLUMN, TALLY, Columns, RowCounter, counted, divided
from calibrant.distributed.partial_sums import answer_of, read_answer
from calibrant.evaluation import Report
from calibrant.io.errors import needed_pyarrow
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.evaluation import evaluate_tally, fit_tally
from calibrant.monitoring.event_tally import EventTally

if TYPE_CHECKING:
    import pyarrow as pa


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
    """Count the rows of a Spark data frame on its executors.

    Parameters
    ----------
    source : pyspark.sql.DataFrame
        Rows to count, of Spark Connect or of a session in this process.

    Notes
    -----
    The Python of the executors needs this package and pyarrow. A partition is counted in one task, which holds the rows
    of an Arrow batch; Spark repeats the task if its executor is lost, and the partition is counted once. Only tallies
    are returned.

    Examples
    --------
    >>> from calibrant.distributed import spark
    >>> rows = session.read.parquet("s3a://bucket/rows")  # doctest: +SKIP
    >>> counted = spark.tally(rows, prediction="p", label="y", group="country")  # doctest: +SKIP
    """
    columns = Columns.read(
        prediction=prediction, label=label, group=group, fold=fold, weight=weight, reduction=reduction, scale=scale
    )
    if not hasattr(source, "mapInArrow"):
        raise InvalidOption.at("/source", "must be a data frame of Spark")
    for argument, name in columns.named.items():
        if list(source.columns).count(name) != 1:
            raise InvalidOption.at(f"/{argument}", NO_COLUMN)
    names = list(dict.fromkeys(columns.named.values()))
    # mapInArrow does not quote the names of its columns, and would take a dot in one for a field of a structure.
    plain = [f"`{name.replace('`', '``')}` AS c{i}" for i, name in enumerate(names)]
    parts = source.selectExpr(*plain).mapInArrow(_answers(columns, names), "partition int, answer binary").collect()
    counter = RowCounter(columns)
    for _, answer in sorted({part["partition"]: bytes(part["answer"]) for part in parts}.items()):
        of_part, _ = read_answer(answer)
        if of_part is not None:
            counter.merge(of_part)
    everything = counter.result()
    if everything is None:
        raise EmptyBatch.at("/source", "has no rows")
    return everything


def _answers(columns: Columns, names: Sequence[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that counts a partition, which Spark sends to the executors; ``names`` are of its columns."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrow = needed_pyarrow("types")
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a partition is counted outside a task of Spark, so that it has no number")
        partition = context.partitionId()
        named = (batch.rename_columns(list(names)) for batch in batches)
        answer = answer_of(lambda: (counted(named, columns, f"partition {partition}"), 0))
        yield arrow.RecordBatch.from_pydict(
            {"partition": arrow.array([partition], arrow.int32()), "answer": arrow.array([answer], arrow.binary())}
        )

    return count


@shares(EVALUATE)
def evaluate(source: Any, **options: Any) -> Report:
    """Measure how well the predictions of a Spark data frame are calibrated.

    >>> from calibrant.distributed import spark
    >>> report = spark.evaluate(rows, prediction="p", label="y")  # doctest: +SKIP
    """
    columns, others = divided(options)
    return evaluate_tally(tally(source, **columns), **others)


@shares(FIT)
def fit(source: Any, method: str, **options: Any) -> CalibrationMap:
    """Fit a calibration map to a Spark data frame.

    >>> from calibrant.distributed import spark
    >>> fitted = spark.fit(rows, "isotonic", prediction="p", label="y")  # doctest: +SKIP
    """
    columns, others = divided(options)
    return fit_tally(tally(source, **columns), method, **others)
