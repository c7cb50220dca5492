"""Rows by reference: files of a source that the administrator declares, and data sets that are written to one."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from calibrant.core.choices import Engine, InputScale
from calibrant.io.roots import check_root
from schemas.base import Document, Reference

SourceName = Annotated[
    str, Field(min_length=1, max_length=64, description="name of a source of the setting sources", examples=["scores"])
]
ColumnName = Annotated[str, Field(min_length=1, max_length=512)]
SourcePath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        description="file, folder or pattern below the root: `*` matches within a name, `**` any number of folders",
        examples=["2026-11/*.parquet"],
    ),
]
FileFormat = Literal["parquet", "csv", "ndjson", "arrow", "delta"]


class SourceColumns(Document):
    """The columns of the files; those in the names of folders, such as `country=de/`, can be groups."""

    predictions: ColumnName | list[ColumnName] | None = Field(
        None, description="column of numbers or of lists of K numbers, or K columns", examples=["score"]
    )
    models: dict[Annotated[str, Field(min_length=1, max_length=256)], ColumnName | list[ColumnName]] | None = Field(
        None,
        min_length=2,
        max_length=20,
        description="for a comparison of models, instead of `predictions`: those of each model by name",
        examples=[{"forest": "p_forest", "boosting": "p_boosting"}],
    )
    labels: ColumnName | None = Field(None, description="column of labels", examples=["outcome"])
    weights: ColumnName | None = Field(None, description="column of weights")
    groups: ColumnName | None = Field(None, description="column of group names")


class SourceFiles(Document):
    """Files of a source, and which of their rows are read."""

    source: SourceName
    path: SourcePath
    where: list[Annotated[list[Any], Field(min_length=3, max_length=3)]] | None = Field(
        None,
        max_length=32,
        description="only rows that meet all conditions: a column, one of =, !=, <, <=, >, >=, in, not in, and a value",
        examples=[[["country", "=", "de"]]],
    )
    format: FileFormat | None = Field(None, description="default: that of the suffix of each file")


class SourceRows(SourceFiles):
    """Rows of files."""

    columns: SourceColumns
    engine: Engine = Field(
        "local",
        description="`dask` counts the rows on the cluster of the setting `dask_scheduler`, for evaluations, diagrams "
        "and fits; the results are those of a tally",
    )


class SourceTarget(Document):
    """Where a data set is written."""

    source: SourceName
    path: str = Field(
        min_length=1,
        max_length=1024,
        description="folder that does not exist yet; it is complete when it has the file `_manifest.json`",
        examples=["scored/2026-11"],
    )


# --- What the administrator declares

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class SourceDeclaration(Document):
    """A source of the setting ``sources``; without ``tenants``, all may use it."""

    root: Annotated[str, AfterValidator(check_root)]
    write: bool = False
    tenants: tuple[str, ...] | None = None
    endpoint: Annotated[str, Field(pattern=r"^https?://[^/@?#\s]+$")] | None = None
    region: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.root.startswith("s3:") and (self.endpoint or self.region) is not None:
            raise ValueError("endpoint and region are only of a root s3://")
        return self


def read_declarations(text: str) -> dict[str, SourceDeclaration]:
    """Parse the setting ``sources``; raises ``ValueError``, which names the source and the field."""
    try:
        declared = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"must be JSON; line {error.lineno}, column {error.colno} is not") from None
    if not isinstance(declared, dict) or not all(map(_NAME.fullmatch, declared)):
        raise ValueError("must be an object with names of lower-case letters, digits, hyphens and underscores")
    try:
        return {name: SourceDeclaration.model_validate_json(json.dumps(fields)) for name, fields in declared.items()}
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "/".join(map(str, first["loc"]))
        raise ValueError(f"has a source with an invalid {place or 'value'}: {first['msg']}") from None


# --- Rows and results

#: The rows of a request by reference.
RowsByReference = Annotated[
    SourceRows | None,
    Field(description="rows of files in a source, instead of the arrays; the request becomes a job"),
]


class DatasetOptions(Document):
    """The body of ``POST /datasets``."""

    map: Reference = Field(description="id, name, `name:version` or `name@alias`")
    source: SourceRows = Field(description="rows to which the map is applied; all of their columns are written")
    target: SourceTarget = Field(description="where the data set is written")
    scale: InputScale | None = Field(None, description="default: that of the map")


class ScoringSpec(Document):
    """Batch scoring as stored with a job; ``map`` is an id."""

    batch: None = None
    map: str
    source: SourceRows
    target: SourceTarget
    scale: InputScale | None = None


class ScoredAnswer(Document):
    """A data set that was written."""

    target: SourceTarget = Field(description="where the data set was written")
    map: str = Field(description="id of the map that was applied")
    rows: int
    files: int = Field(description="number of Parquet files")
    bytes: int = Field(description="size of these files")
