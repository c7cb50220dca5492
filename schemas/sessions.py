"""Sessions of the web page as they are stored: whose key opened them and until when; neither key nor cookie."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document


class SessionRecord(Document):
    """A session. It ends with the secret that opened it, at the latest at ``ends_at``."""

    format: int = 1
    key: str = Field(description="id of the API key")
    secret: str = Field(description="SHA-256 of the key's secret, as the key's record has it")
    token: str = Field(description="what goes with every form of the session")
    created_at: str
    ends_at: str
