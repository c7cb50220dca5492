"""Methods of the clients whose steps are written by hand send every argument, and every field of their call."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import orjson
import pytest
from pydantic import BaseModel

import calibrant.client.calls as steps
from calibrant.client.packing import NPY, NPZ, unpack
from calibrant.client.retries import Patience
from calibrant.client.steps import JSON, Request
from schemas.maps import CalibrateDistributionBody, InOrderBody
from service.calls import Call
from service.route_table import RouteTable
from tests.unit.client.test_proposals import REVIEWED

P, Y = [0.2, 0.8, 0.3], [0, 1, 1]
DOCUMENT = {"method": "platt"}
NORMAL = {"mean": [0.0, 1.0, 2.0], "variance": [1.0, 1.0, 4.0]}
IDS, TIMES, GROUPS = ["a", "b", "c"], [1e9, 1e9 + 1, 1e9 + 2], ["x", "y", "x"]


class Arguments(NamedTuple):
    """The arguments without which a method cannot be called, and a value of each other one that is not its default.

    ``others`` may have another form of a needed one, such as a batch in place of predictions.
    """

    needed: Mapping[str, Any]
    others: Mapping[str, Any]


_SENDING = {"form": "json", "piece": 2, "key": "a-key", "timestamps": TIMES}
ARGUMENTS: Mapping[str, Arguments] = {
    "accept_proposal": Arguments({"monitor": "inbox"}, {"if_match": REVIEWED}),
    "alias": Arguments({"name": "spam", "alias": "champion", "version": 1}, {"new": True}),
    "bounds": Arguments({"map": "spam", "predictions": P}, {"predictions": "batch_1", "scale": "logit"}),
    "calibrate": Arguments(
        {"map": "spam", "predictions": P}, {"predictions": "batch_1", "scale": "logit", "features": {"age": Y}}
    ),
    "calibrate_distribution": Arguments({"map": "spam", **NORMAL}, {"batch": "batch_1", "seed": 3, "by": GROUPS}),
    "calibrate_sets": Arguments(
        {"map": "spam", "predictions": P},
        {"predictions": "batch_1", "scale": "logit", "groups": GROUPS, "seed": 3, "alpha": 0.2},
    ),
    "evaluate_sets": Arguments(
        {"sets": [[0], [1], [0, 1]], "labels": Y, "class_names": [0, 1]},
        {"alpha": 0.2, "groups": GROUPS, "weights": [1, 2, 3], "weights_kind": "frequency", "interval": 0.9},
    ),
    "events": Arguments({"job": "job_1"}, {"after": "1-0"}),
    "export_map": Arguments({"map": "spam"}, {}),
    "import_map": Arguments(
        {"document": DOCUMENT}, {"name": "spam", "allow_shape_change": True, "description": "a map", "tags": {"a": "b"}}
    ),
    "monitor": Arguments(
        {"name": "inbox"}, {"windows": ["day"], "groups": 7, "threshold": 0.3, "reference": "batch_1"}
    ),
    "recalibrate_in_order": Arguments(
        {"observed": [9.0, 9.0, 9.0], "made": [0, 2, 4], "known": [1, 3, 5], "half_life": 1.0, **NORMAL},
        {"horizon": [1, 2, 1], "by": GROUPS, "scale": "log1p", "support": (0, None)}
        | dict.fromkeys(("shift", "widen", "narrow"), 0.1),
    ),
    "reject_proposal": Arguments({"monitor": "inbox"}, {"if_match": REVIEWED}),
    "send_labels": Arguments({"monitor": "inbox", "ids": IDS, "labels": Y}, _SENDING),
    "send_predictions": Arguments({"monitor": "inbox", "ids": IDS, "predictions": P}, _SENDING | {"groups": GROUPS}),
    "send_rows": Arguments(
        {"monitor": "inbox", "predictions": P, "labels": Y}, _SENDING | {"ids": IDS, "groups": GROUPS}
    ),
    "wait": Arguments({"job": "job_1"}, {}),
}  # fmt: skip
#: Arguments that no request has, and why.
NOT_SENT = {
    "calibrate": {"return_map": "chooses what is returned"},
    "calibrate_distribution": {"return_map": "chooses what is returned"},
    "wait": {"timeout": "ends the waiting here", "progress": "is called here"},
}
#: Arguments of rows that several methods share; `with_forecast_rows` sends them.
SHARED = {"std", "quantiles", "levels", "samples", "lower", "upper", "level"}
_OF_SETS = dict.fromkeys(("groups", "seed", "alpha"), "is for maps to prediction sets")
_FORMS = dict.fromkeys(SHARED, "another form of forecasts")
_BOUNDS = {"bounds": "see the method bounds"}
#: Fields of its call that a method does not send, and why.
NO_ARGUMENT: Mapping[str, Mapping[str, str]] = {
    "bounds": {**_OF_SETS, "features": "a Venn-Abers map has none"},
    "calibrate": {**_OF_SETS, **_BOUNDS},
    "calibrate_sets": {**_BOUNDS, "features": "a map to prediction sets has none"},
    "calibrate_distribution": _FORMS,
    "recalibrate_in_order": _FORMS,
    "evaluate_sets": {
        "sets": "are sent as predictions of 0 and 1",
        **dict.fromkeys(("clusters", "features"), "are refused"),
    },
}
#: Which of the bodies of its call a method sends.
BODIES: Mapping[str, type[BaseModel]] = {
    "calibrate_distribution": CalibrateDistributionBody,
    "recalibrate_in_order": InOrderBody,
}
ROWS_OF_MONITORS = re.compile(r"POST /monitors/\{name\}/(rows|predictions|labels)")


def _methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for found in pkgutil.iter_modules(steps.__path__, f"{steps.__name__}."):
        module = importlib.import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_own = function.__module__ == module.__name__ and not name.startswith("_")
            if is_own and "\n----" in (inspect.getdoc(function) or ""):
                yield name, function


METHODS = dict(_methods())


def _parameters(function: Callable[..., Any]) -> set[str]:
    """The arguments of a method; those of `**about` by their names."""
    names = [*inspect.signature(function).parameters.values()][1:]
    plain = {parameter.name for parameter in names if parameter.kind is not parameter.VAR_KEYWORD}
    unpacked = {parameter.name for parameter in names} - plain
    kinds = [re.sub(r"Unpack\[(\w+)\]", r"\1", function.__annotations__[name]) for name in unpacked]
    return plain.union(*(vars(inspect.getmodule(function))[kind].__annotations__ for kind in kinds))


def _sent(name: str, arguments: Mapping[str, Any]) -> Request:
    """The first request of a method, without a random key."""
    request: Request = next(METHODS[name](Patience(), **arguments)).request
    headers = {key: value for key, value in request.headers.items() if not re.fullmatch("[0-9a-f]{32}", value)}
    return Request(request.method, request.path, request.query, headers, request.content)


@pytest.mark.parametrize("name", METHODS)
def test_every_argument_of_a_method_by_hand_changes_its_request(name: str) -> None:
    needed, others = ARGUMENTS[name]
    reasons = NOT_SENT.get(name, {})
    assert _parameters(METHODS[name]) - SHARED == {*needed, *others, *reasons} - SHARED
    plain = _sent(name, needed)
    for argument, value in others.items():
        assert _sent(name, {**needed, argument: value}) != plain, argument
    for argument, value in needed.items():
        another = _another(value)
        if another is not None:
            assert _sent(name, {**needed, argument: another}) != plain, argument


def _another(value: Any) -> Any:
    """Another value of the same type; None for other types."""
    if isinstance(value, str):
        return f"{value}2"
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list) and isinstance(value[0], float):
        return [x / 2 for x in value]
    return None


@cache
def _table() -> list[tuple[re.Pattern[str], Call]]:
    table = RouteTable([])
    table.load_all()
    return [(re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(call.path))), call) for call in table.calls]


def _call_of(request: Request) -> Call:
    (call,) = [call for path, call in _table() if call.method == request.method and path.fullmatch(request.path)][:1]
    return call


def _fields(request: Request) -> set[str]:
    """The names of the fields that a request has, in its query or in its body."""
    names = set(request.query)
    media = request.headers.get("Content-Type")
    if media == NPZ:
        names |= {name.partition("/")[0] for name in unpack(request.content or b"")}
    elif media == NPY:
        names.add("predictions")
    elif request.content is not None:
        assert media == JSON
        names |= orjson.loads(request.content).keys()
    return names


@pytest.mark.parametrize("name", METHODS)
def test_every_field_of_its_call_is_an_argument_of_a_method_by_hand(name: str) -> None:
    needed, others = ARGUMENTS[name]
    sent: set[str] = set()
    for arguments in (needed, {**needed, **others}, *({**needed, one: value} for one, value in others.items())):
        sent |= _fields(_sent(name, arguments))
    call = _call_of(_sent(name, needed))
    if ROWS_OF_MONITORS.fullmatch(str(call)):
        return  # a body of rows with one name for each column
    body: list[type[BaseModel]] = [] if call.body is None else [BODIES.get(name, call.body.models[0])]
    models = body if call.query is None else [*body, call.query]
    known = {field for model in models for field in model.model_fields} - {"prediction_kind"}
    assert known - sent == NO_ARGUMENT.get(name, {}).keys()
