"""Generated from schemas/recommendations.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.client.answers.document import WireAnswer
from calibrant.client.answers.evaluations import MeasureAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateAnswer(WireAnswer):
    """A compared method."""

    method: str  # name of the method of the fit
    reduction: str  # what it is fitted to
    parameters: int | None  # number of parameters of the map; None if it depends on the data
    #: by how much it improves the log loss and the Brier score of held-out rows, with simultaneous intervals; empty if
    #: it could not be fitted
    gains: dict[str, MeasureAnswer]
    problem: str | None  # why the method could not be fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationAnswer(WireAnswer):
    """The response of ``POST /recommendations``."""

    method: str  # method for `POST /maps`; `identity` if the predictions should stay as they are
    reduction: str  # reduction of the fit
    n: int  # number of rows on which methods were compared
    verdict: str  # whether, how and by how much the predictions are miscalibrated
    headline: str  # the recommendation as a sentence
    reasons: list[str]  # why the map is recommended, or none
    python: str | None  # the call of Python that fits the map; None without one
    candidates: list[CandidateAnswer]  # the compared methods
