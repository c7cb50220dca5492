"""From a person's file to a stored batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from starlette.datastructures import UploadFile

from schemas.batches import BatchOptions, BatchRecord
from schemas.uploads import UploadRecord
from service.context import Context
from service.errors import SpoolFull
from service.rows import Arrays, store_arrays
from tabular.bounds import LIGHT_BYTES
from tabular.errors import NoRoom
from tabular.reading import read_sheet
from tabular.sheet import Asked, Sheet
from tabular.told import plain


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
