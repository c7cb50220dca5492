"""Curves over the threshold of decisions: net benefit, and the mean elementary score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.plots.panel import Data, Key, Look, Panel, Plot, Range, decimal, level_in, plain_mark, spread, values

_REFERENCE = (5.0, 3.0)
#: Points in the alternative text, and the part of the panel below 0 for net benefit.
_DESCRIBED, _BELOW = 9, 0.25


def _show(panel: Panel, data: Data, look: Look) -> None:
    at = values(data["thresholds"])
    if data["low"] is not None and look.hatch is None:
        panel.between(at, data["low"], data["high"], look.tint)
    if look.hatch is None:
        panel.line(at, data["reference"], "quiet", width=1.2, dash=_REFERENCE)
        panel.line(at, np.zeros_like(at), "rule")
    panel.line(at, data["value"], look.colour, width=1.8, dash=look.dash)


def _keys(reference: Key) -> Callable[[Data, Mapping[str, Any], Look], list[Key]]:
    def keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
        band = [] if data["low"] is None else [Key(f"{level_in(definition)} interval", look.tint, "area")]
        return [Key("model", look.colour), *band, reference]

    return keys


def _describe(what: str, other: str) -> Callable[[Data, Mapping[str, Any]], str]:
    def describe(data: Data, _: Mapping[str, Any]) -> str:
        at, value, reference = (values(data[name]) for name in ("thresholds", "value", "reference"))
        shown = spread(len(at), _DESCRIBED)
        points = "; ".join(f"{at[i]:.3g}: {decimal(value[i])} and {decimal(reference[i])}" for i in shown)
        return f"{what} of the model, and {other}, by threshold: {points}."

    return describe


def _plot(kind: str, axis: str, reference: Key, other: str, window: Callable[[Sequence[Data]], Range]) -> Plot:
    return Plot(
        kind,
        ("threshold", axis),
        lambda _: None,
        _show,
        _keys(reference),
        _describe(axis.capitalize(), other),
        lambda shown: ((0.0, max(float(values(data["thresholds"])[-1]) for data in shown)), window(shown)),
        diagonal=False,
        mark=plain_mark,
        shared=(reference,),
    )


def _highest(shown: Sequence[Data], *names: str) -> float:
    most = max(float(values(data[name]).max()) for data in shown for name in names if data[name] is not None)
    return 1.05 * most if most > 0.0 else 1.0


def _of_benefit(shown: Sequence[Data]) -> Range:
    high = max(_highest(shown, "value"), _highest(shown, "reference"))
    return -_BELOW * high, high


DECISION_CURVE = _plot(
    "Decision curve",
    "net benefit",
    Key("treat all", "quiet", dash=_REFERENCE),
    "of treating all rows",
    _of_benefit,
)
MURPHY = _plot(
    "Murphy diagram",
    "mean elementary score",
    Key("rate of events", "quiet", dash=_REFERENCE),
    "of predicting the rate of events",
    lambda shown: (0.0, _highest(shown, "value", "high", "reference")),
)
