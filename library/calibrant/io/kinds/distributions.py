"""Files of predictive distributions: the choice of the columns, by the options or else by the rules, and the sheet."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import escape
from typing import Any, cast, get_args

import numpy as np

from calibrant.core.column_names import (
    LEVEL,
    LEVELS,
    LONG,
    MEAN,
    OBSERVED,
    POINTS,
    QUANTILES,
    SAMPLES,
    STD,
    VARIANCE,
    common_start,
    prefix,
    word,
)
from calibrant.core.errors import CalibrationError, CrossingQuantiles
from calibrant.distributions.forecasts import FIELDS, Forecasts, read_forecasts
from calibrant.io.cells import all_missing, check_lengths, groups_of_rows, names_at
from calibrant.io.errors import (
    DuplicateColumns,
    Field,
    InvalidFileOption,
    InvalidForecasts,
    MissingValue,
    NoLabelColumn,
    NoPredictions,
    TabularError,
    UnclearColumns,
    UnmatchedArrays,
)
from calibrant.io.limits import FileLimits
from calibrant.io.options import PARTS, FileOptions
from calibrant.io.rules import MAX_OFFERED, Choice, named, rule, rules_of
from calibrant.io.table import Column, ColumnPlaces, Floats, ForecastSheet, OpenTable, cells_at
from calibrant.io.texts import (
    DecimalCommas,
    is_number,
    lacks_number,
    listed,
    number_or_nan,
    plain,
    quoted,
    refusal,
    span,
)

# --- Rules: each returns the readings of a table

# Stems do not end with a separator and numbers are bounded, so that the time is linear in the length of a name.
_LEVEL = re.compile(
    r"(?:(?P<stem>.*[ _.\-])?(?:q|quantile|quant|tau|p|pct|percentile)(?:[ _\-]|\.(?=\d*\.))?|)"
    r"(?P<number>\d{0,20}\.?\d{1,20})%?",
    re.IGNORECASE | re.ASCII,
)
_END = re.compile(
    r"(?P<stem>|.*?[^ _.\-])[ _.\-]*(?:(?P<low>lower|low|lo|lwr)|(?P<high>upper|high|hi|upr))(?:[ _.\-]?bound)?"
    r"[ _.\-]*(?P<number>\d{0,2}\.?\d*)%?",
    re.IGNORECASE | re.ASCII,
)
_SAMPLE = re.compile(r"(?P<stem>|.*?[^ _.\-\[(])[ _.\-\[(]*(?P<number>\d{1,6})[\])]?", re.ASCII)

#: A percentage of levels, such as q5 and q95, has a number of at least this; q1, q2 and q3 are rather quartiles.
_PERCENT = 50.0


@dataclass(frozen=True)
class _Reading:
    """Columns that form a predictive distribution, and the levels in their names or in the options."""

    columns: Mapping[Field, tuple[int, ...]]
    levels: tuple[float, ...] | None = None
    level: float | None = None


def are_of_forecasts(names: Sequence[str]) -> bool:
    """Whether names of columns are those of forecasts of a number, such as mean and std, or q0.05 and q0.95.

    >>> are_of_forecasts(["y", "mean", "std"]), are_of_forecasts(["y", "age", "income"])
    (True, False)
    """
    choice = Choice([Column(name, ("0",)) for name in names], FileOptions())
    readings = [reading for row in rules_of("Predictive distributions") for reading in row.find(choice)]
    return any(sum(map(len, reading.columns.values())) > 1 for reading in readings)


#: What is printed of each part of a distribution.
_PART = "{field}: {columns}{levels} (inferred from {their})"


_OUTCOME, _READ = "A column with a name of labels or of outcomes", "the outcome of each row"
named("Outcomes, of regression", "outcome-name", OBSERVED, _OUTCOME, _READ, "mean_and_spread.csv")


@rule("Predictive distributions", "mean_and_spread.csv", _PART)
def _mean_and_spread(choice: Choice) -> list[_Reading]:
    """A column with a name of means, and one with a name of standard deviations or variances: the moments."""
    means = _numbers(choice, MEAN) or _numbers(choice, POINTS)
    spreads: list[tuple[Field, int]] = [("std", at) for at in _numbers(choice, STD)]
    spreads += [("variance", at) for at in _numbers(choice, VARIANCE)]
    pairs = [(mean, field, at) for mean in means for field, at in spreads]
    alike = [pair for pair in pairs if prefix(choice.names[pair[0]]) == prefix(choice.names[pair[2]])]
    return [_Reading({"mean": (mean,), field: (at,)}) for mean, field, at in alike or pairs]


@rule("Predictive distributions", "quantiles.csv", _PART)
def _quantile_columns(choice: Choice) -> list[_Reading]:
    """Columns such as `q0.05` and `q0.95`, or `median` beside them: quantiles at these levels; `q01` and `q09` are
    refused, as they can be 1 % and 9 % or 0.1 and 0.9.
    """
    readings = []
    for stem, of in _stems(choice, _LEVEL).items():
        places = [at for at in of if choice.columns[at].width == 1 and not choice.names[at].isdigit()]
        medians = _numbers(choice, frozenset(("median", f"{word(stem)}median")))
        for levels in _levels([of[at] for at in places]):
            pairs = [*zip(places, levels, strict=True)]
            pairs += [(medians[0], 0.5)] if medians and 0.5 not in levels else []
            for level in levels:
                names = [choice.names[at] for at, other in pairs if other == level]
                if len(names) > 1:
                    same = f"{listed(names)} are quantiles at the same level"
                    raise DuplicateColumns(f"{same}; remove or rename all but one")
            readings.append(_by_level(pairs))
    return readings


@rule("Predictive distributions", "quantile_lists.npz", _PART)
def _quantile_lists(choice: Choice) -> list[_Reading]:
    """A column of lists with a name of quantiles: quantiles, at the levels of a column `levels` if there is one."""
    levels = choice.called(LEVELS)
    more: dict[Field, tuple[int, ...]] = {"levels": (levels[0],)} if len(levels) == 1 else {}
    return [_Reading({"quantiles": (at,), **more}) for at in _lists(choice, QUANTILES)]


@rule("Predictive distributions", "samples.csv", _PART)
def _sample_columns(choice: Choice) -> list[_Reading]:
    """Columns such as `sample_0` and `sample_1`: samples, in the order of the numbers."""
    families = [of for stem, of in _stems(choice, _SAMPLE).items() if word(stem) in SAMPLES and len(of) > 1]
    return [_Reading({"samples": tuple(sorted(of, key=lambda at: int(of[at])))}) for of in families]


@rule("Predictive distributions", "sample_lists.jsonl", _PART)
def _sample_lists(choice: Choice) -> list[_Reading]:
    """A column of lists with a name of samples: samples."""
    return [_Reading({"samples": (at,)}) for at in _lists(choice, SAMPLES)]


@rule("Predictive distributions", "interval.csv", _PART)
def _interval(choice: Choice) -> list[_Reading]:
    """Columns such as `lower` and `upper`, or `lo-90` and `hi-90`: the ends of intervals; the level of `lo-10` is to be
    set, as it can be 10 % or 90 %.
    """
    ends: dict[tuple[str, str], dict[str, int]] = {}
    for at, name in enumerate(choice.names):
        end = _END.fullmatch(name)
        if end is not None and choice.is_free(at):
            pair = ends.setdefault((end["stem"].casefold(), end["number"]), {})
            pair["lower" if end["low"] else "upper"] = at
    at_level, readings = _numbers(choice, LEVEL), []
    for (_, written), pair in ends.items():
        columns: dict[Field, tuple[int, ...]] = {"lower": (pair.get("lower", -1),), "upper": (pair.get("upper", -1),)}
        level = _level_in(written)
        columns |= {"level": (at_level[0],)} if level is None and len(at_level) == 1 else {}
        readings += [_Reading(columns, level=level)] if len(pair) == 2 else []
    return readings


def _numbers(choice: Choice, known: frozenset[str]) -> list[int]:
    """Return the columns of numbers with one of these names."""
    return [at for at in choice.called(known) if choice.is_free(at)]


def _lists(choice: Choice, known: frozenset[str]) -> list[int]:
    """Return the columns of several numbers per row; arrays of one column have no first values either."""
    return [at for at in choice.called(known) if choice.columns[at].width > 1 or not choice.columns[at].sample]


def _stems(choice: Choice, pattern: re.Pattern[str]) -> dict[str, dict[int, str]]:
    """Return the columns of numbers that a pattern matches, with their numbers, by what is before the number."""
    stems: dict[str, dict[int, str]] = {}
    for at, name in enumerate(choice.names):
        if (parts := pattern.fullmatch(name)) is not None and choice.is_free(at):
            stems.setdefault((parts["stem"] or "").casefold(), {})[at] = parts["number"]
    return stems


def _fraction(text: str) -> float | None:
    """Return a level written as ``0.9`` or ``90``; None for anything else."""
    if not is_number(text):
        return None
    value = float(text) if float(text) < 1.0 else float(text) / 100.0
    return value if 0.0 < value < 1.0 else None


def _level_in(text: str) -> float | None:
    """Return the level in the names of the bounds of an interval; None below 1/2, which may be the share outside it."""
    level = _fraction(text)
    return level if level is not None and level >= 0.5 else None


def _levels(texts: Sequence[str]) -> list[list[float]]:
    """Return the readings of levels written as ``0.05``, as percentages (``5``), or as decimals (``025``, ``95``).

    If all decimals begin with 0, as ``005`` and ``09``, they can also be ``0.05`` and ``0.9`` without a point.
    """
    if all(text.isdigit() and len(text) > 1 for text in texts):
        readings = [[float(f"0.{text}") for text in texts], [float(f"{text[0]}.{text[1:]}") for text in texts]]
    else:
        levels = [float(text) for text in texts]
        readings = [[level / 100.0 for level in levels] if max(levels) >= _PERCENT else levels]
    return [levels for levels in readings if levels and all(0.0 < level < 1.0 for level in levels)]


def _by_level(pairs: Sequence[tuple[int, float]]) -> _Reading:
    """Return quantiles, which are pairs of a column and its level, in the order of their levels."""
    places, levels = zip(*sorted(pairs, key=lambda pair: pair[1]), strict=True)
    return _Reading({"quantiles": places}, levels)


#: From this many columns on, numbered ones are perhaps an ensemble.
_FEW_MEMBERS = 5

# --- Choosing columns: those of the options, else those of the rules


class ForecastChoice(Choice):
    """The columns that the options name or the rules infer; raises a ``TabularError`` if one is missing or unclear."""

    texts_of = ("clusters", "by", "times", "known")

    def __init__(self, columns: Sequence[Column], options: FileOptions, *, labelled: bool) -> None:
        super().__init__(columns, options)
        observed = self.stated("observed", options.labels)
        groups = self.groups()
        stated = None if options.predictions is None else _stated(self, options.predictions)
        # Forecasts that are only recalibrated, by a map or in the order of time (``known``), have no use for weights.
        needed = (labelled and options.known is None) or options.weights is not None
        weights = self.weights() if needed else None
        if labelled and observed is None:
            observed = self.only("Outcomes, of regression")
        self.reading = _with_levels(stated, options) if stated is not None else _inferred(self, labelled)
        if labelled and observed is None:
            raise _no_outcomes(self)
        parts: dict[Field, tuple[int, ...]] = {} if observed is None else {"observed": (observed,)}
        self.places = ColumnPlaces.of({**parts, **self.reading.columns, "weights": weights, "groups": groups})


def _stated(choice: Choice, pairs: Sequence[str]) -> _Reading:
    """Return the columns that pairs such as ``mean=mu`` name; raises an error if they are not those of one kind."""
    parts = {name.strip(): column.strip() for name, _, column in (pair.partition("=") for pair in pairs)}
    usable = "mean with std or variance, quantiles such as q0.05, lower and upper, or samples"
    if len(parts) < len(pairs) or not all(parts.values()):
        raise InvalidFileOption("must be different part=column, such as mean=mu", field="predictions")
    columns: dict[Field, tuple[int, ...]] = {}
    levels: dict[float, int] = {}
    for name, stated in parts.items():
        if name in PARTS:
            whole = name in ("quantiles", "samples")
            columns[name] = tuple(choice.matching(stated, name) if whole else [choice.find(stated, name)])
            continue
        level = _fraction(name.removeprefix("q"))
        if level is None or not name.startswith("q") or level in levels:
            is_no = f"{quoted(name)} is no part of a predictive distribution, or is given twice"
            raise UnclearColumns(f"{is_no}; use {usable}")
        levels[level] = choice.find(stated, "quantiles")
    if levels:
        columns["quantiles"] = (*columns.get("quantiles", ()), *(at for _, at in sorted(levels.items())))
    kinds = ({"mean", "std"}, {"mean", "variance"}, {"quantiles"}, {"samples"}, {"lower", "upper"})
    if set(columns) not in kinds:
        raise UnclearColumns(f"{', '.join(columns)} do not form one predictive distribution; use {usable}")
    if "lower" in columns:  # the level in the names of both bounds
        ends = [_END.fullmatch(choice.names[columns[field][0]]) for field in ("lower", "upper")]
        of_ends = {end["number"] if end is not None else "" for end in ends}
        return _Reading(columns, level=_level_in(of_ends.pop()) if len(of_ends) == 1 else None)
    if "quantiles" not in columns or levels:
        return _Reading(columns, tuple(sorted(levels)) or None)
    # Levels in the names of the columns, if all have one.
    numbers = [_LEVEL.fullmatch(choice.names[at]) for at in columns["quantiles"]]
    texts = [of["number"] for of in numbers if of is not None]
    named = _levels(texts) if 1 < len(texts) == len(numbers) else []
    if len(named) != 1:
        return _Reading(columns)
    return _by_level([*zip(columns["quantiles"], named[0], strict=True)])


def _inferred(choice: Choice, labelled: bool) -> _Reading:
    readings = [reading for row in rules_of("Predictive distributions") for reading in row.find(choice)]
    if not readings:
        raise _none_found(choice)
    if not labelled:  # a map is applied to the distributions of the model
        readings = choice.of_model(readings, _places)
    if len(readings) > 1:
        alike = len({str(reading.columns) for reading in readings}) < len(readings)  # at other levels
        flags = tuple(tuple(_flags(choice, reading, by_level=alike)) for reading in readings)
        kinds = listed([flag for of in flags for flag in of[:2]])
        raise UnclearColumns(
            f"the file has several predictive distributions, such as {kinds}; choose one", readings=flags
        )
    reading: _Reading = _with_levels(readings[0], choice.options)
    for field, places in reading.columns.items():
        names, levels = [choice.names[choice.choose(at, field)] for at in places], reading.levels
        what = "" if levels is None else f", at the levels {levels[0]:g} to {levels[-1]:g}"
        their = "its name" if len(names) == 1 else "their names"
        choice.note(_PART if field != "levels" else "", span(names), field=field, levels=what, their=their)
    if reading.level is not None and choice.options.level is None:
        choice.notes.append(f"level: {reading.level:g} (inferred from the names of the bounds)")
    return reading


def _places(reading: _Reading) -> list[int]:
    return [at for places in reading.columns.values() for at in places]


def _flags(choice: Choice, reading: _Reading, *, by_level: bool) -> list[str]:
    """Return the values of ``--prediction`` that choose a reading."""
    flags = []
    for field, places in reading.columns.items():
        prefix = "" if by_level else common_start([choice.names[at] for at in places])
        if len(places) == 1:
            flags.append(f"{field}={choice.names[places[0]]}")
        elif prefix and {at for at, name in enumerate(choice.names) if name.startswith(prefix)} == {*places}:
            flags.append(f"{field}={prefix}*")
        elif reading.levels is not None:
            flags += [f"q{level:.10g}={choice.names[at]}" for level, at in zip(reading.levels, places, strict=True)]
        else:
            parts = _SAMPLE.fullmatch(choice.names[places[0]])
            flags.append(f"{field}={'' if parts is None else parts['stem']}*")
    return [flag for flag in flags if not flag.startswith("levels=")]


#: The levels of intervals and of quantiles: field, column, and errors if there is no such column, or no level.
_OF_COLUMNS: tuple[tuple[Field, Field, str, str], ...] = (
    (
        *("level", "lower", "a level is for intervals, with a column of lower and of upper bounds"),
        "the level of the intervals is not in the file, or is below 1/2 there; set it, such as 0.9",
    ),
    (
        *("levels", "quantiles", "levels are for quantiles, of which the file has none"),
        "the levels of the quantiles are not in the file; set them, such as 0.05, 0.5 and 0.95",
    ),
)


def _with_levels(reading: _Reading, options: FileOptions) -> _Reading:
    """Return the columns with the levels of the options; raises an error if they do not fit or are missing."""
    for field, part, unused, missing in _OF_COLUMNS:
        stated, named = getattr(options, field), getattr(reading, field)
        if part not in reading.columns and stated is not None:
            raise InvalidForecasts(unused, field=field)
        if part in reading.columns and stated is None and named is None and field not in reading.columns:
            raise InvalidForecasts(missing, field=field)
        if None not in (stated, named) and stated != named:
            raise InvalidForecasts("the levels are not those in the names of the columns", field=field)
        if stated is not None:
            others = {name: at for name, at in reading.columns.items() if name != field}
            reading = replace(reading, columns=others, **{field: stated})
    return reading


# --- Errors


def _none_found(choice: Choice) -> NoPredictions | UnclearColumns:
    names = choice.names
    for of in _stems(choice, _SAMPLE).values():
        places, numbers = sorted(of), sorted(int(number) for number in of.values())
        if len(of) < _FEW_MEMBERS or numbers not in ([*range(len(of))], [*range(1, len(of) + 1)]):
            continue
        before = names[places[0]].rstrip("])").rstrip("0123456789")
        for end in ("*", "[0-9]*"):
            pattern = escape(before) + end
            if places == [at for at, name in enumerate(names) if fnmatchcase(name, pattern)]:
                return UnclearColumns(
                    f"no predictive distribution found, but {span([names[at] for at in places])} are numbered; if "
                    f"they are the members of an ensemble, name them as samples={pattern}",
                    field="samples",
                    readings=((f"samples={pattern}",),),
                )
    has = f"; the file has {listed(names)}"
    if long := [name for name in names if word(name) in LONG]:
        has += f"; if it has a row for each {quoted(long[0])}, pivot it to a column for each, as pandas does with "
        has += f"frame.pivot(index=..., columns={plain(long[0])!r}, values=...).reset_index()"
    free = [names[at] for at in choice.free() if choice.columns[at].width == 1]
    return NoPredictions(
        "no predictive distribution found; name the columns mean with std or variance, q0.05, q0.5 and so on, lower "
        f"and upper, or sample_0, sample_1 and so on, or name the column of each part, such as mean=m{has}",
        columns=tuple(free[:MAX_OFFERED]),
    )


def _no_outcomes(choice: ForecastChoice) -> NoLabelColumn:
    used = _places(choice.reading)
    free = [at for at, name in enumerate(choice.names) if name not in ("", "id") and at not in used]
    offer = tuple(choice.names[at] for at in free if choice.is_free(at))
    hint = f", or choose one of {listed(offer)}" if offer else " (no other column has numbers)"
    text = f"no column of outcomes found; name it 'observed'{hint}"
    return NoLabelColumn(text, field="observed", offer=offer[:MAX_OFFERED])


# --- From an open table to a sheet


def read_table(table: OpenTable, options: FileOptions, _: FileLimits, *, labelled: bool | None = True) -> ForecastSheet:
    """Read the distributions and outcomes of a table; outcomes are read only if the options name them, or if required.

    Raises a ``TabularError`` with the column and the first bad rows.
    """
    chosen = ForecastChoice(table.columns, options, labelled=bool(labelled))
    by_field = dict(chosen.places.by_field)
    gaps = by_field.pop("observed", ()) if options.known is not None else ()
    places = ColumnPlaces(by_field)
    try:
        values = table.read(places)
    except MissingValue as error:
        raise all_missing(table, places, error) from error
    forecasts, notes = _distributions(values.numbers, chosen)
    check_lengths(values, len(forecasts), FIELDS[forecasts.kind][0])
    beside: dict[str, Any] = {
        field: None if at is None else names_at(table, at, with_gaps=field == "known")
        for field, at in chosen.beside.items()
    }
    observed = _with_gaps(table, gaps[0], options.decimal) if gaps else None
    for field, cells in {**beside, "observed": observed}.items():
        if cells is not None and len(cells) != len(forecasts):
            raise UnmatchedArrays(f"{field} has length {len(cells):,}, but the forecasts have {len(forecasts):,} rows")
    return ForecastSheet(
        forecasts,
        values.numbers.get("observed") if observed is None else observed,
        values.numbers.get("weights"),
        options.weights_kind,
        groups_of_rows(values, table, chosen.places),
        notes=(*table.notes, *chosen.notes, *notes),
        **beside,
    )


def _distributions(numbers: Mapping[Field, Floats], chosen: ForecastChoice) -> tuple[Forecasts, tuple[str, ...]]:
    values: dict[str, Any] = {field: array for field, array in numbers.items() if field not in ("observed", "weights")}
    names = {field: [chosen.names[at] for at in places] for field, places in chosen.places.by_field.items()}
    tables = {field: values[field] for field in ("quantiles", "samples") if field in values}
    values |= {field: table.reshape(len(table), -1) for field, table in tables.items()}
    if chosen.reading.levels is not None:
        values["levels"] = np.array(chosen.reading.levels)
    if "lower" in values:
        of_rows = np.unique(values["level"] if chosen.reading.level is None else chosen.reading.level)
        if len(of_rows) > 1:
            column = quoted(names["level"][0])
            raise InvalidForecasts(f"column {column} must have one level for all rows", field="level")
        values["level"] = float(of_rows[0])
    try:
        forecasts = read_forecasts(**values)
    except CalibrationError as error:
        raise _with_column(error, values, names) from error
    n = forecasts.n_repaired
    note = f"quantiles: {n:,} {'row crosses by rounding and is' if n == 1 else 'rows cross by rounding and are'} sorted"
    return forecasts, (note,) if n else ()


def _with_column(error: CalibrationError, values: Mapping[str, Any], names: Mapping[Field, list[str]]) -> TabularError:
    """Return the error of invalid distributions with the names of columns, and with rows that are counted from 1."""
    if not error.offences:
        return InvalidForecasts(error.detail, field="predictions")
    _, name, *place = error.offences[0].pointer.split("/")
    field, detail = cast("Field", name if name in get_args(Field) else "predictions"), error.offences[0].detail
    if not place:
        return InvalidForecasts(f"{name} {detail}", field=field)
    what = f"column {quoted(names[field][0])}"
    if isinstance(error, CrossingQuantiles):
        table = values.get("quantiles")
        table = np.column_stack([values["lower"], values["upper"]]) if table is None else table
        at = int(np.argmin(np.diff(table[int(place[0])])))  # the columns of the largest decrease
        of = [*names["lower"], *names["upper"]] if "lower" in names else names["quantiles"]
        if len(of) == table.shape[1]:
            what, detail = f"column {quoted(of[at + 1])}", f"must not be below column {quoted(of[at])}"
        else:
            what, detail = f"in column {quoted(of[0])}, quantile {at + 2}", f"must not be below quantile {at + 1}"
    rows = [int(offence.pointer.split("/")[2]) + 1 for offence in error.offences]
    rest = f" (and {error.n_invalid - len(rows):,} more)" if error.n_invalid > len(rows) else ""
    see = f"see {'row' if len(rows) == 1 else 'rows'} {', '.join(map(str, rows))}{rest}"
    return InvalidForecasts(f"{what} {detail}; {see}", field=field)


def _with_gaps(table: OpenTable, at: int, decimal: str) -> Floats:
    """Read a column of numbers of which some are missing: NaN."""
    cells = cells_at(table, [at])[0]
    numbers = np.full(len(cells), np.nan)
    if decimal == ",":
        cells = DecimalCommas().with_points(cells, table.columns[at].name, "observed", 0, lambda _: None)
    for row, text in enumerate(cells):
        numbers[row] = number_or_nan(text)
        if not math.isfinite(numbers[row]) and not lacks_number(text):
            raise refusal(text, table.columns[at].name, "observed", row)
    return numbers
