from __future__ import annotations

import base64

import pytest

from backend.store.errors import InvalidCursor
from backend.store.pages import Place, read_cursor, write_cursor


@pytest.mark.parametrize("created", [0.0, 1763742.0, 1795107147.392, 1e-3, -1.5])
@pytest.mark.parametrize("map_id", ["map_0", "map_" + "f" * 30, "map_a-b_c.d"])
def test_a_cursor_gives_its_position_back_exactly(created: float, map_id: str) -> None:
    cursor = write_cursor(Place(created, map_id.encode()))
    assert read_cursor(cursor) == Place(created, map_id.encode())
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "", "x", "AAAA", "====", "a b", "\u00e9", "\0", "W10", "../..", "W1sw",
        write_cursor(Place(1.0, b"map_0")) + "!",
        *map(_encoded, [
            "1", "1.0 ", " map_0", "nan map_0", "inf map_0",
            "1e999 map_0", "x map_0", "null", "[]", "[1.0]", '[1, "map_0"]', '["1.0", "map_0"]', "[1.0, 2]",
            '[1.0, "map_0", 3]', "{}",
            '{"a": 1, "b": 2}', '[NaN, "map_0"]', '[1e999, "map_0"]', '[1.0, "map_0"', "[" * 2000, '[true, "map_0"]',
        ]),
    ],
)  # fmt: skip
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursor) as caught:
        read_cursor(cursor)
    assert caught.value.pointer == "/cursor"
