"""The section of docs/benchmarks/reliability.md about scoring without the store."""

from __future__ import annotations

from typing import Any

from benchmarks.chaos.page_words import circumstances, paragraph

#: Goal: the 99th percentile during an outage, as a multiple of that of normal operation.
RATIO_GOAL = 1.5
_OUTAGES = {"flapping": "flapping every second"}


def scoring_part(figures: dict[str, Any]) -> list[str]:
    """Failures, wrong answers and latency in each outage."""
    return [
        *paragraph(
            f"{figures['rate']:g} requests per second to two APIs with API keys, by id, version, name and alias, as "
            f"`/calibrate` and as inference: {figures['before']:g} s of normal operation, then "
            f"{figures['seconds']:g} s of each outage. The alias moves every two seconds, also while only the APIs "
            "are cut off. A third into each outage one API is restarted, which gets no requests until it is ready. An "
            "answer is wrong if its version was not that of the alias since the API last reached the store, or a "
            "second ago, or if its values are not exactly those of the version. APIs, callers, store and restart "
            "share the machine."
        ),
        "",
        *paragraph(circumstances(figures)),
        "",
        *scoring_rows(figures),
    ]


def scoring_rows(figures: dict[str, Any]) -> list[str]:
    """The table of the outages."""
    return [
        "| outage | requests | answered without the store | failures | wrong answers | median before / during, ms "
        "| p99 before / during, ms | ratio of p99 / without the restart | goal |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(kind, outage) for kind, outage in figures["outages"].items()),
    ]


def _row(kind: str, outage: dict[str, Any]) -> str:
    normal, during, calm = outage["normal"], outage["during"], outage["without_restart"]
    cells = [
        _OUTAGES.get(kind, kind),
        f"{outage['requests']:,}",
        f"{outage['stale']:.0%}",
        outage["failures"],
        outage["wrong"],
        *(f"{1000 * normal[i]:.1f} / {1000 * during[i]:.1f}" for i in range(2)),
        f"{during[1] / normal[1]:.2f} / {calm[1] / normal[1]:.2f}",
        f"at most {RATIO_GOAL:g}",
    ]
    return f"| {' | '.join(map(str, cells))} |"
