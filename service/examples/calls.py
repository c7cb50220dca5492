"""Examples of calls that build on each other, and the order of all examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from service.calls import LABELS, PREDICTIONS, Call
from service.route_table import RouteTable

# --- The structure of an example

_NONE: Mapping[str, str] = MappingProxyType({})

#: Ids in the examples of the OpenAPI document; real requests replace them.
IDS: Mapping[str, str] = MappingProxyType(
    {
        kind: f"{kind}_{digits * 3}"
        for kind, digits in (
            ("batch", "5e0b7d91ac"),
            ("map", "c49f02e6b8"),
            ("job", "7a31d8f504"),
            ("monitor", "e2860b4f93"),
            ("event", "1fd5c07a62"),
            ("delivery", "b93e4a718c"),
            ("proposal", "4c07d6b1e9"),
            ("audit", "d07f31b9c2"),
        )
    }
)
BATCH, MAP, JOB, DELIVERY = IDS["batch"], IDS["map"], IDS["job"], IDS["delivery"]


class Example(NamedTuple):
    """One request: the call as in the OpenAPI document, what to send, and the expected status."""

    call: str
    name: str
    summary: str
    body: Mapping[str, Any] | bytes | None = None
    status: int = 200
    path: Mapping[str, str] = _NONE
    query: Mapping[str, str] = _NONE
    headers: Mapping[str, str] = _NONE


# --- Examples of a monitor with a hook, and of its deliveries; the host is reserved for documentation (RFC 2606)

#: The bytes decode to "an example's, not for you".
_SECRET = "whsec_YW4gZXhhbXBsZSdzLCBub3QgZm9yIHlvdQ=="  # noqa: S105 - it is public
_WITH_HOOK = {"name": "fraud-live"}
_ONE = _WITH_HOOK | {"delivery": DELIVERY}
#: The webhook host that the example service allows.
HOST = "alerts.example"

DELIVERIES: tuple[Example, ...] = (
    Example(
        "POST /monitors",
        "with-a-hook",
        "A monitor that sends its alarms to a webhook",
        _WITH_HOOK | {"hooks": [{"name": "pager", "url": f"https://{HOST}/calibrant", "secret": _SECRET}]},
        201,
    ),
    Example(
        "POST /monitors/{name}/hooks/{hook}/test",
        "pager",
        "A test of a hook",
        None,
        202,
        path=_WITH_HOOK | {"hook": "pager"},
    ),
    Example("GET /monitors/{name}/deliveries", "newest", "The newest delivery", path=_WITH_HOOK, query={"limit": "1"}),
    Example("GET /monitors/{name}/deliveries/{delivery}", "test", "A delivery", path=_ONE),
    Example("POST /monitors/{name}/deliveries/{delivery}/resend", "test", "Send it again", None, 202, path=_ONE),
    Example("DELETE /monitors/{name}", "with-a-hook", "Delete a monitor", status=204, path=_WITH_HOOK),
)


# --- Examples of calls about alarms: of one monitor without alarms, and two with one

_WITH_ALARM = {"name": "fraud-quiet"}
#: The proposal of one monitor is accepted, that of the other rejected. Both receive miscalibrated rows.
_DRIFTED, _DECLINED = {"name": "fraud-drifted"}, {"name": "fraud-declined"}
DRIFTED = frozenset({_DRIFTED["name"], _DECLINED["name"]})
#: Buckets of a day, so that all rows are in one bucket.
_PROPOSING = {"bucket": 86_400, "recalibration": {"policy": "propose"}}
_DARK = {"theme": "dark", "width": "400"}

ALARMS: tuple[Example, ...] = (
    Example("POST /monitors", "without-rules", "A monitor without rules", _WITH_ALARM | {"rules": []}, 201),
    Example("GET /monitors/{name}/alarms", "none", "No events yet", path=_WITH_ALARM),
    Example("GET /monitors/{name}/audit", "none", "No actions yet", path=_WITH_ALARM),
    Example(
        "POST /monitors/{name}/alarms/{rule}/acknowledge",
        "no-rule",
        "An unknown rule",
        status=404,
        path=_WITH_ALARM | {"rule": "evidence"},
    ),
    Example("GET /monitors/{name}/proposal", "none", "No pending proposal", status=404, path=_WITH_ALARM),
    Example("POST /monitors/{name}/proposal/accept", "none", "No pending proposal", status=404, path=_WITH_ALARM),
    Example("POST /monitors/{name}/proposal/reject", "none", "No pending proposal", status=404, path=_WITH_ALARM),
    Example("POST /monitors/{name}/recalibrate", "now", "Request a challenger", status=202, path=_WITH_ALARM),
    Example("DELETE /monitors/{name}", "without-rules", "Delete a monitor", status=204, path=_WITH_ALARM),
    Example("POST /monitors", "proposing", "A monitor that proposes a map on an alarm", _DRIFTED | _PROPOSING, 201),
    Example("GET /monitors/{name}/alarms", "raised", "An evidence alarm and a challenger", path=_DRIFTED),
    Example("GET /monitors/{name}/audit", "proposed", "The actions after the alarm", path=_DRIFTED),
    Example("GET /monitors/{name}/series.svg", "day", "Values over time with the alarm", path=_DRIFTED),
    Example("GET /monitors/{name}/diagram.svg", "day", "The first window", path=_DRIFTED),
    Example("GET /monitors/{name}/diagram.png", "dark", "Dark theme", path=_DRIFTED, query=_DARK),
    Example("GET /monitors/{name}/proposal", "waiting", "A pending challenger", path=_DRIFTED),
    Example(
        "POST /monitors/{name}/alarms/{rule}/acknowledge",
        "evidence",
        "An acknowledged alarm",
        path=_DRIFTED | {"rule": "evidence"},
    ),
    Example("POST /monitors/{name}/proposal/accept", "accepted", "The alias moves to the challenger", path=_DRIFTED),
    Example("DELETE /monitors/{name}", "proposing", "Delete a monitor", status=204, path=_DRIFTED),
    Example("POST /monitors", "declining", "Another monitor", _DECLINED | _PROPOSING, 201),
    Example("POST /monitors/{name}/proposal/reject", "rejected", "The map stays as it is", path=_DECLINED),
    Example("DELETE /monitors/{name}", "declining", "Delete it", status=204, path=_DECLINED),
)


# --- Examples of ingestion

_WATCHED = {"name": "fraud-detector"}
_FILES_OF_ROWS: dict[str, Any] = {
    "source": "scores",
    "path": "2026-11/*.csv",
    "columns": {"ids": "order", "predictions": "score", "labels": "outcome", "groups": "country"},
}
_KSERVE = {
    "ce-specversion": "1.0",
    "ce-id": "9f1c",
    "ce-source": "http://localhost:9081/",
    "ce-type": "org.kubeflow.serving.inference.response",
}

INGESTION: tuple[Example, ...] = (
    Example("POST /monitors", "one-column", "A monitor with default settings", _WATCHED, 201),
    Example(
        "POST /monitors/{name}/rows",
        "labelled",
        "Two accepted rows and a refused one",
        {
            "rows": [
                {"id": "order-1", "prediction": 0.12, "label": 0, "group": "web"},
                {"id": "order-2", "prediction": 0.81, "label": 1, "group": "app"},
                {"id": "order-3", "prediction": 1.7, "label": 1},
            ]
        },
        path=_WATCHED,
    ),
    Example(
        "POST /monitors/{name}/predictions",
        "now",
        "Predictions whose labels follow later",
        {"rows": [{"id": "order-4", "prediction": 0.35}, {"id": "order-5", "prediction": 0.66, "group": "app"}]},
        path=_WATCHED,
    ),
    Example(
        "POST /monitors/{name}/labels",
        "later",
        "A joined label, a waiting one and a contradicting one",
        {"rows": [{"id": "order-4", "label": 0}, {"id": "order-6", "label": 1}, {"id": "order-2", "label": 0}]},
        path=_WATCHED,
    ),
    Example(
        "POST /monitors/{name}/events",
        "kserve",
        "An event of KServe's logger",
        {"predictions": [0.07, 0.93]},
        path=_WATCHED,
        headers=_KSERVE,
    ),
    Example(
        "POST /monitors/{name}/backfill",
        "waiting",
        "Files of a source, with a request that waits for them",
        {"source": _FILES_OF_ROWS},
        path=_WATCHED,
        headers={"Prefer": "wait=60"},
    ),
    Example(
        "POST /monitors/{name}/backfill",
        "by-a-job",
        "Late labels: 202 and a job",
        {"source": _FILES_OF_ROWS | {"columns": {"ids": "order", "labels": "outcome"}}},
        202,
        path=_WATCHED,
    ),
)


# --- Examples of reading and changing a monitor

_NEW = {"name": "spam-live"}

DEFINING: tuple[Example, ...] = (
    Example(
        "POST /monitors",
        "whole",
        "Two windows, an evidence rule and a threshold rule",
        {
            **_NEW,
            "windows": [{"name": "day", "seconds": 86400}, {"name": "last", "rows": 10000}],
            "measures": ["ece", "ks", "log-loss", {"name": "ece", "norm": 2, "as": "squared"}],
            "rules": [
                {"kind": "evidence", "alpha": 0.01},
                {"kind": "threshold", "measure": "ks", "window": "day", "above": 0.05, "clear_below": 0.03, "looks": 3},
            ],
        },
        201,
    ),
    Example("GET /monitors", "newest", "The newest monitor", query={"limit": "1"}),
    Example("GET /monitors/{name}/definition", "whole", "The definition of a monitor", path=_NEW),
    Example(
        "PATCH /monitors/{name}", "longer", "A longer retention for late labels", {"retention": 15_552_000}, path=_NEW
    ),
    Example("GET /monitors/{name}", "new", "A monitor without rows", path=_NEW, query={"windows": "day"}),
    Example("GET /monitors/{name}/series", "new", "One measure over time", path=_NEW, query={"measure": "ece"}),
    Example("DELETE /monitors/{name}", "spam", "Delete a monitor", status=204, path=_NEW),
)


# --- Examples of predictive distributions of a number

_REGRESSION: Mapping[str, str] = {"prediction_kind": "regression"}
_OBSERVED = [2.1, -0.4, 3.2, 1.6, 0.2, 4.9, 2.7, -1.8]
_NORMAL: dict[str, Any] = {
    **_REGRESSION,
    "mean": [1.2, 0.3, 2.0, 2.4, 0.1, 3.1, 2.2, -0.6],
    "variance": [0.5, 0.3, 0.6, 0.4, 0.3, 0.9, 0.5, 0.4],
}
_QUANTILES: dict[str, Any] = {
    **_REGRESSION,
    "observed": _OBSERVED[:3],
    "quantiles": [[0.2, 1.2, 2.2], [-0.6, 0.3, 1.1], [0.9, 2.0, 3.0]],
    "levels": [0.1, 0.5, 0.9],
}
_NORMAL_OF_THREE: dict[str, Any] = {
    **_REGRESSION,
    **{name: _NORMAL[name][:3] for name in ("mean", "variance")},
    "observed": _OBSERVED[:3],
}

DISTRIBUTIONS: tuple[Example, ...] = (
    Example(
        "POST /evaluate",
        "normal-forecasts",
        "Means and variances of a number, with its outcomes",
        {**_NORMAL, "observed": _OBSERVED, "measures": ["crps", "coverage"], "interval": 0.9},
    ),
    Example("POST /batches", "quantiles", "Forecasts as quantiles", _QUANTILES, 201),
    Example(
        "POST /evaluate",
        "two-forecasts",
        "Forecasts compared with those of a batch",
        {**_NORMAL_OF_THREE, "against": [BATCH], "measures": ["rmse"]},
    ),
    Example(
        "POST /batches/{batch}/rows",
        "quantiles",
        "More forecasts at the same levels",
        _QUANTILES,
        path={"batch": BATCH},
    ),
    Example(
        "POST /evaluate", "quantiles", "A batch of forecasts", {**_REGRESSION, "batch": BATCH, "measures": ["mae"]}
    ),
    Example(
        "POST /maps",
        "variances",
        "A map of predicted variances",
        {**_NORMAL, "observed": _OBSERVED, "method": "variance-scaling", "name": "wind-speed"},
        201,
    ),
    Example("POST /calibrate", "variances", "Calibrated means and variances", {**_NORMAL, "map": "wind-speed"}),
    Example(
        "POST /calibrate",
        "in-order",
        "Forecasts recalibrated in the order of time",
        {
            **_NORMAL,
            "observed": _OBSERVED,
            "times": [f"2026-01-0{day}" for day in range(1, 1 + len(_OBSERVED))],
            "known": [f"2026-01-0{day}" for day in range(2, 1 + len(_OBSERVED))] + [""],
            "in_order": {"half_life": 7.0},
        },
    ),
    Example(
        "POST /diagrams",
        "coverage-as-numbers",
        "The coverage of forecasts by level",
        {**_QUANTILES, "diagram": "coverage"},
        headers={"Accept": "application/json"},
    ),
)

# --- Examples that build on each other, in their order

_LAST_MOVE = {"map": "fraud-detector", "alias": "champion", "action": "alias-moved", "limit": "1"}
_FITS_TO_IT = {"kind": "fit", "batch": BATCH}
_MODEL = {"name": "fraud-detector"}
_CHAMPION = _MODEL | {"alias": "champion"}
_NEWEST = {"name": "fraud-detector", "limit": "1"}
_IMPORTED = {
    "name": "from-elsewhere",
    "description": "fitted in a notebook",
    "document": {
        "format": 1,
        "method": "platt",
        "family": "platt",
        "reduction": "binary",
        "scale": "probability",
        "n_classes": None,
        "parameters": {"slope": 0.8, "intercept": 0.1},
        "diagnostics": {},
    },
}
_VERSION = _MODEL | {"version": "1"}
_INFERENCE = {
    "id": "42",
    "inputs": [{"name": "predictions", "shape": [3], "datatype": "FP64", "data": [0.25, 0.5, 0.75]}],
}

_SCORED: dict[str, Any] = {"source": "scores", "path": "2026-11/*.csv", "columns": {"predictions": "score"}}
_SOURCE = _SCORED | {
    "columns": {"predictions": "score", "labels": "outcome"},
    "where": [["country", "in", ["de", "no"]]],
}

STORY: tuple[Example, ...] = (
    Example(
        "POST /batches",
        "three-classes",
        "Three classes, with weights",
        {
            "predictions": [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]],
            "labels": [0, 1, 2, 2],
            "weights": [1, 2, 1, 1],
        },
        201,
    ),
    Example(
        "POST /batches",
        "two-classes",
        "Probabilities of one event, with labels",
        {"predictions": PREDICTIONS, "labels": LABELS},
        201,
    ),
    Example(
        "POST /batches/{batch}/rows",
        "more",
        "Two more rows",
        {"predictions": [0.31, 0.86], "labels": [0, 1]},
        path={"batch": BATCH},
        headers={"Idempotency-Key": "part-7-of-stream-3"},
    ),
    Example("GET /batches", "newest", "The newest batch", query={"limit": "1"}),
    Example("GET /batches/{batch}", "two-classes", "A batch of one event", path={"batch": BATCH}),
    Example(
        "POST /maps",
        "at-once",
        "Platt scaling with a name",
        {"method": "platt", "name": "fraud-detector", "predictions": PREDICTIONS, "labels": LABELS},
        201,
    ),
    Example(
        "POST /maps",
        "by-a-job",
        "A long fit of a stored batch: 202 and a job",
        {"method": "pl", "options": {"folds": 3, "candidates": [1]}, "batch": BATCH},
        202,
    ),
    Example("GET /jobs/{job}", "fit", "A completed fit", path={"job": JOB}),
    Example("GET /jobs", "fits", "The fits of a batch", query=_FITS_TO_IT),
    Example("GET /maps/{map}", "by-name", "The newest version of a name", path={"map": "fraud-detector"}),
    Example("GET /maps", "by-name", "The newest version of a name", query=_NEWEST),
    Example(
        "PUT /maps/{name}/aliases/{alias}",
        "champion",
        "Version 1 is the champion",
        {"version": 1},
        path=_CHAMPION,
        headers={"Calibrant-Note": "RISK-42: quarterly validation passed", "X-Request-Id": "release-17"},
    ),
    Example("GET /audit", "who-moved-it", "Who moved an alias last, and why", query=_LAST_MOVE),
    Example(
        "PUT /audit/hooks/{hook}",
        "siem",
        "Send the audit log elsewhere",
        {"url": f"https://{HOST}/audit", "secret": _SECRET},
        path={"hook": "siem"},
    ),
    Example("GET /audit/hooks", "all", "The hooks of the audit log"),
    Example("DELETE /audit/hooks/{hook}", "siem", "Delete a hook", status=204, path={"hook": "siem"}),
    Example("GET /maps/{name}/aliases", "all", "The aliases of a name", path=_MODEL),
    Example("GET /maps/{name}/aliases/{alias}", "champion", "The version that it points at", path=_CHAMPION),
    Example("PATCH /maps/{map}", "tags", "Set one tag", {"tags": {"stage": "live"}}, path={"map": "fraud-detector:1"}),
    Example("GET /maps/{map}/document", "by-alias", "By an alias", path={"map": "fraud-detector@champion"}),
    Example("POST /maps/import", "identity", "A map from another service", _IMPORTED, 201),
    Example("DELETE /maps/{map}", "by-version", "One version", status=204, path={"map": "from-elsewhere:1"}),
    Example("DELETE /maps/{name}/aliases/{alias}", "champion", "Delete an alias", status=204, path=_CHAMPION),
    Example(
        "POST /evaluate",
        "before-and-after",
        "A stored batch before and after a map",
        {"batch": BATCH, "map": "fraud-detector", "measures": ["ks", {"name": "ece", "n_bins": 4, "as": "ece-4"}]},
    ),
    Example(
        "POST /evaluate",
        "side-by-side",
        "A map and the uncalibrated predictions",
        {"batch": BATCH, "maps": ["fraud-detector"], "measures": ["brier"], "resamples": 100},
    ),
    Example(
        "POST /evaluate",
        "by-a-job",
        "A measure that needs a long fit: 202 and a job",
        {"batch": BATCH, "measures": [{"name": "ece-pl", "folds": 3, "candidates": [1, 2]}]},
        202,
    ),
    Example(
        "POST /compare",
        "by-a-job",
        "A measure that needs a long fit: 202 and a job",
        {"batches": {"one": BATCH, "other": BATCH}, "measures": ["brier", "ece-pl"], "resamples": 100},
        202,
    ),
    Example(
        "POST /calibrate",
        "two-predictions",
        "Two predictions, calibrated",
        {"map": "fraud-detector", "predictions": [0.3, 0.95]},
    ),
    Example(
        "POST /maps",
        "prediction-sets",
        "A map to prediction sets",
        {
            "method": "lac",
            "options": {"alpha": 0.2},
            "name": "fraud-sets",
            "predictions": PREDICTIONS,
            "labels": LABELS,
        },
        201,
    ),
    Example(
        "POST /calibrate",
        "sets",
        "Prediction sets",
        {"map": "fraud-sets", "predictions": [0.05, 0.5, 0.95]},
    ),
    Example(
        "POST /evaluate",
        "by-reference",
        "Files of a source: 202 and a job",
        {"source": _SOURCE, "measures": ["brier"]},
        202,
    ),
    Example(
        "POST /datasets",
        "waiting",
        "Scored files, with a request that waits for them",
        {"map": "fraud-detector", "source": _SCORED, "target": {"source": "results", "path": "2026-11"}},
        201,
        headers={"Prefer": "wait=60"},
    ),
    Example(
        "POST /datasets",
        "by-a-job",
        "202 and a job",
        {"map": "fraud-detector", "source": _SCORED, "target": {"source": "results", "path": "again"}},
        202,
    ),
    Example(
        "POST /diagrams",
        "before-and-after",
        "A stored batch before and after a map, as SVG",
        {"batch": BATCH, "map": "fraud-detector", "diagram": "corp", "theme": "light", "width": 400},
    ),
    Example(
        "POST /recommendations",
        "as-a-job",
        "Always as a job",
        {"batch": BATCH},
        202,
        headers={"Prefer": "respond-async"},
    ),
    Example(
        "POST /diagrams",
        "by-a-job",
        "A diagram that needs a long fit: 202 and a job",
        {"batch": BATCH, "diagram": {"name": "fit-on-test", "method": "pl", "folds": 3}},
        202,
    ),
    Example("GET /jobs/{job}/diagram.svg", "fitted", "The diagram of a job", path={"job": JOB}),
    Example("GET /jobs/{job}/diagram.png", "fitted", "The same as a PNG", path={"job": JOB}),
    Example("GET /maps/{map}/diagram.svg", "by-name", "Before and after, in-sample", path={"map": "fraud-detector"}),
    Example("GET /maps/{map}/diagram.png", "dark", "Dark theme", path={"map": "fraud-detector"}, query=_DARK),
    Example(
        "POST /evaluate",
        "as-a-job",
        "Always as a job",
        {"batch": BATCH, "measures": [{"name": "ece-pl", "folds": 3}], "interval": 0.9, "resamples": 100_000},
        202,
        headers={"Prefer": "respond-async"},
    ),
    Example("POST /jobs/{job}/cancel", "cancelled", "A cancelled job", path={"job": JOB}),
    Example("DELETE /jobs/{job}", "cancelled", "Delete an ended job", status=204, path={"job": JOB}),
    Example("GET /v2/models/{name}", "by-name", "A map as a model", path=_MODEL),
    Example("GET /v2/models/{name}/ready", "by-name", "The map exists", path=_MODEL),
    Example("POST /v2/models/{name}/infer", "three", "Three predictions as a tensor", _INFERENCE, path=_MODEL),
    Example("GET /v2/models/{name}/versions/{version}", "first", "One version", path=_VERSION),
    Example("GET /v2/models/{name}/versions/{version}/ready", "first", "The version exists", path=_VERSION),
    Example("POST /v2/models/{name}/versions/{version}/infer", "three", "With one version", _INFERENCE, path=_VERSION),
    *DEFINING,
    *DELIVERIES,
    *ALARMS,
    *INGESTION,
    *DISTRIBUTIONS,
    Example("DELETE /batches/{batch}", "two-classes", "Delete a batch", status=204, path={"batch": BATCH}),
)


def examples_of(call: Call) -> Iterator[Example]:
    """The examples of a call: those of its declaration, and those that need others before them."""
    yield from (Example(str(call), *sample) for sample in call.samples)
    yield from (example for example in STORY if example.call == str(call))


@cache
def all_examples() -> tuple[Example, ...]:
    """An example of every call, in an order in which they can be sent one after another."""
    table = RouteTable([])
    table.load_all()
    return (*(Example(str(call), *sample) for call in table.calls for sample in call.samples), *STORY)


#: Descriptions and examples of path parameters in the OpenAPI document.
_PARAMETERS = {
    "batch": ("id of a batch", BATCH),
    "job": ("id of a job", JOB),
    "delivery": ("id of a delivery", DELIVERY),
    "hook": ("name of a hook", "pager"),
    "rule": ("name of a rule", "evidence"),
    "map": ("id of a map, a name (its newest version), name:version or name@alias", MAP),
    "name": ("name or id of a map", "fraud-detector"),
    "alias": ("name of an alias", "champion"),
    "version": ("version of the map", "1"),
    "code": ("code of a problem", "out-of-range"),
}


def parameter(path: str, name: str) -> tuple[str, str]:
    """The description and an example of a parameter of a path."""
    if name == "name" and path.startswith("/monitors"):
        return "name of the monitor", "fraud-detector"
    return _PARAMETERS[name]
