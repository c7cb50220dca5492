"""Generated from schemas/backfills.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field

from calibrant.client.answers.document import WireAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFileRow(WireAnswer):
    """A row of a file that was not counted, and the reason."""

    row: int  # index of the row in its file; with conditions, among the rows that meet them
    code: str  # code of the problem
    detail: str  # what is wrong
    rows: int = 1  # number of rows refused for this reason, if it is listed once; `row` is the first
    file: str  # path of the file below the root


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillAnswer(WireAnswer):
    """The rows of files that a monitor has counted. Every row is accepted, a duplicate, contradicted or refused.

    Rows without ids are never duplicates: another job counts them again.
    """

    accepted: int  # new predictions, labels or labelled rows
    joined: int  # of the accepted: those now counted with their label
    waiting: int  # of the accepted: labels without a prediction yet
    duplicates: int  # already stored with the same values
    contradicted: int  # already stored with another label, which is kept
    refused: int  # invalid and not counted; can be corrected and sent again
    other_group: int = 0  # of the accepted: rows of groups beyond `max_groups`
    monitor: str  # name of the monitor
    rows: int  # number of rows that meet the conditions
    files: int  # number of files
    bytes: int  # size of the files
    refusals: list[RefusedFileRow] = field(default_factory=list)  # the first refused and contradicted rows
