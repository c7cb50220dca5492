"""Examples of what comes to a monitor."""

from __future__ import annotations

from service.examples.example import Example

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
