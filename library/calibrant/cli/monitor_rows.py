"""What ``calibrant monitors send`` reads of a file: rows, predictions or labels, with their ids and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from calibrant.cli.exits import Refused
from calibrant.cli.rows import Columns, name_of, read_rows, sheet_options, source_of

if TYPE_CHECKING:
    from calibrant.client import Calibrant
    from calibrant.client.answers import Taken

What = Literal["rows", "predictions", "labels"]


@dataclass(frozen=True)
class Beside:
    """Columns that no measure reads: the ids, and when each row was predicted, or its label became known."""

    ids: str | None
    times: str | None


def send_file(client: Calibrant, monitor: str, file: Path, what: What, columns: Columns, beside: Beside) -> Taken:
    """Send a file's rows to a monitor; raises ``Refused`` for a file that cannot be read so."""
    with source_of(file) as source:
        if what == "labels":
            ids, labels = _ids_and_labels(source, file, columns, beside)
            return client.send_labels(monitor, ids, labels, timestamps=_times(source, file, beside.times))
        sheet = read_rows(file, columns, labelled=what == "rows", source=source)
        there: dict[str, Any] = {"timestamps": _times(source, file, beside.times), "groups": sheet.groups}
        named = None if beside.ids is None else _texts(source, file, beside.ids)
    if what == "predictions":
        return client.send_predictions(monitor, named or [], sheet.predictions, **there)
    if sheet.labels is None:
        raise Refused(f"{name_of(file)}: has no labels; name their column by --label")
    return client.send_rows(monitor, sheet.predictions, sheet.labels, ids=named, **there)


def _ids_and_labels(source: BinaryIO, file: Path, columns: Columns, beside: Beside) -> tuple[list[str], list[int]]:
    if columns.label is None:
        raise Refused("labels without predictions are not guessed: name their column by --label")
    texts = _texts(source, file, columns.label)
    mapping = sheet_options(columns).mapping or {}
    return _texts(source, file, beside.ids or ""), [_class_of(texts, i, mapping, file) for i in range(len(texts))]


def _class_of(texts: Sequence[str], i: int, mapping: Mapping[str, int], file: Path) -> int:
    text = texts[i]
    if text in mapping:
        return mapping[text]
    whole = text.removesuffix(".0")
    if not mapping and whole.isascii() and whole.isdigit():
        return int(whole)
    raise Refused(f"{name_of(file)}: the label of row {i + 1} is no class; say which it is by --map-label TEXT=CLASS")


def _texts(source: BinaryIO, file: Path, column: str) -> list[str]:
    from calibrant.io.errors import TabularError
    from calibrant.io.files import read_columns

    try:
        return read_columns(source, [column], name=name_of(file))[0]
    except TabularError as error:
        raise Refused(f"{name_of(file)}: {error.detail}") from error


def _times(source: BinaryIO, file: Path, column: str | None) -> list[float] | None:
    """Seconds since 1970 of numbers, or of RFC 3339; those without a zone are UTC."""
    if column is None:
        return None
    texts = _texts(source, file, column)
    try:
        return [_seconds(text) for text in texts]
    except ValueError:
        row = next(i for i, text in enumerate(texts) if not _is_time(text))
        raise Refused(f"{name_of(file)}: row {row + 1} of column '{column}' is no time") from None


def _seconds(text: str) -> float:
    from calibrant.io.texts import number

    try:
        return number(text)
    except ValueError:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _is_time(text: str) -> bool:
    try:
        _seconds(text)
    except ValueError:
        return False
    return True
