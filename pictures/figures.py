"""Figures as people read them, in titles, beside axes and in alternative text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MINUS = "\N{MINUS SIGN}"


def decimal(value: float) -> str:
    """A number of at most about 1, to three decimals; a small one to two digits.

    >>> decimal(0.04137), decimal(-0.25).replace(MINUS, "-"), decimal(0.0)
    ('0.041', '-0.250', '0.000')
    """
    told = f"{value:.3f}" if value == 0.0 or abs(value) >= 0.0005 else f"{value:.1e}"
    return told.replace("-", MINUS)


def signed(value: float) -> str:
    """The same with its sign.

    >>> signed(0.04), signed(-0.04).replace(MINUS, "-")
    ('+0.040', '-0.040')
    """
    return ("+" if value >= 0.0 else "") + decimal(value)


def count(number: float) -> str:
    """Rows, whole ones by their thousands.

    >>> count(10000), count(2.5)
    ('10,000', '2.5')
    """
    return f"{number:,.0f}" if float(number).is_integer() or number >= 100.0 else f"{number:.3g}"


def rows_of(number: float) -> str:
    """So many rows in words.

    >>> rows_of(1), rows_of(10000)
    ('1 row', '10,000 rows')
    """
    return f"{count(number)} row" if number == 1 else f"{count(number)} rows"


def percent(share: float) -> str:
    """A share of the whole.

    >>> percent(0.25), percent(0.004)
    ('25 %', '0.4 %')
    """
    return f"{100.0 * share:.0f} %" if share >= 0.095 or share == 0.0 else f"{100.0 * share:.2g} %"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round places from ``low`` to ``high``, at most ``most``, a step of 1, 2 or 5 of some power of ten apart.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = high - low
    if not span > 0.0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(s * power for s in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0) if span / (s * power) <= most - 1 + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def tick_labels(places: Sequence[float]) -> list[str]:
    """What stands at round places, each with as many decimals as their step needs.

    >>> tick_labels([0.0, 0.25, 0.5]), tick_labels([0.0, 1e6])
    (['0', '0.25', '0.5'], ['0', '1,000,000'])
    """
    told = (np.format_float_positional(p + 0.0, trim="-") if abs(p) < 1e4 else f"{p:,.0f}" for p in places)
    return [text.replace("-", MINUS) for text in told]


def listed(parts: Sequence[str]) -> str:
    """Words in a row.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
