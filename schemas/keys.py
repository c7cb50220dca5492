"""API keys and sessions as they are stored, without their secrets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Document

# --- API keys as stored: tenant, scope and expiry, never the secrets

Scope = Literal["read", "write", "admin"]
#: Each scope holds those before it.
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")
Tenant = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
KeyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,63}$")]


class Secret(Document):
    """One secret of a key: the SHA-256 of its text, and when it ends by itself."""

    digest: str
    created_at: str
    expires_at: str | None = None


class KeyRecord(Document):
    """An API key. Two secrets are live while it is rotated."""

    format: int = 1
    id: str
    name: KeyName
    tenant: Tenant
    scope: Scope
    secrets: list[Secret] = Field(max_length=2)
    created_at: str
    revoked_at: str | None = None
    rate_limit: int | None = Field(
        None, ge=0, description="requests a minute; null: the service's setting; 0: no limit"
    )

    def may(self, scope: Scope) -> bool:
        """Whether the key holds a scope."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


# --- Sessions of the web page as stored: the id of the key and digests, neither key nor cookie


class SessionRecord(Document):
    """A session. It ends with the secret that opened it, at the latest at ``ends_at``."""

    format: int = 1
    key: str = Field(description="id of the API key")
    secret: str = Field(description="SHA-256 of the key's secret, as the key's record has it")
    token: str = Field(description="what goes with every form of the session")
    created_at: str
    ends_at: str
