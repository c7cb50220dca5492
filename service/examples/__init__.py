"""An example of every call and of every problem: the requests are written here, the answers are the service's own.

``make examples`` sends each request to a running service and writes what it answers to ``answers.json``; a test sends
them again and compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from schemas.problem_table import TABLE, problem

_RECORDED: Mapping[str, Any] = MappingProxyType(
    json.loads(files("service.examples").joinpath("answers.json").read_text("utf-8"))
)


def answer_of(call: str, name: str) -> Any | None:
    """The recorded JSON answer of an example, or None where there is none."""
    return _RECORDED["answers"].get(call, {}).get(name)


def problem_example(code: str) -> dict[str, Any]:
    """A problem document of this code: recorded, or of the table where no single request brings it about."""
    recorded: dict[str, Any] | None = _RECORDED["problems"].get(code)
    return recorded or problem(code, TABLE[code].cause).model_dump()
