"""Groups of rows by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from calibrant.core.arrays import distinct_names
from calibrant.core.batch import MAX_NAME
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption, LengthMismatch, WrongShape
from calibrant.core.results import n_rows

#: The rows of each group, by name.
Members = dict[str, npt.NDArray[np.int64]]

#: The most groups.
MAX_GROUPS = 1000


class Groups(list[str]):
    """The group name of each row; the members of each group are computed once and kept."""

    @cached_property
    def members(self) -> Members:
        """The rows of each group, by name; raises ``InvalidOption``."""
        return group_members(list(self), len(self))


def group_members(groups: Sequence[str], n: int) -> Members:
    """The rows of each group, by name. O(n log n)."""
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise WrongShape.at("/groups", "must be an array of group names")
    if len(groups) != n:
        raise LengthMismatch.at("/groups", f"has {n_rows(len(groups))}, but predictions have {n:,}")
    if isinstance(groups, Groups):
        return groups.members
    number: dict[str, int] = {}
    member = np.empty(n, dtype=np.int64)
    for i, name in enumerate(groups):
        if not isinstance(name, str) or len(name) > MAX_NAME:
            raise InvalidOption.at(f"/groups/{i}", f"must be a string of at most {MAX_NAME} characters")
        member[i] = number.setdefault(str(name), len(number))
    if len(number) > MAX_GROUPS:
        raise InvalidOption.at("/groups", f"must name at most {MAX_GROUPS} groups")
    order = np.argsort(member, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(member[order])) + 1)
    rows_of = dict(zip(number, parts, strict=True))
    return {str(name): rows_of[name] for name in distinct_names(groups)}


def members_among(members: Members, chosen: npt.NDArray[np.int64]) -> Members:
    """The rows of each group among the kept ones, ascending; groups without any are left out."""
    among = {name: np.flatnonzero(np.isin(chosen, rows)) for name, rows in members.items()}
    return {name: rows for name, rows in among.items() if len(rows)}


def with_weight(members: Members, w: Floats | None) -> Members:
    """The groups with some weight ``w (n,)``: rows of weight 0 do not count."""
    return members if w is None else {name: rows for name, rows in members.items() if w[rows].any()}
