"""The reliability diagrams of a few groups, to stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.batch import Batch
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.reductions import Event, resolve, subject

#: More groups than this are a table alone.
MOST = 9
#: Bins of each: groups are smaller than the whole.
_BINS = 10


def group_diagrams(batch: Batch, groups: Sequence[str], reduction: str | None = None) -> dict[str, Any] | None:
    """The reliability diagram of each group's rows, by name: the ``group_diagrams`` of a report.

    Each has ``n`` and ``diagrams``, as reports have them. None of one group or more than nine, and where the reduction
    is not one event. Raises ``UnknownReduction``. O(n log n).
    """
    asked = subject(batch, resolve(reduction, batch.predictions.n_classes))
    names, member = np.unique(np.asarray(groups, dtype=object), return_inverse=True)
    if not isinstance(asked, Event) or not 2 <= len(names) <= MOST:
        return None
    (request,) = read_diagrams([{"name": "reliability", "n_bins": _BINS}])
    rows = [np.flatnonzero(member == i) for i in range(len(names))]
    return {
        str(name): {"n": len(own), "diagrams": {"reliability": request.drawn(asked.rows(own))}}
        for name, own in zip(names, rows, strict=True)
    }
