"""Files of predictions of classes: the choice of the columns, by the options or else by the rules, and the sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np

from calibrant.core.arrays import with_integer
from calibrant.core.batch import TOLERANCE, Scale, without_rounding
from calibrant.core.column_names import (
    CORRECT,
    GROUPS,
    LABELS,
    LOGITS,
    PREDICTIONS,
    WEIGHTS,
    Family,
    among,
    are_digits,
    has_percent,
    is_id,
    is_log_probability,
    is_negative,
    is_predicted_class,
    known_pair,
    suffix,
    word,
)
from calibrant.core.inputs import are_of_other_class, of_other_class
from calibrant.io.cells import (
    EnoughCells,
    all_missing,
    check_lengths,
    complete,
    distinct_values,
    groups_of_rows,
    ids_at,
    names_at,
    texts_at,
)
from calibrant.io.columns import EVENT, FILE_ORDER, ONE, SEVERAL, VECTORS, check_one_hot, pipeline_label
from calibrant.io.csv import CsvTable
from calibrant.io.errors import (
    LabelsNeedMapping,
    LooksLikeLogits,
    MissingValue,
    NoLabelColumn,
    NoPredictions,
    NotLabels,
    TabularError,
    UnclearColumns,
    UnclearOrder,
    UnknownColumn,
    UnmatchedArrays,
)
from calibrant.io.join import JoinedTable
from calibrant.io.labels import (
    ClassLabels,
    are_of_two_classes,
    check_other_label,
    in_any_case,
    in_order,
    read_labels,
    whether_equal,
)
from calibrant.io.limits import STRING_BYTES, FileLimits
from calibrant.io.npz import NpzTable
from calibrant.io.options import FileOptions
from calibrant.io.rules import MAX_OFFERED, ColumnChoice, Distinct, are_integers, rules_of
from calibrant.io.scale import check_scale, logarithms, scale_error
from calibrant.io.source import spooled, write_blocks
from calibrant.io.table import Coded, Column, ColumnPlaces, Floats, Ints, OpenTable, Sheet, Values
from calibrant.io.texts import (
    MAX_LISTED,
    csv_lines,
    feature_of,
    is_missing,
    is_number,
    is_numeric,
    lacks_number,
    listed,
    may_be_numbers,
    number,
    plain,
    quoted,
    refusal,
    row_of,
    span,
)

# --- Choosing columns: those of the options, else those of the rules


def _choose(columns: Sequence[Column], options: FileOptions, distinct: Distinct, *, labelled: bool) -> ColumnChoice:
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
    cells.places = ColumnPlaces(family.places, cells.labels, weights, groups, predicted)
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


def _is_ordered(cells: ColumnChoice) -> bool:
    """Whether the options state the order of the classes."""
    options = cells.options
    is_named = len(cells.stated_places) == len(options.predictions or ()) > 0  # without a wildcard
    is_positive = options.pos_label is not None and bool(among({options.pos_label.strip()}, cells.family.classes))
    return is_named or is_positive or options.class_names is not None


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


def _predicted(cells: ColumnChoice) -> int | None:
    """Return the column of predicted classes if the only prediction is the confidence in them, and note it."""
    options, score = cells.options, cells.quoted(cells.family.places[0])
    if cells.labels is None or cells.width > 1:
        return None
    is_other = options.pos_label or options.reduction not in (None, "confidence")
    if is_other and (label := pipeline_label(cells)) is not None:
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


# --- Errors


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


def _numbered_classes(
    chosen: ColumnChoice, columns: Sequence[Column], predictions: Floats, labels: Ints
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
            readings=tuple(tuple(columns[at].name for at in order) for order in (by_name.places, places)),
        )
    names = tuple(names[0] for names in chosen.classes)
    shown = ", ".join(f"{k} is {quoted(name)}" for k, name in enumerate(names[:MAX_LISTED]))
    rest = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return names, (FILE_ORDER.format(names=shown + rest),)


def _check_confidence(places: ColumnPlaces, columns: Sequence[Column], confidence: Floats, n_classes: int) -> None:
    """Raise an error if a column that seemed to be the confidence in a predicted class is too low in later rows."""
    if places.predicted is None or confidence.min() >= 1 / max(2, n_classes) - TOLERANCE:
        return
    name, predicted = quoted(columns[places.predictions[0]].name), quoted(columns[places.predicted].name)
    hint = "; if it is P(Y=1), name the positive label" if n_classes < 3 else ""
    raise UnclearColumns(
        f"column {name} is not the confidence in {predicted}, as {row_of(int(np.argmin(confidence)))} is below "
        f"1/{max(2, n_classes)}{hint}"
    )


# --- From an open table to a sheet


def read_table(table: OpenTable, options: FileOptions, limits: FileLimits, *, labelled: bool | None = True) -> Sheet:
    """Read the predictions and labels of a table; with ``labelled`` None, labels if it has any."""
    if labelled is None:
        try:
            return read_table(table, options, limits)
        except (NoLabelColumn, UnknownColumn) as error:
            if error.field != "labels":
                raise
            return read_table(table, replace(options, labels=None), limits, labelled=False)
    try:
        chosen = _choose(table.columns, options, partial(distinct_values, table), labelled=labelled)
        try:
            return _sheet(table, chosen, options, table.read(chosen.places))
        except MissingValue as error:
            if chosen.labels is not None and chosen.width < 3:
                texts = distinct_values(table, [chosen.labels]).get(chosen.labels, set())
                check_other_label(chosen.names[chosen.labels], texts, options, error)
            if options.drop_missing:
                return _without_missing(table, chosen, options, error, limits)
            known = {name for names in chosen.classes for name in names}
            raise all_missing(table, chosen.places, error, known) from error
    except (NotLabels, NoLabelColumn, LabelsNeedMapping, UnclearColumns) as error:
        if error.field in ("labels", "mapping"):
            _check_long(table, error)
        raise


def _without_missing(
    table: OpenTable, chosen: ColumnChoice, options: FileOptions, error: MissingValue, limits: FileLimits
) -> Sheet:
    """Return the rows without missing values; raises ``error`` if there are none.

    Rows with missing values are read as copies of the first complete row, so that errors name the rows of the file.
    """
    places, known = chosen.places, {name for names in chosen.classes for name in names}
    columns = [*places.numbers, *places.texts]
    cells: dict[int, list[str]] = {at: [] for at in columns}

    def add(at: int, block: Sequence[str]) -> None:
        limits.reserve(sum(STRING_BYTES + len(cell) for cell in block))
        cells[at].extend(block)

    table.scan(columns, add)
    gaps = {
        at: np.array([(lacks_number if at in places.numbers else is_missing)(cell) for cell in cells[at]])
        & ~np.isin(cells[at], [*known])
        for at in columns
        if at not in places.groups
    }
    missing = np.any([*gaps.values()], axis=0)
    if missing.all() or not missing.any():
        raise error
    source = np.where(missing, int(np.argmin(missing)), np.arange(len(missing)))
    limits = replace(limits, spool=None)  # the copy is smaller than the cells in memory
    with spooled() as file:
        names = [table.columns[at].name for at in columns]
        rows = zip(*(map(of.__getitem__, source) for of in cells.values()), strict=True)
        write_blocks(csv_lines([names], rows), file, limits)
        moved = {at: place for place, at in enumerate(columns)}
        is_text = isinstance(table, CsvTable | JoinedTable)
        decimal, percent = options.decimal if is_text else ".", is_text and options.scale == "percent"
        values = CsvTable(file, limits, decimal, percent=percent).read(
            ColumnPlaces(
                tuple(moved[at] for at in places.predictions),
                None if places.labels is None else moved[places.labels],
                None if places.weights is None else moved[places.weights],
                tuple(moved[at] for at in places.groups),
                None if places.predicted is None else moved[places.predicted],
            )
        )
    lacking = listed([table.columns[at].name for at, empty in gaps.items() if empty.any()])
    note = (
        f"rows: {missing.sum():,} of {len(missing):,} left out, as values are missing in {lacking}, first in "
        f"{row_of(int(np.argmax(missing)))}"
    )
    sheet = replace(_sheet(table, chosen, options, values), row_numbers=np.arange(len(missing))).taken(~missing)
    return replace(sheet, notes=(*sheet.notes, note))


#: The most columns among which those of a long file are looked for, and their cells.
_MOST_LONG, _MOST_LONG_CELLS = 20, 2_000_000


def _check_long(table: OpenTable, error: TabularError) -> None:
    """Raise an error instead of ``error`` if each row of the file is one class of a case, whose rows sum to 1."""
    names = [column.name for column in table.columns]
    places = [at for at, name in enumerate(names) if name and table.columns[at].width == 1]
    if not 3 <= len(places) <= _MOST_LONG:
        return
    columns: dict[int, list[str]] = {at: [] for at in places}

    def add(at: int, cells: Sequence[str]) -> None:
        columns[at].extend(cells)
        if sum(map(len, columns.values())) > _MOST_LONG_CELLS:
            raise EnoughCells

    try:
        table.scan(places, add)
    except (EnoughCells, TabularError):
        return
    codes = {at: np.unique(cells, return_inverse=True)[1] for at, cells in columns.items()}
    for values, cells in columns.items():
        if not all(map(is_number, cells)) or not any(number(cell) % 1 for cell in cells):
            continue
        p = np.array([*map(number, cells)])
        for case, of_class in permutations(set(places) - {values}, 2):
            counts, k = np.bincount(codes[case]), codes[of_class].max() + 1
            if len(counts) < 2 or k < 2 or (counts != k).any():
                continue
            if len(np.unique(codes[case] * k + codes[of_class])) < len(p):
                continue
            if p.min() < 0 or abs(np.bincount(codes[case], p) - 1).max() > _OF_ONE:
                continue
            others = set(places) - {values, case, of_class}
            fixed = [at for at in sorted(others) if len(np.unique(codes[case] * len(p) + codes[at])) == len(counts)]
            if isinstance(error, LabelsNeedMapping) and len(fixed) < len(others):
                continue  # perhaps each row is an event, such as the victory of one of two teams
            index = [plain(names[at]) for at in (case, *fixed)]
            raise UnmatchedArrays(
                f"the file is long, with a row for each {quoted(names[case])} and {quoted(names[of_class])}; pivot it "
                f"to a column per class, as pandas does with frame.pivot(index={index if fixed else index[0]!r}, "
                f"columns={plain(names[of_class])!r}, values={plain(names[values])!r}).reset_index()"
            ) from error


#: How far the probabilities of the classes of a case may sum from 1.
_OF_ONE = 0.01


def _sheet(table: OpenTable, chosen: ColumnChoice, options: FileOptions, values: Values) -> Sheet:
    names = [table.columns[at].name for at in chosen.places.predictions]
    check_lengths(values, len(values.predictions), "predictions")
    scale_notes = check_scale(values.predictions, options.scale, names)
    if options.scale == "percent":
        values = replace(values, vectors={**values.vectors, "predictions": values.predictions / 100.0})
    scale: Scale = "logit" if options.scale == "logit" else "probability"
    is_probability = scale == "probability"
    if values.labels is not None and is_probability:
        _check_confidence(chosen.places, table.columns, values.predictions, len(values.labels.texts))
    rounded = without_rounding(values.predictions) if is_probability and values.predictions.ndim == 2 else None
    predictions, what = (values.predictions, "") if rounded is None else rounded
    _check_models(table, chosen, options, predictions, values.labels)
    rounding = (f"predictions: {what}; each row is divided by its sum",) if what else ()
    classes = _classes(table, chosen, options, values)
    if options.pos_label is not None and predictions.ndim == 2 and classes is not None:
        predictions = _positive_last(predictions, classes.names, _own_names(table), chosen)
    if classes is not None and are_of_other_class(predictions, classes.labels):
        scale_notes = (*scale_notes, f"predictions: {of_other_class(predictions, scale)}")
    times, clusters, ids = (chosen.beside[field] for field in ("times", "clusters", "ids"))
    cells = {table.columns[at].name: names_at(table, at, with_gaps=True) for at in chosen.features}
    features = {name: feature_of(name, column, options.categorical or ()) for name, column in cells.items()} or None
    return Sheet(
        predictions,
        None if classes is None else classes.labels,
        values.weights,
        groups_of_rows(values.groups, table, chosen.places),
        scale,
        _own_names(table) if classes is None else classes.names,
        (*table.notes, *chosen.notes, *(() if classes is None else classes.notes), *scale_notes, *rounding),
        None if times is None else complete(texts_at(table, [times])[0], table.columns[times].name, is_missing),
        chosen.reduction,
        options.weights_kind,
        None if clusters is None else names_at(table, clusters),
        None if ids is None else ids_at(table, table.columns[ids].name, "the file"),
        features,
    )


def _check_models(
    table: OpenTable, chosen: ColumnChoice, options: FileOptions, predictions: Floats, labels: Coded | None
) -> None:
    """Raise ``UnclearColumns`` for columns that the options name and that are not those of two or more classes.

    Columns of 0 and 1 may say whether a prediction set has each class.
    """
    places = chosen.places.predictions
    if options.scale == "logit" or len(places) < 2 or not options.predictions:
        return
    away = np.flatnonzero(np.abs(predictions.sum(axis=1) - 1.0) > TOLERANCE)
    if not len(away) or (labels is not None and len(labels.texts) > 2) or np.isin(predictions, (0.0, 1.0)).all():
        return
    names = [table.columns[at].name for at in places]
    error = UnclearColumns(
        f"{span(names)} are read as the probabilities of {len(names)} classes, but {len(away):,} of "
        f"{len(predictions):,} rows do not sum to 1, first {row_of(int(away[0]))}; if each is P(Y=1) of a model, "
        "compare the models, or evaluate one at a time",
        offer=tuple(names),
        readings=tuple((name,) for name in names),
    )
    error.models = tuple(names)
    raise error


def _positive_last(
    predictions: Floats, names: tuple[str, ...] | None, own: tuple[str, ...] | None, chosen: ColumnChoice
) -> Floats:
    """Return two columns that are not named after their classes, with the positive one last.

    Raises ``LabelsNeedMapping`` unless class 1 is also the last of the sorted labels, or the archive has their order.
    """
    named = {name.casefold() for aliases in chosen.classes for name in aliases}
    if names is None or named & {name.casefold() for name in names}:  # chosen with the positive class last
        return predictions
    order = own if own is not None and {*own} == {*names} else sorted(names, key=in_order)
    if order[0] == names[0] or names[0] == f"not {names[1]}":
        return predictions
    if own is None and not are_of_two_classes(names):
        error = LabelsNeedMapping(
            f"the first or the second of two columns of predictions can be that of {quoted(names[1])}, as neither is "
            "named after a label; name the classes in the order of the columns",
            offer={name: k for k, name in enumerate(names)},
        )
        error.has_columns = True
        raise error
    return predictions[:, ::-1]


def _classes(table: OpenTable, chosen: ColumnChoice, options: FileOptions, values: Values) -> ClassLabels | None:
    if values.labels is None or chosen.places.labels is None:
        return None
    n_classes = 2 if values.predictions.ndim == 1 else values.predictions.shape[1]
    class_names = options.class_names
    if options.mapping is None and options.pos_label is None:
        class_names = class_names or _own_names(table)
    if values.predicted is not None:
        return ClassLabels(whether_equal(values.labels, values.predicted), None)
    try:
        labels = read_labels(
            values.labels,
            table.columns[chosen.places.labels].name,
            chosen.classes,
            n_classes,
            options.mapping,
            class_names=class_names,
            pos_label=options.pos_label,
        )
    except LabelsNeedMapping as error:
        error.has_columns = values.predictions.ndim == 2
        raise
    if chosen.class_names is not None and (labels.names is None or options.pos_label is not None):
        return replace(labels, names=chosen.class_names)  # so that a map finds its columns in any order
    if labels.names is None and (
        numbered := _numbered_classes(chosen, table.columns, values.predictions, labels.labels)
    ):
        names, notes = numbered
        return ClassLabels(labels.labels, names, (*labels.notes, *notes))
    return labels


def _own_names(table: OpenTable) -> tuple[str, ...] | None:
    return table.class_names if isinstance(table, NpzTable) else None
