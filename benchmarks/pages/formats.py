"""The formats of bodies and responses, as a page of Markdown."""

from __future__ import annotations

from service.formats.catalogue import FORMATS

_HEAD = """# Formats

Generated from the code of the service (`make reference`). [HTTP API](http.md#formats) explains what the formats have in
common, [memory](memory.md) what each may allocate.

## Rows of batches

| content type | options | request | response |
|---|---|---|---|"""

_ROWS = """
## Rows of monitors

| content type | rows |
|---|---|"""


def formats_page() -> str:
    """The page."""
    lines = [_HEAD]
    for body_format in FORMATS:
        if body_format.read is not None:
            options = "in the body" if body_format.options_in_body else "in the query"
            lines.append(f"| `{body_format.media_type}` | {options} | {body_format.request} | {body_format.response} |")
    lines.append(_ROWS)
    lines += [
        f"| `{body_format.media_type}` | {body_format.rows} |"
        for body_format in FORMATS
        if body_format.read_rows is not None
    ]
    return "\n".join(lines) + "\n"
