"""Backfills: a job sends the rows of files in a source to a monitor, in blocks that are each counted once.

A block is a number of successive rows of a file. The transaction that counts it has the name of the block and adds the
outcomes to the counts of the job, so a run of the job that repeats a block changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from backend.held_map import HeldMap
from backend.monitors.definitions import current_map_of
from backend.monitors.ingestion import (
    LISTED_ONCE,
    LOOK_AFTER,
    MOST_WITHOUT,
    Account,
    Ingestion,
    apply_of,
    counts_of,
)
from backend.monitors.kinds import kind_of_monitor
from backend.monitors.row_fields import check_schema, rows_of_table
from backend.monitors.rows import MOST_NAMED, MonitorRows, What, Why
from backend.references import check_files, in_request, queue_files, scan_of
from backend.requester import Requester
from backend.store.chores import Chore, schedule
from backend.store.jobs.runs import Run
from backend.store.monitors.ledger import MOST_ROWS, Ledger, MonitorGroups
from backend.store.server.connection import patiently
from backend.store.store import Store
from backend.telemetry.observed import note_rows, span, traced
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidOption,
    Offence,
    SourceChanged,
    SourceTooLarge,
    WrongShape,
)
from calibrant.core.progress import Progress, reporting
from calibrant.distributed.arrow import NO_COLUMN, NO_ROWS
from calibrant.distributed.scan import BytesRead, FilePiece, Scan, damage
from calibrant.io.arrow import decoded, is_text, validated, value_type, without_views
from calibrant.io.errors import InvalidField, needed_pyarrow
from calibrant.io.limits import Limits
from schemas.backfills import BackfillAnswer, BackfillOptions, BackfillSpec, MonitorColumns, RefusedFileRow
from schemas.base import DAY, seconds_of
from schemas.jobs import JobRecord
from schemas.monitors import MonitorRecord

if TYPE_CHECKING:
    import pyarrow as pa

# --- Requests, which are checked without reading a file


@traced("work")
def queue_backfill(requester: Requester, name: str, options: BackfillOptions) -> JobRecord:
    """Queue a backfill of a monitor; raises ``UnknownMonitor``, and the error of the first invalid field."""
    record = requester.store.monitors.get(name)
    check_files(requester, options.source)
    content_of(options.source.columns)
    _check_width(options.source.columns, kind_of_monitor(record).width)
    current_map_of(requester, record)
    spec = BackfillSpec(monitor=record.id, name=record.name, source=options.source)
    return queue_files(requester, "backfill", spec)


def content_of(columns: MonitorColumns) -> What:
    """Return what the rows of files contain; raises ``InvalidField`` for a column that is missing or not used."""
    predicted, labelled = columns.predictions is not None, columns.labels is not None
    if not predicted and not labelled:
        raise InvalidField.at("/source/columns", "must name predictions, labels or both")
    if columns.ids is None and not (predicted and labelled):
        raise InvalidField.at("/source/columns/ids", "is missing; predictions and labels are joined by id")
    if not predicted and columns.groups is not None:
        raise InvalidField.at("/source/columns/groups", "is not used by labels; the group is that of the prediction")
    return "rows" if predicted and labelled else "predictions" if predicted else "labels"


def _check_width(columns: MonitorColumns, width: int | None) -> None:
    if isinstance(columns.predictions, list) and len(columns.predictions) != width:
        accepted = "must be one column" if width is None else f"must be one column of lists, or {width} columns"
        raise WrongShape.at("/source/columns/predictions", f"{accepted} for this monitor")


# --- The rows of files as those of a monitor

#: The most bytes of a block: those of its numbers, which bound the rows of vectors, and of all its columns.
_NUMBER_BYTES, _BLOCK_BYTES = 1 << 25, 1 << 28


class _BlockLimits(Limits):
    def _refuse(self, most: int, what: str, pointer: str | None) -> NoReturn:  # noqa: ARG002
        raise SourceTooLarge.at(
            "/source", f"has rows whose texts are too long; {MOST_ROWS} have more than {most} bytes"
        )


_LIMITS = _BlockLimits(_BLOCK_BYTES, None, 1 << 20)


class FileRows:
    """Reads blocks of files as rows of a monitor."""

    def __init__(self, record: MonitorRecord, columns: MonitorColumns) -> None:
        self._kind = kind_of_monitor(record)
        self.what = content_of(columns)
        fields = {"id": columns.ids, "label": columns.labels, "timestamp": columns.timestamps, "group": columns.groups}
        if isinstance(columns.predictions, list):
            fields |= {f"prediction.{k}": name for k, name in enumerate(columns.predictions)}
        else:
            fields["prediction"] = columns.predictions
        self._columns = {field: name for field, name in fields.items() if name is not None}
        #: Columns that are read as numbers from text.
        self.numbers = [name for field, name in self._columns.items() if field.startswith(("prediction", "label"))]
        #: The columns whose values are texts that may be repeated.
        self._texts = [name for field, name in self._columns.items() if field in ("id", "timestamp", "group")]
        of_numbers = _NUMBER_BYTES // (8 * (self._kind.width or 1))
        self.size = max(1, min(MOST_WITHOUT if columns.ids is None else MOST_ROWS, of_numbers))

    def blocks(self, scan: Scan, piece: FilePiece) -> Iterator[pa.Table]:
        """Yield the rows of a piece in blocks of ``size``, which are the same every time."""
        arrow = needed_pyarrow("types")
        waiting: list[pa.RecordBatch] = []
        n = size = 0
        for batch in scan.batches(piece, list(dict.fromkeys(self._columns.values())), self._texts):
            waiting.append(batch)
            n, size = n + batch.num_rows, size + batch.nbytes
            if size > _BLOCK_BYTES:
                raise SourceTooLarge.at("/source", f"has rows that are too long: {n:,} have more than 256 MB")
            if n >= self.size:
                table = arrow.Table.from_batches(waiting)
                whole = n - n % self.size
                yield from (table.slice(start, self.size) for start in range(0, whole, self.size))
                waiting, n = table.slice(whole).to_batches(), n - whole
                size = sum(part.nbytes for part in waiting)
        if n:
            yield arrow.Table.from_batches(waiting)

    def read(self, block: pa.Table, keys: Mapping[str, str | None]) -> MonitorRows:
        """Read a block; ``keys`` are the columns in the names of its folders. Raises errors about a whole column."""
        arrow = needed_pyarrow("types")
        columns, texts = {}, None
        for field, name in self._columns.items():
            place = block.schema.get_field_index(name)
            if place >= 0:
                column = block.column(place)
            elif field == "group" and name in keys:
                column = arrow.chunked_array([arrow.repeat(arrow.scalar(keys[name], arrow.string()), block.num_rows)])
            else:
                where = "/" + field.replace(".", "/")
                raise InvalidOption.at(where, NO_COLUMN)
            if field == "timestamp" and is_text(value_type(column.type)):
                texts = decoded(column).cast(arrow.large_string())
            elif arrow.types.is_null(column.type):
                kinds = {"id": arrow.string(), "group": arrow.string(), "timestamp": arrow.timestamp("us")}
                columns[field] = column.cast(kinds.get(field, arrow.float64()))
            else:
                columns[field] = column
        table = without_views(validated(arrow.table(columns), _LIMITS))
        check_schema(table.schema, self.what, self._kind)
        rows = rows_of_table(table, _LIMITS, self.what, self._kind)
        return rows if texts is None else _timed(rows, texts)


def _timed(rows: MonitorRows, texts: Any) -> MonitorRows:
    """The rows with times that are texts; those that are not in RFC 3339 are refused."""
    coded = texts.dictionary_encode()
    of_text = [seconds_of(text) for text in coded.dictionary.to_pylist()]
    times = np.array([np.nan if seconds is None else seconds for seconds in of_text] + [np.nan])
    codes = coded.indices.fill_null(len(of_text)).to_numpy(zero_copy_only=False)
    wrong = np.isnan(times[codes]) & (codes < len(of_text)) & (rows.refused == 0)
    refused = np.where(wrong, np.uint8(Why.INVALID_TIME), rows.refused)
    return replace(rows, refused=refused, times=times[codes])


def _in_file(error: CalibrationError, path: str) -> CalibrationError:
    """The error of a column, with the file that has it."""
    offences = [Offence(offence.pointer, f"{offence.detail}, in {path}") for offence in error.offences]
    return type(error)(f"{path}: {error.detail}", offences)


# --- Jobs

#: How long the counts of a job are kept after its last block, in seconds: as long as its blocks are known.
_KEPT = 7 * DAY


def run_backfill(store: Store, run: Run, _device: str, progress: Progress) -> None:
    """Send the rows of a job's source to a monitor, or continue after an earlier run of it; then end the job."""
    spec = BackfillSpec.model_validate(run.job.spec)
    record = patiently(lambda: store.monitors.by_uid(spec.monitor))
    with reporting(progress), span("compute"), in_request():
        rows = FileRows(record, spec.source.columns)
        scan = scan_of(run, spec.source, rows.numbers)
        try:
            answer = Backfill(store, record, rows, scan, run.job.id).run(spec.name)
        finally:
            schedule(store.redis, Chore("look", store.keys.tenant, record.id), LOOK_AFTER)
    patiently(lambda: run.succeed(answer.model_dump()))


class Backfill:
    """Counts the rows of files, and keeps how far it is: what a run has counted, a later run of the job passes over."""

    def __init__(self, store: Store, record: MonitorRecord, rows: FileRows, scan: Scan, job_id: str) -> None:
        self._redis, self._record, self._rows, self._scan, self._job_id = store.redis, record, rows, scan, job_id
        self._key = store.keys.backfill(job_id)
        self._ledger = Ledger(store.redis, store.keys, record)
        self._groups = MonitorGroups(store.redis, store.keys, record)
        self._apply = apply_of(lambda ref: HeldMap.of(store.maps.get(ref)), record)
        self._refusals: list[RefusedFileRow] = []

    def run(self, name: str) -> BackfillAnswer:
        """Count the rows; raises ``SourceChanged``, ``EmptyBatch``, ``MonitorFull`` and errors about a whole column."""
        scan, progress = self._scan, BytesRead(self._scan.total)
        at, progress.rows = self._begin()
        for i, piece in enumerate(scan.pieces()):
            first = piece.first_row
            for k, block in enumerate(self._rows.blocks(scan, piece) if i >= at[0] else ()):
                if (i, k) >= at:
                    try:
                        self._count((i, k), piece, first, block)
                    except CalibrationError as error:
                        raise _in_file(error, piece.file.path) from None
                    progress.add(block.num_rows)
                first += block.num_rows
            progress.end(piece.size)
        counts = {field: int(n) for field, n in self._stored().items() if field.isalpha()}
        rows = counts.pop("rows", 0)
        note_rows((rows,))
        if not rows:
            raise EmptyBatch.at("/source", NO_ROWS)
        by_outcome = counts_of(counts).model_dump()
        by_outcome["refused"] = rows - sum(by_outcome[field] for field in ("accepted", "duplicates", "contradicted"))
        sizes: Any = {"rows": rows, "files": len(scan.files), "bytes": scan.total}
        return BackfillAnswer(monitor=name, **sizes, **by_outcome, refusals=self._refusals)

    def _begin(self) -> tuple[tuple[int, int], int]:
        """Return the piece and the block with which to continue, and the rows before; raises ``SourceChanged``."""
        listed = [[file.path, file.size, file.version] for file in self._scan.files]
        digest = hashlib.sha256(json.dumps(listed).encode()).hexdigest()
        self._redis.hsetnx(self._key, "digest-of-files", digest)
        self._redis.expire(self._key, _KEPT)
        stored = self._stored()
        if stored["digest-of-files"] != digest:
            raise SourceChanged("the files differ from those that an earlier run of the job began with")
        self._refusals = [RefusedFileRow(**row) for row in json.loads(stored.get("rows-refused", "[]"))]
        piece, block = json.loads(stored.get("next-block", "[0, 0]"))
        return (piece, block), int(stored.get("rows", 0))

    def _stored(self) -> dict[str, str]:
        stored: Any = self._redis.hgetall(self._key)
        return {field.decode(): value.decode() for field, value in stored.items()}

    def _count(self, place: tuple[int, int], piece: FilePiece, first: int, block: pa.Table) -> None:
        """Count a block, whose first row has the number ``first`` in its file."""
        now, account = time(), Account()
        with damage(piece.file.path):
            rows = self._rows.read(block, self._scan.keys_of(piece.file))
        seed = f"{self._job_id}:{place[0]}:{place[1]}"
        ingestion = Ingestion(self._ledger, self._groups, self._record, self._apply, seed, self._key)
        ingestion.add(self._rows.what, rows, now, account)
        ingestion.close(now, account)
        for row in account.refusals():
            self._refuse(RefusedFileRow(**row.model_dump() | {"row": row.row + first, "file": piece.file.path}))
        listed = json.dumps([row.model_dump() for row in self._refusals])
        state: Any = {"next-block": json.dumps([place[0], place[1] + 1]), "rows-refused": listed}
        with self._redis.pipeline() as pipe:
            pipe.hset(self._key, mapping=state)
            pipe.expire(self._key, _KEPT)
            pipe.execute()

    def _refuse(self, row: RefusedFileRow) -> None:
        """List a refused row; those with a reason that usually applies to many are listed once."""
        details = {why.detail for why in LISTED_ONCE}
        for i, other in enumerate(self._refusals):
            if row.detail == other.detail and row.detail in details:
                self._refusals[i] = other.model_copy(update={"rows": other.rows + row.rows})
                return
        if len(self._refusals) < MOST_NAMED:
            self._refusals.append(row)
