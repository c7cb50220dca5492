"""Groups by name: the index under which the rows of each are counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.batch import Integers
from monitoring.taking.rows import Mask
from storage.monitors.groups import NO_GROUP, OTHER, Groups

#: Names that are asked for at once.
_AT_ONCE = 1000


def group_indices(groups: Groups, codes: Integers | None, names: Sequence[str]) -> Integers | None:
    """The index of each row's group; ``codes (n,)`` are the places of their names, -1 for none, as is an empty name.

    New groups get an index while the monitor has one left, in the order of their names in the request.
    """
    if codes is None:
        return None
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(names)))
    indices = np.full(len(names) + 1, NO_GROUP, dtype=np.int64)  # the last is that of -1
    for start in range(0, len(used), _AT_ONCE):
        asked = [code for code in used[start : start + _AT_ONCE].tolist() if names[code]]
        indices[asked] = groups.indices([names[code] for code in asked])
    found: Integers = indices[codes]
    return found


def reserved(codes: Integers, names: Sequence[str]) -> Mask:
    """Whether each row's group has the name under which those beyond the bound are told."""
    found: Mask = np.isin(codes, [code for code, name in enumerate(names) if name == OTHER])
    return found
