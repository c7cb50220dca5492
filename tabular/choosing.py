"""Which columns of a table are predictions, labels, weights and groups: as asked, else by what their names say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabular.cells import is_missing, is_number, is_numeric
from tabular.errors import (
    Field,
    LooksLikeLogits,
    NoLabels,
    NoPredictions,
    UnclearColumns,
    UnknownColumn,
)
from tabular.names import GROUPS, LABELS, LOGITS, PREDICTIONS, WEIGHTS, Family, named, numbered, suffix, word
from tabular.sheet import Asked
from tabular.table import Column, Places
from tabular.told import listed, quoted, span

#: Names that an error offers.
_MAX_OFFERED = 100


@dataclass(frozen=True)
class Chosen:
    """``places`` of the columns; of each class the names that its column gives it; what was guessed, in sentences."""

    places: Places
    classes: tuple[tuple[str, ...], ...]
    said: tuple[str, ...]


class _Chooser:
    """Chooses the columns of one table."""

    def __init__(self, columns: Sequence[Column], asked: Asked) -> None:
        self._columns, self._asked = columns, asked
        self._names = [column.name for column in columns]
        self._taken: dict[int, Field] = {}
        self._said: list[str] = []

    def choose(self, *, labelled: bool) -> Chosen:
        asked = self._asked
        predictions = [self._find(name, "predictions") for name in asked.predictions or ()]
        labels = self._one(asked.labels, LABELS if labelled else frozenset(), "labels")
        weights = self._one(asked.weights, WEIGHTS, "weights")
        groups = self._one(asked.groups, GROUPS, "groups")
        family = self._as_asked(predictions) if predictions else self._guess(labels)
        if labelled and labels is None:
            labels = self._labels_by_content(family)
        return Chosen(Places(family.places, labels, weights, groups), self._aliases(family), tuple(self._said))

    def _find(self, asked: str, field: Field) -> int:
        name = asked.strip()
        if name not in self._names or not name:
            raise UnknownColumn(
                f"the file has no column {quoted(name)}; it has {self._listed(self._names)}",
                field=field,
                offer=tuple(name for name in self._names if name)[:_MAX_OFFERED],
            )
        return self._take(self._names.index(name), field)

    def _take(self, at: int, field: Field) -> int:
        if at in self._taken:
            raise UnclearColumns(
                f"column {quoted(self._names[at])} cannot be {self._taken[at]} and {field}", field=field
            )
        self._taken[at] = field
        return at

    def _one(self, asked: str | None, words: frozenset[str], field: Field) -> int | None:
        """The one column that was asked for, or that is called so."""
        if asked is not None:
            return self._find(asked, field)
        found = [at for at, name in enumerate(self._names) if word(name) in words and at not in self._taken]
        if len(found) > 1:
            raise self._unclear([self._names[at] for at in found], field)
        for at in found:
            self._said.append(f"{field}: column {quoted(self._names[at])}, by its name")
            return self._take(at, field)
        return None

    def _as_asked(self, predictions: Sequence[int]) -> Family:
        return Family(tuple(predictions), tuple(self._names[at] for at in predictions))

    def _guess(self, labels: int | None) -> Family:
        """The predictions by the names of their columns; raises the error of none or of several."""
        words = LOGITS if self._asked.scale == "logit" else PREDICTIONS
        found = self._candidates(words, labels)
        if not found and self._asked.scale == "logit":
            found = self._candidates(PREDICTIONS, labels)
        if not found and (family := self._of_labels(labels)) is not None:
            found = [family]
        if not found:
            raise self._none_found(labels)
        if len(found) > 1:
            raise self._unclear([self._names[at] for family in found for at in family.places], "predictions")
        self._check_gap(found[0])
        self._say(found[0])
        for at in found[0].places:
            self._take(at, "predictions")
        return found[0]

    def _candidates(self, words: frozenset[str], labels: int | None) -> list[Family]:
        names = [name if self._is_free_number(at) else "" for at, name in enumerate(self._names)]
        single = [Family((at,), (name,)) for at, name in enumerate(names) if word(name) in words]
        taken = {at for family in single for at in family.places}
        several = [family for family in numbered(names, words) if not taken & set(family.places)]
        # The probability of class 0 alone is not that of class 1.
        several = [family for family in several if family.classes != ("0",)]
        texts = self._texts(labels)
        return single + several + [family for family in named(names, words) if texts and texts <= {*family.classes}]

    def _of_labels(self, labels: int | None) -> Family | None:
        """Columns that are called as the labels are."""
        texts = self._texts(labels)
        free = [at for at in range(len(self._names)) if self._names[at] and self._is_free_number(at)]
        if not texts or not texts <= {self._names[at] for at in free}:
            return None
        every = Family(tuple(free), tuple(self._names[at] for at in free))
        if self._sums_to_one(free):
            return every
        own = [at for at in free if self._names[at] in texts]
        return Family(tuple(own), tuple(self._names[at] for at in own)) if self._sums_to_one(own) else None

    def _sums_to_one(self, places: Sequence[int]) -> bool:
        if len(places) < 2:
            return False
        rows = zip(*(self._columns[at].sample for at in places), strict=True)
        sums = [sum(map(float, row)) for row in rows if all(map(is_number, row))]
        return bool(sums) and all(abs(total - 1) <= 0.01 for total in sums)

    def _texts(self, labels: int | None) -> set[str]:
        sample = () if labels is None else self._columns[labels].sample
        return {text.strip() for text in sample if not is_missing(text)}

    def _is_free_number(self, at: int) -> bool:
        """Whether a column is not taken, and holds something that was meant as a number, or nothing at all."""
        sample = self._columns[at].sample
        return at not in self._taken and (any(map(is_numeric, sample)) or all(map(is_missing, sample)))

    def _check_gap(self, family: Family) -> None:
        if not all(name.isdecimal() for name in family.classes) or len(family.places) == 1:
            return
        present = {int(name) for name in family.classes}
        low = 0 if 0 in present else 1
        missing = next((k for k in range(low, low + len(present)) if k not in present), None)
        if missing is not None:
            raise UnclearColumns(
                f"the predictions stand in a column a class, {span([self._names[at] for at in family.places])}, "
                f"but that of class {missing} is not among them",
                field="predictions",
            )

    def _say(self, family: Family) -> None:
        names = [self._names[at] for at in family.places]
        if len(names) > 1:
            self._said.append(f"predictions: {span(names)}, the classes in this order, by their names")
        elif self._columns[family.places[0]].width > 1:
            self._said.append(f"predictions: {quoted(names[0])}, by its name")
        else:
            what = "logit" if self._asked.scale == "logit" else "probability"
            self._said.append(f"predictions: column {quoted(names[0])} as the {what} of class 1, by its name")

    def _labels_by_content(self, family: Family) -> int:
        """The one column that could be labels by what it holds."""
        width = len(family.places) if len(family.places) > 1 else max(2, self._columns[family.places[0]].width)
        found = [at for at in range(len(self._names)) if self._could_be_labels(at, width)]
        others = [
            self._names[at] for at in found or range(len(self._names)) if at not in self._taken and self._names[at]
        ]
        if len(found) > 1:
            raise self._unclear(others, "labels")
        if not found:
            raise NoLabels(
                "no column is known to hold the labels: call it 'label', or say which"
                + (f" of {self._listed(others)}" if others else "; the file has no other column"),
                field="labels",
                offer=tuple(others[:_MAX_OFFERED]),
            )
        self._said.append(f"labels: column {quoted(self._names[found[0]])}, the only one that could be")
        return self._take(found[0], "labels")

    def _could_be_labels(self, at: int, width: int) -> bool:
        """Whether a column has a name and at most ``width`` different values, none of them a fraction."""
        texts = self._texts(at)
        if at in self._taken or not self._names[at] or not texts or len(texts) > width:
            return False
        return not any(is_number(text) and not float(text).is_integer() for text in texts)

    def _none_found(self, labels: int | None) -> NoPredictions | LooksLikeLogits:
        if self._asked.scale == "probability" and (logits := self._candidates(LOGITS, labels)):
            names = [self._names[at] for at in logits[0].places]
            return LooksLikeLogits(
                f"{span(names)} is called logits: if that is what it holds, say so by the scale"
                if len(names) == 1
                else f"{span(names)} are called logits: if that is what they hold, say so by the scale",
                field="scale",
                offer=("logit",),
            )
        free = [self._names[at] for at in range(len(self._names)) if self._names[at] and self._is_free_number(at)]
        # What is called so is labels: as predictions it would make a report that says nothing.
        free = [name for name in free if word(name) not in LABELS | WEIGHTS | GROUPS]
        if len(self._names) == 1:
            detail = f"the file has one column only, {quoted(self._names[0])}: are its columns separated by commas?"
        else:
            detail = "no column is known to hold the predictions: call it 'p', or 'prob_0', 'prob_1' and so on for " + (
                f"several classes, or say which of {self._listed(free)}"
                if free
                else "several classes; none has numbers"
            )
        return NoPredictions(detail, field="predictions", offer=tuple(free[:_MAX_OFFERED]))

    def _unclear(self, names: Sequence[str], field: Field) -> UnclearColumns:
        return UnclearColumns(
            f"several columns could be the {field}: {listed(names)}; say which",
            field=field,
            offer=tuple(names[:_MAX_OFFERED]),
        )

    def _listed(self, names: Sequence[str]) -> str:
        return listed([name for name in names if name])

    def _aliases(self, family: Family) -> tuple[tuple[str, ...], ...]:
        """Of each class the names that its column gives it: the column's own, and what it ends in."""
        found = []
        for at, name in zip(family.places, family.classes, strict=True):
            end = suffix(self._names[at])
            found.append(tuple(dict.fromkeys((name, self._names[at], *([end] if end else [])))))
        return tuple(found)


def choose(columns: Sequence[Column], asked: Asked, *, labelled: bool) -> Chosen:
    """Choose the columns of a table; raises the ``TabularError`` of what is missing or unclear.

    A guess is by names, and for labels alone by content too, where one column only could be: it is never one among
    several. Logits are never guessed.
    """
    return _Chooser(columns, asked).choose(labelled=labelled)
