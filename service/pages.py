"""Pages without a template: the problems, the API reference, and the state of a job."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from fastapi import Response

from schemas.catalogue import ProblemEntry
from schemas.jobs import FINAL, KIND_NAMES, JobRecord
from schemas.problem_table import PREFIX, TABLE
from service.html import page, prose
from service.jobs import failure

# --- The problems and the API reference

#: Links of the home page: path and description.
LINKS: Mapping[str, str] = {
    "docs": "API reference with all endpoints, to read and to try",
    "openapi.json": "the API as an OpenAPI 3.1 document",
    "problems": "all problems with cause and remedy",
    "ui/measures": "all measures with definition, options and source",
    "ui/diagrams": "all diagrams",
    "ui/methods": "all calibration methods, explained",
    "health/ready": "whether the service and its store respond",
}
#: Swagger UI sets inline styles and uses icons in data URLs; scripts come only from this service.
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'"
)


def docs() -> Response:
    """Swagger UI for the OpenAPI document."""
    return page(
        "Calibrant: API reference",
        '<div id="swagger-ui"></div>\n<noscript>This page needs JavaScript. The OpenAPI document is at '
        '<a href="openapi.json">/openapi.json</a>.</noscript>',
        root="",
        head='<link rel="stylesheet" href="assets/swagger-ui.css">\n'
        '<link rel="stylesheet" href="assets/docs.css">\n'
        '<script src="assets/swagger-ui-bundle.js" defer></script>\n<script src="assets/docs.js" defer></script>',
        policy=_DOCS_POLICY,
    )


def entry(code: str) -> ProblemEntry:
    """The catalogue entry of a problem."""
    return ProblemEntry(type=PREFIX + code, code=code, **TABLE[code]._asdict())


def problem_index() -> Response:
    """A table of all problems."""
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
<p>Every error response is a problem document (RFC 9457). Its <code>type</code> links to one of these pages.</p>
<table>
<thead><tr><th scope="col">code</th><th scope="col">status</th><th scope="col">title</th></tr></thead>
<tbody>
{rows}</tbody>
</table>
</main>""",
        root="",
    )


def problem_page(code: str) -> Response:
    """One problem: its status, cause and remedy."""
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
<dt>Remedy</dt><dd>{prose(row.remedy)}</dd>
</dl>
</main>""",
        root="../",
    )


# --- A job as a page, for a report that was requested as HTML and is not ready yet

_STYLE = '<link rel="stylesheet" href="../assets/page.css">'
_AGAIN = "Retry-After"


def job_page(record: JobRecord, headers: Mapping[str, str]) -> Response:
    """The progress of a job, reloaded after ``Retry-After``; or its outcome."""
    if record.status not in FINAL:
        seconds = headers.get(_AGAIN, "1")
        progress = page(
            _status(record),
            _body(record, f"This page reloads in {seconds} s."),
            root="../",
            head=f'{_STYLE}\n<meta http-equiv="refresh" content="{escape(seconds)}">',
        )
        progress.headers.update(headers)
        return progress
    return page(_status(record), _body(record, _end(record)), root="../")


_VERBS = {"succeeded": "has", "failed": "has", "cancelled": "was"}


def _status(record: JobRecord) -> str:
    return f"The {KIND_NAMES[record.kind]} {_VERBS.get(record.status, 'is')} {record.status}"


def _end(record: JobRecord) -> str:
    result = record.result
    if result is None:
        problem = failure(record)
        return f"{escape(problem.title)}: {escape(problem.detail)}."
    if "map" in result:
        name = escape(str(result["map"]))
        return f'The job fitted a map: <a href="../maps/{name}">{name}</a>.'
    if record.spec.get("picture"):
        place = f"{escape(record.id)}/diagram.svg"
        return f'The job drew a picture: <a href="{place}">diagram.svg</a>.'
    return "The job has a result. Request it as JSON."


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
