from __future__ import annotations

import pytest

from service.errors import NotAcceptable
from service.headers import choose

OFFERED = ["application/json", "application/x-npz", "text/csv"]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("text/*", "text/csv"),
        ("application/x-npz", "application/x-npz"),
        ("Application/X-NPZ", "application/x-npz"),
        ("application/x-npz, */*", "application/json"),
        ("application/x-npz, */*;q=0.1", "application/x-npz"),
        ("application/json;q=0.5, application/x-npz;q=0.8", "application/x-npz"),
        ("application/json;q=0.5, application/x-npz;q=0.5", "application/json"),
        ("application/json;q=0, */*", "application/x-npz"),
        ("application/*;q=0, */*;q=0.1", "text/csv"),
        ("application/json ; Q=0.001 , text/csv ; q=0.002", "text/csv"),
        ("text/html, application/json;q=0.9", "application/json"),
        ("application/json;profile=x;q=0.3, text/csv;q=0.4", "text/csv"),
        ("application/json;q=2, text/csv", "text/csv"),
        ("application/json;q=x, text/csv;q=0.1", "text/csv"),
        (",,application/x-npz,", "application/x-npz"),
    ],
)
def test_the_most_preferred_type_is_chosen(accept: str, expected: str) -> None:
    assert choose(accept, OFFERED) == expected


@pytest.mark.parametrize("accept", ["text/html", "image/*", "*/*;q=0", "application/json;q=0", "json", "*", ";q=1"])
def test_a_type_that_is_not_offered_is_not_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="application/x-npz"):
        choose(accept, OFFERED)
