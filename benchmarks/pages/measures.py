"""The catalogue of measures as a page of Markdown."""

from __future__ import annotations

from calibrant.measures.catalogue import MEASURES
from calibrant.measures.measure import Measure

_HEAD = """# Measures

Every measure of `evaluate` and `POST /evaluate`, generated from the catalogue behind `GET /measures` (`make
reference`). A measure of an event is available under `binary`, `confidence`, `class:k`, `top:r`, `within-top:r` and
`pooled`. Under `classwise` its value is the mean over the classes, and `parts` has the sum and the value of each
class. A measure of the vector is available under `canonical`. If a measure cannot be computed for a batch, its value
is null and its `problem` gives the reason.

Under `pooled`, the events of one row are dependent: intervals resample whole rows, and most p-values are omitted.

Intervals are computed on request, in one of five ways:

- *inverted*: test inversion. A true value is in the interval if the observed value lies between the tails of what
  gaps of that size, plus resampled noise, produce. A percentile interval of these measures almost never covers the true
  value of a calibrated model.
- *triangle*: the observed value plus or minus a quantile of the size of the resampled noise.
- *influence*: the multiplier bootstrap of the influence function.
- *own*: from the posterior of the fitted model.
- *resampled*: the basic bootstrap, with the measure recomputed on resampled rows.

[Interval coverage](../benchmarks/interval-coverage.md) has the measured coverage of each, and
[Agreement](../benchmarks/agreement.md) compares the values with published code.
"""


def catalogue_page() -> str:
    """The page, family by family, in the order of the catalogue."""
    families = dict.fromkeys(measure.family for measure in MEASURES.values())
    parts = [_HEAD]
    for family in families:
        parts.append(f"## {family}\n")
        parts += [_entry(measure) for measure in MEASURES.values() if measure.family == family]
    return "\n".join(parts)


def _entry(measure: Measure) -> str:
    of = " and ".join(
        word for word, compute in (("event", measure.event), ("the vector", measure.vector)) if compute is not None
    )
    options = "; ".join(f"`{name}` ({option.default}: {option.allowed})" for name, option in measure.options.items())
    upper = "no upper end" if measure.highest is None else f"{measure.highest:g}"
    lower = "no lower end" if measure.lowest is None else f"{measure.lowest:g}"
    lines = [
        f"### `{measure.name}`: {measure.title}",
        "",
        f"{measure.definition.rstrip('.')}.",
        "",
        f"- of {'an ' if of.startswith('event') else ''}{of}; from {lower} to {upper}; better: {measure.better}; "
        f"needs {measure.needs}",
        f"- options: {options or 'none'}",
        f"- cost {measure.cost}{', a job' if measure.runs == 'job' else ''}; interval: {interval_kind(measure)}",
        f"- source: {measure.source}",
        "",
    ]
    return "\n".join(lines)


def interval_kind(measure: Measure) -> str:
    """The kind of its interval, in one word."""
    if measure.own_interval:
        return "own"
    if measure.distance is not None:
        return "triangle" if measure.triangle else "inverted"
    if measure.influence is not None:
        return "influence"
    return "resampled" if measure.resampled else "none"
