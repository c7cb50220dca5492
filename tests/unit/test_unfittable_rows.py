"""Rows and options that a method cannot be fitted with: each is refused with its code and its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from tests.refusals import refused_at

P, Y = np.linspace(0.02, 0.98, 20), np.arange(20) % 2
THIRDS = np.full((10, 3), 1 / 3)
#: Method, predictions, labels and options.
CASES: dict[str, list[tuple[str, Any, Any, dict[str, Any]]]] = {
    "one-class /labels": [
        *((method, P, np.ones(20, int), {}) for method in ("platt", "isotonic", "pl", "pl3", "averaged", "pl-de")),
        ("spline", P, np.zeros(20, int), {}),
        ("venn-abers", np.linspace(0.0, 1.0, 300), np.ones(300, int), {}),
        ("averaged", THIRDS, [0] * 10, {}),
    ],
    "one-prediction /predictions": [("pl-de", np.full(8, 0.3), Y[:8], {})],
    "too-few-rows /predictions": [
        ("averaged", P[:9], Y[:9], {}),
        ("averaged", THIRDS[:4], [0, 1, 2, 0], {}),
        ("pl-de", P[:8], Y[:8], {}),
        ("pl-de", P[:8], Y[:8], {"segments": 8}),
        ("pl-de", P[:8], Y[:8], {"segments": 4, "degree": 2}),
        ("spline", P[:5], Y[:5], {}),
        ("spline", P[:9], Y[:9], {"knots": None}),
    ],
    "invalid-option /folds": [("averaged", P, Y, {"folds": 1})],
    "invalid-option /keep_order": [("averaged", THIRDS, [0, 1] * 5, {"keep_order": "yes"})],
    "invalid-option /degree": [("pl-de", P[:8], Y[:8], {"degree": 3})],
    "invalid-option /knots": [("spline", P, Y, {"knots": 3, "boundary": "cubic"}), ("spline", P, Y, {"knots": 2})],
    "invalid-option /boundary": [("spline", P, Y, {"boundary": "clamped"})],
}


@pytest.mark.parametrize(
    ("refusal", "case"),
    [
        pytest.param(refusal, case, id=f"{case[0]} {case[3] or ''} {refusal}")
        for refusal, cases in CASES.items()
        for case in cases
    ],
)
def test_unfittable_rows_and_options_are_refused(refusal: str, case: tuple[str, Any, Any, dict[str, Any]]) -> None:
    code, pointer = refusal.split()
    method, predictions, labels, options = case
    with refused_at(pointer, CalibrationError, code=code):
        calibrant.fit(method, predictions, labels, **options)
