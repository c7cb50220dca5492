"""The calibrators of predictive distributions, and the document of their maps, as a page of Markdown."""

from __future__ import annotations

import calibrant
from benchmarks.pages.map_document import families_table
from calibrant.distributions.calibrators import DistributionMethod
from calibrant.distributions.maps.combined import FAMILIES

_HEAD = """# Methods of distributions

Every method of `fit_distribution`, generated from the catalogue (`make reference`). With `by`, a method fits one
function for each value with at least 30 rows, and one for all others; `averaged` averages maps of all rows and maps by
value. The diagnostics have `held_out_gain`: by how much the score of new forecasts falls, by three-fold cross-fitting
on at most 5,000 rows, with its standard error; rows of the same `groups` are in one fold. There is a `warning` if it
does not fall.

## Methods
"""

_DOCUMENT = """## Map document

One JSON object, which [two scripts](../how-to/apply-elsewhere.md) apply without the library. Every later version reads
documents of format 1.

| Field | Meaning |
|---|---|
| `format` | 1 |
| `prediction_kind` | `regression` |
| `method` | The calibrator |
| `family` | The function; it defines `parameters` |
| `kind` | Of the forecasts that it takes: `normal`, `quantiles`, `samples` or `interval` |
| `levels` | Levels t of the quantiles, or of both ends of the interval, as forecasts must have; null for other kinds |
| `support` | Lowest and highest possible outcome, each null without a bound; quantiles of the result are clipped |
| `parameters` | The numbers of the family |
| `diagnostics` | Facts about the fit; not used by the function |
| `training_digest` | Optional: 32 hexadecimal digits that identify the rows of the fit |

Both ends of an interval are quantiles, and stay an interval. Quantiles that fall by at most 1e-6 of the larger size are
replaced by the largest so far; those that cross by more are refused. S samples first become quantiles at the levels
0.01, 0.025, 0.05, 0.1, 0.15 and so on to 0.95, 0.975, 0.99 (`conformal`: at its `levels`): in ascending order and
counted from 0, the quantile at t is at the place (S - 1) t, linear between its neighbours.

On the scale g, `identity` or `log1p`, g(x) is x or ln(1 + x), with x above -1. On the scale, quantiles are linear in
the level between their levels, and constant outside. Below are m the median, q_t the quantile at level t, v the
variance, and Phi the standard normal distribution function.

{families}

Members are objects with `family` and `parameters`. Variances of `variance-line` and `variance-curve` are clipped to
[1e-300, 1e300].

**Tails of `level-map`.** Below the lowest level a and above the highest: `flat` is the quantile there; `normal` is
q_a + (q_a - m) (z - z_a) / z_a on the scale, with Phi(z_a) = a; constant if q_a = m or a = 1/2.

**`conformal`.** The i-th offset belongs to the i-th pair of levels, t and 1 - t, from outside; a median stays.

1. The lower quantile falls by the offset and the upper one rises, on the scale. From a mean and variance, both ends are
   the mean minus and plus the offset times sqrt(v), and the median is the mean. Null is infinite: the ends are
   -infinity and infinity, on any scale.
2. With `ties: random`, both ends of a pair, if finite, are moved inwards by 1e-9 max(1, |end|) with probability
   1 - `keep` of the pair.
3. Without a median, if the ends of the innermost pair have crossed, both become their mean.
4. From inside to outside, each interval is widened to contain those inside it, and the median.
"""


def distribution_methods_page() -> str:
    """The page, in the order of the catalogue."""
    entries = [_entry(method) for method in calibrant.DISTRIBUTION_METHODS.values()]
    return "\n".join([_HEAD, *entries, _DOCUMENT.format(families=families_table(FAMILIES, "Result"))])


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
