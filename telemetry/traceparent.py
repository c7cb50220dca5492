"""The W3C Trace Context header ``traceparent`` (https://www.w3.org/TR/trace-context/)."""

from __future__ import annotations

import re

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


def trace_id_of(traceparent: str) -> str | None:
    """The trace's id, 32 lower-case hexadecimal digits; None for a header that the recommendation refuses."""
    found = _FORM.fullmatch(traceparent)
    if found is None:
        return None
    version, trace, parent, _, more = found.groups()
    # Later versions may say more; version 0 may not, and ff is no version. Ids of zeros name nothing.
    if version == "ff" or (version == "00" and more is not None) or not int(trace, 16) or not int(parent, 16):
        return None
    return trace
