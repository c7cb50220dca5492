"""The column names that are recognised in files, and the error codes of files, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from calibrant.core import column_names
from calibrant.core.column_names import EITHER, OPPOSITES, PAIRS
from calibrant.io import files  # noqa: F401 - files adds all rules
from calibrant.io.errors import TabularError
from calibrant.io.rules import STEPS, Rule, rules_of

_HEAD = """# Columns and errors of files

Generated from the code of the reader (`make reference`); [files](../how-to/files.md) explains how to prepare a file.

## Rules of inference

Columns that no option names are chosen by these rules. Of the rules of one step, the first one that fits counts; those
of predictions compete, and several that fit are refused, with a complete command for each. Whatever a rule reads is
printed. Each rule is needed by a file of `tests/newcomer/files`.
"""

_RULES = """
### {step}

| Rule | Sees | Reads | Prints | File |
|---|---|---|---|---|"""

_PAIRS = """
## Pairs of labels

Of these labels, and of a label and its negation (`not fraud`), the positive one is known. Of any other two, none is
preselected or listed first for a reason.

| Negative | Positive |
|---|---|"""

_OPPOSITES = """
A column of predictions whose name has the opposite of a word in the name of the labels, such as `p_good` beside `bad`,
`p_churn` beside `not_churned` or `p_valid` beside `invalid`, is refused, with a command for each label. Opposites are
negations and these words. The words in italics are also refused beside another name, such as `p_benign` beside `y`, as
some files number these classes 1 and others 0.

| Words | Opposites |
|---|---|"""

_NAMES = """
## Names of columns

Only letters and digits count, in lower case: `Y True`, `y_true` and `yTrue` are the name `ytrue`.

| Column | Names |
|---|---|"""

_ERRORS = """
## Error codes

| Code | Meaning |
|---|---|"""


def columns_page() -> str:
    """The page: names in alphabetical order, errors in the order of the code."""
    known = {
        "Labels": column_names.LABELS,
        "Probabilities": column_names.PREDICTIONS,
        "Probabilities, if no other column has such a name": column_names.FALLBACKS,
        "Logits, with `--scale logit`": column_names.LOGITS,
        "Weights, which are noted but not used": column_names.WEIGHTS | column_names.COUNTS,
        "Groups": column_names.GROUPS,
        "Outcomes, of regression": column_names.OBSERVED,
        "Means": column_names.MEAN,
        "Means, if no other column has such a name": column_names.POINTS,
        "Standard deviations": column_names.STD,
        "Variances": column_names.VARIANCE,
        "Samples, with a number or as lists": column_names.SAMPLES,
        "Quantiles as lists, and their levels": column_names.QUANTILES | column_names.LEVELS,
        "Level of intervals": column_names.LEVEL,
    }
    names = [f"| {what} | {_listed(names_of_field)} |" for what, names_of_field in known.items()]
    rules = [line for step in STEPS for line in (_RULES.format(step=step), *map(_row, rules_of(step)))]
    errors = [f"| `{error.code}` | {(error.__doc__ or '').split(chr(10))[0]} |" for error in _leaves(TabularError)]
    pairs = [f"| `{negative}` | `{positive}` |" for negative, positive in PAIRS]
    opposites = [
        f"| {_listed(first.split(), '*' if (first, second) in EITHER else '')} | {_listed(second.split())} |"
        for first, second in OPPOSITES
    ]
    return (
        "\n".join([_HEAD.rstrip(), *rules, _PAIRS, *pairs, _OPPOSITES, *opposites, _NAMES, *names, _ERRORS, *errors])
        + "\n"
    )


def _row(rule: Rule) -> str:
    prints = f"`{rule.prints}`" if rule.prints else ""
    return f"| {rule.name} | {rule.sees} | {rule.reads} | {prints} | `{rule.file}` |"


def _listed(names: Collection[str], mark: str = "") -> str:
    return ", ".join(f"{mark}`{name}`{mark}" for name in sorted(names))


def _leaves(base: type[TabularError]) -> Iterator[type[TabularError]]:
    for error in base.__subclasses__():
        if "code" in vars(error) and error.__module__.startswith("calibrant.io"):
            yield error
        yield from _leaves(error)
