"""Batch scoring: a Parquet data set with calibrated columns, staged under a hidden name until it is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import InputScale, read_predictions
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidOption,
    RefusedPath,
    SourceChanged,
    TargetExists,
)
from calibrant.distributed.arrow import NO_COLUMN, NO_ROWS, Columns, check_order, placed, predictions_of
from calibrant.distributed.scan import BytesRead, FilePiece, Scan
from calibrant.distributed.storage import Storage
from calibrant.io.errors import needed_pyarrow
from calibrant.maps.calibration_map import CalibrationMap

if TYPE_CHECKING:
    import pyarrow as pa

#: The last file of a data set that is written; a folder without it is not whole.
MANIFEST = "_manifest.json"
_PLAN, _PUBLISHING, _COLUMN = "_plan.json", "_publishing.json", "calibrated"
#: Rows of a row group.
_GROUP_ROWS = 1 << 20


@dataclass(frozen=True)
class Scored:
    """A data set that was written: numbers of rows and files, and bytes of these.

    Attributes
    ----------
    rows, files, bytes : int
        Rows, Parquet files, and their size in bytes.

    See Also
    --------
    calibrate_source : Writes the data set.

    Examples
    --------
    >>> from calibrant.distributed.target import Scored
    >>> Scored(rows=1000, files=2, bytes=16_000).rows
    1000
    """

    rows: int
    files: int
    bytes: int


@dataclass(frozen=True)
class Part:
    """A staged file of the data set: its rows and bytes, and its schema as text; without rows there is no file."""

    rows: int
    bytes: int
    schema: str


class Scoring:
    """Writes the rows of a scan, with calibrated columns, to a folder that does not exist yet.

    Each piece of the source becomes one file. A file, and the record that it is complete, is staged in a hidden folder
    named after ``job``, so that a repeated run of the job continues after the last complete file. Two runs at one time
    write the same rows. A local folder is renamed when it is whole; in an object store the files are copied, and the
    manifest last.
    """

    def __init__(self, storage: Storage, path: str, job: str) -> None:
        self._storage, self._path, self._job = storage, path.rstrip("/"), job
        folder, _, _ = self._path.rpartition("/")
        self._staging = f"{folder}/.calibrant-{job}".lstrip("/")

    def run(self, scan: Scan, columns: Columns, map: CalibrationMap, *, scale: InputScale | None = None) -> Scored:
        """Write the data set; raises ``TargetExists``, ``SourceChanged`` and the errors of invalid rows.

        Raises ``RefusedPath`` or ``InvalidOption`` for a target that a folder cannot have.
        """
        check_order(columns, map.class_names)
        with _writing():
            return self._run(scan, columns, map, scale)

    def _run(self, scan: Scan, columns: Columns, map: CalibrationMap, scale: InputScale | None) -> Scored:
        whole = self._published()
        if whole is not None:
            return whole
        manifest = self._read(MANIFEST) if self._read(_PUBLISHING) is not None else None
        if manifest is not None:  # what is staged is whole, whatever the source has become since
            return self._publish(manifest)
        pieces = list(scan.pieces())
        self._plan(pieces, scan, columns, map, scale)
        progress, parts = BytesRead(scan.total), list[Part]()
        for i, piece in enumerate(pieces):
            stored = self._read(f"part-{i:05}.json")
            if stored is None:
                part = self._write(i, _calibrated(scan, piece, columns, map, scale, progress))
                self._check_schema(part, parts)
                self._storage.write(f"{self._staging}/part-{i:05}.json", _json(asdict(part)))
            else:
                part = Part(**stored)
                progress.add(part.rows)
            parts.append(part)
            progress.end(piece.size)
        return self._publish(self._stage_manifest(parts))

    def _published(self) -> Scored | None:
        """Return the data set if this job has published it; raise ``TargetExists`` if something else is there."""
        manifest = self._storage.read(f"{self._path}/{MANIFEST}")
        if manifest is not None:
            content = json.loads(manifest)
            if isinstance(content, dict) and content.get("job") == self._job:
                self._storage.remove(self._staging)
                return Scored(*(content[name] for name in ("rows", "files", "bytes")))
        else:
            self._check_outside()
            if self._read(_PUBLISHING) is not None:
                return None  # an earlier run was interrupted while it copied the files
            if self._storage.file(self._path) is None and next(self._storage.below(self._path), None) is None:
                return None
        raise TargetExists.at("/target/path", "exists; name a new path")

    def _check_outside(self) -> None:
        """Raise ``TargetExists`` for a place in another data set, which would have the rows twice."""
        for folder in PurePosixPath(self._path).parents:
            if self._storage.file(str(folder / MANIFEST)) is not None:
                raise TargetExists.at("/target/path", "is in a data set; name a path outside of it")

    def _plan(
        self, pieces: Sequence[FilePiece], scan: Scan, columns: Columns, map: CalibrationMap, scale: InputScale | None
    ) -> None:
        """Record what is to be done, or compare it with what an earlier run began."""
        plan = {
            "pieces": [[piece.file.path, piece.file.size, piece.file.version, piece.row_groups] for piece in pieces],
            "prediction": columns.prediction,
            "where": scan.where,
            "format": scan.format,
            "scale": scale,
            "map": map.to_document(),
        }
        begun = self._read(_PLAN)
        if begun is None:
            self._storage.write(f"{self._staging}/{_PLAN}", _json(plan))
        elif begun != json.loads(_json(plan)):
            raise SourceChanged("the files or the options differ from those that an earlier run of the job began with")

    def _write(self, i: int, batches: Iterator[pa.RecordBatch]) -> Part:
        arrow = needed_pyarrow("parquet")
        first = next(batches, None)
        if first is None:
            return Part(0, 0, "")
        name, rows, held = f"{self._staging}/part-{i:05}.parquet", 0, [first]
        with (
            self._storage.create(name) as sink,
            arrow.parquet.ParquetWriter(sink, first.schema, compression="zstd") as file,
        ):
            for batch in batches:
                if sum(waiting.num_rows for waiting in held) >= _GROUP_ROWS:
                    rows += _flushed(arrow.Table, file, held)
                held.append(batch)
            rows += _flushed(arrow.Table, file, held)
        written = self._storage.file(name)
        return Part(rows, 0 if written is None else written.size, str(first.schema.remove_metadata()))

    @staticmethod
    def _check_schema(part: Part, others: Sequence[Part]) -> None:
        schemas = {other.schema for other in (*others, part) if other.rows}
        if len(schemas) > 1:
            raise InvalidOption.at("/source", "has files with different columns, which one data set cannot have")

    def _stage_manifest(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Record that all files are staged, and which."""
        files = [i for i, part in enumerate(parts) if part.rows]
        if not files:
            raise EmptyBatch.at("/source", NO_ROWS)
        scored = Scored(sum(part.rows for part in parts), len(files), sum(part.bytes for part in parts))
        names = [f"part-{i:05}.parquet" for i in files]
        manifest = {"format": 1, "job": self._job, **asdict(scored), "parts": names}
        self._storage.write(f"{self._staging}/{MANIFEST}", _json(manifest))
        self._storage.write(f"{self._staging}/{_PUBLISHING}", b"{}")
        return manifest

    def _publish(self, manifest: dict[str, Any]) -> Scored:
        self._check_outside()  # since which others may have been published
        try:
            self._storage.publish(self._staging, self._path, [*manifest["parts"], MANIFEST])
        except (TargetExists, FileNotFoundError):  # another run of the job may have published it
            if self._published() is None:
                raise
        return Scored(*(manifest[name] for name in ("rows", "files", "bytes")))

    def discard(self) -> bool:
        """Remove what is staged, and what of it is published, unless all is; return whether anything was there."""
        with suppress(PermissionError):  # where nothing can be removed, at this time or later
            manifest = self._read(MANIFEST)
            if manifest is not None and self._storage.file(f"{self._path}/{MANIFEST}") is None:
                self._storage.withdraw(self._path, manifest["parts"])
            return self._storage.remove(self._staging)
        return False

    def _read(self, name: str) -> dict[str, Any] | None:
        content = self._storage.read(f"{self._staging}/{name}")
        return None if content is None else json.loads(content)


@contextmanager
def _writing() -> Iterator[None]:
    """Convert the errors of a folder that recur; those of the source are converted where it is read."""
    try:
        yield
    except NotADirectoryError:
        raise RefusedPath.at("/target/path", "leads through a file") from None
    except PermissionError:
        raise InvalidOption.at("/target/path", "is in a folder that may not be written") from None


def _json(content: Any) -> bytes:
    return json.dumps(content, allow_nan=False).encode()


def _flushed(table: Any, file: Any, held: list[Any]) -> int:
    rows = table.from_batches(held)
    file.write_table(rows, row_group_size=_GROUP_ROWS)
    held.clear()
    return int(rows.num_rows)


def _calibrated(
    scan: Scan,
    piece: FilePiece,
    columns: Columns,
    map: CalibrationMap,
    scale: InputScale | None,
    progress: BytesRead,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece with the calibrated columns, and the columns in the names of its folders."""
    arrow = needed_pyarrow("types")
    first_row, keys = piece.first_row, scan.keys_of(piece.file)
    for batch in scan.batches(piece, None):
        if batch.num_rows:
            for argument, name in columns.named.items():
                if argument.startswith("prediction") and batch.schema.get_field_index(name) < 0:
                    raise InvalidOption.at(f"/{argument}", NO_COLUMN)
            try:
                predictions = read_predictions(predictions_of(batch, columns), scale=scale or map.scale)
            except CalibrationError as error:
                raise placed(error, piece.file.path, first_row) from None
            new = _named(map.apply_checked(predictions), map)
            for name, key in keys.items():
                if batch.schema.get_field_index(name) < 0:
                    new[name] = arrow.array([key] * batch.num_rows, arrow.string())
            for name, values in new.items():
                if batch.schema.get_field_index(name) >= 0:
                    raise InvalidOption.at("/source", f"already has a column {name}; rename it")
                batch = batch.append_column(name, arrow.array(values) if isinstance(values, np.ndarray) else values)
            yield batch
        first_row += batch.num_rows
        progress.add(batch.num_rows)


def _named(values: npt.NDArray[Any], map: CalibrationMap) -> dict[str, Any]:
    """Return the new columns: ``calibrated``, or one per class."""
    if values.ndim == 1:
        return {_COLUMN: values}
    names = map.class_names or tuple(str(k) for k in range(values.shape[1]))
    return {f"{_COLUMN}_{name}": np.ascontiguousarray(values[:, k]) for k, name in enumerate(names)}
