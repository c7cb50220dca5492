"""The catalogue of calibrators as a page of Markdown."""

from __future__ import annotations

import textwrap

from calibrant.calibrators import METHODS
from calibrant.calibrators.method import Method
from calibrant.calibrators.smoothing import AMOUNTS, FOLDS

_HEAD = """# Calibrators

Every method of `fit` and `POST /maps`, generated from the catalogue behind `GET /methods` (`make reference`). [Map
document](map-document.md) describes what each method stores.

A method *of an event* fits a curve, under `binary`, `confidence`, `class:k`, `top:r` or `within-top:r`. Maps of several
classes are made of such curves:

- `classwise` has one curve per class. `renormalise` (default true) divides each row by its sum.
- `top-label` calibrates the largest probability. The other classes share the rest in proportion.
- `ranks` has one curve for each of the `n_ranks` largest probabilities (default all).
- `within-ranks` has one curve for each sum of the r largest probabilities.

`keep_order` (default false) reorders the calibrated probabilities of a row so that its classes keep the order that they
had. `averaged` has this option too: its maps of events keep the order of the rows, unless it is false. The diagnostics
have the accuracy on the training rows, before and after. A method *of the vector* maps all classes at once, under
`canonical`.

A fit fails with the problem `one-class` or `missing-class` if outcomes are missing, unless a penalty on all parameters
gives an optimum (`matrix-odir`, `dirichlet-l2`, `sms`), and with `not-converged` if the optimizer finds none, for
example on separable data.
"""

_SMOOTHED = (
    "If the probability of a class is 0, and none is between 0 and 2^-52, or that of an event is below 2^-52 or above "
    "1 - 2^-52, {methods} and {last} first replace each p by (1 - a) p + a / K, with K = 2 for an event. The amount a "
    "({amounts}) is the one with the smallest log loss on held-out rows of {folds} folds; it is `smoothing` in the "
    "diagnostics."
)


def methods_page() -> str:
    """The page, in the order of the catalogue."""
    *methods, last = (f"`{method.name}`" for method in METHODS.values() if method.logarithms)
    amounts = ", ".join(f"{amount:g}" for amount in AMOUNTS)
    smoothed = _SMOOTHED.format(methods=", ".join(methods), last=last, amounts=amounts, folds=FOLDS)
    head = [_HEAD, textwrap.fill(smoothed, 120, break_on_hyphens=False), "\n## Methods\n"]
    return "\n".join([*head, *(_entry(method) for method in METHODS.values())])


def _entry(method: Method) -> str:
    of = " and ".join(
        word
        for word, fit in (
            ("an event", method.event),
            ("the vector", method.vector),
            ("an event with features", method.featured),
        )
        if fit is not None
    )
    options = "; ".join(
        f"`{name}` ({word_of(option['default'])}{'' if option['allowed'] is None else ': ' + option['allowed']})"
        for name, option in method.known_options().items()
    )
    traits = method.traits
    formulas = "; or ".join(f"`{function.family}`, {function.marked_formula()}" for function in method.maps)
    lines = [
        f"### `{method.name}`: {method.title}",
        "",
        f"{method.definition.rstrip('.')}.",
        "",
        f"- of {of}; takes {traits.takes}",
        f"- options: {options or 'none'}",
        f"- map: {formulas}",
        f"- parameters: {method.parameters}; outside the range of the training rows: {traits.outside}",
        f"- monotone: {traits.monotone}; keeps the top label: {traits.keeps_top_label}; differentiable: "
        f"{traits.differentiable}",
        f"- fitted {'by a job' if method.runs == 'job' else 'at once'}; source: {method.source or 'none'}",
        "",
    ]
    return "\n".join(lines)


def word_of(default: object) -> str:
    if default is None:
        return "null"
    return str(default).lower() if isinstance(default, bool) else str(default)
