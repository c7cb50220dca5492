"""Conversion of labels, such as strings, to classes 0 to K - 1; an order of classes is never guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from calibrant.core.column_names import (
    BOOLEANS,
    booleans,
    integer,
    is_negation,
    is_negative,
    known_pair,
    number_of,
    opposite_in,
)
from calibrant.core.inputs import are_two_labels
from calibrant.io.errors import BadMapping, LabelsNeedMapping, MissingValue, NotLabels, TabularError, UnmappedLabel
from calibrant.io.options import FileOptions
from calibrant.io.table import Coded, Ints
from calibrant.io.texts import DASHES, is_missing, is_number, listed, quoted, refusal, row_of


@dataclass(frozen=True)
class ClassLabels:
    """Labels as integer classes, the names of the classes if they are known, and notes."""

    labels: Ints
    names: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


def read_labels(
    coded: Coded,
    name: str,
    aliases: Sequence[Sequence[str]],
    n_classes: int,
    mapping: Mapping[str, int] | None,
    *,
    class_names: Sequence[str] | None = None,
    pos_label: str | None = None,
) -> ClassLabels:
    """Convert the values of the column ``name`` to classes 0 to ``n_classes`` - 1.

    Parameters
    ----------
    coded : Coded
        The column.
    name : str
        Its name, for messages.
    aliases : sequence of sequence of str
        For each class, the names from its column of predictions.
    n_classes : int
        Number of classes of the predictions.
    mapping : mapping of str to int or None
        Class of each value, if given.
    class_names : sequence of str, optional
        Names of the classes in order, if given.
    pos_label : str, optional
        Value of the positive class, for two classes.

    Returns
    -------
    ClassLabels
        The labels, names of the classes and notes.

    Raises
    ------
    MissingValue, LabelsNeedMapping, NotLabels, UnmappedLabel, BadMapping
        If a value is missing or cannot be converted.
    """
    by_name = _by_name(aliases, n_classes)
    notes = _check_missing(coded, name, {*(mapping or ()), *by_name, *(class_names or ())}, pos_label)
    if mapping is not None:
        return _mapped(coded, name, _checked(mapping, n_classes), n_classes)
    event = aliases[0][-1] if len(aliases) == 1 < len(aliases[0]) else None  # that of p_yes
    opposite = opposite_in(aliases[0][0], name) if len(aliases) == 1 and n_classes == 2 else None
    if pos_label is not None:
        _check_event(coded, event, pos_label.strip())
        read = _of_positive(coded, name, pos_label, n_classes)
        return replace(read, notes=(*notes, *read.notes))
    if class_names is not None:
        return _of_names(coded, name, class_names, n_classes)
    plain = [*map(_plain, coded.texts)]
    if by_name and all(text in by_name for text in plain):
        return _of_columns(coded, plain, by_name, aliases)
    folded = {text.casefold(): text for text in by_name}
    if len(folded) == len(by_name) > 0 and all(text.casefold() in folded for text in plain):
        return _of_columns(coded, [folded[text.casefold()] for text in plain], by_name, aliases)
    lower = [text.casefold() for text in plain]
    if opposite is not None or (event is not None and n_classes == 2):
        classes = _of_negative(coded, lower, event or "", opposite)
        if classes is not None:
            return classes
    numbers = [k for text in plain if (k := integer(text)) is not None and 0 <= k < n_classes]
    if len(numbers) == len(plain):
        notes = ("labels: written as 0.0 and 1.0, read as integers",) if plain != [*coded.texts] else ()
        return ClassLabels(_classes(numbers, coded), None, notes)
    called = {alias.casefold() for alias in aliases[0]} if len(aliases) == 1 else set()
    events = [text for text in plain if text.casefold() in called]
    if len(events) == 1 and len(plain) == 2:
        classes = _of_positive(coded, name, coded.texts[plain.index(events[0])], n_classes)
        return replace(
            classes, notes=(f"labels: {quoted(events[0])} is class 1, as the predictions are named after it",)
        )
    if n_classes == 2 and (words := booleans(coded.texts)) is not None:
        return ClassLabels(_classes(words, coded), None)
    raise _refusal(coded, plain, name, aliases, n_classes)


#: Words for missing labels, and numbers that stand for them beside 0 and 1, in addition to what is always missing.
_UNKNOWN = frozenset({"\\n", "missing", "nat", "unk", "unknown"})
_CODES = frozenset((-1, -9, -99, -999, 9, 99, 999))


def without_gaps(texts: AbstractSet[str]) -> AbstractSet[str]:
    """Return the distinct values of a column that could be labels, without one that may stand for missing labels.

    >>> [sorted(without_gaps({"0", *texts})) for texts in (("1", "unknown"), ("1", "-9"), ("9",))]
    [['0', '1'], ['0', '1'], ['0', '9']]
    """
    known = {text for text in texts if text.casefold() not in _UNKNOWN}
    numbers = {text for text in known if integer(text) is not None}
    if len(numbers) == len(known) - 1 > 1 and not any(map(is_number, known - numbers)):  # such as 0, 1 and #VALUE!
        return numbers
    plain = {text for text in numbers if integer(text) in (0, 1)}
    codes = {integer(text) for text in known - plain}
    return plain if len(plain) == 2 and len(codes) == 1 and codes <= _CODES else known


def _check_missing(coded: Coded, name: str, known: AbstractSet[str], pos_label: str | None) -> tuple[str, ...]:
    """Raise an error for a missing label, unless the text names a class; return a note if it names the negative one."""
    notes: tuple[str, ...] = ()
    none = [text for text in coded.texts if text.casefold() == "none"]
    if pos_label is not None and none and len(coded.texts) == 2:  # otherwise, all labels were positive
        known, notes = {*known, *none}, (f"labels: {quoted(none[0])} is read as the negative label",)
    dashes = frozenset[str]() if pos_label is not None or "+" in coded.texts else DASHES
    for code, text in enumerate(coded.texts):
        if (is_missing(text) or text in dashes) and text not in known:
            raise refusal(text, name, "labels", coded.first(code))
    return notes


def check_other_label(name: str, texts: AbstractSet[str], options: FileOptions, error: MissingValue) -> None:
    """Raise ``MissingValue`` instead of ``error`` if empty labels beside a single one may mean the other label."""
    labels = {text.strip() for text in texts if not is_missing(text)}
    is_stated = options.pos_label is not None or options.mapping or options.class_names is not None
    if is_stated or len(labels) != 1 or not any(map(is_missing, texts)) or is_negative(label := labels.pop()):
        return
    missing = error.detail.partition(";")[0] if error.field == "labels" else f"cells of column {quoted(name)} are empty"
    unclear = MissingValue(
        f"{missing}, and all other labels are {quoted(label)}; if the other label is meant, write it there; if the "
        "label is unknown, leave the row out, and name the positive label",
        field="labels",
    )
    unclear.only_label = label
    raise unclear


def are_of_two_classes(names: Sequence[str]) -> bool:
    """Return whether labels are the numbers of two classes, or the words of a boolean."""
    return {integer(name) for name in names} == {0, 1} or booleans(names) is not None


def _check_event(coded: Coded, event: str | None, pos_label: str) -> None:
    """Raise an error if the column of predictions is named after the other label than the positive one."""
    named = [text for text in coded.texts if event is not None and text.casefold() == event.casefold()]
    if named and named[0].casefold() != pos_label.casefold():
        raise BadMapping(
            f"by its name, the column of predictions is that of {quoted(named[0])}, but the positive label is "
            f"{quoted(pos_label)}"
        )


def _of_negative(coded: Coded, lower: Sequence[str], event: str, opposite: str | None) -> ClassLabels | None:
    """Convert labels 0 and 1 if the column of predictions is named after class 0; None for other names and labels.

    ``opposite`` is a word in its name of which the name of the labels has the opposite.
    """
    for negative, positive in (("0", "1"), *BOOLEANS):
        if (opposite is not None or is_negation(event)) and {*lower} == {negative, positive}:
            what = quoted(opposite or event)
            raise LabelsNeedMapping(
                f"by its name, the column of predictions is that of {what}; name the label of this class",
                offer={positive: 0, negative: 1},
            )
        if is_negative(event) and {*lower} <= {negative, positive}:
            note = f"labels: {quoted(negative)} is class 1, as the predictions are those of {quoted(event)}"
            return ClassLabels(
                _classes([int(text == negative) for text in lower], coded), (positive, negative), (note,)
            )
    return None


def _of_positive(coded: Coded, name: str, pos_label: str, n_classes: int) -> ClassLabels:
    """Convert labels of two values, of which one is the positive class."""
    if n_classes != 2:
        raise BadMapping(
            f"a positive label is for two classes, but the predictions have {n_classes}; name the classes instead"
        )
    positive_text, whole = pos_label.strip(), integer(pos_label.strip())
    if booleans(coded.texts) is not None:  # in any case
        by_lower = {text.casefold(): text for text in coded.texts}
        positive_text = by_lower.get(positive_text.casefold(), positive_text)
    is_positive = [text == positive_text or (whole is not None and integer(text) == whole) for text in coded.texts]
    others = [text for text, positive in zip(coded.texts, is_positive, strict=True) if not positive]
    may_be_absent = len(others) == 1 and are_two_labels(*map(_number_or_text, (others[0], positive_text)))
    if len(others) > 1 or not (any(is_positive) or may_be_absent):
        what = "has more than two" if any(is_positive) else "does not have it"
        raise UnmappedLabel(
            f"the positive label must be one of two labels, but column {quoted(name)} {what}; "
            f"the labels are {listed(sorted(coded.texts, key=in_order))}"
        )
    names = (others[0] if others else f"not {positive_text}", positive_text)
    plain = names in (("0", "1"), ("False", "True"), ("0.0", "1.0"))
    notes = () if any(is_positive) else (f"labels: all are {quoted(others[0])}, none is {quoted(positive_text)}",)
    return ClassLabels(_classes([int(positive) for positive in is_positive], coded), None if plain else names, notes)


def _of_names(coded: Coded, name: str, class_names: Sequence[str], n_classes: int) -> ClassLabels:
    """Convert labels that are the given names of the classes, or their numbers."""
    names = tuple(text.strip() for text in class_names)
    if len(names) != n_classes:
        count = "1 class name" if len(names) == 1 else f"{len(names)} class names"
        raise BadMapping(
            f"the predictions have {n_classes} classes, but there are {count} (of the option or of the map)"
        )
    if len(set(names)) != n_classes or not all(names):
        raise BadMapping(
            f"the class names must be {n_classes} different names in the order of the columns of predictions"
        )
    plain = [*map(_plain, coded.texts)]
    if not all(text in names for text in plain) and all(text in map(str, range(n_classes)) for text in plain):
        return ClassLabels(_classes([int(text) for text in plain], coded), names)
    of_words = booleans(coded.texts) if n_classes == 2 else None
    if of_words is not None and not all(text in names for text in coded.texts):
        # The names may be the words themselves in other case, in any order; otherwise false comes first.
        lower = [name.casefold() for name in names]
        cased = [text.casefold() for text in coded.texts]
        return ClassLabels(_classes([*map(lower.index, cased)] if {*cased} <= {*lower} else of_words, coded), names)
    class_of = {name: k for k, name in enumerate(names)}
    of_code = _looked_up(coded, name, class_of, f"is not one of the class names: {listed(names)}")
    return ClassLabels(_classes(of_code, coded), names)


def _looked_up(coded: Coded, name: str, class_of: Mapping[str, int], but: str) -> list[int]:
    """Return the class of each text, also of another form of a number; raises ``UnmappedLabel``, with ``but``."""
    of_code = [class_of.get(text, class_of.get(_plain(text), -1)) for text in coded.texts]
    if -1 in of_code:
        code = of_code.index(-1)
        where = f"first in {row_of(coded.first(code))} of column {quoted(name)}"
        raise UnmappedLabel(f"the label {quoted(coded.texts[code])}, {where}, {but}")
    return of_code


def _plain(text: str) -> str:
    """Return a label as it is, or its number without a decimal point."""
    return text if (whole := integer(text)) is None else str(whole)


#: The values of a column that says whether a row has a class.
_FLAGS = {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1}


def one_hot(samples: Sequence[Sequence[str]], at: int, width: int) -> range | None:
    """Return ``width`` neighbouring columns with column ``at`` whose rows have a single 1, or None; at least three."""
    samples = [sample if len(sample) == len(samples[at]) else () for sample in samples]  # arrays of other lengths
    first, last = at, at + 1
    while first > 0 and _are_flags(samples[first - 1]):
        first -= 1
    while last < len(samples) and _are_flags(samples[last]):
        last += 1
    if width < 3 or last - first < width or not _are_flags(samples[at]):
        return None
    ones = np.array([[_FLAGS[text.strip().casefold()] for text in sample] for sample in samples[first:last]])
    for start in range(max(first, at - width + 1), min(at, last - width) + 1):
        if (ones[start - first : start - first + width].sum(axis=0) == 1).all():
            return range(start, start + width)
    return None


def _are_flags(sample: Sequence[str]) -> bool:
    return bool(sample) and all(text.strip().casefold() in _FLAGS for text in sample)


def whether_equal(labels: Coded, predicted: Coded) -> Ints:
    """Return 1 for each row in which both columns name the same class, else 0."""
    cased = len({*map(str.casefold, labels.texts)}) < len(labels.texts)
    name = in_digits if cased else in_any_case
    codes = {name(text): code for code, text in enumerate(labels.texts)}
    same = np.array([codes.get(name(text), -1) for text in predicted.texts], dtype=np.int64)
    merged = np.array([codes[name(text)] for text in labels.texts], dtype=np.int64)
    equal: Ints = (same[predicted.codes] == merged[labels.codes]).astype(np.int64)
    return equal


def in_digits(text: str) -> str:
    """Return the number of a class as ``1`` if it is written as ``1.0`` or ``LABEL_1``; other labels as they are."""
    return number_of(_plain(text.strip()))


def in_any_case(text: str) -> str:
    """Return the name of a class in lower case, and in digits."""
    return in_digits(text).casefold()


def _number_or_text(text: str) -> int | str:
    return text if (whole := integer(text)) is None else whole


def _by_name(aliases: Sequence[Sequence[str]], n_classes: int) -> dict[str, int]:
    """Return the class of each name; empty for one column of predictions or if two classes share a name."""
    if len(aliases) != n_classes:
        return {}
    pairs = [(name, k) for k, names in enumerate(aliases) for name in names]
    return dict(pairs) if len({name for name, _ in pairs}) == len(pairs) else {}


def _classes(of_code: Sequence[int], coded: Coded) -> Ints:
    return np.array(of_code, dtype=np.int64)[coded.codes]


def _of_columns(
    coded: Coded, plain: Sequence[str], by_name: Mapping[str, int], aliases: Sequence[Sequence[str]]
) -> ClassLabels:
    """Convert labels that are the names of the columns of predictions."""
    labels = _classes([by_name[text] for text in plain], coded)
    # Name the classes as the labels do: by the suffix of prob_cat or by the whole name.
    way = max(aliases[by_name[text]].index(text) for text in plain)
    names = tuple(of[min(way, len(of) - 1)] for of in aliases)
    if names == tuple(str(k) for k in range(len(names))):
        return ClassLabels(labels, None)
    return ClassLabels(labels, names, (f"classes: {listed(names)}, in this order (inferred from the column names)",))


def _checked(mapping: Mapping[str, int], n_classes: int) -> dict[str, int]:
    """Check that the values of a mapping are classes; adds integer keys in their plain form."""
    for text, k in mapping.items():
        if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k < n_classes:
            raise BadMapping(f"the mapping of {quoted(text)} must be a class, an integer from 0 to {n_classes - 1}")
    checked = {text.strip(): k for text, k in mapping.items()}
    return {_plain(text): k for text, k in checked.items()} | checked


def _mapped(coded: Coded, name: str, mapping: Mapping[str, int], n_classes: int) -> ClassLabels:
    of_code = _looked_up(coded, name, mapping, "has no class in the mapping")
    different = {*map(_number_or_text, coded.texts)}
    if len({*of_code}) < 2 <= len(different):
        raise BadMapping("the mapping gives all labels the same class; it must use at least two")
    of_class = {k: text for text, k in mapping.items()}
    names = tuple(of_class.get(k, "") for k in range(n_classes))
    note = "labels: mapped as requested, " + ", ".join(
        f"{quoted(text)} to {k}" for k, text in sorted(of_class.items())[:8]
    )
    return ClassLabels(_classes(of_code, coded), names if all(names) else None, (note,))


def _refusal(
    coded: Coded, plain: Sequence[str], name: str, aliases: Sequence[Sequence[str]], n_classes: int
) -> TabularError:
    """Return the error for values that cannot be converted, with a suggested mapping if there is one."""
    where, texts = f"column {quoted(name)}", sorted(plain, key=in_order)
    numbers = [text for text in texts if is_number(text)]
    if any(integer(text) is None for text in numbers):
        return NotLabels(f"{where} has fractions, which cannot be labels; is this the right column?")
    if numbers and len(numbers) < len(texts):
        stray = next(text for text in coded.texts if not is_number(text))
        row = row_of(coded.first(coded.texts.index(stray)))
        gap = "; remove rows without a label" if stray.casefold() in _UNKNOWN else ""
        return NotLabels(f"{where} mixes numbers and strings: {row} is {quoted(stray)}{gap}")
    hint = "is this the right column, or are columns of predictions missing?"
    if numbers and not _is_near(numbers, n_classes):
        strange = next(code for code, text in enumerate(plain) if not 0 <= int(text) < n_classes)
        what = f"{row_of(coded.first(strange))} of {where} is not one of the classes 0 to {n_classes - 1}"
        return NotLabels(f"{what} of the predictions; {hint}")
    if len(texts) > n_classes:
        what = f"{where} has {len(texts):,} distinct labels, but the predictions have {n_classes} classes"
        alike = _differing_in_case(texts)
        return NotLabels(f"{what}; {f'{listed(alike)} differ only in case, write them alike' if alike else hint}")
    offer = _offer(texts, numbers, n_classes)
    hint = "; or name the columns of predictions after the labels" if len(aliases) > 1 and not numbers else ""
    return LabelsNeedMapping(
        f"the labels are {listed(texts)}; map each of them to a class"
        + (f", such as {_shown(offer)}" if offer and None not in offer.values() else "")
        + hint,
        offer=offer,
    )


def _differing_in_case(texts: Sequence[str]) -> list[str]:
    """Return the first labels that differ from each other only in upper and lower case; empty if there are none."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(text.casefold(), []).append(text)
    return next((sorted(group) for group in alike.values() if len(group) > 1), [])


def _is_near(numbers: Sequence[str], n_classes: int) -> bool:
    """Whether integers are classes counted from 1, or at most two integers for two classes."""
    return (n_classes == 2 and len(numbers) <= 2) or all(1 <= int(text) <= n_classes for text in numbers)


def _offer(texts: Sequence[str], numbers: Sequence[str], n_classes: int) -> dict[str, int | None] | None:
    """Return the class of each label, None if it is not known; of two labels, only the positive one of a known pair."""
    if numbers and n_classes > 2:
        return {str(k + 1): k for k in range(n_classes)}
    if len(texts) == 1 and n_classes == 2:
        return {texts[0]: None}
    if len(texts) != n_classes:
        return None
    pair = known_pair(texts)
    return dict.fromkeys(texts) if pair is None else {text: k for k, text in enumerate(pair)}


def in_order(text: str) -> tuple[int, str]:
    """Sort key: integers by value, then other strings alphabetically."""
    whole = integer(text)
    return (1 << 62, text.casefold()) if whole is None else (whole, "")


def _shown(mapping: Mapping[str, int | None]) -> str:
    pairs = [f"{quoted(text)} = {k}" for text, k in mapping.items()]
    return ", ".join(pairs[:8]) + (f" and {len(pairs) - 8} more" if len(pairs) > 8 else "")
