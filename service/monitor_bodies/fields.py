"""The fields of rows, and the arrays or columns of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monitoring.taking.screening import What

#: The fields that a row of each call may have.
FIELDS: Mapping[What, tuple[str, ...]] = MappingProxyType(
    {
        "rows": ("id", "prediction", "label", "timestamp", "group"),
        "predictions": ("id", "prediction", "timestamp", "group"),
        "labels": ("id", "label", "timestamp"),
    }
)
#: The field without which a body of columns holds nothing of use.
NEEDED: Mapping[What, tuple[str, ...]] = MappingProxyType(
    {"rows": ("prediction", "label"), "predictions": ("id", "prediction"), "labels": ("id", "label")}
)


def plural(field: str) -> str:
    """An array of a field is called by the plural."""
    return field + "s"
