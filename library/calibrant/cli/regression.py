"""The commands for files of predictive distributions: ``--regression``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.exits import Refused

if TYPE_CHECKING:
    from calibrant.distributions.maps.distribution_map import DistributionMap, Support

FAN_TIME = "With --regression: column of times, the x axis of the fan chart; numbers or ISO 8601."
SupportOf = Annotated[
    str | None,
    typer.Option(
        "--support",
        help="With --regression: lowest and highest possible outcome, such as '0,100'; either may be omitted, as in "
        "'0,' for counts. Quantiles are clipped to this range.",
    ),
]


def read_distribution_map(document: Mapping[str, Any] | str) -> DistributionMap:
    """Read a map of predictive distributions; raises ``Refused`` for a map of classifiers."""
    from calibrant.distributions.maps.distribution_map import load_distribution
    from calibrant.kinds import is_of_distributions

    if not is_of_distributions(document):
        raise Refused("the map is one of class probabilities; omit --regression")
    return load_distribution(document)


def map_for(applied: str | Mapping[str, Any] | None) -> DistributionMap | str | None:
    """Return a map as the engine takes it: the reference on a server, or the map itself."""
    if applied is None or isinstance(applied, str):
        return applied
    return read_distribution_map(applied)


def read_support(support: str | None) -> Support:
    """Parse ``--support``: two numbers separated by a comma, of which one can be missing."""
    if support is None:
        return (None, None)
    from calibrant.io.texts import number

    try:
        low, high = (None if not text.strip() else number(text) for text in support.split(","))
    except ValueError:
        raise typer.BadParameter("must be two numbers or one, such as 0,100 or 0,", param_hint="--support") from None
    return low, high
