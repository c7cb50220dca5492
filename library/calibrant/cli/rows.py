"""The input file of a command, its columns, and notes on what was inferred."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from calibrant.cli.exits import Refused
from calibrant.cli.output import STANDARD, say

if TYPE_CHECKING:
    from calibrant.io.errors import TabularError
    from calibrant.io.table import Scale, Sheet, SheetOptions

#: The option for each field of ``calibrant.io``.
_FLAGS = {
    "predictions": "--prediction",
    "labels": "--label",
    "weights": "--weight",
    "groups": "--group",
    "scale": "--scale",
    "mapping": "--map-label",
}

#: The most columns that an error suggests.
_OFFERED = 4

File = Annotated[Path, typer.Argument(help="CSV, TSV, NPZ, NPY, Parquet or Arrow file; - for standard input.")]
Label = Annotated[str | None, typer.Option("--label", help="Column of the labels; inferred if omitted.")]
Prediction = Annotated[
    list[str] | None,
    typer.Option(
        "--prediction",
        help="Column of P(Y=1); for several classes, repeat the option in class order. Inferred from column names if "
        "omitted.",
    ),
]
Group = Annotated[
    str | None, typer.Option("--group", help="Column of group names; each group is also measured separately.")
]
Weight = Annotated[str | None, typer.Option("--weight", help="Column of row weights, each at least 0.")]
ScaleName = Annotated[
    str, typer.Option("--scale", help="Scale of the predictions: probability or logit. Never inferred.")
]
MapLabel = Annotated[
    list[str] | None,
    typer.Option("--map-label", help="Map a string label to its class number, such as spam=1; repeatable."),
]


@dataclass(frozen=True)
class Columns:
    """The column options of a command."""

    prediction: Sequence[str] | None = None
    label: str | None = None
    weight: str | None = None
    group: str | None = None
    scale: str = "probability"
    map_label: Sequence[str] | None = None

    def of(self, field: str) -> Sequence[str]:
        """Return the columns given for a field of ``calibrant.io``."""
        single = {"labels": self.label, "weights": self.weight, "groups": self.group}
        return self.prediction or () if field == "predictions" else [name for name in (single.get(field),) if name]


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


def read_rows(file: Path, columns: Columns, *, labelled: bool = True, source: BinaryIO | None = None) -> Sheet:
    """Read a file and print what was inferred on standard error; raises ``Refused``.

    ``source`` is the open file, if it is already open.
    """
    if source is None:
        with source_of(file) as source:
            return read_rows(file, columns, labelled=labelled, source=source)
    from calibrant.io.errors import TabularError
    from calibrant.io.files import read_sheet

    options = sheet_options(columns)
    try:
        sheet = read_sheet(source, name=name_of(file), options=options, max_rows=None, labelled=labelled)
    except TabularError as error:
        raise Refused(_line(error, file, columns)) from error
    for sentence in sheet.notes:
        say(sentence)
    return sheet


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
        groups=columns.group,
        scale=_scale(columns.scale),
        mapping=_mapping(columns.map_label),
    )


def _line(error: TabularError, file: Path, columns: Columns | None = None) -> str:
    """Return the message for a file that cannot be read, with the options that fix it, ready to copy."""
    from calibrant.io.errors import OutOfRange
    from calibrant.io.texts import quoted

    # The message may already begin with the file name.
    message = f"{name_of(file)}: {error.detail.removeprefix(quoted(name_of(file))).lstrip()}"
    flag, offer = _FLAGS.get(error.field), error.offer
    if isinstance(error, OutOfRange):
        return f"{message} (--scale logit)"
    if offer is None or flag is None or flag in message:
        return message
    if not isinstance(offer, tuple):
        flags = " ".join(f"{_FLAGS['mapping']} {_shell(f'{text}={k}')}" for text, k in offer.items())
        return f"{message}; add {flags}"
    requested = () if columns is None else columns.of(error.field)
    if not requested:
        return f"{message}; add {' or '.join(f'{flag} {_shell(text)}' for text in offer[:_OFFERED])}"
    near = [text for name in requested if name not in offer for text in _near(name, offer)]
    return f"{message}; did you mean {' or '.join(f'{flag} {_shell(text)}' for text in near)}?" if near else message


def _near(name: str, offer: Sequence[str]) -> list[str]:
    """Return the two names most similar to ``name``, ignoring case."""
    from difflib import get_close_matches

    by_lower = {text.lower(): text for text in offer}
    return [by_lower[found] for found in get_close_matches(name.lower(), by_lower, n=2)]


def _shell(text: str) -> str:
    from shlex import quote

    return quote(text)


def name_of(file: Path) -> str:
    """Return the name of the file in messages."""
    return "standard input" if file == STANDARD else str(file)


def _scale(name: str) -> Scale:
    if name not in ("probability", "logit"):
        raise typer.BadParameter("must be probability or logit", param_hint="--scale")
    return cast("Scale", name)


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
