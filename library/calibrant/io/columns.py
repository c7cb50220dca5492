"""Inference of the columns of predictions, labels, weights and groups from names and contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from calibrant.arrays import with_integer
from calibrant.batch import TOLERANCE
from calibrant.inputs import is_negative
from calibrant.io.column_names import (
    CONFIDENCE,
    CORRECT,
    COUNTS,
    FALLBACKS,
    GROUPS,
    LABELS,
    LOGITS,
    NUMBERED,
    PREDICTIONS,
    WEIGHT,
    WEIGHTS,
    Family,
    among,
    before,
    by_number,
    is_counts,
    is_id,
    is_like_prediction,
    is_measured,
    is_predicted_class,
    named,
    negative_first,
    number_of,
    numbered,
    reverse,
    suffix,
    suffix_number,
    without_common_start,
    word,
    words_of,
)
from calibrant.io.errors import (
    Field,
    LooksLikeLogits,
    NoLabels,
    NoPredictions,
    NotLabels,
    TabularError,
    UnclearColumns,
    UnclearOrder,
    UnknownColumn,
)
from calibrant.io.labels import one_hot, without_gaps
from calibrant.io.scale import scale_error
from calibrant.io.table import Column, Floats, Ints, Places, SheetOptions
from calibrant.io.texts import (
    DASHES,
    MAX_LISTED,
    are_digits,
    is_missing,
    is_number,
    is_numeric,
    listed,
    may_be_numbers,
    quoted,
    refusal,
    row_of,
    span,
)

# --- Choosing columns: those given in the options, else inferred

#: The most names in the offer of an error.
_MAX_OFFERED = 100
#: From this many equal first values on, the distinct values of the whole column are consulted.
_EQUAL = 100
#: How Hugging Face calls the columns of classes without names: ``LABEL_0``.
_UNNAMED = frozenset(("label",))
#: From this many rows on, scores of the predicted class 0 of at least one half are those of this class.
_SOME_ROWS = 5
#: Returns the distinct values of some columns of all rows, as strings.
Distinct = Callable[[Sequence[int]], Mapping[int, AbstractSet[str]]]


@dataclass(frozen=True)
class Chosen:
    """The chosen columns; for each class, the names that its column gives it; notes on what was inferred."""

    places: Places
    classes: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    times: int | None = None
    #: Names of the classes in order, if a column that is named after the labels is that of class 1.
    class_names: tuple[str, ...] | None = None
    #: The columns in the order of their names, if they were inferred in another order of the file.
    by_name: Family | None = None


class _Chooser:
    """Chooses the columns of a table."""

    def __init__(self, columns: Sequence[Column], options: SheetOptions, distinct: Distinct) -> None:
        self._columns, self._options, self._read_distinct = columns, options, distinct
        self._equal: Mapping[int, AbstractSet[str]] | None = None
        self._names = [column.name for column in columns]
        self._chosen: dict[int, Field] = {}
        self._notes: list[str] = []
        self._labelled = True
        self._pipeline: int | None = None  # the column of the labels that a pipeline predicted
        self._distinct: dict[int | None, set[float]] = {}
        self._folded = {name.casefold() for name in self._names}

    def choose(self, *, labelled: bool) -> Chosen:
        options = self._options
        self._labelled = labelled
        times = None if options.times is None else self._find(options.times, "times")
        # A column of labels that the wildcard of the predictions matches is none of them.
        stated = None if options.labels is None else self._find(options.labels, "labels")
        predictions = [at for name in options.predictions or () for at in self._matching(name)]
        labels = self._labels_by_name(predictions) if stated is None and labelled else stated
        weights = self._weights(options.weights)
        groups = self._groups(options.groups)
        family = self._as_stated(predictions) if predictions else self._guess(labels)
        self._check_classes(family)
        if labelled and labels is None:
            labels = self._labels_by_content(family)
        if not predictions:
            self._check_gap(family, labels)
        if labels is not None:
            self._check_one_hot(family, labels)
        is_ordered = self._is_ordered(predictions, family)
        event = None if is_ordered else self._event(family, labels)
        place = 0 if is_negative(self._options.pos_label or "") else 1
        if event is not None and family.classes[place] != event:
            self._notes.append(f"classes: {quoted(event)} is class {place}, as the column of labels has its name")
            family = reverse(family)
        if not predictions:
            self._note(family)
        elif not labelled:
            self._note_negative(family)
        predicted = self._predicted(family, labels) if labelled else None
        return Chosen(
            Places(family.places, labels, weights, groups, predicted),
            self._aliases(family),
            tuple(self._notes),
            times,
            None if event is None else family.classes,
            None if event is not None or is_ordered else _by_name(family),
        )

    def _is_ordered(self, predictions: Sequence[int], family: Family) -> bool:
        """Whether the options state the order of the classes; ``predictions`` are the columns that they name."""
        options = self._options
        is_named = len(predictions) == len(options.predictions or ()) > 0  # without a wildcard
        is_positive = options.pos_label is not None and bool(among({options.pos_label.strip()}, family.classes))
        return is_named or is_positive or bool(options.mapping or options.class_names)

    def _event(self, family: Family, labels: int | None) -> str | None:
        """Return the one of two classes that has the name of the column of labels, as in ``churn`` and ``p_churn``."""
        if labels is None or len(family.classes) != 2:
            return None
        found = [name for name in family.classes if word(name) == word(self._names[labels])]
        return found[0] if len(found) == 1 else None

    def _find(self, stated: str, field: Field) -> int:
        name = stated.strip()
        if name not in self._names or not name:
            raise UnknownColumn(
                f"the file has no column {quoted(name)}; it has {self._listed(self._names)}",
                field=field,
                offer=tuple(name for name in self._names if name)[:_MAX_OFFERED],
            )
        return self._choose(self._names.index(name), field)

    def _matching(self, stated: str) -> list[int]:
        """Return the column of this name, or the numeric columns that a wildcard such as ``prob_*`` matches."""
        name = stated.strip()
        if name in self._names or not any(mark in name for mark in "*?["):
            return [self._find(stated, "predictions")]
        found = [
            at
            for at, column in enumerate(self._names)
            if column and fnmatchcase(column, name) and self._is_free_number(at)
        ]
        if not found:
            raise UnknownColumn(
                f"no column of numbers matches {quoted(name)}; the file has {self._listed(self._names)}",
                field="predictions",
            )
        ends = [NUMBERED.fullmatch(with_integer(self._names[at])) for at in found]
        if len({end[1] for end in ends if end is not None}) == 1 and None not in ends:
            found.sort(key=lambda at: int(suffix_number(with_integer(self._names[at]))))
        return [self._choose(at, "predictions") for at in found]

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
            raise self._unclear([(self._names[at],) for at in found], field)
        for at in found:
            self._notes.append(f"{field}: column {quoted(self._names[at])} (inferred from its name)")
            return self._choose(at, field)
        return None

    def _weights(self, stated: str | None) -> int | None:
        """Return the column of weights; one called ``weight`` that looks like a feature only if the options name it."""
        found = [at for at, name in enumerate(self._names) if word(name) in WEIGHTS and at not in self._chosen]
        if stated is None and not self._labelled:
            self._chosen |= dict.fromkeys(found, "weights")  # which are not used, and are no predictions
            return None
        name = self._names[found[0]] if len(found) == 1 else ""
        if stated is None and word(name) == WEIGHT and (numbers := self._numbers(found[0])) and is_measured(numbers):
            what = f"column {quoted(name)} looks like a measured quantity"
            self._notes.append(f"weights: none; {what}: name it if it has weights of rows")
            return None
        chosen = self._one(stated, WEIGHTS, "weights")
        for at, name in enumerate(self._names) if chosen is None else ():
            if word(name) in COUNTS and at not in self._chosen and is_counts(self._numbers(at)):
                what = f"column {quoted(name)} has whole numbers"
                self._notes.append(f"weights: none; {what}: name it if each row stands for so many")
        return chosen

    def _groups(self, stated: Sequence[str] | None) -> tuple[int, ...]:
        if stated:
            return tuple(self._find(name, "groups") for name in stated)
        found = self._one(None, GROUPS, "groups")
        return () if found is None else (found,)

    def _as_stated(self, predictions: Sequence[int]) -> Family:
        names = [self._names[at] for at in predictions]
        ends = [end for name in names if (end := suffix(name)) is not None]
        classes = ends if len(set(ends)) == len(names) > 1 else names
        family = Family(tuple(predictions), tuple(classes))
        wildcard = len(self._options.predictions or ()) < len(predictions)
        return self._ordered(family) if wildcard or self._options.class_names or self._options.pos_label else family

    def _ordered(self, family: Family) -> Family:
        """Return the columns in the order of the class names or with the positive class last, if they name them."""
        names, positive = self._options.class_names, self._options.pos_label
        if names is not None:
            found = [name for text in names for name in among({text}, family.classes)]
            if len(names) != len(family.classes) or sorted(found) != sorted(family.classes):
                return family
            return Family(tuple(family.places[family.classes.index(name)] for name in found), names)
        if positive is not None and len(family.classes) == 2 and (end := among({positive.strip()}, family.classes)):
            return family if family.classes[1] == end[0] else reverse(family)
        return negative_first(family)

    def _check_classes(self, family: Family) -> None:
        """Raise an error if the columns are named after other classes than the given ones."""
        names, columns = self._options.class_names, [self._names[at] for at in family.places]
        if names is None:
            return
        if len(columns) == 1:
            end = suffix(columns[0])
            if len(names) == 2 and end is not None and among({end}, names) == [names[0]]:
                raise UnclearColumns(
                    f"column {quoted(columns[0])} is that of {quoted(names[0])}, and {quoted(names[1])} is class 1",
                    field="predictions",
                )
            return
        shared = [name for name in family.classes if among({name}, names)]
        if shared and len(shared) < len(names) == len(family.classes):
            raise UnclearColumns(
                f"the columns of predictions are named after {listed(family.classes)}, but the classes are "
                f"{listed(names)}",
                field="predictions",
            )

    def _guess(self, labels: int | None) -> Family:
        """Infer the columns of predictions from their names; raises an error if there are none or several."""
        known = LOGITS if self._options.scale == "logit" else PREDICTIONS
        found = self._candidates(known, labels)
        if not found and self._options.scale == "logit":
            found = self._candidates(PREDICTIONS, labels)
        if not found:
            raise self._none_found(labels)
        if not self._labelled:  # a map is applied to the predictions of the model
            found = [family for family in found if not self._is_calibrated(family)] or found
        if len(found) > 1:
            raise self._unclear([tuple(self._names[at] for at in family.places) for family in found], "predictions")
        family = self._ordered(found[0])
        for at in family.places:
            self._choose(at, "predictions")
        return family

    def _is_calibrated(self, family: Family) -> bool:
        return all("calibrated" in words_of(self._names[at]) for at in family.places)

    def _candidates(self, known: frozenset[str], labels: int | None) -> list[Family]:
        """Return all families of columns that can be the predictions."""
        names = [with_integer(name) if self._is_free_number(at) else "" for at, name in enumerate(self._names)]
        texts = self._texts(labels) if self._options.class_names is None else set(self._options.class_names)
        several, used = list[Family](), set[int]()
        # A single column prob_0 is not P(Y=1).
        with_numbers = [family for family in numbered(names, known) if family.classes != ("0",)]
        with_numbers += [family for family in numbered(names, _UNNAMED) if self._is_unnamed(family)]
        many = [family for family in with_numbers if len(family.places) > 1]
        for families in (named(names, known), many, before(names, known)):
            fitting = [
                (family, found)
                for family in families
                if not used & set(family.places)
                and (found := family if families is many else self._fitting(family, texts)) is not None
            ]
            several += [found for _, found in fitting]
            # Columns beside those of the labels, such as prob_max, are no other predictions.
            used |= {at for family, _ in fitting for at in family.places}
        free = [at for at, name in enumerate(names) if name and at not in used]
        if among(texts, names):
            free = [at for at in free if not self._is_class(at, labels)]
        if (called := self._fitting(Family(tuple(free), tuple(names[at] for at in free)), texts, own=True)) is not None:
            several.append(by_number(called))
            used |= set(called.places)
        single = [at for at in free if word(names[at]) in known]
        single += [family.places[0] for family in with_numbers if len(family.places) == 1 and family.places[0] in free]
        if known is not LOGITS:
            single += [at for at in free if is_like_prediction(names[at]) and self._is_probability(at)]
        single = [at for at in single if at not in used and suffix(names[at]) != "0"]
        kept = sorted({at for at in single if not self._is_class(at, labels)})
        if not kept and not several:
            # A submission to Kaggle has its predictions in a column named after the target.
            others = FALLBACKS if self._labelled else FALLBACKS | LABELS
            kept = [at for at in free if word(names[at]) in others and self._is_probability(at)]
        return [Family((at,), (names[at],)) for at in kept] + several

    def _fitting(self, family: Family, texts: set[str], *, own: bool = False) -> Family | None:
        """Return the columns whose names are the labels or whose rows sum to 1; ``own`` requires the labels."""
        if texts and not own and not among(texts, family.classes):
            family = without_common_start(family, texts)
        chosen = set(among(texts, family.classes))
        if own and not chosen:
            return None
        if self._sums_to_one(family.places):
            return family
        if not chosen:
            return None
        kept = [(at, name) for at, name in zip(family.places, family.classes, strict=True) if name in chosen]
        if len(kept) > 1 and self._sums_to_one([at for at, _ in kept]):
            return Family(tuple(at for at, _ in kept), tuple(name for _, name in kept))
        return None if own else family

    def _is_unnamed(self, family: Family) -> bool:
        """Whether columns ``LABEL_0`` and so on are probabilities, not labels."""
        names = [self._names[at] for at in family.places]
        numbers = [*map(number_of, names)]
        if numbers == names or numbers != [*map(str, range(len(names)))]:
            return False
        return self._sums_to_one(family.places) and not any(self._is_class(at, None) for at in family.places)

    def _sums_to_one(self, places: Sequence[int]) -> bool:
        samples = [self._columns[at].sample for at in places]
        if len(places) < 2 or not all(samples):  # columns of vectors have no sample
            return False
        rows = zip(*samples, strict=True)
        sums = [sum(map(float, row)) for row in rows if all(map(is_number, row))]
        return bool(sums) and all(abs(total - 1) <= max(0.01, 0.005 * len(places)) for total in sums)

    def _texts(self, at: int | None) -> set[str]:
        """Return the distinct values of the first rows, or of all rows if the first ones are equal, perhaps sorted."""
        if at is None:
            return set()
        found = {text.strip() for text in self._columns[at].sample if not is_missing(text)}
        if self._is_equal(at):
            if self._equal is None:
                self._equal = self._read_distinct([at for at in range(len(self._columns)) if self._is_equal(at)])
            found |= {text.strip() for text in self._equal.get(at, ()) if not is_missing(text)}
        return found if "+" in found else found - DASHES

    def _is_equal(self, at: int) -> bool:
        column = self._columns[at]
        return column.width == 1 and len(column.sample) >= _EQUAL and len(set(column.sample)) == 1

    def _numbers(self, at: int | None) -> set[float]:
        """Return the distinct numbers of the first rows; empty if there are other values too."""
        if at not in self._distinct:
            texts = self._texts(at)
            self._distinct[at] = {float(text) for text in texts} if all(map(is_number, texts)) else set()
        return self._distinct[at]

    def _is_free_number(self, at: int) -> bool:
        """Whether a column is not chosen yet and is numeric or entirely missing."""
        sample = self._columns[at].sample
        return at not in self._chosen and may_be_numbers(sample)

    def _is_class(self, at: int, labels: int | None) -> bool:
        """Whether a column has the values of the labels, or only 0 and 1: predicted classes, not probabilities."""
        found = self._numbers(at)
        if len(found) == 1 and found <= {0.0, 1.0}:
            return self._is_predicted_class(at)
        return len(found) > 1 and (found == {0.0, 1.0} or (_are_integers(found) and found <= self._numbers(labels)))

    def _is_predicted_class(self, at: int) -> bool:
        """Whether a name is that of a predicted class, such as ``y_pred``; SAS writes ``I_y`` beside ``F_y``."""
        name = self._names[at]
        return is_predicted_class(name) or (name[:2] in ("I_", "i_") and f"f_{name[2:].casefold()}" in self._folded)

    def _has_fractions(self, at: int) -> bool:
        return not is_id(self._names[at]) and not _are_integers(self._numbers(at))

    def _is_probability(self, at: int) -> bool:
        """Whether a column has numbers in [0, 1] that are not all whole."""
        found = self._numbers(at)
        inside = all(-TOLERANCE <= value <= 1 + TOLERANCE for value in found)
        return bool(self._columns[at].width > 1 or (found and inside and not _are_integers(found)))

    def _check_gap(self, family: Family, labels: int | None) -> None:
        """Raise an error if the number of a class is missing, unless the classes have the names of the labels."""
        if len(family.places) == 1 or not all(are_digits(name.removeprefix("-")) for name in family.classes):
            return
        texts = self._texts(labels) if self._options.class_names is None else set(self._options.class_names)
        found = among(texts, family.classes)
        if found and (len(found) == len(family.classes) or self._sums_to_one(family.places)):
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
            end = suffix(names[0])
            named_ = end is not None and (is_negative(end) or (not are_digits(end) and self._names_event(end)))
            event = quoted(end) if named_ and end is not None else "class 1"
            self._notes.append(
                f"predictions: column {quoted(names[0])}, the {what} of {event} (inferred from its name)"
            )

    def _note_negative(self, family: Family) -> None:
        """Note that a single column without labels is named after class 0, if no names of classes say so."""
        name = self._names[family.places[0]]
        if len(family.places) == 1 and self._options.class_names is None and is_negative(suffix(name) or ""):
            self._notes.append(f"predictions: column {quoted(name)} is named after class 0, not class 1")

    def _names_event(self, end: str) -> bool:
        labels = next((at for at, field in self._chosen.items() if field == "labels"), None)
        return bool(among({end}, sorted(self._texts(labels))))

    # --- Labels

    def _check_one_hot(self, family: Family, labels: int) -> None:
        """Raise an error if the column of labels and its neighbours, one for each class, have a single 1 per row."""
        width = max(len(family.places), self._columns[family.places[0]].width)
        samples = [() if at in family.places else column.sample for at, column in enumerate(self._columns)]
        places = one_hot(samples, labels, width)
        if places is None:
            return
        names = [self._names[at].casefold() for at in places]
        # Labels of one value may be next to the one-hot columns of a feature, or to rare flags.
        differ = len({text.strip() for text in samples[labels]}) > 1
        if differ or all(any(name.endswith(one.casefold()) for name in names) for one in family.classes):
            raise NotLabels(
                f"{span([self._names[at] for at in places])} have a single 1 per row, like one-hot labels; write the "
                "class of each row in one column instead, such as the argmax",
                field="labels",
            )

    def _labels_by_name(self, predictions: Sequence[int]) -> int | None:
        """Return the column with a name of labels, or else the only text column whose values name columns."""
        confident = any(word(name) in CONFIDENCE for name in self._names)
        if confident and any(word(name) in CORRECT for name in self._names):
            return self._one(None, CORRECT, "labels")
        true = self._beside_pipeline()
        if true is not None:
            self._notes.append(f"labels: column {quoted(self._names[true])} (the only column with values of 'label')")
            return self._choose(true, "labels")
        found = self._one(None, LABELS, "labels")
        if found is not None:
            return found
        free = [at for at, name in enumerate(self._names) if name and self._is_free_number(at)]
        names = [self._names[at] for at in (*free, *predictions)]
        classes = {*names} | {end for name in names if (end := suffix(name)) is not None}
        families = named(names, PREDICTIONS | LOGITS)
        naming = [at for at in range(len(self._names)) if self._is_naming(at, classes, families)]
        if len({self._columns[at].sample for at in naming}) == 1:  # the same labels twice, as SAS writes them
            naming = naming[:1]
        if len(naming) > 1:
            raise self._unclear([(self._names[at],) for at in naming], "labels")
        for at in naming:
            self._notes.append(f"labels: column {quoted(self._names[at])} (its values are names of columns)")
            return self._choose(at, "labels")
        return None

    def _beside_pipeline(self) -> int | None:
        """Return the labels beside the output of a Hugging Face pipeline, the predicted ``label`` and its ``score``."""
        words = [word(name) for name in self._names]
        if words.count("label") != 1 or words.count("score") != 1:
            return None
        label, score = words.index("label"), words.index("score")
        texts = self._texts(label)
        low = min(self._numbers(score), default=0.0)
        if label in self._chosen or all(map(is_number, texts)) or low < 1 / max(2, len(texts)) - TOLERANCE:
            return None
        others = [at for at in range(len(words)) if at not in (label, score) and at not in self._chosen]
        others = [at for at in others if not self._is_predicted_class(at)]
        found = [at for at in others if self._texts(at) & texts]
        numbers = {*map(number_of, texts)}
        if not found and not numbers & texts:  # LABEL_0 and LABEL_1 beside 0 and 1
            found = [at for at in others if self._texts(at) and self._texts(at) <= numbers]
        if len(found) != 1:
            return None
        self._pipeline = label
        return found[0]

    def _is_naming(self, at: int, classes: AbstractSet[str], families: Sequence[Family]) -> bool:
        """Whether a column of strings, but not of predicted classes, has only names of other columns."""
        name = self._names[at]
        if not name or at in self._chosen or self._is_predicted_class(at):
            return False
        folded = {name.casefold() for name in classes}
        for texts in (self._texts(at), without_gaps(self._texts(at))):
            if len(texts) < 2 or any(map(is_number, texts)):
                continue
            if {text.casefold() for text in texts} <= folded or any(
                among(texts, without_common_start(family, texts).classes) for family in families
            ):
                return True
        return False

    def _labels_by_content(self, family: Family) -> int:
        """Return the only column whose content can be labels; raises an error if there are none or several."""
        width = len(family.places) if len(family.places) > 1 else max(2, self._columns[family.places[0]].width)
        found = [at for at in range(len(self._names)) if self._could_be_labels(at, width)]
        likely = [at for at in found if word(self._names[at]) in CORRECT] or found
        if len(likely) > 1:
            for at in likely:
                self._check_one_hot(family, at)
            raise self._unclear([(self._names[at],) for at in likely], "labels")
        if not likely:
            free = [at for at in range(len(self._names)) if self._could_be_labels(at, _MAX_OFFERED)]
            others = [self._names[at] for at in free]
            if len(self._names) == 1 and self._columns[0].name == "predictions" and not self._columns[0].sample:
                hint = "; an NPY file has only predictions: save both with np.savez('preds.npz', p=p, label=y)"
            elif len(self._names) == 1:
                hint = " (the file has no other column)"
            else:
                hint = f", or choose one of {self._listed(others)}" if others else " (no other column can be labels)"
            raise NoLabels(
                f"no column of labels found; name it 'label'{hint}", field="labels", offer=tuple(others[:_MAX_OFFERED])
            )
        self._notes.append(f"labels: column {quoted(self._names[likely[0]])} (the only column that can be labels)")
        return self._choose(likely[0], "labels")

    def _could_be_labels(self, at: int, width: int) -> bool:
        """Whether a column has a name and at most ``width`` distinct values in its first rows, without fractions.

        Marks of missing labels do not count, so that a column with gaps is not passed over for another one.
        """
        name, texts = self._names[at], without_gaps(self._texts(at))
        if at in self._chosen or not name or not texts or len(texts) > width:
            return False
        if is_id(name) or self._is_predicted_class(at):
            return False
        return not any(is_number(text) and not float(text).is_integer() for text in texts)

    def _predicted(self, family: Family, labels: int | None) -> int | None:
        """Return the column of predicted classes if the only prediction is the confidence in them."""
        options = self._options
        if labels is None or len(family.places) > 1 or self._columns[family.places[0]].width > 1:
            return None
        if self._pipeline is not None and options.pos_label:
            score, label = quoted(self._names[family.places[0]]), quoted(self._names[self._pipeline])
            raise UnclearColumns(
                f"column {score} is the confidence in {label}, not P(Y=1); do not name a positive label",
                field="predictions",
            )
        if any((options.mapping, options.pos_label, options.class_names)) or word(self._names[labels]) in CORRECT:
            return None
        texts, name = self._texts(labels), self._names[family.places[0]]
        found = [
            at
            for at in range(len(self._names))
            if at not in self._chosen
            and (at == self._pipeline or (self._is_predicted_class(at) and len(self._texts(at) & texts) > 0))
        ]
        is_top = (
            self._pipeline is not None
            or word(name) in CONFIDENCE
            or len(texts) > 2
            or not all(map(is_number, texts))
            or (len(found) == 1 and self._is_above_half(family.places[0], found[0]))
        )
        is_event = (end := suffix(name)) is not None and end in texts
        low = min(self._numbers(family.places[0]), default=0.0)
        if len(found) != 1 or not is_top or is_event or low < 1 / max(2, len(texts)) - TOLERANCE:
            return None
        of_class = "the probability of class 1"
        self._notes = [note.replace(of_class, "the confidence in the predicted class") for note in self._notes]
        self._notes.append(
            f"labels: whether the class in {quoted(self._names[found[0]])} is that in {quoted(self._names[labels])}; "
            f"{quoted(name)} is the confidence in it"
        )
        return self._choose(found[0], "labels")

    def _is_above_half(self, score: int, predicted: int) -> bool:
        """Whether rows of the predicted class 0 have scores, and none below one half."""
        pairs = zip(self._columns[score].sample, self._columns[predicted].sample, strict=True)
        scores = [float(text) for text, of_class in pairs if is_number(of_class) and float(of_class) == 0.0]
        return len(scores) >= _SOME_ROWS and min(scores) >= 0.5 and max(scores) > 0.5

    # --- Errors

    def _none_found(self, labels: int | None) -> TabularError:
        free = [at for at in range(len(self._names)) if self._names[at] and self._is_free_number(at)]
        if self._options.scale == "probability" and (logits := self._candidates(LOGITS, labels)):
            names = [self._names[at] for at in logits[0].places]
            verb = "seems" if len(names) == 1 else "seem"
            return LooksLikeLogits(
                f"{span(names)} {verb} to be logits; if so, set the scale to logit",
                field="scale",
                offer=("logit",),
            )
        first = {word(column.sample[0]) for column in self._columns if column.sample}
        if first & (PREDICTIONS | LOGITS) and first & LABELS:
            return NoPredictions(
                "the names of the columns are in the second line; remove the first", field="predictions"
            )
        for at in free:
            cells = [(row, text) for row, text in enumerate(self._columns[at].sample) if not is_missing(text)]
            if cells and not any(is_number(text) for _, text in cells) and all(is_numeric(text) for _, text in cells):
                return refusal(cells[0][1], self._names[at], "predictions", cells[0][0])
        classes = [self._names[at] for at in free if self._is_class(at, labels)]
        predicted = [name for name in classes if word(name) in PREDICTIONS or is_predicted_class(name)]
        if predicted:
            return NoPredictions(
                f"column {quoted(predicted[0])} has predicted classes, not probabilities; save the probabilities too, "
                "such as model.predict_proba(X)[:, 1] in a column 'p'",
                field="predictions",
            )
        for at in free:
            if (error := scale_error(self._names[at], self._numbers(at))) is not None:
                return error
        # Do not offer a column of labels or ids: a report on it would be meaningless.
        offer = [
            self._names[at]
            for at in free
            if word(self._names[at]) not in LABELS | WEIGHTS | GROUPS
            and not is_id(self._names[at])
            and self._is_probability(at)
        ]
        whole = negative_first(by_number(Family(tuple(map(self._names.index, offer)), tuple(offer))))
        summing = whole.classes
        if self._sums_to_one([self._names.index(name) for name in summing]):
            return UnclearColumns(
                f"no column of predictions found, but the rows of {span(summing)} sum to 1; if they are the "
                "predictions, name them",
                field="predictions",
                offer=summing[:_MAX_OFFERED],
                readings=(summing,),
            )
        if len(self._names) == 1:
            detail = f"the file has only one column, {quoted(self._names[0])}; are its columns separated by commas?"
        else:
            detail = "no column of predictions found; name it 'p', or 'prob_0', 'prob_1' and so on for several classes"
            real = [self._names[at] for at in free if not self._is_class(at, labels) and self._has_fractions(at)]
            offer = real if real and self._options.scale == "logit" else offer
            hint = "; for logits, set the scale to logit" if real else ""
            but = "" if labels is None or not self._is_probability(labels) else f" than {quoted(self._names[labels])}"
            none = f" (no other column{but} has numbers in [0, 1]{hint})"
            detail += f", or choose one of {self._listed(offer)}" if offer else none
        known = tuple(name for name in self._names[:_MAX_OFFERED] if name)
        return NoPredictions(detail, field="predictions", offer=tuple(offer[:_MAX_OFFERED]), columns=known)

    def _unclear(self, readings: Sequence[tuple[str, ...]], field: Field) -> UnclearColumns:
        names = [name for reading in readings for name in reading]
        return UnclearColumns(
            f"several columns could be the {field}: {listed(names)}; choose one",
            field=field,
            offer=tuple(names[:_MAX_OFFERED]),
            readings=tuple(readings[:_MAX_OFFERED]),
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


def _by_name(family: Family) -> Family | None:
    """Return several columns in the order of their names; None if they are in it already."""
    order = sorted(range(len(family.classes)), key=family.classes.__getitem__)
    found = by_number(Family(tuple(family.places[i] for i in order), tuple(family.classes[i] for i in order)))
    return None if found == family else found


def _are_integers(values: set[float]) -> bool:
    return all(value.is_integer() for value in values)


def choose(columns: Sequence[Column], options: SheetOptions, distinct: Distinct, *, labelled: bool) -> Chosen:
    """Choose the columns of a table; raises a ``TabularError`` if a column is missing or ambiguous.

    Columns are inferred from their names and contents. The scale logit is never inferred.
    """
    return _Chooser(columns, options, distinct).choose(labelled=labelled)


def numbered_classes(
    chosen: Chosen, columns: Sequence[Column], predictions: Floats, labels: Ints
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names and a note of classes that the labels number in the order of the file; None for other columns.

    Raises ``UnclearOrder`` if the predicted class is the label in fewer rows than in the order of the names.
    """
    by_name, places = chosen.by_name, chosen.places.predictions
    if by_name is None or predictions.ndim != 2:
        return None
    predicted = predictions.argmax(axis=1)
    renumbered = np.array([by_name.places.index(at) for at in places])
    of_file, of_names = (int(np.count_nonzero(k == labels)) for k in (predicted, renumbered[predicted]))
    if of_file < of_names:
        raise UnclearOrder(
            f"{span([columns[at].name for at in places])} can be the classes 0 to {len(places) - 1} in the order of "
            "the file or of their names, and fewer rows are predicted correctly in the order of the file; choose one",
            field="predictions",
            readings=tuple(tuple(columns[at].name for at in order) for order in (by_name.places, places)),
        )
    names = tuple(names[0] for names in chosen.classes)
    shown = ", ".join(f"{k} is {quoted(name)}" for k, name in enumerate(names[:MAX_LISTED]))
    rest = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return names, (f"classes: {shown}{rest} (in the order of the file; name the columns for another order)",)


def check_confidence(places: Places, columns: Sequence[Column], confidence: Floats, n_classes: int) -> None:
    """Raise an error if a column that seemed to be the confidence in a predicted class is too low in later rows."""
    if places.predicted is None or confidence.min() >= 1 / max(2, n_classes) - TOLERANCE:
        return
    name, predicted = quoted(columns[places.predictions[0]].name), quoted(columns[places.predicted].name)
    raise UnclearColumns(
        f"column {name} is not the confidence in {predicted}, as {row_of(int(np.argmin(confidence)))} is below "
        f"1/{max(2, n_classes)}; if it is P(Y=1), name the positive label",
        field="predictions",
    )
