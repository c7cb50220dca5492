"""Files of predictions of classes: from an open table to a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np

from calibrant.core.batch import TOLERANCE, Scale, without_rounding
from calibrant.core.inputs import are_of_other_class, of_other_class
from calibrant.io.cells import (
    EnoughCells,
    JoinedTable,
    all_missing,
    check_lengths,
    complete,
    distinct_values,
    groups_of_rows,
    ids_at,
    names_at,
    texts_at,
)
from calibrant.io.columns import check_confidence, choose, numbered_classes
from calibrant.io.csv import CsvTable
from calibrant.io.errors import (
    InvalidFileOption,
    LabelsNeedMapping,
    MissingValue,
    NoLabelColumn,
    NotLabels,
    TabularError,
    UnclearColumns,
    UnknownColumn,
    UnmatchedArrays,
)
from calibrant.io.labels import ClassLabels, are_of_two_classes, check_other_label, in_order, read_labels, whether_equal
from calibrant.io.limits import STRING_BYTES, FileLimits
from calibrant.io.npz import NpzTable
from calibrant.io.options import FileOptions
from calibrant.io.rules import ColumnChoice
from calibrant.io.scale import check_scale
from calibrant.io.source import spooled, write_blocks
from calibrant.io.table import Coded, ColumnPlaces, Floats, OpenTable, Sheet, Values
from calibrant.io.texts import (
    PLAIN_CELLS,
    TextCells,
    csv_lines,
    feature_of,
    is_missing,
    is_number,
    lacks_number,
    listed,
    number,
    plain,
    quoted,
    row_of,
    span,
)


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
        chosen = choose(table.columns, options, partial(distinct_values, table), labelled=labelled)
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
        if at not in places["groups"]
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
        how = TextCells(options.decimal, percent=options.scale == "percent") if is_text else PLAIN_CELLS
        values = CsvTable(file, limits, how).read(
            ColumnPlaces({name: tuple(moved[at] for at in of) for name, of in places.by_field.items()})
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
    names = [table.columns[at].name for at in chosen.places["predictions"]]
    predictions, labels = values.numbers["predictions"], values.text("labels")
    check_lengths(values, len(predictions), "predictions")
    scale_notes = check_scale(predictions, options.scale, names)
    if options.scale == "percent":
        predictions = predictions / 100.0
    scale: Scale = "logit" if options.scale == "logit" else "probability"
    is_probability = scale == "probability"
    if labels is not None and is_probability:
        check_confidence(chosen.places, table.columns, predictions, len(labels.texts))
    rounded = without_rounding(predictions) if is_probability and predictions.ndim == 2 else None
    predictions, what = (predictions, "") if rounded is None else rounded
    _check_models(table, chosen, options, predictions, labels)
    rounding = (f"predictions: {what}; each row is divided by its sum",) if what else ()
    classes = _classes(table, chosen, options, values)
    if options.pos_label is not None and predictions.ndim == 2 and classes is not None:
        predictions = _positive_last(predictions, classes.names, _own_names(table), chosen)
    if classes is not None and are_of_other_class(predictions, classes.labels):
        scale_notes = (*scale_notes, f"predictions: {of_other_class(predictions, scale)}")
    times, clusters, ids = (chosen.beside[field] for field in ("times", "clusters", "ids"))
    cells = {table.columns[at].name: names_at(table, at, with_gaps=True) for at in chosen.features}
    for name in options.categorical or ():
        if name not in cells:
            raise InvalidFileOption(f"column {quoted(name)} is not one of the features", field="categorical")
    features = {name: feature_of(name, column, options.categorical or ()) for name, column in cells.items()} or None
    return Sheet(
        predictions,
        None if classes is None else classes.labels,
        values.numbers.get("weights"),
        groups_of_rows(values, table, chosen.places),
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
    places = chosen.places["predictions"]
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
    coded, predicted, predictions = values.text("labels"), values.text("predicted"), values.numbers["predictions"]
    if coded is None:
        return None
    n_classes = 2 if predictions.ndim == 1 else predictions.shape[1]
    class_names = options.class_names
    if options.mapping is None and options.pos_label is None:
        class_names = class_names or _own_names(table)
    if predicted is not None:
        return ClassLabels(whether_equal(coded, predicted), None)
    try:
        labels = read_labels(
            coded,
            table.columns[chosen.places["labels"][0]].name,
            chosen.classes,
            n_classes,
            options.mapping,
            class_names=class_names,
            pos_label=options.pos_label,
        )
    except LabelsNeedMapping as error:
        error.has_columns = predictions.ndim == 2
        raise
    if chosen.class_names is not None and (labels.names is None or options.pos_label is not None):
        return replace(labels, names=chosen.class_names)  # so that a map finds its columns in any order
    if labels.names is None and (numbered := numbered_classes(chosen, table.columns, predictions, labels.labels)):
        names, notes = numbered
        return ClassLabels(labels.labels, names, (*labels.notes, *notes))
    return labels


def _own_names(table: OpenTable) -> tuple[str, ...] | None:
    return table.class_names if isinstance(table, NpzTable) else None
