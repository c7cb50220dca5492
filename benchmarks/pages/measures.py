"""The catalogue of measures as a page of Markdown."""

from __future__ import annotations

from calibrant.measures.catalogue import MEASURES
from calibrant.measures.measure import Measure

_HEAD = """# Measures

Every measure that `evaluate` and `POST /evaluate` know, made from the catalogue that also answers `GET /measures` and
checks requests (`make reference`). A measure of an event answers under `binary`, `confidence`, `class:k`, `top:r`,
`within-top:r` and `pooled`, and under `classwise` with the mean over the classes (`parts` holds the sum and each
class); a measure of the vector answers under `canonical`. What cannot be computed on a batch has the value null and a
`problem`.

Under `pooled` the events of one row hang together: intervals resample whole rows, and most p-values are left out.

Intervals are given when they are asked for. *Inverted*: a size is possible when the value seen lies between the tails
of what gaps of that size would show, plus resampled noise; a percentile interval of such a measure would miss the
truth of a calibrated model nearly always. *Triangle*: the value give or take a quantile of the size of resampled
noise. *Influence*: the multiplier bootstrap of what each row moves the value by. *Own*: from the posterior of the
fit. *Resampled*: the basic bootstrap, the measure computed again on resampled rows. How often they hold the truth:
[interval-coverage.md](../benchmarks/interval-coverage.md). How our values compare with published code:
[agreement.md](../benchmarks/agreement.md).
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
        word for word, given in (("event", measure.event), ("the vector", measure.vector)) if given is not None
    )
    options = "; ".join(f"`{name}` ({option.default}: {option.allowed})" for name, option in measure.options.items())
    upper = "no upper end" if measure.highest is None else f"{measure.highest:g}"
    lower = "no lower end" if measure.lowest is None else f"{measure.lowest:g}"
    lines = [
        f"### `{measure.name}`: {measure.title}",
        "",
        f"{measure.definition}.",
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
    """How its interval comes about, in a word."""
    if measure.own_interval:
        return "own"
    if measure.distance is not None:
        return "triangle" if measure.triangle else "inverted"
    if measure.influence is not None:
        return "influence"
    return "resampled" if measure.resampled else "none"
