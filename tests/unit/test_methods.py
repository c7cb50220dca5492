from __future__ import annotations

from typing import Any

import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from tests.refusals import refused_at

P, Y = [0.1, 0.4, 0.6, 0.9] * 5, [0, 0, 1, 1] * 5


@pytest.mark.parametrize(
    ("method", "options", "code", "pointer"),
    [
        ("nope", {}, "unknown-method", "/method"),
        (None, {}, "unknown-method", "/method"),
        ("platt", {"target_smoothing": 1}, "invalid-option", "/target_smoothing"),
        ("platt", {"folds": 5}, "invalid-option", ""),
        ("identity", {"folds": 5}, "invalid-option", ""),
        ("platt", {"seed": -1}, "invalid-option", "/seed"),
        ("platt", {"seed": True}, "invalid-option", "/seed"),
        ("pl", {"folds": 1}, "invalid-option", "/folds"),
        ("pl", {"folds": 21}, "too-few-rows", "/predictions"),
        ("pl3", {"loss": "hinge"}, "invalid-option", "/loss"),
        ("pl3", {"candidates": [0]}, "invalid-option", "/candidates"),
        ("pl3", {"candidates": []}, "invalid-option", "/candidates"),
        ("pl3", {"candidates": 3}, "invalid-option", "/candidates"),
        ("pl3", {"monotone": 1}, "invalid-option", "/monotone"),
    ],
)
def test_a_bad_call_is_refused(method: Any, options: dict[str, Any], code: str, pointer: str) -> None:
    with refused_at(pointer, CalibrationError, code=code):
        calibrant.fit(method, P, Y, **options)


def test_nine_rows_are_too_few_for_ten_folds() -> None:
    with pytest.raises(CalibrationError) as caught:
        calibrant.fit("pl3", P[:9], Y[:9])
    assert caught.value.code == "too-few-rows"
    assert "10" in caught.value.detail
