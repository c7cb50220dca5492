"""Hooks of Schemathesis for this service; loaded by it alone."""

from __future__ import annotations

import gc
import json
import os
from typing import Any

import schemathesis
from schemathesis.specs.openapi.checks import use_after_free

from tests.body_formats import JSON, NPY, NPZ, WRITE_ARRAYS, WRITE_ROWS
from tests.fuzz.bodies import BATCH_VARIABLE, archives, fitting, single_arrays, tables

_PROBLEM = "application/problem+json"

# A tenth of the time went into searching strategies and schemas, which stay, for garbage.
gc.freeze()
gc.set_threshold(50_000)

schemathesis.openapi.media_type(NPZ, archives())
schemathesis.openapi.media_type(NPY, single_arrays())
for _kind in {*WRITE_ARRAYS, *WRITE_ROWS} - {JSON, NPZ, NPY}:
    schemathesis.openapi.media_type(_kind, tables(WRITE_ROWS[_kind]))


@schemathesis.hook
def map_body(_: schemathesis.HookContext, body: Any) -> Any:
    """Give bodies rows that fit each other, or few would come past the first check."""
    return fitting(body, json.loads(os.environ[BATCH_VARIABLE])) if isinstance(body, dict) else body


@schemathesis.check
def problem_code_conformance(_: Any, response: schemathesis.Response, case: schemathesis.Case[Any]) -> None:
    """A problem is one of those that the document names for this call and status."""
    if _PROBLEM not in str(response.headers.get("content-type")):
        return
    answer = case.operation.definition.raw["responses"].get(str(response.status_code))
    if answer is None:
        return  # a status of no call at all, such as 405, is another check's
    named = answer["content"][_PROBLEM]["examples"]
    code = response.json()["type"].removeprefix("/problems/")
    if code not in named:
        raise AssertionError(f"{code} is not among the problems of this call; see its declaration")


@schemathesis.check
def use_after_delete(context: Any, response: schemathesis.Response, case: schemathesis.Case[Any]) -> None:
    """Deleted things are gone. Deleting a job cancels it, and its record and events stay (docs/reference/http.md)."""
    if not case.operation.path.startswith("/jobs/"):
        use_after_free(context, response, case)
