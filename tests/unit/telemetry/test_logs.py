from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from backend.telemetry.logs import FIELDS, Fields, ToFile, json_line, log_event, raised, text_line
from backend.telemetry.observed import Observed, enter, leave


def _record(message: str, fields: Fields | None = None, **more: Any) -> logging.LogRecord:
    record = logging.makeLogRecord({"msg": message, "name": "room", "levelname": "INFO", "created": 0.0, **more})
    if fields is not None:
        setattr(record, FIELDS, fields)
    return record


def test_a_json_line_is_one_object_with_the_fields_that_have_a_value() -> None:
    line = json_line(_record("request", {"status": 200, "n": None, "seconds": 0.5}))
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00Z",
        "level": "info",
        "logger": "room",
        "message": "request",
        "status": 200,
        "seconds": 0.5,
    }


def test_a_text_line_quotes_what_could_be_taken_for_another_field() -> None:
    line = text_line(_record("request", {"route": "/maps/{map}", "key": 'a b="c"', "n": 3, "empty": ""}))
    assert line == (
        b'1970-01-01T00:00:00.000+00:00 INFO room request route=/maps/{map} key="a b=\\"c\\"" n=3 empty=""\n'
    )


@pytest.mark.parametrize("hostile", ["a\nb", "a\r\nb", "\x1b[31m", "\u2028x", "\x85", "a\0b", "\udc80", "é"])
def test_values_of_a_log_record_add_no_line_and_no_control_character(hostile: str) -> None:
    record = _record(f"message {hostile}", {"key": hostile})
    for line in (json_line(record), text_line(record)):
        assert len(line.decode().splitlines()) == 1
        assert not set(line[:-1]) & set(range(32))
    assert text_line(record).isascii()
    assert json.loads(json_line(record))["message"].startswith("message ")


def test_lines_name_the_request_under_way() -> None:
    token = enter(Observed("the-id", "0af7651916cd43dd8448eb211c80319c"))
    try:
        line = json.loads(json_line(_record("store away")))
    finally:
        leave(token)
    assert (line["request_id"], line["trace_id"]) == ("the-id", "0af7651916cd43dd8448eb211c80319c")
    assert "request_id" not in json.loads(json_line(_record("store away")))


def test_a_logged_error_has_its_type_and_frames_and_no_value() -> None:
    try:
        float("0.987654x")
    except ValueError:
        text = raised(sys.exc_info())
    assert "builtins.ValueError" in text
    assert "test_logs.py" in text
    assert "0.987654x" not in text.splitlines()[-1]
    try:
        Path("/nowhere/at/all").read_text("utf-8")
    except OSError:
        assert "No such file" in raised(sys.exc_info())
    assert raised((None, None, None)) == ""


def test_a_record_is_written_whole_and_below_its_level_not_at_all() -> None:
    reading, writing = os.pipe()
    log = logging.Logger("room", logging.INFO)
    log.addHandler(ToFile(writing, "json"))
    log_event(log, logging.DEBUG, "probe", {})
    log_event(log, logging.INFO, "request", {"status": 200})
    os.close(writing)
    with open(reading, "rb") as file:
        (line,) = file.read().splitlines()
    assert json.loads(line)["status"] == 200
