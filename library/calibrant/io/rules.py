"""Rules of inference: each is a row of a table with what it sees, reads and prints, and a file that needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from calibrant.io.column_names import COUNTS, GROUPS, WEIGHTS, word
from calibrant.io.errors import Field, UnclearColumns, UnknownColumn
from calibrant.io.table import Column
from calibrant.io.texts import listed, may_be_numbers, quoted

#: The most names in the offer of an error.
MAX_OFFERED = 100
#: What most rules print.
BY_NAME = "{field}: {columns} (inferred from {their})"


@dataclass(frozen=True)
class Rule:
    """A row of the table; ``find`` returns the readings of a table.

    Rules of predictions compete: several readings are refused. Those that are ``fallback`` count only if there is no
    other reading. Of the rules of other fields, the first one that has a reading counts.
    """

    name: str
    field: Field
    sees: str
    reads: str
    #: What it prints.
    prints: str
    #: A file of tests/newcomer/files that needs it.
    file: str
    find: Callable[[Any], Sequence[Any]]
    fallback: bool = False


def rule(
    table: list[Rule], field: Field, file: str, prints: str = BY_NAME, *, fallback: bool = False
) -> Callable[[Callable[[Any], Sequence[Any]]], Callable[[Any], Sequence[Any]]]:
    """Add a function to a table of rules; its docstring is what the rule sees, a colon, and what it reads."""

    def added(find: Callable[[Any], Sequence[Any]]) -> Callable[[Any], Sequence[Any]]:
        sees, _, reads = " ".join((find.__doc__ or "").split()).removesuffix(".").partition(": ")
        name = find.__name__.strip("_").replace("_", "-")
        table.append(Rule(name, field, sees, reads, prints, file, find, fallback))
        return find

    return added


class Choice:
    """The columns of a table, what was chosen of them for which field, and notes on what was inferred."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self.names = [column.name for column in columns]
        self.chosen: dict[int, Field] = {}
        self.notes: list[str] = []

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
        places = [
            at for at, column in enumerate(self.names) if column and fnmatchcase(column, name) and self.is_free(at)
        ]
        if not places:
            has = f"no column of numbers matches {quoted(name)}; the file has {self.listed(self.names)}"
            raise UnknownColumn(has, field=field)
        return [self.choose(at, field) for at in places]

    def choose(self, at: int, field: Field) -> int:
        """Choose a column; raises ``UnclearColumns`` if it is chosen for another field."""
        if at in self.chosen:
            both = f"column {quoted(self.names[at])} cannot be used for both {self.chosen[at]} and {field}"
            raise UnclearColumns(both, field=field)
        self.chosen[at] = field
        return at

    def is_free(self, at: int) -> bool:
        """Whether a column is not chosen yet, and has numbers, vectors or only missing values."""
        return at not in self.chosen and may_be_numbers(self.columns[at].sample)

    def called(self, known: frozenset[str]) -> list[int]:
        """Return the columns that are not chosen yet and have one of these names."""
        return [at for at, name in enumerate(self.names) if at not in self.chosen and word(name) in known]

    def weights(self, stated: str | None, *, noted: bool = True) -> int | None:
        """Choose the column of weights that the options name; others are noted, and are no labels or predictions."""
        if stated is not None:
            return self.find(stated, "weights")
        for row in WEIGHT_RULES if noted else ():
            for at in row.find(self):
                self.note(row, [at])
        self.chosen |= dict.fromkeys(self.called(WEIGHTS), "weights")
        return None

    def groups(self, stated: Sequence[str] | None) -> tuple[int, ...]:
        """Choose the columns of groups that the options name, or the only one with such a name."""
        if stated:
            return tuple(self.find(name, "groups") for name in stated)
        return () if (at := self.only("groups", GROUP_RULES)) is None else (at,)

    def only(self, field: Field, rules: Sequence[Rule]) -> int | None:
        """Choose the column of the first rule of a field that has a reading; raises ``UnclearColumns`` for several."""
        for rule in rules:
            places = rule.find(self)
            if len(places) > 1:
                raise self.unclear([(self.names[at],) for at in places], field)
            if places:
                self.note(rule, places)
                return self.choose(places[0], field)
        return None

    def note(self, rule: Rule, places: Sequence[int], **more: str) -> None:
        """Keep what a rule prints of its columns."""
        columns = f"column {quoted(self.names[places[0]])}" if len(places) == 1 else ""
        self.notes.append(rule.prints.format(field=rule.field, columns=columns, their="its name", **more))

    def unclear(self, readings: Sequence[tuple[str, ...]], field: Field) -> UnclearColumns:
        """Return the error for several readings of a field."""
        names = [name for reading in readings for name in reading]
        return UnclearColumns(
            f"several columns could be the {field}: {listed(names)}; choose one",
            field=field,
            offer=tuple(names[:MAX_OFFERED]),
            readings=tuple(readings[:MAX_OFFERED]),
        )

    def listed(self, names: Sequence[str]) -> str:
        """List the names that are not empty."""
        return listed([name for name in names if name])


#: The rules of weights and of groups.
WEIGHT_RULES: list[Rule] = []
GROUP_RULES: list[Rule] = []


@rule(
    WEIGHT_RULES, "weights", "weighted_groups.csv", "weights: none; {columns} is not used unless it is named (--weight)"
)
def _weight_name(choice: Choice) -> list[int]:
    """A column with a name of weights or of counts: no weights."""
    return choice.called(WEIGHTS | COUNTS)


@rule(GROUP_RULES, "groups", "weighted_groups.csv")
def _group_name(choice: Choice) -> list[int]:
    """A column called `group`, `groups` or `subgroup`: the group of each row."""
    return choice.called(GROUPS)
