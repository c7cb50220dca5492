from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import InvalidDocument
from calibrant.distributions.maps.combined import applied, read_function
from calibrant.distributions.maps.distribution_map import DistributionMap, load_distribution, read_distribution_map
from calibrant.distributions.maps.scales import ForecastScale
from calibrant.distributions.maps.tables import normal_of
from calibrant.io.errors import TooLarge
from calibrant.kinds.distributions import check_size, try_map
from tests.refusals import refused_at

_SHIFT: dict[str, Any] = {
    "family": "location-scale",
    "parameters": {"shift": 1.5e308, "factor": 1.0, "scale": "identity"},
}
_SAME: dict[str, Any] = {"family": "location-scale", "parameters": {"shift": 0.5, "factor": 1.0, "scale": "identity"}}
_TOO_FEW: dict[str, Any] = {
    "family": "conformal",
    "parameters": {"levels": [0.1, 0.9], "offsets": [None], "keep": [1.0], "scale": "identity", "ties": "keep"},
}


def _of_forecasts(kind: str, function: dict[str, Any]) -> DistributionMap:
    levels = None if kind == "samples" else [0.1, 0.9]
    about = {"format": 1, "prediction_kind": "regression", "method": "averaged", "support": [None, None]}
    return read_distribution_map({**about, "kind": kind, "levels": levels, **function})


@pytest.mark.parametrize("kind", ["quantiles", "interval", "samples"])
def test_a_map_of_forecasts_that_overflows_is_refused_and_infinite_offsets_are_not(kind: str) -> None:
    twice: dict[str, Any] = {"family": "chain", "parameters": {"members": [_SHIFT, _SHIFT]}}
    by_group = {"family": "by-group", "parameters": {"members": {"a": twice}, "other": _SAME}}
    for function in (twice, by_group):
        with refused_at("/parameters", InvalidDocument):
            load_distribution(_of_forecasts(kind, function).to_document())
    infinite = {"family": "average", "parameters": {"members": [_TOO_FEW, _TOO_FEW], "shares": [0.5, 0.5]}}
    for function in (_SAME, _TOO_FEW, infinite):
        load_distribution(_of_forecasts(kind, function).to_document())


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e9])
def test_every_fitted_map_is_loaded_again(size: float) -> None:
    random = np.random.default_rng(0)
    mean = size * random.gamma(2.0, 1.0, 200)
    y, spread = mean + 2.0 * size * random.exponential(1.0, 200), size * 0.01
    table = mean[:, None] + spread * np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    kinds: list[dict[str, Any]] = [
        {"mean": mean, "variance": np.full(200, spread**2)},
        {"quantiles": table, "levels": [0.1, 0.3, 0.5, 0.7, 0.9]},
        {"samples": table},
        {"lower": table[:, 0], "upper": table[:, -1], "level": 0.8},
    ]
    n_loaded = 0
    for method in calibrant.DISTRIBUTION_METHODS.values():
        for forecast in kinds:
            for scale in get_args(ForecastScale):
                try:
                    fitted = calibrant.fit_distribution(method.name, y, scale=scale, **forecast)
                except calibrant.CalibrationError:  # methods of other kinds or without a scale
                    continue
                assert load_distribution(fitted.to_document()) == fitted
                n_loaded += 1
    assert n_loaded > 20


def test_each_row_gets_the_function_of_its_group() -> None:
    members = {name: {**_SAME, "parameters": {**_SAME["parameters"], "shift": i}} for i, name in enumerate("abc")}
    function = read_function({"family": "by-group", "parameters": {"members": members, "other": _SAME}})
    forecasts = normal_of(np.arange(6.0), np.ones(6))
    assert applied(function, forecasts, [*"bcxab", ""]).mean.tolist() == [1.0, 3.0, 2.5, 3.0, 5.0, 5.5]


@pytest.mark.parametrize("family", ["average", "chain"])
def test_a_map_applies_a_bounded_number_of_functions_to_a_row(family: str) -> None:
    def document(members: list[dict[str, Any]]) -> dict[str, Any]:
        shares = {"shares": [1.0 / len(members)] * len(members)} if family == "average" else {}
        return {"family": family, "parameters": {"members": members, **shares}}

    by_group = {"family": "by-group", "parameters": {"members": dict.fromkeys("abc", _SAME), "other": _SAME}}
    read_function(document([by_group] * 100))
    for members in ([_SAME] * 101, [document([_SAME] * 51)] * 2):
        with refused_at("/parameters/members", InvalidDocument):
            read_function(document(members))


@pytest.mark.slow
def test_a_map_makes_a_bounded_number_of_bytes() -> None:
    levels = np.linspace(0.0, 1.0, 1002)[1:-1].tolist()
    many = {"knots": [-3.0, 3.0], "heights": [0.1, 0.9], "levels": levels, "scale": "identity", "tails": "normal"}
    wide = {"family": "level-map", "parameters": many}
    fitted = _of_forecasts("samples", {"family": "chain", "parameters": {"members": [wide, {**wide}]}})
    assert check_size(fitted, 100, 800_000) == 800_000
    with pytest.raises(TooLarge):
        check_size(fitted, 101, 800_000)
    by_group = {"members": {str(i): _SAME for i in range(5_000)}, "other": _SAME}
    several = _of_forecasts("samples", {"family": "by-group", "parameters": by_group})
    try_map(several)
    last = {"family": "by-group", "parameters": by_group}
    several = _of_forecasts("samples", {"family": "chain", "parameters": {"members": [wide, last]}})
    with pytest.raises(InvalidDocument, match="too many groups and levels"):
        try_map(several)
