"""What is refused or fails on the web page, in words."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from schemas.problem_table import PREFIX, TABLE
from schemas.problems import Problem
from service.web.environment import render
from service.web.visitor import is_of_htmx, known, visitor_of

SIGN_IN = "/ui/sign-in"


def refusal(document: Problem, headers: Mapping[str, str] | None, scope: Scope) -> Response:
    """The page of a problem; of htmx the words alone; where nobody is signed in the way to do so."""
    asked = Headers(scope=scope)
    code = document.type.removeprefix(PREFIX)
    if code == "unauthorized":
        return _to_sign_in(scope, asked)
    values = known(visitor_of(scope)) | {"problem": document, "mend": TABLE[code].mend}
    template = "told.html" if is_of_htmx(asked) else "refusal.html"
    return render(template, values, status=document.status, headers=headers)


def _to_sign_in(scope: Scope, asked: Headers) -> Response:
    """The way to sign in, and back to where the visitor wanted to go."""
    path, query = scope["path"], scope["query_string"].decode("latin-1")
    is_reading = scope["method"] == "GET" and not is_of_htmx(asked)
    wanted = (f"{path}?{query}" if query else path) if is_reading else "/"
    if is_reading and asked.get("sec-fetch-site") == "cross-site":
        # A link of another site: the browser kept the cookie back, and sends it when the page itself leads on.
        return render("onward.html", {"path": wanted})
    target = f"{SIGN_IN}?next={quote(wanted, safe='/')}"
    if is_of_htmx(asked):
        return Response(status_code=401, headers={"HX-Redirect": target, "Cache-Control": "no-store"})
    return Response(status_code=303, headers={"Location": target, "Cache-Control": "no-store"})
