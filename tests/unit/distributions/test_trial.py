from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backend import forecasts
from calibrant.distributions.maps.combined import applied, read_function
from calibrant.distributions.maps.distribution_map import DistributionMap, load_distribution
from calibrant.distributions.maps.tables import normal_of
from calibrant.errors import InvalidDocument
from calibrant.io.errors import TooLarge

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
    return load_distribution({**about, "kind": kind, "levels": levels, **function})


@pytest.mark.parametrize("kind", ["quantiles", "interval", "samples"])
def test_a_map_of_forecasts_that_overflows_is_refused_and_infinite_offsets_are_not(kind: str) -> None:
    twice: dict[str, Any] = {"family": "chain", "parameters": {"members": [_SHIFT, _SHIFT]}}
    by_group = {"family": "by-group", "parameters": {"members": {"a": twice}, "other": _SAME}}
    for function in (twice, by_group):
        with pytest.raises(InvalidDocument) as refused:
            forecasts.try_map(_of_forecasts(kind, function))
        assert refused.value.offences[0].pointer == "/parameters"
    infinite = {"family": "average", "parameters": {"members": [_TOO_FEW, _TOO_FEW], "shares": [0.5, 0.5]}}
    for function in (_SAME, _TOO_FEW, infinite):
        forecasts.try_map(_of_forecasts(kind, function))


def test_each_row_gets_the_function_of_its_group() -> None:
    members = {name: {**_SAME, "parameters": {**_SAME["parameters"], "shift": i}} for i, name in enumerate("abc")}
    function = read_function({"family": "by-group", "parameters": {"members": members, "other": _SAME}})
    given = normal_of(np.arange(6.0), np.ones(6))
    assert applied(function, given, [*"bcxab", ""]).mean.tolist() == [1.0, 3.0, 2.5, 3.0, 5.0, 5.5]


@pytest.mark.parametrize("family", ["average", "chain"])
def test_a_map_applies_a_bounded_number_of_functions_to_a_row(family: str) -> None:
    def document(members: list[dict[str, Any]]) -> dict[str, Any]:
        shares = {"shares": [1.0 / len(members)] * len(members)} if family == "average" else {}
        return {"family": family, "parameters": {"members": members, **shares}}

    by_group = {"family": "by-group", "parameters": {"members": dict.fromkeys("abc", _SAME), "other": _SAME}}
    read_function(document([by_group] * 100))
    for members in ([_SAME] * 101, [document([_SAME] * 51)] * 2):
        with pytest.raises(InvalidDocument) as refused:
            read_function(document(members))
        assert refused.value.offences[0].pointer == "/parameters/members"


def test_a_map_makes_a_bounded_number_of_bytes() -> None:
    levels = np.linspace(0.0, 1.0, 1002)[1:-1].tolist()
    many = {"knots": [-3.0, 3.0], "heights": [0.1, 0.9], "levels": levels, "scale": "identity", "tails": "normal"}
    wide = {"family": "level-map", "parameters": many}
    fitted = _of_forecasts("samples", {"family": "chain", "parameters": {"members": [wide, {**wide}]}})
    assert forecasts.check_size(fitted, 100, 800_000) == 800_000
    with pytest.raises(TooLarge):
        forecasts.check_size(fitted, 101, 800_000)
    by_group = {"members": {str(i): _SAME for i in range(5_000)}, "other": _SAME}
    several = _of_forecasts("samples", {"family": "by-group", "parameters": by_group})
    forecasts.try_map(several)
    last = {"family": "by-group", "parameters": by_group}
    several = _of_forecasts("samples", {"family": "chain", "parameters": {"members": [wide, last]}})
    with pytest.raises(InvalidDocument, match="too many groups and levels"):
        forecasts.try_map(several)
