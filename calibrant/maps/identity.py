"""The identity: what an uncalibrated model is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from calibrant.cells import Floats


@dataclass(frozen=True)
class Identity:
    """c(p) = p. Monotone, differentiable, no parameters."""

    family: ClassVar[str] = "identity"

    def __call__(self, p: Floats) -> Floats:
        """Give ``p (n,)`` back, as a copy. O(n)."""
        return p.copy()

    def parameters(self) -> dict[str, Any]:
        """No numbers."""
        return {}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:  # noqa: ARG003 - it has none
        """Nothing to read."""
        return cls()
