from __future__ import annotations

import pytest

from calibrant.reports import numbers
from calibrant.reports.text import cleaned


@pytest.mark.parametrize(
    ("share", "told"),
    [(0.0412, "4.1 points"), (-0.0412, "4.1 points"), (0.01, "1.0 point"), (0.0004, "less than 0.1 points")],
)
def test_points(share: float, told: str) -> None:
    assert numbers.points(share) == told


@pytest.mark.parametrize(
    ("share", "told"),
    [(0.0, "0.1 points"), (0.0004, "0.1 points"), (0.0412, "4.2 points"), (0.01, "1.0 point"), (0.3, "30.0 points")],
)
def test_bounds_are_rounded_up(share: float, told: str) -> None:
    assert numbers.bound(share) == told


@pytest.mark.parametrize(
    ("ends", "told"),
    [((0.029, 0.053), "2.9 to 5.3"), ((0.0051, 0.0053), "0.51 to 0.53"), ((0.0, 0.0), "0.00000 to 0.00000")],
)
def test_ends_of_an_interval_are_told_apart(ends: tuple[float, float], told: str) -> None:
    assert numbers.points_between(*ends) == told


@pytest.mark.parametrize(
    ("ends", "told"),
    [((0.3, 0.7), ("0.30", "0.70")), ((0.5102, 0.5149), ("0.510", "0.515")), ((0.5, 0.5001), ("0.5000", "0.5001"))],
)
def test_ends_of_a_range_are_told_apart(ends: tuple[float, float], told: tuple[str, str]) -> None:
    assert numbers.places(*ends) == told


@pytest.mark.parametrize(
    ("p", "told"), [(0.5, "p = 0.50"), (0.0123, "p = 0.012"), (0.0009, "p < 0.001"), (0.0, "p < 0.001")]
)
def test_p_values(p: float, told: str) -> None:
    assert numbers.p_value(p) == told


@pytest.mark.parametrize(
    ("p", "told"),
    [(0.7, "0.70"), (0.9996, "0.9996"), (1.0, "1.00"), (1.0 - 1e-7, "0.9999"), (0.0, "0.00"), (1e-7, "1.0e-07")],
)
def test_places_next_to_the_ends_are_told_from_them(p: float, told: str) -> None:
    assert numbers.prediction(p) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "0"), (1e-9, "0"), (0.00012, "0.00012"), (0.0683, "0.0683"), (1.5776, "1.578"), (12345.6, "12,346")],
)
def test_numbers(value: float, told: str) -> None:
    assert numbers.number(value) == told


def test_intervals_have_the_digits_that_tell_their_ends_apart() -> None:
    assert numbers.interval(None) == ""
    assert numbers.interval((0.0614, 0.0776)) == "0.0614 to 0.0776"
    assert numbers.interval((36.03501, 36.03504)) == "36.03501 to 36.03504"


@pytest.mark.parametrize(
    ("names", "told"), [(["a"], "a"), (["a", "b"], "a and b"), (list("abcde"), "a, b, c and 2 more")]
)
def test_lists(names: list[str], told: str) -> None:
    assert numbers.listed(names) == told


def test_text_from_elsewhere_is_shown_whole_but_for_what_hides() -> None:
    assert cleaned("Größe 漢字 <b>") == "Größe 漢字 <b>"
    assert cleaned("a\0b\N{RIGHT-TO-LEFT OVERRIDE}c\nd") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c d"
    assert cleaned("x" * 300) == "x" * 256 + "…"


def test_names_of_many_classes_are_cut() -> None:
    assert numbers.class_list(["bird", "cat"]) == "bird, cat"
    assert numbers.class_list(["b" * 50, "cat", "dog"], most=2) == f"{'b' * 40}…, cat and 1 more"
