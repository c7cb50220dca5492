"""The ``Prefer`` header (RFC 7240): what a caller would rather have, where there is a choice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

#: token [ "=" ( token | quoted-string ) ], as preferences and their parameters are written.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105
_WORD = rf'(?P<name>{_TOKEN})(?:[ \t]*=[ \t]*(?:(?P<token>{_TOKEN})|"(?P<quoted>(?:[^"\\]|\\.)*)"))?'
_PARAMETERS = rf'(?:[ \t]*;[ \t]*(?:{_TOKEN}(?:[ \t]*=[ \t]*(?:{_TOKEN}|"(?:[^"\\]|\\.)*"))?)?)*'
_PREFERENCE = re.compile(rf"[ \t,]*{_WORD}{_PARAMETERS}[ \t]*(?:,|$)")
#: Longer headers, and waits of more digits, are not read on.
_LONGEST, _DIGITS = 1000, 9


class Preferences(NamedTuple):
    """``respond_async``: a job, whatever it is; ``wait``: seconds that the caller would wait for the end of one."""

    respond_async: bool = False
    wait: int | None = None


#: Of a request that says nothing.
NO_PREFERENCES = Preferences()


def read_prefer(values: Sequence[str]) -> Preferences:
    """Read the headers of that name; what is unknown or malformed is passed over, as a preference may be.

    Of a preference that stands twice the first counts.

    >>> read_prefer(["respond-async, wait=10"])
    Preferences(respond_async=True, wait=10)
    """
    text = ", ".join(values)[:_LONGEST]
    found: dict[str, str] = {}
    at = 0
    while match := _PREFERENCE.match(text, at):
        found.setdefault(match["name"].lower(), match["token"] or match["quoted"] or "")
        at = match.end()
    wait = found.get("wait", "")
    seconds = int(wait) if wait.isascii() and wait.isdigit() and len(wait) <= _DIGITS else None
    return Preferences(found.get("respond-async") == "", seconds)
