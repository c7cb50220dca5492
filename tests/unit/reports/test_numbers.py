from __future__ import annotations

import pytest

from calibrant.reports import numbers
from calibrant.reports.text import cleaned


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0412, "4.1 points"), (-0.0412, "4.1 points"), (0.01, "1.0 point"), (0.0004, "less than 0.1 points")],
)
def test_shares_are_written_in_percentage_points(share: float, text: str) -> None:
    assert numbers.points(share) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.1 points"), (0.0004, "0.1 points"), (0.0412, "4.2 points"), (0.01, "1.0 point"), (0.3, "30.0 points")],
)
def test_bounds_are_rounded_up(share: float, text: str) -> None:
    assert numbers.bound(share) == text


@pytest.mark.parametrize(
    ("ends", "text"),
    [((0.029, 0.053), "2.9 to 5.3"), ((0.0051, 0.0053), "0.51 to 0.53"), ((0.0, 0.0), "0.00000 to 0.00000")],
)
def test_ends_of_an_interval_are_written_with_enough_digits(ends: tuple[float, float], text: str) -> None:
    assert numbers.points_between(*ends) == text


@pytest.mark.parametrize(
    ("ends", "text"),
    [((0.3, 0.7), ("0.30", "0.70")), ((0.5102, 0.5149), ("0.510", "0.515")), ((0.5, 0.5001), ("0.5000", "0.5001"))],
)
def test_ends_of_a_range_are_written_with_enough_digits(ends: tuple[float, float], text: tuple[str, str]) -> None:
    assert numbers.places(*ends) == text


@pytest.mark.parametrize(
    ("p", "text"), [(0.5, "p = 0.50"), (0.0123, "p = 0.012"), (0.0009, "p < 0.001"), (0.0, "p < 0.001")]
)
def test_p_values_are_written_with_two_digits(p: float, text: str) -> None:
    assert numbers.p_value(p) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.7, "0.70"), (0.9996, "0.9996"), (1.0, "1.00"), (1.0 - 1e-7, "0.9999"), (0.0, "0.00"), (1e-7, "1.0e-07")],
)
def test_predictions_next_to_0_and_1_are_not_rounded_to_them(p: float, text: str) -> None:
    assert numbers.prediction(p) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (1e-9, "0"), (0.00012, "0.00012"), (0.0683, "0.0683"), (1.5776, "1.578"), (12345.6, "12,346")],
)
def test_numbers_are_written_with_their_significant_digits(number: float, text: str) -> None:
    assert numbers.number(number) == text


def test_intervals_have_enough_digits_to_distinguish_their_ends() -> None:
    assert numbers.interval(None) == ""
    assert numbers.interval((0.0614, 0.0776)) == "0.0614 to 0.0776"
    assert numbers.interval((36.03501, 36.03504)) == "36.03501 to 36.03504"


@pytest.mark.parametrize(
    ("names", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (list("abcde"), "a, b, c and 2 more")]
)
def test_long_lists_of_names_are_shortened(names: list[str], text: str) -> None:
    assert numbers.listed(names) == text


def test_text_from_elsewhere_is_shown_whole_but_for_what_hides() -> None:
    assert cleaned("Größe 漢字 <b>") == "Größe 漢字 <b>"
    assert cleaned("a\0b\N{RIGHT-TO-LEFT OVERRIDE}c\nd") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c d"
    assert cleaned("x" * 300) == "x" * 256 + "…"


def test_names_of_many_classes_are_cut() -> None:
    assert numbers.class_list(["bird", "cat"]) == "bird, cat"
    assert numbers.class_list(["b" * 50, "cat", "dog"], most=2) == f"{'b' * 40}…, cat and 1 more"
