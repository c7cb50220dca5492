"""Temperature scaling: logits divided by one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.batch import softmax_in_place
from calibrant.cells import Floats
from calibrant.maps.curves import fast_logistic, fast_logit, in_blocks, read_number
from calibrant.maps.transforms import Takes, blocks_of_rows

#: Temperatures in documents.
_LOW, _HIGH = 1e-300, 1e300


@dataclass(frozen=True)
class EventTemperature:
    """c(p) = logistic(logit(p) / temperature), the logit clipped at 2^-52. Increasing, differentiable."""

    family: ClassVar[str] = "event-temperature"
    temperature: float

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        return in_blocks(lambda q: fast_logistic(fast_logit(q) / self.temperature), p)

    def parameters(self) -> dict[str, Any]:
        """The number that makes this curve."""
        return {"temperature": self.temperature}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Read a document's number."""
        return cls(read_number(parameters, "temperature", low=_LOW, high=_HIGH))


@dataclass(frozen=True)
class Temperature:
    """softmax(z / temperature): keeps the order of the classes, differentiable."""

    family: ClassVar[str] = "temperature"
    takes: ClassVar[Takes] = "logits"
    temperature: float

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of logits ``(n, K)``. O(n K)."""
        found = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            found[part] = rows[part]
            found[part] -= found[part].max(axis=1, keepdims=True)
            found[part] /= self.temperature
            softmax_in_place(found[part])
        return found

    def parameters(self) -> dict[str, Any]:
        """The number that makes this transform."""
        return {"temperature": self.temperature}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:  # noqa: ARG003 - it fits any number
        """Read a document's number."""
        return cls(read_number(parameters, "temperature", low=_LOW, high=_HIGH))
