"""Numbers as text: the same everywhere in a report."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from calibrant.reports.text import cleaned

#: Smaller p-values are given as below this.
_LEAST_P = 0.001


def count(n: float) -> str:
    """Rows with thousands parted: ``10,000``."""
    return f"{n:,.0f}"


def points(share: float) -> str:
    """A difference of probabilities in percentage points, without its sign: ``4.1 points``."""
    size = abs(share) * 100.0
    if size < 0.05:
        return "less than 0.1 points"
    text = f"{size:.1f}"
    return f"{text} point" if text == "1.0" else f"{text} points"


def bound(share: float) -> str:
    """The largest size that a difference may have in percentage points, rounded up: ``4.2 points``."""
    size = max(ceil(abs(share) * 1000.0 - 1e-6), 1) / 10.0
    return f"{size:.1f} point" if size == 1.0 else f"{size:.1f} points"


def percent(share: float) -> str:
    """A probability in percent, with more digits next to 0 and 1: ``84.1 %``."""
    room = min(share, 1.0 - share)
    return f"{share:.1%}".replace("%", " %") if room >= 0.005 or room <= 0.0 else f"{share:.3%}".replace("%", " %")


def places(low: float, high: float) -> tuple[str, str]:
    """The ends of a range of predictions, with as many digits as tell them apart."""
    ends = prediction(low), prediction(high)
    for digits in range(3, 10):
        if ends[0] != ends[1]:
            break
        ends = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return ends


def prediction(p: float) -> str:
    """A place on the axis of predictions; next to 0 and 1 with as many digits as tell it from them."""
    if 0.0 < min(p, 1.0 - p) < 0.01:
        return f"{p:.1e}" if p < 0.0001 else f"{min(p, 0.9999):.4f}"
    return f"{p:.2f}"


def temperature(value: float) -> str:
    """A temperature to two digits that count: ``1.6``."""
    return f"{value:.0f}" if value >= 100.0 else f"{value:.2g}"


def p_value(p: float) -> str:
    """``p = 0.012``, or ``p < 0.001``."""
    if p < _LEAST_P:
        return f"p < {_LEAST_P}"
    return f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.3f}"


def number(value: float) -> str:
    """A number to four places or three, small ones to five."""
    if value == 0.0 or abs(value) < 5e-6:
        return "0"
    if abs(value) >= 1000.0:
        return f"{value:,.0f}"
    return f"{value:.5f}" if abs(value) < 0.001 else f"{value:.4f}" if abs(value) < 1.0 else f"{value:.3f}"


def interval(ends: Sequence[float] | None) -> str:
    """``0.0614 to 0.0776``, with as many digits as tell the ends apart; nothing where there is none."""
    if ends is None:
        return ""
    texts = number(ends[0]), number(ends[1])
    for digits in range(5, 13):
        if texts[0] != texts[1]:
            break
        texts = f"{ends[0]:.{digits}g}", f"{ends[1]:.{digits}g}"
    return f"{texts[0]} to {texts[1]}"


def level(share: float) -> str:
    """The level of an interval: ``95 %``."""
    return f"{share * 100.0:g} %"


def points_between(low: float, high: float) -> str:
    """An interval of sizes in points: ``2.9 to 5.3``; of narrow ones with as many digits as tell the ends apart."""
    for digits in range(1, 6):
        ends = f"{low * 100.0:.{digits}f}", f"{high * 100.0:.{digits}f}"
        if ends[0] != ends[1]:
            break
    return f"{ends[0]} to {ends[1]}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence: ``a, b and c``, and how many more there are."""
    texts = [cleaned(name) for name in names[:most]]
    if len(names) > most:
        return ", ".join(texts) + f" and {len(names) - most} more"
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + f" and {texts[-1]}"
