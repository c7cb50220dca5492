"""Tasks with the arguments of scikit-learn and of libraries of forecasts, in every public function."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibrant

_RANDOM = np.random.default_rng(0)
_P, _Y, _N = _RANDOM.uniform(size=400), _RANDOM.integers(0, 2, 400), np.zeros(400)
_OBSERVED, _STD = _RANDOM.normal(size=400), np.ones(400)
_TALLY = calibrant.tally(_P, _Y)
_ANY: Any = calibrant
_NORMAL = {"mean": _N, "std": _STD}
#: A call of each public function with data.
_CALLS: dict[str, Callable[..., Any]] = {
    "evaluate": lambda **options: _ANY.evaluate(_P, _Y, **options),
    "report": lambda **options: _ANY.report(_P, _Y, **options),
    "fit": lambda **options: _ANY.fit("platt", _P, _Y, **options),
    "compare": lambda **options: _ANY.compare(_P, _Y, {}, **options),
    "measure_by_size": lambda **options: _ANY.measure_by_size(_P, _Y, **options),
    "cost_plane": lambda **options: _ANY.cost_plane(_P, _P, _Y, **options),
    "grade_tests": lambda **options: _ANY.grade_tests(_P, _Y, _Y, **options),
    "decision_curve": lambda **options: _ANY.decision_curve(_P, _Y, **options),
    "best_threshold": lambda **options: _ANY.best_threshold(_P, _Y, costs=(1, 3), **options),
    "tally": lambda **options: _ANY.tally(_P, _Y, **options),
    "merge": lambda **options: _ANY.merge([_TALLY], **options),
    "evaluate_tally": lambda **options: _ANY.evaluate_tally(_TALLY, **options),
    "fit_tally": lambda **options: _ANY.fit_tally(_TALLY, "platt", **options),
    "fit_performance_estimator": lambda **options: _ANY.fit_performance_estimator(_P, _Y, **options),
    "estimate_event_shift": lambda **options: _ANY.estimate_event_shift(_TALLY, _TALLY, **options),
    "estimate_label_shift": lambda **options: _ANY.estimate_label_shift(_P, _Y, _P, **options),
    "prediction_drift": lambda **options: _ANY.prediction_drift(_TALLY, [_TALLY], **options),
    "density_ratios": lambda **options: _ANY.density_ratios(_P[:, None], _P[:, None], **options),
    "change_time": lambda **options: _ANY.change_time([_TALLY] * 2, [0, 1, 2], **options),
    "start_online": lambda **options: _ANY.start_online(**options),
    "follow_stream": lambda **options: _ANY.follow_stream(_P, _Y, **options),
    "evaluate_distribution": lambda **options: _ANY.evaluate_distribution(_OBSERVED, **_NORMAL, **options),
    "report_distribution": lambda **options: _ANY.report_distribution(_OBSERVED, **_NORMAL, **options),
    "fit_distribution": lambda **options: _ANY.fit_distribution("variance-platt", _OBSERVED, **_NORMAL, **options),
    "compare_distributions": lambda **options: _ANY.compare_distributions(_OBSERVED, {"a": _NORMAL}, **options),
    "recalibrate_in_order": lambda **options: _ANY.recalibrate_in_order(
        _OBSERVED, range(400), range(1, 401), half_life=9.0, **_NORMAL, **options
    ),
    "CalibrantClassifier": lambda **options: _ANY.CalibrantClassifier(**options),
    "from_predictions": lambda **options: _ANY.CalibrationDisplay.from_predictions(_Y, _P, **options),
}
#: Arguments of scikit-learn -> what an error may say to do.
_FAMILIAR = {
    "random_state": (0, "pass seed|leave it out"),
    "n_jobs": (2, "leave it out: a call runs in one process"),
    "cv": (3, "made out of fold, as by"),
    "pos_label": (1, "labels that are 0 and 1"),
    "sample_weight": (_STD, "pass weights|leave it out|pass it to fit"),
    "n_bins": (10, "an option of a m|the arguments are"),
    "strategy": ("uniform", "an option of a m|the arguments are"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _CALLS)
@pytest.mark.parametrize("argument", _FAMILIAR)
def test_arguments_of_scikit_learn_work_or_say_what_to_do(name: str, argument: str) -> None:
    """Pass random_state, n_jobs, cv, pos_label, sample_weight, n_bins and strategy to every function."""
    argument_of_caller, remedy = _FAMILIAR[argument]
    problem = ""
    try:
        _CALLS[name](**{argument: argument_of_caller})
    except (TypeError, calibrant.CalibrationError) as error:
        problem = str(error)
    assert argument not in problem or re.search(f"no argument {argument}; .*({remedy})", problem)


@pytest.mark.parametrize("name", ["evaluate_distribution", "report_distribution", "fit_distribution"])
def test_forecasts_by_position_and_alpha_get_the_right_call(name: str) -> None:
    """Call ``evaluate_distribution(obs, mu, sd)``, and pass the alpha of an interval."""
    call: Any = getattr(calibrant, name)
    before = ("conformal",) if name == "fit_distribution" else ()
    with pytest.raises(TypeError, match=rf"pass forecasts by name: {name}\(.*observed, mean=..., std=...\), or quant"):
        call(*before, _OBSERVED, _N, _STD)
    with pytest.raises(TypeError, match="no argument alpha; pass level, which is 1 - alpha"):
        call(*before, _OBSERVED, lower=_N - 1.0, upper=_N + 1.0, alpha=0.1)
    with pytest.raises(TypeError, match="no argument sd; pass std or variance"):
        call(*before, _OBSERVED, mean=_N, sd=_STD)
    with pytest.raises(TypeError, match="no argument sigma; pass std or variance"):
        calibrant.recalibrate_in_order(_OBSERVED, range(400), range(1, 401), half_life=9.0, mean=_N, sigma=_STD)


def test_quantiles_and_samples_with_a_row_for_each_level_are_to_be_transposed() -> None:
    """Pass quantiles (levels, n) and samples (S, n), as other libraries and model ensembles return them."""
    levels = [0.1, 0.5, 0.9]
    table = np.sort(_RANDOM.normal(size=(3, 400)), axis=0)
    with pytest.raises(calibrant.CalibrationError, match=r"has 3 numbers, .* 400 columns; .* pass quantiles.T"):
        calibrant.evaluate_distribution(_OBSERVED, quantiles=table, levels=levels)
    with pytest.raises(calibrant.CalibrationError, match=r"pass np.transpose\(quantiles\)"):
        calibrant.evaluate_distribution(_OBSERVED, quantiles=table.tolist(), levels=levels)
    with pytest.raises(calibrant.CalibrationError, match=r"has 400 rows, .* have 3; .* pass np.transpose\(samples\)"):
        calibrant.evaluate_distribution(_OBSERVED, samples=table)
    assert calibrant.evaluate_distribution(_OBSERVED, quantiles=table.T, levels=levels).n == 400
