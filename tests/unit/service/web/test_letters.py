from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from service.web.text import letters

NAMES = "pqrstu"


def _pairs(*texts: str) -> list[frozenset[str]]:
    return [frozenset(text) for text in texts]


def test_indistinguishable_contestants_share_one_letter() -> None:
    assert letters("pqr", []) == {"p": "a", "q": "a", "r": "a"}


def test_one_in_the_middle_shares_a_letter_with_either_side() -> None:
    assert letters("pqr", _pairs("pr")) == {"p": "a", "q": "ab", "r": "b"}


def test_the_best_has_the_first_letter_and_where_all_differ_each_has_its_own() -> None:
    assert letters("rpq", _pairs("pq", "qr", "pr")) == {"r": "a", "p": "b", "q": "c"}


@given(
    st.permutations(NAMES),
    st.lists(st.sampled_from(list(combinations(NAMES, 2))), unique=True),
)
def test_two_share_a_letter_exactly_where_they_do_not_differ(
    ranking: Sequence[str], found: list[tuple[str, str]]
) -> None:
    different = [frozenset(pair) for pair in found]
    shared = letters(ranking, different)
    for one, other in combinations(NAMES, 2):
        assert bool(set(shared[one]) & set(shared[other])) == (frozenset((one, other)) not in different)
