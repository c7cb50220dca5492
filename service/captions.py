"""What a picture's title says of an evaluation: rows, reduction, and the error that the diagram shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pictures.drawn import About

Definition = Mapping[str, Any]


def shown_error(definition: Definition) -> dict[str, Any]:
    """The measure that a diagram shows, as a request names it.

    Of bins it is their ECE, of a fitted curve its mean distance from the diagonal, which of CORP's is that of isotonic
    regression.
    """
    return _ERRORS[definition["name"]](definition)


def caption(report: Mapping[str, Any], key: str, name: str | None = None, *, after: bool = False) -> About:
    """What is said of a report's diagram of this key, or of that after the map; without an error that is not there."""
    side = report["after"] if after else report
    asked = shown_error(side["diagrams"][key]["definition"])
    found = _answer(side["measures"], asked)
    if found is None or found["value"] is None:
        return About(report["n"], report["reduction"], name)
    interval = None if found["interval"] is None else (found["interval"][0], found["interval"][1])
    return About(report["n"], report["reduction"], name, (_named(asked), found["value"]), interval)


def _answer(measures: Mapping[str, Any], asked: Definition) -> Mapping[str, Any] | None:
    """What a report says of a measure with these options, under whichever key."""
    return next((found for found in measures.values() if asked.items() <= found["definition"].items()), None)


def _of_bins(definition: Definition) -> dict[str, Any]:
    binning, count = definition["binning"], definition["count"]
    if count == "fixed" or binning == "adaptive":  # adaptive bins have no count but a fixed one, or no diagram either
        closed = definition.get("closed", "left")
        return {"name": "ece", "binning": binning, "n_bins": definition["n_bins"], "closed": closed, "norm": 1}
    return {"name": "ece-sweep" if count == "sweep" else "ece-cv", "binning": binning, "norm": 1}


def _of_fit(definition: Definition) -> dict[str, Any]:
    return {"name": f"ece-{definition['method']}", "norm": 1, "folds": definition["folds"]}


_ERRORS: Mapping[str, Callable[[Definition], dict[str, Any]]] = MappingProxyType(
    {
        "reliability": _of_bins,
        "logit-logit": _of_bins,
        "fit-on-test": _of_fit,
        "corp": lambda _: {"name": "ece-isotonic", "norm": 1},
        "ks-graphs": lambda _: {"name": "ks"},
    }
)


def _named(asked: Definition) -> str:
    """A measure's name as people read it."""
    name: str = asked["name"]
    if name == "ks":
        return "KS error"
    binned = name in ("ece", "ece-sweep", "ece-cv")
    return "ECE" if binned else f"ECE by {name.removeprefix('ece-')}"
