"""API keys and sessions as stored, without their secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from schemas.base import Document

# --- Scopes: what a call needs, and what a key grants

#: The scope that a call needs.
Scope = Literal["maps:read", "maps:write", "maps:promote", "batches:write", "monitors:read", "monitors:write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
#: Scopes of calls that store, change or delete something.
WRITING: frozenset[Scope] = frozenset({"maps:write", "maps:promote", "batches:write", "monitors:write"})
_READING: frozenset[Scope] = frozenset({"maps:read", "monitors:read"})
#: Scopes of keys that stand for several; of any other, a key has exactly the calls that need it.
UNIONS: Mapping[str, frozenset[Scope]] = MappingProxyType(
    {"read": _READING, "write": _READING | WRITING, "admin": frozenset(SCOPES)}
)


@lru_cache(maxsize=256)
def scopes_of(granted: str) -> frozenset[Scope]:
    """The scopes that a text grants: scopes and unions with a space between two; raises ``ValueError`` for others."""
    known: dict[str, frozenset[Scope]] = {**{scope: frozenset({scope}) for scope in SCOPES}, **UNIONS}
    names = granted.split(" ")
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"has {len(unknown)} unknown scopes; known are {', '.join(['read', 'write', *SCOPES])}")
    return frozenset[Scope]().union(*(known[name] for name in names))


def _check_scope(granted: str) -> str:
    scopes_of(granted)
    return granted


#: What a key grants, as in OAuth 2.0 (RFC 6749, section 3.3): ``write``, or ``maps:read maps:promote``.
Grant = Annotated[str, Field(max_length=200), AfterValidator(_check_scope)]


# --- API keys as stored: tenant, scope and expiry, never the secrets

#: Prefix of all keys, by which secret scanners recognize them.
KEY_PREFIX = "calk"
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
    scope: Grant
    secrets: list[Secret] = Field(max_length=2)
    created_at: str
    revoked_at: str | None = None
    rate_limit: int | None = Field(
        None, ge=0, description="requests per minute; null: the service's setting; 0: no limit"
    )

    def may(self, scope: Scope) -> bool:
        """Whether the key has a scope."""
        return scope in scopes_of(self.scope)


class TokenMapping(Document):
    """What the tokens of an issuer grant in the service, as its settings say.

    A claim is its name or a JSON pointer. ``scopes`` has what each value of ``scopes_claim`` grants. Without
    ``tenant_claim``, tokens act in the default tenant.
    """

    format: int = 1
    issuer: str
    tenant_claim: str
    scopes_claim: str
    scopes: dict[str, Grant]


# --- Sessions of the web page as stored: the id of the key and digests, never the key or the cookie


class SessionRecord(Document):
    """A session; it ends when the secret that opened it expires, and at the latest at ``ends_at``."""

    format: int = 1
    key: str = Field(description="id of the API key")
    secret: str = Field(description="SHA-256 of the key's secret, as in the record of the key")
    token: str = Field(description="token in every form of the session")
    created_at: str
    ends_at: str
