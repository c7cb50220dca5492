"""The methods of prediction sets, and the document of their maps, as a page of Markdown."""

from __future__ import annotations

import calibrant
from benchmarks.pages.map_document import families_table
from benchmarks.pages.methods import word_of
from calibrant.sets.families import SET_FAMILIES
from calibrant.sets.fitting import SetMethod

_HEAD = """# Methods of prediction sets

Every method of `fit_sets`, generated from the catalogue behind `GET /methods?output=sets` (`make reference`). `POST
/maps` and `calibrant fit` take them as `method` too. The [guide](../how-to/prediction-sets.md) shows how to choose
one.

`conditional` is null, `class`, `cluster` or `group`: what has a threshold of its own. A threshold needs 1 / alpha - 1
rows of its class or group: 9 for alpha 0.1, and 19 for 0.05. A class with fewer is in every set, a group with fewer
has sets of all classes, with `crc` of class 1 alone; both are listed in `diagnostics["always"]`. Weights are not
supported.

## Methods
"""

_DOCUMENT = """## Map document

The document has the [fields of a map](map-document.md), with `reduction` `sets`. [Two
scripts](../how-to/apply-elsewhere.md) apply it without the library. Every later version reads documents of format 1.

A row is a vector p of K probabilities: as given, or the softmax of logits. A number is the vector (1 - p, p), or of a
logit z the logistic functions of -z and z. With `by` `all` there is one threshold; with `class` one for each class k;
with `group` one for each of `groups`, and a row names its group. A threshold of null means that the class is in every
set.

{families}

**E_k.** Sort the classes by p, largest first; of equal numbers, the lower class first. E_k is the sum of p down to
and with class k, added in this order, minus u p_k if `randomised`, plus the penalty.

**u** is the random number of the row at place i, counted from 0, for a seed s below 2^32. Modulo 2^64, and with xor
and shifts to the right as in SplitMix64:

1. x = (2^32 s + i + 1) 0x9E3779B97F4A7C15
2. x = (x xor (x >> 30)) 0xBF58476D1CE4E5B9
3. x = (x xor (x >> 27)) 0x94D049BB133111EB
4. u = ((x xor (x >> 31)) >> 11) / 2^53

Unless `allow_empty`, a set without any class gets the one with the largest p.
"""


def set_methods_page() -> str:
    """The page, in the order of the catalogue."""
    entries = [_entry(method) for method in calibrant.SET_METHODS.values()]
    return "\n".join([_HEAD, *entries, _DOCUMENT.format(families=families_table(SET_FAMILIES, "Set"))])


def _entry(method: SetMethod) -> str:
    options = "; ".join(f"`{name}` ({word_of(o.default)}: {o.allowed})" for name, o in method.options.items())
    lines = [
        f"### `{method.name}`: {method.title}",
        "",
        f"{method.definition[0].upper()}{method.definition[1:]}.",
        "",
        f"- guarantee: {method.guarantee}",
        f"- options: {options}",
        f"- source: {method.source}",
        "",
    ]
    return "\n".join(lines)
