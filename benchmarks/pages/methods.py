"""The catalogue of calibrators as a page of Markdown."""

from __future__ import annotations

from calibrant.calibrators import METHODS
from calibrant.calibrators.method import Method

_HEAD = """# Calibrators

Every method that `fit` and `POST /maps` know, made from the catalogue that also answers `GET /methods` and checks
requests (`make reference`). What each writes into its document: [the map document](map-document.md).

A method *of an event* fits a curve, under `binary`, `confidence`, `class:k`, `top:r` or `within-top:r`, and maps of
many classes are made of its curves: `classwise` has one a class (`renormalise`, true by default, divides rows by their
sum); `top-label` calibrates the largest probability, and the other classes share the rest; `ranks` has one curve for
each of the `n_ranks` (default all) largest, put back on its class, and `within-ranks` one for each sum of the r
largest. `keep_order` (default false) puts a row's calibrated numbers on the classes in the order of its predictions.
The accuracy on the rows of the fit, before and after, is in the diagnostics. A method *of the vector* maps all classes
at once, under `canonical`.

What is asked of a method that it cannot do is refused with a problem: `one-class` and `missing-class` where outcomes
are missing, `not-converged` where no optimum was reached, such as of separable data.
"""


def methods_page() -> str:
    """The page, in the order of the catalogue."""
    return "\n".join([_HEAD, *(_entry(method) for method in METHODS.values())])


def _entry(method: Method) -> str:
    of = " and ".join(
        word for word, fit in (("an event", method.event), ("the vector", method.vector)) if fit is not None
    )
    options = "; ".join(
        f"`{name}` ({_word(told['default'])}{'' if told['allowed'] is None else ': ' + told['allowed']})"
        for name, told in method.known_options().items()
    )
    traits = method.traits
    lines = [
        f"### `{method.name}`: {method.title}",
        "",
        f"{method.definition}.",
        "",
        f"- of {of}; takes {traits.takes}",
        f"- options: {options or 'none'}",
        f"- parameters: {traits.parameters}; beyond the rows of the fit: {traits.outside}",
        f"- monotone: {traits.monotone}; keeps the top label: {traits.keeps_top_label}; differentiable: "
        f"{traits.differentiable}",
        f"- fitted {'by a job' if method.runs == 'job' else 'at once'}; source: {method.source or 'none'}",
        "",
    ]
    return "\n".join(lines)


def _word(default: object) -> str:
    if default is None:
        return "null"
    return str(default).lower() if isinstance(default, bool) else str(default)
