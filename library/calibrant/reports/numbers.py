"""Formatting of numbers in reports."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from calibrant.reports.text import cleaned

#: Smaller p-values are shown as below this.
_LEAST_P = 0.001


def count(n: float) -> str:
    """Format a count: ``10,000``."""
    return f"{n:,.0f}"


def points(share: float) -> str:
    """Format a difference of probabilities in percentage points, without its sign: ``4.1 points``."""
    size = abs(share) * 100.0
    if size < 0.05:
        return "less than 0.1 points"
    text = f"{size:.1f}"
    return f"{text} point" if text == "1.0" else f"{text} points"


def bound(share: float) -> str:
    """Format an upper bound of a difference in percentage points, rounded up: ``4.2 points``."""
    size = max(ceil(abs(share) * 1000.0 - 1e-6), 1) / 10.0
    return f"{size:.1f} point" if size == 1.0 else f"{size:.1f} points"


def percent(share: float) -> str:
    """Format a probability as a percentage, with more digits near 0 and 1: ``84.1 %``."""
    room = min(share, 1.0 - share)
    return f"{share:.1%}".replace("%", " %") if room >= 0.005 or room <= 0.0 else f"{share:.3%}".replace("%", " %")


def places(low: float, high: float) -> tuple[str, str]:
    """Format the ends of a range of predictions with enough digits to distinguish them."""
    ends = prediction(low), prediction(high)
    for digits in range(3, 10):
        if ends[0] != ends[1]:
            break
        ends = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return ends


def prediction(p: float) -> str:
    """Format a prediction, with enough digits to distinguish it from 0 and 1."""
    if 0.0 < min(p, 1.0 - p) < 0.01:
        return f"{p:.1e}" if p < 0.0001 else f"{min(p, 0.9999):.4f}"
    return f"{p:.2f}"


def ratio(value: float) -> str:
    """Format a ratio, such as a temperature, with two significant digits: ``1.6``."""
    return f"{value:.0f}" if value >= 100.0 else f"{value:.2g}"


def p_value(p: float) -> str:
    """Format a p-value: ``p = 0.012``, or ``p < 0.001``."""
    if p < _LEAST_P:
        return f"p < {_LEAST_P}"
    return f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.3f}"


def number(value: float) -> str:
    """Format a number with three to five decimals, depending on its size."""
    if value == 0.0 or abs(value) < 5e-6:
        return "0"
    if abs(value) >= 1000.0:
        return f"{value:,.0f}"
    return f"{value:.5f}" if abs(value) < 0.001 else f"{value:.4f}" if abs(value) < 1.0 else f"{value:.3f}"


def interval(ends: Sequence[float] | None) -> str:
    """Format an interval with enough digits to distinguish its ends: ``0.0614 to 0.0776``; empty for None."""
    if ends is None:
        return ""
    texts = number(ends[0]), number(ends[1])
    for digits in range(5, 13):
        if texts[0] != texts[1]:
            break
        texts = f"{ends[0]:.{digits}g}", f"{ends[1]:.{digits}g}"
    return f"{texts[0]} to {texts[1]}"


def level(share: float) -> str:
    """Format the level of an interval: ``95 %``."""
    return f"{share * 100.0:g} %"


def points_between(low: float, high: float) -> str:
    """Format an interval in percentage points with enough digits to distinguish its ends: ``2.9 to 5.3``."""
    for digits in range(1, 6):
        ends = f"{low * 100.0:.{digits}f}", f"{high * 100.0:.{digits}f}"
        if ends[0] != ends[1]:
            break
    return f"{ends[0]} to {ends[1]}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Join names in a sentence: ``a, b and c``, or ``a, b, c and 2 more``."""
    texts = [cleaned(name) for name in names[:most]]
    if len(names) > most:
        return ", ".join(texts) + f" and {len(names) - most} more"
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + f" and {texts[-1]}"


def class_list(names: Sequence[str], most: int = 8) -> str:
    """Join the names of classes, each cut to 40 characters: ``a, b, c``, or ``a, b and 2 more``."""
    shown = ", ".join(cleaned(name, 40) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
