"""The ordered table of the rules of inference: what each sees, reads and prints, and a file that needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar, TypeVar

from calibrant.core.batch import TOLERANCE
from calibrant.core.column_names import (
    COUNTS,
    GROUPS,
    PREDICTIONS,
    WEIGHTS,
    Family,
    is_id,
    is_predicted_class,
    word,
    words_of,
)
from calibrant.io.errors import Field, UnclearColumns, UnknownColumn
from calibrant.io.labels import without_gaps
from calibrant.io.options import FileOptions
from calibrant.io.table import Column, ColumnPlaces
from calibrant.io.texts import (
    DASHES,
    TextCells,
    is_missing,
    is_number,
    listed,
    may_be_numbers,
    quoted,
    span,
)

#: The most names in the offer of an error.
MAX_OFFERED = 100
#: What most rules print.
BY_NAME = "{field}: {columns} (inferred from {their})"
#: The steps of reading a file in their order, with the field of their rules.
STEPS: Mapping[str, Field] = {
    "Labels": "labels",
    "Weights": "weights",
    "Groups": "groups",
    "Predictions": "predictions",
    "Predictions, if there are no others": "predictions",
    "Labels, after the predictions": "labels",
    "Order of the classes": "predictions",
    "Confidence of a predicted class": "labels",
    "Outcomes, of regression": "observed",
    "Predictive distributions": "predictions",
}


@dataclass(frozen=True)
class Rule:
    """A row of the table; ``find`` returns the readings of a table.

    Rules of predictions compete: several readings are refused. Of the rules of other steps, the first one that has a
    reading counts.
    """

    name: str
    step: str
    sees: str
    reads: str
    #: What it prints.
    prints: str
    #: A file of tests/newcomer/files that needs it.
    file: str
    find: Callable[[Any], Sequence[Any]]


#: All rules; those of a step in their order.
RULES: list[Rule] = []


def rules_of(step: str) -> list[Rule]:
    """Return the rules of a step."""
    return [rule for rule in RULES if rule.step == step]


Find = TypeVar("Find", bound=Callable[[Any], Sequence[Any]])


def rule(step: str, file: str, prints: str = BY_NAME) -> Callable[[Find], Find]:
    """Add a function to the table; its docstring is what the rule sees, a colon, and what it reads."""

    def added(find: Find) -> Find:
        sees, _, reads = " ".join((find.__doc__ or "").split()).removesuffix(".").partition(": ")
        name = find.__name__.strip("_").replace("_", "-")
        RULES.append(Rule(name, step, sees, reads, prints, file, find))
        return find

    return added


def named(step: str, name: str, known: frozenset[str], sees: str, reads: str, file: str, prints: str = BY_NAME) -> None:
    """Add a rule that reads the columns with one of these names."""
    RULES.append(Rule(name, step, sees, reads, prints, file, lambda choice: choice.called(known)))


Reading = TypeVar("Reading")


class Choice:
    """The columns of a table, what was chosen of them for which field, and notes on what was inferred."""

    #: The columns of strings that options name.
    texts_of: ClassVar[tuple[Field, ...]] = ()

    def __init__(self, columns: Sequence[Column], options: FileOptions) -> None:
        self.columns, self.options = columns, options
        self.names = [column.name for column in columns]
        self.chosen: dict[int, Field] = {}
        self.notes: list[str] = []
        self.beside = {field: self.stated(field, getattr(options, field)) for field in self.texts_of}

    def stated(self, field: Field, name: str | None) -> int | None:
        """Choose the column that an option names, if it does; raises ``UnknownColumn``."""
        return None if name is None else self.find(name, field)

    def find(self, stated: str, field: Field) -> int:
        """Choose the column of this name; raises ``UnknownColumn``."""
        name = stated.strip()
        if name not in self.names or not name:
            names = tuple(name for name in self.names if name)
            has = f"the file has no column {quoted(name)}; it has {listed(names)}"
            raise UnknownColumn(has, field=field, offer=names[:MAX_OFFERED])
        return self.choose(self.names.index(name), field)

    def matching(self, stated: str, field: Field) -> list[int]:
        """Choose the column of this name, or the numeric columns that a wildcard such as ``prob_*`` matches."""
        name = stated.strip()
        if name in self.names or not any(mark in name for mark in "*?["):
            return [self.find(stated, field)]
        places = [at for at in self.free() if fnmatchcase(self.names[at], name)]
        if not places:
            has = f"no column of numbers matches {quoted(name)}; the file has {self.listed(self.names)}"
            raise UnknownColumn(has, field=field)
        return [self.choose(at, field) for at in places]

    def choose(self, at: int, field: Field) -> int:
        """Choose a column; raises ``UnclearColumns`` if it is chosen for another field."""
        if at in self.chosen:
            both = f"column {self.quoted(at)} cannot be used for both {self.chosen[at]} and {field}"
            raise UnclearColumns(both, field=field)
        self.chosen[at] = field
        return at

    def is_free(self, at: int) -> bool:
        """Whether a column is not chosen yet, and has numbers, vectors or only missing values."""
        return at not in self.chosen and may_be_numbers(self.columns[at].sample)

    def unused(self) -> list[int]:
        """Return the columns that are not chosen yet."""
        return [at for at in range(len(self.names)) if at not in self.chosen]

    def free(self) -> list[int]:
        """Return the columns of numbers that are not chosen yet and have a name."""
        return [at for at, name in enumerate(self.names) if name and self.is_free(at)]

    def called(self, known: frozenset[str]) -> list[int]:
        """Return the columns that are not chosen yet and have one of these names."""
        return [at for at in self.unused() if word(self.names[at]) in known]

    def weights(self, *, noted: bool = True) -> int | None:
        """Choose the column of weights that the options name; others are noted, and are no labels or predictions."""
        if self.options.weights is not None:
            return self.find(self.options.weights, "weights")
        for row in rules_of("Weights") if noted else ():
            for at in row.find(self):
                self.note(row.prints, self.span([at]))
        self.chosen |= dict.fromkeys(self.called(WEIGHTS), "weights")
        return None

    def groups(self) -> tuple[int, ...]:
        """Choose the columns of groups that the options name, or the only one with such a name."""
        if self.options.groups:
            return tuple(self.find(name, "groups") for name in self.options.groups)
        return () if (at := self.only("Groups")) is None else (at,)

    def only(self, step: str) -> int | None:
        """Choose the column of the first rule of a step that has a reading; raises ``UnclearColumns`` for several."""
        for rule in rules_of(step):
            places = rule.find(self)
            if len(places) > 1:
                raise self.unclear([(self.names[at],) for at in places], STEPS[step])
            if places:
                self.note(rule.prints, self.span(places), field=STEPS[step])
                return self.choose(places[0], STEPS[step])
        return None

    def note(self, prints: str, columns: str, **more: object) -> None:
        """Keep what a rule prints of its columns, if anything."""
        self.notes += [prints.format(**{"columns": columns, "their": "its name", **more})] if prints else []

    def unclear(self, readings: Sequence[tuple[str, ...]], field: Field) -> UnclearColumns:
        """Return the error for several readings of a field."""
        names = [name for reading in readings for name in reading]
        return UnclearColumns(
            f"several columns could be the {field}: {listed(names)}; choose one",
            field=field,
            offer=tuple(names[:MAX_OFFERED]),
            readings=tuple(readings[:MAX_OFFERED]),
        )

    def of_model(self, readings: list[Reading], places: Callable[[Reading], Sequence[int]]) -> list[Reading]:
        """Return the readings of a model's own columns, to which a map is applied, unless all are calibrated."""
        own = [of for of in readings if not all("calibrated" in words_of(self.names[at]) for at in places(of))]
        return own or readings

    def quoted(self, at: int) -> str:
        """Return the name of a column for a message."""
        return quoted(self.names[at])

    def span(self, places: Sequence[int]) -> str:
        """Name columns for a message."""
        return span([self.names[at] for at in places])

    def listed(self, names: Sequence[str]) -> str:
        """List the names that are not empty."""
        return listed([name for name in names if name])


# --- What the rules of classes see

#: From this many equal first values on, the distinct values of the whole column are consulted.
_EQUAL = 100
#: Returns the distinct values of some columns of all rows, as strings.
Distinct = Callable[[Sequence[int]], Mapping[int, AbstractSet[str]]]


class ColumnChoice(Choice):
    """What the rules see of a table, the names of its columns and their first values, and what they chose."""

    texts_of = ("times", "clusters", "ids")

    def __init__(self, columns: Sequence[Column], options: FileOptions, distinct: Distinct, labelled: bool) -> None:
        super().__init__(columns, options)
        self.labelled, self._read_distinct = labelled, distinct
        self.labels: int | None = None
        #: The known names of predictions, and the names that may be theirs; those of readings so far are empty.
        self.known: frozenset[str] = PREDICTIONS
        self.free_names: list[str] = []
        #: The columns of the options.
        self.stated_places: Sequence[int] = ()
        self.family = Family((), ())
        #: The event that has the name of the labels and the number of its class; the reduction that the file implies.
        self.event: str | None = None
        self.place = 1
        #: The columns in the order of their names, if the labels can have that too.
        self.by_name: Family | None = None
        self.reduction: str | None = None
        #: All chosen columns, and those of features; for each class, the names that its column gives it.
        self.places = ColumnPlaces()
        self.features = tuple(self.find(name, "features") for name in options.features or ())
        self.classes: tuple[tuple[str, ...], ...] = ()
        self._cells = TextCells(options.decimal, percent=options.scale == "percent")
        self._whole = 100.0 if options.scale == "percent" else 1.0
        self._equal: Mapping[int, AbstractSet[str]] | None = None
        self._numbers: dict[int | None, set[float]] = {}

    def texts(self, at: int | None) -> set[str]:
        """Return the distinct values of the first rows, or of all rows if the first ones are equal, perhaps sorted."""
        if at is None:
            return set()
        texts = {text.strip() for text in self.columns[at].sample if not is_missing(text)}
        if self._is_equal(at):
            if self._equal is None:
                self._equal = self._read_distinct([at for at in range(len(self.columns)) if self._is_equal(at)])
            texts |= {self._cells.plain(text).strip() for text in self._equal.get(at, ()) if not is_missing(text)}
        return texts if "+" in texts else texts - DASHES

    def _is_equal(self, at: int) -> bool:
        column = self.columns[at]
        return column.width == 1 and len(column.sample) >= _EQUAL and len(set(column.sample)) == 1

    def numbers(self, at: int | None) -> set[float]:
        """Return the distinct numbers of the first rows; empty if there are other values too."""
        if at not in self._numbers:
            texts = self.texts(at)
            self._numbers[at] = {float(text) for text in texts} if all(map(is_number, texts)) else set()
        return self._numbers[at]

    def take(self, family: Family) -> None:
        """Leave the columns of a reading out of later ones."""
        self.free_names = ["" if at in family.places else name for at, name in enumerate(self.free_names)]

    def label_texts(self) -> set[str]:
        """Return the names of the classes: of the options, or else the labels of the first rows."""
        return self.texts(self.labels) if self.options.class_names is None else set(self.options.class_names)

    def sums_to_one(self, places: Sequence[int]) -> bool:
        """Whether the rows of several columns sum to 1."""
        samples = [self.columns[at].sample for at in places]
        if len(places) < 2 or not all(samples):  # columns of vectors have no sample
            return False
        rows = zip(*samples, strict=True)
        sums = [sum(map(float, row)) / self._whole for row in rows if all(map(is_number, row))]
        return bool(sums) and all(abs(total - 1) <= max(0.01, 0.005 * len(places)) for total in sums)

    def is_class(self, at: int) -> bool:
        """Whether a column has the values of the labels, or only 0 and 1: predicted classes, not probabilities."""
        numbers = self.numbers(at)
        are_classes = numbers <= {0.0, 1.0} or (are_integers(numbers) and numbers <= self.numbers(self.labels))
        return are_classes and (len(numbers) > 1 or (len(numbers) == 1 and self.is_predicted_class(at)))

    def is_predicted_class(self, at: int) -> bool:
        """Whether a name is that of a predicted class, such as ``y_pred``; SAS writes ``I_y`` beside ``F_y``."""
        name = self.names[at]
        folded = {name.casefold() for name in self.names}
        return is_predicted_class(name) or (name[:2] in ("I_", "i_") and f"f_{name[2:].casefold()}" in folded)

    def is_probability(self, at: int) -> bool:
        """Whether a column has numbers in [0, 1] that are not all whole, or percentages if that is the scale."""
        numbers = self.shares(at)
        inside = all(-TOLERANCE <= value <= 1 + TOLERANCE for value in numbers)
        return bool(self.columns[at].width > 1 or (numbers and inside and not are_integers(numbers)))

    def shares(self, at: int | None) -> set[float]:
        """Return ``numbers``, of which percentages are divided by 100."""
        return {value / self._whole for value in self.numbers(at)}

    def could_be_labels(self, at: int, width: int) -> bool:
        """Whether a column has a name and at most ``width`` distinct values in its first rows, without fractions.

        Marks of missing labels do not count, so that a column with gaps is not passed over for another one.
        """
        name, texts = self.names[at], without_gaps(self.texts(at))
        if at in self.chosen or not name or not texts or len(texts) > width:
            return False
        if is_id(name) or self.is_predicted_class(at):
            return False
        return not any(is_number(text) and not float(text).is_integer() for text in texts)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes in order, if a column that is named after the labels is that of class 1."""
        return None if self.event is None else self.family.classes

    @property
    def width(self) -> int:
        """The number of classes of the chosen predictions."""
        places = self.family.places
        return len(places) if len(places) > 1 else self.columns[places[0]].width


def are_integers(values: set[float]) -> bool:
    """Whether all numbers are whole."""
    return all(value.is_integer() for value in values)


# --- Rules of columns beside predictions and labels

_UNUSED = "weights: none; {columns} is not used unless it is named (--weight)"
_COUNTED, _GROUPED = "A column with a name of weights or of counts", "A column called `group`, `groups` or `subgroup`"
named("Weights", "weight-name", WEIGHTS | COUNTS, _COUNTED, "no weights", "weighted_groups.csv", _UNUSED)
named("Groups", "group-name", GROUPS, _GROUPED, "the group of each row", "weighted_groups.csv")
