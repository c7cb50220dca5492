"""Documents with a hostile value in one place: of a wrong type, not finite, huge, nested or ambiguous."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

#: JSON texts. Python's ``json`` would not write all of them.
VALUES = (
    *("NaN", "Infinity", "1e999", "-1e308", "5e-324", "-1", "0", "1.5", "-0.0", "9223372036854775808", "9" * 400),
    *("true", "null", '""', '"NaN"', '"1"', '"\\u0000"', '"\\ud800"', '"\\u202e"', '"=1+1"', '"../.."', '"a@b"'),
    *(f'"{"a" * 100_000}"', "[]", "{}", "[null]", f"[{'1,' * 10_000}1]", '{"a":1,"a":2}', "[" * 40 + "]" * 40),
)

_DAY = {"name": "day", "seconds": 86_400}
#: Definitions of monitors that use every field.
DEFINITIONS: tuple[dict[str, Any], ...] = (
    {
        "name": "x",
        "description": "d",
        "windows": [_DAY, {"name": "rows", "rows": 1000}],
        "measures": ["ece", {"name": "brier"}],
        "interval": 0.9,
        "rules": [
            {"kind": "evidence", "name": "e", "alpha": 0.01, "after": 0},
            {
                "kind": "threshold",
                "name": "t",
                "measure": "ece",
                "window": "day",
                "above": 0.1,
                "looks": 1,
                "clear_below": 0.05,
                "by": "value",
                "least_rows": 100,
                "group": "g",
            },
            {"kind": "drift", "name": "d", "alpha": 0.01},
        ],
        "reference": {"start": "1970-01-01T00:00:00Z", "end": "2001-09-09T01:46:40Z"},
        "recalibration": {
            "policy": "auto",
            "method": "platt",
            "options": {},
            "name": "n",
            "alias": "a",
            "window": "day",
            "after": 0,
            "level": 0.9,
            "least_rows": 100,
            "pause": 0,
            "every": 60,
        },
        "retention": 864_000,
        "reduction": "binary",
        "scale": "probability",
        "bucket": 3600,
        "horizon": 86_400,
        "skew": 300,
        "max_groups": 3,
        "max_ids": 1000,
    },
    {
        "name": "x",
        "windows": [_DAY],
        "recalibration": {
            "policy": "online",
            "name": "n",
            "every": 60,
            "pause": 0,
            "options": {"memories": [1, None], "window": 100, "rows_per_round": 10},
        },
    },
    {"name": "x", "windows": [_DAY], "reduction": "confidence", "n_classes": 3, "reservoir": 1000},
    {
        "name": "x",
        "windows": [_DAY],
        "prediction_kind": "regression",
        "forecast": {"kind": "quantiles", "levels": [0.1, 0.5, 0.9]},
        "measures": ["crps"],
        "rules": [],
        "recalibration": {"policy": "propose", "method": "quantile-recalibration", "options": {"shape": "pl"}},
    },
)
_TIME = "2026-01-31T12:00:00Z"
#: Rows of monitors, requests for challengers, and bodies of the inference protocol, by path.
DOCUMENTS: tuple[tuple[str, Any], ...] = (
    ("/monitors/m/rows", {"rows": [{"id": "a", "prediction": 0.5, "label": 1, "timestamp": _TIME, "group": "g"}]}),
    ("/monitors/r/rows", {"rows": [{"id": "a", "prediction": [0.2, 0.3, 0.5], "label": 1, "group": "g"}]}),
    ("/monitors/q/rows", {"rows": [{"id": "a", "quantiles": [1, 2, 3], "observed": 2.0, "group": "g"}]}),
    ("/monitors/m/labels", {"rows": [{"id": "a", "label": 1, "timestamp": _TIME}]}),
    ("/monitors/m/recalibrate", {"correction": {"class": 0.5}}),
    ("/monitors/m/proposal/accept", {"who": "me"}),
    ("/monitors/m/alarms/evidence/acknowledge", {"who": "me"}),
    (
        "/v2/models/m@champion/infer",
        {
            "id": "i",
            "parameters": {"binary_data_output": False},
            "inputs": [{"name": "predictions", "datatype": "FP64", "shape": [2], "data": [0.1, 0.9], "parameters": {}}],
            "outputs": [{"name": "predictions", "parameters": {"binary_data": False}}],
        },
    ),
)
#: Names of models and versions that refer to another one, to none, or that two programs may read differently.
MODELS = (
    *("m@champion", "m@nothing", "m:1", "m:0", "m:01", "m:%2B1", "m:1@champion", "m@champion:1", "@champion", "m@"),
    *("m%2F..%2Fneighbours", "..%2Fmaps", "neighbours", "neighbours@champion", "m%00", "m%0d%0aX:1", "%ff", "*", "m;1"),
    *("m" * 1000, "m@" + "a" * 1000, "m:" + "9" * 1000),
)
VERSIONS = ("1", "01", "-1", "%D9%A1", "champion", "m@champion", "9" * 400, "%2e%2e", "%00")


def with_values(document: Any) -> Iterator[bytes]:
    """JSON texts of a document in which one part is replaced by each of the values."""
    for place in _places(document):
        yield from (_text(document, place, value).encode() for value in VALUES)


def _places(part: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, below in inner:
        yield from _places(below, (*above, key))


def _text(part: Any, place: Sequence[Any], value: str) -> str:
    if not place:
        return value
    first, *rest = place
    if isinstance(part, list):
        texts = [_text(below, rest, value) if i == first else json.dumps(below) for i, below in enumerate(part)]
        return f"[{','.join(texts)}]"
    pairs = (
        f"{json.dumps(key)}:{_text(below, rest, value) if key == first else json.dumps(below)}"
        for key, below in part.items()
    )
    return f"{{{','.join(pairs)}}}"
