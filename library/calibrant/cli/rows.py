"""The input file of a command, its columns, and notes on what was inferred."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, TypeAlias, TypeVar, cast, get_type_hints

import typer

from calibrant.cli.exits import USAGE, Refused, current_context, has_option
from calibrant.cli.output import STANDARD, say
from calibrant.core.errors import UnknownReduction
from calibrant.io.errors import (
    DecimalComma,
    InvalidFileOption,
    InvalidForecasts,
    LabelsNeedMapping,
    MissingValue,
    NoPredictions,
    TabularError,
    UnclearColumns,
    UnclearScale,
)
from calibrant.io.options import FORMAT_NAMES, OPTIONS, PARTS, FileOptions

if TYPE_CHECKING:
    from calibrant.core.batch import Batch
    from calibrant.io.table import ForecastSheet, ModelSheets, Sheet

#: The option for each field of ``calibrant.io``.
_FLAGS = {name: option.flag for name, option in OPTIONS.items()} | dict.fromkeys(PARTS, "--prediction")
_FLAGS["observed"] = "--label"

#: Examples of options that files of forecasts may need.
_EXAMPLES = {"level": "0.9", "levels": "0.05,0.5,0.95"}
#: The most columns, and the most commands, that an error suggests.
_OFFERED, _READINGS = 4, 8

File = Annotated[Path, typer.Argument(help=f"{', '.join(FORMAT_NAMES)} or xlsx; - for standard input.")]
Regression = Annotated[
    bool,
    typer.Option(
        "--regression",
        help="The predictions are distributions of a number: columns mean with std or variance; q0.05, q0.5 and so on; "
        "lower and upper; or sample_0, sample_1 and so on.",
    ),
]
_SCALE_OF_MAP = (
    f"{OPTIONS['scale'].help} With --regression, scale of the map: identity (the default there), or log1p for counts."
)
#: The options of a file by name, as they are written.
Columns: TypeAlias = Mapping[str, Any]


def reads_a_file(
    *without: str, fits_maps: bool = False, **helps: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``columns`` of a command by the options of its file.

    ``without`` are options that the command does not have, and ``helps`` are descriptions that differ. Options that do
    not fit the kind of predictions are refused if the command has --regression; one that ``fits_maps`` has a scale for
    both.
    """

    def replaced(command: Callable[..., None]) -> Callable[..., None]:
        types, parameters = get_type_hints(command, include_extras=True), list[Parameter]()
        unused = {*without, *(["categorical"] if "features" in without else [])}
        names = [name for name in OPTIONS if name not in unused]
        described = (
            {name: OPTIONS[name].help for name in names} | ({"scale": _SCALE_OF_MAP} if fits_maps else {}) | helps
        )
        for own in signature(command).parameters.values():
            if own.name != "columns":
                parameters.append(own.replace(annotation=types[own.name]))
                continue
            for name in names:
                option = OPTIONS[name]
                value: Any = list[str] if option.many else option.type
                value = value if option.default is not None else value | None
                annotation: Any = Annotated[value, typer.Option(option.flag, help=described[name])]
                parameters.append(own.replace(name=name, default=option.default, annotation=annotation))

        @wraps(command)
        def run(**arguments: Any) -> None:
            columns = {name: arguments.pop(name) for name in names}
            if len(arguments.get("files", ())) < 2:
                check_join(columns)
            if "regression" in arguments:
                of_map = {"scale": None} if fits_maps else {}
                check_alone(regression=arguments["regression"], columns=columns | of_map)
            command(columns=columns, **arguments)

        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        setattr(run, "__signature__", Signature(parameters))  # noqa: B010 - which mypy does not know
        return run

    return replaced


def check_join(columns: Columns) -> None:
    """Raise ``BadParameter`` for options of a join without a second file, or without the column of ids."""
    needed = {"ids": "labels_from", "inner": "labels_from", "labels_from": "ids"}
    for name, other in needed.items():
        if columns.get(name) and not columns.get(other):
            raise typer.BadParameter(f"needs {_FLAGS[other]}", param_hint=_FLAGS[name])


def check_alone(*, regression: bool, columns: Columns) -> None:
    """Raise ``BadParameter`` for options of a file that do not fit the kind of predictions."""
    other, what = (
        ("classes", "cannot be combined with --regression") if regression else ("numbers", "needs --regression")
    )
    for name, option in OPTIONS.items():
        value = columns.get(name)
        if option.kind == other and value not in (None, option.default):
            raise typer.BadParameter(what, param_hint=option.flag)


def options_of(columns: Columns, kind: Literal["classes", "numbers"] = "classes") -> FileOptions:
    """Read the options of a file; raises ``BadParameter``."""
    try:
        return FileOptions.read(columns, kind)
    except InvalidFileOption as error:
        raise typer.BadParameter(error.detail, param_hint=_FLAGS[error.field]) from None


def _named(columns: Columns, field: str) -> Sequence[str]:
    """Return the columns that are named for a field of ``calibrant.io``."""
    name = {"observed": "labels"}.get(field, "predictions" if field in PARTS else field)
    named = columns.get(name) if name in OPTIONS and OPTIONS[name].of == "column" else None
    return [named] if isinstance(named, str) else named or ()


def columns_for(columns: Columns, map: object, *, needs_map: bool = True) -> Columns:
    """Return the columns with the features of a map document, and its class names, unless they are named already.

    Raises ``BadParameter`` for features that the map does not use, or without a map, unless the command needs none.
    """
    parameters = map.get("parameters") if isinstance(map, dict) and map.get("family") == "segments" else None
    if needs_map and parameters is None and columns.get("features"):
        raise typer.BadParameter("is for maps of segments", param_hint=OPTIONS["features"].flag)
    if isinstance(parameters, dict) and isinstance(features := parameters.get("features"), list):
        read = {str(feature.get("name")): "categories" in feature for feature in features if isinstance(feature, dict)}
        categorical = [name for name, is_text in read.items() if is_text]
        columns = {**columns, "features": [*read], "categorical": categorical or None}
    names = map.get("class_names") if isinstance(map, dict) else None
    if not isinstance(names, list) or any(columns.get(name) for name in ("class_names", "pos_label", "mapping")):
        return columns
    return {**columns, "class_names": tuple(str(name) for name in names)}


@contextlib.contextmanager
def source_of(file: Path) -> Iterator[BinaryIO]:
    """Open the file or standard input as a seekable stream; a pipe is copied to a temporary file."""
    from calibrant.io.limits import FileLimits
    from calibrant.io.source import blocks_of, spooled, write_blocks

    with contextlib.ExitStack() as stack:
        source = cast(BinaryIO, sys.stdin.buffer if file == STANDARD else stack.enter_context(file.open("rb")))
        if not source.seekable():
            copied = stack.enter_context(spooled())
            try:
                write_blocks(blocks_of(source), copied, FileLimits())
            except TabularError as error:
                raise Refused(_line(error, file)) from error
            source = copied
        yield source


def read_rows(
    file: Path,
    columns: Columns,
    *,
    labelled: bool | None = True,
    unused: tuple[str, ...] = (),
    source: BinaryIO | None = None,
) -> Sheet:
    """Read a file and print what was inferred on standard error; raises ``Refused``.

    ``source`` is the open file, if it is already open. Notes on fields that are ``unused`` are not printed.
    """
    from calibrant.io.files import read_sheet

    read = partial(read_sheet, options=options_of(columns), max_rows=None, labelled=labelled)
    return _read(file, columns, source, read, unused=unused)


def read_model_rows(file: Path, columns: Columns, source: BinaryIO | None = None) -> ModelSheets:
    """Read a file like ``read_rows``, in which each column of predictions is that of a model."""
    from calibrant.io.files import read_models

    return _read(file, columns, source, partial(read_models, options=options_of(columns), max_rows=None), unused=())


def read_forecast_rows(
    file: Path, columns: Columns, *, labelled: bool = True, unused: tuple[str, ...] = (), source: BinaryIO | None = None
) -> ForecastSheet:
    """Read a file of predictive distributions like ``read_rows``."""
    from calibrant.io.files import read_forecast_sheet

    read = partial(read_forecast_sheet, options=options_of(columns, "numbers"), max_rows=None, labelled=labelled)
    return _read(file, columns, source, read, unused=unused)


def batch_of(rows: Sheet) -> Batch:
    """Return the checked rows of a file; raises a ``CalibrationError``."""
    from calibrant.core.batch import read_batch

    options: dict[str, Any] = {"scale": rows.scale, "kind": rows.weights_kind, "clusters": rows.clusters}
    options |= {} if rows.features is None else {"features": rows.features}
    return read_batch(rows.predictions, rows.labels, rows.weights, **options)


Read = TypeVar("Read", "Sheet", "ModelSheets", "ForecastSheet")


def _read(
    file: Path, columns: Columns, source: BinaryIO | None, read: Callable[..., Read], *, unused: tuple[str, ...]
) -> Read:
    if source is None:
        with source_of(file) as source:
            return _read(file, columns, source, read, unused=unused)
    try:
        sheet = read(source, name=name_of(file))
    except InvalidFileOption as error:
        raise typer.BadParameter(error.detail, param_hint=_FLAGS[error.field]) from None
    except TabularError as error:
        raise refused(error, file, columns) from error
    for sentence in sheet.notes:
        if sentence.partition(": ")[0] not in unused:
            say(sentence)
    return sheet


def reduction_of(rows: Sheet, reduction: str | None) -> str | None:
    """Return ``class:k`` for ``class:NAME``, ``binary`` for class 1 of one column, and that of the file for None.

    Raises ``Refused`` for another class of one column.
    """
    from calibrant.core.inputs import reduction_by_name

    resolved = rows.reduction if reduction is None else reduction_by_name(reduction, rows.classes)
    if rows.predictions.ndim > 1 or resolved is None or not resolved.startswith("class:"):
        return resolved
    if resolved != "class:1":
        raise Refused("--reduction: must be class:1 for one column of predictions, which is that of class 1")
    return "binary"


def note_reduction(rows: Sheet, reduction: str | None) -> Sheet:
    """Add and print a note on the default reduction of two columns, which is not that of one column."""
    if reduction is not None or rows.predictions.ndim == 1 or rows.predictions.shape[1] != 2:
        return rows
    sentence = "reduction: confidence, the default for two columns; for P(Y=1) use --reduction binary"
    say(sentence)
    return replace(rows, notes=(*rows.notes, sentence))


def refuse_undecided(rows: Sheet, reduction: str | None, file: Path, columns: Columns) -> None:
    """Raise ``Refused`` with the commands for the events if no option says by which several columns are decided."""
    from calibrant.core.reductions import check_decided

    n_classes = None if rows.predictions.ndim == 1 else rows.predictions.shape[1]
    try:
        check_decided(reduction, n_classes)
    except UnknownReduction as error:
        classes = ["binary"] if n_classes == 2 else [f"class:{k}" for k in rows.classes or range(n_classes or 0)]
        readings = tuple((event,) for event in ("confidence", *classes))
        unclear = UnclearColumns(str(error), field="reduction", readings=readings)
        raise refused(unclear, file, columns) from error


def refused(error: TabularError, file: Path, columns: Columns | None = None) -> Refused:
    """Return the error of a command for a file that cannot be read, with the commands that fix it."""
    line, commands = _line(error, file, columns), _commands(error)
    if commands is None:
        return Refused(line)
    if isinstance(error, UnclearColumns | LabelsNeedMapping):
        return Refused(f"{line}:{commands}", USAGE)
    return Refused(f"{line}, or name its encoding:{commands}")


def _line(error: TabularError, file: Path, columns: Columns | None = None) -> str:
    """Return the message for a file that cannot be read, with the options that fix it, ready to copy."""
    from calibrant.io.kinds.distributions import are_of_forecasts
    from calibrant.io.texts import quoted

    # The message may already begin with the file name.
    message = f"{name_of(file)}: {error.detail.removeprefix(quoted(name_of(file))).lstrip()}"
    flag, offer = _FLAGS.get(error.field), error.offer
    if isinstance(error, UnclearScale):
        return f"{message} (--scale logit)"
    if isinstance(error, DecimalComma):
        return f"{message}; {'if commas are the decimal mark, ' if error.unclear else ''}add --decimal ,"
    if isinstance(error, MissingValue) and error.only_label is not None and _takes("--pos-label"):
        flag = "--drop-missing " if _takes("--drop-missing") else ""
        return f"{message}; add {flag}--pos-label {quote(error.only_label)}"
    if isinstance(error, MissingValue) and error.leaves_rows and _takes("--drop-missing"):
        return f"{message}; to leave these rows out, add --drop-missing"
    if isinstance(error, NoPredictions) and _takes("--regression") and are_of_forecasts(error.columns or ()):
        return f"{message}; for forecasts of a number, add --regression"
    if isinstance(error, NoPredictions) and _has("--scale"):
        together = (" ".join(f"--prediction {quote(name)}" for name in names) for names in error.logits[:_OFFERED])
        named = " or ".join(together)
        flags = "--scale logit" if columns is not None and columns["predictions"] else f"--scale logit {named}".rstrip()
        message = message.replace("for logits, set the scale to logit", f"for logits, add {flags}")
    if isinstance(error, UnclearColumns) and error.readings:
        return message
    if isinstance(error, InvalidForecasts) and error.field in _EXAMPLES and _takes(f"--{error.field}"):
        return f"{message} (--{error.field} {_EXAMPLES[error.field]})"
    if not offer or flag is None or flag in message:
        return message
    if not isinstance(offer, tuple):
        return message if _of_two(error) else f"{message}; add {_of_labels(offer)}"
    requested = () if columns is None else _named(columns, error.field)
    if not requested:
        return f"{message}; add {' or '.join(f'{flag} {quote(text)}' for text in offer[:_OFFERED])}"
    pairs = [name.rpartition("=") if error.field in PARTS else ("", "", name) for name in requested]
    near = [f"{part}{mark}{text}" for part, mark, name in pairs if name not in offer for text in _near(name, offer)]
    return f"{message}; did you mean {' or '.join(f'{flag} {quote(text)}' for text in near)}?" if near else message


def _of_labels(mapping: Mapping[str, int | None]) -> str:
    """Return the options that name the classes of these labels, in the order of the columns."""
    if not _has("--class-names"):
        pairs = (f"{text}={k}" for k, text in enumerate(mapping))
        return f"{' '.join(f'--map-label {quote(pair)}' for pair in pairs)} in the order of the columns"
    from calibrant.io.texts import join_names

    return f"--class-names {quote(join_names(list(mapping)))} in the order of the columns"


def _of_two(error: TabularError) -> tuple[str, tuple[tuple[str, ...], ...]] | None:
    """Return the option and its values for either class of one or two labels, the known positive one first, or None."""
    from calibrant.io.texts import join_names

    offer = error.offer
    if not isinstance(offer, Mapping) or len(offer) > 2:
        return None
    labels = sorted(offer, key=lambda text: -(offer[text] or 0))
    if len(labels) == 2 and isinstance(error, LabelsNeedMapping) and error.has_columns and _has("--class-names"):
        first = list(offer)
        return "--class-names", ((join_names(first),), (join_names(first[::-1]),))
    if len(labels) == 2 and _has("--pos-label"):
        return "--pos-label", tuple((text,) for text in labels)
    orders = ((1, 0), (0, 1)) if _has("--map-label") else ()
    return "--map-label", tuple(
        tuple(f"{text}={k}" for text, k in zip(labels, order, strict=False)) for order in orders
    )


def _commands(error: TabularError) -> str | None:
    """Return the complete command for each reading of a file with several, one a line; None for other errors."""
    readings: list[tuple[str, tuple[str, ...]]] = []
    if isinstance(error, UnclearColumns):
        pairs = zip(error.options, error.readings, strict=True)
        readings = [(_FLAGS.get(option, ""), values) for option, values in pairs]
    elif (of_two := _of_two(error)) is not None:
        readings = [(of_two[0], values) for values in of_two[1]]
    if error.encoding is not None and _takes("--encoding"):
        readings = [("--encoding", (error.encoding,))]
    context = current_context()
    if not readings or (context is not None and not all(_has(flag) for flag, _ in readings)):
        return None
    lines = []
    if context is not None and isinstance(error, UnclearColumns) and error.models:
        words = _words(context, without=("--prediction",), only=("file", *OPTIONS))
        models = (word for model in error.models for word in ("--prediction", model))
        command = "report" if context.info_name == "report" else "compare"
        lines.append("\n  " + shlex.join([context.command_path.split()[0], command, *words, *models]))
    for flag, values in readings[:_READINGS]:
        without = (flag, "--pos-label") if flag == "--class-names" else (flag,)
        start = [] if context is None else [command_line(context, without=without)]
        lines.append("\n  " + " ".join([*start, *(f"{flag} {quote(value)}" for value in values)]))
    rest = len(readings) - _READINGS
    return "".join(lines) + (f"\nand {rest} more" if rest > 0 else "")


def _has(flag: str) -> bool:
    """Whether the command has this option."""
    context = current_context()
    return context is not None and has_option(context, flag)


def _takes(flag: str) -> bool:
    """Whether the command has this option, and it was not given."""
    context = current_context()
    return context is not None and _has(flag) and not context.params.get(flag.removeprefix("--").replace("-", "_"))


def command_line(context: typer.Context, *, without: Sequence[str] = ()) -> str:
    """Return the command with its arguments, quoted for a shell; without environment variables such as the API key.

    ``without`` are options to leave out.
    """
    return shlex.join([*context.command_path.split(), *_words(context, without)])


def _words(context: typer.Context, without: Sequence[str] = (), only: Sequence[str] | None = None) -> Iterator[str]:
    for parameter in context.command.params:
        name = parameter.name or ""
        if only is not None and name not in only:
            continue
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or not set(parameter.opts).isdisjoint(without):
            continue
        values = context.params[name]
        for value in values if isinstance(values, list | tuple) else [values]:
            if parameter.param_type_name == "argument":
                text = str(value)
                yield f"./{text}" if text.startswith("-") and text != "-" else text
            elif value is True:
                yield parameter.opts[0]
            elif "@" not in str(value) or name != "server":  # a URL may hold a password
                yield from (parameter.opts[0], str(value))


def _near(name: str, offer: Sequence[str]) -> list[str]:
    """Return the two names most similar to ``name``, ignoring case."""
    by_lower = {text.lower(): text for text in offer}
    return [by_lower[similar] for similar in get_close_matches(name.lower(), by_lower, n=2)]


def name_of(file: Path) -> str:
    """Return the name of the file in messages."""
    return "standard input" if file == STANDARD else str(file)
