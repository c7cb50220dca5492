"""Letters that tell at a glance which contestants chance cannot tell apart: those that share one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from string import ascii_lowercase


def letters(ranking: Sequence[str], different: Collection[frozenset[str]]) -> dict[str, str]:
    """The letters of contestants, from the best on, given the pairs that differ.

    Insert and absorb (Piepho, 2004, An algorithm for a letter-based representation of all-pairwise comparisons): a
    set that holds a pair that differs is split in two, and one that lies in another goes. Two contestants share a
    letter exactly where they do not differ. O(2^k) sets in the worst case of k contestants, of which there are few.
    """
    sets = [frozenset(ranking)]
    for pair in different:
        split: list[frozenset[str]] = []
        for each in sets:
            split += [each - {name} for name in pair] if pair <= each else [each]
        sets = [each for i, each in enumerate(split) if not _lies_in_another(each, i, split)]
    sets.sort(key=lambda each: sorted(ranking.index(name) for name in each))
    return {
        name: "".join(letter for letter, each in zip(_names(len(sets)), sets, strict=True) if name in each)
        for name in ranking
    }


def _lies_in_another(each: frozenset[str], at: int, sets: Sequence[frozenset[str]]) -> bool:
    """Whether a set lies in another one; of equal sets the first stays."""
    return any(each < other or (each == other and i < at) for i, other in enumerate(sets) if i != at)


def _names(count: int) -> list[str]:
    return [ascii_lowercase[i] if i < len(ascii_lowercase) else f"({i})" for i in range(count)]
