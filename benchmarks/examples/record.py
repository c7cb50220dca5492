"""Send examples and record the answers, with ids and times as the document has them."""

from __future__ import annotations

import atexit
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.examples.drifting import drift
from benchmarks.examples.refusals import REFUSALS
from service.examples.calls import DRIFTED, HOST, IDS, JOB, Example, all_examples
from service.formats.media import JSON

#: The files of the source of the examples.
FILES = Path(__file__).parent / "files"
_ID = re.compile(rf"({'|'.join(IDS)})_[0-9a-f]{{30}}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}Z")
_SOME_TIME = "2026-01-31T12:00:00.000Z"
#: The day in the message of a change.
_DAY = re.compile(r"since \d{1,2} [A-Z][a-z]+ predictions")
_SOME_DAY = "since 31 January predictions"
_LATER = "2026-02-01T12:00:00.000Z"
_UNBEGUN = {"started_at": None, "progress": {"done": 0, "total": 0, "stage": ""}}
_UNSENT = {"status": "pending", "tried": 0, "next_at": _SOME_TIME, "ended_at": None}
#: What a comparison on a random fifth of the rows comes to.
_COMPARED = {"gain": 0.1687, "low": 0.1149, "high": 0.2225, "rows": 400}
_CURSOR = "WzE3Njk4NjA4MDAuMCwiYmF0Y2hfLi4uIl0"
#: A number of maps that the store has room for.
_MOST_MAPS = 65536
#: The lists without pages, of which the document shows so many entries.
_WHOLE = ("/measures", "/diagrams", "/methods", "/problems", "/aliases")
_SHOWN = 1

Seen = Callable[[Example, httpx.Response], None]


class Recorder:
    """One run of the examples; an id from an answer replaces that of the example from then on."""

    def __init__(self, http: httpx.Client, wait: Callable[[str], object]) -> None:
        self._http = http
        self._wait = wait
        self._ids = dict(IDS)
        self._under_way: list[str] = []

    def send(self, example: Example) -> httpx.Response:
        """Send an example; wait for its job, and delete its batch when no job needs it.

        A monitor that is to drift has drifted when the next example is sent.
        """
        method, _, path = example.call.partition(" ")
        path = path.format(**example.path)
        body = example.body if isinstance(example.body, bytes) or example.body is None else json.dumps(example.body)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Content-Type": kind} | dict(example.headers)
        content = self._real(body) if isinstance(body, str) else body
        if example.path.get("job") == JOB and method == "GET":
            self._wait(self._ids["job"])
        if example.call == "DELETE /batches/{batch}":
            self._await_all()
        params = {name: self._real(value) for name, value in example.query.items()}
        answer = self._http.request(method, self._real(path), content=content, params=params, headers=headers)
        for id_match in _ID.finditer(answer.text):
            self._ids[id_match.group(1)] = id_match.group()
        if answer.status_code == 202 and "/jobs/" in answer.headers.get("location", ""):
            self._under_way.append(self._ids["job"])
        elif example.call == "POST /jobs/{job}/cancel":
            self._under_way.remove(self._ids["job"])
            if answer.status_code == 409:  # it ended before it could be cancelled: the same once more
                self.send(all_examples()[all_examples().index(example) - 1])
                return self.send(example)
        elif isinstance(example.body, Mapping) and example.call == "POST /monitors" and example.body["name"] in DRIFTED:
            drift(self._http, example.body["name"])
        return answer

    def _await_all(self) -> None:
        while self._under_way:
            self._wait(self._under_way.pop())

    def _real(self, text: str) -> str:
        for kind, example in IDS.items():
            text = text.replace(example, self._ids[kind])
        return text


def admitting() -> dict[str, str]:
    """The environment of a service to which the examples can be sent: it has their sources and the host of their hooks.

    Data sets are written to a temporary folder, which is removed at the end of this process.
    """
    results = tempfile.mkdtemp(prefix="calibrant-results-")
    atexit.register(shutil.rmtree, results, ignore_errors=True)
    sources = {"scores": {"root": FILES.as_uri()}, "results": {"root": Path(results).as_uri(), "write": True}}
    return {**os.environ, "CALIBRANT_WEBHOOK_HOSTS": HOST, "CALIBRANT_SOURCES": json.dumps(sources)}


def record(
    http: httpx.Client, wait: Callable[[str], object], seen: Seen = lambda _example, _answer: None
) -> dict[str, Any]:
    """Send every example, the calls and then the refusals.

    ``wait`` waits for a job; ``seen`` is called with each example and its answer.
    """
    recorder = Recorder(http, wait)
    answers: dict[str, dict[str, Any]] = {}
    problems: dict[str, Any] = {}
    for example in (*all_examples(), *REFUSALS):
        answer = recorder.send(example)
        seen(example, answer)
        if example in REFUSALS:
            problems[example.name] = _shown(answer)
        elif answer.headers.get("content-type") == JSON:
            answers.setdefault(example.call, {})[example.name] = _shown(answer)
    return {"answers": answers, "problems": problems}


def settled(answer: Any, recorded: Any) -> Any:
    """The answer in the recorded order, with the recorded value of each number that differs by rounding alone."""
    if isinstance(answer, dict) and isinstance(recorded, dict):
        names = [name for name in {**recorded, **answer} if name in answer]
        return {name: settled(answer[name], recorded.get(name)) for name in names}
    if isinstance(answer, list) and isinstance(recorded, list) and len(answer) == len(recorded):
        return list(map(settled, answer, recorded))
    if isinstance(answer, float) and isinstance(recorded, float):
        return recorded if math.isclose(answer, recorded, rel_tol=1e-6, abs_tol=1e-9) else answer
    return answer


def _parts(document: Any) -> list[dict[str, Any]]:
    """The document, and what it lists."""
    if not isinstance(document, dict):
        return []
    listed = [part for name in ("items", "windows", "points", "rules") for part in document.get(name, ())]
    held = [document["monitor"]] if isinstance(document.get("monitor"), dict) else []
    return [part for part in (document, *listed, *held) if isinstance(part, dict)]


def _expiry(part: dict[str, Any]) -> str | None:
    """When a batch or an ended job expires; whether a job needs the batch now is chance."""
    return _LATER if part.get("finished_at", _SOME_TIME) else None


def _shown(answer: httpx.Response) -> Any:
    text = _TIME.sub(_SOME_TIME, _ID.sub(lambda id_match: IDS[id_match.group(1)], answer.text))
    document = json.loads(_DAY.sub(_SOME_DAY, text))
    for part in _parts(document):
        for name, value in (("expires_at", _expiry(part)), ("next", _CURSOR)):
            if name in part:
                part[name] = value
        if "tried" in part:  # how often it was is chance
            part |= _UNSENT
            part["attempts" if "attempts" in part else "last"] = [] if "attempts" in part else None
        if isinstance(part.get("progress"), dict) and "failures" in part["progress"]:  # so is what was sent by then
            part["progress"] |= {"failures": 0, "status": None, "error": None, "at": None}
        for id_match in (part.get("found"), part.get("data")):
            if isinstance(id_match, dict) and id_match.get("gain") is not None:
                id_match |= _COMPARED
    if isinstance(document, dict) and "used" in document:
        document["used"] = dict.fromkeys(document["used"], 0)  # what others have taken is chance
        document["limits"]["quota_maps"]["value"] = _MOST_MAPS  # it follows from the memory of the machine
    if isinstance(document, dict) and "rules" in document and document.get("counts", {}).get("predictions") == 0:
        document["rules"] = []  # whether a monitor without rows has been looked at yet is chance
    if isinstance(document, dict) and document.get("status") == "cancelled":
        document |= _UNBEGUN  # how far it came is chance
    if answer.request.url.path.endswith(_WHOLE) and "items" in document:
        return document | {"items": document["items"][:_SHOWN], "next": None}
    return document
