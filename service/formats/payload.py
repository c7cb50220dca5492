"""What every reader gives: the arrays of a body, and everything else in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

#: The fields of a body that are arrays with a row each.
ARRAYS = ("predictions", "labels", "weights", "groups")

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
#: A body as it was received, or unpacked.
Body = bytes | bytearray


@dataclass(frozen=True)
class Payload:
    """``arrays`` by field name; ``options`` as JSON values, or as strings where a query carried them."""

    arrays: Mapping[str, Array]
    options: Mapping[str, Any]
    from_query: bool
