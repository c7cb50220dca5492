"""Paths below the path of a proxy."""

from __future__ import annotations

import pytest

from service.root_path import without_root


@pytest.mark.parametrize(
    ("path", "root", "own"),
    [
        ("/models/maps", "/models", "/maps"),
        ("/models", "/models", "/"),
        ("/models/", "/models", "/"),
        ("/modelsmaps", "/models", "/modelsmaps"),
        ("/maps", "/models", "/maps"),
        ("/models/models", "/models", "/models"),
        ("/maps", "", "/maps"),
    ],
)
def test_the_path_of_the_proxy_is_removed_if_it_is_there(path: str, root: str, own: str) -> None:
    assert without_root(path, root) == own
