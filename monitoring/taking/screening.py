"""The screening of rows before any id is looked at: what can be refused for what stands in the row itself."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from monitoring.taking.checking import check_labels, check_times
from monitoring.taking.naming import reserved
from monitoring.taking.reasons import MAX_ID_BYTES, Why
from monitoring.taking.rows import Rows, lengths_of
from schemas.monitors import MonitorRecord

#: What the rows of a request bring: predictions with labels, or one of the two.
What = Literal["rows", "predictions", "labels"]


def screen(rows: Rows, what: What, record: MonitorRecord, now: float) -> npt.NDArray[np.uint8]:
    """Why each row is refused, 0 where it is not; the predictions themselves are not looked at. O(n)."""
    why = rows.refused.copy()
    if what != "labels" and rows.predictions is None:
        _refuse(why, Why.NO_PREDICTION)
    if what != "predictions":
        _refuse(why, Why.NO_LABEL if rows.labels is None else check_labels(rows.labels, record.n_classes or 2))
    if rows.ids is not None:
        lengths = lengths_of(rows.ids)
        _refuse(why, np.where(lengths > MAX_ID_BYTES, np.uint8(Why.LONG_ID), np.uint8(0)))
        if what != "rows":
            _refuse(why, np.where(lengths == 0, np.uint8(Why.NO_ID), np.uint8(0)))
    elif what != "rows":
        _refuse(why, Why.NO_ID)
    if rows.groups is not None:
        _refuse(why, np.where(reserved(rows.groups, rows.names), np.uint8(Why.RESERVED_GROUP), np.uint8(0)))
    if rows.times is not None:
        _refuse(why, check_times(rows.times, now, skew=record.skew, retention=record.retention))
        if rows.ids is not None:
            old = (rows.times < now - record.horizon) & (lengths_of(rows.ids) > 0)
            _refuse(why, np.where(old, np.uint8(Why.FORGOTTEN), np.uint8(0)))
    return why


def _refuse(why: npt.NDArray[np.uint8], reasons: npt.NDArray[np.uint8] | int) -> None:
    """Refuse rows for further reasons; the first that was found stays."""
    np.copyto(why, reasons, where=why == 0, casting="unsafe")
