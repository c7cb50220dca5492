"""Checks of the pages of docs/benchmarks: their cells are computed again and compared."""

from __future__ import annotations

from benchmarks.checks.comparison import CellComparison, NotChecked, PageCheck, PagePart, Rendering, StoredRecord

__all__ = ["CellComparison", "NotChecked", "PageCheck", "PagePart", "Rendering", "StoredRecord"]
