"""The form of an upload, and the batch that is made of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from starlette.datastructures import FormData, UploadFile

from calibrant.errors import in_rows
from calibrant.io.bounds import LIGHT_BYTES
from calibrant.io.columns import GROUPS, LABELS, PREDICTIONS, WEIGHTS
from calibrant.io.errors import BadMapping, Field, NoRoom, Offer, TabularError
from calibrant.io.reading import read_sheet
from calibrant.io.table import Asked, Sheet
from calibrant.io.texts import plain
from schemas.batches import BatchOptions, BatchRecord, Scale, UploadRecord
from schemas.problems import Problem
from service.context import Context
from service.errors import SpoolFull
from service.rows import Arrays, store_arrays

# --- The form of an upload: the choices made, and the messages beside them

#: The fields of the form in which an error of the rows is told, by the pointer that names them.
_FIELDS: Mapping[str, Field] = {
    "/predictions": "predictions",
    "/labels": "labels",
    "/weights": "weights",
    "/groups": "groups",
    "/scale": "scale",
}


class Told(NamedTuple):
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

    def asked(self) -> Asked:
        """The choices as the reader of files takes them; raises ``BadMapping`` for a class that is no number."""
        typed = tuple(name.strip() for name in self.predictions.split(",") if name.strip())
        return Asked(
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
    """The form as it is shown: the choices stay, and ``told`` stands next to the field that it concerns."""

    max_bytes: int
    choices: Choices = Choices()
    told: Told | None = None

    def told_of(self, field: Field) -> Told | None:
        """What is wrong with a field."""
        return self.told if self.told is not None and self.told.field == field else None

    @property
    def known_names(self) -> list[tuple[str, list[str]]]:
        """The names by which columns are found."""
        found = (("Predictions", PREDICTIONS), ("Labels", LABELS), ("Weights", WEIGHTS), ("Groups", GROUPS))
        return [(what, sorted(names)) for what, names in found]

    def known_of(self, field: Field) -> tuple[str, ...]:
        """Columns to suggest for a field of which nothing is told, since the file is known to have them."""
        is_asked_too = field == "labels" and self.told is not None and self.told.field == "predictions"
        return self.told.columns if is_asked_too and self.told is not None else ()

    @property
    def opened(self) -> bool:
        """Whether the choices are shown, or left alone until someone wants to make one."""
        of_choices = self.told is not None and self.told.field not in ("file", "mapping")
        return of_choices or replace(self.choices, mapping=()) != Choices()

    @property
    def mapping(self) -> list[tuple[str, str]]:
        """The classes of the texts of the labels, to be confirmed: as they were given, else as they are offered."""
        offer = None if self.told is None else self.told.offer
        given = dict(self.choices.mapping)
        if isinstance(offer, Mapping):
            return [(text, given.get(text, str(number))) for text, number in offer.items()]
        return list(self.choices.mapping)


def told_of_file(error: TabularError) -> Told:
    """What is told of an error of a file."""
    return Told(error.field, error.detail, error.offer)


def told_of_problem(problem: Problem) -> Told:
    """What is told of rows that the service refuses, next to the field that they came from."""
    detail = in_rows(problem.detail) or problem.detail or problem.title
    for place in problem.errors or ():
        for pointer, field in _FIELDS.items():
            if place.pointer == pointer or place.pointer.startswith(pointer + "/"):
                return Told(field, detail)
    return Told("file", detail)


def _text(form: FormData, name: str) -> str:
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


# --- From a person's file to a stored batch


def store_file(here: Context, file: UploadFile, asked: Asked, *, heavy: Callable[[], None]) -> BatchRecord:
    """Read a file and store its rows as ``POST /batches`` does, with what was guessed.

    ``heavy`` takes the place that a file of more than 1 MiB of bytes, unpacked, or of arrays needs. Raises what it
    raises, ``TabularError``, ``SpoolFull``, and what ``store_arrays`` raises.
    """
    name = file.filename or "file"
    settings = here.settings
    with here.process.spools.spool(here.caller) as unpacked:
        try:
            sheet = read_sheet(
                file.file,
                name=name,
                asked=asked,
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
    batch = store_arrays(here, arrays, BatchOptions(scale=sheet.scale))
    classes = None if sheet.classes is None else list(sheet.classes)
    upload = UploadRecord(file=plain(name), said=list(sheet.said), classes=classes)
    here.store.uploads.put(batch.id, upload, ttl=settings.batch_ttl)
    return batch


def arrays_of(sheet: Sheet) -> Arrays:
    """A sheet as a body carries it."""
    groups = None if sheet.groups is None else np.array(sheet.groups, dtype=np.str_)
    found = {"predictions": sheet.predictions, "labels": sheet.labels, "weights": sheet.weights, "groups": groups}
    return {name: array for name, array in found.items() if array is not None}
