"""Roots of sources, and paths below them, checked without opening anything."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from calibrant.core.errors import RefusedPath

# --- Paths of requests: relative, below the root, and without other spellings of what leads out of it

#: The most characters of a path, and the most bytes of a name in it.
_PATH, _NAME = 1024, 255
#: A wildcard of a pattern.
WILD = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Categories of characters that no name has: control, format, surrogate, unassigned, and separators of lines.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
_ACCEPTED = "must be a path below the root of the source, such as 2026-11/*.parquet"


def check_path(path: object, pointer: str = "/path", *, wild: bool = True) -> str:
    """Return a path of a request; raise ``RefusedPath`` for one that may lead out of the root.

    Refused are absolute paths and URLs; names ``.`` and ``..`` and others that begin with a dot or an underscore, also
    percent-encoded, once or repeatedly, or as characters that Unicode normalises to them; backslashes, and characters
    that are not visible. A path that is not ``wild`` has no wildcards.

    >>> check_path("2026-11/country=no/*.parquet")
    '2026-11/country=no/*.parquet'
    """
    if not isinstance(path, str) or not 0 < len(path) <= _PATH or path.count("**") > 1:
        raise RefusedPath.at(pointer, f"{_ACCEPTED}, of at most {_PATH} characters and with at most one **")
    for spelling in _spellings(path):
        if any(unicodedata.category(sign) in _INVISIBLE for sign in spelling) or "\\" in spelling:
            raise RefusedPath.at(pointer, f"{_ACCEPTED}, of visible characters without backslashes")
        if _SCHEME.match(spelling) or any(_is_refused(name) for name in spelling.split("/")):
            raise RefusedPath.at(pointer, f"{_ACCEPTED}, without names that are empty or begin with . or _ or ~")
    if not wild and WILD.search(path):
        raise RefusedPath.at(pointer, "must be a path without wildcards")
    return path


def _spellings(path: str) -> set[str]:
    """Return the path as written, decoded until nothing is encoded, and each of them as Unicode normalises it."""
    spellings = {path}
    while (path := unquote(path)) not in spellings:
        spellings.add(path)
    return spellings | {unicodedata.normalize("NFKC", spelling) for spelling in spellings}


def _is_refused(name: str) -> bool:
    begins = name.startswith((".", "~")) or (name.startswith("_") and "=" not in name)
    return begins or name != name.strip() or not name or len(name.encode()) > _NAME


# --- Roots

#: The schemes of roots.
SCHEMES = ("file", "s3", "gs", "abfs", "abfss")


def check_root(root: str) -> str:
    """Return a root; raise ``ValueError`` for another scheme, or for one with a credential or parameters."""
    parts = urlsplit(root)
    if parts.scheme not in SCHEMES or (parts.scheme == "file") != (not parts.netloc):
        raise ValueError("must have a root such as file:///data, s3://bucket/folder, gs:// or abfs://")
    user = parts.username if parts.scheme not in ("abfs", "abfss") else None
    if user or parts.password or parts.query or parts.fragment:
        raise ValueError("must have a root without credentials and parameters; credentials are in the environment")
    if ".." in PurePosixPath(unquote(parts.path)).parts:
        raise ValueError("must have a root without ..")
    return root
