"""Generated from schemas/sources.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.client.answers.document import WireAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTarget(WireAnswer):
    """Where a data set is written."""

    source: str  # name of a source of the setting sources
    path: str  # folder that does not exist yet; it is complete when it has the file `_manifest.json`


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAnswer(WireAnswer):
    """A data set that was written."""

    target: SourceTarget  # where the data set was written
    map: str  # id of the map that was applied
    rows: int  # number of rows
    files: int  # number of Parquet files
    bytes: int  # size of these files
