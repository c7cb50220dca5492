"""Inference of the columns of predictions, labels, weights and groups from names and contents: a table of rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibrant.arrays import with_integer
from calibrant.batch import TOLERANCE
from calibrant.inputs import is_negative, known_pair
from calibrant.io.column_names import (
    CONFIDENCE,
    CORRECT,
    GROUPS,
    LABELS,
    LOGITS,
    NUMBERED,
    PREDICTIONS,
    WEIGHTS,
    Family,
    among,
    is_id,
    is_log_probability,
    is_predicted_class,
    number_of,
    suffix,
    word,
    words_of,
)
from calibrant.io.column_rules import (
    EVENT,
    LABEL_RULES,
    LATE_LABEL_RULES,
    ONE,
    PREDICTION_RULES,
    SEVERAL,
    SOME_ROWS,
    VECTORS,
    Chosen,
    ColumnChoice,
    Distinct,
    are_integers,
    check_one_hot,
)
from calibrant.io.errors import (
    LooksLikeLogits,
    NoLabels,
    NoPredictions,
    TabularError,
    UnclearColumns,
    UnclearOrder,
)
from calibrant.io.rules import MAX_OFFERED, Rule, rule
from calibrant.io.scale import logarithms, scale_error
from calibrant.io.table import Column, Floats, Ints, Places, SheetOptions
from calibrant.io.texts import (
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

# --- Choosing columns: those of the options, else those of the rules


def choose(columns: Sequence[Column], options: SheetOptions, distinct: Distinct, *, labelled: bool) -> Chosen:
    """Choose the columns of a table; raises a ``TabularError`` if a column is missing or ambiguous.

    Columns are inferred from their names and contents by the tables of rules. The scale logit is never inferred.
    """
    cells = ColumnChoice(columns, options, distinct, labelled)
    times = None if options.times is None else cells.find(options.times, "times")
    # A column of labels that the wildcard of the predictions matches is none of them.
    cells.labels = None if options.labels is None else cells.find(options.labels, "labels")
    cells.stated = [at for name in options.predictions or () for at in _sorted(cells, name)]
    if labelled and cells.labels is None:
        cells.labels = cells.only("labels", LABEL_RULES)
    groups = cells.groups(options.groups)
    weights = cells.weights(options.weights, noted=labelled)
    cells.family = _by_options(options, _as_stated(cells) if cells.stated else _inferred(cells))
    for at in cells.family.places if not cells.stated else ():
        cells.choose(at, "predictions")
    _check_classes(cells)
    if labelled and cells.labels is None:
        cells.labels = cells.only("labels", LATE_LABEL_RULES)
        if cells.labels is None:
            raise _no_labels(cells)
    if not cells.stated:
        _check_gap(cells)
    if cells.labels is not None:
        check_one_hot(cells, cells.labels)
    by_name = _in_order(cells)
    _note(cells)
    family, predicted = cells.family, _predicted(cells) if labelled else None
    return Chosen(
        Places(family.places, cells.labels, weights, groups, predicted),
        tuple(_aliases(cells, at, name) for at, name in zip(family.places, family.classes, strict=True)),
        tuple(cells.notes),
        times,
        None if cells.event is None else family.classes,
        by_name,
        cells.reduction,
    )


def _in_order(cells: ColumnChoice) -> Family | None:
    """Put the columns in the order of the rules; returns them in that of their names, if the labels can have that."""
    by_name = None
    for row in ORDER_RULES:
        for family in row.find(cells):
            if row.find is _file_order:
                by_name = family
            elif family != cells.family:
                cells.family = family
                shown = {"event": quoted(cells.event or ""), "place": str(cells.place)}
                cells.notes += [row.prints.format(**shown)] if row.prints else []
    return by_name


def _aliases(cells: ColumnChoice, at: int, name: str) -> tuple[str, ...]:
    """Return the names of a class from its column: the name of the class, of the column, and its suffix."""
    return tuple(dict.fromkeys(filter(None, (name, cells.names[at], suffix(cells.names[at])))))


def _sorted(cells: ColumnChoice, stated: str) -> list[int]:
    """Choose the columns that the options name; those that differ in a number are in the order of the numbers."""
    places = cells.matching(stated, "predictions")
    ends = [NUMBERED.fullmatch(with_integer(cells.names[at])) for at in places]
    numbers = {at: int(end[2]) for at, end in zip(places, ends, strict=True) if end is not None}
    are_alike = len({end[1] for end in ends if end is not None}) == 1 and len(numbers) == len(places)
    return sorted(places, key=numbers.__getitem__) if are_alike else places


def _inferred(cells: ColumnChoice) -> Family:
    """Choose the columns of predictions by the rules; raises an error if there are none or several readings."""
    for known in (LOGITS, PREDICTIONS) if cells.options.scale == "logit" else (PREDICTIONS,):
        readings = _readings(cells, known)
        if readings:
            break
    else:
        raise _none_found(cells)
    if not cells.labelled:  # a map is applied to the predictions of the model
        readings = [of for of in readings if not _is_calibrated(cells, of)] or readings
    if len(readings) > 1:
        ordered = [_by_options(cells.options, of).negative_first() for of in readings]
        raise cells.unclear([tuple(cells.names[at] for at in of.places) for of in ordered], "predictions")
    return readings[0]


def _readings(cells: ColumnChoice, known: frozenset[str]) -> list[Family]:
    """Return the readings of all rules of predictions, single columns first."""
    cells.known, cells.used = known, set()
    cells.free_names = [with_integer(name) if cells.is_free(at) else "" for at, name in enumerate(cells.names)]
    singles, several = dict[int, Family](), list[Family]()
    for row in PREDICTION_RULES:
        if row.fallback and (singles or several):
            break
        for family in row.find(cells):
            cells.used |= {*family.places} if len(family.places) > 1 else set()
            singles |= {family.places[0]: family} if len(family.places) == 1 else {}
            several += [family] if len(family.places) > 1 else []
    return [*(singles[at] for at in sorted(singles)), *several]


def _is_calibrated(cells: ColumnChoice, family: Family) -> bool:
    return all("calibrated" in words_of(cells.names[at]) for at in family.places)


def _as_stated(cells: ColumnChoice) -> Family:
    for at in cells.stated:
        if not may_be_numbers(cells.columns[at].sample) and not any(map(is_number, cells.texts(at))):
            raise _of_hard(cells, at)
    names = [cells.names[at] for at in cells.stated]
    ends = [end for name in names if (end := suffix(name)) is not None]
    return Family(tuple(cells.stated), tuple(ends if len(set(ends)) == len(names) > 1 else names))


def _by_options(options: SheetOptions, family: Family) -> Family:
    """Return the columns in the order of the class names or with the positive class last, if they name them."""
    names, positive = options.class_names, (options.pos_label or "").strip()
    if names is not None:
        chosen = [name for text in names for name in among({text}, family.classes)]
        if len(names) != len(family.classes) or sorted(chosen) != sorted(family.classes):
            return family
        return replace(family.taken([family.classes.index(name) for name in chosen]), classes=names)
    is_first = len(family.classes) == 2 and among({positive}, family.classes) == [family.classes[0]]
    return family.reversed() if is_first else family


# --- Rules of the order of the classes, which are used if the options state none

ORDER_RULES: list[Rule] = []
_FILE_ORDER = "classes: {names} (in the order of the file; name the columns for another order)"


def _is_ordered(cells: ColumnChoice) -> bool:
    """Whether the options state the order of the classes."""
    options = cells.options
    is_named = len(cells.stated) == len(options.predictions or ()) > 0  # without a wildcard
    is_positive = options.pos_label is not None and bool(among({options.pos_label.strip()}, cells.family.classes))
    return is_named or is_positive or options.class_names is not None


@rule(ORDER_RULES, "predictions", "positive_first.csv", "")
def _negative_first(cells: ColumnChoice) -> list[Family]:
    """Two columns named after a positive class and its negative, such as `yes`, `no`: the negative class first."""
    return [] if _is_ordered(cells) else [cells.family.negative_first()]


@rule(
    ORDER_RULES,
    "predictions",
    "event_column.csv",
    "classes: {event} is class {place}, as the column of labels has its name",
)
def _named_as_labels(cells: ColumnChoice) -> list[Family]:
    """Two columns, one of them named like the column of labels, as `churn` and `p_churn`: that class is the event."""
    if cells.labels is None or len(cells.family.classes) != 2 or _is_ordered(cells) or cells.options.mapping:
        return []
    events = [name for name in cells.family.classes if word(name) == word(cells.names[cells.labels])]
    if len(events) != 1:
        return []
    cells.event, cells.place = events[0], 0 if is_negative(cells.options.pos_label or "") else 1
    return [cells.family if cells.family.classes[cells.place] == cells.event else cells.family.reversed()]


@rule(ORDER_RULES, "predictions", "ordinal.csv", _FILE_ORDER)
def _file_order(cells: ColumnChoice) -> list[Family]:
    """Columns of names beside labels that are numbers: class k is the k-th column, which is refused if the order of the
    names predicts better.
    """
    family = cells.family
    if cells.event is not None or _is_ordered(cells) or cells.options.mapping:
        return []
    by_name = family.taken(sorted(range(len(family.classes)), key=family.classes.__getitem__)).by_number()
    return [] if by_name == family else [by_name]


def _note(cells: ColumnChoice) -> None:
    """Note how the predictions were read, and that a single column without labels is named after class 0."""
    names, end = [cells.names[at] for at in cells.family.places], suffix(cells.names[cells.family.places[0]]) or ""
    if cells.stated:
        if len(names) == 2:
            cells.notes.append(f"predictions: {span(names)}, of class 0 and of class 1")
        if not cells.labelled and len(names) == 1 and cells.options.class_names is None and is_negative(end):
            cells.notes.append(f"predictions: column {quoted(names[0])} is named after class 0, not class 1")
        return
    form = SEVERAL if len(names) > 1 else VECTORS if cells.width > 1 else ONE
    is_event = is_negative(end) or (not are_digits(end) and bool(among({end}, sorted(cells.texts(cells.labels)))))
    what = "logit" if cells.options.scale == "logit" else "probability"
    event, name = quoted(end) if end and is_event else "class 1", quoted(names[0])
    cells.notes.append(form.format(columns=span(names), their="their names", name=name, what=what, event=event))


# --- Rules of the confidence in a predicted class, which are used if no option says that there is none

CONFIDENCE_RULES: list[Rule] = []
_AS_CONFIDENCE = "reduction: confidence, as {columns} is the confidence in a predicted class"


def _predicted(cells: ColumnChoice) -> int | None:
    """Return the column of predicted classes if the only prediction is the confidence in them, and note it."""
    options, score = cells.options, cells.names[cells.family.places[0]]
    if cells.labels is None or cells.width > 1:
        return None
    if cells.pipeline is not None and (options.pos_label or options.reduction not in (None, "confidence")):
        label = quoted(cells.names[cells.pipeline])
        text = f"column {quoted(score)} is the confidence in {label}, not P(Y=1); do not name a positive label"
        raise UnclearColumns(f"{text} or another reduction than confidence", field="predictions")
    if options.mapping or options.pos_label or options.class_names or options.reduction not in (None, "confidence"):
        return None
    for row in CONFIDENCE_RULES:
        for at in row.find(cells):
            cells.reduction = "confidence"
            cells.notes = [note.replace(EVENT, "the confidence in the predicted class") for note in cells.notes]
            predicted, labels = quoted(cells.names[at]), quoted(cells.names[cells.labels])
            shown = {"columns": f"column {quoted(score)}", "predicted": predicted, "labels": labels}
            cells.notes.append(row.prints.format(**shown))
            return None if at == cells.labels else cells.choose(at, "labels")
    return None


@rule(CONFIDENCE_RULES, "labels", "confidence_correct.csv", _AS_CONFIDENCE)
def _of_correctness(cells: ColumnChoice) -> list[int]:
    """A label `correct` or `is_correct`, and a `confidence`: the event that the predicted class is right."""
    labels, score = cells.labels or 0, cells.names[cells.family.places[0]]
    if word(cells.names[labels]) not in CORRECT:
        return []
    is_unclear = (
        word(score) not in CONFIDENCE and cells.pipeline is None and cells.is_probability(cells.family.places[0])
    )
    if is_unclear and cells.options.reduction is None and cells.options.scale == "probability":
        raise _unclear_reduction(score, f"that {quoted(cells.names[labels])} is 1", "a predicted class")
    return [labels]


@rule(
    CONFIDENCE_RULES,
    "labels",
    "predicted_label_score.csv",
    f"{_AS_CONFIDENCE}: labels are whether the class in {{predicted}} is that in {{labels}}",
)
def _of_predicted_class(cells: ColumnChoice) -> list[int]:
    """A label, a predicted class, and a score of at least 1/K that is called `confidence`, beside strings, of more than
    two classes, or at least one half where class 0 is predicted: the event that the predicted class is the label.
    """
    labels, score = cells.labels or 0, cells.family.places[0]
    texts, name = cells.texts(labels), cells.names[score]
    free = [at for at in range(len(cells.names)) if at not in cells.chosen]
    texts_of = {at: {*map(number_of, cells.texts(at))} | cells.texts(at) for at in free}  # 1 of LABEL_1
    places = [
        at for at in free if at == cells.pipeline or (cells.is_predicted_class(at) and bool(texts_of[at] & texts))
    ]
    is_event = (end := suffix(name)) is not None and end in texts
    low = min(cells.numbers(score), default=0.0)
    predicted = [at for at in free if cells.is_predicted_class(at) and len(cells.texts(at)) == 2]
    if not places and not is_event and len(texts) == 2 and predicted and low >= 0.5:
        raise UnclearColumns(
            f"column {quoted(name)} can be the probability of class 1, or the confidence in "
            f"{quoted(cells.names[predicted[0]])}, whose classes have other names than those of "
            f"{quoted(cells.names[labels])}; name the positive label, or write the same names in both",
            field="predictions",
        )
    if len(places) != 1 or is_event or low < 1 / max(2, len(texts)) - TOLERANCE:
        return []
    is_top = cells.pipeline is not None or word(name) in CONFIDENCE or cells.options.reduction is not None
    if not is_top and len(texts) == 2 and all(map(is_number, texts)):
        pairs = zip(cells.columns[score].sample, cells.columns[places[0]].sample, strict=True)
        of_0 = [float(text) for text, of_class in pairs if is_number(of_class) and float(of_class) == 0.0]
        if not of_0 or max(of_0) <= 0.5:
            return []
        if len(of_0) < SOME_ROWS:
            raise _unclear_reduction(name, "of class 1", quoted(cells.names[places[0]]))
    return places


def _unclear_reduction(score: str, event: str, predicted: str) -> UnclearColumns:
    text = f"column {quoted(score)} can be the probability {event}, or the confidence in {predicted}"
    text += "; name the positive label, or call the column 'confidence', or choose a reduction"
    return UnclearColumns(text, field="reduction", readings=(("binary",), ("confidence",)))


# --- Errors


def _check_classes(cells: ColumnChoice) -> None:
    """Raise an error if the columns are named after other classes than those of the options."""
    names, family, end = cells.options.class_names, cells.family, suffix(cells.names[cells.family.places[0]])
    if names is None:
        return
    are_places = family.classes == tuple(map(str, range(len(family.classes))))
    shared = [name for name in family.classes if among({name}, names) and not are_places]
    if len(family.places) == 1:
        if len(names) == 2 and end is not None and among({end}, names) == [names[0]]:
            column = quoted(cells.names[family.places[0]])
            raise UnclearColumns(
                f"column {column} is that of {quoted(names[0])}, and {quoted(names[1])} is class 1", field="predictions"
            )
    elif shared and len(shared) < len(names) == len(family.classes):
        raise UnclearColumns(
            f"the columns of predictions are named after {listed(family.classes)}, but the classes are {listed(names)}",
            field="predictions",
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
    missing = next((k for k in range(low, low + len(present)) if k not in present), None)
    if missing is not None:
        columns = span([cells.names[at] for at in family.places])
        raise UnclearColumns(
            f"the predictions have one column per class, {columns}, but the column of class {missing} is missing",
            field="predictions",
        )


def _no_labels(cells: ColumnChoice) -> NoLabels:
    others = [cells.names[at] for at in range(len(cells.names)) if cells.could_be_labels(at, MAX_OFFERED)]
    if len(cells.names) == 1 and cells.columns[0].name == "predictions" and not cells.columns[0].sample:
        hint = "; an NPY file has only predictions: save both with np.savez('preds.npz', p=p, label=y)"
    elif len(cells.names) == 1:
        hint = " (the file has no other column)"
    else:
        hint = f", or choose one of {cells.listed(others)}" if others else " (no other column can be labels)"
    detail = f"no column of labels found; name it 'label'{hint}"
    return NoLabels(detail, field="labels", offer=tuple(others[:MAX_OFFERED]))


def _none_found(cells: ColumnChoice) -> TabularError:
    names, free = cells.names, [at for at, name in enumerate(cells.names) if name and cells.is_free(at)]
    if cells.options.scale == "probability" and (logits := _readings(cells, LOGITS)):
        called = [names[at] for at in logits[0].places]
        if len(called) == 1 and cells.columns[logits[0].places[0]].width == 1 and is_log_probability(called[0]):
            return logarithms(called[0])
        verb = "seems" if len(called) == 1 else "seem"
        text = f"{span(called)} {verb} to be logits; if so, set the scale to logit"
        return LooksLikeLogits(text, field="scale", offer=("logit",))
    first = {word(column.sample[0]) for column in cells.columns if column.sample}
    if first & (PREDICTIONS | LOGITS) and first & LABELS:
        return NoPredictions("the names of the columns are in the second line; remove the first", field="predictions")
    for at in free:
        values = [(row, text) for row, text in enumerate(cells.columns[at].sample) if not is_missing(text)]
        if values and not any(is_number(text) for _, text in values) and all(is_numeric(text) for _, text in values):
            return refusal(values[0][1], names[at], "predictions", values[0][0])
    if predicted := _hard_predictions(cells, free):
        return _of_hard(cells, predicted[0])
    for at in free:
        if (error := scale_error(names[at], cells.numbers(at))) is not None:
            return error
    # Do not offer a column of labels or ids: a report on it would be meaningless.
    apart = LABELS | WEIGHTS | GROUPS
    offer = [at for at in free if word(names[at]) not in apart and not is_id(names[at]) and cells.is_probability(at)]
    whole = Family(tuple(offer), tuple(names[at] for at in offer)).by_number().negative_first()
    if cells.sums_to_one(whole.places):
        is_known = len(whole.classes) > 2 or known_pair(whole.classes) is not None or are_digits(whole.classes[0][-1:])
        return UnclearColumns(
            f"no column of predictions found, but the rows of {span(whole.classes)} sum to 1; if they are the "
            "predictions, name them",
            field="predictions",
            offer=whole.classes[:MAX_OFFERED],
            readings=(whole.classes,) if is_known else (whole.classes, whole.classes[::-1]),
        )
    if len(names) == 1:
        text = f"the file has only one column, {quoted(names[0])}; are its columns separated by commas?"
    else:
        text = "no column of predictions found; name it 'p', or 'prob_0', 'prob_1' and so on for several classes"
        real = [at for at in free if not cells.is_class(at) and not is_id(names[at])]
        real = [at for at in real if not are_integers(cells.numbers(at))]
        offer = real if real and cells.options.scale == "logit" else offer
        hint = "; for logits, set the scale to logit" if real else ""
        labels = cells.labels
        but = "" if labels is None or not cells.is_probability(labels) else f" than {quoted(names[labels])}"
        none = f" (no other column{but} has numbers in [0, 1]{hint})"
        text += f", or choose one of {cells.listed([names[at] for at in offer])}" if offer else none
    offered = tuple(names[at] for at in offer[:MAX_OFFERED])
    error = NoPredictions(
        text, field="predictions", offer=offered, columns=tuple(name for name in names[:MAX_OFFERED] if name)
    )
    error.logits = tuple(names[at] for at in real) if not offer and len(names) > 1 else ()
    return error


def _hard_predictions(cells: ColumnChoice, free: Sequence[int]) -> list[int]:
    """Return the columns of predicted classes: numbers, or strings that are labels or have such a name."""
    labels = {text.casefold() for text in cells.texts(cells.labels)}
    hard = []
    for at, name in enumerate(cells.names):
        is_named = bool(name) and at not in cells.chosen and (word(name) in PREDICTIONS or is_predicted_class(name))
        texts = {text.casefold() for text in cells.texts(at)}
        are_strings = at not in free and at not in cells.chosen and cells.columns[at].width == 1 and bool(texts)
        are_strings = are_strings and not any("(" in text or "[" in text for text in texts)  # of other notations
        are_labels = len(texts) > 1 and texts <= labels and not all(map(is_number, texts))
        if (at in free and is_named and cells.is_class(at)) or (are_strings and (is_named or are_labels)):
            hard.append(at)
    return hard


def _of_hard(cells: ColumnChoice, at: int) -> NoPredictions:
    """Return the error for a column of predicted classes."""
    several = len(cells.texts(cells.labels) | cells.texts(at)) > 2
    save = (
        "predict_proba(X) in a column per class, such as 'prob_cat'"
        if several
        else "predict_proba(X)[:, 1] in a column 'p'"
    )
    return NoPredictions(
        f"column {quoted(cells.names[at])} has predicted classes, not probabilities; save the probabilities too, such "
        f"as model.{save}",
        field="predictions",
        offer=(),
    )


# --- Checks of what was read


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
    if of_file <= of_names:
        raise UnclearOrder(
            f"{span([columns[at].name for at in places])} can be the classes 0 to {len(places) - 1} in the order of "
            "the file or of their names, and fewer rows are predicted correctly in the order of the file; choose one",
            field="predictions",
            readings=tuple(tuple(columns[at].name for at in order) for order in (by_name.places, places)),
        )
    names = tuple(names[0] for names in chosen.classes)
    shown = ", ".join(f"{k} is {quoted(name)}" for k, name in enumerate(names[:MAX_LISTED]))
    rest = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return names, (_FILE_ORDER.format(names=shown + rest),)


def check_confidence(places: Places, columns: Sequence[Column], confidence: Floats, n_classes: int) -> None:
    """Raise an error if a column that seemed to be the confidence in a predicted class is too low in later rows."""
    if places.predicted is None or confidence.min() >= 1 / max(2, n_classes) - TOLERANCE:
        return
    name, predicted = quoted(columns[places.predictions[0]].name), quoted(columns[places.predicted].name)
    hint = "; if it is P(Y=1), name the positive label" if n_classes < 3 else ""
    raise UnclearColumns(
        f"column {name} is not the confidence in {predicted}, as {row_of(int(np.argmin(confidence)))} is below "
        f"1/{max(2, n_classes)}{hint}",
        field="predictions",
    )
