"""An example of every call, in an order in which they can be sent one after the other."""

from __future__ import annotations

from service.examples.deliveries import DELIVERIES
from service.examples.example import BATCH, DELIVERY, JOB, MAP, Example
from service.examples.monitor_alarms import ALARMS
from service.examples.monitor_rows import TAKING

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
_DARK = {"theme": "dark", "width": "400"}
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
    Example("DELETE /jobs/{job_id}", "cancelled", "A job that is told to stop", path={"job_id": JOB}),
    Example("GET /v2", "server", "What the server offers"),
    Example("GET /v2/health/live", "up", "The process answers"),
    Example("GET /v2/health/ready", "ready", "The store answers too"),
    Example("GET /v2/models/{name}", "by-name", "A map as a model", path=_MODEL),
    Example("GET /v2/models/{name}/ready", "by-name", "The map is there", path=_MODEL),
    Example("POST /v2/models/{name}/infer", "three", "Three predictions as a tensor", _INFERENCE, path=_MODEL),
    Example("GET /v2/models/{name}/versions/{version}", "first", "One version", path=_VERSION),
    Example("GET /v2/models/{name}/versions/{version}/ready", "first", "The version is there", path=_VERSION),
    Example("POST /v2/models/{name}/versions/{version}/infer", "three", "By one version", _INFERENCE, path=_VERSION),
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
    "name": ("name or id of a map", "fraud-detector"),
    "alias": ("name of an alias", "champion"),
    "version": ("version of the map", "1"),
    "code": ("code of a problem", "out-of-range"),
}
