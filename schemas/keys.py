"""API keys and sessions as stored, without their secrets."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Document

# --- API keys as stored: tenant, scope and expiry, never the secrets

#: Prefix of all keys, by which secret scanners recognize them.
KEY_PREFIX = "calk"
Scope = Literal["read", "write", "admin"]
#: Each scope includes those before it.
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")


@lru_cache(maxsize=256)
def scopes_of(granted: str) -> frozenset[Scope]:
    """The scopes that a text grants: names with a space between two; raises ``ValueError`` for unknown ones."""
    names = granted.split(" ")
    if set(names) - set(SCOPES):
        raise ValueError(f"must be {', '.join(SCOPES)}, with a space between two")
    return frozenset(SCOPES[: max(SCOPES.index(name) for name in SCOPES if name in names) + 1])


Tenant = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,63}$")]


def digest_of(text: str) -> str:
    """The SHA-256 of a secret, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class Secret(Document):
    """One secret of a key: the SHA-256 of its text, and when it expires."""

    digest: str
    created_at: str
    expires_at: str | None = None


class KeyRecord(Document):
    """An API key; it has two valid secrets while it is being rotated."""

    format: int = 1
    id: str
    name: KeyName
    tenant: Tenant
    scope: Scope
    secrets: list[Secret] = Field(max_length=2)
    created_at: str
    revoked_at: str | None = None
    rate_limit: int | None = Field(
        None, ge=0, description="requests per minute; null: the service's setting; 0: no limit"
    )

    def may(self, scope: Scope) -> bool:
        """Whether the key has a scope."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


# --- Sessions of the web page as stored: the id of the key and digests, never the key or the cookie


class SessionRecord(Document):
    """A session; it ends when the secret that opened it expires, and at the latest at ``ends_at``."""

    format: int = 1
    key: str = Field(description="id of the API key")
    secret: str = Field(description="SHA-256 of the key's secret, as in the record of the key")
    token: str = Field(description="token in every form of the session")
    created_at: str
    ends_at: str
