"""The pages that need no template: the problems, and the OpenAPI document to read."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Response

from schemas.catalogue import ProblemEntry
from schemas.problem_table import PREFIX, TABLE
from service.html import page, prose

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
