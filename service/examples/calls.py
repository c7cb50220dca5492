"""An example of every call, in an order in which they can be sent one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

# --- What an example is

_NONE: Mapping[str, str] = MappingProxyType({})

#: The ids of the document's examples; whoever sends one puts an id of his own in their place.
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
        )
    }
)
BATCH, MAP, JOB, DELIVERY = IDS["batch"], IDS["map"], IDS["job"], IDS["delivery"]


class Example(NamedTuple):
    """One request: the call as the document writes it, what to send, and the status that it is answered with."""

    call: str
    name: str
    summary: str
    body: Mapping[str, Any] | bytes | None = None
    status: int = 200
    path: Mapping[str, str] = _NONE
    query: Mapping[str, str] = _NONE
    headers: Mapping[str, str] = _NONE


# --- Examples of a monitor with a hook, and of its deliveries; the host is reserved for documentation (RFC 2606)

#: Of bytes that say it: "an example's, not for you".
_SECRET = "whsec_YW4gZXhhbXBsZSdzLCBub3QgZm9yIHlvdQ=="  # noqa: S105 - it is public
_WITH_HOOK = {"name": "fraud-live"}
_ONE = _WITH_HOOK | {"delivery_id": DELIVERY}
#: The host that the service of the examples admits.
HOST = "alerts.example"

DELIVERIES: tuple[Example, ...] = (
    Example(
        "POST /monitors",
        "with-a-hook",
        "A monitor that tells of its alarms",
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
    Example("GET /monitors/{name}/deliveries/{delivery_id}", "test", "A delivery", path=_ONE),
    Example("POST /monitors/{name}/deliveries/{delivery_id}/resend", "test", "Once more", None, 202, path=_ONE),
    Example("DELETE /monitors/{name}", "with-a-hook", "Forget a monitor", status=204, path=_WITH_HOOK),
)


# --- Examples of calls on alarms: of a monitor without any, and of two with one

_WITH_ALARM = {"name": "fraud-quiet"}
#: What is proposed to the one is accepted, and to the other rejected. To both rows come that are not calibrated.
_DRIFTED, _DECLINED = {"name": "fraud-drifted"}, {"name": "fraud-declined"}
DRIFTED = frozenset({_DRIFTED["name"], _DECLINED["name"]})
#: Of a day, so that all rows are of one bucket.
_PROPOSING = {"bucket": 86_400, "recalibration": {"policy": "propose"}}
_DARK = {"theme": "dark", "width": "400"}

ALARMS: tuple[Example, ...] = (
    Example("POST /monitors", "without-rules", "A monitor that is only read", _WITH_ALARM | {"rules": []}, 201),
    Example("GET /monitors/{name}/alarms", "none", "Nothing has happened yet", path=_WITH_ALARM),
    Example("GET /monitors/{name}/audit", "none", "Nothing was done yet", path=_WITH_ALARM),
    Example(
        "POST /monitors/{name}/alarms/{rule}/acknowledge",
        "no-rule",
        "A rule that there is not",
        status=404,
        path=_WITH_ALARM | {"rule": "evidence"},
    ),
    Example("GET /monitors/{name}/proposal", "none", "No challenger waits", status=404, path=_WITH_ALARM),
    Example("POST /monitors/{name}/proposal/accept", "none", "No challenger waits", status=404, path=_WITH_ALARM),
    Example("POST /monitors/{name}/proposal/reject", "none", "No challenger waits", status=404, path=_WITH_ALARM),
    Example("POST /monitors/{name}/recalibrate", "now", "A challenger now", status=202, path=_WITH_ALARM),
    Example("DELETE /monitors/{name}", "without-rules", "Forget a monitor", status=204, path=_WITH_ALARM),
    Example("POST /monitors", "proposing", "A monitor that proposes a map upon an alarm", _DRIFTED | _PROPOSING, 201),
    Example("GET /monitors/{name}/alarms", "raised", "An alarm by evidence, and a challenger", path=_DRIFTED),
    Example("GET /monitors/{name}/audit", "proposed", "What was done about it", path=_DRIFTED),
    Example("GET /monitors/{name}/series.svg", "day", "Values over time, and the alarm", path=_DRIFTED),
    Example("GET /monitors/{name}/diagram.svg", "day", "The first window", path=_DRIFTED),
    Example("GET /monitors/{name}/diagram.png", "dark", "On dark paper", path=_DRIFTED, query=_DARK),
    Example("GET /monitors/{name}/proposal", "waiting", "A challenger that waits", path=_DRIFTED),
    Example(
        "POST /monitors/{name}/alarms/{rule}/acknowledge",
        "evidence",
        "An alarm that was seen",
        path=_DRIFTED | {"rule": "evidence"},
    ),
    Example("POST /monitors/{name}/proposal/accept", "accepted", "The alias is moved to it", path=_DRIFTED),
    Example("DELETE /monitors/{name}", "proposing", "Forget a monitor", status=204, path=_DRIFTED),
    Example("POST /monitors", "declining", "Another one", _DECLINED | _PROPOSING, 201),
    Example("POST /monitors/{name}/proposal/reject", "rejected", "The map stays as it is", path=_DECLINED),
    Example("DELETE /monitors/{name}", "declining", "Forget it", status=204, path=_DECLINED),
)


# --- Examples of what comes to a monitor

_WATCHED = {"name": "fraud-detector"}
_KSERVE = {
    "ce-specversion": "1.0",
    "ce-id": "9f1c",
    "ce-source": "http://localhost:9081/",
    "ce-type": "org.kubeflow.serving.inference.response",
}

TAKING: tuple[Example, ...] = (
    Example("POST /monitors", "one-column", "A day at a time", _WATCHED, 201),
    Example(
        "POST /monitors/{name}/rows",
        "labelled",
        "Two rows that count, and one that is refused",
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
        "Predictions whose labels come later",
        {"rows": [{"id": "order-4", "prediction": 0.35}, {"id": "order-5", "prediction": 0.66, "group": "app"}]},
        path=_WATCHED,
    ),
    Example(
        "POST /monitors/{name}/labels",
        "later",
        "A label that is joined, one that waits, one that contradicts",
        {"rows": [{"id": "order-4", "label": 0}, {"id": "order-6", "label": 1}, {"id": "order-2", "label": 0}]},
        path=_WATCHED,
    ),
    Example(
        "POST /monitors/{name}/events",
        "kserve",
        "What KServe's logger posts",
        {"predictions": [0.07, 0.93]},
        path=_WATCHED,
        headers=_KSERVE,
    ),
)


# --- Examples of what is read off a monitor that has seen a few rows, and of a change to it

_NEW = {"name": "spam-live"}

DEFINING: tuple[Example, ...] = (
    Example(
        "POST /monitors",
        "whole",
        "Two windows, an alarm by evidence and one by a bound",
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
    Example("GET /monitors/{name}/definition", "whole", "What a monitor is", path=_NEW),
    Example("PATCH /monitors/{name}", "longer", "Labels that come late", {"retention": 15_552_000}, path=_NEW),
    Example("GET /monitors/{name}", "new", "One that has seen nothing", path=_NEW, query={"windows": "day"}),
    Example("GET /monitors/{name}/series", "new", "One measure over time", path=_NEW, query={"measure": "ece"}),
    Example("DELETE /monitors/{name}", "spam", "Forget a monitor", status=204, path=_NEW),
)


# --- An example of every call, in an order in which they can be sent one after the other

_PREDICTIONS = [0.02, 0.11, 0.18, 0.24, 0.35, 0.42, 0.57, 0.66, 0.71, 0.83, 0.9, 0.97]
_LABELS = [0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1]
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

CALLS: tuple[Example, ...] = (
    Example("GET /health/live", "up", "The process answers"),
    Example("GET /health/ready", "ready", "The store answers too"),
    Example("GET /measures", "measures", "The first of the measures"),
    Example("GET /diagrams", "diagrams", "The first of the diagrams"),
    Example("GET /methods", "methods", "The first of the methods"),
    Example("GET /limits", "limits", "What a request may take"),
    Example("GET /problems", "problems", "The first of the problems", headers={"Accept": "application/json"}),
    Example(
        "GET /problems/{code}",
        "out-of-range",
        "One problem",
        path={"code": "out-of-range"},
        headers={"Accept": "application/json"},
    ),
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
        "Probabilities of one event, and what happened",
        {"predictions": _PREDICTIONS, "labels": _LABELS},
        201,
    ),
    Example(
        "POST /batches/{batch_id}/rows",
        "more",
        "Two more rows",
        {"predictions": [0.31, 0.86], "labels": [0, 1]},
        path={"batch_id": BATCH},
        headers={"Idempotency-Key": "part-7-of-stream-3"},
    ),
    Example("GET /batches", "newest", "The newest batch", query={"limit": "1"}),
    Example("GET /batches/{batch_id}", "two-classes", "A batch of one event", path={"batch_id": BATCH}),
    Example(
        "POST /maps",
        "at-once",
        "Platt scaling, under a name",
        {"method": "platt", "name": "fraud-detector", "predictions": _PREDICTIONS, "labels": _LABELS},
        201,
    ),
    Example(
        "POST /maps",
        "by-a-job",
        "A long fit to a stored batch: 202 and a job",
        {"method": "pl", "options": {"folds": 3, "candidates": [1]}, "batch": BATCH},
        202,
    ),
    Example("GET /jobs/{job_id}", "fit", "A fit that is done", path={"job_id": JOB}),
    Example("GET /jobs", "fits", "The fits to a batch", query=_FITS_TO_IT),
    Example("GET /maps/{ref}", "by-name", "The newest version of a name", path={"ref": "fraud-detector"}),
    Example("GET /maps", "by-name", "The newest version of a name", query=_NEWEST),
    Example(
        "PUT /maps/{name}/aliases/{alias}", "champion", "Version 1 is the champion", {"version": 1}, path=_CHAMPION
    ),
    Example("GET /maps/{name}/aliases", "all", "The aliases of a name", path=_MODEL),
    Example("GET /maps/{name}/aliases/{alias}", "champion", "Where it points", path=_CHAMPION),
    Example("PATCH /maps/{ref}", "tags", "One tag set", {"tags": {"stage": "live"}}, path={"ref": "fraud-detector:1"}),
    Example("GET /maps/{ref}/document", "by-alias", "By an alias", path={"ref": "fraud-detector@champion"}),
    Example("POST /maps/import", "identity", "A map of another service", _IMPORTED, 201),
    Example("DELETE /maps/{ref}", "by-version", "One version", status=204, path={"ref": "from-elsewhere:1"}),
    Example("DELETE /maps/{name}/aliases/{alias}", "champion", "Forget an alias", status=204, path=_CHAMPION),
    Example(
        "POST /evaluate",
        "one-measure",
        "The expected calibration error, with an interval",
        {"predictions": _PREDICTIONS, "labels": _LABELS, "measures": [{"name": "ece", "n_bins": 4}], "interval": 0.9},
    ),
    Example(
        "POST /evaluate",
        "before-and-after",
        "A stored batch before and after a map",
        {"batch": BATCH, "map": "fraud-detector", "measures": ["ks", {"name": "ece", "n_bins": 4, "as": "ece-4"}]},
    ),
    Example(
        "POST /evaluate",
        "side-by-side",
        "A map beside the predictions as they came",
        {"batch": BATCH, "maps": ["fraud-detector"], "measures": ["brier"], "resamples": 100},
    ),
    Example(
        "POST /evaluate",
        "by-a-job",
        "A measure that is a long fit: 202 and a job",
        {"batch": BATCH, "measures": [{"name": "ece-pl", "folds": 3}]},
        202,
    ),
    Example(
        "POST /calibrate",
        "two-predictions",
        "Two predictions, calibrated",
        {"map": "fraud-detector", "predictions": [0.3, 0.95]},
    ),
    Example(
        "POST /evaluate",
        "as-a-page",
        "A report in one HTML file",
        {"predictions": _PREDICTIONS, "labels": _LABELS},
        headers={"Accept": "text/html"},
    ),
    Example(
        "POST /diagrams",
        "as-numbers",
        "The numbers of a diagram, and what it says in words",
        {"predictions": _PREDICTIONS, "labels": _LABELS, "diagram": {"name": "reliability", "n_bins": 3}},
        headers={"Accept": "application/json"},
    ),
    Example(
        "POST /diagrams",
        "before-and-after",
        "A stored batch before and after a map, as SVG",
        {"batch": BATCH, "map": "fraud-detector", "diagram": "corp", "theme": "light", "width": 400},
    ),
    Example(
        "POST /diagrams",
        "by-a-job",
        "A diagram that is a long fit: 202 and a job",
        {"batch": BATCH, "diagram": {"name": "fit-on-test", "method": "pl", "folds": 3}},
        202,
    ),
    Example(
        "POST /diagrams",
        "by-size",
        "Measures on random subsets: what comes down with their size is bias",
        {
            "predictions": _PREDICTIONS,
            "labels": _LABELS,
            "diagram": {"name": "by-size", "start": 4, "measures": ["ks"]},
        },
    ),
    Example("GET /jobs/{job_id}/diagram.svg", "fitted", "What it came to", path={"job_id": JOB}),
    Example("GET /jobs/{job_id}/diagram.png", "fitted", "The same as a PNG", path={"job_id": JOB}),
    Example("GET /maps/{ref}/diagram.svg", "by-name", "Before and after, in sample", path={"ref": "fraud-detector"}),
    Example("GET /maps/{ref}/diagram.png", "dark", "On dark paper", path={"ref": "fraud-detector"}, query=_DARK),
    Example(
        "POST /evaluate",
        "as-a-job",
        "Preferred as a job, whatever it is",
        {"batch": BATCH, "measures": [{"name": "ece-pl", "folds": 3}], "interval": 0.9, "resamples": 100_000},
        202,
        headers={"Prefer": "respond-async"},
    ),
    Example("DELETE /jobs/{job_id}", "cancelled", "A job that is stopped", path={"job_id": JOB}),
    Example("GET /v2", "server", "What the server offers"),
    Example("GET /v2/health/live", "up", "The process answers"),
    Example("GET /v2/health/ready", "ready", "The store answers too"),
    Example("GET /v2/models/{name}", "by-name", "A map as a model", path=_MODEL),
    Example("GET /v2/models/{name}/ready", "by-name", "The map is there", path=_MODEL),
    Example("POST /v2/models/{name}/infer", "three", "Three predictions as a tensor", _INFERENCE, path=_MODEL),
    Example("GET /v2/models/{name}/versions/{version}", "first", "One version", path=_VERSION),
    Example("GET /v2/models/{name}/versions/{version}/ready", "first", "The version is there", path=_VERSION),
    Example("POST /v2/models/{name}/versions/{version}/infer", "three", "By one version", _INFERENCE, path=_VERSION),
    *DEFINING,
    *DELIVERIES,
    *ALARMS,
    *TAKING,
    Example("DELETE /batches/{batch_id}", "two-classes", "Forget a batch", status=204, path={"batch_id": BATCH}),
)

#: What else the parameters of paths are called, for the document.
PARAMETERS = {
    "batch_id": ("id of a batch", BATCH),
    "job_id": ("id of a job", JOB),
    "delivery_id": ("id of a delivery", DELIVERY),
    "hook": ("name of a hook", "pager"),
    "rule": ("name of a rule", "evidence"),
    "ref": ("id of a map, a name (its newest version) or name:version", MAP),
    "name": ("name or id of a map; of a monitor its name", "fraud-detector"),
    "alias": ("name of an alias", "champion"),
    "version": ("version of the map", "1"),
    "code": ("code of a problem", "out-of-range"),
}
