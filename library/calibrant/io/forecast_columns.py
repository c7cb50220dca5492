"""Inference of the columns of outcomes and of predictive distributions from their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import escape
from itertools import takewhile
from typing import Any, cast, get_args

import numpy as np

from calibrant.distributions.forecasts import CROSSING, Forecasts, read_forecasts
from calibrant.errors import CalibrationError
from calibrant.io.column_names import GROUPS, LABELS, WEIGHTS, word
from calibrant.io.errors import (
    DuplicateColumns,
    Field,
    InvalidForecasts,
    NoLabels,
    NoPredictions,
    UnclearColumns,
    UnknownColumn,
)
from calibrant.io.table import Column, Floats, ForecastOptions, Places
from calibrant.io.texts import is_number, listed, may_be_numbers, plain, quoted, span

# --- Column names


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Words before the name of a part, as in ``pred_mean``; longer ones first.
_BEFORE = ("predictive", "calibrated", "predicted", "posterior", "forecast", "ypred", "pred", "y", "")


def _prefixed(text: str) -> frozenset[str]:
    """Return the words alone and after a word of ``_BEFORE``."""
    return frozenset(first + name for first in _BEFORE for name in text.split())


def _prefix(name: str) -> str:
    """Return the word of ``_BEFORE`` with which a name begins."""
    return next(first for first in _BEFORE if word(name).startswith(first))


OBSERVED = LABELS | _set_of("observation observations realized realised")
MEAN = _prefixed("mean mu loc")
#: Names of the mean that count if no column has one of ``MEAN``.
POINTS = _set_of("yhat ypred pred prediction predictions predicted forecast forecasts fit fitted")
STD = _prefixed("std sd sigma stddev stdev scale standarddeviation")
VARIANCE = _prefixed("variance var sigma2")
QUANTILES = _prefixed("quantile quantiles q")
LEVELS = _set_of("levels quantilelevels taus probs")
SAMPLES = _prefixed("s sample samples draw draws member members ensemble ens sim sims")
LEVEL = _set_of("level coverage confidence")

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

#: From this many columns on, numbered ones are perhaps an ensemble.
_FEW_MEMBERS = 5
#: Names of the column of levels or members of a file with a row for each.
_LONG = _set_of("quantile quantilelevel tau outputtypeid sample member draw realization")
#: The most names in the offer of an error.
_MAX_OFFERED = 100
#: A percentage of levels, such as q5 and q95, has a number of at least this; q1, q2 and q3 are rather quartiles.
_PERCENT = 50.0


@dataclass(frozen=True)
class ChosenForecasts:
    """The chosen columns, the levels from their names or the options, notes, and columns of strings by field."""

    places: Places
    levels: tuple[float, ...] | None
    level: float | None
    notes: tuple[str, ...]
    texts: Mapping[str, int | None]


@dataclass(frozen=True)
class _Reading:
    """Columns that form a predictive distribution."""

    columns: Mapping[Field, tuple[int, ...]]
    levels: tuple[float, ...] | None = None
    level: float | None = None


def are_of_forecasts(names: Sequence[str]) -> bool:
    """Whether names of columns are those of forecasts of a number, such as mean and std, or q0.05 and q0.95.

    >>> are_of_forecasts(["y", "mean", "std"]), are_of_forecasts(["y", "age", "income"])
    (True, False)
    """
    words = {word(name) for name in names}
    quantiles = [name for name in names if (found := _LEVEL.fullmatch(name)) and found.start("number") > 0]
    ends = [found for name in names if (found := _END.fullmatch(name))]
    samples = [name for name in names if (found := _SAMPLE.fullmatch(name)) and word(found["stem"]) in SAMPLES]
    return (
        (bool(words & MEAN) and bool(words & (STD | VARIANCE)))
        or len(quantiles) > 1
        or (any(found["low"] for found in ends) and any(found["high"] for found in ends))
        or len(samples) > 1
    )


def choose_forecasts(columns: Sequence[Column], options: ForecastOptions, *, labelled: bool) -> ChosenForecasts:
    """Choose the columns of a table; raises a ``TabularError`` if a column is missing or ambiguous."""
    return _Chooser(columns, options).choose(labelled=labelled)


class _Chooser:
    """Chooses the columns of a table."""

    def __init__(self, columns: Sequence[Column], options: ForecastOptions) -> None:
        self._columns, self._options = columns, options
        self._names = [column.name for column in columns]
        self._chosen: dict[int, Field] = {}
        self._notes: list[str] = []
        self._labelled = True

    def choose(self, *, labelled: bool) -> ChosenForecasts:
        options = self._options
        self._labelled = labelled
        texts = {
            name: None if (stated := getattr(options, name)) is None else self._find(stated, name)
            for name in ("clusters", "by", "times", "known")
        }
        stated = None if options.observed is None else self._find(options.observed, "observed")
        # Forecasts that are only recalibrated, by a map or in the order of time (``known``), have no use for weights.
        needed = (labelled and options.known is None) or options.weights is not None
        weights = self._one(options.weights, WEIGHTS, "weights") if needed else None
        groups = self._groups(options.groups)
        explicit = None if options.forecasts is None else self._stated(options.forecasts)
        observed = self._one(None, OBSERVED, "observed") if stated is None and labelled else stated
        reading = self._guessed() if explicit is None else explicit
        if labelled and observed is None:
            raise self._no_outcomes(reading)
        reading = self._with_levels(reading)
        found = dict(reading.columns) if observed is None else {"observed": (observed,), **reading.columns}
        places = Places(weights=weights, groups=groups, forecasts=cast("Mapping[Field, tuple[int, ...]]", found))
        return ChosenForecasts(places, reading.levels, reading.level, tuple(self._notes), texts)

    # --- Columns by name

    def _find(self, stated: str, field: Field) -> int:
        name = stated.strip()
        if name not in self._names or not name:
            names = tuple(name for name in self._names if name)
            raise UnknownColumn(
                f"the file has no column {quoted(name)}; it has {listed(names)}",
                field=field,
                offer=names[:_MAX_OFFERED],
            )
        return self._choose(self._names.index(name), field)

    def _choose(self, at: int, field: Field) -> int:
        if at in self._chosen:
            raise UnclearColumns(
                f"column {quoted(self._names[at])} cannot be used for both {self._chosen[at]} and {field}", field=field
            )
        self._chosen[at] = field
        return at

    def _one(self, stated: str | None, known: frozenset[str], field: Field) -> int | None:
        """Return the column that the options name, else the only column with a known name."""
        if stated is not None:
            return self._find(stated, field)
        found = self._called(known)
        if len(found) > 1:
            raise UnclearColumns(
                f"several columns could be {field}: {listed([self._names[at] for at in found])}; choose one",
                field=field,
                offer=tuple(self._names[at] for at in found),
                readings=tuple((self._names[at],) for at in found)
                if field in ("observed", "weights", "groups")
                else (),
            )
        for at in found:
            self._notes.append(f"{field}: column {quoted(self._names[at])} (inferred from its name)")
            return self._choose(at, field)
        return None

    def _groups(self, stated: Sequence[str] | None) -> tuple[int, ...]:
        if stated:
            return tuple(self._find(name, "groups") for name in stated)
        found = self._one(None, GROUPS, "groups")
        return () if found is None else (found,)

    def _called(self, known: frozenset[str]) -> list[int]:
        return [at for at, name in enumerate(self._names) if at not in self._chosen and word(name) in known]

    def _is_free(self, at: int) -> bool:
        """Whether a column is not chosen yet and has numbers, missing values or vectors."""
        sample = self._columns[at].sample
        return at not in self._chosen and may_be_numbers(sample)

    # --- Distributions that the options name

    def _stated(self, given: Mapping[str, str]) -> _Reading:
        """Return the columns that the options name; raises an error if they are not those of one kind."""
        columns: dict[Field, tuple[int, ...]] = {}
        levels: dict[float, int] = {}
        for name, stated in given.items():
            if name in ("mean", "variance", "std", "lower", "upper"):
                field = cast("Field", name)
                columns[field] = (self._find(stated, field),)
            elif name in ("quantiles", "samples"):
                field = cast("Field", name)
                columns[field] = self._matching(stated, field)
            else:
                level = _fraction(name.removeprefix("q"))
                if level is None or not name.startswith("q") or level in levels:
                    raise UnclearColumns(
                        f"{quoted(name)} is no part of a predictive distribution, or is given twice; use mean with std "
                        "or variance, quantiles such as q0.05, lower and upper, or samples",
                        field="predictions",
                    )
                levels[level] = self._find(stated, "quantiles")
        if levels:
            columns["quantiles"] = (*columns.get("quantiles", ()), *(at for _, at in sorted(levels.items())))
        kinds = ({"mean", "std"}, {"mean", "variance"}, {"quantiles"}, {"samples"}, {"lower", "upper"})
        if set(columns) not in kinds:
            raise UnclearColumns(
                f"{', '.join(columns)} do not form one predictive distribution; give mean with std or variance, "
                "quantiles, samples, or lower and upper",
                field="predictions",
            )
        if "quantiles" in columns and not levels:
            return self._of_names(columns["quantiles"])
        return _Reading(columns, tuple(sorted(levels)) or None)

    def _matching(self, stated: str, field: Field) -> tuple[int, ...]:
        """Return the column of this name, or the columns of numbers that a wildcard such as ``draw_*`` matches."""
        name = stated.strip()
        if name in self._names or not any(mark in name for mark in "*?["):
            return (self._find(stated, field),)
        found = [at for at, each in enumerate(self._names) if fnmatchcase(each, name) and self._is_free(at)]
        if not found:
            raise UnknownColumn(
                f"no column of numbers matches {quoted(name)}; the file has {listed(self._names)}", field=field
            )
        return tuple(self._choose(at, field) for at in found)

    def _of_names(self, places: tuple[int, ...]) -> _Reading:
        """Return columns of quantiles in the order of the levels in their names, if all have one."""
        numbers = [_LEVEL.fullmatch(self._names[at]) for at in places]
        levels = None
        if len(places) > 1 and all(found is not None for found in numbers):
            levels = _levels([found["number"] for found in numbers if found is not None])
        if levels is None:
            return _Reading({"quantiles": places})
        order = sorted(range(len(places)), key=lambda i: levels[i])
        return _Reading({"quantiles": tuple(places[i] for i in order)}, tuple(levels[i] for i in order))

    # --- Distributions inferred from names

    def _guessed(self) -> _Reading:
        found = [*self._normals(), *self._quantiles(), *self._samples(), *self._intervals()]
        if not found:
            raise self._none_found()
        if not self._labelled:  # a map is applied to the distributions of the model
            found = [reading for reading in found if not self._is_calibrated(reading)] or found
        if len(found) > 1:
            readings = tuple(tuple(self._flags(reading)) for reading in found)
            kinds = listed([each for reading in readings for each in reading[:2]])
            raise UnclearColumns(
                f"the file has several predictive distributions, such as {kinds}; choose one",
                field="predictions",
                readings=readings,
            )
        for field, places in found[0].columns.items():
            for at in places:
                self._choose(at, field)
            if field != "levels":
                self._note(field, places, found[0].levels)
        if found[0].level is not None and self._options.level is None:
            self._notes.append(f"level: {found[0].level:g} (inferred from the names of the bounds)")
        return found[0]

    def _is_calibrated(self, reading: _Reading) -> bool:
        return all(
            word(self._names[at]).startswith("calibrated") for places in reading.columns.values() for at in places
        )

    def _flags(self, reading: _Reading) -> list[str]:
        """Return the values of ``--prediction`` that choose a reading."""
        flags = []
        for field, places in reading.columns.items():
            prefix = _common([self._names[at] for at in places])
            if len(places) == 1:
                flags.append(f"{field}={self._names[places[0]]}")
            elif prefix and {at for at, name in enumerate(self._names) if name.startswith(prefix)} == {*places}:
                flags.append(f"{field}={prefix}*")
            elif reading.levels is not None:
                flags += [f"q{level:.10g}={self._names[at]}" for level, at in zip(reading.levels, places, strict=True)]
            else:
                found = _SAMPLE.fullmatch(self._names[places[0]])
                flags.append(f"{field}={'' if found is None else found['stem']}*")
        return [flag for flag in flags if not flag.startswith("levels=")]

    def _note(self, field: Field, places: tuple[int, ...], levels: tuple[float, ...] | None) -> None:
        names = [self._names[at] for at in places]
        what = "" if levels is None else f", at the levels {levels[0]:g} to {levels[-1]:g}"
        self._notes.append(
            f"{field}: {span(names)}{what} (inferred from {'its' if len(names) == 1 else 'their'} name"
            f"{'' if len(names) == 1 else 's'})"
        )

    def _normals(self) -> list[_Reading]:
        means = [at for at in self._called(MEAN) if self._is_free(at)]
        means = means or [at for at in self._called(POINTS) if self._is_free(at)]
        spreads: list[tuple[Field, int]] = [("std", at) for at in self._called(STD) if self._is_free(at)]
        spreads += [("variance", at) for at in self._called(VARIANCE) if self._is_free(at)]
        pairs = [(mean, field, at) for mean in means for field, at in spreads]
        alike = [pair for pair in pairs if _prefix(self._names[pair[0]]) == _prefix(self._names[pair[2]])]
        return [_Reading({"mean": (mean,), field: (at,)}) for mean, field, at in alike or pairs]

    def _quantiles(self) -> list[_Reading]:
        stems: dict[str, list[int]] = {}
        for at, name in enumerate(self._names):
            found = _LEVEL.fullmatch(name)
            if found is None or not self._is_free(at) or self._columns[at].width > 1 or name.isdigit():
                continue
            stems.setdefault((found["stem"] or "").casefold(), []).append(at)
        readings = []
        for stem, places in stems.items():
            medians = [at for at in self._called(frozenset(("median", f"{word(stem)}median"))) if self._is_free(at)]
            levels = _levels([_LEVEL.fullmatch(self._names[at])["number"] for at in places])  # type: ignore[index]
            if levels is None:
                continue
            if medians and 0.5 not in levels:
                places, levels = [*places, medians[0]], [*levels, 0.5]
            self._refuse_twice(places, levels)
            order = sorted(range(len(places)), key=lambda i: levels[i])
            columns: dict[Field, tuple[int, ...]] = {"quantiles": tuple(places[i] for i in order)}
            readings.append(_Reading(columns, tuple(levels[i] for i in order)))
        whole = [at for at in self._called(QUANTILES) if self._is_vector(at)]
        levels_at = self._called(LEVELS)
        readings += [
            _Reading({"quantiles": (at,)} if len(levels_at) != 1 else {"quantiles": (at,), "levels": (levels_at[0],)})
            for at in whole
        ]
        return readings

    def _refuse_twice(self, places: Sequence[int], levels: Sequence[float]) -> None:
        for level in levels:
            names = [self._names[at] for at, other in zip(places, levels, strict=True) if other == level]
            if len(names) > 1:
                raise DuplicateColumns(f"{listed(names)} are quantiles at the same level; remove or rename all but one")

    def _samples(self) -> list[_Reading]:
        stems: dict[str, dict[int, int]] = {}
        for at, name in enumerate(self._names):
            found = _SAMPLE.fullmatch(name)
            if found is not None and word(found["stem"]) in SAMPLES and self._is_free(at):
                stems.setdefault(found["stem"].casefold(), {})[int(found["number"])] = at
        readings = [
            _Reading({"samples": tuple(at for _, at in sorted(of.items()))}) for of in stems.values() if len(of) > 1
        ]
        return readings + [_Reading({"samples": (at,)}) for at in self._called(SAMPLES) if self._is_vector(at)]

    def _is_vector(self, at: int) -> bool:
        """Whether a column has several numbers per row; arrays of one column have no first values either."""
        return self._columns[at].width > 1 or not self._columns[at].sample

    def _intervals(self) -> list[_Reading]:
        ends: dict[tuple[str, str], dict[str, int]] = {}
        for at, name in enumerate(self._names):
            found = _END.fullmatch(name)
            if found is not None and self._is_free(at):
                key = (found["stem"].casefold(), found["number"])
                ends.setdefault(key, {})["lower" if found["low"] else "upper"] = at
        at_level = [at for at in self._called(LEVEL) if self._is_free(at)]
        readings = []
        for (_, number), pair in ends.items():
            if len(pair) < 2:
                continue
            columns: dict[Field, tuple[int, ...]] = {"lower": (pair["lower"],), "upper": (pair["upper"],)}
            level = _fraction(number) if number else None
            if level is None and len(at_level) == 1 and self._options.level is None:
                columns["level"] = (at_level[0],)
            readings.append(_Reading(columns, level=level))
        return readings

    # --- Levels

    def _with_levels(self, reading: _Reading) -> _Reading:
        """Return the columns with the levels of the options; raises an error if they do not fit or are missing."""
        options, columns = self._options, reading.columns
        if options.level is not None and "lower" not in columns:
            raise InvalidForecasts(
                "a level is for intervals, with a column of lower and of upper bounds", field="level"
            )
        if options.levels is not None and "quantiles" not in columns:
            raise InvalidForecasts("levels are for quantiles, of which the file has none", field="levels")
        if "lower" in columns:
            level = reading.level if options.level is None else options.level
            if level is None and "level" not in columns:
                raise InvalidForecasts(
                    "the level of the intervals is not in the file; set it, such as 0.9", field="level"
                )
            return replace(reading, level=level)
        if "quantiles" not in columns or options.levels is None:
            if "quantiles" in columns and reading.levels is None and "levels" not in columns:
                raise InvalidForecasts(
                    "the levels of the quantiles are not in the file; set them, such as 0.05, 0.5 and 0.95",
                    field="levels",
                )
            return reading
        if reading.levels is not None and reading.levels != options.levels:
            raise InvalidForecasts("the levels are not those in the names of the columns", field="levels")
        return replace(
            reading,
            columns={field: at for field, at in columns.items() if field != "levels"},
            levels=options.levels,
        )

    # --- Errors

    def _none_found(self) -> NoPredictions | UnclearColumns:
        if (ensemble := self._ensemble()) is not None:
            places, pattern = ensemble
            return UnclearColumns(
                f"no predictive distribution found, but {span([self._names[at] for at in places])} are numbered; if "
                f"they are the members of an ensemble, name them as samples={pattern}",
                field="samples",
                readings=((f"samples={pattern}",),),
            )
        numeric = tuple(
            name for at, name in enumerate(self._names) if name and self._is_free(at) and self._columns[at].width == 1
        )
        has = f"; the file has {listed(self._names)}"
        if long := [name for name in self._names if word(name) in _LONG]:
            has += f"; if it has a row for each {quoted(long[0])}, pivot it to a column for each, as pandas does with "
            has += f"frame.pivot(index=..., columns={plain(long[0])!r}, values=...).reset_index()"
        return NoPredictions(
            "no predictive distribution found; name the columns mean with std or variance, q0.05, q0.5 and so on, "
            f"lower and upper, or sample_0, sample_1 and so on, or name the column of each part, such as mean=m{has}",
            field="predictions",
            columns=numeric[:_MAX_OFFERED],
        )

    def _ensemble(self) -> tuple[list[int], str] | None:
        """Return columns numbered from 0 or 1, and the wildcard that matches just these, if there are any."""
        stems: dict[str, dict[int, int]] = {}
        for at, name in enumerate(self._names):
            if (found := _SAMPLE.fullmatch(name)) is not None and self._is_free(at):
                stems.setdefault(name[: found.start("number")], {})[int(found["number"])] = at
        for stem, of in stems.items():
            places = sorted(of.values())
            if len(of) < _FEW_MEMBERS or sorted(of) not in ([*range(len(of))], [*range(1, len(of) + 1)]):
                continue
            for end in ("*", "[0-9]*"):
                pattern = escape(stem) + end
                if places == [at for at, name in enumerate(self._names) if fnmatchcase(name, pattern)]:
                    return places, pattern
        return None

    def _no_outcomes(self, reading: _Reading) -> NoLabels:
        used = {at for places in reading.columns.values() for at in places}
        offer = tuple(
            name
            for at, name in enumerate(self._names)
            if name and at not in used and self._is_free(at) and name != "id"
        )
        hint = f", or choose one of {listed(offer)}" if offer else " (no other column has numbers)"
        raise NoLabels(
            f"no column of outcomes found; name it 'observed'{hint}", field="observed", offer=offer[:_MAX_OFFERED]
        )


def _common(names: Sequence[str]) -> str:
    """Return the characters with which all names begin."""
    return "".join(each[0] for each in takewhile(lambda letters: len({*letters}) == 1, zip(*names, strict=False)))


def _fraction(text: str) -> float | None:
    """Return a level written as ``0.9`` or ``90``; None for anything else."""
    if not is_number(text):
        return None
    value = float(text) if float(text) < 1.0 else float(text) / 100.0
    return value if 0.0 < value < 1.0 else None


def _levels(texts: Sequence[str]) -> list[float] | None:
    """Return levels written as ``0.05``, as percentages (``5``), or as decimals (``025``, ``05``); None for others."""
    if all(text.isdigit() and len(text) > 1 for text in texts):
        levels = [float(f"0.{text}") for text in texts]
    else:
        levels = [float(text) for text in texts]
        if max(levels) >= 1.0:
            levels = [level / 100.0 for level in levels] if max(levels) >= _PERCENT else [0.0]
    return levels if all(0.0 < level < 1.0 for level in levels) else None


# --- From columns to checked distributions


def read_distributions(
    vectors: Mapping[Field, Floats], chosen: ChosenForecasts, columns: Sequence[Column]
) -> tuple[Forecasts, tuple[str, ...]]:
    """Return the distributions of the columns that were read, and notes.

    Raises ``InvalidForecasts`` with the column and the first bad rows.
    """
    given: dict[str, Any] = {
        field: found for field, found in vectors.items() if field in ("mean", "variance", "samples", "lower", "upper")
    }
    names = {field: [columns[at].name for at in places] for field, places in chosen.places.forecasts.items()}
    spreads: tuple[Field, ...] = ("variance", "std")
    for field in spreads:
        if field in vectors:
            name, found = quoted(names[field][0]), vectors[field]
            _refuse(~(found > 0.0), f"column {name} must be above 0", field)
            if field == "std":
                with np.errstate(over="ignore", under="ignore"):
                    found = found * found
                _refuse(~(np.isfinite(found) & (found > 0.0)), f"column {name} must be from 1e-150 to 1e150", field)
            given["variance"] = found
    if "quantiles" in vectors:
        table = vectors["quantiles"]
        given["quantiles"] = table.reshape(len(table), -1)
        given["levels"] = vectors.get("levels") if chosen.levels is None else np.array(chosen.levels)
        _refuse_crossing(given["quantiles"], names["quantiles"], "quantiles")
    if "samples" in given:
        given["samples"] = given["samples"].reshape(len(given["samples"]), -1)
    if "lower" in given:
        given["level"] = _level_of(vectors, names) if chosen.level is None else chosen.level
        if len(given["lower"]) == len(given["upper"]):
            ends = np.column_stack([given["lower"], given["upper"]])
            _refuse_crossing(ends, [*names["lower"], *names["upper"]], "upper")
    try:
        forecasts = read_forecasts(**given)
    except CalibrationError as error:
        offence = error.offences[0] if error.offences else None
        name = "predictions" if offence is None else offence.pointer.split("/")[1]
        detail = error.detail if offence is None else f"{name} {offence.detail}"
        raise InvalidForecasts(
            detail, field=cast("Field", name) if name in get_args(Field) else "predictions"
        ) from error
    n = forecasts.n_repaired
    note = f"quantiles: {n:,} {'row crosses by rounding and is' if n == 1 else 'rows cross by rounding and are'} sorted"
    return forecasts, (note,) if n else ()


def _level_of(vectors: Mapping[Field, Floats], names: Mapping[Field, list[str]]) -> float:
    """Return the level in a column, which must be the same in every row."""
    found = np.unique(vectors["level"])
    if len(found) > 1:
        raise InvalidForecasts(f"column {quoted(names['level'][0])} must have one level for all rows", field="level")
    return float(found[0])


def _refuse(bad: Any, wanted: str, field: Field) -> None:
    """Raise an error that counts the bad rows and names the first, if there are any."""
    rows = np.flatnonzero(bad)
    if len(rows):
        first = ", ".join(str(row + 1) for row in rows[:5].tolist())
        rest = f" (and {len(rows) - 5:,} more)" if len(rows) > 5 else ""
        raise InvalidForecasts(f"{wanted}; see {'row' if len(rows) == 1 else 'rows'} {first}{rest}", field=field)


def _refuse_crossing(table: Floats, names: list[str], field: Field) -> None:
    """Raise the error of quantiles that cross by more than rounding; names the first pair of columns that do."""
    with np.errstate(over="ignore"):
        bad = table[:, :-1] - table[:, 1:] > CROSSING * np.maximum(np.abs(table[:, :-1]), np.abs(table[:, 1:]))
    if not bad.any():
        return
    row = int(np.argmax(bad.any(axis=1)))
    at = int(np.argmax(bad[row]))
    if len(names) == table.shape[1]:
        what = f"column {quoted(names[at + 1])} must not be below column {quoted(names[at])}"
    else:
        what = f"in {quoted(names[0])}, quantile {at + 2} must not be below quantile {at + 1}"
    _refuse(bad.any(axis=1), what, field)
