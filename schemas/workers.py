"""What a supervisor tells of its workers."""

from __future__ import annotations

from schemas.base import Document


class WorkersRecord(Document):
    """One supervisor: where it runs, and how many workers it keeps for which queues on which device."""

    format: int = 1
    id: str
    host: str
    pid: int
    device: str
    queues: list[str]
    processes: int
