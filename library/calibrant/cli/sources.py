"""Files of a folder, a pattern or an object store as the input of a command."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.output import STANDARD, bar, counted, say
from calibrant.cli.rows import Columns
from calibrant.io.options import OPTIONS

if TYPE_CHECKING:
    from calibrant.comparison.results import ComparisonReport
    from calibrant.core.results import Basis

#: The options of a file that those of a source have too, and the arguments of the functions.
_ARGUMENTS = {
    "predictions": "prediction",
    "labels": "label",
    "groups": "group",
    "weights": "weight",
    "weights_kind": "weights_kind",
    "scale": "scale",
    "reduction": "reduction",
}
#: A sign, or a word between spaces before a list, so that names and texts may contain the words.
_CONDITION = re.compile(r"(.+?)(?: *(?P<sign>!=|<=|>=|=|<|>) *| +(?P<word>not in|in) +(?=\[))(.+)")

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="For a folder, a pattern or a URL: only rows that meet all conditions, such as 'country = de', "
        "'age >= 65' or 'country in [\"de\", \"no\"]'; repeatable.",
    ),
]


def source_of(file: Path, server: str | None, where: Sequence[str] | None = None) -> str | None:
    """Return the URL, pattern or folder that a command has for a file; None for a single file.

    Raises ``BadParameter`` for a source with --server, and for a single file with --where.
    """
    text = str(file)
    url = re.match(r"(s3|gs|abfss?|file):/+", text)  # a path has lost the second slash
    if url is None and (file == STANDARD or file.is_file() or not (file.is_dir() or re.search(r"[*?\[]", text))):
        if where:
            raise typer.BadParameter("needs a folder, pattern or URL", param_hint="--where")
        return None
    if server:
        reads = "a server reads the sources that it declares; send it a file, or omit --server"
        raise typer.BadParameter(reads, param_hint="--server")
    return text if url is None else f"{url[1]}://{'/' if url[1] == 'file' else ''}{text[url.end() :]}"


def source_arguments(columns: Columns, where: Sequence[str] | None, *names: str) -> dict[str, Any]:
    """Return the arguments of a function for a source; ``names`` are the columns that it needs.

    Nothing about a source is inferred. Raises ``BadParameter`` for other options of a file.
    """
    for name, option in OPTIONS.items():
        stated = columns.get(name) not in (None, [], option.default)
        if stated and name not in _ARGUMENTS:
            raise typer.BadParameter("cannot be combined with a folder, pattern or URL", param_hint=option.flag)
        if name in names and not columns.get(name):
            raise typer.BadParameter("is needed for a folder, pattern or URL", param_hint=option.flag)
    arguments = {argument: columns[name] for name, argument in _ARGUMENTS.items() if columns.get(name) is not None}
    if len(arguments.get("group") or ()) > 1:
        raise typer.BadParameter("must be one column of a folder, pattern or URL", param_hint="--group")
    arguments["group"] = (arguments.get("group") or [None])[0]
    predictions = list(arguments["prediction"])
    arguments["prediction"] = predictions[0] if len(predictions) == 1 else predictions
    return arguments | {"where": conditions_of(where)}


def conditions_of(where: Sequence[str] | None) -> list[list[Any]]:
    """Parse the conditions of a command; raises ``BadParameter``."""
    return [_condition(text) for text in where or ()]


def _condition(text: str) -> list[Any]:
    condition = _CONDITION.fullmatch(text.strip())
    if condition is None:
        raise typer.BadParameter("must be a column, an operator and a value, such as 'age >= 65'", param_hint="--where")
    name, sign, value = condition[1], condition["sign"] or condition["word"], condition[4]
    with contextlib.suppress(ValueError):
        return [name, sign, json.loads(value, parse_constant=_not_json)]
    return [name, sign, value]


def _not_json(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity, which are text


def evaluated_source(source: str, arguments: dict[str, Any], map: Any) -> dict[str, Any]:
    """Evaluate a source, with the document of a ``map``; returns the JSON of ``POST /evaluate``."""
    from calibrant.distributed.sources import evaluate_source
    from calibrant.maps.calibration_map import load

    fitted = None if map is None else load(map)
    with bar() as shown:
        report = evaluate_source(source, map=fitted, progress=shown, **arguments)
    if report.basis is not None:
        say(_sentence(report.basis))
    return report.to_dict()


def fitted_source(
    source: str, method: str, arguments: dict[str, Any], seed: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Fit a map to a source; returns its document."""
    from calibrant.calibrators import METHODS
    from calibrant.distributed.sources import fit_source

    # Names of columns that stood among the options would replace those of the flags.
    if method in METHODS and (unknown := sorted(options.keys() - METHODS[method].known_options().keys())):
        raise typer.BadParameter(f"{unknown[0]} is no option of {method}", param_hint="--option")

    if arguments.pop("group") is not None:
        raise typer.BadParameter("cannot be combined with a folder, pattern or URL", param_hint="--group")
    with bar() as shown:
        fitted = fit_source(source, method, seed=seed, progress=shown, **arguments, **options)
    say(f"fitted {fitted.method} ({fitted.reduction})")
    return fitted.to_document()


def compared_source(
    source: str, arguments: dict[str, Any], maps: dict[str, Any] | None, **options: Any
) -> ComparisonReport:
    """Compare the models or maps of a source; a model has the name of its column."""
    from calibrant.distributed.sources import compare_source

    columns = arguments["prediction"]
    if maps is None:
        if isinstance(columns, str) or len(set(columns)) < len(columns):
            raise typer.BadParameter("must be given once for each of 2 or more models", param_hint="--prediction")
        arguments = arguments | {"prediction": {name: name for name in columns}}
    with bar() as shown:
        return compare_source(source, maps=maps, progress=shown, **arguments, **options)


def _sentence(basis: Basis) -> str:
    form = {"rows": "all rows", "distinct": "counts of distinct predictions", "tally": "a tally of 2,048 cells"}
    size = f"{counted(basis.rows)} in {counted(basis.files, 'file', 'files')} of {basis.bytes / 1e6:,.1f} MB"
    within = "" if basis.tolerance is None else f", in which a prediction moves by at most {basis.tolerance:.1g}"
    return f"read {size}; computed from {form[basis.form]}{within}"


def scored_source(source: str, out: Path, document: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Write a source with its calibrated columns."""
    from calibrant.distributed.sources import calibrate_source
    from calibrant.maps.calibration_map import load

    if out == STANDARD:
        raise typer.BadParameter("must name a new folder or prefix", param_hint="--out")
    target = re.sub(r"^(s3|gs|abfss?):/+", r"\1://", str(out))
    with bar() as shown:
        scored = calibrate_source(source, target, load(document), progress=shown, **arguments)
    say(f"wrote {counted(scored.rows)} in {counted(scored.files, 'file', 'files')} of {scored.bytes / 1e6:,.1f} MB")
