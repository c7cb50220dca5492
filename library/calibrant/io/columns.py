"""Choice of the columns of predictions and labels: those of the options, else those of the table of rules."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from calibrant.core.arrays import with_integer
from calibrant.core.batch import TOLERANCE
from calibrant.core.column_names import (
    CONFIDENCE,
    CORRECT,
    FALLBACKS,
    GROUPS,
    LABELS,
    LOGITS,
    PREDICTIONS,
    WEIGHTS,
    Family,
    after_word,
    among,
    are_digits,
    before_word,
    has_percent,
    is_confidence,
    is_id,
    is_like_prediction,
    is_log_probability,
    is_negative,
    is_predicted_class,
    known_pair,
    number_of,
    numbered,
    suffix,
    word,
)
from calibrant.io.errors import (
    LooksLikeLogits,
    NoLabelColumn,
    NoPredictions,
    NotLabels,
    TabularError,
    UnclearColumns,
    UnclearOrder,
)
from calibrant.io.labels import in_any_case, in_digits, one_hot, without_gaps
from calibrant.io.options import FileOptions
from calibrant.io.rules import MAX_OFFERED, ColumnChoice, Distinct, are_integers, named, rule, rules_of
from calibrant.io.scale import logarithms, scale_error
from calibrant.io.table import Column, ColumnPlaces, Floats, Ints
from calibrant.io.texts import (
    MAX_LISTED,
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

# --- Choosing columns: those of the options, else those of the rules


def choose(columns: Sequence[Column], options: FileOptions, distinct: Distinct, *, labelled: bool) -> ColumnChoice:
    """Choose the columns of a table; raises a ``TabularError`` if a column is missing or ambiguous.

    Columns are inferred from their names and contents by the tables of rules. The scale logit is never inferred.
    """
    cells = ColumnChoice(columns, options, distinct, labelled)
    # A column of labels that the wildcard of the predictions matches is none of them.
    cells.labels = cells.stated("labels", options.labels)
    cells.stated_places = [at for name in options.predictions or () for at in _sorted(cells, name)]
    if labelled and cells.labels is None:
        cells.labels = cells.only("Labels")
    groups, weights = cells.groups(), cells.weights(noted=labelled)
    cells.family = _by_options(options, _as_stated(cells) if cells.stated_places else _inferred(cells))
    for at in cells.family.places if not cells.stated_places else ():
        cells.choose(at, "predictions")
    _check_classes(cells)
    if labelled and cells.labels is None:
        cells.labels = cells.only("Labels, after the predictions")
        if cells.labels is None:
            raise _no_labels(cells)
    if not cells.stated_places:
        _check_gap(cells)
        _check_percent(cells)
    if cells.labels is not None:
        check_one_hot(cells, cells.labels)
    for row in () if _is_ordered(cells) else rules_of("Order of the classes"):
        for family in row.find(cells):
            if family != cells.family:
                cells.family = family
                cells.note(row.prints, "", event=quoted(cells.event or ""), place=cells.place)
    _note(cells)
    family, predicted = cells.family, _predicted(cells) if labelled else None
    cells.places = ColumnPlaces.of(
        {
            "predictions": family.places,
            "weights": weights,
            "labels": cells.labels,
            "groups": groups,
            "predicted": predicted,
        }
    )
    for at, name in zip(family.places, family.classes, strict=True):  # of the class, of the column, and its suffix
        cells.classes += (tuple(dict.fromkeys(filter(None, (name, cells.names[at], suffix(cells.names[at]))))),)
    return cells


def _sorted(cells: ColumnChoice, stated: str) -> tuple[int, ...]:
    """Choose the columns that the options name; those that differ in a number are in the order of the numbers."""
    places = cells.matching(stated, "predictions")
    names = tuple(with_integer(cells.names[at]).rstrip("])") for at in places)
    return Family(tuple(places), names).by_number().places


def _inferred(cells: ColumnChoice) -> Family:
    """Choose the columns of predictions by the rules; raises an error if there are none or several readings."""
    for known in (LOGITS, PREDICTIONS) if cells.options.scale == "logit" else (PREDICTIONS,):
        readings = _readings(cells, known)
        if readings:
            break
    else:
        raise _none_found(cells)
    if not cells.labelled:  # a map is applied to the predictions of the model
        readings = cells.of_model(readings, lambda family: family.places)
    if len(readings) > 1:
        ordered = [_by_options(cells.options, of.negative_first()) for of in readings]
        error = cells.unclear([tuple(cells.names[at] for at in of.places) for of in ordered], "predictions")
        error.models = tuple(name for names in error.readings for name in names if len(names) == 1)
        raise error
    return readings[0]


def _readings(cells: ColumnChoice, known: frozenset[str]) -> list[Family]:
    """Return the readings of all rules of predictions, single columns first; a column is in one of them."""
    cells.known, readings = known, list[Family]()
    cells.free_names = [with_integer(name) if cells.is_free(at) else "" for at, name in enumerate(cells.names)]
    for step in ("Predictions", "Predictions, if there are no others"):
        for row in () if readings and step != "Predictions" else rules_of(step):
            for family in row.find(cells):
                cells.take(family)
                readings.append(family)
    return sorted(readings, key=lambda of: (1, 0) if len(of.places) > 1 else (0, of.places[0]))


def _as_stated(cells: ColumnChoice) -> Family:
    for at in cells.stated_places:
        if not may_be_numbers(cells.columns[at].sample) and not any(map(is_number, cells.texts(at))):
            raise _of_hard(cells, at)
    names = [cells.names[at] for at in cells.stated_places]
    ends = [end for name in names if (end := suffix(name)) is not None]
    family = Family(tuple(cells.stated_places), tuple(ends if len(set(ends)) == len(names) > 1 else names))
    texts = cells.label_texts()
    return family if len(names) == 1 else family.named_by(texts)


def _by_options(options: FileOptions, family: Family) -> Family:
    """Return the columns in the order of the class names or with the positive class last, if they name them."""
    names, positive = options.class_names, (options.pos_label or "").strip()
    if names is not None:
        chosen = [name for text in names for name in among({text}, family.classes)]
        if len(names) != len(family.classes) or sorted(chosen) != sorted(family.classes):
            return family
        return replace(family.taken([family.classes.index(name) for name in chosen]), classes=names)
    is_first = len(family.classes) == 2 and among({positive}, family.classes) == [family.classes[0]]
    return family.reversed() if is_first else family


# --- Rules of labels: each returns the columns that can be the labels


def _pipeline(cells: ColumnChoice) -> int | None:
    """Return the column `label` of strings beside a `score`, as a pipeline writes them, if it is not the labels."""
    words = [word(name) for name in cells.names]
    if words.count("label") != 1 or words.count("score") != 1:
        return None
    label = words.index("label")
    return None if label in cells.chosen or all(map(is_number, cells.texts(label))) else label


@rule("Labels", "confidence_correct.csv")
def _correct(cells: ColumnChoice) -> list[int]:
    """A column `correct` or `is_correct`, and one `confidence`, or the `label` and `score` of a pipeline: whether the
    predicted class is right.
    """
    alone = _pipeline(cells) is not None and not any(map(cells.is_predicted_class, range(len(cells.names))))
    return cells.called(CORRECT) if cells.called(CONFIDENCE) or alone else []


@rule("Labels", "pipeline.csv", "labels: {columns} (beside a predicted class 'label')")
def _beside_pipeline(cells: ColumnChoice) -> list[int]:
    """A `label` of strings, a `score` of at least 1/K, and one other column with values of `label`, or with a name of
    labels: the other column, as `label` is the predicted class.
    """
    if (label := _pipeline(cells)) is None:
        return []
    texts, score = cells.texts(label), [word(name) for name in cells.names].index("score")
    if min(cells.shares(score), default=0.0) < 1 / max(2, len(texts)) - TOLERANCE:
        return []
    others = [at for at in cells.unused() if at not in (label, score) and not cells.is_predicted_class(at)]
    classes, numbers = {*map(in_any_case, texts)}, {*map(number_of, texts)}
    places = [at for at in others if {*map(in_any_case, cells.texts(at))} & classes]
    if not numbers & texts:  # LABEL_0 and LABEL_1 beside 0 and 1
        places = [at for at in others if cells.texts(at) and cells.texts(at) <= numbers]
    places = places or [at for at in others if word(cells.names[at]) in LABELS]  # perhaps with other names of classes
    return places if len(places) == 1 else []


_NAMED = "A column with a name of labels"
named("Labels", "label-name", LABELS, _NAMED, "the label of each row", "scikit_learn.csv")


@rule("Labels", "class_columns.csv", "labels: {columns} (its values are names of columns)")
def _names_of_columns(cells: ColumnChoice) -> list[int]:
    """A column of strings that are all names of columns of numbers, or ends of such names: the label of each row."""
    names = [cells.names[at] for at in (*cells.free(), *cells.stated_places)]
    classes = {name.casefold() for name in (*names, *filter(None, map(suffix, names)))}
    known = PREDICTIONS | LOGITS
    families = [*after_word(names, known), *after_word(names, known, mixed=True), *before_word(names, known)]

    def are_naming(texts: AbstractSet[str]) -> bool:
        if len(texts) < 2 or all(map(is_number, texts)):
            return False
        of_families = any(among(texts, family.named_by(texts).classes) for family in families)
        return of_families or {text.casefold() for text in texts} <= classes

    places = [at for at in cells.unused() if cells.names[at] and not cells.is_predicted_class(at)]
    places = [at for at in places if any(map(are_naming, (cells.texts(at), without_gaps(cells.texts(at)))))]
    same = len({cells.columns[at].sample for at in places}) == 1  # the same labels twice, as SAS writes them
    return places[:1] if same else places


@rule("Labels, after the predictions", "r_glm.csv", "labels: {columns} (the only column that can be labels)")
def _only_labels(cells: ColumnChoice) -> list[int]:
    """A single column with at most K values, none of them fractions: the label of each row."""
    places = [at for at in range(len(cells.names)) if cells.could_be_labels(at, max(2, cells.width))]
    likely = [at for at in places if word(cells.names[at]) in CORRECT] or places
    for at in likely if len(likely) > 1 else ():
        check_one_hot(cells, at)
    return likely


# --- Rules of predictions: each returns families of columns; the columns of a family are in no later one

#: What is printed of several columns, of a column of vectors, and of one of numbers.
SEVERAL = "predictions: {columns}, one per class in this order (inferred from {their})"
VECTORS = "predictions: {name} (inferred from its name)"
ONE = "predictions: {columns}, the {what} of {event} (inferred from its name)"
EVENT = "the probability of class 1"


def _of_classes(cells: ColumnChoice, families: Sequence[Family]) -> list[Family]:
    """Return the columns of each family that the labels name, or whose rows sum to 1."""
    readings = [(family, _fitting(cells, family.by_number())) for family in families]
    for family, chosen in readings:  # columns beside those of the labels, such as prob_max, are no other predictions
        cells.take(family if chosen is not None else Family((), ()))
    return [chosen for _, chosen in readings if chosen is not None]


def _fitting(cells: ColumnChoice, family: Family, *, own: bool = False) -> Family | None:
    """Return the columns whose names are the labels or whose rows sum to 1; ``own`` requires the labels."""
    texts = cells.label_texts()
    if texts and not own:
        family = family.named_by(texts)
    chosen = set(among(texts, family.classes))
    if own and not chosen:
        return None
    if cells.sums_to_one(family.places):
        return family
    part = family.taken([i for i, name in enumerate(family.classes) if name in chosen])
    if cells.sums_to_one(part.places):
        return part
    # Logits have no sum; more labels than two number all columns, and two may be those of two models.
    are_classes = cells.known is LOGITS and (len(texts) > 2 or known_pair(family.classes) is not None)
    are_numbered = are_classes and texts <= {*map(str, range(len(family.classes)))}
    return family if (chosen or are_numbered) and not own else None


@rule("Predictions", "mixed_classes.csv", SEVERAL)
def _word_and_any_class(cells: ColumnChoice) -> list[Family]:
    """Columns such as `prob_cat`, `prob_10` that are all named after labels, or after some, and whose rows sum to 1: a
    column per class.
    """
    families, texts = after_word(cells.free_names, cells.known, mixed=True), cells.label_texts()
    named = [len(among(texts, family.classes)) for family in families]
    return [
        family
        for family, count in zip(families, named, strict=True)
        if count == len(family.places) or ((count or not texts) and cells.sums_to_one(family.places))
    ]


@rule("Predictions", "tidymodels.csv", SEVERAL)
def _word_and_class(cells: ColumnChoice) -> list[Family]:
    """Columns such as `prob_cat`, `prob_dog` that the labels name, or whose rows sum to 1: a column per class."""
    return _of_classes(cells, after_word(cells.free_names, cells.known))


@rule("Predictions", "numbered_columns.csv", SEVERAL)
def _word_and_number(cells: ColumnChoice) -> list[Family]:
    """Columns such as `prob_0` to `prob_9`, or `0` to `9`: a column per class, in the order of the numbers."""
    return [family for family in numbered(cells.free_names, cells.known) if len(family.places) > 1]


@rule("Predictions", "hugging_face_columns.csv", SEVERAL)
def _unnamed_classes(cells: ColumnChoice) -> list[Family]:
    """Columns `LABEL_0`, `LABEL_1` and so on whose rows sum to 1: a column per class, in the order of the numbers."""
    families = numbered(cells.free_names, frozenset(("label",)))
    whole = [
        of for of in families if [number_of(cells.names[at]) for at in of.places] == [*map(str, range(len(of.places)))]
    ]
    return [of for of in whole if cells.sums_to_one(of.places) and not any(map(cells.is_class, of.places))]


@rule("Predictions", "class_and_word.csv", SEVERAL)
def _class_and_word(cells: ColumnChoice) -> list[Family]:
    """Columns such as `cat_prob`, `dog_prob` that the labels name, or whose rows sum to 1: a column per class."""
    return _of_classes(cells, before_word(cells.free_names, cells.known))


def _free(cells: ColumnChoice) -> list[int]:
    """Return the columns that are in no reading so far, and are no predicted classes."""
    return [at for at, name in enumerate(cells.free_names) if name and not cells.is_class(at)]


@rule("Predictions", "class_columns.csv", SEVERAL)
def _labels_as_columns(cells: ColumnChoice) -> list[Family]:
    """Columns with the names of the labels whose rows sum to 1: a column per class."""
    free = _free(cells)
    own = _fitting(cells, Family(tuple(free), tuple(cells.free_names[at] for at in free)), own=True)
    return [] if own is None else [own.by_number()]


def _singles(cells: ColumnChoice, places: Sequence[int]) -> list[Family]:
    """Return single columns that are no predicted classes and not named after class 0."""
    free = {*places} & {*_free(cells)}
    return [Family((at,), (cells.free_names[at],)) for at in free if suffix(cells.free_names[at]) != "0"]


@rule("Predictions", "stata.csv", ONE)
def _probability_name(cells: ColumnChoice) -> list[Family]:
    """A column with a name of probabilities, or of logits with `--scale logit`: the probability of class 1, or a list
    of a probability per class.
    """
    places = [at for at, name in enumerate(cells.free_names) if word(name) in cells.known]
    if cells.known is LOGITS:
        lists = [at for at, column in enumerate(cells.columns) if column.width > 1 and cells.free_names[at]]
        places += [at for at in lists if is_log_probability(cells.free_names[at])]
    numbers = [family for family in numbered(cells.free_names, cells.known) if len(family.places) == 1]
    return _singles(cells, [*places, *(family.places[0] for family in numbers)])


@rule("Predictions", "stacked_models.csv", ONE)
def _like_a_probability(cells: ColumnChoice) -> list[Family]:
    """A column of numbers in [0, 1] whose name contains `prob` or `calibrated`, begins with `score_`, `p_` or `pred_`,
    or ends with `_score` or `_pred`, and has no word for another quantity, such as `std`: the probability of class 1.
    """
    if cells.known is LOGITS:
        return []
    likely = [at for at, name in enumerate(cells.free_names) if is_like_prediction(name) and cells.is_probability(at)]
    return _singles(cells, likely)


@rule("Predictions, if there are no others", "r_glm.csv", ONE)
def _other_name(cells: ColumnChoice) -> list[Family]:
    """A column of numbers in [0, 1] with a name that few tools use, or, without labels, the name of a target as in
    files for Kaggle, or, with the scale percent, a name of percentages such as `score_pct` or `rf %`: the probability
    of class 1.
    """
    known = FALLBACKS if cells.labelled else FALLBACKS | LABELS
    percent = cells.options.scale == "percent"
    named = {at for at, name in enumerate(cells.free_names) if word(name) in known or (percent and has_percent(name))}
    return _singles(cells, [*filter(cells.is_probability, named)])


# --- Rules of the order of the classes, which are used if the options state none

_FILE_ORDER = "classes: {names} (in the order of the file; name the columns for another order)"


def _is_ordered(cells: ColumnChoice) -> bool:
    """Whether the options state the order of the classes."""
    options = cells.options
    is_named = len(cells.stated_places) == len(options.predictions or ()) > 0  # without a wildcard
    is_positive = options.pos_label is not None and bool(among({options.pos_label.strip()}, cells.family.classes))
    return is_named or is_positive or options.class_names is not None


@rule("Order of the classes", "positive_first.csv", "")
def _negative_first(cells: ColumnChoice) -> list[Family]:
    """Two columns named after a positive class and its negative, such as `yes`, `no`: the negative class first."""
    return [cells.family.negative_first()]


@rule(
    "Order of the classes",
    "event_column.csv",
    "classes: {event} is class {place}, as the column of labels has its name",
)
def _named_as_labels(cells: ColumnChoice) -> list[Family]:
    """Two columns, one of them named like the column of labels, as `churn` and `p_churn`: that class is the event."""
    if cells.labels is None or len(cells.family.classes) != 2 or cells.options.mapping:
        return []
    events = [name for name in cells.family.classes if word(name) == word(cells.names[cells.labels])]
    if len(events) != 1:
        return []
    cells.event, cells.place = events[0], 0 if is_negative(cells.options.pos_label or "") else 1
    return [cells.family if cells.family.classes[cells.place] == cells.event else cells.family.reversed()]


@rule("Order of the classes", "ordinal.csv", _FILE_ORDER)
def _file_order(cells: ColumnChoice) -> list[Family]:
    """Columns of names beside labels that are numbers: class k is the k-th column, which is refused if the order of the
    names predicts better.
    """
    classes = cells.family.classes
    if cells.event is None and not cells.options.mapping:
        by_name = cells.family.taken(sorted(range(len(classes)), key=classes.__getitem__)).by_number()
        cells.by_name = None if by_name == cells.family else by_name
    return []


def _note(cells: ColumnChoice) -> None:
    """Note how the predictions were read, and that a single column without labels is named after class 0."""
    names, end = [cells.names[at] for at in cells.family.places], suffix(cells.names[cells.family.places[0]]) or ""
    if cells.stated_places:
        if len(names) == 2:
            cells.notes.append(f"predictions: {span(names)}, of class 0 and of class 1")
        if not cells.labelled and len(names) == 1 and cells.options.class_names is None and is_negative(end):
            cells.notes.append(f"predictions: column {quoted(names[0])} is named after class 0, not class 1")
        return
    form = SEVERAL if len(names) > 1 else VECTORS if cells.width > 1 else ONE
    is_event = is_negative(end) or (not are_digits(end) and bool(among({end}, sorted(cells.texts(cells.labels)))))
    what = {"percent": "percentage"}.get(cells.options.scale, cells.options.scale)
    event, name = quoted(end) if end and is_event else "class 1", quoted(names[0])
    cells.note(form, span(names), their="their names", name=name, what=what, event=event)


# --- Rules of the confidence in a predicted class, which are used if no option says that there is none

_AS_CONFIDENCE = "reduction: confidence, as {columns} is the confidence in a predicted class"


def _predicted(cells: ColumnChoice) -> int | None:
    """Return the column of predicted classes if the only prediction is the confidence in them, and note it."""
    options, score = cells.options, cells.quoted(cells.family.places[0])
    if cells.labels is None or cells.width > 1:
        return None
    is_other = options.pos_label or options.reduction not in (None, "confidence")
    if is_other and (label := _pipeline(cells)) is not None:
        classes, predicted = ({*map(in_any_case, cells.texts(at))} for at in (cells.labels, label))
        if classes & predicted or word(cells.names[cells.labels]) in CORRECT:
            text = f"column {score} is the confidence in {cells.quoted(label)}, not P(Y=1)"
            remedy = "do not name a positive label or another reduction than confidence"
            raise UnclearColumns(f"{text}; {remedy}")
    if is_other or options.mapping or options.class_names:
        return None
    for row in rules_of("Confidence of a predicted class"):
        for at in row.find(cells):
            cells.reduction = "confidence"
            cells.notes = [note.replace(EVENT, "the confidence in the predicted class") for note in cells.notes]
            cells.note(row.prints, f"column {score}", predicted=cells.quoted(at), labels=cells.quoted(cells.labels))
            return None if at == cells.labels else cells.choose(at, "labels")
    return None


@rule("Confidence of a predicted class", "confidence_correct.csv", _AS_CONFIDENCE)
def _of_correctness(cells: ColumnChoice) -> list[int]:
    """A label `correct` or `is_correct`, and a `confidence`: the event that the predicted class is right."""
    labels, score, options = cells.labels or 0, cells.family.places[0], cells.options
    is_named, that_it_is = is_confidence(cells.names[score]), f"that {cells.quoted(labels)} is 1"
    is_correct = word(cells.names[labels]) in CORRECT
    is_sure = options.reduction is not None or options.scale == "logit"
    if is_correct and not (is_sure or is_named or _pipeline(cells) is not None) and cells.is_probability(score):
        raise _unclear_reduction(cells, that_it_is, "a predicted class")
    is_low = is_named and not is_sure and 0.0 < min(cells.shares(score), default=0.0) < 0.5
    alone = len(cells.texts(labels)) < 3 and not any(map(cells.is_predicted_class, cells.unused()))
    if is_low and alone and not is_correct:
        raise _unclear_reduction(cells, that_it_is, "a predicted class", "call the labels 'correct'")
    return [labels] if is_correct else []


@rule(
    "Confidence of a predicted class",
    "predicted_label_score.csv",
    f"{_AS_CONFIDENCE}: labels are whether the class in {{predicted}} is that in {{labels}}",
)
def _of_predicted_class(cells: ColumnChoice) -> list[int]:
    """A label, a predicted class, and a score of at least 1/K that is called `confidence`, of more than two classes, or
    not above a threshold for one of two classes alone: the event that the predicted class is the label.
    """
    labels, score = cells.labels or 0, cells.family.places[0]
    texts, name = cells.texts(labels), cells.names[score]
    if suffix(name) in texts or min(cells.shares(score), default=0.0) < 1 / max(2, len(texts)) - TOLERANCE:
        return []
    pipeline, classes = _pipeline(cells), {in_any_case(text): in_digits(text) for text in texts}
    hard = [at for at in cells.unused() if at == pipeline or cells.is_predicted_class(at)]
    predicted = {at: {*map(in_any_case, cells.texts(at))} for at in hard}
    places = [at for at, of in predicted.items() if of & classes.keys()]
    others = [at for at, of in predicted.items() if len(of) == 2]
    if not places and others and len(texts) == 2:
        raise UnclearColumns(
            f"column {quoted(name)} can be the probability of class 1, or the confidence in "
            f"{cells.quoted(others[0])}, whose classes have other names than those of "
            f"{cells.quoted(labels)}; name the positive label, or write the same names in both"
        )
    for at in cells.unused() if is_confidence(name) and not predicted else ():  # a predicted class with another name
        if len(of := {*map(in_any_case, cells.texts(at))}) > 1 and of <= classes.keys():
            raise UnclearColumns(
                f"column {quoted(name)} can be the probability of class 1, or the confidence in {cells.quoted(at)}; "
                f"name the positive label, or call column {cells.quoted(at)} 'predicted_label'"
            )
    if len(places) != 1 or pipeline is not None or is_confidence(name) or cells.options.reduction is not None:
        return places if len(places) == 1 else []
    scores: dict[str, list[float]] = {text: [] for text in classes.values()}  # of the predicted classes
    for value, text in zip(cells.columns[score].sample, cells.columns[places[0]].sample, strict=True):
        if is_number(value):
            scores.setdefault(classes.get(in_any_case(text), in_digits(text)), []).append(float(value))
    are_numbers = all(map(is_number, scores))
    pair = sorted(scores, key=float) if are_numbers else known_pair(sorted(scores))
    for event in () if len(scores) > 2 else scores if pair is None else pair[1:]:
        low = max((value for text in scores if text != event for value in scores[text]), default=0.0)
        if are_numbers and low <= 0.5:
            return []
        if 0.0 < low < min(scores[event], default=1.0):  # perhaps above another threshold than 1/2
            raise _unclear_reduction(cells, f"of {quoted(event)}", cells.quoted(places[0]), pos_label=event)
    return places


def _unclear_reduction(
    cells: ColumnChoice,
    event: str,
    predicted: str,
    remedy: str = "call the column 'confidence'",
    pos_label: str | None = None,
) -> UnclearColumns:
    """Return the error for scores with two readings: the probability of an event, or the confidence in a class."""
    text = f"column {cells.quoted(cells.family.places[0])} can be the probability {event}, or the confidence in"
    return UnclearColumns(
        f"{text} {predicted}; name the positive label, or {remedy}, or choose a reduction",
        field="reduction",
        readings=(("binary",) if pos_label is None else (pos_label,), ("confidence",)),
        options=("reduction" if pos_label is None else "pos_label", "reduction"),
    )


# --- Errors


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
            "instead, such as the argmax"
        )


def _check_classes(cells: ColumnChoice) -> None:
    """Raise an error if the columns are named after other classes than those of the options."""
    names, family, end = cells.options.class_names or (), cells.family, suffix(cells.names[cells.family.places[0]])
    are_places = family.classes == tuple(map(str, range(len(family.classes))))
    shared = [name for name in family.classes if among({name}, names) and not are_places]
    if len(family.places) == 1:
        if len(names) == 2 and end is not None and among({end}, names) == [names[0]]:
            column = cells.quoted(family.places[0])
            raise UnclearColumns(f"column {column} is that of {quoted(names[0])}, and {quoted(names[1])} is class 1")
    elif shared and len(shared) < len(names) == len(family.classes):
        raise UnclearColumns(
            f"the columns of predictions are named after {listed(family.classes)}, but the classes are {listed(names)}"
        )


def _check_gap(cells: ColumnChoice) -> None:
    """Raise an error if the number of a class is missing, unless the classes have the names of the labels."""
    family = cells.family
    if len(family.places) == 1 or not all(are_digits(name.removeprefix("-")) for name in family.classes):
        return
    own = among(cells.label_texts(), family.classes)
    if own and (len(own) == len(family.classes) or cells.sums_to_one(family.places)):
        return
    present = {int(name) for name in family.classes}
    low = 0 if 0 in present else 1
    if missing := sorted({*range(low, low + len(present))} - present):
        has = f"the predictions have one column per class, {cells.span(family.places)}"
        raise UnclearColumns(f"{has}, but the column of class {missing[0]} is missing")


def _check_percent(cells: ColumnChoice) -> None:
    """Raise an error if columns are named percentages, and all of their values can be probabilities too."""
    places = cells.family.places
    names = tuple(cells.names[at] for at in places)
    inside = all(max(cells.numbers(at), default=2.0) <= 1 + TOLERANCE for at in places)
    if cells.options.scale == "probability" and any(map(has_percent, names)) and inside:
        raise UnclearColumns(
            f"{span(names)} can be percentages of at most 1, or probabilities; set the scale to percent, or name the "
            "predictions if they are probabilities",
            options=("predictions", "scale"),
            readings=(names, ("percent",)),
        )


def _no_labels(cells: ColumnChoice) -> NoLabelColumn:
    others = [cells.names[at] for at in range(len(cells.names)) if cells.could_be_labels(at, MAX_OFFERED)]
    hint = f", or choose one of {cells.listed(others)}" if others else " (no other column can be labels)"
    if len(cells.names) == 1:
        hint = " (the file has no other column)"
        if cells.names == ["predictions"] and not cells.columns[0].sample:
            hint = "; an NPY file has only predictions: save both with np.savez('preds.npz', p=p, label=y)"
    return NoLabelColumn(f"no column of labels found; name it 'label'{hint}", offer=tuple(others[:MAX_OFFERED]))


def _none_found(cells: ColumnChoice) -> TabularError:
    names, free = cells.names, cells.free()
    if cells.options.scale == "probability" and (families := _readings(cells, LOGITS)):
        return _named_as_logits(cells, families[0])
    first = {word(column.sample[0]) for column in cells.columns if column.sample}
    if first & (PREDICTIONS | LOGITS) and first & LABELS:
        return NoPredictions("the names of the columns are in the second line; remove the first")
    for at in free:
        values = [(row, text) for row, text in enumerate(cells.columns[at].sample) if not is_missing(text)]
        if values and not any(is_number(text) for _, text in values) and all(is_numeric(text) for _, text in values):
            (row, text), signs = values[0], cells.columns[at].signs
            return refusal(text, names[at], "predictions", row, signs=signs)
    if predicted := _hard_predictions(cells, free):
        return _of_hard(cells, predicted[0])
    for at in free:
        error = None if cells.options.scale == "percent" else scale_error(names[at], cells.numbers(at))
        if error is not None:
            return error
    # Do not offer a column of labels or ids: a report on it would be meaningless.
    apart = LABELS | WEIGHTS | GROUPS
    offer = [at for at in free if word(names[at]) not in apart and not is_id(names[at]) and cells.is_probability(at)]
    if (error := _classes_without_names(cells, offer)) is not None:
        return error
    if len(names) == 1:
        text = f"the file has only one column, {quoted(names[0])}; are its columns separated by commas?"
        return NoPredictions(text, offer=tuple(names[at] for at in offer), columns=tuple(names))
    text, logits = "no column of predictions found", _possible_logits(cells, free)
    if cells.options.scale == "logit" and logits:
        if len(logits[0]) > 1:
            return UnclearColumns(
                f"{text}; if {span(logits[0])} are the logits of the classes, name them", readings=logits
            )
        offer = [names.index(name) for (name,) in logits]
    hint = "; for logits, set the scale to logit" if logits else ""
    labels = cells.labels
    but = "" if labels is None or not cells.is_probability(labels) else f" than {quoted(names[labels])}"
    none = f" (no other column{but} has numbers in [0, 1]{hint})"
    offered = tuple(names[at] for at in offer[:MAX_OFFERED])
    text += "; name it 'p', or 'prob_0', 'prob_1' and so on for several classes"
    text += f", or choose one of {cells.listed([names[at] for at in offer])}" if offer else none
    error = NoPredictions(text, offer=offered, columns=tuple(name for name in names[:MAX_OFFERED] if name))
    error.logits = () if offer else logits
    return error


def _named_as_logits(cells: ColumnChoice, family: Family) -> LooksLikeLogits:
    """Return the error for columns with names of logits, although the scale is probability."""
    called = [cells.names[at] for at in family.places]
    if len(called) == 1 and cells.columns[family.places[0]].width == 1 and is_log_probability(called[0]):
        return logarithms(called[0])
    verb = "seems" if len(called) == 1 else "seem"
    text = f"{span(called)} {verb} to be logits; if so, set the scale to logit"
    return LooksLikeLogits(text, offer=("logit",))


def _possible_logits(cells: ColumnChoice, free: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Return the columns that can be logits: one by one, or together if there is one for each of several labels."""
    real = [at for at in free if not cells.is_class(at) and not is_id(cells.names[at])]
    real = [at for at in real if not are_integers(cells.numbers(at))]
    names = tuple(cells.names[at] for at in real)
    if len(real) == len(cells.texts(cells.labels)) > 2:
        return (Family(tuple(real), names).by_number().classes,)
    return tuple((name,) for name in names)


def _classes_without_names(cells: ColumnChoice, offer: Sequence[int]) -> UnclearColumns | None:
    """Return the error for columns that sum to 1, with the orders that they may have, or None."""
    whole = Family(tuple(offer), tuple(cells.names[at] for at in offer)).by_number().negative_first()
    if not cells.sums_to_one(whole.places):
        return None
    orders = [whole.classes]
    if known_pair(whole.classes) is None and not are_digits(whole.classes[0][-1:]):
        if len(whole.classes) == 2:
            orders.append(whole.classes[::-1])
        elif all(map(is_number, cells.texts(cells.labels))):  # which number them in either order
            orders.append(tuple(sorted(whole.classes)))
    return UnclearColumns(
        f"no column of predictions found, but the rows of {span(whole.classes)} sum to 1; if they are the predictions, "
        "name them",
        offer=whole.classes[:MAX_OFFERED],
        readings=tuple(dict.fromkeys(orders)),
    )


def _hard_predictions(cells: ColumnChoice, free: Sequence[int]) -> list[int]:
    """Return the columns of predicted classes: numbers, or strings that are labels or have such a name."""
    labels = {text.casefold() for text in cells.texts(cells.labels)}
    hard = []
    for at in cells.unused():
        name, texts = cells.names[at], {text.casefold() for text in cells.texts(at)}
        is_named = word(name) in PREDICTIONS or is_predicted_class(name)
        are_strings = at not in free and cells.columns[at].width == 1 and bool(texts)
        are_strings = are_strings and not any("(" in text or "[" in text for text in texts)  # of other notations
        are_labels = len(texts) > 1 and texts <= labels and not all(map(is_number, texts))
        if (at in free and is_named and cells.is_class(at)) or (are_strings and (is_named or are_labels)):
            hard.append(at)
    return hard


def _of_hard(cells: ColumnChoice, at: int) -> NoPredictions:
    """Return the error for a column of predicted classes."""
    several = len(cells.texts(cells.labels) | cells.texts(at)) > 2
    save = " in a column per class, such as 'prob_cat'" if several else "[:, 1] in a column 'p'"
    text = f"column {cells.quoted(at)} has predicted classes, not probabilities; save the probabilities too, such as"
    return NoPredictions(f"{text} model.predict_proba(X){save}", offer=())


# --- Checks of what was read


def numbered_classes(
    chosen: ColumnChoice, columns: Sequence[Column], predictions: Floats, labels: Ints
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names and a note of classes that the labels number in the order of the file; None for other columns.

    Raises ``UnclearOrder`` if the predicted class is the label in fewer rows than in the order of the names.
    """
    by_name, places = chosen.by_name, chosen.places["predictions"]
    if by_name is None or predictions.ndim != 2:
        return None
    predicted = predictions.argmax(axis=1)
    renumbered = np.array([by_name.places.index(at) for at in places])
    of_file, of_names = (int(np.count_nonzero(k == labels)) for k in (predicted, renumbered[predicted]))
    if of_file <= of_names:
        raise UnclearOrder(
            f"{span([columns[at].name for at in places])} can be the classes 0 to {len(places) - 1} in the order of "
            "the file or of their names, and fewer rows are predicted correctly in the order of the file; choose one",
            readings=tuple(tuple(columns[at].name for at in order) for order in (by_name.places, places)),
        )
    names = tuple(names[0] for names in chosen.classes)
    shown = ", ".join(f"{k} is {quoted(name)}" for k, name in enumerate(names[:MAX_LISTED]))
    rest = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return names, (_FILE_ORDER.format(names=shown + rest),)


def check_confidence(places: ColumnPlaces, columns: Sequence[Column], confidence: Floats, n_classes: int) -> None:
    """Raise an error if a column that seemed to be the confidence in a predicted class is too low in later rows."""
    if not places["predicted"] or confidence.min() >= 1 / max(2, n_classes) - TOLERANCE:
        return
    name, predicted = (quoted(columns[places[name][0]].name) for name in ("predictions", "predicted"))
    hint = "; if it is P(Y=1), name the positive label" if n_classes < 3 else ""
    raise UnclearColumns(
        f"column {name} is not the confidence in {predicted}, as {row_of(int(np.argmin(confidence)))} is below "
        f"1/{max(2, n_classes)}{hint}"
    )
