"""Why a row is not counted: a stable code and words, never what stands in the row."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

#: An id and the name of a group have at most so many bytes of UTF-8.
MAX_ID_BYTES = MAX_GROUP_BYTES = 200


class Reason(NamedTuple):
    """A code, and what is wrong in words that read on from the row's number."""

    code: str
    detail: str


class Why(IntEnum):
    """The place of a reason in ``REASONS``; arrays of rows hold it as one byte each."""

    FINE = 0
    UNREADABLE = 1
    UNKNOWN_FIELD = 2
    NO_ID = 3
    LONG_ID = 4
    NO_PREDICTION = 5
    NOT_A_NUMBER = 6
    NOT_FINITE = 7
    OUT_OF_RANGE = 8
    WRONG_SUM = 9
    WRONG_SHAPE = 10
    NO_LABEL = 11
    INVALID_LABEL = 12
    INVALID_TIME = 13
    FUTURE = 14
    TOO_OLD = 15
    INVALID_GROUP = 16
    CONTRADICTED = 17
    INVALID_ID = 18
    FORGOTTEN = 19
    RESERVED_GROUP = 20
    MILLISECONDS = 21
    EMPTY_ID = 22


REASONS: dict[Why, Reason] = {
    Why.UNREADABLE: Reason("unreadable", "is no JSON object, or no event, or holds nothing in a form that is known"),
    Why.UNKNOWN_FIELD: Reason(
        "invalid-field", "holds a field that is none of id, prediction, label, timestamp and group, or not of this call"
    ),
    Why.NO_ID: Reason("missing-id", "has no id, without which nothing can be joined to it"),
    Why.LONG_ID: Reason("invalid-id", f"has an id of more than {MAX_ID_BYTES} bytes"),
    Why.NO_PREDICTION: Reason("missing-prediction", "has no prediction"),
    Why.NOT_A_NUMBER: Reason("not-a-number", "has a prediction that holds something else than numbers"),
    Why.NOT_FINITE: Reason("not-finite", "has a prediction that is not a finite number"),
    Why.OUT_OF_RANGE: Reason("out-of-range", "has a prediction outside [0, 1]; logits need a monitor on their scale"),
    Why.WRONG_SUM: Reason("out-of-range", "has a prediction that does not sum to 1"),
    Why.WRONG_SHAPE: Reason("wrong-shape", "has a prediction of another number of classes than the monitor"),
    Why.NO_LABEL: Reason("missing-label", "has no label"),
    Why.INVALID_LABEL: Reason("invalid-label", "has a label that is not an integer from 0 to the classes less one"),
    Why.INVALID_TIME: Reason("invalid-timestamp", "has a timestamp that is no seconds since 1970 and no RFC 3339"),
    Why.FUTURE: Reason("from-the-future", "has a timestamp further in the future than the monitor's skew"),
    Why.TOO_OLD: Reason("too-old", "has a timestamp from before the monitor's retention"),
    Why.FORGOTTEN: Reason(
        "too-old", "has an id, and a timestamp from before the monitor's horizon: its id may have been forgotten"
    ),
    Why.INVALID_GROUP: Reason("invalid-group", f"has a group that is no string of at most {MAX_GROUP_BYTES} bytes"),
    Why.RESERVED_GROUP: Reason("invalid-group", "has the group (other), the name of all groups beyond the bound"),
    Why.CONTRADICTED: Reason("contradicted", "has another label than the one that came first, which stays"),
    Why.EMPTY_ID: Reason("missing-id", "has an empty id: a row without one has no such field, or null"),
    Why.INVALID_ID: Reason("invalid-id", "has an id that is neither a string nor an integer"),
    Why.MILLISECONDS: Reason("from-the-future", "has a timestamp in the far future of seconds: is it in milliseconds?"),
}
