"""The form of the front page: from a person's file to its report."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from backend.store.errors import StorageError, problem_of
from calibrant.errors import CalibrationError
from calibrant.io.errors import EmptyFile, FileTooLarge, TabularError
from schemas.batches import BatchRecord
from service.guard import Places
from service.pages import LINKS
from service.web.forgery import check_origin
from service.web.forms import file_of, multipart
from service.web.upload_form import Choices, Told, UploadForm, store_file, told_of_file, told_of_problem
from service.web.visit import Visit, Visiting, lead

# The form is read by the route itself: what is wrong is told next to its field, and the choices stay.
router = APIRouter(prefix="/ui", include_in_schema=False)

#: What a person can mend in the form; anything else is told as on every page.
_MENDED = (400, 413, 415, 422, 429, 507)


@router.get("/upload")
async def upload(visit: Visiting) -> Response:
    """The form alone, for who comes back to where it was sent."""
    return visit.page("home.html", form=UploadForm(visit.here.settings.max_body_bytes), links=LINKS)


@router.post("/upload")
async def post_upload(request: Request, visit: Visiting) -> Response:
    """Store the rows of a file as a batch, and lead on to its report; or tell what is wrong, next to its field."""
    check_origin(request.scope)
    choices = [Choices()]
    try:
        batch = await _stored(request, visit, choices)
    except TabularError as error:
        status = 413 if isinstance(error, FileTooLarge) else 422
        return _again(visit, choices[0], told_of_file(error), status)
    except (CalibrationError, StorageError) as error:
        problem = problem_of(error)
        if problem.status not in _MENDED:
            raise
        return _again(visit, choices[0], told_of_problem(problem), problem.status)
    return lead(visit, f"/ui/reports/{batch.id}")


async def _stored(request: Request, visit: Visit, choices: list[Choices]) -> BatchRecord:
    """The batch of a form's file; ``choices`` hold those of the form as soon as it has been read."""
    here = visit.here
    async with multipart(request, here.settings.max_body_bytes, visit.visitor.token, here.process.spools) as form:
        choices[:] = [Choices.of(form)]
        file = file_of(form, "file")
        if file is None:
            raise EmptyFile("choose a file first")
        heavy = partial(Places.take_for, request.scope)
        return await run_in_threadpool(store_file, here, file, choices[0].asked(), heavy=heavy)


def _again(visit: Visit, choices: Choices, told: Told, status: int) -> Response:
    """The form as it was sent, with what is wrong; for htmx what of it changes, so that the file stays chosen."""
    form = UploadForm(visit.here.settings.max_body_bytes, choices, told)
    if visit.wants_part:
        return visit.page("upload_told.html", status=status, form=form)
    return visit.page("home.html", status=status, form=form, links=LINKS)
