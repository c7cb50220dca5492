"""A sample to try the page with: the predictions of a real classifier, evaluated by one button."""

from __future__ import annotations

from importlib.resources import files
from io import BytesIO

from fastapi import Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from calibrant.io.table import Asked
from schemas.batches import BatchRecord
from service.context import Context
from service.web.forms import page_router
from service.web.upload_form import store_file
from service.web.visit import Visiting, lead

router = page_router()

#: Of the assets, so that a person can also look into it.
SAMPLE = "sample.csv"


@router.post("/sample")
async def post_sample(visit: Visiting) -> Response:
    """Store the sample's rows as a batch of the visitor's own, and lead on to its report."""
    batch = await run_in_threadpool(_stored, visit.here)
    return lead(visit, f"/ui/reports/{batch.id}")


def _light() -> None:
    """The sample takes no place among heavy requests: it is small."""


def _stored(here: Context) -> BatchRecord:
    content = files("service.assets").joinpath(SAMPLE).read_bytes()
    return store_file(here, UploadFile(BytesIO(content), filename=SAMPLE), Asked(), heavy=_light)
