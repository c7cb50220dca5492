"""The file that ``calibrant monitors send`` reads: rows, predictions or labels, with ids and timestamps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from calibrant.cli.exits import Refused
from calibrant.cli.output import say
from calibrant.cli.rows import Columns, name_of, options_of, read_forecast_rows, read_rows, refused, source_of
from calibrant.core.choices import What
from calibrant.io.errors import TabularError

if TYPE_CHECKING:
    import numpy.typing as npt

    from calibrant.client import Calibrant
    from calibrant.client.answers import IngestionResult, MonitorForecast
    from calibrant.io.table import ForecastSheet, Sheet


@dataclass(frozen=True)
class ExtraColumns:
    """The columns of ids and timestamps: when a row was predicted, or when its label became known."""

    ids: str | None
    times: str | None


def send_file(
    client: Calibrant, monitor: str, file: Path, what: What, columns: Columns, extra: ExtraColumns, *, regression: bool
) -> IngestionResult:
    """Send the content of a file to a monitor, of regression or of classes; raises ``Refused`` if it cannot be read."""
    from calibrant.io.table import ForecastSheet

    with source_of(file) as source:
        if what == "labels":
            ids = _texts(source, file, columns, extra.ids or "")
            outcomes: list[Any] = (_outcomes if regression else _classes)(source, file, columns)
            return client.send_labels(monitor, ids, outcomes, timestamps=_times(source, file, columns, extra.times))
        read: Callable[..., Sheet | ForecastSheet] = read_forecast_rows if regression else read_rows
        sheet = read(file, columns, labelled=what == "rows", unused=("weights",), source=source)
        if any(note.startswith("weights: ") for note in sheet.notes):
            say("weights: not sent, because monitors count each row once")
        optional: dict[str, Any] = {"timestamps": _times(source, file, columns, extra.times), "groups": sheet.groups}
        named = None if extra.ids is None else _texts(source, file, columns, extra.ids)
    values: Any
    if isinstance(sheet, ForecastSheet):
        values, labels = _values(sheet, client.monitor(monitor).monitor.forecast, file), sheet.observed
    else:
        values, labels = sheet.predictions, sheet.labels
        reduction = sheet.reduction if what == "rows" else None
        if reduction is not None and client.monitor(monitor).monitor.reduction != reduction:
            text = (
                "the file has the confidence in a predicted class, which is for a monitor with --reduction confidence"
            )
            raise Refused(f"{name_of(file)}: {text}; for P(Y=1), give the classes of the labels with --map-label")
    if what == "predictions":
        return client.send_predictions(monitor, named or [], values, **optional)
    if labels is None:
        column = "outcomes" if regression else "labels"
        raise Refused(f"{name_of(file)}: no column of {column} found; name it with --label")
    return client.send_rows(monitor, values, labels, ids=named, **optional)


def _values(sheet: ForecastSheet, taken: MonitorForecast | None, file: Path) -> npt.NDArray[Any]:
    """Return the values of each forecast; raises ``Refused`` unless the monitor takes forecasts like these."""
    import numpy as np

    if taken is None:
        raise Refused("the monitor is one of classification; omit --regression")
    own, where = sheet.forecasts, name_of(file)
    if own.kind != taken.kind:
        raise Refused(f"{where}: has forecasts as {own.kind}, but the monitor takes {taken.kind}")
    if own.kind == "interval" and abs(own.level - (taken.level or 0.0)) > _SAME:
        raise Refused(f"{where}: has intervals of level {own.level:g}, but the monitor takes {taken.level or 0.0:g}")
    levels = taken.levels or []
    if own.kind == "quantiles" and not (len(own.levels) == len(levels) and np.allclose(own.levels, levels, 0.0, _SAME)):
        raise Refused(f"{where}: has quantiles at other levels than the monitor")
    if own.kind in ("quantiles", "samples"):
        return own.quantiles if own.kind == "quantiles" else own.samples
    return np.column_stack([own.mean, own.variance] if own.kind == "normal" else [own.lower, own.upper])


#: How far the levels of a file may be from those of a monitor.
_SAME = 1e-9


def _outcomes(source: BinaryIO, file: Path, columns: Columns) -> list[float]:
    from calibrant.io.texts import number, with_point

    if columns["labels"] is None:
        raise Refused("--what labels needs --label, the column of the outcomes")
    decimal = options_of(columns, "numbers").decimal
    outcomes = []
    for i, text in enumerate(_texts(source, file, columns, columns["labels"])):
        try:
            outcomes.append(number(with_point(text) if decimal == "," else text))
        except ValueError:
            raise Refused(f"{name_of(file)}: the outcome in row {i + 1} is not a number") from None
    return outcomes


def _classes(source: BinaryIO, file: Path, columns: Columns) -> list[int]:
    if columns["labels"] is None:
        raise Refused("--what labels needs --label, the column of the labels")
    texts, mapping = _texts(source, file, columns, columns["labels"]), options_of(columns).mapping or {}
    return [_class_of(texts, i, mapping, file) for i in range(len(texts))]


def _class_of(texts: Sequence[str], i: int, mapping: Mapping[str, int], file: Path) -> int:
    text = texts[i]
    if text in mapping:
        return mapping[text]
    whole = text.removesuffix(".0")
    if not mapping and whole.isascii() and whole.isdigit():
        return int(whole)
    raise Refused(f"{name_of(file)}: the label in row {i + 1} is not a class; map it with --map-label TEXT=CLASS")


def _texts(source: BinaryIO, file: Path, columns: Columns, column: str) -> list[str]:
    from calibrant.io.files import read_columns

    try:
        return read_columns(source, [column], name=name_of(file), encoding=options_of(columns).encoding)[0]
    except TabularError as error:
        raise refused(error, file) from error


def _times(source: BinaryIO, file: Path, columns: Columns, column: str | None) -> list[float] | None:
    """Read a column of Unix times or RFC 3339 timestamps as seconds since 1970.

    Those without an offset are read as UTC, which is printed.
    """
    if column is None:
        return None
    texts = _texts(source, file, columns, column)
    moments = []
    for i, text in enumerate(texts):
        try:
            moments.append(_moment(text))
        except ValueError:
            where = f"{name_of(file)}: row {i + 1} of column '{column}'"
            raise Refused(f"{where} is not a time; times are seconds since 1970 or RFC 3339") from None
    if any(isinstance(moment, datetime) and moment.tzinfo is None for moment in moments):
        say(f"times: column '{column}' has times without an offset, which are read as UTC")
    return [
        (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if isinstance(moment, datetime)
        else moment
        for moment in moments
    ]


def _moment(text: str) -> float | datetime:
    from calibrant.io.texts import number

    try:
        return number(text)
    except ValueError:
        return datetime.fromisoformat(text)
