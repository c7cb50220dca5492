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
    "evaluate": lambda **forecasts: calibrant.evaluate_distribution(Y, measures=["crps"], **forecasts)["crps"].value,
    "fit": lambda **forecasts: calibrant.fit_distribution("variance-scaling", Y, **forecasts).to_document()[
        "parameters"
    ],
    "apply": lambda **forecasts: MAP.apply(**forecasts).variance.tolist(),
    "compare": lambda **forecasts: (
        calibrant.compare_distributions(Y, {"a": forecasts, "b": {"mean": np.zeros(N), "variance": np.ones(N)}}).means
    ),
    "report": lambda **forecasts: calibrant.report_distribution(Y, **forecasts).document["measures"],
    "in order": lambda **forecasts: calibrant.recalibrate_in_order(
        Y, range(N), range(1, N + 1), half_life=3.0, **forecasts
    ).factors.tolist(),
}


@pytest.mark.parametrize("call", CALLS)
def test_standard_deviations_give_the_result_of_their_squares(call: str) -> None:
    std = np.linspace(0.5, 2.0, N)
    assert CALLS[call](mean=np.zeros(N), std=std) == CALLS[call](mean=np.zeros(N), variance=std * std)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"std": np.ones(N), "variance": np.ones(N)}, "std cannot be combined with variance"),
        ({"std": np.zeros(N)}, "must be above 0"),
        ({"std": np.full(N, 1e200)}, "must have a finite square above 0"),
        ({"std": np.full(N, 1e-160)}, "must have a finite square above 0"),
        ({"std": np.ones((N, 2))}, "must have shape"),
    ],
)
def test_invalid_standard_deviations_are_refused(call: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        CALLS[call](mean=np.zeros(N), **changes)
