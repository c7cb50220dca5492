"""What flags say: JSON is as strict as that of the service."""

from __future__ import annotations

import pytest
import typer

from calibrant.cli.options import read_measures


@pytest.mark.parametrize("text", ['{"name": "ece", "name": "ks"}', '{"name": "ece", "x": {"a": 1, "\\u0061": 2}}'])
def test_json_with_a_key_twice_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="a duplicate key"):
        read_measures([text])
