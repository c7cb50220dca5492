"""``--fail-above``: exit with 4 if a measure exceeds a bound, for CI pipelines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

import typer

from calibrant.cli.exits import ABOVE, Refused
from calibrant.cli.output import say

By = Literal["value", "debiased", "lower", "upper"]
_FLAG = "--fail-above"
_ENDS = {"lower": 0, "upper": 1}

FailAbove = Annotated[
    list[str] | None,
    typer.Option(
        _FLAG,
        help="Exit with 4 if a measure is above a bound, such as ece=0.05; repeatable. With --map, the measure after "
        "the map is compared.",
    ),
]
FailBy = Annotated[
    str,
    typer.Option(
        "--fail-by",
        help="Number that --fail-above compares with the bound: value, debiased (value if the measure has no debiased "
        "value), lower or upper. lower and upper are the ends of --interval: lower fails if the whole interval is "
        "above the bound, and upper fails unless the whole interval is below it.",
    ),
]


class Gate(NamedTuple):
    """Bounds by the key of the measure, and the number that is compared with them."""

    bounds: Mapping[str, float]
    by: By

    @classmethod
    def read(cls, bounds_given: Sequence[str] | None, by: str, *, keys: Sequence[str], interval: float | None) -> Gate:
        """Parse the bounds before anything is measured; ``keys`` are the keys of the requested measures."""
        if by not in get_args(By):
            raise typer.BadParameter(f"must be one of: {', '.join(get_args(By))}", param_hint="--fail-by")
        if by in ("lower", "upper") and interval is None:
            raise typer.BadParameter(f"{by} needs --interval", param_hint="--fail-by")
        bounds: dict[str, float] = {}
        for text in bounds_given or ():
            key, equals, number = text.rpartition("=")
            if not equals:
                raise typer.BadParameter(f"must be MEASURE=BOUND, such as {keys[0]}=0.05", param_hint=_FLAG)
            bounds[key] = _bound(number)
            if key not in keys:
                raise typer.BadParameter(f"measure is not requested; requested: {', '.join(keys)}", param_hint=_FLAG)
        return cls(bounds, cast(By, by))

    def check(self, report: Mapping[str, Any]) -> None:
        """Print every measure that is above its bound and exit with 4 if there is one; raises ``Refused``."""
        after = report.get("after")
        measures = (after or report)["measures"]
        above = False
        for key, bound in self.bounds.items():
            number, name = self._of(measures[key], key)
            if number > bound:
                above = True
                say(f"{key} is {number:.6g} ({name}{', after the map' if after else ''}), above {bound:g}")
        if above:
            raise typer.Exit(ABOVE)

    def _of(self, measure: Mapping[str, Any], key: str) -> tuple[float, str]:
        """Return the number that is compared with the bound, and its name."""
        number, name = measure["value"], "value"
        if self.by == "debiased" and measure["debiased"] is not None:
            number, name = measure["debiased"], "debiased"
        elif self.by in _ENDS:
            interval, name = measure["interval"], f"{self.by} end of the interval"
            number = None if interval is None else interval[_ENDS[self.by]]
        if number is None:
            raise Refused(f"{_FLAG} cannot compare {key}: {measure['problem'] or f'it has no {name}'}")
        return float(number), name


def _bound(text: str) -> float:
    from calibrant.io.texts import number

    try:
        bound = number(text)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise typer.BadParameter("must be measure=number, such as ece=0.05", param_hint=_FLAG)
    return bound
