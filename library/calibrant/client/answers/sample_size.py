"""Generated from schemas/sample_size.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.client.answers.document import WireAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSizeAnswer(WireAnswer):
    """The response of ``GET /sample-size``."""

    n: int  # number of rows for the widths of all intervals
    events: int  # number of events expected among them, rounded up
    measures: dict[str, int]  # number of rows for each measure
    prevalence: float  # expected fraction of events
