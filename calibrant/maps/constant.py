"""A constant: one probability, whatever is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.cells import Floats
from calibrant.maps.curves import read_number


@dataclass(frozen=True)
class Constant:
    """c(p) = ``value``, in [0, 1]. Monotone, differentiable."""

    family: ClassVar[str] = "constant"
    value: float

    def __call__(self, p: Floats) -> Floats:
        """The value for each ``p (n,)``. O(n)."""
        return np.full(len(p), self.value)

    def parameters(self) -> dict[str, Any]:
        """The number that makes this curve."""
        return {"value": self.value}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's number."""
        return cls(read_number(parameters, "value", low=0.0, high=1.0))
