"""Tallies by Dask: one per partition, merged in a tree; and of the source of a service, one per part."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from calibrant.core.batch import InputScale, Scale
from calibrant.core.errors import EmptyBatch, EngineUnavailable, InvalidOption, NotANumber, requires
from calibrant.core.progress import check
from calibrant.distributed.accumulation import TOLERANCE
from calibrant.distributed.arrow import Columns, RowCounter, counted, divided
from calibrant.distributed.parquet import count_piece, pieces_of
from calibrant.distributed.partial_sums import SourcePart, parts_of, read_answer, sum_of_part
from calibrant.distributed.scan import BytesRead, Scan
from calibrant.distributed.sources import SourceContent
from calibrant.evaluation import Basis, Report
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.evaluation import evaluate_tally, fit_tally
from calibrant.monitoring.event_tally import EventTally, merge

if TYPE_CHECKING:
    from dask.distributed import Client

#: Tallies that are merged at once.
_BRANCHES = 16
#: Seconds to connect to a scheduler, and between two checks whether the work was cancelled.
_CONNECT_SECONDS, _CHECK_SECONDS = 10, 0.5
#: Parts of a source that a thread of the cluster has waiting or running; the least number of all.
_WAITING, _LEAST_WAITING = 2, 4


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
    prediction : str or sequence of str
        Column of the predictions (numbers, or lists of K numbers), or K columns.
    label : str
        Column of the labels.
    group : str, optional
        Column of group names: strings, integers or dates; null means no group. It may be in the names of
        folders, as in ``country=no/``.
    fold : str, optional
        Column of folds, integers from 0 to 4.
    weight : str, optional
        Column of integer weights.
    reduction : str, optional
        As for ``calibrant.tally``.
    scale : {"probability", "logit"}, default "probability"
        Scale of the predictions.

    Returns
    -------
    EventTally
        Counts of all rows.

    Raises
    ------
    CalibrationError
        If an argument or a row is invalid; the error names the file or partition, and the row there, from 0.
    MissingExtra
        If Dask is not installed.

    See Also
    --------
    calibrant.tally : Counts arrays.
    evaluate : Counts and evaluates.

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
    found: EventTally | None = parts[0].compute() if parts else None
    if found is None:
        raise EmptyBatch.at("/source", "has no rows")
    return found


def evaluate(source: Any, **options: Any) -> Report:
    """Measure how well the predictions of partitioned data are calibrated.

    Parameters
    ----------
    source : str, path, sequence of these, dask.dataframe.DataFrame or dask.bag.Bag
        As for ``tally``.
    **options : object
        Columns as for ``tally``, and options of ``calibrant.evaluate_tally``: ``measures``, ``diagrams``, ``map``,
        ``interval``, ``resamples`` and ``seed``.

    Returns
    -------
    Report
        As from ``calibrant.evaluate_tally``.

    Raises
    ------
    CalibrationError
        As for ``tally``.

    See Also
    --------
    tally : Counts the rows.

    Examples
    --------
    >>> from calibrant.distributed import dask
    >>> report = dask.evaluate("data/*.parquet", prediction="p", label="y")  # doctest: +SKIP
    """
    columns, others = divided(options)
    return evaluate_tally(tally(source, **columns), **others)


def fit(source: Any, method: str, **options: Any) -> CalibrationMap:
    """Fit a calibration map to partitioned data.

    Parameters
    ----------
    source : str, path, sequence of these, dask.dataframe.DataFrame or dask.bag.Bag
        As for ``tally``.
    method : str
        Name in ``calibrant.METHODS``.
    **options : object
        Columns as for ``tally``, and options of ``calibrant.fit_tally``: ``seed``, ``device`` and those of the method.

    Returns
    -------
    CalibrationMap
        The fitted map.

    Raises
    ------
    CalibrationError
        As for ``tally`` and ``calibrant.fit_tally``.

    See Also
    --------
    tally : Counts the rows.

    Examples
    --------
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
            raise InvalidOption.at(f"/{argument}", "names a column that does not exist or is not unique")
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
    return NotANumber(
        f"partition {partition}: every row must have every column, and a column must have values of one type"
    )


def _together(parts: Sequence[EventTally | None]) -> EventTally | None:
    found = [part for part in parts if part is not None]
    return merge(found) if found else None


# --- Sources of a service


def gather_on_cluster(
    scan: Scan,
    root: Mapping[str, str | None],
    columns: Columns,
    *,
    scheduler: str,
    scale: InputScale = "probability",
) -> SourceContent:
    """Count a scan on the cluster of a scheduler; ``root`` has the arguments of ``storage_of`` for its workers.

    Parts are added in their order, each once, so the sums do not depend on the cluster. Raises the errors of invalid
    rows as ``gather`` does, and ``EngineUnavailable``.
    """
    counter, progress, n = RowCounter(columns, scale=scale), BytesRead(scan.total), 0
    with _client(scheduler) as client, closing(_answers(client, parts_of(scan, root, columns, scale))) as answers:
        for part, answer in answers:
            tally, rows = read_answer(answer)
            if tally is not None:
                counter.merge(tally)
            n += rows
            progress.add(rows)
            progress.end(part.size)
    tally = counter.result()
    if tally is None:
        raise EmptyBatch.at("/source", "has no rows that meet the conditions")
    return SourceContent(tally, Basis("tally", n, scan.total, len(scan.files), TOLERANCE, "dask"))


@contextmanager
def _client(scheduler: str) -> Iterator[Client]:
    with requires("dask"):
        from dask.distributed import Client
    try:
        client = Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # those of TLS are among them
        raise EngineUnavailable(f"the Dask scheduler cannot be reached: {type(error).__name__}") from None
    with client, client.as_current():
        yield client


def _answers(client: Client, parts: Iterable[SourcePart]) -> Iterator[tuple[SourcePart, bytes]]:
    """Yield the answers to parts in their order.

    Few of them wait in the cluster at a time, so that the parts of other jobs are not behind all of these.
    """
    most = max(_LEAST_WAITING, _WAITING * sum(client.nthreads().values()))
    waiting: deque[tuple[SourcePart, Any]] = deque()
    try:
        for part in parts:
            waiting.append((part, client.submit(sum_of_part, part.request, pure=False)))
            if len(waiting) == most:
                first, future = waiting.popleft()
                yield first, _result(future)
        while waiting:
            first, future = waiting.popleft()
            yield first, _result(future)
    finally:
        with suppress(Exception):  # of a lost connection
            client.cancel([future for _, future in waiting])


def _result(future: Any) -> bytes:
    """Wait for an answer, and check meanwhile whether the work was cancelled."""
    with requires("dask"):
        from dask.distributed import CancelledError, KilledWorker, wait
    try:
        while not future.done():
            check()
            with suppress(TimeoutError):
                wait([future], timeout=_CHECK_SECONDS)
        answer: bytes = future.result()
    except KilledWorker:
        raise EngineUnavailable("the Dask cluster lost several workers that counted the same part") from None
    except (CancelledError, concurrent.futures.CancelledError):
        raise EngineUnavailable("the Dask scheduler was lost during the work") from None
    except ImportError:
        raise EngineUnavailable("the workers of the Dask cluster cannot import calibrant and pyarrow") from None
    return answer
