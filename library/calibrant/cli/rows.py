"""The input file of a command, its columns, and notes on what was inferred."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeVar, cast

import typer

from calibrant.cli.exits import USAGE, Refused, current_context, has_option
from calibrant.cli.output import STANDARD, say

if TYPE_CHECKING:
    from calibrant.core.cells import WeightsKind
    from calibrant.io.errors import TabularError
    from calibrant.io.table import ForecastOptions, ForecastSheet, Scale, Sheet, SheetOptions

#: The fields of ``calibrant.io`` that are parts of forecasts, whose columns are given as part=column.
_PARTS = ("mean", "variance", "std", "quantiles", "samples", "lower", "upper")
#: The option for each field of ``calibrant.io``.
_FLAGS = {
    "predictions": "--prediction",
    "labels": "--label",
    "weights": "--weight",
    "weights_kind": "--weights-kind",
    "groups": "--group",
    "times": "--time",
    "scale": "--scale",
    "mapping": "--map-label",
    "pos_label": "--pos-label",
    "reduction": "--reduction",
    "observed": "--label",
    **dict.fromkeys(_PARTS, "--prediction"),
    "levels": "--levels",
    "level": "--level",
    "clusters": "--cluster",
    "by": "--by",
    "known": "--known",
}

#: Examples of options that files of forecasts may need.
_EXAMPLES = {"level": "0.9", "levels": "0.05,0.5,0.95"}
#: The most columns, and the most commands, that an error suggests.
_OFFERED, _READINGS = 4, 8

File = Annotated[Path, typer.Argument(help="CSV, TSV, JSON, NPZ, NPY, Parquet, Arrow or xlsx; - for standard input.")]
Label = Annotated[
    str | None,
    typer.Option("--label", help="Column of the labels, or of the outcomes with --regression; inferred if omitted."),
]
Prediction = Annotated[
    list[str] | None,
    typer.Option(
        "--prediction",
        help="Column of P(Y=1); for several classes, repeat the option in class order, or use a wildcard such as "
        "'prob_*'. Inferred if omitted. For forecasts of a number: part=column, such as mean=mu, std=sigma, q0.05=low, "
        "lower=lo or 'samples=draw_*'.",
    ),
]
Regression = Annotated[
    bool,
    typer.Option(
        "--regression",
        help="The predictions are distributions of a number: columns mean with std or variance; q0.05, q0.5 and so on; "
        "lower and upper; or sample_0, sample_1 and so on.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", help="With --regression: column of clusters; rows of a cluster may depend on each other."
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        help="For forecasts of a number: column, such as the horizon. A map has a separate function for each value of "
        'this column. evaluate uses it with --map and for {"name": "conditional-coverage", "by": "column"}.',
    ),
]
Level = Annotated[
    float | None, typer.Option("--level", help="For forecasts of a number: level of the intervals, such as 0.9.")
]
Levels = Annotated[
    str | None,
    typer.Option(
        "--levels",
        help="For forecasts of a number: levels of the quantiles, such as 0.05,0.5,0.95; needed if the names of the "
        "columns do not contain them.",
    ),
]
Group = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        help="Column of group names; each group is also measured separately. Repeat the option for the combinations "
        "of several columns.",
    ),
]
Weight = Annotated[
    str | None, typer.Option("--weight", help="Column of row weights, each at least 0. None is used by its name alone.")
]
WeightsKindName = Annotated[
    str,
    typer.Option(
        "--weights-kind",
        help="Meaning of the weights: importance (only ratios matter) or frequency (whole numbers, how often each row "
        "occurred). Never inferred.",
    ),
]
ScaleName = Annotated[
    str, typer.Option("--scale", help="Scale of the predictions: probability or logit. Never inferred.")
]
FitScale = Annotated[
    str,
    typer.Option(
        "--scale",
        help="Scale of the predictions: probability or logit. Never inferred. With --regression, scale of the map: "
        "identity (the default there), or log1p for counts.",
    ),
]
MapLabel = Annotated[
    list[str] | None,
    typer.Option("--map-label", help="Map a string label to its class number, such as spam=1; repeatable."),
]
ClassNames = Annotated[
    str | None,
    typer.Option(
        "--class-names",
        help="Labels of the classes in the order of the columns, such as bird,cat,dog, with quotes as in CSV if they "
        "contain commas; for one column, the negative label, then the positive label.",
    ),
]
PosLabel = Annotated[str | None, typer.Option("--pos-label", help="Label of the positive class, for two classes.")]
Decimal = Annotated[str, typer.Option("--decimal", help="Decimal mark of a text file: . or ,")]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="Encoding of a CSV file without a byte order mark, such as cp1252 or utf-16-le. Default: UTF-8.",
    ),
]


@dataclass(frozen=True)
class Columns:
    """The column options of a command."""

    prediction: Sequence[str] | None = None
    label: str | None = None
    weight: str | None = None
    group: Sequence[str] | None = None
    scale: str = "probability"
    map_label: Sequence[str] | None = None
    class_names: str | Sequence[str] | None = None
    pos_label: str | None = None
    decimal: str = "."
    time: str | None = None
    cluster: str | None = None
    by: str | None = None
    level: float | None = None
    levels: str | None = None
    encoding: str | None = None
    known: str | None = None
    reduction: str | None = None
    weights_kind: str = "importance"

    def of(self, field: str) -> Sequence[str]:
        """Return the columns given for a field of ``calibrant.io``."""
        single = {"labels": self.label, "weights": self.weight, "times": self.time}
        single |= {"observed": self.label, "clusters": self.cluster, "by": self.by, "known": self.known}
        if field in single:
            return [name for name in (single[field],) if name]
        if field == "groups":
            return self.group or ()
        return self.prediction or () if _FLAGS.get(field) == "--prediction" else ()


def columns_for(columns: Columns, map: object) -> Columns:
    """Return the columns with the class names of a map document, unless the classes are named already."""
    names = map.get("class_names") if isinstance(map, dict) else None
    if not isinstance(names, list) or columns.class_names or columns.pos_label or columns.map_label:
        return columns
    return replace(columns, class_names=tuple(str(name) for name in names))


@contextlib.contextmanager
def source_of(file: Path) -> Iterator[BinaryIO]:
    """Open the file or standard input as a seekable stream; a pipe is copied to a temporary file."""
    from calibrant.io.errors import TabularError
    from calibrant.io.limits import FileLimits
    from calibrant.io.source import blocks_of, spooled, write_blocks

    with contextlib.ExitStack() as stack:
        source = cast(BinaryIO, sys.stdin.buffer if file == STANDARD else stack.enter_context(file.open("rb")))
        if not source.seekable():
            kept = stack.enter_context(spooled())
            try:
                write_blocks(blocks_of(source), kept, FileLimits())
            except TabularError as error:
                raise Refused(_line(error, file)) from error
            source = kept
        yield source


def read_rows(
    file: Path, columns: Columns, *, labelled: bool = True, unused: tuple[str, ...] = (), source: BinaryIO | None = None
) -> Sheet:
    """Read a file and print what was inferred on standard error; raises ``Refused``.

    ``source`` is the open file, if it is already open. Notes on fields that are ``unused`` are not printed.
    """
    from calibrant.io.files import read_sheet

    options = sheet_options(columns)
    read = partial(read_sheet, options=options, max_rows=None, labelled=labelled)
    return _read(file, columns, source, read, unused=unused)


def read_forecast_rows(
    file: Path, columns: Columns, *, labelled: bool = True, unused: tuple[str, ...] = (), source: BinaryIO | None = None
) -> ForecastSheet:
    """Read a file of predictive distributions like ``read_rows``."""
    from calibrant.io.files import read_forecast_sheet

    options = forecast_options(columns)
    read = partial(read_forecast_sheet, options=options, max_rows=None, labelled=labelled)
    return _read(file, columns, source, read, unused=unused)


Read = TypeVar("Read", "Sheet", "ForecastSheet")


def _read(
    file: Path, columns: Columns, source: BinaryIO | None, read: Callable[..., Read], *, unused: tuple[str, ...]
) -> Read:
    if source is None:
        with source_of(file) as source:
            return _read(file, columns, source, read, unused=unused)
    from calibrant.io.errors import TabularError

    try:
        sheet = read(source, name=name_of(file))
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

    found = rows.reduction if reduction is None else reduction_by_name(reduction, rows.classes)
    if rows.predictions.ndim > 1 or found is None or not found.startswith("class:"):
        return found
    if found != "class:1":
        raise Refused("--reduction: must be class:1 for one column of predictions, which is that of class 1")
    return "binary"


def note_reduction(rows: Sheet, reduction: str | None) -> Sheet:
    """Add and print a note on the default reduction of two columns, which is not that of one column."""
    if reduction is not None or rows.predictions.ndim == 1 or rows.predictions.shape[1] != 2:
        return rows
    sentence = "reduction: confidence, the default for two columns; for P(Y=1) use --reduction binary"
    say(sentence)
    return replace(rows, notes=(*rows.notes, sentence))


def sheet_options(columns: Columns) -> SheetOptions:
    """Convert the options to those of ``calibrant.io``; raises ``BadParameter``."""
    from calibrant.io.table import SheetOptions

    return SheetOptions(
        predictions=tuple(columns.prediction) if columns.prediction else None,
        labels=columns.label,
        weights=columns.weight,
        groups=tuple(columns.group) if columns.group else None,
        scale=_scale(columns.scale),
        mapping=_mapping(columns.map_label),
        class_names=_class_names(columns.class_names),
        pos_label=columns.pos_label,
        times=columns.time,
        decimal=_decimal(columns.decimal),
        encoding=read_encoding(columns.encoding),
        reduction=columns.reduction,
        weights_kind=_weights_kind(columns.weights_kind),
    )


def forecast_options(columns: Columns) -> ForecastOptions:
    """Convert the options to those of ``calibrant.io`` for predictive distributions; raises ``BadParameter``."""
    from calibrant.io.table import ForecastOptions

    return ForecastOptions(
        observed=columns.label,
        forecasts=_parts(columns.prediction),
        weights=columns.weight,
        groups=tuple(columns.group) if columns.group else None,
        clusters=columns.cluster,
        by=columns.by,
        times=columns.time,
        known=columns.known,
        levels=_numbers(columns.levels),
        level=columns.level,
        decimal=_decimal(columns.decimal),
        encoding=read_encoding(columns.encoding),
        weights_kind=_weights_kind(columns.weights_kind),
    )


def _parts(pairs: Sequence[str] | None) -> dict[str, str] | None:
    """Parse ``part=column`` pairs."""
    if not pairs:
        return None
    parts = {name: column for name, mark, column in (pair.partition("=") for pair in pairs) if mark and column}
    if len(parts) < len(pairs):
        raise typer.BadParameter(
            "must be different part=column with --regression, such as mean=mu", param_hint="--prediction"
        )
    return parts


def _numbers(given: str | None) -> tuple[float, ...] | None:
    """Parse numbers separated by commas."""
    if given is None:
        return None
    from calibrant.io.texts import number

    try:
        return tuple(number(text) for text in given.split(","))
    except ValueError:
        raise typer.BadParameter("must be numbers separated by commas", param_hint="--levels") from None


def refused(error: TabularError, file: Path, columns: Columns | None = None) -> Refused:
    """Return the error of a command for a file that cannot be read, with the commands that fix it."""
    from calibrant.io.errors import LabelsNeedMapping, UnclearColumns

    line, commands = _line(error, file, columns), _commands(error)
    if commands is None:
        return Refused(line)
    if isinstance(error, UnclearColumns | LabelsNeedMapping):
        return Refused(f"{line}:{commands}", USAGE)
    return Refused(f"{line}, or name its encoding:{commands}")


def _line(error: TabularError, file: Path, columns: Columns | None = None) -> str:
    """Return the message for a file that cannot be read, with the options that fix it, ready to copy."""
    from calibrant.io.errors import DecimalComma, InvalidForecasts, NoPredictions, OutOfRange, UnclearColumns
    from calibrant.io.forecast_columns import are_of_forecasts
    from calibrant.io.texts import quoted

    # The message may already begin with the file name.
    message = f"{name_of(file)}: {error.detail.removeprefix(quoted(name_of(file))).lstrip()}"
    flag, offer = _FLAGS.get(error.field), error.offer
    if isinstance(error, OutOfRange):
        return f"{message} (--scale logit)"
    if isinstance(error, DecimalComma):
        return f"{message}; add --decimal ,"
    if isinstance(error, NoPredictions) and _takes("--regression") and are_of_forecasts(error.columns or ()):
        return f"{message}; for forecasts of a number, add --regression"
    if isinstance(error, NoPredictions) and _has("--scale"):
        together = (" ".join(f"--prediction {_shell(name)}" for name in names) for names in error.logits[:_OFFERED])
        named = " or ".join(together)
        flags = "--scale logit" if columns is not None and columns.prediction else f"--scale logit {named}".rstrip()
        message = message.replace("for logits, set the scale to logit", f"for logits, add {flags}")
    if isinstance(error, UnclearColumns) and error.readings:
        return message
    if isinstance(error, InvalidForecasts) and error.field in _EXAMPLES and _takes(f"--{error.field}"):
        return f"{message} (--{error.field} {_EXAMPLES[error.field]})"
    if not offer or flag is None or flag in message:
        return message
    if not isinstance(offer, tuple):
        return message if _of_two(error) else f"{message}; add {_of_labels(offer)}"
    requested = () if columns is None else columns.of(error.field)
    if not requested:
        return f"{message}; add {' or '.join(f'{flag} {_shell(text)}' for text in offer[:_OFFERED])}"
    pairs = [name.rpartition("=") if error.field in _PARTS else ("", "", name) for name in requested]
    near = [f"{part}{mark}{text}" for part, mark, name in pairs if name not in offer for text in _near(name, offer)]
    return f"{message}; did you mean {' or '.join(f'{flag} {_shell(text)}' for text in near)}?" if near else message


def _of_labels(mapping: Mapping[str, int | None]) -> str:
    """Return the options that name the classes of these labels, in the order of the columns."""
    if not _has("--class-names"):
        pairs = (f"{text}={k}" for k, text in enumerate(mapping))
        return f"{' '.join(f'--map-label {_shell(pair)}' for pair in pairs)} in the order of the columns"
    from calibrant.io.texts import join_names

    return f"--class-names {_shell(join_names(list(mapping)))} in the order of the columns"


def _of_two(error: TabularError) -> tuple[str, tuple[tuple[str, ...], ...]] | None:
    """Return the option and its values for either class of one or two labels, the known positive one first, or None."""
    from calibrant.io.errors import LabelsNeedMapping
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
    from calibrant.io.errors import UnclearColumns

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
    for flag, values in readings[:_READINGS]:
        without = (flag, "--pos-label") if flag == "--class-names" else (flag,)
        start = [] if context is None else [command_line(context, without=without)]
        lines.append("\n  " + " ".join([*start, *(f"{flag} {_shell(value)}" for value in values)]))
    rest = len(readings) - len(lines)
    return "".join(lines) + (f"\nand {rest} more" if rest else "")


def _has(flag: str) -> bool:
    """Whether the command has this option."""
    context = current_context()
    return context is not None and has_option(context, flag)


def _takes(flag: str) -> bool:
    """Whether the command has this option, and it was not given."""
    context = current_context()
    return context is not None and _has(flag) and not context.params.get(flag.removeprefix("--"))


def command_line(context: typer.Context, *, without: Sequence[str] = ()) -> str:
    """Return the command with its arguments, quoted for a shell; without environment variables such as the API key.

    ``without`` are options to leave out.
    """
    return shlex.join([*context.command_path.split(), *_words(context, without)])


def _words(context: typer.Context, without: Sequence[str]) -> Iterator[str]:
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or not set(parameter.opts).isdisjoint(without):
            continue
        given = context.params[name]
        for value in given if isinstance(given, list | tuple) else [given]:
            if parameter.param_type_name == "argument":
                text = str(value)
                yield f"./{text}" if text.startswith("-") and text != "-" else text
            elif value is True:
                yield parameter.opts[0]
            elif "@" not in str(value) or name != "server":  # a URL may hold a password
                yield from (parameter.opts[0], str(value))


def _near(name: str, offer: Sequence[str]) -> list[str]:
    """Return the two names most similar to ``name``, ignoring case."""
    from difflib import get_close_matches

    by_lower = {text.lower(): text for text in offer}
    return [by_lower[found] for found in get_close_matches(name.lower(), by_lower, n=2)]


def _shell(text: str) -> str:
    return shlex.quote(text)


def name_of(file: Path) -> str:
    """Return the name of the file in messages."""
    return "standard input" if file == STANDARD else str(file)


def _scale(name: str) -> Scale:
    if name not in ("probability", "logit"):
        raise typer.BadParameter("must be probability or logit", param_hint="--scale")
    return cast("Scale", name)


def _weights_kind(name: str) -> WeightsKind:
    if name not in ("importance", "frequency"):
        raise typer.BadParameter("must be importance or frequency", param_hint="--weights-kind")
    return cast("WeightsKind", name)


def _mapping(pairs: Sequence[str] | None) -> dict[str, int] | None:
    """Parse ``label=class`` pairs; a label may contain ``=`` itself."""
    if not pairs:
        return None
    mapping: dict[str, int] = {}
    for pair in pairs:
        text, _, number = pair.rpartition("=")
        if not number.isascii() or not number.isdigit() or not text:
            raise typer.BadParameter("must be label=class, such as spam=1", param_hint="--map-label")
        if text in mapping:
            raise typer.BadParameter("maps a label twice", param_hint="--map-label")
        mapping[text] = int(number)
    return mapping


def _class_names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Parse names separated by commas, quoted as in CSV."""
    if given is None:
        return None
    from calibrant.io.texts import split_names

    names = tuple(split_names(given) if isinstance(given, str) else map(str.strip, given))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise typer.BadParameter("must be different names separated by commas", param_hint="--class-names")
    return names


def read_encoding(name: str | None) -> str | None:
    """Return the name of an encoding; raises ``BadParameter`` unless it is one of text."""
    try:
        "".encode(name or "utf-8")
    except (LookupError, ValueError):
        raise typer.BadParameter(
            "must be an encoding of text in Python, such as cp1252", param_hint="--encoding"
        ) from None
    return name


def _decimal(mark: str) -> str:
    if mark not in (".", ","):
        raise typer.BadParameter("must be . or ,", param_hint="--decimal")
    return mark
