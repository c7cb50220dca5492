"""The Pareto front: contestants than which none is better in one respect and as good in the other."""

from __future__ import annotations

from collections.abc import Mapping


def pareto_front(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[str, ...]:
    """The names on the front of two values of which smaller is better, by rising ``first``.

    A contestant is off the front where another is at most as large in both and smaller in one. Contestants of equal
    values stand on it together. Names that only one of the two has are left out. O(m log m).

    Examples
    --------
    >>> error, ece = {"a": 0.2, "b": 0.3, "c": 0.3}, {"a": 0.05, "b": 0.01, "c": 0.02}
    >>> pareto_front(error, ece)
    ('a', 'b')
    """
    order = sorted((first[name], second[name], place, name) for place, name in enumerate(first) if name in second)
    front: list[str] = []
    least: tuple[float, float] | None = None
    for x, y, _, name in order:
        if least is None or y < least[1] or (x, y) == least:
            front.append(name)
            least = x, y
    return tuple(front)
