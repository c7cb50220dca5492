"""What a file is read into, and what a person may say of it beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Scale = Literal["probability", "logit"]


@dataclass(frozen=True)
class Asked:
    """What is not to be guessed: names of columns, the scale, and the class of each text of the labels.

    ``predictions`` names one column of P(Y=1), or a column a class in the order of the classes.
    """

    predictions: tuple[str, ...] | None = None
    labels: str | None = None
    weights: str | None = None
    groups: str | None = None
    scale: Scale = "probability"
    mapping: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Sheet:
    """A file as arrays.

    ``predictions (n,)`` are P(Y=1) or its logit, ``(n, K)`` a column a class, float64 as the file holds them: what is
    a little outside [0, 1] stays. ``labels (n,)`` are classes, ``weights (n,)`` and ``groups``, a name a row, are None
    where the file has none. ``classes`` are the names of the classes in order, where the file tells them. ``said``
    are sentences: each guess, and each reading that is not plain.
    """

    predictions: Floats
    labels: Ints | None
    weights: Floats | None
    groups: list[str] | None
    scale: Scale
    classes: tuple[str, ...] | None
    said: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.predictions)
