"""Checks of the pages of docs/benchmarks: their cells are computed again and compared."""

from __future__ import annotations

from benchmarks.checks.comparison import Check, Comparison, NotChecked, Part, Rendering, Stored

__all__ = ["Check", "Comparison", "NotChecked", "Part", "Rendering", "Stored"]
