"""The calibrators of predictive distributions, and the document of their maps, as a page of Markdown."""

from __future__ import annotations

import calibrant
from calibrant.distributions.calibrators import DistributionMethod

_HEAD = """# Methods of distributions

Every method of `fit_distribution`, generated from the catalogue (`make reference`). With `by`, a method fits one
function for each value with at least 30 rows, and one for all others; `averaged` averages maps of all rows and maps by
value. The diagnostics have `held_out_gain`: by how much the score of new forecasts falls, by three-fold cross-fitting
on at most 5,000 rows, with its standard error; rows of the same `groups` are in one fold. There is a `warning` if it
does not fall.

## Methods
"""

_DOCUMENT = """## Map document

One JSON object. Every later version reads documents of format 1.

| Field | Meaning |
|---|---|
| `format` | 1 |
| `prediction_kind` | `regression` |
| `method` | The calibrator |
| `family` | The function; it defines `parameters` |
| `kind` | Of the forecasts that it takes: `normal`, `quantiles`, `samples` or `interval` |
| `levels` | Levels t of the quantiles, or of both ends of the interval; null for other kinds |
| `support` | Lowest and highest possible outcome, or null; quantiles of the result are clipped to it |
| `parameters` | The numbers of the family |
| `diagnostics` | Facts about the fit; not used by the function |
| `training_digest` | Optional: 32 hexadecimal digits that identify the rows of the fit |

On the scale g, `identity` or `log1p`, g(x) is x or ln(1 + x). Quantiles are linear in the level between their levels,
on the scale. Below are m the median, q_t the quantile at level t, v the variance, and Phi the standard normal
distribution function. Samples are first turned into quantiles at the 23 levels from 0.01 to 0.99 of the forecast hubs
(`conformal`: at its `levels`), linear between the order statistics.

{families}

Members are objects with `family` and `parameters`.

**Tails of `level-map`.** Below the lowest level a and above the highest: `flat` is the quantile there; `normal` is
q_a + (q_a - m) (z - z_a) / z_a on the scale, with z_a the normal score of a; constant if q_a = m.

**`conformal`.** The i-th offset belongs to the i-th pair of levels, t and 1 - t, from outside. The lower quantile falls
by it and the upper one rises, on the scale; from a mean and variance, both ends are the mean minus and plus the offset
times sqrt(v). Null is infinite. With `ties: random`, both ends are moved inwards by 1e-9 (relative if above 1) with
probability 1 - `keep`. Then each interval is widened to contain those inside it, and the median.
"""

#: Family, parameters and result.
FAMILIES = (
    ("identity", "", "the forecasts"),
    ("variance-line", "factor, offset", "variance factor v + offset"),
    (
        "variance-curve",
        "of, thresholds, heights",
        "linear between the thresholds, constant outside: the variance at v, or for `std` the standard deviation at "
        "sqrt(v)",
    ),
    (
        "location-scale",
        "shift, factor, scale",
        "g(m) + shift + factor (g(q_t) - g(m)) on the scale; for means and variances, mean + shift and factor² v",
    ),
    (
        "level-map",
        "knots, heights, levels, scale, tails",
        "quantiles at `levels`: the given one at the level Phi(z), with z linear in `heights` from the `knots`, "
        "constant outside",
    ),
    ("conformal", "levels, offsets, keep, scale, ties", "below"),
    ("by-group", "members, other", "the member of the value of `by`, or other"),
    (
        "average",
        "members, shares",
        "the mean of the quantiles, or of the means and of the standard deviations, weighted by the shares",
    ),
    ("chain", "members", "one after the other"),
)


def distribution_methods_page() -> str:
    """The page, in the order of the catalogue."""
    rows = ["| Family | Parameters | Result |", "|---|---|---|"]
    for family, parameters, result in FAMILIES:
        named = ", ".join(f"`{name}`" for name in parameters.split(", ") if name)
        rows.append(f"| `{family}` | {named} | {result} |")
    entries = [_entry(method) for method in calibrant.DISTRIBUTION_METHODS.values()]
    return "\n".join([_HEAD, *entries, _DOCUMENT.format(families="\n".join(rows))])


def _entry(method: DistributionMethod) -> str:
    options = "; ".join(f"`{name}` ({option.default}: {option.allowed})" for name, option in method.options.items())
    score = "Dawid-Sebastiani score" if method.loss == "dss" else "CRPS for means and variances, else quantile score"
    lines = [
        f"### `{method.name}`: {method.title}",
        "",
        f"{method.definition}.",
        "",
        f"- takes {', '.join(method.kinds)}; returns {method.returns}",
        f"- options: {options or 'none'}",
        f"- score of the gain: {'quantile score' if method.loss == 'quantile-score' else score}",
        f"- source: {method.source or 'none'}",
        "",
    ]
    return "\n".join(lines)
