"""The upload form of the home page: from a file, or a sample, to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.resources import files
from io import BytesIO
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args

import numpy as np
from fastapi import Request, Response
from starlette.datastructures import FormData, UploadFile

from backend.batches import store_batch
from backend.kinds import Arrays
from backend.store.errors import StorageError, problem_of
from calibrant.core.batch import MAX_CLASS_NAME
from calibrant.core.cells import WeightsKind
from calibrant.core.column_names import GROUPS, LABELS, PREDICTIONS
from calibrant.core.errors import CalibrationError, InvalidOption, in_rows, token
from calibrant.core.options import read_seed
from calibrant.core.reductions import resolve
from calibrant.io.cells import periods
from calibrant.io.errors import (
    DecimalComma,
    EmptyFile,
    Field,
    FileTooLarge,
    InvalidField,
    InvalidFileOption,
    InvalidForecasts,
    InvalidTimes,
    MissingValue,
    NoRoom,
    Offer,
    TabularError,
    UnclearColumns,
    UnclearOrder,
)
from calibrant.io.files import read_forecast_sheet, read_models, read_sheet
from calibrant.io.limits import LIGHT_BYTES
from calibrant.io.options import OPTIONS, PARTS, READ_SUFFIXES, FileOptions
from calibrant.io.strict import CLASSIFICATION
from calibrant.io.table import ForecastSheet, ModelSheets, Sheet
from calibrant.io.texts import join_names, plain, quoted, split_names
from calibrant.sets.set_map import SetMap
from schemas.batches import BatchOptions, BatchRecord, DistributionBatchOptions, InputScale, UploadRecord
from schemas.distributions import PredictionKind
from schemas.maps import InOrder, MapRecord
from schemas.problems import Problem
from service.calls import Call, Calls
from service.context import Context
from service.errors import SpoolFull
from service.formats.format import Payload
from service.formats.options import read_options
from service.guard import RequestMemory
from service.pages import LINKS
from service.threads import run_in_thread
from service.web.forms import file_of, multipart, page_calls, text_of
from service.web.visit import Visit, Visiting, redirect_to, report_path
from service.web.visitor import check_origin

_Value = TypeVar("_Value", bound=str)

# --- The form: options and messages

#: The fields of the form: those of the file reader, and two of them apart.
FormField = (
    Field
    | Literal["prediction_kind", "columns_are", "bounds", "seed", "alpha"]
    | Literal["half_life", "outcome_scale", "support", "shift", "widen", "narrow"]
)

#: Form fields by the pointer of an error.
_FIELDS: Mapping[str, FormField] = {
    **{f"/{name}": cast("Field", name) for name in OPTIONS if name not in ("mapping", "levels")},
    "/observed": "labels",
    "/in_order/scale": "outcome_scale",
    **{f"/in_order/{name}": name for name in ("half_life", "support", "shift", "widen", "narrow")},
    **dict.fromkeys((f"/{name}" for name in (*PARTS, "levels")), "predictions"),
    "/seed": "seed",
    "/alpha": "alpha",
    "/bounds": "bounds",
}
#: Fields of the upload form, of the form of recalibration in the order of time, and of those that apply a map.
UPLOAD_FIELDS: tuple[FormField, ...] = (
    *("file", "mapping", "labels", "predictions", "columns_are", "scale", "reduction", "decimal", "class_names"),
    *("pos_label", "drop_missing"),
    *("level", "times", "clusters", "by", "groups", "features", "categorical"),
    *("weights", "weights_kind"),
)
IN_ORDER_FIELDS: tuple[FormField, ...] = (
    *("file", "times", "known", "half_life", "labels", "predictions", "by", "outcome_scale"),
    *("support", "level", "shift", "widen", "narrow", "decimal"),
)
CALIBRATE_FIELDS: Mapping[PredictionKind, tuple[FormField, ...]] = {
    "classification": ("file", "predictions", "scale", "decimal"),
    "regression": ("file", "predictions", "level", "by", "decimal"),
}


def calibrate_fields(record: MapRecord) -> tuple[FormField, ...]:
    """The fields of the form that applies a map, with those that depend on the map."""
    parameters = record.document.get("parameters", {})
    own: dict[FormField, bool] = {
        "groups": bool(parameters.get("groups")),
        "seed": bool(parameters.get("randomised")),
        "alpha": parameters.get("scores") is not None,
        "bounds": record.document.get("family") == "venn-abers",
    }
    return (*CALIBRATE_FIELDS[record.prediction_kind], *(name for name, is_used in own.items() if is_used))


#: Numbers of a recalibration in the order of time.
_OF_ORDER = ("half_life", "support", "shift", "widen", "narrow")
#: The reductions that say what one column of predictions is; the reduction is inferred without one.
REDUCTIONS = ("binary", "confidence")


class FieldMessage(NamedTuple):
    """An error, the field that it concerns, the values to choose from, and the known columns of the file."""

    field: FormField
    detail: str
    offer: Offer | None = None
    known: tuple[str, ...] = ()
    #: Orders of the columns of predictions to choose from, as the field takes them.
    orders: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to choose from."""
        return self.offer if isinstance(self.offer, tuple) else ()


def _chosen(form: FormData, name: str, values: Sequence[_Value]) -> _Value:
    """Return one of a few values of a field, the first one if it is empty; raises ``InvalidField`` for others."""
    text = text_of(form, name)
    if not text:
        return values[0]
    for value in values:
        if value == text:
            return value
    raise InvalidField.at(f"/{name}", f"must be one of: {', '.join(filter(None, values))}")


@dataclass(frozen=True)
class Choices:
    """The options of a file as entered; empty fields are inferred, except the scale.

    ``half_life`` and what follows it are those of a recalibration in the order of time.
    ``predictions``, ``groups``, ``features`` and ``categorical`` contain names separated by commas, ``predictions`` of
    numbers pairs such as ``mean=mu``, and ``columns`` names chosen from a list; ``seed``, ``alpha`` and ``bounds`` are
    for the map of a page; ``columns_are`` says what several of them are. ``labels`` is also the column of outcomes.
    ``class_names`` contains labels separated by commas. ``mapping`` contains pairs of a label's text and its class; it
    is ignored if the class names or the positive label are given.
    """

    prediction_kind: PredictionKind = "classification"
    predictions: str = ""
    columns: tuple[str, ...] = ()
    columns_are: Literal["classes", "models"] = "classes"
    drop_missing: bool = False
    labels: str = ""
    weights: str = ""
    weights_kind: WeightsKind = "importance"
    groups: str = ""
    features: str = ""
    categorical: str = ""
    seed: str = ""
    alpha: str = ""
    bounds: bool = False
    scale: InputScale = "probability"
    reduction: str = ""
    decimal: str = "."
    class_names: str = ""
    pos_label: str = ""
    mapping: tuple[tuple[str, str], ...] = ()
    level: str = ""
    clusters: str = ""
    times: str = ""
    by: str = ""
    known: str = ""
    half_life: str = ""
    outcome_scale: str = ""
    support: str = ""
    shift: str = ""
    widen: str = ""
    narrow: str = ""

    @classmethod
    def of(cls, form: FormData) -> Choices:
        """Read the options from a submitted form."""
        texts = {field.name: text_of(form, field.name) for field in fields(cls) if field.type == "str"}
        mapping = zip(form.getlist("mapping_text"), form.getlist("mapping_class"), strict=False)
        chosen: dict[str, Any] = {
            "prediction_kind": _chosen(form, "prediction_kind", get_args(PredictionKind)),
            "columns": tuple(name for name in form.getlist("prediction_columns") if isinstance(name, str)),
            "columns_are": _chosen(form, "columns_are", ("classes", "models")),
            "drop_missing": bool(_chosen(form, "drop_missing", ("", "yes"))),
            "bounds": bool(_chosen(form, "bounds", ("", "yes"))),
            "scale": _chosen(form, "scale", get_args(InputScale)),
            "weights_kind": _chosen(form, "weights_kind", get_args(WeightsKind)),
            "reduction": _chosen(form, "reduction", ("", *REDUCTIONS)),
            "decimal": _chosen(form, "decimal", (".", ",")),
            "mapping": tuple((str(text), str(number).strip()) for text, number in mapping),
        }
        return cls(**(texts | chosen))

    def options(self, kind: Literal["classes", "numbers"] = "classes") -> FileOptions:
        """Convert to the options of the file reader.

        Raises ``InvalidFileOption``, and ``InvalidTimes`` for times beside groups of classes.
        """
        texts = {name: text for name in OPTIONS if isinstance(text := getattr(self, name, None), str) and text}
        written: dict[str, object] = {
            name: _listed(text) if OPTIONS[name].many else text for name, text in texts.items()
        }
        if self.drop_missing:
            written["drop_missing"] = True
        if self.columns and kind == "classes":
            written["predictions"] = self.columns
        if self.mapping and not self.class_names and not self.pos_label:
            written["mapping"] = [f"{text}={number}" for text, number in self.mapping]
        if kind == "classes" and self.class_names and self.pos_label:
            raise InvalidFileOption("name the classes or the positive label, not both", field="class_names")
        if kind == "classes" and self.times and self.groups:
            raise InvalidTimes("name a column of times or of groups, not both", field="times")
        return FileOptions.read(written, kind)

    def seed_of_sets(self) -> int | None:
        """The seed of a map to prediction sets; raises ``InvalidOption``."""
        if not self.seed:
            return None
        if not (self.seed.isascii() and self.seed.isdigit() and len(self.seed) <= 10):
            raise InvalidOption.at("/seed", "must be a whole number from 0 to 2^32 - 1")
        return read_seed(int(self.seed))

    def at_level(self, fitted: SetMap) -> SetMap:
        """The map at the error level that was entered, if any; raises ``InvalidOption``."""
        if not self.alpha:
            return fitted
        try:
            alpha = float(self.alpha.replace(self.decimal, "."))
        except ValueError:
            raise InvalidOption.at("/alpha", "must be a finite number") from None
        return fitted.at(alpha)

    def in_order(self) -> InOrder:
        """Convert to the options of a recalibration in the order of time.

        Raises ``InvalidForecasts`` if a column is not named, and ``InvalidField``.
        """
        columns: dict[Field, str] = {"times": self.times, "known": self.known}
        for field, column in columns.items():
            if not column:
                raise InvalidForecasts("name the column", field=field)
        fields = {name: getattr(self, name) for name in _OF_ORDER}
        low, _, high = self.support.partition(",")
        support = f"[{low.strip() or 'null'}, {high.strip() or 'null'}]" if self.support else ""
        fields |= {"scale": self.outcome_scale, "support": support}
        filled = {name: text for name, text in fields.items() if text}
        try:
            return read_options(Payload({}, filled, from_query=True), InOrder)
        except CalibrationError as error:
            raise error.under("/in_order") from error


@dataclass(frozen=True)
class UploadForm:
    """The form as displayed: the options are kept, and ``message`` is shown next to its field.

    If the form has no such field, the message is shown next to the file.
    """

    max_bytes: int
    choices: Choices = Choices()
    message: FieldMessage | None = None
    fields: tuple[FormField, ...] = UPLOAD_FIELDS

    def message_for(self, field: FormField) -> FieldMessage | None:
        """The error of a field."""
        return self.message if field == self._marked else None

    @property
    def _marked(self) -> FormField | None:
        if self.message is None:
            return None
        return self.message.field if self.message.field in self.fields else "file"

    @property
    def accepted(self) -> str:
        """The suffixes of files to choose from, and the media type of CSV."""
        return ",".join((*READ_SUFFIXES, "text/csv"))

    @property
    def known_names(self) -> list[tuple[str, list[str]]]:
        """The column names that are recognized."""
        fields = (("Predictions", PREDICTIONS), ("Labels", LABELS), ("Groups", GROUPS))
        return [(what, sorted(names)) for what, names in fields]

    def known_of(self, field: FormField) -> tuple[str, ...]:
        """Columns to suggest for a field without an error, if the columns of the file are known."""
        return self.message.known if field == "labels" and self.message is not None else ()

    @property
    def opened(self) -> bool:
        """Whether the options are expanded."""
        of_choices = self._marked not in (None, "file", "mapping")
        return of_choices or replace(self.choices, mapping=()) != Choices(self.choices.prediction_kind)

    @property
    def mapping(self) -> list[tuple[str, str]]:
        """The classes of the label texts to confirm: as entered, else as suggested."""
        offer = None if self.message is None else self.message.offer
        entered = dict(self.choices.mapping)
        if isinstance(offer, Mapping):
            known = {text: "" if number is None else str(number) for text, number in offer.items()}
            return [(text, entered.get(text) or number) for text, number in known.items()]
        return list(self.choices.mapping)


def message_of_file(error: TabularError, choices: Choices) -> FieldMessage:
    """The message for an error of a file, next to the field that fixes it."""
    if isinstance(error, DecimalComma):
        return FieldMessage("decimal", f"{error.detail}, or choose the comma here")
    if isinstance(error, MissingValue) and error.leaves_rows and choices.prediction_kind == "classification":
        return FieldMessage("drop_missing", f"{error.detail}, or choose here to leave these rows out")
    if isinstance(error, UnclearColumns) and error.models and (choices.predictions or choices.columns):
        return FieldMessage("columns_are", error.detail)
    field: FormField = _FIELDS.get(f"/{error.field}", error.field)
    if choices.prediction_kind == "regression" and field == "predictions":  # pairs, not a choice of columns
        return FieldMessage(field, error.detail, None, error.columns)
    if field == "mapping" and (choices.class_names or choices.pos_label):
        field = "class_names" if choices.class_names else "pos_label"
    orders = tuple(map(join_names, error.readings)) if isinstance(error, UnclearOrder) else ()
    return FieldMessage(field, error.detail, error.offer, error.columns, orders)


def message_of_problem(problem: Problem) -> FieldMessage:
    """The message for rows that the service rejected, next to the field that they came from."""
    detail = in_rows(problem.detail) or problem.detail or problem.title
    for place in problem.errors or ():
        for pointer, field in _FIELDS.items():
            if f"{place.pointer}/".startswith(pointer + "/"):
                return FieldMessage(field, detail)
    return FieldMessage("file", detail)


# --- From a file to a stored batch


def store_file(
    here: Context, file: UploadFile, choices: Choices, *, budget: Callable[[int], None]
) -> list[BatchRecord]:
    """Read a file and store its rows like ``POST /batches``, those of each model as a batch, with what was inferred.

    ``budget`` reserves the memory for the rows, and takes the slot that a large file needs. Raises the errors of
    ``budget``, ``TabularError``, ``SpoolFull``, and the errors of ``store_batch``; nothing is stored then.
    """
    name = file.filename or "file"
    read = _reader(choices)
    settings = here.settings
    file.file.seek(0)  # it may have been read in part
    with here.process.spools.spool(here.caller) as unpacked:
        try:
            rows = read(
                file.file,
                name=name,
                max_rows=settings.max_rows,
                max_bytes=settings.max_unpacked_bytes,
                budget=budget,
                spool=unpacked.grow,
            )
        except NoRoom as error:
            raise SpoolFull("the volume of temporary files is full") from error
    upload = UploadRecord(file=plain(name), said=list(rows.notes))
    sheets: dict[str | None, Sheet | ForecastSheet] = {}
    if isinstance(rows, ModelSheets):
        _check_number(len(rows.sheets))
        sheets |= {model: _with_periods(sheet, choices) for model, sheet in rows.sheets.items()}
    else:
        sheets[None] = _with_periods(rows, choices)
    arrays = {model: arrays_of(sheet) for model, sheet in sheets.items()}
    if sum(array.nbytes for own in arrays.values() for array in own.values()) > LIGHT_BYTES:
        here.take_slot()
    stored: list[BatchRecord] = []
    try:
        for model, sheet in sheets.items():
            said = [*upload.said, *(note for note in sheet.notes if note not in upload.said)]
            own = upload.model_copy(update={"said": said, "model": None if model is None else plain(model)})
            stored.append(_store_sheet(here, sheet, arrays[model], own, choices))
    except (CalibrationError, StorageError):
        for batch in stored:
            here.store.batches.delete(batch.id)
        raise
    return stored


def _with_periods(sheet: Sheet | ForecastSheet, choices: Choices) -> Sheet | ForecastSheet:
    """Return the sheet with the periods of its times as groups, if it has times of classes."""
    if not isinstance(sheet, Sheet) or sheet.times is None:
        return sheet
    column = quoted(choices.times)
    note = f"groups: the periods of column {column}"
    return replace(sheet, groups=periods(sheet.times, f"column {column}"), notes=(*sheet.notes, note))


def _store_sheet(
    here: Context, sheet: Sheet | ForecastSheet, arrays: Arrays, upload: UploadRecord, choices: Choices
) -> BatchRecord:
    """Store the arrays of a sheet, and their file."""
    classes, reduction = None, None
    if isinstance(sheet, ForecastSheet):
        level = sheet.forecasts.level if sheet.forecasts.kind == "interval" else None
        of_numbers = DistributionBatchOptions(
            prediction_kind="regression", level=level, weights_kind=sheet.weights_kind
        )
        batch = store_batch(here, arrays, of_numbers)
    else:
        classes = None if sheet.classes is None else list(sheet.classes)
        reduction = choices.reduction or sheet.reduction
        if reduction is not None:
            resolve(reduction, None if sheet.predictions.ndim == 1 else sheet.predictions.shape[1])
        named = classes is not None and all(0 < len(name) <= MAX_CLASS_NAME for name in classes)
        class_names = classes if named else None
        options = BatchOptions(scale=sheet.scale, weights_kind=sheet.weights_kind, class_names=class_names)
        batch = store_batch(here, arrays, options)
    upload = upload.model_copy(update={"classes": classes, "reduction": reduction})
    here.store.uploads.put(batch.id, upload, ttl=here.settings.batch_ttl)
    return batch


def _listed(text: str) -> tuple[str, ...] | None:
    """Return the names in a list separated by commas, quoted as in CSV; None if it is empty."""
    return tuple(filter(None, split_names(text))) or None


def _reader(choices: Choices) -> Callable[..., Sheet | ForecastSheet | ModelSheets]:
    if choices.prediction_kind == "regression":
        return partial(read_forecast_sheet, options=choices.options("numbers"))
    options = choices.options()
    if choices.columns_are == "classes":
        return partial(read_sheet, options=options)
    if options.predictions is not None:  # else their columns are inferred, or offered
        _check_number(len(options.predictions))
    return partial(read_models, options=options)


def _check_number(models: int) -> None:
    from calibrant.comparison import MAX_MAPS

    if not 2 <= models <= MAX_MAPS:
        raise InvalidFileOption(f"name the columns of 2 to {MAX_MAPS} models", field="predictions")


def arrays_of(sheet: Sheet | ForecastSheet) -> Arrays:
    """Convert a sheet to the arrays of a request body."""
    optional: dict[str, np.ndarray | None] = {"weights": sheet.weights}
    texts = {"groups": sheet.groups, "clusters": sheet.clusters}
    if isinstance(sheet, ForecastSheet):
        own = {name: sheet.forecasts[name] for name in sheet.forecasts if name != "level"}
        optional |= {**own, "observed": sheet.observed}
        texts |= {"by": sheet.by, "times": sheet.times}
    else:
        optional |= {"predictions": sheet.predictions, "labels": sheet.labels}
        optional |= {f"{CLASSIFICATION.features}{token(name)}": own for name, own in (sheet.features or {}).items()}
    optional |= {name: None if cells is None else np.array(cells, dtype=np.object_) for name, cells in texts.items()}
    return {name: array for name, array in optional.items() if array is not None}


# --- The pages

# The route reads the form itself, so that errors are shown next to their fields and the options are kept.
calls = Calls(writes="batches:write")

#: Statuses of errors that the user can fix in the form; others are shown as on every page.
FIXABLE = (400, 413, 415, 422, 429, 507)


@calls.add(Call("GET", "/ui/upload"))
async def upload(visit: Visiting) -> Response:
    """The form alone, for users who reload after a submission."""
    return visit.page("home.html", form=UploadForm(visit.here.settings.max_body_bytes), links=LINKS)


@calls.add(Call("POST", "/ui/upload"))
async def post_upload(request: Request, visit: Visiting) -> Response:
    """Store the rows of a file and redirect to their report, or show the error next to its field."""
    check_origin(request.scope)
    choices = [Choices()]
    try:
        batches = await _stored(request, visit, choices)
    except TabularError as error:
        status = 413 if isinstance(error, FileTooLarge) else 422
        return _again(visit, choices[0], message_of_file(error, choices[0]), status)
    except (CalibrationError, StorageError) as error:
        problem = problem_of(error)
        if problem.status not in FIXABLE:
            raise
        return _again(visit, choices[0], message_of_problem(problem), problem.status)
    return redirect_to(visit, report_path([batch.id for batch in batches]))


async def _stored(request: Request, visit: Visit, choices: list[Choices]) -> list[BatchRecord]:
    """Store the file of a form, each model as a batch; ``choices`` is filled as soon as the form has been read."""
    here = visit.here
    async with multipart(request, here.settings.max_body_bytes, visit.visitor.token, here.process.spools) as form:
        choices[:] = [Choices.of(form)]
        file = file_of(form, "file")
        if file is None:
            raise EmptyFile("choose a file first")
        budget = partial(RequestMemory.reserve_for, request.scope)
        return await run_in_thread(store_file, here, file, choices[0], budget=budget)


def _again(visit: Visit, choices: Choices, message: FieldMessage, status: int) -> Response:
    """The submitted form with an error; for htmx only the changed parts, so that the file remains selected."""
    form = UploadForm(visit.here.settings.max_body_bytes, choices, message)
    if visit.wants_part:
        return visit.page("upload_message.html", status=status, form=form)
    return visit.page("home.html", status=status, form=form, links=LINKS)


# --- The sample: predictions of a real classifier

#: The sample is not uploaded, so its route needs no multipart form.
sample_calls = page_calls(writes="batches:write")

#: One of the assets, so that users can also download it.
SAMPLE = "sample.csv"


@sample_calls.add(Call("POST", "/ui/sample"))
async def post_sample(visit: Visiting) -> Response:
    """Store the rows of the sample as a batch of the user, and redirect to its report."""
    batch = await run_in_thread(_stored_sample, visit.here)
    return redirect_to(visit, f"/ui/reports/{batch.id}")


def _unlimited(_: int) -> None:
    """Reserve nothing: the sample is small."""


def _stored_sample(here: Context) -> BatchRecord:
    content = files("service.assets").joinpath(SAMPLE).read_bytes()
    return store_file(here, UploadFile(BytesIO(content), filename=SAMPLE), Choices(), budget=_unlimited)[0]
