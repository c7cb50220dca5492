"""Inference of the columns of predictions, labels, weights and groups from names and contents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.batch import TOLERANCE
from calibrant.io.errors import (
    Field,
    LooksLikeLogits,
    LooksLikePercent,
    NoLabels,
    NoPredictions,
    OutOfRange,
    UnclearColumns,
    UnknownColumn,
)
from calibrant.io.table import Column, Floats, Places, Scale, SheetOptions
from calibrant.io.texts import is_missing, is_number, is_numeric, listed, quoted, row_of, span

# --- Column names


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


LABELS = _set_of(
    "y label labels target targets class truth ytrue groundtruth gt actual actuals outcome truelabel truelabels "
    "trueclass classlabel"
)
PREDICTIONS = _set_of(
    "p prob probs proba probas probability probabilities score scores yprob yprobs yproba yscore prediction "
    "predictions pred preds ypred yhat predprob predproba predictedprobability softmax"
)
LOGITS = _set_of("logit logits logodds ylogit ylogits")
WEIGHTS = _set_of("w weight weights sampleweight sampleweights")
GROUPS = _set_of("group groups subgroup")
#: Words before the number of a class, in addition to names of predictions.
_OF_CLASS = frozenset(("class",))

_NUMBERED = re.compile(r"(.*?)[ _.\-\[(]*(0|[1-9][0-9]{0,5})[\])]?")
_NAMED = re.compile(r"([A-Za-z_ ]+?)[ _.\-\[(]+([^\])]+)[\])]?")


def word(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(c for c in name.casefold() if c.isalnum())


@dataclass(frozen=True)
class Family:
    """Columns of predictions that belong together: their indices, and the names of their classes."""

    places: tuple[int, ...]
    classes: tuple[str, ...]


def suffix(name: str, known: frozenset[str] = PREDICTIONS | LOGITS) -> str | None:
    """Return the class at the end of a column name: ``cat`` for ``prob_cat``, ``1`` for ``p1``, or None."""
    for pattern in (_NUMBERED, _NAMED):
        found = pattern.fullmatch(name)
        if found is not None and word(found[1]) in known:
            return found[2].strip()
    return None


def numbered(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``prob_0`` to ``prob_9``, or ``0`` to ``9``, in the order of their numbers.

    A single column counts if it has a word before its number. Gaps between numbers after a word are not checked.
    """
    stems: dict[str, dict[int, int]] = {}
    for at, name in enumerate(names):
        found = _NUMBERED.fullmatch(name)
        if found is not None and (not found[1] or word(found[1]) in known | _OF_CLASS):
            stems.setdefault(found[1].casefold(), {})[int(found[2])] = at
    return [
        Family(tuple(at for _, at in sorted(of.items())), tuple(str(k) for k in sorted(of)))
        for stem, of in stems.items()
        if (len(of) > 1 or word(stem) in known) and (stem or set(of) == set(range(len(of))))
    ]


def named(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``prob_cat`` and ``prob_dog``, in file order."""
    stems: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(names):
        found = _NAMED.fullmatch(name)
        if found is not None and word(found[1]) in known and not found[2].isdecimal():
            stems.setdefault(word(found[1]), []).append((at, found[2].strip()))
    return [Family(tuple(at for at, _ in of), tuple(name for _, name in of)) for of in stems.values() if len(of) > 1]


# --- Choosing columns: those given in the options, else inferred

#: The most names in the offer of an error.
_MAX_OFFERED = 100


@dataclass(frozen=True)
class Chosen:
    """The chosen columns; for each class, the names that its column gives it; notes on what was inferred."""

    places: Places
    classes: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


class _Chooser:
    """Chooses the columns of a table."""

    def __init__(self, columns: Sequence[Column], options: SheetOptions) -> None:
        self._columns, self._options = columns, options
        self._names = [column.name for column in columns]
        self._chosen: dict[int, Field] = {}
        self._notes: list[str] = []

    def choose(self, *, labelled: bool) -> Chosen:
        options = self._options
        predictions = [self._find(name, "predictions") for name in options.predictions or ()]
        labels = self._one(options.labels, LABELS if labelled else frozenset(), "labels")
        weights = self._one(options.weights, WEIGHTS, "weights")
        groups = self._one(options.groups, GROUPS, "groups")
        family = self._as_stated(predictions) if predictions else self._guess(labels)
        if labelled and labels is None:
            labels = self._labels_by_content(family)
        return Chosen(Places(family.places, labels, weights, groups), self._aliases(family), tuple(self._notes))

    def _find(self, stated: str, field: Field) -> int:
        name = stated.strip()
        if name not in self._names or not name:
            raise UnknownColumn(
                f"the file has no column {quoted(name)}; it has {self._listed(self._names)}",
                field=field,
                offer=tuple(name for name in self._names if name)[:_MAX_OFFERED],
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
        found = [at for at, name in enumerate(self._names) if word(name) in known and at not in self._chosen]
        if len(found) > 1:
            raise self._unclear([self._names[at] for at in found], field)
        for at in found:
            self._notes.append(f"{field}: column {quoted(self._names[at])} (inferred from its name)")
            return self._choose(at, field)
        return None

    def _as_stated(self, predictions: Sequence[int]) -> Family:
        return Family(tuple(predictions), tuple(self._names[at] for at in predictions))

    def _guess(self, labels: int | None) -> Family:
        """Infer the columns of predictions from their names; raises an error if there are none or several."""
        known = LOGITS if self._options.scale == "logit" else PREDICTIONS
        found = self._candidates(known, labels)
        if not found and self._options.scale == "logit":
            found = self._candidates(PREDICTIONS, labels)
        if not found and (family := self._of_labels(labels)) is not None:
            found = [family]
        if not found:
            raise self._none_found(labels)
        if len(found) > 1:
            raise self._unclear([self._names[at] for family in found for at in family.places], "predictions")
        self._check_gap(found[0])
        self._note(found[0])
        for at in found[0].places:
            self._choose(at, "predictions")
        return found[0]

    def _candidates(self, known: frozenset[str], labels: int | None) -> list[Family]:
        names = [name if self._is_free_number(at) else "" for at, name in enumerate(self._names)]
        single = [Family((at,), (name,)) for at, name in enumerate(names) if word(name) in known]
        used = {at for family in single for at in family.places}
        several = [family for family in numbered(names, known) if not used & set(family.places)]
        # A single column prob_0 is not P(Y=1).
        several = [family for family in several if family.classes != ("0",)]
        texts = self._texts(labels)
        return single + several + [family for family in named(names, known) if texts and texts <= {*family.classes}]

    def _of_labels(self, labels: int | None) -> Family | None:
        """Find columns named like the labels."""
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
        """Whether a column is not chosen yet and is numeric or entirely missing."""
        sample = self._columns[at].sample
        return at not in self._chosen and (any(map(is_numeric, sample)) or all(map(is_missing, sample)))

    def _check_gap(self, family: Family) -> None:
        if not all(name.isdecimal() for name in family.classes) or len(family.places) == 1:
            return
        present = {int(name) for name in family.classes}
        low = 0 if 0 in present else 1
        missing = next((k for k in range(low, low + len(present)) if k not in present), None)
        if missing is not None:
            raise UnclearColumns(
                f"the predictions have one column per class, {span([self._names[at] for at in family.places])}, "
                f"but the column of class {missing} is missing",
                field="predictions",
            )

    def _note(self, family: Family) -> None:
        names = [self._names[at] for at in family.places]
        if len(names) > 1:
            self._notes.append(f"predictions: {span(names)}, one per class in this order (inferred from their names)")
        elif self._columns[family.places[0]].width > 1:
            self._notes.append(f"predictions: {quoted(names[0])} (inferred from its name)")
        else:
            what = "logit" if self._options.scale == "logit" else "probability"
            self._notes.append(
                f"predictions: column {quoted(names[0])}, the {what} of class 1 (inferred from its name)"
            )

    def _labels_by_content(self, family: Family) -> int:
        """Return the only column whose content can be labels; raises an error if there are none or several."""
        width = len(family.places) if len(family.places) > 1 else max(2, self._columns[family.places[0]].width)
        found = [at for at in range(len(self._names)) if self._could_be_labels(at, width)]
        others = [
            self._names[at] for at in found or range(len(self._names)) if at not in self._chosen and self._names[at]
        ]
        if len(found) > 1:
            raise self._unclear(others, "labels")
        if not found:
            raise NoLabels(
                "no column of labels found; name it 'label'"
                + (f", or choose one of {self._listed(others)}" if others else " (the file has no other column)"),
                field="labels",
                offer=tuple(others[:_MAX_OFFERED]),
            )
        self._notes.append(f"labels: column {quoted(self._names[found[0]])} (the only column that can be labels)")
        return self._choose(found[0], "labels")

    def _could_be_labels(self, at: int, width: int) -> bool:
        """Whether a column has a name and at most ``width`` distinct values in its first rows, without fractions."""
        texts = self._texts(at)
        if at in self._chosen or not self._names[at] or not texts or len(texts) > width:
            return False
        return not any(is_number(text) and not float(text).is_integer() for text in texts)

    def _none_found(self, labels: int | None) -> NoPredictions | LooksLikeLogits:
        if self._options.scale == "probability" and (logits := self._candidates(LOGITS, labels)):
            names = [self._names[at] for at in logits[0].places]
            verb = "seems" if len(names) == 1 else "seem"
            return LooksLikeLogits(
                f"{span(names)} {verb} to be logits; if so, set the scale to logit",
                field="scale",
                offer=("logit",),
            )
        free = [self._names[at] for at in range(len(self._names)) if self._names[at] and self._is_free_number(at)]
        # Do not offer a column of labels: a report on it would be meaningless.
        free = [name for name in free if word(name) not in LABELS | WEIGHTS | GROUPS]
        if len(self._names) == 1:
            detail = f"the file has only one column, {quoted(self._names[0])}; are its columns separated by commas?"
        else:
            detail = "no column of predictions found; name it 'p', or 'prob_0', 'prob_1' and so on for several classes"
            detail += f", or choose one of {self._listed(free)}" if free else " (no column has numbers)"
        return NoPredictions(detail, field="predictions", offer=tuple(free[:_MAX_OFFERED]))

    def _unclear(self, names: Sequence[str], field: Field) -> UnclearColumns:
        return UnclearColumns(
            f"several columns could be the {field}: {listed(names)}; choose one",
            field=field,
            offer=tuple(names[:_MAX_OFFERED]),
        )

    def _listed(self, names: Sequence[str]) -> str:
        return listed([name for name in names if name])

    def _aliases(self, family: Family) -> tuple[tuple[str, ...], ...]:
        """Return for each class the names from its column: the name of the class, of the column, and its suffix."""
        found = []
        for at, name in zip(family.places, family.classes, strict=True):
            end = suffix(self._names[at])
            found.append(tuple(dict.fromkeys((name, self._names[at], *([end] if end else [])))))
        return tuple(found)


def choose(columns: Sequence[Column], options: SheetOptions, *, labelled: bool) -> Chosen:
    """Choose the columns of a table; raises a ``TabularError`` if a column is missing or ambiguous.

    Columns are inferred from their names; labels also from their content if only one column qualifies. The scale logit
    is never inferred.
    """
    return _Chooser(columns, options).choose(labelled=labelled)


# --- Checks of the scale: probabilities must not be percentages or logits

_WHOLE = 100.0


def check_scale(predictions: Floats, scale: Scale, what: str) -> tuple[str, ...]:
    """Raise an error if the predictions do not match the scale; values up to 1e-4 outside [0, 1] are accepted.

    ``what`` names the columns. Returns notes on values that look like something else.
    """
    low, high = float(predictions.min()), float(predictions.max())
    inside = low >= -TOLERANCE and high <= 1 + TOLERANCE
    if scale == "logit":
        return (f"predictions: read as logits as requested, but all values of {what} are in [0, 1]",) if inside else ()
    if inside:
        note = f"predictions: {what} has only the values 0 and 1, like predicted classes"
        return (note,) if _are_whole(predictions) else ()
    if low < -TOLERANCE:
        raise LooksLikeLogits(
            f"values of {what} are negative, so they are not probabilities; if they are logits, set the scale to logit",
            field="scale",
            offer=("logit",),
        )
    if high <= _WHOLE * (1 + TOLERANCE) and _sums_to_hundred(predictions):
        classes = " (or predicted classes, which are not probabilities)" if _are_whole(predictions) else ""
        raise LooksLikePercent(
            f"values of {what} are above 1 but not above 100; they look like percentages{classes}: divide by 100",
            field="predictions",
        )
    row = int(np.argmax((predictions > 1 + TOLERANCE).reshape(len(predictions), -1).any(axis=1)))
    raise OutOfRange(
        f"values of {what} are outside [0, 1], first in {row_of(row)}; if they are logits, set the scale to logit",
        field="predictions",
    )


def _sums_to_hundred(predictions: Floats) -> bool:
    """Whether rows of several classes sum to 100; True for one column."""
    if predictions.ndim == 1:
        return True
    return bool(abs(float(np.median(predictions.sum(axis=1))) - _WHOLE) <= 1)


def _are_whole(predictions: Floats) -> bool:
    """Whether predictions are one column of whole numbers."""
    return predictions.ndim == 1 and bool(np.all(predictions == np.floor(predictions)))
