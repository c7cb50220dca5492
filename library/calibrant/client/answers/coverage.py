"""Generated from schemas/coverage.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.client.answers.document import WireAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumAnswer(WireAnswer):
    """The coverage of the sets of some rows: those of a class, of sets of one size, or of a group."""

    name: str  # name of the class or group, or the size
    n: int  # number of rows, or the sum of frequency weights
    coverage: float  # share of the sets that have the label of their row
    low: float  # lower end of the interval of Clopper and Pearson
    high: float  # upper end
    mean_size: float  # mean number of classes in a set


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageAnswer(WireAnswer):
    """The response of ``POST /coverage``."""

    n: int  # number of rows, or the sum of frequency weights
    alpha: float | None  # error level; None if it is unknown
    level: float  # level of the intervals
    coverage: float  # share of the sets that have the label of their row
    low: float  # lower end of the interval of Clopper and Pearson
    high: float  # upper end
    mean_size: float  # mean number of classes in a set
    singletons: float  # share of the sets with one class
    empty: float  # share of the sets without a class
    #: largest distance of the coverage of a stratum of sizes from 1 - alpha; None without alpha
    size_violation: float | None
    violating_sizes: str | None  # the sizes of this stratum
    class_gap: float | None  # mean distance of the coverage of a class from 1 - alpha; None without alpha
    #: its expected value if every class had this coverage; None without alpha or with importance weights
    class_gap_by_chance: float | None
    by_class: list[StratumAnswer]  # coverage of the rows of each class
    by_size: list[StratumAnswer]  # coverage of the sets of each size
    by_group: list[StratumAnswer]  # coverage of each group; empty without groups
    in_sample: bool | None = None  # in a report: whether the set map was fitted to these rows; None: unknown
