"""Rules of inference of labels and predictions from the names and contents of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from calibrant.batch import TOLERANCE
from calibrant.io.column_names import (
    CONFIDENCE,
    CORRECT,
    FALLBACKS,
    LABELS,
    LOGITS,
    PREDICTIONS,
    Family,
    among,
    before,
    is_id,
    is_like_prediction,
    is_log_probability,
    is_predicted_class,
    named,
    number_of,
    numbered,
    suffix,
    word,
)
from calibrant.io.errors import (
    NotLabels,
)
from calibrant.io.labels import one_hot, without_gaps
from calibrant.io.rules import Choice, Rule, rule
from calibrant.io.table import Column, Places, SheetOptions
from calibrant.io.texts import (
    DASHES,
    is_missing,
    is_number,
    span,
)

#: From this many equal first values on, the distinct values of the whole column are consulted.
_EQUAL = 100
#: From this many rows on, scores of the predicted class 0 of at least one half are those of this class.
SOME_ROWS = 5
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
    #: The reduction that the file implies, if it is not the default one.
    reduction: str | None = None


class ColumnChoice(Choice):
    """What the rules see of a table: the names of its columns and their first values."""

    def __init__(self, columns: Sequence[Column], options: SheetOptions, distinct: Distinct, labelled: bool) -> None:
        super().__init__(columns)
        self.options, self.labelled, self._read_distinct = options, labelled, distinct
        self.labels: int | None = None
        #: The column of the labels that a pipeline predicted.
        self.pipeline: int | None = None
        #: The known names of predictions, the names that may be theirs, and the columns of readings so far.
        self.known: frozenset[str] = PREDICTIONS
        self.free_names: list[str] = []
        self.used: set[int] = set()
        #: The columns of the options.
        self.stated: Sequence[int] = ()
        self.family = Family((), ())
        #: The event that has the name of the labels and the number of its class; the reduction that the file implies.
        self.event: str | None = None
        self.place = 1
        self.reduction: str | None = None
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
            texts |= {text.strip() for text in self._equal.get(at, ()) if not is_missing(text)}
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

    def label_texts(self) -> set[str]:
        """Return the names of the classes: of the options, or else the labels of the first rows."""
        return self.texts(self.labels) if self.options.class_names is None else set(self.options.class_names)

    def sums_to_one(self, places: Sequence[int]) -> bool:
        """Whether the rows of several columns sum to 1."""
        samples = [self.columns[at].sample for at in places]
        if len(places) < 2 or not all(samples):  # columns of vectors have no sample
            return False
        rows = zip(*samples, strict=True)
        sums = [sum(map(float, row)) for row in rows if all(map(is_number, row))]
        return bool(sums) and all(abs(total - 1) <= max(0.01, 0.005 * len(places)) for total in sums)

    def is_class(self, at: int) -> bool:
        """Whether a column has the values of the labels, or only 0 and 1: predicted classes, not probabilities."""
        numbers = self.numbers(at)
        if len(numbers) == 1 and numbers <= {0.0, 1.0}:
            return self.is_predicted_class(at)
        whole = are_integers(numbers) and numbers <= self.numbers(self.labels)
        return len(numbers) > 1 and (numbers == {0.0, 1.0} or whole)

    def is_predicted_class(self, at: int) -> bool:
        """Whether a name is that of a predicted class, such as ``y_pred``; SAS writes ``I_y`` beside ``F_y``."""
        name = self.names[at]
        folded = {name.casefold() for name in self.names}
        return is_predicted_class(name) or (name[:2] in ("I_", "i_") and f"f_{name[2:].casefold()}" in folded)

    def is_probability(self, at: int) -> bool:
        """Whether a column has numbers in [0, 1] that are not all whole."""
        numbers = self.numbers(at)
        inside = all(-TOLERANCE <= value <= 1 + TOLERANCE for value in numbers)
        return bool(self.columns[at].width > 1 or (numbers and inside and not are_integers(numbers)))

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
    def width(self) -> int:
        """The number of classes of the chosen predictions."""
        places = self.family.places
        return len(places) if len(places) > 1 else self.columns[places[0]].width


def are_integers(values: set[float]) -> bool:
    """Whether all numbers are whole."""
    return all(value.is_integer() for value in values)


# --- Rules of labels: each returns the columns that can be the labels

LABEL_RULES: list[Rule] = []
#: Rules of labels that are used if those above have no reading, after the predictions are chosen.
LATE_LABEL_RULES: list[Rule] = []


@rule(LABEL_RULES, "labels", "confidence_correct.csv")
def _correct(cells: ColumnChoice) -> list[int]:
    """A column `correct` or `is_correct`, and one `confidence`, or the `label` and `score` of a pipeline: whether the
    predicted class is right.
    """
    places, words = cells.called(CORRECT), [word(name) for name in cells.names]
    if places and not cells.called(CONFIDENCE) and {"label", "score"} <= {*words}:
        label = words.index("label")
        if not all(map(is_number, cells.texts(label))) and not any(map(cells.is_predicted_class, range(len(words)))):
            cells.pipeline = label
    return places if cells.called(CONFIDENCE) or cells.pipeline is not None else []


@rule(LABEL_RULES, "labels", "pipeline.csv", "labels: {columns} (the only column with values of 'label')")
def _beside_pipeline(cells: ColumnChoice) -> list[int]:
    """A `label` of strings, a `score` of at least 1/K, and one other column with values of `label`: the other column,
    as `label` is the predicted class.
    """
    words = [word(name) for name in cells.names]
    if words.count("label") != 1 or words.count("score") != 1:
        return []
    label, score = words.index("label"), words.index("score")
    texts = cells.texts(label)
    low = min(cells.numbers(score), default=0.0)
    if label in cells.chosen or all(map(is_number, texts)) or low < 1 / max(2, len(texts)) - TOLERANCE:
        return []
    others = [at for at in range(len(words)) if at not in (label, score) and at not in cells.chosen]
    others = [at for at in others if not cells.is_predicted_class(at)]
    places = [at for at in others if cells.texts(at) & texts]
    numbers = {*map(number_of, texts)}
    if not places and not numbers & texts:  # LABEL_0 and LABEL_1 beside 0 and 1
        places = [at for at in others if cells.texts(at) and cells.texts(at) <= numbers]
    if len(places) != 1:
        return []
    cells.pipeline = label
    return places


@rule(LABEL_RULES, "labels", "scikit_learn.csv")
def _label_name(cells: ColumnChoice) -> list[int]:
    """A column with a name of labels: the label of each row."""
    return cells.called(LABELS)


@rule(LABEL_RULES, "labels", "class_columns.csv", "labels: {columns} (its values are names of columns)")
def _names_of_columns(cells: ColumnChoice) -> list[int]:
    """A column of strings that are all names of columns of numbers, or ends of such names: the label of each row."""
    free = [at for at, name in enumerate(cells.names) if name and cells.is_free(at)]
    names = [cells.names[at] for at in (*free, *cells.stated)]
    classes = {name.casefold() for name in (*names, *filter(None, map(suffix, names)))}
    families = named(names, PREDICTIONS | LOGITS)

    def is_naming(at: int) -> bool:
        if not cells.names[at] or at in cells.chosen or cells.is_predicted_class(at):
            return False
        for texts in (cells.texts(at), without_gaps(cells.texts(at))):
            if len(texts) < 2 or any(map(is_number, texts)):
                continue
            of_families = any(among(texts, family.without_common_start(texts).classes) for family in families)
            if of_families or {text.casefold() for text in texts} <= classes:
                return True
        return False

    places = [*filter(is_naming, range(len(cells.names)))]
    same = len({cells.columns[at].sample for at in places}) == 1  # the same labels twice, as SAS writes them
    return places[:1] if same else places


@rule(LATE_LABEL_RULES, "labels", "r_glm.csv", "labels: {columns} (the only column that can be labels)")
def _only_labels(cells: ColumnChoice) -> list[int]:
    """A single column with at most K values, none of them fractions: the label of each row."""
    places = [at for at in range(len(cells.names)) if cells.could_be_labels(at, max(2, cells.width))]
    likely = [at for at in places if word(cells.names[at]) in CORRECT] or places
    for at in likely if len(likely) > 1 else ():
        check_one_hot(cells, at)
    return likely


# --- Rules of predictions: each returns families of columns; the columns of a family are in no later one

PREDICTION_RULES: list[Rule] = []
#: What is printed of several columns, of a column of vectors, and of one of numbers.
SEVERAL = "predictions: {columns}, one per class in this order (inferred from {their})"
VECTORS = "predictions: {name} (inferred from its name)"
ONE = "predictions: {columns}, the {what} of {event} (inferred from its name)"
EVENT = "the probability of class 1"


def _of_classes(cells: ColumnChoice, families: Sequence[Family]) -> list[Family]:
    """Return the columns of each family that the labels name, or whose rows sum to 1."""
    free = [family for family in families if not cells.used & set(family.places)]
    fitting = [(family, chosen) for family in free if (chosen := _fitting(cells, family)) is not None]
    # Columns beside those of the labels, such as prob_max, are no other predictions.
    cells.used |= {at for family, _ in fitting for at in family.places}
    return [chosen for _, chosen in fitting]


def _fitting(cells: ColumnChoice, family: Family, *, own: bool = False) -> Family | None:
    """Return the columns whose names are the labels or whose rows sum to 1; ``own`` requires the labels."""
    texts = cells.label_texts()
    if texts and not own and not among(texts, family.classes):
        family = family.without_common_start(texts)
    chosen = set(among(texts, family.classes))
    if own and not chosen:
        return None
    if cells.sums_to_one(family.places):
        return family
    part = family.taken([i for i, name in enumerate(family.classes) if name in chosen])
    if cells.sums_to_one(part.places):
        return part
    return family if chosen and not own else None


def _single_number(cells: ColumnChoice) -> list[Family]:
    """Return single columns with a number; prob_0 is not P(Y=1)."""
    return [family for family in numbered(cells.free_names, cells.known) if family.classes not in (("0",),)]


@rule(PREDICTION_RULES, "predictions", "tidymodels.csv", SEVERAL)
def _word_and_class(cells: ColumnChoice) -> list[Family]:
    """Columns such as `prob_cat`, `prob_dog` that the labels name, or whose rows sum to 1: a column per class."""
    return _of_classes(cells, named(cells.free_names, cells.known))


@rule(PREDICTION_RULES, "predictions", "numbered_columns.csv", SEVERAL)
def _word_and_number(cells: ColumnChoice) -> list[Family]:
    """Columns such as `prob_0` to `prob_9`, or `0` to `9`: a column per class, in the order of the numbers."""
    families = [family for family in _single_number(cells) if len(family.places) > 1]
    return [family for family in families if not cells.used & set(family.places)]


@rule(PREDICTION_RULES, "predictions", "hugging_face_columns.csv", SEVERAL)
def _unnamed_classes(cells: ColumnChoice) -> list[Family]:
    """Columns `LABEL_0`, `LABEL_1` and so on whose rows sum to 1: a column per class, in the order of the numbers."""
    families = []
    for family in numbered(cells.free_names, frozenset(("label",))):
        names = [cells.names[at] for at in family.places]
        numbers = [*map(number_of, names)]
        are_numbered = numbers != names and numbers == [*map(str, range(len(names)))]
        if are_numbered and cells.sums_to_one(family.places) and not any(map(cells.is_class, family.places)):
            families.append(family)
    return [family for family in families if not cells.used & set(family.places)]


@rule(PREDICTION_RULES, "predictions", "class_and_word.csv", SEVERAL)
def _class_and_word(cells: ColumnChoice) -> list[Family]:
    """Columns such as `cat_prob`, `dog_prob` that the labels name, or whose rows sum to 1: a column per class."""
    return _of_classes(cells, before(cells.free_names, cells.known))


def _free(cells: ColumnChoice) -> list[int]:
    """Return the columns that are in no reading so far, and are no predicted classes beside columns of classes."""
    free = [at for at, name in enumerate(cells.free_names) if name and at not in cells.used]
    of_classes = among(cells.label_texts(), cells.free_names)
    return [at for at in free if not cells.is_class(at)] if of_classes else free


@rule(PREDICTION_RULES, "predictions", "class_columns.csv", SEVERAL)
def _labels_as_columns(cells: ColumnChoice) -> list[Family]:
    """Columns with the names of the labels whose rows sum to 1: a column per class."""
    free = _free(cells)
    own = _fitting(cells, Family(tuple(free), tuple(cells.free_names[at] for at in free)), own=True)
    return [] if own is None else [own.by_number()]


def _singles(cells: ColumnChoice, places: Sequence[int]) -> list[Family]:
    """Return single columns that are no predicted classes and not named after class 0."""
    free = [at for at in places if at in _free(cells) and not cells.is_class(at)]
    return [Family((at,), (cells.free_names[at],)) for at in sorted({*free}) if suffix(cells.free_names[at]) != "0"]


@rule(PREDICTION_RULES, "predictions", "stata.csv", ONE)
def _probability_name(cells: ColumnChoice) -> list[Family]:
    """A column with a name of probabilities, or of logits with `--scale logit`: the probability of class 1, or a list
    of a probability per class.
    """
    places = [at for at, name in enumerate(cells.free_names) if word(name) in cells.known]
    if cells.known is LOGITS:
        lists = [at for at, column in enumerate(cells.columns) if column.width > 1 and cells.free_names[at]]
        places += [at for at in lists if is_log_probability(cells.free_names[at])]
    return _singles(cells, [*places, *(of.places[0] for of in _single_number(cells) if len(of.places) == 1)])


@rule(PREDICTION_RULES, "predictions", "stacked_models.csv", ONE)
def _like_a_probability(cells: ColumnChoice) -> list[Family]:
    """A column of numbers in [0, 1] whose name contains `prob` or `calibrated`, begins with `score_`, `p_` or `pred_`,
    or ends with `_score` or `_pred`: the probability of class 1.
    """
    if cells.known is LOGITS:
        return []
    likely = [at for at, name in enumerate(cells.free_names) if is_like_prediction(name) and cells.is_probability(at)]
    return _singles(cells, likely)


@rule(PREDICTION_RULES, "predictions", "r_glm.csv", ONE, fallback=True)
def _other_name(cells: ColumnChoice) -> list[Family]:
    """A column of numbers in [0, 1] with a name that few tools use, or, without labels, the name of a target as in
    files for Kaggle: the probability of class 1.
    """
    known = FALLBACKS if cells.labelled else FALLBACKS | LABELS
    free = [at for at in _free(cells) if word(cells.free_names[at]) in known and cells.is_probability(at)]
    return [Family((at,), (cells.free_names[at],)) for at in free]


def check_one_hot(cells: ColumnChoice, labels: int) -> None:
    """Raise an error if the column of labels and its neighbours, one for each class, have a single 1 per row."""
    family = cells.family
    samples = [() if at in family.places else column.sample for at, column in enumerate(cells.columns)]
    places = one_hot(samples, labels, cells.width)
    if places is None:
        return
    names = [cells.names[at] for at in places]
    # Labels of one value may be next to the one-hot columns of a feature, or to rare flags.
    differ = len({text.strip() for text in samples[labels]}) > 1
    folded = [name.casefold() for name in names]
    if differ or all(any(name.endswith(of.casefold()) for name in folded) for of in family.classes):
        raise NotLabels(
            f"{span(names)} have a single 1 per row, like one-hot labels; write the class of each row in one column "
            "instead, such as the argmax",
            field="labels",
        )
