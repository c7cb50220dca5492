"""What is kept of a person's file beside its rows."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document


class UploadRecord(Document):
    """What a file that became a batch was called, and how it was read."""

    format: int = 1
    file: str
    said: list[str] = Field(description="each guess, and each reading that is not plain")
    classes: list[str] | None = Field(description="names of the classes in order, where the file tells them")
    report_job: str | None = Field(None, description="the job that makes the report, where it is a job")
