"""Retired phrases and identifiers stay retired: in code, in names of tests, and in every text that a person reads."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: One regular expression a line; those under the heading ``identifiers`` are looked for in Python code alone.
_RETIRED = Path(__file__).parent / "retired.txt"
_TEXTS = (".md", ".rst", ".html", ".j2", ".lua", ".yml", ".yaml", ".json", ".js", ".toml", "Makefile", "Dockerfile")
#: Generated from measurements or by others, or stored by earlier versions.
_EXEMPT = ("service/assets/", "locks/", "docs/pictures/")


def _retired(section: str) -> list[str]:
    lines = _RETIRED.read_text("utf-8").splitlines()
    begin = lines.index(f"# {section}") + 1
    end = next((i for i in range(begin, len(lines)) if lines[i].startswith("# ")), len(lines))
    return [line for line in lines[begin:end] if line]


def _files(*suffixes: str) -> Iterator[tuple[str, str]]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        if name.endswith(suffixes) and not name.startswith(_EXEMPT) and (ROOT / name).is_file():
            text = (ROOT / name).read_text("utf-8")
            yield name, re.sub(r"\bdef test_\w+", lambda match: match[0].replace("_", " "), text)


@pytest.mark.parametrize(
    ("section", "suffixes"),
    [("phrases", _TEXTS), ("phrases", (".py",)), ("identifiers", (".py",))],
    ids=["phrases in texts", "phrases in code", "identifiers"],
)
def test_retired_words_are_not_used(section: str, suffixes: tuple[str, ...]) -> None:
    # Every phrase begins with a word; a search that tries them there alone is ten times faster.
    patterns = "|".join(f"(?:{pattern})" for pattern in _retired(section))
    retired = re.compile(rf"\b(?=\w)(?:{patterns})", re.IGNORECASE)
    uses = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in _files(*suffixes)
        for match in retired.finditer(text)
    ]
    assert not uses, "retired (tests/contract/retired.txt):\n" + "\n".join(uses)
