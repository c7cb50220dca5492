"""Every answer of the published code that is in tests/golden, to its tolerance."""

from __future__ import annotations

import pytest

from benchmarks.agreement import Answer, answers


@pytest.mark.parametrize("answer", answers(), ids=lambda a: f"{a.producer}: {a.what} ({a.input}, {a.reduction})")
def test_every_measure_agrees_with_its_reference(answer: Answer) -> None:
    assert answer.ours() == pytest.approx(answer.value, abs=answer.tolerance, rel=0.0)
    assert (answer.tolerance == 1e-9) == (answer.note is None)
