"""The form of the front page: from a person's file, or a sample, to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from io import BytesIO
from typing import NamedTuple

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from backend.batches import Arrays, store_batch
from backend.store.errors import StorageError, problem_of
from calibrant.errors import CalibrationError, in_rows
from calibrant.io.columns import GROUPS, LABELS, PREDICTIONS, WEIGHTS
from calibrant.io.errors import BadMapping, EmptyFile, Field, FileTooLarge, NoRoom, Offer, TabularError
from calibrant.io.files import read_sheet
from calibrant.io.limits import LIGHT_BYTES
from calibrant.io.table import Sheet, SheetOptions
from calibrant.io.texts import plain
from schemas.batches import BatchOptions, BatchRecord, Scale, UploadRecord
from schemas.problems import Problem
from service.context import Context
from service.errors import SpoolFull
from service.guard import Slots
from service.pages import LINKS
from service.web.forms import file_of, multipart, page_router
from service.web.visit import Visit, Visiting, lead
from service.web.visitor import check_origin

# --- The form of an upload: the choices made, and the messages beside them

#: The fields of the form beside which an error of the rows is shown, by the pointer that names them.
_FIELDS: Mapping[str, Field] = {
    "/predictions": "predictions",
    "/labels": "labels",
    "/weights": "weights",
    "/groups": "groups",
    "/scale": "scale",
}


class FieldMessage(NamedTuple):
    """What is wrong, with which field, and what may be chosen instead."""

    field: Field
    detail: str
    offer: Offer | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to choose from."""
        return self.offer if isinstance(self.offer, tuple) else ()


@dataclass(frozen=True)
class Choices:
    """What a person says of a file, as it was typed; what is empty is guessed, but for the scale.

    ``predictions`` are names separated by commas, ``columns`` the same as names that were offered and chosen;
    ``mapping`` holds a text and the class that it stands for.
    """

    predictions: str = ""
    columns: tuple[str, ...] = ()
    labels: str = ""
    weights: str = ""
    groups: str = ""
    scale: Scale = "probability"
    mapping: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, form: FormData) -> Choices:
        """The choices of a form that was sent."""
        texts = {name: _text(form, name) for name in ("predictions", "labels", "weights", "groups")}
        given = zip(form.getlist("mapping_text"), form.getlist("mapping_class"), strict=False)
        return cls(
            **texts,
            columns=tuple(name for name in form.getlist("prediction_columns") if isinstance(name, str)),
            scale="logit" if _text(form, "scale") == "logit" else "probability",
            mapping=tuple((str(text), str(number).strip()) for text, number in given),
        )

    def options(self) -> SheetOptions:
        """The choices as the reader of files takes them; raises ``BadMapping`` for a class that is no number."""
        typed = tuple(name.strip() for name in self.predictions.split(",") if name.strip())
        return SheetOptions(
            self.columns or typed or None,
            self.labels or None,
            self.weights or None,
            self.groups or None,
            self.scale,
            self._mapping(),
        )

    def _mapping(self) -> dict[str, int] | None:
        if not self.mapping:
            return None
        if not all(number.isascii() and number.isdigit() and len(number) < 6 for _, number in self.mapping):
            raise BadMapping("a class is a whole number from 0 on", field="mapping", offer=self._offered())
        return {text: int(number) for text, number in self.mapping}

    def _offered(self) -> dict[str, int]:
        return {text: i for i, (text, _) in enumerate(self.mapping)}


@dataclass(frozen=True)
class UploadForm:
    """The form as it is shown: the choices stay, and ``message`` stands next to the field that it concerns."""

    max_bytes: int
    choices: Choices = Choices()
    message: FieldMessage | None = None

    def message_for(self, field: Field) -> FieldMessage | None:
        """What is wrong with a field."""
        return self.message if self.message is not None and self.message.field == field else None

    @property
    def known_names(self) -> list[tuple[str, list[str]]]:
        """The names by which columns are found."""
        found = (("Predictions", PREDICTIONS), ("Labels", LABELS), ("Weights", WEIGHTS), ("Groups", GROUPS))
        return [(what, sorted(names)) for what, names in found]

    def known_of(self, field: Field) -> tuple[str, ...]:
        """Columns to suggest for a field that has no message, since the file is known to have them."""
        is_missing_too = field == "labels" and self.message is not None and self.message.field == "predictions"
        return self.message.columns if is_missing_too and self.message is not None else ()

    @property
    def opened(self) -> bool:
        """Whether the choices are shown, or left alone until someone wants to make one."""
        of_choices = self.message is not None and self.message.field not in ("file", "mapping")
        return of_choices or replace(self.choices, mapping=()) != Choices()

    @property
    def mapping(self) -> list[tuple[str, str]]:
        """The classes of the texts of the labels, to be confirmed: as they were given, else as they are offered."""
        offer = None if self.message is None else self.message.offer
        given = dict(self.choices.mapping)
        if isinstance(offer, Mapping):
            return [(text, given.get(text, str(number))) for text, number in offer.items()]
        return list(self.choices.mapping)


def message_of_file(error: TabularError) -> FieldMessage:
    """The message of an error of a file."""
    return FieldMessage(error.field, error.detail, error.offer)


def message_of_problem(problem: Problem) -> FieldMessage:
    """The message about rows that the service refuses, next to the field that they came from."""
    detail = in_rows(problem.detail) or problem.detail or problem.title
    for place in problem.errors or ():
        for pointer, field in _FIELDS.items():
            if place.pointer == pointer or place.pointer.startswith(pointer + "/"):
                return FieldMessage(field, detail)
    return FieldMessage("file", detail)


def _text(form: FormData, name: str) -> str:
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


# --- From a person's file to a stored batch


def store_file(here: Context, file: UploadFile, options: SheetOptions, *, heavy: Callable[[], None]) -> BatchRecord:
    """Read a file and store its rows as ``POST /batches`` does, with what was guessed.

    ``heavy`` takes the place that a file of more than 1 MiB of bytes, unpacked, or of arrays needs. Raises what it
    raises, ``TabularError``, ``SpoolFull``, and what ``store_batch`` raises.
    """
    name = file.filename or "file"
    settings = here.settings
    with here.process.spools.spool(here.caller) as unpacked:
        try:
            sheet = read_sheet(
                file.file,
                name=name,
                options=options,
                max_rows=settings.max_rows,
                max_bytes=settings.max_unpacked_bytes,
                heavy=heavy,
                spool=unpacked.grow,
            )
        except NoRoom as error:
            raise SpoolFull("the volume of temporary files is full") from error
    arrays = arrays_of(sheet)
    if sum(array.nbytes for array in arrays.values()) > LIGHT_BYTES:
        heavy()
    batch = store_batch(here, arrays, BatchOptions(scale=sheet.scale))
    classes = None if sheet.classes is None else list(sheet.classes)
    upload = UploadRecord(file=plain(name), said=list(sheet.notes), classes=classes)
    here.store.uploads.put(batch.id, upload, ttl=settings.batch_ttl)
    return batch


def arrays_of(sheet: Sheet) -> Arrays:
    """A sheet as a body carries it."""
    groups = None if sheet.groups is None else np.array(sheet.groups, dtype=np.str_)
    found = {"predictions": sheet.predictions, "labels": sheet.labels, "weights": sheet.weights, "groups": groups}
    return {name: array for name, array in found.items() if array is not None}


# --- The pages

# The form is read by the route itself: what is wrong is shown next to its field, and the choices stay.
router = APIRouter(prefix="/ui", include_in_schema=False)

#: What a person can mend in the form; anything else is shown as on every page.
_MENDED = (400, 413, 415, 422, 429, 507)


@router.get("/upload")
async def upload(visit: Visiting) -> Response:
    """The form alone, for who comes back to where it was sent."""
    return visit.page("home.html", form=UploadForm(visit.here.settings.max_body_bytes), links=LINKS)


@router.post("/upload")
async def post_upload(request: Request, visit: Visiting) -> Response:
    """Store the rows of a file as a batch, and lead on to its report; or show what is wrong, next to its field."""
    check_origin(request.scope)
    choices = [Choices()]
    try:
        batch = await _stored(request, visit, choices)
    except TabularError as error:
        status = 413 if isinstance(error, FileTooLarge) else 422
        return _again(visit, choices[0], message_of_file(error), status)
    except (CalibrationError, StorageError) as error:
        problem = problem_of(error)
        if problem.status not in _MENDED:
            raise
        return _again(visit, choices[0], message_of_problem(problem), problem.status)
    return lead(visit, f"/ui/reports/{batch.id}")


async def _stored(request: Request, visit: Visit, choices: list[Choices]) -> BatchRecord:
    """The batch of a form's file; ``choices`` hold those of the form as soon as it has been read."""
    here = visit.here
    async with multipart(request, here.settings.max_body_bytes, visit.visitor.token, here.process.spools) as form:
        choices[:] = [Choices.of(form)]
        file = file_of(form, "file")
        if file is None:
            raise EmptyFile("choose a file first")
        heavy = partial(Slots.take_for, request.scope)
        return await run_in_threadpool(store_file, here, file, choices[0].options(), heavy=heavy)


def _again(visit: Visit, choices: Choices, message: FieldMessage, status: int) -> Response:
    """The form as it was sent, with what is wrong; for htmx what of it changes, so that the file stays chosen."""
    form = UploadForm(visit.here.settings.max_body_bytes, choices, message)
    if visit.wants_part:
        return visit.page("upload_message.html", status=status, form=form)
    return visit.page("home.html", status=status, form=form, links=LINKS)


# --- A sample to try the page with: the predictions of a real classifier, evaluated by one button

#: The sample is no file of the form.
sample_router = page_router()

#: Of the assets, so that a person can also look into it.
SAMPLE = "sample.csv"


@sample_router.post("/sample")
async def post_sample(visit: Visiting) -> Response:
    """Store the sample's rows as a batch of the visitor's own, and lead on to its report."""
    batch = await run_in_threadpool(_stored_sample, visit.here)
    return lead(visit, f"/ui/reports/{batch.id}")


def _light() -> None:
    """The sample takes no place among heavy requests: it is small."""


def _stored_sample(here: Context) -> BatchRecord:
    content = files("service.assets").joinpath(SAMPLE).read_bytes()
    return store_file(here, UploadFile(BytesIO(content), filename=SAMPLE), SheetOptions(), heavy=_light)
