from __future__ import annotations

import pytest

from service.headers import Preferences, read_prefer


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], Preferences()),
        ([""], Preferences()),
        (["respond-async"], Preferences(respond_async=True)),
        (["Respond-Async"], Preferences(respond_async=True)),
        (["respond-async="], Preferences()),
        (["respond-async=1"], Preferences()),
        (['respond-async=""'], Preferences(respond_async=True)),
        (["wait=10"], Preferences(wait=10)),
        (["WAIT = 10"], Preferences(wait=10)),
        (['wait="10"'], Preferences(wait=10)),
        (["wait=0"], Preferences(wait=0)),
        (["wait=-1"], Preferences()),
        (["wait=1.5"], Preferences()),
        (["wait=²"], Preferences()),
        (["wait=9999999999"], Preferences()),
        (["wait"], Preferences()),
        (["wait=1, wait=2"], Preferences(wait=1)),
        (["wait=1", "wait=2"], Preferences(wait=1)),
        (["respond-async, wait=10"], Preferences(respond_async=True, wait=10)),
        (["respond-async", "wait=10"], Preferences(respond_async=True, wait=10)),
        (["wait=10; foo=bar; baz, respond-async"], Preferences(respond_async=True, wait=10)),
        (['handling=lenient, x="a, wait=3", wait=5'], Preferences(wait=5)),
        ([",, ,wait=5,"], Preferences(wait=5)),
        (["return=minimal"], Preferences()),
        (["(, wait=5"], Preferences()),
        (["a" * 2000], Preferences()),
        (['wait="' + "\\" * 900], Preferences()),
    ],
)
def test_preferences_are_read_as_rfc_7240_writes_them(headers: list[str], expected: Preferences) -> None:
    assert read_prefer(headers) == expected
