"""docs/reference/memory.md has every decoder, and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from service.formats.body import CONTENT_TYPES, ENCODINGS
from service.formats.media import EVENT, EVENTS, TENSORS
from service.monitor_bodies.body import READERS
from service.settings import MIB, Settings
from service.web.forms import FIELDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "memory.md").read_text("utf-8")


def test_every_decoder_is_in_the_table() -> None:
    decoders = {
        name for row in re.findall(r"^\| ([^|]*) \|", PAGE, re.MULTILINE) for name in re.findall("`([^`]+)`", row)
    }
    read = {*CONTENT_TYPES, *ENCODINGS, *READERS, EVENT, EVENTS, TENSORS, FIELDS, "multipart/form-data"}
    assert decoders == read


def test_every_test_of_the_table_exists() -> None:
    for path, name in re.findall(r"`(tests/[a-z_/]+\.py)(?:::(\w+))?`", PAGE):
        assert f"def {name or 'test_'}" in (ROOT / path).read_text("utf-8"), (path, name)


def test_the_stated_budget_is_the_default() -> None:
    assert Settings("redis://").max_request_memory == 2304 * MIB
    assert "(2,304 MiB)" in PAGE
    api = (ROOT / "deploy" / "kubernetes" / "base" / "api.yaml").read_text("utf-8")
    assert f'value: "{2304 * MIB}"' in api
