"""The form of a map's page that calibrates a file: the file comes back with the calibrated probabilities."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
from fastapi import Request, Response
from starlette.datastructures import UploadFile
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from backend.kinds import work_bytes
from backend.kinds.distributions import recalibrate
from backend.store.errors import StorageError, problem_of
from backend.telemetry.observed import note_rows
from calibrant.core.batch import read_predictions, with_features
from calibrant.core.errors import CalibrationError
from calibrant.io.arrow import ArrowTable, ParquetTable
from calibrant.io.calibrated import BOUNDS, calibrated_arrow, calibrated_text, forecast_columns
from calibrant.io.csv import CsvTable
from calibrant.io.detection import open_table
from calibrant.io.errors import EmptyFile, FileTooLarge, InvalidForecasts, NoRoom, TabularError, needed_pyarrow
from calibrant.io.files import read_forecast_sheet, read_sheet
from calibrant.io.limits import LIGHT_BYTES, NUMBER_BYTES, FileLimits
from calibrant.io.options import READ_SUFFIXES
from calibrant.io.source import blocks_of, spooled, write_blocks
from calibrant.io.table import Floats, ForecastSheet, Ints, OpenTable
from calibrant.io.texts import TextCells, plain
from calibrant.maps.segments import Segments
from calibrant.sets.set_map import SetMap
from schemas.maps import MapRecord
from service.calls import Call, Calls
from service.context import Context
from service.errors import SpoolFull, UnsupportedMediaType
from service.formats.format import Pieces
from service.guard import RequestMemory
from service.html import SEALED
from service.threads import iterate_in_thread, run_in_thread
from service.web.forms import file_of, multipart
from service.web.maps import map_page
from service.web.upload import (
    FIXABLE,
    IN_ORDER_FIELDS,
    Choices,
    UploadForm,
    calibrate_fields,
    message_of_file,
    message_of_problem,
)
from service.web.visit import Visit, Visiting, redirect_to
from service.web.visitor import check_origin

# --- The calibrated file: written to a temporary file, so that no error occurs while it is sent


class CalibratedFile(StreamingResponse):
    """A temporary file as a download; it is deleted after it has been sent."""

    def __init__(self, file: BinaryIO, size: int, opened: ExitStack, *, name: str, kind: str) -> None:
        plain_name = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        headers = {
            **SEALED,
            "Cache-Control": "no-store",
            "Content-Disposition": f"attachment; filename=\"{plain_name}\"; filename*=UTF-8''{quote(name, safe='')}",
            "Content-Length": str(size),
        }
        super().__init__(iterate_in_thread(blocks_of(file)), headers=headers, media_type=kind)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, then delete it."""
        with self._opened:
            await super().__call__(scope, receive, send)


def calibrate_file(
    here: Context, record: MapRecord | None, file: UploadFile, choices: Choices, *, budget: Callable[[int], None]
) -> CalibratedFile:
    """Apply a map to the predictions of a file; without one, recalibrate its forecasts in the order of time.

    The scale and the class names are those of the map. ``budget`` reserves the memory for the rows, and takes the slot
    that a large file needs. Raises the errors of ``budget``, ``TabularError``, ``SpoolFull``, and those of the map.
    """
    name, settings = file.filename or "file", here.settings
    calibrated_of: Callable[..., Calibrated]
    if record is None:
        calibrated_of = partial(_in_order, here, choices)
    elif record.prediction_kind == "regression":
        calibrated_of = partial(_calibrated_forecasts, here, record, choices)
    else:
        calibrated_of = partial(_calibrated_predictions, here, record, choices)
    file.file.seek(0)  # it may have been read in part
    try:
        with here.process.spools.spool(here.caller) as unpacked:
            limits = FileLimits(settings.max_unpacked_bytes, settings.max_rows, budget=budget, spool=unpacked.grow)
            calibrated, names = calibrated_of(
                file.file,
                name=name,
                max_rows=limits.max_rows,
                labelled=record is None,
                max_bytes=limits.max_unpacked_bytes,
                budget=budget,
                spool=unpacked.grow,
            )
            here.go_on()
            with open_table(file.file, name, limits, TextCells(choices.decimal)) as table:
                return _written(here, record, name, table, calibrated, names, choices.decimal)
    except NoRoom as error:
        raise SpoolFull("the volume of temporary files is full") from error


#: The calibrated columns, or those of the members of sets, and the names of several.
Calibrated = tuple[Floats | Ints, Sequence[str] | None]


def _calibrated_predictions(
    here: Context, record: MapRecord, choices: Choices, file: BinaryIO, **limits: Any
) -> Calibrated:
    held = here.find_map(record.id)
    fitted = held.loaded if isinstance(held.loaded, SetMap) else held.map
    scale = "percent" if choices.scale == "percent" and fitted.scale == "probability" else fitted.scale
    known = fitted.function.features if isinstance(fitted.function, Segments) else ()
    needed = tuple(own.name for own in known) or None
    texts = tuple(own.name for own in known if own.categories is not None) or None
    options = replace(
        choices.options(), scale=scale, class_names=fitted.class_names, features=needed, categorical=texts
    )
    sheet = read_sheet(file, options=options, **limits)
    note_rows(sheet.predictions.shape)
    _take_slot(here, sheet.predictions.size)
    predictions = with_features(read_predictions(sheet.predictions, scale=sheet.scale), sheet.features)
    if isinstance(fitted, SetMap):
        groups = None if fitted.groups is None else sheet.groups
        sets = choices.at_level(fitted).apply_checked(predictions, groups=groups, seed=choices.seed_of_sets())
        return sets.members.astype(np.int64), list(map(str, sets.classes))
    if choices.bounds:
        columns = fitted.apply_checked(predictions), *fitted.bounds_checked(predictions)
        return np.column_stack(columns), BOUNDS
    return fitted.apply_checked(predictions), record.class_names


def _calibrated_forecasts(
    here: Context, record: MapRecord, choices: Choices, file: BinaryIO, **limits: Any
) -> Calibrated:
    fitted = here.find_map(record.id).distribution
    sheet = _forecasts(here, choices, file, **limits)
    return forecast_columns(fitted.apply_checked(sheet.forecasts, by=sheet.by))


def _forecasts(here: Context, choices: Choices, file: BinaryIO, **limits: Any) -> ForecastSheet:
    sheet = read_forecast_sheet(file, options=choices.options("numbers"), **limits)
    size = sum(np.size(sheet.forecasts[name]) for name in sheet.forecasts)
    note_rows((len(sheet), size // max(len(sheet), 1)))
    _take_slot(here, size)
    return sheet


def _take_slot(here: Context, size: int) -> None:
    """Take a slot for many numbers, and reserve the memory for the work on them."""
    if size * NUMBER_BYTES > LIGHT_BYTES:
        here.take_slot()
    here.reserve(work_bytes(size))


def _in_order(here: Context, choices: Choices, file: BinaryIO, **limits: Any) -> Calibrated:
    how = choices.in_order()
    sheet = _forecasts(here, choices, file, **limits)
    if sheet.observed is None or sheet.times is None or sheet.known is None:  # excluded by the choices
        raise InvalidForecasts("the columns of outcomes and times are missing", field="times")
    return forecast_columns(recalibrate(here, sheet, how).forecasts)


def _written(
    here: Context,
    record: MapRecord | None,
    name: str,
    table: OpenTable,
    calibrated: Floats | Ints,
    names: Sequence[str] | None,
    decimal: str,
) -> CalibratedFile:
    """Write the table with its new columns to a temporary file."""
    if isinstance(table, ParquetTable | ArrowTable):
        suffix = "parquet" if isinstance(table, ParquetTable) else "arrow"
        kind = f"application/vnd.apache.{'parquet' if suffix == 'parquet' else 'arrow.file'}"
        pieces = _typed(table, calibrated, names, as_parquet=suffix == "parquet")
    else:
        suffix = "tsv" if isinstance(table, CsvTable) and table.separator == "\t" else "csv"
        kind = "text/tab-separated-values" if suffix == "tsv" else "text/csv"
        pieces = calibrated_text(table, calibrated, names, decimal=decimal)
    with ExitStack() as opened:
        spool = opened.enter_context(here.process.spools.spool(here.caller))
        out = opened.enter_context(spooled())
        write_blocks(pieces, out, FileLimits(_UNLIMITED, spool=spool.grow))
        out.seek(0, 2)
        size = out.tell()
        out.seek(0)
        return CalibratedFile(out, size, opened.pop_all(), name=_named(name, record, suffix), kind=kind)


#: The size of the result is limited only by the space for temporary files.
_UNLIMITED = 1 << 62


def _typed(
    table: OpenTable, calibrated: Floats | Ints, names: Sequence[str] | None, *, as_parquet: bool
) -> Iterator[bytes]:
    """Write the table as a Parquet or an Arrow file, in batches of rows."""
    part, what = ("parquet", "a Parquet file") if as_parquet else ("ipc", "an Arrow file")
    arrow, output, pieces = needed_pyarrow(part, what), calibrated_arrow(table, calibrated, names), Pieces()
    opened = arrow.parquet.ParquetWriter if as_parquet else arrow.ipc.new_file
    with opened(arrow.PythonFile(pieces, "w"), output.schema) as writer:
        for batch in output.to_batches(_ROWS):
            writer.write_batch(batch)
            yield pieces.drain()
    yield pieces.drain()


#: Rows per row group or record batch.
_ROWS = 1 << 17
_SUFFIXES = re.compile(f"({'|'.join(map(re.escape, READ_SUFFIXES))})+$", re.IGNORECASE)


def _named(name: str, record: MapRecord | None, suffix: str) -> str:
    """The name of the result: that of the file, and the map with its version."""
    stem = _SUFFIXES.sub("", plain(name).replace("/", "_").replace("\\", "_")) or "file"
    if record is None:
        return f"{stem}-recalibrated.{suffix}"
    version = record.id if record.name is None else f"{record.name}-v{record.version}"
    return f"{stem}-{version}.{suffix}"


# --- The pages

# The route reads the form itself, so that errors are shown next to their fields and the options are kept.
calls = Calls()


@calls.add(Call("GET", "/ui/calibrate/{ref}"))
async def form(ref: str, visit: Visiting) -> Response:
    """The page of the map, for users who reload after a submission."""
    record = await run_in_thread(visit.here.store.maps.get, ref)
    return redirect_to(visit, f"/ui/maps/{record.id}#calibrate")


@calls.add(Call("GET", "/ui/in-order"))
async def in_order(visit: Visiting) -> Response:
    """The form that recalibrates forecasts in the order of time."""
    form = UploadForm(visit.here.settings.max_body_bytes, Choices("regression"), fields=IN_ORDER_FIELDS)
    return visit.page("in_order.html", form=form)


@calls.add(Call("POST", "/ui/in-order", access="maps:read"))
async def recalibrate_in_order(request: Request, visit: Visiting) -> Response:
    """Return the file with recalibrated forecasts, or show the error next to its field."""
    return await _answered(request, visit, None)


@calls.add(Call("POST", "/ui/calibrate/{ref}", access="maps:read"))
async def calibrate(ref: str, request: Request, visit: Visiting) -> Response:
    """Return the file with calibrated probabilities, or show the error next to its field."""
    return await _answered(request, visit, ref)


async def _answered(request: Request, visit: Visit, ref: str | None) -> Response:
    check_origin(request.scope)
    choices = [Choices()]
    try:
        return await _calibrated(request, visit, ref, choices)
    except TabularError as error:
        message, status = message_of_file(error, choices[0]), 413 if isinstance(error, FileTooLarge) else 422
    except (CalibrationError, StorageError) as error:
        problem = problem_of(error)
        if problem.status not in FIXABLE or isinstance(error, UnsupportedMediaType):  # which is not of a form
            raise
        message, status = message_of_problem(problem), problem.status
    if ref is None:
        form = UploadForm(visit.here.settings.max_body_bytes, choices[0], message, IN_ORDER_FIELDS)
        return visit.page("in_order.html", status=status, form=form)
    record = await run_in_thread(visit.here.store.maps.get, ref)
    upload = UploadForm(visit.here.settings.max_body_bytes, choices[0], message, calibrate_fields(record))
    return await map_page(visit, record, upload=upload, status=status)


async def _calibrated(request: Request, visit: Visit, ref: str | None, choices: list[Choices]) -> Response:
    """Calibrate the file of a form; ``choices`` is filled as soon as the form has been read."""
    here = visit.here
    async with multipart(request, here.settings.max_body_bytes, visit.visitor.token, here.process.spools) as form:
        choices[:] = [Choices.of(form)]
        file = file_of(form, "file")
        record = None if ref is None else await run_in_thread(here.store.maps.get, ref)
        kind = "regression" if record is None else record.prediction_kind
        choices[:] = [replace(choices[0], prediction_kind=kind)]
        if file is None:
            raise EmptyFile("choose a file first")
        budget = partial(RequestMemory.reserve_for, request.scope)
        return await run_in_thread(calibrate_file, here, record, file, choices[0], budget=budget)
