"""Generated from schemas/sources.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.client.answers.document import WireAnswer

SourceForm = Literal["rows", "distinct", "tally"]
Engine = Literal["local", "dask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTarget(WireAnswer):
    """Where a data set is written."""

    source: str  # name of a source of the setting sources
    path: str  # folder that does not exist yet; it is complete when it has the file `_manifest.json`


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisAnswer(WireAnswer):
    """What the results for a source were computed from."""

    #: all rows; counts of distinct predictions, which are exact for one event; or a tally of 2,048 cells
    form: SourceForm
    rows: int  # rows that meet the conditions
    bytes: int  # size of the files
    files: int  # number of files
    #: of a tally: the most by which a prediction differs from the one that stands for it; otherwise None
    tolerance: float | None
    engine: Engine = "local"  # what read the files: the worker of the job, or a cluster of Dask


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAnswer(WireAnswer):
    """A data set that was written."""

    target: SourceTarget  # where the data set was written
    map: str  # id of the map that was applied
    rows: int  # number of rows
    files: int  # number of Parquet files
    bytes: int  # size of these files
