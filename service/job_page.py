"""A job as a page, for who asked for its report as HTML and has to wait."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fastapi import Response

from schemas.jobs import FINAL, JobRecord
from service.html import page
from service.waiting import failure

_STYLE = '<link rel="stylesheet" href="../assets/page.css">'
_AGAIN = "Retry-After"


def job_page(record: JobRecord, headers: Mapping[str, str]) -> Response:
    """How far a job is, looked at again after ``Retry-After``; or how it ended."""
    if record.status not in FINAL:
        seconds = headers.get(_AGAIN, "1")
        made = page(
            _status(record),
            _body(record, f"This page looks again in {seconds} s."),
            root="../",
            head=f'{_STYLE}\n<meta http-equiv="refresh" content="{escape(seconds)}">',
        )
        made.headers.update(headers)
        return made
    return page(_status(record), _body(record, _end(record)), root="../")


_KINDS = {"fit": "fit", "evaluate": "evaluation"}
_VERBS = {"succeeded": "has", "failed": "has", "cancelled": "was"}


def _status(record: JobRecord) -> str:
    return f"The {_KINDS[record.kind]} {_VERBS.get(record.status, 'is')} {record.status}"


def _end(record: JobRecord) -> str:
    result = record.result
    if result is None:
        told = failure(record)
        return f"{escape(told.title)}: {escape(told.detail)}."
    if "map" in result:
        name = escape(str(result["map"]))
        return f'It fitted a map: <a href="../maps/{name}">{name}</a>.'
    if record.spec.get("picture"):
        place = f"{escape(record.id)}/diagram.svg"
        return f'It made a picture: <a href="{place}">diagram.svg</a>.'
    return "Its reports are of several batches: read them as JSON."


def _body(record: JobRecord, told: str) -> str:
    done = record.progress
    how_far = (
        f'<p><progress max="{done.total}" value="{done.done}">{done.done} of {done.total}</progress> '
        f"{escape(done.stage)}</p>\n"
        if done.total and record.status not in FINAL
        else ""
    )
    return f"""<main>
<h1>{_status(record)}</h1>
{how_far}<p>{told}</p>
<p><code>{escape(record.id)}</code>, asked for at {escape(record.created_at)}.</p>
</main>"""
