"""Taking in the rows of a request, some thousands at a time, each of them once however often it is sent.

What becomes of a row is decided from what is known of its id, and written in one step on condition that this is still
so. Where another process was faster, nothing was written, what it knows now is read, and the row is decided again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from calibrant.batch import Integers
from calibrant.cells import Floats
from calibrant.tallies.tally import FOLDS
from monitoring.taking.checking import check_labels, check_predictions, check_times
from monitoring.taking.deciding import Decided, decide_labels, decide_predictions, decide_rows
from monitoring.taking.entries import COUNTED, JOINED, Entries, known, nothing
from monitoring.taking.outcomes import Account
from monitoring.taking.predicted import Predicted
from monitoring.taking.reasons import MAX_GROUP_BYTES, MAX_ID_BYTES, Why
from monitoring.taking.reducing import Apply, reduce_rows
from monitoring.taking.rows import Mask, Rows, first_places, lengths_of
from schemas.monitors import MonitorRecord, Taken
from storage.monitors.groups import NO_GROUP, OTHER_GROUP, Groups
from storage.monitors.ledger import MOST_ROWS, Change, Conflict, Ledger
from storage.monitors.strings import Ids

#: What the rows of a request bring: predictions with labels, or one of the two.
What = Literal["rows", "predictions", "labels"]

#: Rows without ids are counted so many at a time: no id has to be looked at.
_MOST_WITHOUT = 50_000
#: Names of groups that are asked for at once.
_GROUPS_AT_ONCE = 1000


class Taking:
    """Takes in the rows of one monitor.

    ``apply`` is its map. ``seed`` makes rows without ids count once, however often the request of that seed is run.
    """

    def __init__(
        self, ledger: Ledger, groups: Groups, record: MonitorRecord, apply: Apply | None = None, seed: str | None = None
    ) -> None:
        self._ledger = ledger
        self._groups = groups
        self._record = record
        self._apply = apply
        self._seed = seed
        self._rng = np.random.default_rng()
