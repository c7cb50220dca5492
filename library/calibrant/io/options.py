"""The options of reading a file; each is declared once, for readers, flags of commands and fields of forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, cast, get_args

from calibrant.core.choices import InputScale, WeightsKind
from calibrant.io.errors import Field, InvalidFileOption

# --- The formats of files, and the suffixes of their names


@dataclass(frozen=True)
class FileFormat:
    """A format: its name in messages, the suffixes of files that are read, and of files that are written."""

    name: str
    read: tuple[str, ...]
    written: tuple[str, ...] = ()


FORMATS = (
    FileFormat("CSV", (".csv", ".tsv", ".txt"), (".csv", ".csv.gz", ".tsv", ".txt")),
    FileFormat("JSON", (".json", ".jsonl", ".ndjson"), (".jsonl",)),
    FileFormat("NPZ", (".npz",), (".npz",)),
    FileFormat("NPY", (".npy",)),
    FileFormat("Parquet", (".parquet",), (".parquet",)),
    FileFormat("Arrow", (".arrow", ".feather"), (".arrow", ".feather")),
)
FORMAT_NAMES = [form.name for form in FORMATS]
#: The suffixes of files that are read, also compressed or in a ZIP archive, and of files that are written.
READ_SUFFIXES = (*(suffix for form in FORMATS for suffix in form.read), ".gz", ".bz2", ".xz", ".zst", ".zip")
WRITTEN_SUFFIXES = tuple(suffix for form in FORMATS for suffix in form.written)

# --- The options of a file

#: The fields of predictive distributions, whose columns are named as ``part=column`` by the option ``predictions``.
PARTS: tuple[Field, ...] = ("mean", "variance", "std", "quantiles", "samples", "lower", "upper")


@dataclass(frozen=True)
class FileOption:
    """How an option is written.

    Parameters
    ----------
    flag, help : str
        The flag of a command, and its description.
    read : callable
        Returns the value of what is written; its ``ValueError`` says what is accepted.
    of : {"column", "value"}
        Whether the value names columns.
    many : bool
        Whether the flag may be repeated.
    kind : {"classes", "numbers"}, optional
        The kind of predictions that the option is for; by default both.
    type : type
        The type of the flag.
    default : str or bool, optional
        What is meant if nothing is written.
    """

    flag: str
    help: str
    read: Callable[[Any], Any] = lambda written: written
    of: Literal["column", "value"] = "column"
    many: bool = False
    kind: Literal["classes", "numbers"] | None = None
    type: type = str
    default: str | bool | None = None


def _option(flag: str, help: str, *, choices: tuple[str, ...] = (), **rest: Any) -> Any:
    """Return the field of an option; the first of its ``choices``, if it has any, is the default."""

    def one_of(written: str) -> str:
        if written not in choices:
            raise ValueError(f"must be {', '.join(choices[:-1])} or {choices[-1]}")
        return written

    if choices:
        rest |= {"read": one_of, "of": "value", "default": choices[0]}
    option = FileOption(flag, help, **rest)
    return field(default=option.default, metadata={"option": option})


def _mapping(pairs: Sequence[str]) -> dict[str, int]:
    """Parse ``label=class`` pairs; a label may contain ``=`` itself."""
    mapping: dict[str, int] = {}
    for pair in pairs:
        text, _, number = pair.rpartition("=")
        if not number.isascii() or not number.isdigit() or len(number) > _LONGEST or not text:
            raise ValueError("must be label=class with a non-negative integer, such as spam=1")
        if text in mapping:
            raise ValueError("maps a label twice")
        mapping[text] = int(number)
    return mapping


def _class_names(written: str | Sequence[str]) -> tuple[str, ...]:
    from calibrant.io.texts import split_names  # which needs NumPy, as the readers do

    names = tuple(split_names(written) if isinstance(written, str) else map(str.strip, written))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise ValueError("must be different names separated by commas")
    return names


def _level(written: str | float) -> float:
    if isinstance(written, str) and (_LEVEL.fullmatch(written) is None or not float(written)):
        raise ValueError("must be a number above 0 and below 1, such as 0.9")
    return float(written)


def _levels(written: str) -> tuple[float, ...]:
    from calibrant.io.texts import number

    try:
        return tuple(map(number, written.split(",")))
    except ValueError:
        raise ValueError("must be numbers separated by commas") from None


def _encoding(name: str) -> str:
    try:
        "".encode(name)
    except (LookupError, ValueError):
        raise ValueError("must be an encoding of text in Python, such as cp1252") from None
    return name


#: A level as text, and the most digits of a class.
_LEVEL, _LONGEST = re.compile(r"0?\.[0-9]{1,12}"), 5


@dataclass(frozen=True)
class FileOptions:
    """Explicit options of reading a file, as ``OPTIONS`` describes them; what is None is inferred.

    The scale, the decimal mark and the kind of the weights are never inferred. A name in ``predictions`` may have
    wildcards, such as ``prob_*``; of predictive distributions, ``predictions`` are pairs such as ``mean=mu``.

    >>> FileOptions.read({"labels": "y", "class_names": "ham,spam", "decimal": ","})
    FileOptions(labels='y', class_names=('ham', 'spam'), decimal=',')
    """

    predictions: tuple[str, ...] | None = _option(
        "--prediction",
        "Column of P(Y=1); for several classes, repeat the option in class order, or use a wildcard such as "
        "'prob_*'. Inferred if omitted. For forecasts of a number: part=column, such as mean=mu, std=sigma, q0.05=low, "
        "lower=lo or 'samples=draw_*'.",
        read=tuple,
        many=True,
    )
    labels: str | None = _option(
        "--label", "Column of the labels, or of the outcomes with --regression; inferred if omitted."
    )
    groups: tuple[str, ...] | None = _option(
        "--group",
        "Column of group names; each group is also measured separately. Repeat the option for the combinations "
        "of several columns.",
        read=tuple,
        many=True,
    )
    weights: str | None = _option("--weight", "Column of row weights, each at least 0. None is used by its name alone.")
    weights_kind: WeightsKind = _option(  # noqa: RUF009 - a field
        "--weights-kind",
        "Meaning of the weights: importance (only ratios matter) or frequency (whole numbers, how often each row "
        "occurred). Never inferred.",
        choices=get_args(WeightsKind),
    )
    scale: InputScale = _option(  # noqa: RUF009 - a field
        "--scale",
        "Scale of the predictions: probability, percent (from 0 to 100; cells of CSV may have percent signs) or logit. "
        "Never inferred.",
        kind="classes",
        choices=get_args(InputScale),
    )
    drop_missing: bool = _option(
        "--drop-missing",
        "Leave out rows in which a prediction, a label or a weight is missing; their number is printed.",
        of="value",
        kind="classes",
        type=bool,
        default=False,
    )
    mapping: Mapping[str, int] | None = _option(
        "--map-label",
        "Map a string label to its class number, such as spam=1; repeatable.",
        read=_mapping,
        of="value",
        many=True,
        kind="classes",
    )
    class_names: tuple[str, ...] | None = _option(
        "--class-names",
        "Labels of the classes in the order of the columns, such as bird,cat,dog, with quotes as in CSV if they "
        "contain commas; for one column, the negative label, then the positive label.",
        read=_class_names,
        of="value",
        kind="classes",
    )
    pos_label: str | None = _option(
        "--pos-label", "Label of the positive class, for two classes.", of="value", kind="classes"
    )
    decimal: str = _option("--decimal", "Decimal mark of a text file: . or ,", choices=(".", ","))
    encoding: str | None = _option(
        "--encoding",
        "Encoding of a CSV file without a byte order mark, such as cp1252 or utf-16-le. Default: UTF-8.",
        read=_encoding,
        of="value",
    )
    ids: str | None = _option(
        "--id", "Column of the ids of the rows, which are joined with those of another file. Each id occurs once."
    )
    labels_from: str | None = _option(
        "--labels-from",
        "File with the labels, joined on the column of --id; its other columns can be named too.",
        of="value",
    )
    inner: bool | None = _option(
        "--inner",
        "Leave out rows whose id is not in all files; their numbers are printed. By default they are refused.",
        of="value",
        type=bool,
    )
    times: str | None = _option(
        "--time",
        "Column of times, in ISO 8601 or seconds since 1970. Each period is also measured separately. A period is "
        "an hour, day, month or year, depending on the time between the first and the last row.",
    )
    clusters: str | None = _option(
        "--cluster",
        "Column of clusters, such as patients; rows of a cluster may depend on each other, and intervals allow for it.",
    )
    features: tuple[str, ...] | None = _option(
        "--feature",
        "Column of a feature, by which the method segments tells rows apart; repeat the option for several. A column "
        "of numbers has bins, any other has categories; the command prints which. Empty cells are missing.",
        read=tuple,
        many=True,
        kind="classes",
    )
    categorical: tuple[str, ...] | None = _option(
        "--categorical",
        "Column of a --feature whose cells are categories even if they are numbers, such as codes; repeatable. A map "
        "of segments in a file says which of its features are.",
        read=tuple,
        many=True,
        kind="classes",
    )
    by: str | None = _option(
        "--by",
        "For forecasts of a number: column, such as the horizon. A map has a separate function for each value of "
        'this column. evaluate uses it with --map and for {"name": "conditional-coverage", "by": "column"}.',
        kind="numbers",
    )
    known: str | None = _option(
        "--known",
        "With --half-life: column of the times at which outcomes became known; empty if not known yet.",
        kind="numbers",
    )
    level: float | None = _option(
        "--level",
        "For forecasts of a number: level of the intervals, such as 0.9.",
        read=_level,
        of="value",
        kind="numbers",
        type=float,
    )
    levels: tuple[float, ...] | None = _option(
        "--levels",
        "For forecasts of a number: levels of the quantiles, such as 0.05,0.5,0.95; needed if the names of the "
        "columns do not contain them.",
        read=_levels,
        of="value",
        kind="numbers",
    )
    reduction: str | None = _option(
        "--reduction",
        "Reduction: the event whose probability is measured, such as binary, confidence, class:3, classwise, "
        "top:2 or canonical.",
        of="value",
        kind="classes",
    )

    @classmethod
    def read(cls, written: Mapping[str, Any], kind: Literal["classes", "numbers"] = "classes") -> Self:
        """Read the options of one kind of predictions as they are written, without None values and empty lists.

        Raises ``InvalidFileOption``.
        """
        values: dict[str, Any] = {}
        for name, option in OPTIONS.items():
            text = written.get(name)
            if text is None or text == [] or option.kind not in (None, kind):
                continue
            try:
                values[name] = option.read(text)
            except ValueError as error:
                raise InvalidFileOption(str(error), field=cast("Field", name)) from None
        return cls(**values)

    def __repr__(self) -> str:
        stated = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        return f"FileOptions({', '.join(f'{name}={value!r}' for name, value, default in stated if value != default)})"


#: The options by name, in the order of the flags.
OPTIONS: Mapping[str, FileOption] = {option.name: option.metadata["option"] for option in fields(FileOptions)}
