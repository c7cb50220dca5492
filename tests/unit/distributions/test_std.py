"""Every function that takes forecasts takes standard deviations in place of variances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError

N = 60
Y = np.random.default_rng(1).normal(size=N)
MAP = calibrant.fit_distribution("variance-scaling", Y, mean=np.zeros(N), variance=np.ones(N))
CALLS: dict[str, Callable[..., Any]] = {
    "evaluate": lambda **given: calibrant.evaluate_distribution(Y, measures=["crps"], **given)["crps"].value,
    "fit": lambda **given: calibrant.fit_distribution("variance-scaling", Y, **given).to_document()["parameters"],
    "apply": lambda **given: MAP.apply(**given).variance.tolist(),
    "compare": lambda **given: (
        calibrant.compare_distributions(Y, {"a": given, "b": {"mean": np.zeros(N), "variance": np.ones(N)}}).means
    ),
    "report": lambda **given: calibrant.report_distribution(Y, **given).document["measures"],
    "in order": lambda **given: calibrant.recalibrate_in_order(
        Y, range(N), range(1, N + 1), half_life=3.0, **given
    ).factors.tolist(),
}


@pytest.mark.parametrize("call", CALLS)
def test_standard_deviations_give_the_result_of_their_squares(call: str) -> None:
    std = np.linspace(0.5, 2.0, N)
    assert CALLS[call](mean=np.zeros(N), std=std) == CALLS[call](mean=np.zeros(N), variance=std * std)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"std": np.ones(N), "variance": np.ones(N)}, "std cannot be combined with variance"),
        ({"std": np.zeros(N)}, "must be above 0"),
        ({"std": np.full(N, 1e200)}, "must have a finite square above 0"),
        ({"std": np.ones((N, 2))}, "must have shape"),
    ],
)
def test_invalid_standard_deviations_are_refused(call: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        CALLS[call](mean=np.zeros(N), **given)
