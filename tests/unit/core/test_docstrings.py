"""The sections that docstrings of a family share."""

from __future__ import annotations

from typing import Any

import pytest

from calibrant.core.docstrings import completed, shares

SECTIONS = """
Parameters
----------
scale, unit : str
    Scale and unit of ``x``.
x : float
    Number.
other : int
    Of another function.

Returns
-------
float
    Result.

Raises
------
ValueError
    If ``x`` is negative.
OSError
    If the file is missing.

Examples
--------
>>> x = 1
"""


@shares(SECTIONS)
def _doubled(x: float, y: float = 0.0, *, scale: str = "", **options: Any) -> float:
    """Double a number.

    It is exact.

    Parameters
    ----------
    y : float
        Added.
    **options : object
        Not used.

    Raises
    ------
    OSError
        Never.

    Notes
    -----
    O(1).

    >>> 2 * x
    2
    """
    return 2.0 * x + y


def test_a_docstring_lacks_what_its_family_shares_or_loses_what_is_its_own() -> None:
    text = _doubled.__doc__ or ""
    assert text.splitlines() == [
        *("Double a number.", "", "It is exact.", ""),
        *("Parameters", "----------", "x : float", "    Number.", "y : float", "    Added."),
        *("scale, unit : str", "    Scale and unit of ``x``.", "**options : object", "    Not used.", ""),
        *("Returns", "-------", "float", "    Result.", ""),
        *("Raises", "------", "ValueError", "    If ``x`` is negative.", "OSError", "    Never.", ""),
        *("Notes", "-----", "O(1).", ""),
        *("Examples", "--------", ">>> x = 1", ">>> 2 * x", "2"),
    ]
    assert text.endswith("\n")


@pytest.mark.parametrize("ending", ["Parameters\n----------\nz : int\n    Gone.", "Usage\n-----\nSo."])
def test_a_description_of_an_argument_or_a_section_that_does_not_exist_is_accepted(ending: str) -> None:
    with pytest.raises(ValueError, match="not in"):
        completed(f"Do it.\n\n{ending}", SECTIONS, ["x"])
