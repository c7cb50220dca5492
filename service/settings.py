"""The settings of the API, each with a default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024


@dataclass(frozen=True)
class Settings:
    """What the API is told at its start; the command line fills it from flags and ``CALIBRANT_...`` variables.

    ``max_body_bytes`` bounds a body as sent, ``max_unpacked_bytes`` what an NPZ unpacks to;
    ``batch_ttl`` and ``job_ttl`` are seconds; ``fit_timeout`` is what one run of a fit may take.
    """

    redis_url: str
    api_keys_file: Path | None = None
    max_body_bytes: int = 256 * MIB
    max_unpacked_bytes: int = 1024 * MIB
    batch_ttl: int = 24 * 3600
    job_ttl: int = 7 * 24 * 3600
    fit_timeout: int = 3600
