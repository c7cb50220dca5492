"""The fields of the rows of monitors, and the columns of tables that have them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from backend.monitors.rows import MAX_GROUP_BYTES, What, Why
from calibrant.core.errors import WrongShape
from calibrant.io.errors import InvalidField
from calibrant.io.strict import place_columns

#: The reason why each row is refused, 0 for none.
Whys = npt.NDArray[np.uint8]
#: Bytes of memory for a row in addition to its values.
ROW_BYTES = 64
_OF_CLASS = re.compile(r"predictions?\.(0|[1-9][0-9]{0,8})")

#: The fields that a row of each call may have.
FIELDS: Mapping[What, tuple[str, ...]] = MappingProxyType(
    {
        "rows": ("id", "prediction", "label", "timestamp", "group"),
        "predictions": ("id", "prediction", "timestamp", "group"),
        "labels": ("id", "label", "timestamp"),
    }
)
#: The fields that a body of columns must have.
NEEDED: Mapping[What, tuple[str, ...]] = MappingProxyType(
    {"rows": ("prediction", "label"), "predictions": ("id", "prediction"), "labels": ("id", "label")}
)


class PredictionColumns(Protocol):
    """What the predictions of a monitor consist of: ``backend.monitors.kinds`` has one for each kind of predictions."""

    @property
    def meaning(self) -> str: ...  # noqa: D102
    @property
    def width(self) -> int | None: ...  # noqa: D102
    @property
    def takes_booleans(self) -> bool: ...  # noqa: D102
    def renamed(self, documents: Sequence[Any], fields: Sequence[str], /) -> Sequence[Any]: ...  # noqa: D102


def plural(field: str) -> str:
    """The name of an array: the plural of its field."""
    return field + "s"


def find_columns(names: list[str], what: What, n_classes: int | None) -> dict[str, list[int]]:
    """The indices of each field's columns; ``prediction`` may have several. Raises ``InvalidField``."""
    fields = FIELDS[what]
    known = {name: field for field in fields for name in (field, plural(field))}
    families = {"prediction": _OF_CLASS} if "prediction" in fields else {}
    places, members = place_columns(names, known, families, ", ".join(fields))
    if (classes := members.get("prediction")) is not None:
        if n_classes is None or sorted(classes) != list(range(n_classes)):
            raise WrongShape.at("/prediction", "must have one column for each class of the monitor")
        places["prediction"] = [classes[k] for k in range(n_classes)]
    for field in NEEDED[what]:
        if field not in places:
            raise InvalidField.at(f"/{field}", "is missing")
    return places


def refuse_long(codes: npt.NDArray[np.int64], names: Sequence[str], why: Whys) -> None:
    """Refuse the rows of groups with too long names; ``codes (n,)`` are indices into ``names``."""
    long = np.array([len(name.encode("utf-8", "replace")) > MAX_GROUP_BYTES for name in names] + [False])
    if long.any():
        why[long[codes] & (why == 0)] = Why.INVALID_GROUP
