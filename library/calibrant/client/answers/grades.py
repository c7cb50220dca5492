"""Generated from schemas/grades.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.client.answers.document import WireAnswer

Light = Literal["green", "yellow", "red"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeAnswer(WireAnswer):
    """The tests of a grade; p-values are small if the PD is too low."""

    grade: str  # name of the grade; of all grades as one: (all)
    n: int  # number of obligors
    defaults: int  # number of defaults
    pd: float  # mean PD of the obligors
    rate: float  # observed rate of defaults
    jeffreys_p: float  # p-value of Jeffreys' test
    jeffreys_holm: float | None  # the same, corrected for all grades; None for (all)
    binomial_p: float  # p-value of the binomial test
    binomial_holm: float | None  # the same, corrected for all grades; None for (all)
    light: Light  # traffic light of the binomial test: yellow up to 0.05, red up to 0.001
    one_factor_p: float | None  # p-value of the one-factor model; None without correlation
    one_factor_holm: float | None  # the same, corrected for all grades; None for (all)
    one_factor_light: Light | None  # traffic light of the one-factor model
    prudent_pd: float | None  # upper bound of the PD; None without confidence, and for (all)
    one_factor_prudent_pd: float | None  # upper bound of the PD in the one-factor model


@dataclass(frozen=True, slots=True, kw_only=True)
class HosmerLemeshowAnswer(WireAnswer):
    """The Hosmer-Lemeshow test over the grades."""

    statistic: float  # sum over the grades of (D - n PD)^2 / (n PD (1 - PD))
    degrees_of_freedom: int  # number of grades
    p_value: float  # p-value of the test of the measure; None if it has none


@dataclass(frozen=True, slots=True, kw_only=True)
class GradesAnswer(WireAnswer):
    """The response of ``POST /grades``."""

    grades: list[GradeAnswer]  # from the lowest PD to the highest
    total: GradeAnswer  # the tests of all grades as one, with their mean PD
    hosmer_lemeshow: HosmerLemeshowAnswer | None  # None if a PD is 1, or 0 or below 1e-150
    notes: list[str]  # grades with several PDs, and grades that were left out
