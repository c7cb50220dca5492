"""On the page rows are rows: no pointer of the wire's contract is shown."""

from __future__ import annotations

import numpy as np
import pytest

from backend.store.errors import problem_of
from calibrant.core.batch import read_predictions
from calibrant.core.errors import OutOfRange
from schemas.problems import Problem
from service.web.text import explanation
from service.web.upload import FieldMessage, message_of_problem


@pytest.fixture
def problem() -> Problem:
    """That of a thousand rows that do not sum to 1."""
    with pytest.raises(OutOfRange) as refused:
        read_predictions(np.full((1000, 2), 0.3))
    return problem_of(refused.value)


def test_the_form_and_the_page_count_rows(problem: Problem) -> None:
    words = "predictions: 1,000 of 1,000 rows do not sum to 1, the first is row 1"
    assert message_of_problem(problem) == FieldMessage("predictions", words)
    assert explanation(problem) == f"P{words[1:]}."
