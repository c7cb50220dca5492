"""What the page keeps of a batch beside its rows."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document


class UploadRecord(Document):
    """What a file that became a batch was called, and how it was read."""

    format: int = 1
    file: str | None = Field(None, description="null where the rows came in another way")
    said: list[str] = Field([], description="each guess, and each reading that is not plain")
    classes: list[str] | None = Field(None, description="names of the classes in order, where the file tells them")
