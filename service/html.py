"""HTML pages: plain, readable without scripts, in light and dark, without external resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from fastapi import Response

#: What a page may load: its own style sheet and icon.
_POLICY = "default-src 'none'; style-src 'self'; img-src 'self'"
#: What no page may do.
_NEVER = "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#: Headers of self-contained documents, which may contain names from callers: nothing is loaded, run or embedded.
SEALED: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox" + _NEVER,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def page(title: str, body: str, *, root: str, head: str = "", policy: str = _POLICY) -> Response:
    """A page; ``body`` and ``head`` are HTML, ``root`` is the relative path from the page to the service's root."""
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="{root}assets/favicon-32x32.png">
{head or f'<link rel="stylesheet" href="{root}assets/page.css">'}
</head>
<body>
{body}
</body>
</html>
"""
    headers = {
        "Content-Security-Policy": policy + _NEVER,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Vary": "Accept",
    }
    return Response(text, headers=headers, media_type="text/html")


def prose(text: str) -> str:
    """A sentence as HTML; text between backticks becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
