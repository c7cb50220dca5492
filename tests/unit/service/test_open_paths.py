from __future__ import annotations

import pytest

from service.access import is_open


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", True),
        ("/docs", True),
        ("/openapi.json", True),
        ("/problems", True),
        ("/problems/not-found", True),
        ("/health/live", True),
        ("/assets/page.css", True),
        ("/ui/sign-in", True),
        ("/ui/maps", False),
        ("/ui/", False),
        ("/measures", False),
        ("/batches/x", False),
        ("/docs/../maps/x", False),
        ("/problemsx", False),
        ("//", False),
        ("", False),
    ],
)
def test_only_pages_and_probes_need_no_key(path: str, expected: bool) -> None:
    assert is_open(path) is expected
