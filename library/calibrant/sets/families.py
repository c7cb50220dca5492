"""What determines prediction sets: the score of a class, its thresholds, and to what each of them applies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from calibrant.core.batch import MAX_NAME, Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.core.groups import MAX_GROUPS
from calibrant.maps.parameters import (
    Flag,
    Parameter,
    ParameterChoice,
    Parametric,
    Probability,
    WholeNumber,
    read_array,
    read_number,
)
from calibrant.sets.scores import Booleans, within, within_by_class

By = Literal["all", "class", "group"]
BY: tuple[By, ...] = ("all", "class", "group")
#: The losses whose risk is controlled: the share of the positive rows of a cluster that are class 0, and the share of
#: its negative rows that are class 1.
FALSE_NEGATIVES, FALSE_POSITIVES = "false-negative-rate", "false-positive-rate"
LOSSES = (FALSE_NEGATIVES, FALSE_POSITIVES)
#: The most scores of one threshold that a map keeps for sets at other levels, and of all; the fewest of one threshold.
MOST_SCORES, MOST_IN_ALL, FEWEST_SCORES = 1000, 20_000, 20
#: A threshold that no probability reaches; no score is as low as its negative.
NEVER = 2.0
#: The most ranks without a penalty.
MOST_FREE_RANKS = 100_000


@dataclass(frozen=True)
class Thresholds(Parameter):
    """Thresholds, of which null means that every set has the class; ``always`` is the number that has this effect.

    With the threshold ``never``, outside [low, high], no set has the class.
    """

    always: float = np.inf
    never: float = -NEVER

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:
        """Read the numbers."""
        numbers = read_array(parameters, name)
        special = {
            i: self.always if t is None else self.never for i, t in enumerate(numbers) if t in (None, self.never)
        }
        inside = [self.low if i in special else t for i, t in enumerate(numbers)]
        thresholds = super().read({name: inside}, name, sizes)
        for i, value in special.items():
            thresholds[i] = value
        return thresholds

    def plain(self, value: Any) -> Any:
        """Return the numbers as plain JSON."""
        return [None if np.isinf(number) else number for number in value.tolist()]


@dataclass(frozen=True)
class NamesOfGroups(Parameter):
    """Distinct names of groups, as a tuple."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - none
        """Read the names."""
        names = read_array(parameters, name)
        for i, value in enumerate(names):
            if not isinstance(value, str) or len(value) > MAX_NAME:
                detail = f"must be a string of at most {MAX_NAME} characters"
                raise InvalidDocument.at(f"/parameters/{name}/{i}", detail)
        if len(set(names)) < len(names) or len(names) > MAX_GROUPS:
            raise InvalidDocument.at(f"/parameters/{name}", f"must be at most {MAX_GROUPS} distinct names")
        return tuple(names)

    def plain(self, value: Any) -> Any:
        """Return the names as plain JSON."""
        return None if value is None else list(value)


class StoredScores(NamedTuple):
    """Scores of the n labels of a fit: the ``values`` with these ``ranks``, ascending; small ones conform."""

    n: int
    ranks: Integers
    values: Floats

    def quantile(self, alpha: float) -> float:
        """Return the score with rank ceil((n + 1) (1 - alpha)), or the next one that is stored; infinite above n.

        Up to an alpha of 0 it is infinite, and from 1 on minus infinite.
        """
        if alpha <= 0.0 or alpha >= 1.0:  # before a rank beyond floats
            return np.inf if alpha <= 0.0 else -np.inf
        k = math.ceil((self.n + 1) * (1.0 - alpha) - 1e-9)
        if k <= 0:
            return -np.inf
        place = int(np.searchsorted(self.ranks, k))
        return np.inf if k > self.n or place == len(self.ranks) else float(self.values[place])


@dataclass(frozen=True)
class ScoreTable(Parameter):
    """Stored scores of each threshold, by which a map gives sets at other levels: an object, or an array of objects."""

    def read(self, parameters: Mapping[str, Any], name: str, sizes: dict[str, int]) -> Any:  # noqa: ARG002 - it has none
        """Read the scores; raises ``InvalidDocument``."""
        document, where = parameters.get(name), f"/parameters/{name}"
        if not isinstance(document, list):
            return (self._of_threshold(document, where),)
        return tuple(self._of_threshold(own, f"{where}/{i}") for i, own in enumerate(document))

    def _of_threshold(self, document: Any, where: str) -> StoredScores:
        if not isinstance(document, dict):
            raise InvalidDocument.at(where, "must be an object with n, ranks and values")
        n = read_number(document, "n", low=0, high=1e15, where=where)
        if n == 0:  # a class or group without rows
            return StoredScores(0, np.zeros(0, np.int64), np.zeros(0))
        ranks = read_array(document, "ranks", numeric=True, where=where, low=1.0, high=n, increasing=True)
        values = read_array(document, "values", numeric=True, where=where, length=len(ranks))
        if len(ranks) > MOST_SCORES or not float(n).is_integer() or (ranks != np.floor(ranks)).any():
            raise InvalidDocument.at(where, f"must have at most {MOST_SCORES} whole ranks")
        if (np.diff(values) < 0.0).any() or ranks[-1] != n:
            raise InvalidDocument.at(where, "must not decrease, up to rank n")
        return StoredScores(int(n), ranks.astype(np.int64), values)

    def plain(self, value: Any) -> Any:
        """Return the scores as plain JSON."""
        if value is None:
            return None
        tables = [{"n": own.n, "ranks": own.ranks.tolist(), "values": own.values.tolist()} for own in value]
        return tables[0] if len(tables) == 1 else tables


Scores = Annotated[
    tuple[StoredScores, ...] | None,
    ScoreTable("scores of the fit, for sets at other levels; with several thresholds, those of each one"),
]
AllowEmpty = Annotated[bool, Flag("false: a set without any class gets the class with the largest probability")]
Randomised = Annotated[bool, Flag("whether a fraction of the probability of a class does not count, at random")]


@dataclass(frozen=True)
class SetFamily(Parametric):
    """Base class of the families of set maps."""

    family: ClassVar[str]
    #: Whether the score is the probability itself, so that a class is in the set from its threshold on.
    of_probability: ClassVar[bool] = False
    #: Whether a set has the label with probability 1 - alpha; otherwise alpha is not that of sets.
    covers: ClassVar[bool] = True

    alpha: Annotated[float, Probability("error level")]
    by: Annotated[By, ParameterChoice("what has a threshold of its own", choices=BY)]
    thresholds: Annotated[Floats, Thresholds("one number; one for each class, or for each group", shape="q", low=0.0)]

    @property
    def is_random(self) -> bool:
        """Whether a number is drawn for each row."""
        return False

    @classmethod
    def threshold(cls, quantile: float, rounding: float) -> float:
        """Return the threshold of a quantile of the scores, of which large ones do not conform."""
        if cls.of_probability:
            return NEVER if quantile == -np.inf else -quantile * (1.0 - rounding)
        return -NEVER if quantile == -np.inf else quantile + rounding

    def members(self, p: Floats, limits: Floats, u: Floats) -> Booleans:
        """Return the sets of probabilities (h, K), for limits of each row (h, 1) or of each class (K,)."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the parameters are invalid together."""
        if not 0.0 < self.alpha < 1.0:
            raise InvalidDocument.at("/parameters/alpha", "must be above 0 and below 1")
        groups: tuple[str, ...] | None = getattr(self, "groups", None)
        if (self.by == "group") != (groups is not None):
            raise InvalidDocument.at("/parameters/groups", "are the names of the groups if by is group")
        n = 1 if self.by == "all" else None if groups is None else len(groups)
        if n is not None and len(self.thresholds) != n:
            raise InvalidDocument.at("/parameters/thresholds", f"must contain {n} numbers")
        scores: tuple[StoredScores, ...] | None = getattr(self, "scores", None)
        if scores is not None and len(scores) != len(self.thresholds):
            raise InvalidDocument.at("/parameters/scores", "must be those of each threshold")


def _rounded_up(limits: Floats, dtype: np.dtype[Any]) -> Floats:
    """Return the smallest numbers of a type that are at least the limits: comparing numbers of one type is faster."""
    cast: Floats = limits.astype(dtype)
    return np.where(cast < limits, np.nextafter(cast, dtype.type(np.inf)), cast)


def _with_top(members: Booleans, p: Floats, *, allow_empty: bool) -> Booleans:
    """Return the sets, of which empty ones get the class with the largest probability unless they are allowed."""
    if not allow_empty:
        empty = np.flatnonzero(~members.any(axis=1))
        members[empty, p[empty].argmax(axis=1)] = True
    return members


@dataclass(frozen=True)
class LeastAmbiguous(SetFamily):
    """The classes whose probability is at least the threshold."""

    family: ClassVar[str] = "lac"
    formula: ClassVar[str] = "the classes with p_k of at least their threshold"
    of_probability: ClassVar[bool] = True
    thresholds: Annotated[
        Floats,
        Thresholds(
            "one number; one for each class, or for each group",
            "probability",
            "q",
            0.0,
            1.0,
            always=-np.inf,
            never=NEVER,
        ),
    ]
    allow_empty: AllowEmpty = True
    groups: Annotated[tuple[str, ...] | None, NamesOfGroups("names of the groups", shape="q")] = None
    scores: Scores = None

    def members(self, p: Floats, limits: Floats, u: Floats) -> Booleans:  # noqa: ARG002 - nothing is random
        """Return the sets of probabilities (h, K)."""
        limits = self.thresholds if self.by == "all" else limits  # one number is compared faster than one for each row
        return _with_top(p >= _rounded_up(limits, p.dtype), p, allow_empty=self.allow_empty)


@dataclass(frozen=True)
class AdaptiveSets(SetFamily):
    """The classes up to which the probabilities of a row, from the largest one, add up to at most the threshold."""

    family: ClassVar[str] = "aps"
    formula: ClassVar[str] = (
        "the classes with E_k of at most their threshold: the sum of the probabilities of a row from the largest one "
        "to p_k, minus u p_k if randomised"
    )
    allow_empty: AllowEmpty = True
    randomised: Randomised = False
    groups: Annotated[tuple[str, ...] | None, NamesOfGroups("names of the groups", shape="q")] = None
    scores: Scores = None

    def members(self, p: Floats, limits: Floats, u: Floats) -> Booleans:
        """Return the sets of probabilities (h, K)."""
        function = within_by_class if self.by == "class" else within
        return _with_top(function(p, limits, u, *self.penalties), p, allow_empty=self.allow_empty)

    @property
    def is_random(self) -> bool:
        """Whether a number is drawn for each row."""
        return self.randomised

    @property
    def penalties(self) -> tuple[float, int]:
        """The penalty, and the number of classes without one."""
        return 0.0, 0


@dataclass(frozen=True)
class RegularisedSets(AdaptiveSets):
    """Adaptive sets whose later classes have a penalty."""

    family: ClassVar[str] = "raps"
    formula: ClassVar[str] = "as aps, with penalty (r - k_reg) added to E_k of the class with rank r above k_reg"
    penalty: Annotated[float, Parameter("added to E_k for each rank above k_reg", low=0.0, high=1e6)] = 0.01
    k_reg: Annotated[int, WholeNumber("number of ranks without a penalty", low=0.0, high=MOST_FREE_RANKS)] = 5

    @property
    def penalties(self) -> tuple[float, int]:
        """The penalty, and the number of classes without one."""
        return self.penalty, self.k_reg


@dataclass(frozen=True)
class RiskControl(SetFamily):
    """Class 1 if its probability is at least the threshold, otherwise class 0."""

    family: ClassVar[str] = "crc"
    formula: ClassVar[str] = "class 1 if p is at least its threshold, otherwise class 0"
    of_probability: ClassVar[bool] = True
    covers: ClassVar[bool] = False
    thresholds: Annotated[
        Floats,
        Thresholds("one number, or one for each group", "probability", "q", 0.0, 1.0, always=-np.inf, never=NEVER),
    ]
    loss: Annotated[str, ParameterChoice("loss whose expectation is at most alpha", choices=LOSSES)] = FALSE_NEGATIVES
    groups: Annotated[tuple[str, ...] | None, NamesOfGroups("names of the groups", shape="q")] = None
    n_labels: Annotated[
        int | None, WholeNumber("number of labels that need not exclude each other, 1 for an event", low=1, high=1e9)
    ] = None

    def members(self, p: Floats, limits: Floats, u: Floats) -> Booleans:  # noqa: ARG002 - nothing is random
        """Return the sets of probabilities (h, 2)."""
        positive: Booleans = p[:, 1:] >= limits
        return np.hstack([~positive, positive])

    def check(self) -> None:
        """Raise ``InvalidDocument`` if the parameters are invalid together."""
        super().check()
        if self.by == "class":
            raise InvalidDocument.at("/parameters/by", "must be all or group")


#: Family name -> family.
SET_FAMILIES: Mapping[str, type[SetFamily]] = MappingProxyType(
    {family.family: family for family in (LeastAmbiguous, AdaptiveSets, RegularisedSets, RiskControl)}
)
