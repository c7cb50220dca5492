"""Tags as people write them: a line each, name=value."""

from __future__ import annotations

from collections.abc import Mapping

from service.errors import InvalidField


def write_tags(tags: Mapping[str, str]) -> str:
    """Tags as lines, in the order of their names."""
    return "\n".join(f"{name}={value}" for name, value in sorted(tags.items()))


def read_tags(text: str) -> dict[str, str]:
    """The tags of such lines; empty lines are none. Raises ``InvalidField`` for a name that stands twice."""
    tags: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, _, value = (part.strip() for part in line.partition("="))
        if name in tags:
            raise InvalidField.at("/tags", f"line {number} names a tag that stands above it")
        tags[name] = value
    return tags
