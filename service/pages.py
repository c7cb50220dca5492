"""Pages that need no template: the problems, the OpenAPI document to read, and a job."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fastapi import Response

from schemas.catalogue import ProblemEntry
from schemas.jobs import FINAL, JobRecord
from schemas.problem_table import PREFIX, TABLE
from service.html import page, prose
from service.jobs import failure

# --- The pages that need no template: the problems, and the OpenAPI document to read

#: Where the front page leads: path, and what stands there.
LINKS: Mapping[str, str] = {
    "docs": "every call, to read and to try",
    "openapi.json": "the same as an OpenAPI 3.1 document",
    "problems": "every problem: its cause, and how to mend it",
    "measures": "what can be measured, with definitions, options and sources",
    "diagrams": "what can be drawn",
    "methods": "how a classifier can be calibrated",
    "health/ready": "whether the service and its store answer",
}
#: Swagger UI sets styles on its elements, and its icons are data; scripts are its own files alone.
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'"
)


def docs() -> Response:
    """Swagger UI on the OpenAPI document."""
    return page(
        "Calibrant: the calls",
        '<div id="swagger-ui"></div>\n<noscript>This page needs scripts; the document itself is at '
        '<a href="openapi.json">/openapi.json</a>.</noscript>',
        root="",
        head='<link rel="stylesheet" href="assets/swagger-ui.css">\n'
        '<link rel="stylesheet" href="assets/docs.css">\n'
        '<script src="assets/swagger-ui-bundle.js" defer></script>\n<script src="assets/docs.js" defer></script>',
        policy=_DOCS_POLICY,
    )


def entry(code: str) -> ProblemEntry:
    """What is known of a problem."""
    return ProblemEntry(type=PREFIX + code, code=code, **TABLE[code]._asdict())


def problem_index() -> Response:
    """Every problem in a table."""
    rows = "".join(
        f'<tr><td><a href="problems/{code}"><code>{code}</code></a></td><td>{row.status}</td>'
        f"<td>{prose(row.title)}</td></tr>\n"
        for code, row in TABLE.items()
    )
    return page(
        "Problems",
        f"""<nav><a href=".">Calibrant</a></nav>
<main>
<h1>Problems</h1>
<p>What is refused or fails is answered by a problem document (RFC 9457). Its <code>type</code> leads here.</p>
<table>
<thead><tr><th scope="col">code</th><th scope="col">status</th><th scope="col">title</th></tr></thead>
<tbody>
{rows}</tbody>
</table>
</main>""",
        root="",
    )


def problem_page(code: str) -> Response:
    """One problem: its status, its cause and how to mend it."""
    row = TABLE[code]
    return page(
        f"{row.title} ({code})",
        f"""<nav><a href="..">Calibrant</a> / <a href="../problems">Problems</a></nav>
<main>
<h1>{prose(row.title)}</h1>
<dl>
<dt>Code</dt><dd><code>{code}</code></dd>
<dt>Status</dt><dd>{row.status}</dd>
<dt>Cause</dt><dd>{prose(row.cause)}</dd>
<dt>How to mend it</dt><dd>{prose(row.mend)}</dd>
</dl>
</main>""",
        root="../",
    )


# --- A job as a page, for a report that was requested as HTML and is not ready yet

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
        problem = failure(record)
        return f"{escape(problem.title)}: {escape(problem.detail)}."
    if "map" in result:
        name = escape(str(result["map"]))
        return f'It fitted a map: <a href="../maps/{name}">{name}</a>.'
    if record.spec.get("picture"):
        place = f"{escape(record.id)}/diagram.svg"
        return f'It made a picture: <a href="{place}">diagram.svg</a>.'
    return "Its reports are of several batches: read them as JSON."


def _body(record: JobRecord, text: str) -> str:
    done = record.progress
    how_far = (
        f'<p><progress max="{done.total}" value="{done.done}">{done.done} of {done.total}</progress> '
        f"{escape(done.stage)}</p>\n"
        if done.total and record.status not in FINAL
        else ""
    )
    return f"""<main>
<h1>{_status(record)}</h1>
{how_far}<p>{text}</p>
<p><code>{escape(record.id)}</code>, requested at {escape(record.created_at)}.</p>
</main>"""
