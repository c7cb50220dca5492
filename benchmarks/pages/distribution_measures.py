"""The measures of predictive distributions as a page of Markdown."""

from __future__ import annotations

import calibrant
from calibrant.distributions.measures import DistributionMeasure

_HEAD = """# Measures of distributions

Every measure of `evaluate_distribution`, generated from the catalogue (`make reference`). F is the predictive
distribution function, y the outcome, tau the level of a quantile, and m the mean. If a measure cannot be computed for
the forecasts, its value is null and its `problem` gives the reason.
"""


def distribution_measures_page() -> str:
    """The page, in the order of the catalogue."""
    return "\n".join([_HEAD, *map(_entry, calibrant.DISTRIBUTION_MEASURES.values())])


def _entry(measure: DistributionMeasure) -> str:
    options = "; ".join(f"`{name}` ({option.default}: {option.allowed})" for name, option in measure.options.items())
    lines = [
        f"## `{measure.name}`",
        "",
        measure.text,
        "",
        f"- of {', '.join(measure.kinds)}; {measure.range}",
        f"- options: {options or 'none'}",
        f"- source: {measure.source}",
        "",
    ]
    return "\n".join(lines)
