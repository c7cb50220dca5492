"""Backfills: rows of files in a source that a job sends to a monitor."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document
from schemas.monitors import IngestionCounts, RefusedRow
from schemas.sources import ColumnName, SourceFiles


class MonitorColumns(Document):
    """The columns of the files; with predictions and labels, rows are labelled, with one of them, joined by id."""

    ids: ColumnName | None = Field(
        None,
        description="column of ids, texts or integers; required without predictions or labels. Rows without an id are "
        "counted again by another job",
        examples=["request"],
    )
    predictions: ColumnName | list[ColumnName] | None = Field(
        None,
        description="column of numbers or of lists of K numbers, or K columns, in the order of the classes",
        examples=["score"],
    )
    labels: ColumnName | None = Field(None, description="column of labels, or of outcomes of forecasts")
    timestamps: ColumnName | None = Field(
        None,
        description="column of timestamps of Parquet or Arrow, UTC without a zone, or of texts in RFC 3339 with an "
        "offset; default: when the row is counted",
    )
    groups: ColumnName | None = Field(
        None, description="column of group names, or a key in the names of folders, such as `country=de/`"
    )


class MonitorSource(SourceFiles):
    """Rows of files for a monitor."""

    columns: MonitorColumns


class BackfillOptions(Document):
    """The body of ``POST /monitors/{name}/backfill``."""

    source: MonitorSource = Field(description="rows of files in a source")


class BackfillSpec(Document):
    """A backfill as stored with a job; ``monitor`` is the id of the monitor, and ``name`` its name at that time."""

    batch: None = None
    monitor: str
    name: str
    source: MonitorSource


class RefusedFileRow(RefusedRow):
    """A row of a file that was not counted, and the reason."""

    row: int = Field(description="index of the row in its file; with conditions, among the rows that meet them")
    file: str = Field(description="path of the file below the root")


class BackfillAnswer(IngestionCounts):
    """The rows of files that a monitor has counted. Every row is accepted, a duplicate, contradicted or refused.

    Rows without ids are never duplicates: another job counts them again.
    """

    monitor: str
    rows: int = Field(description="number of rows that meet the conditions")
    files: int = Field(description="number of files")
    bytes: int = Field(description="size of the files")
    refusals: list[RefusedFileRow] = Field([])
