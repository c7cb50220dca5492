"""Sources of a service, counted part by part on the Dask cluster of its administrator."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from calibrant.core.batch import InputScale
from calibrant.core.errors import EmptyBatch, EngineUnavailable, requires
from calibrant.core.progress import check
from calibrant.core.results import Basis
from calibrant.distributed.accumulation import TOLERANCE
from calibrant.distributed.arrow import NO_ROWS, Columns, RowCounter
from calibrant.distributed.partial_sums import SourcePart, parts_of, read_answer, sum_of_part
from calibrant.distributed.scan import BytesRead, Scan
from calibrant.distributed.sources import SourceContent

if TYPE_CHECKING:
    from dask.distributed import Client

_Answer = TypeVar("_Answer")

#: Seconds to connect to a scheduler, and between two checks whether the work was cancelled.
_CONNECT_SECONDS, _CHECK_SECONDS = 10, 0.5
#: Seconds for any other answer of a scheduler, such as a few megabytes that are ready.
_ANSWER_SECONDS = 60.0
#: Parts of a source that a thread of the cluster has waiting or running; the least number of all.
_WAITING, _LEAST_WAITING = 2, 4


def gather_on_cluster(
    scan: Scan,
    root: Mapping[str, str | None],
    columns: Columns,
    *,
    scheduler: str,
    scale: InputScale = "probability",
    patience: float = _ANSWER_SECONDS,
) -> SourceContent:
    """Count a scan on the cluster of a scheduler; ``root`` has the arguments of ``storage_of`` for its workers.

    Parts are added in their order, each once, so the sums do not depend on the cluster. Raises the errors of invalid
    rows as ``gather`` does, and ``EngineUnavailable``, also for a scheduler that is silent for ``patience`` seconds.
    """
    counter, progress, n = RowCounter(columns, scale=scale), BytesRead(scan.total), 0
    parts = parts_of(scan, root, columns, scale)
    with _client(scheduler, patience) as client, closing(_answers(client, parts, patience)) as answers:
        for part, answer in answers:
            tally, rows = read_answer(answer)
            if tally is not None:
                counter.merge(tally)
            n += rows
            progress.add(rows)
            progress.end(part.size)
    tally = counter.result()
    if tally is None:
        raise EmptyBatch.at("/source", NO_ROWS)
    return SourceContent(tally, Basis("tally", n, scan.total, len(scan.files), TOLERANCE, "dask"))


@contextmanager
def _client(scheduler: str, patience: float) -> Iterator[Client]:
    with requires("dask"):
        from dask.distributed import Client
    client = _answer(lambda: Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False), patience)
    try:
        with client.as_current():
            _check_packages(client, patience)
            yield client
    finally:
        with suppress(TimeoutError):
            client.close()


def _answer(call: Callable[[], _Answer], patience: float) -> _Answer:
    """Return the answer of a scheduler to a call; raises ``EngineUnavailable`` if there is none.

    Dask waits without a limit for a process that accepts connections and is silent, so the call has a thread of its
    own, which then stays behind.
    """
    answer = concurrent.futures.Future[_Answer]()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    Thread(target=run, name="calibrant-dask", daemon=True).start()
    concurrent.futures.wait([answer], timeout=patience)
    if not answer.done():
        raise EngineUnavailable("the Dask scheduler accepts connections but does not answer")
    try:
        return answer.result()
    except (OSError, TypeError, ValueError) as error:  # those of TLS are among them
        raise EngineUnavailable(f"the Dask scheduler cannot be reached: {type(error).__name__}") from None


def _check_packages(client: Client, patience: float) -> None:
    """Raise ``EngineUnavailable`` unless scheduler and workers have the function that counts.

    A task that they cannot read would end the process that reads it.
    """
    name = sum_of_part.__module__
    modules = _answer(lambda: client.run(find_spec, name, on_error="return"), patience)
    try:
        modules["scheduler"] = _answer(lambda: client.run_on_scheduler(find_spec, name), patience)
    except ImportError as error:
        modules["scheduler"] = error
    if any(module is None or isinstance(module, ImportError) for module in modules.values()):
        raise EngineUnavailable("the scheduler or a worker of the Dask cluster cannot import this version of calibrant")


def _answers(client: Client, parts: Iterable[SourcePart], patience: float) -> Generator[tuple[SourcePart, bytes]]:
    """Yield the answers to parts in their order.

    Few of them wait in the cluster at a time, so that the parts of other jobs are not behind all of these.
    """
    most = max(_LEAST_WAITING, _WAITING * sum(_answer(client.nthreads, patience).values()))
    waiting: deque[tuple[SourcePart, Any]] = deque()
    try:
        for part in parts:
            waiting.append((part, client.submit(sum_of_part, part.request, pure=False)))
            if len(waiting) == most:
                first, future = waiting.popleft()
                yield first, _result(client, future, patience)
        while waiting:
            first, future = waiting.popleft()
            yield first, _result(client, future, patience)
    finally:
        with suppress(Exception):  # of a lost connection
            client.cancel([future for _, future in waiting])


def _result(client: Client, future: Any, patience: float) -> bytes:
    """Wait for an answer, and check meanwhile whether the work was cancelled and whether the scheduler answers."""
    with requires("dask"):
        from dask.distributed import CancelledError, KilledWorker, wait
    try:
        answered = monotonic()
        while not future.done():
            check()
            with suppress(TimeoutError):
                wait([future], timeout=_CHECK_SECONDS)
            if monotonic() > answered + patience:
                _answer(client.nthreads, patience)
                answered = monotonic()
        answer: bytes = future.result(timeout=_ANSWER_SECONDS)
    except TimeoutError:
        raise EngineUnavailable("the Dask scheduler did not return an answer that is ready") from None
    except KilledWorker:
        raise EngineUnavailable("the Dask cluster lost several workers that counted the same part") from None
    except (CancelledError, concurrent.futures.CancelledError):
        raise EngineUnavailable("the Dask scheduler was lost during the work") from None
    except ImportError:
        raise EngineUnavailable("the workers of the Dask cluster cannot import calibrant and pyarrow") from None
    return answer
