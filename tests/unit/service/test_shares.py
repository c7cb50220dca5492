from __future__ import annotations

import pytest

from service.callers import LOCAL, Caller
from service.shares import Exhausted, Shares

ONE, OTHER = Caller(tenant="one", key_id="1"), Caller(tenant="other", key_id="2")
SECOND_KEY = Caller(tenant="one", key_id="3")


def _taken(shares: Shares, caller: Caller, amount: int = 1) -> tuple[int, Exhausted]:
    """How often a caller gets a share, and what stops it."""
    for count in range(1000):
        try:
            shares.take(caller, amount)
        except Exhausted as full:
            return count, full
    raise AssertionError("nothing stops it")


@pytest.mark.parametrize(
    ("total", "of_tenant"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (8, 4), (200, 100)], ids=str
)
def test_a_tenant_holds_at_most_half_but_one_in_any_case(total: int, of_tenant: int) -> None:
    amount, full = _taken(Shares(total), ONE)
    assert (amount, full.holder, full.most) == (of_tenant, "the tenant", of_tenant)


@pytest.mark.parametrize("total", [2, 3, 8, 200])
def test_while_one_tenant_holds_all_that_it_may_another_gets_as_much(total: int) -> None:
    shares = Shares(total)
    assert _taken(shares, ONE)[0] == _taken(shares, OTHER)[0] == total // 2


@pytest.mark.parametrize(("total", "of_key"), [(1, 1), (3, 1), (4, 1), (8, 2), (200, 50)], ids=str)
def test_a_key_holds_at_most_a_quarter_but_one_in_any_case(total: int, of_key: int) -> None:
    amount, full = _taken(Shares(total, by_key=True), ONE)
    assert amount == of_key
    if total > 3:  # before that the tenant's bound is as low
        assert (full.holder, full.most) == ("the API key", of_key)


def test_two_keys_of_a_tenant_share_its_half() -> None:
    shares = Shares(8, by_key=True)
    assert _taken(shares, ONE)[0] == _taken(shares, SECOND_KEY)[0] == 2
    amount, full = _taken(shares, Caller(tenant="one", key_id="4"))
    assert (amount, full.holder) == (0, "the tenant")


def test_the_only_tenant_may_hold_everything_without_keys() -> None:
    amount, full = _taken(Shares(8, by_key=True), LOCAL)
    assert (amount, full.holder) == (8, "this process")


def test_a_third_tenant_gets_the_refusal_of_the_whole_process() -> None:
    shares = Shares(4)
    _taken(shares, ONE)
    _taken(shares, OTHER)
    assert _taken(shares, Caller(tenant="third"))[1].holder == "this process"


def test_released_shares_are_free_again_and_holders_are_forgotten() -> None:
    shares = Shares(4, by_key=True)
    shares.take(ONE)
    with pytest.raises(Exhausted):
        shares.take(ONE)
    shares.give_back(ONE)
    shares.take(ONE)
    shares.give_back(ONE)
    assert shares._held == {}


def test_amounts_are_taken_in_full_or_not_at_all_and_the_least_is_always_allowed() -> None:
    shares = Shares(100, least=60)
    shares.take(ONE, 60)
    with pytest.raises(Exhausted):
        shares.take(ONE, 1)
    with pytest.raises(Exhausted):
        shares.take(OTHER, 41)
    shares.take(OTHER, 40)


def test_a_total_that_changes_counts_as_it_is() -> None:
    shares = Shares(0, least=0)
    shares.take(ONE, 50, total=100)
    with pytest.raises(Exhausted) as full:
        shares.take(ONE, 1, total=100)
    assert full.value.most == 50
    shares.take(ONE, 10, total=120)
