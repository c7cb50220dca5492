"""The column names that are recognised in files, and the error codes of files, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from calibrant.io import column_names, forecast_columns
from calibrant.io.errors import TabularError

_HEAD = """# Columns and errors of files

Generated from the code of the reader (`make reference`); [files](../how-to/files.md) explains how it infers columns.

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
        "Weights": column_names.WEIGHTS,
        "Groups": column_names.GROUPS,
        "Outcomes, of regression": forecast_columns.OBSERVED,
        "Means": forecast_columns.MEAN,
        "Means, if no other column has such a name": forecast_columns.POINTS,
        "Standard deviations": forecast_columns.STD,
        "Variances": forecast_columns.VARIANCE,
        "Samples, with a number or as lists": forecast_columns.SAMPLES,
        "Quantiles as lists, and their levels": forecast_columns.QUANTILES | forecast_columns.LEVELS,
        "Level of intervals": forecast_columns.LEVEL,
    }
    names = [f"| {what} | {_listed(found)} |" for what, found in known.items()]
    errors = [f"| `{error.code}` | {(error.__doc__ or '').split(chr(10))[0]} |" for error in _leaves(TabularError)]
    return "\n".join([_HEAD, *names, _ERRORS, *errors]) + "\n"


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _leaves(base: type[TabularError]) -> Iterator[type[TabularError]]:
    for error in base.__subclasses__():
        if "code" in vars(error) and error.__module__.startswith("calibrant.io"):
            yield error
        yield from _leaves(error)
