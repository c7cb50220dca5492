"""The columns of a table: which of them are which array of a body.

``predictions`` is one column of P(Y=1), in Arrow and Parquet also of lists [p_1..p_K]; or there are K columns
``predictions.0`` to ``predictions.K-1``, in any order. ``labels``, ``weights`` and ``groups`` are a column each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from service.errors import InvalidField
from service.formats.limits import Limits
from service.formats.payload import ARRAYS, Array, Arrays

_OF_CLASS = re.compile(r"predictions\.(0|[1-9][0-9]{0,8})")


def find_columns(names: Sequence[str], limits: Limits) -> dict[str, list[int]]:
    """The places of each array's columns, those of ``predictions.k`` in the order of k.

    Raises ``InvalidField`` for a column that is none of them, which is told by its place: a name may be a secret
    too. The same for a column that stands twice or is missing among the classes; ``TooLarge`` for too many.
    """
    limits.check_classes(len(names) - len(ARRAYS) + 1)
    single: dict[str, list[int]] = {}
    classes: dict[int, int] = {}
    for at, name in enumerate(names):
        of_class = _OF_CLASS.fullmatch(name)
        if of_class is None and name not in ARRAYS:
            raise InvalidField.at("", f"column {at + 1} is none of {', '.join(ARRAYS)} and predictions.k")
        field, k = ("predictions", int(of_class[1])) if of_class else (name, -1)
        if (k in classes) if of_class else (field in single):
            raise InvalidField.at(f"/{field}", f"stands twice, the second time in column {at + 1}")
        if of_class:
            classes[k] = at
        else:
            single[field] = [at]
    if not classes:
        return single
    if "predictions" in single:
        raise InvalidField.at("/predictions", "stands as one column and as one a class; send one of the two")
    if max(classes) != len(classes) - 1:
        missing = next(k for k in range(len(classes)) if k not in classes)
        raise InvalidField.at("/predictions", f"has no column predictions.{missing}")
    return {"predictions": [classes[k] for k in range(len(classes))], **single}


def read_columns(columns: Mapping[str, Sequence[int]], read: Callable[[int, str], Array]) -> Arrays:
    """The arrays of a table whose column at a place ``read(place, field)`` gives."""
    return {
        field: read(places[0], field) if len(places) == 1 else np.column_stack([read(at, field) for at in places])
        for field, places in columns.items()
    }
