"""Examples of what is read off a monitor that has seen a few rows, and of a change to it."""

from __future__ import annotations

from service.examples.example import Example

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
