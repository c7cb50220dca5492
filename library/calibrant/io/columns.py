"""The rules of inference: what the names and first values of columns say about predictions and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from calibrant.core.batch import TOLERANCE
from calibrant.core.column_names import (
    CONFIDENCE,
    CORRECT,
    FALLBACKS,
    LABELS,
    LEVEL,
    LEVELS,
    LOGITS,
    MEAN,
    OBSERVED,
    POINTS,
    PREDICTIONS,
    QUANTILES,
    SAMPLES,
    STD,
    VARIANCE,
    Family,
    after_word,
    among,
    before_word,
    has_percent,
    is_confidence,
    is_like_prediction,
    is_log_probability,
    is_negative,
    known_pair,
    number_of,
    numbered,
    prefix,
    suffix,
    word,
)
from calibrant.io.errors import DuplicateColumns, Field, NotLabels, UnclearColumns
from calibrant.io.labels import in_any_case, in_digits, one_hot, without_gaps
from calibrant.io.options import FileOptions
from calibrant.io.rules import Choice, ColumnChoice, named, rule, rules_of
from calibrant.io.table import Column
from calibrant.io.texts import is_number, listed, quoted, span

# --- Rules of labels: each returns the columns that can be the labels


def pipeline_label(cells: ColumnChoice) -> int | None:
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
    alone = pipeline_label(cells) is not None and not any(map(cells.is_predicted_class, range(len(cells.names))))
    return cells.called(CORRECT) if cells.called(CONFIDENCE) or alone else []


@rule("Labels", "pipeline.csv", "labels: {columns} (beside a predicted class 'label')")
def _beside_pipeline(cells: ColumnChoice) -> list[int]:
    """A `label` of strings, a `score` of at least 1/K, and one other column with values of `label`, or with a name of
    labels: the other column, as `label` is the predicted class.
    """
    if (label := pipeline_label(cells)) is None:
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


# --- Rules of the order of the classes, which are used if the options state none

FILE_ORDER = "classes: {names} (in the order of the file; name the columns for another order)"


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


@rule("Order of the classes", "ordinal.csv", FILE_ORDER)
def _file_order(cells: ColumnChoice) -> list[Family]:
    """Columns of names beside labels that are numbers: class k is the k-th column, which is refused if the order of the
    names predicts better.
    """
    classes = cells.family.classes
    if cells.event is None and not cells.options.mapping:
        by_name = cells.family.taken(sorted(range(len(classes)), key=classes.__getitem__)).by_number()
        cells.by_name = None if by_name == cells.family else by_name
    return []


# --- Rules of the confidence in a predicted class, which are used if no option says that there is none

_AS_CONFIDENCE = "reduction: confidence, as {columns} is the confidence in a predicted class"


@rule("Confidence of a predicted class", "confidence_correct.csv", _AS_CONFIDENCE)
def _of_correctness(cells: ColumnChoice) -> list[int]:
    """A label `correct` or `is_correct`, and a `confidence`: the event that the predicted class is right."""
    labels, score, options = cells.labels or 0, cells.family.places[0], cells.options
    is_named, that_it_is = is_confidence(cells.names[score]), f"that {cells.quoted(labels)} is 1"
    is_correct = word(cells.names[labels]) in CORRECT
    is_sure = options.reduction is not None or options.scale == "logit"
    if is_correct and not (is_sure or is_named or pipeline_label(cells) is not None) and cells.is_probability(score):
        raise unclear_reduction(cells, that_it_is, "a predicted class")
    is_low = is_named and not is_sure and 0.0 < min(cells.shares(score), default=0.0) < 0.5
    alone = len(cells.texts(labels)) < 3 and not any(map(cells.is_predicted_class, cells.unused()))
    if is_low and alone and not is_correct:
        raise unclear_reduction(cells, that_it_is, "a predicted class", "call the labels 'correct'")
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
    pipeline, classes = pipeline_label(cells), {in_any_case(text): in_digits(text) for text in texts}
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
            raise unclear_reduction(cells, f"of {quoted(event)}", cells.quoted(places[0]), pos_label=event)
    return places


def unclear_reduction(
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


# --- Rules of predictive distributions: each returns the readings of a table

# Stems do not end with a separator and numbers are bounded, so that the time is linear in the length of a name.
LEVEL_NAME = re.compile(
    r"(?:(?P<stem>.*[ _.\-])?(?:q|quantile|quant|tau|p|pct|percentile)(?:[ _\-]|\.(?=\d*\.))?|)"
    r"(?P<number>\d{0,20}\.?\d{1,20})%?",
    re.IGNORECASE | re.ASCII,
)
END_NAME = re.compile(
    r"(?P<stem>|.*?[^ _.\-])[ _.\-]*(?:(?P<low>lower|low|lo|lwr)|(?P<high>upper|high|hi|upr))(?:[ _.\-]?bound)?"
    r"[ _.\-]*(?P<number>\d{0,2}\.?\d*)%?",
    re.IGNORECASE | re.ASCII,
)
SAMPLE_NAME = re.compile(r"(?P<stem>|.*?[^ _.\-\[(])[ _.\-\[(]*(?P<number>\d{1,6})[\])]?", re.ASCII)

#: A percentage of levels, such as q5 and q95, has a number of at least this; q1, q2 and q3 are rather quartiles.
_PERCENT = 50.0


@dataclass(frozen=True)
class DistributionReading:
    """Columns that form a predictive distribution, and the levels in their names or in the options."""

    columns: Mapping[Field, tuple[int, ...]]
    levels: tuple[float, ...] | None = None
    level: float | None = None


def are_of_forecasts(names: Sequence[str]) -> bool:
    """Whether names of columns are those of forecasts of a number, such as mean and std, or q0.05 and q0.95.

    >>> are_of_forecasts(["y", "mean", "std"]), are_of_forecasts(["y", "age", "income"])
    (True, False)
    """
    choice = Choice([Column(name, ("0",)) for name in names], FileOptions())
    readings = [reading for row in rules_of("Predictive distributions") for reading in row.find(choice)]
    return any(sum(map(len, reading.columns.values())) > 1 for reading in readings)


#: What is printed of each part of a distribution.
PART = "{field}: {columns}{levels} (inferred from {their})"


_OUTCOME, _READ = "A column with a name of labels or of outcomes", "the outcome of each row"
named("Outcomes, of regression", "outcome-name", OBSERVED, _OUTCOME, _READ, "mean_and_spread.csv")


@rule("Predictive distributions", "mean_and_spread.csv", PART)
def _mean_and_spread(choice: Choice) -> list[DistributionReading]:
    """A column with a name of means, and one with a name of standard deviations or variances: the moments."""
    means = _numbers(choice, MEAN) or _numbers(choice, POINTS)
    spreads: list[tuple[Field, int]] = [("std", at) for at in _numbers(choice, STD)]
    spreads += [("variance", at) for at in _numbers(choice, VARIANCE)]
    pairs = [(mean, field, at) for mean in means for field, at in spreads]
    alike = [pair for pair in pairs if prefix(choice.names[pair[0]]) == prefix(choice.names[pair[2]])]
    return [DistributionReading({"mean": (mean,), field: (at,)}) for mean, field, at in alike or pairs]


@rule("Predictive distributions", "quantiles.csv", PART)
def _quantile_columns(choice: Choice) -> list[DistributionReading]:
    """Columns such as `q0.05` and `q0.95`, or `median` beside them: quantiles at these levels; `q01` and `q09` are
    refused, as they can be 1 % and 9 % or 0.1 and 0.9.
    """
    readings = []
    for stem, of in stems_of(choice, LEVEL_NAME).items():
        places = [at for at in of if choice.columns[at].width == 1 and not choice.names[at].isdigit()]
        medians = _numbers(choice, frozenset(("median", f"{word(stem)}median")))
        for levels in levels_of([of[at] for at in places]):
            pairs = [*zip(places, levels, strict=True)]
            pairs += [(medians[0], 0.5)] if medians and 0.5 not in levels else []
            for level in levels:
                names = [choice.names[at] for at, other in pairs if other == level]
                if len(names) > 1:
                    same = f"{listed(names)} are quantiles at the same level"
                    raise DuplicateColumns(f"{same}; remove or rename all but one")
            readings.append(by_level(pairs))
    return readings


@rule("Predictive distributions", "quantile_lists.npz", PART)
def _quantile_lists(choice: Choice) -> list[DistributionReading]:
    """A column of lists with a name of quantiles: quantiles, at the levels of a column `levels` if there is one."""
    levels = choice.called(LEVELS)
    more: dict[Field, tuple[int, ...]] = {"levels": (levels[0],)} if len(levels) == 1 else {}
    return [DistributionReading({"quantiles": (at,), **more}) for at in _lists(choice, QUANTILES)]


@rule("Predictive distributions", "samples.csv", PART)
def _sample_columns(choice: Choice) -> list[DistributionReading]:
    """Columns such as `sample_0` and `sample_1`: samples, in the order of the numbers."""
    families = [of for stem, of in stems_of(choice, SAMPLE_NAME).items() if word(stem) in SAMPLES and len(of) > 1]
    return [DistributionReading({"samples": tuple(sorted(of, key=lambda at: int(of[at])))}) for of in families]


@rule("Predictive distributions", "sample_lists.jsonl", PART)
def _sample_lists(choice: Choice) -> list[DistributionReading]:
    """A column of lists with a name of samples: samples."""
    return [DistributionReading({"samples": (at,)}) for at in _lists(choice, SAMPLES)]


@rule("Predictive distributions", "interval.csv", PART)
def _interval(choice: Choice) -> list[DistributionReading]:
    """Columns such as `lower` and `upper`, or `lo-90` and `hi-90`: the ends of intervals; the level of `lo-10` is to be
    set, as it can be 10 % or 90 %.
    """
    ends: dict[tuple[str, str], dict[str, int]] = {}
    for at, name in enumerate(choice.names):
        end = END_NAME.fullmatch(name)
        if end is not None and choice.is_free(at):
            pair = ends.setdefault((end["stem"].casefold(), end["number"]), {})
            pair["lower" if end["low"] else "upper"] = at
    at_level, readings = _numbers(choice, LEVEL), []
    for (_, number), pair in ends.items():
        columns: dict[Field, tuple[int, ...]] = {"lower": (pair.get("lower", -1),), "upper": (pair.get("upper", -1),)}
        level = level_in(number)
        columns |= {"level": (at_level[0],)} if level is None and len(at_level) == 1 else {}
        readings += [DistributionReading(columns, level=level)] if len(pair) == 2 else []
    return readings


def _numbers(choice: Choice, known: frozenset[str]) -> list[int]:
    """Return the columns of numbers with one of these names."""
    return [at for at in choice.called(known) if choice.is_free(at)]


def _lists(choice: Choice, known: frozenset[str]) -> list[int]:
    """Return the columns of several numbers per row; arrays of one column have no first values either."""
    return [at for at in choice.called(known) if choice.columns[at].width > 1 or not choice.columns[at].sample]


def stems_of(choice: Choice, pattern: re.Pattern[str]) -> dict[str, dict[int, str]]:
    """Return the columns of numbers that a pattern matches, with their numbers, by what is before the number."""
    stems: dict[str, dict[int, str]] = {}
    for at, name in enumerate(choice.names):
        if (parts := pattern.fullmatch(name)) is not None and choice.is_free(at):
            stems.setdefault((parts["stem"] or "").casefold(), {})[at] = parts["number"]
    return stems


def fraction_of(text: str) -> float | None:
    """Return a level written as ``0.9`` or ``90``; None for anything else."""
    if not is_number(text):
        return None
    value = float(text) if float(text) < 1.0 else float(text) / 100.0
    return value if 0.0 < value < 1.0 else None


def level_in(text: str) -> float | None:
    """Return the level in the names of the bounds of an interval; None below 1/2, which may be the share outside it."""
    level = fraction_of(text)
    return level if level is not None and level >= 0.5 else None


def levels_of(texts: Sequence[str]) -> list[list[float]]:
    """Return the readings of levels written as ``0.05``, as percentages (``5``), or as decimals (``025``, ``95``).

    If all decimals begin with 0, as ``005`` and ``09``, they can also be ``0.05`` and ``0.9`` without a point.
    """
    if all(text.isdigit() and len(text) > 1 for text in texts):
        readings = [[float(f"0.{text}") for text in texts], [float(f"{text[0]}.{text[1:]}") for text in texts]]
    else:
        levels = [float(text) for text in texts]
        readings = [[level / 100.0 for level in levels] if max(levels) >= _PERCENT else levels]
    return [levels for levels in readings if levels and all(0.0 < level < 1.0 for level in levels)]


def by_level(pairs: Sequence[tuple[int, float]]) -> DistributionReading:
    """Return quantiles, which are pairs of a column and its level, in the order of their levels."""
    places, levels = zip(*sorted(pairs, key=lambda pair: pair[1]), strict=True)
    return DistributionReading({"quantiles": places}, levels)
