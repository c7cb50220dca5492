"""Labels as people write them to classes 0 to K - 1, without inferring an order of classes that is not evident."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.io.errors import BadMapping, LabelsNeedMapping, MissingValue, NotLabels, TabularError, UnmappedLabel
from calibrant.io.table import Coded, Ints
from calibrant.io.texts import is_missing, is_number, listed, quoted, row_of

_INTEGER = re.compile(r"([+-]?\d{1,18})(\.0*)?", re.ASCII)


@dataclass(frozen=True)
class Classes:
    """Labels as classes; ``names`` of the classes if they are known, and notes."""

    labels: Ints
    names: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


def integer(text: str) -> int | None:
    """The integer that a text is, written 1 or 1.0; None for every other."""
    found = _INTEGER.fullmatch(text)
    return None if found is None else int(found[1])


def read_labels(
    coded: Coded, name: str, aliases: Sequence[Sequence[str]], n_classes: int, mapping: Mapping[str, int] | None
) -> Classes:
    """Turn the texts of column ``name`` into classes below ``n_classes``.

    ``aliases`` are the names of each class that its column of predictions gives it. Raises ``MissingValue``, and
    ``LabelsNeedMapping``, ``NotLabels``, ``UnmappedLabel`` or ``BadMapping``.
    """
    by_name = _by_name(aliases, n_classes)
    known = {*(mapping or ()), *by_name}
    for code, text in enumerate(coded.texts):
        if is_missing(text) and text not in known:
            what = "is empty" if not text else f"says {quoted(text)}, which is no label"
            where = f"{row_of(coded.first(code))} of column {quoted(name)}"
            raise MissingValue(f"{where} {what}: fill it in or leave the row out", field="labels")
    if mapping is not None:
        return _mapped(coded, name, _checked(mapping, n_classes), n_classes)
    whole = [integer(text) for text in coded.texts]
    plain = [text if k is None else str(k) for text, k in zip(coded.texts, whole, strict=True)]
    if by_name and all(text in by_name for text in plain):
        return _of_columns(coded, plain, by_name, aliases)
    numbers = [k for k in whole if k is not None]
    if len(numbers) == len(whole) and all(0 <= k < n_classes for k in numbers):
        as_floats = any(text != str(k) for text, k in zip(coded.texts, numbers, strict=True))
        notes = ("labels: written as 0.0 and 1.0, taken as integers",) if as_floats else ()
        return Classes(_classes(numbers, coded), None, notes)
    raise _refusal(coded, plain, name, aliases, n_classes)


def _by_name(aliases: Sequence[Sequence[str]], n_classes: int) -> dict[str, int]:
    """The class of each name; empty if the predictions are one column, or two classes share a name."""
    if len(aliases) != n_classes:
        return {}
    pairs = [(name, k) for k, names in enumerate(aliases) for name in names]
    return dict(pairs) if len({name for name, _ in pairs}) == len(pairs) else {}


def _classes(of_code: Sequence[int], coded: Coded) -> Ints:
    return np.array(of_code, dtype=np.int64)[coded.codes]


def _of_columns(
    coded: Coded, plain: Sequence[str], by_name: Mapping[str, int], aliases: Sequence[Sequence[str]]
) -> Classes:
    """Labels that are called as the columns of predictions are."""
    labels = _classes([by_name[text] for text in plain], coded)
    # The end of prob_cat or the whole, whichever the labels say.
    way = max(aliases[by_name[text]].index(text) for text in plain)
    names = tuple(of[min(way, len(of) - 1)] for of in aliases)
    if names == tuple(str(k) for k in range(len(names))):
        return Classes(labels, None)
    return Classes(labels, names, (f"classes: by the names of the columns, {listed(names)} in this order",))


def _checked(mapping: Mapping[str, int], n_classes: int) -> dict[str, int]:
    """A mapping whose values are classes; its keys also as integers are written."""
    for text, k in mapping.items():
        if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k < n_classes:
            raise BadMapping(
                f"the mapping gives {quoted(text)} no class: it must be an integer from 0 to {n_classes - 1}",
                field="mapping",
            )
    found = {text.strip(): k for text, k in mapping.items()}
    return {str(whole): k for text, k in found.items() if (whole := integer(text)) is not None} | found


def _mapped(coded: Coded, name: str, mapping: Mapping[str, int], n_classes: int) -> Classes:
    of_code = []
    for code, text in enumerate(coded.texts):
        whole = integer(text)
        k = mapping.get(text, mapping.get(str(whole)) if whole is not None else None)
        if k is None:
            raise UnmappedLabel(
                f"the mapping has no class for {quoted(text)}, first in {row_of(coded.first(code))} of column "
                f"{quoted(name)}",
                field="mapping",
            )
        of_code.append(k)
    different = {text if (whole := integer(text)) is None else whole for text in coded.texts}
    if len({*of_code}) < 2 <= len(different):
        raise BadMapping("the mapping gives all labels the same class: two classes are needed", field="mapping")
    of_class = {k: text for text, k in mapping.items()}
    names = tuple(of_class.get(k, "") for k in range(n_classes))
    note = "labels: mapped as stated, " + ", ".join(
        f"{quoted(text)} to {k}" for k, text in sorted(of_class.items())[:8]
    )
    return Classes(_classes(of_code, coded), names if all(names) else None, (note,))


def _refusal(
    coded: Coded, plain: Sequence[str], name: str, aliases: Sequence[Sequence[str]], n_classes: int
) -> TabularError:
    """Why texts are no classes, and the mapping that would make them so."""
    where, texts = f"column {quoted(name)}", sorted(plain, key=_natural)
    numbers = [text for text in texts if is_number(text)]
    if any(integer(text) is None for text in numbers):
        return NotLabels(f"{where} holds fractions, which are no labels: is it another column?", field="labels")
    if numbers and len(numbers) < len(texts):
        stray = next(text for text in coded.texts if not is_number(text))
        row = row_of(coded.first(coded.texts.index(stray)))
        return NotLabels(f"{where} mixes numbers and texts: {row} is {quoted(stray)}", field="labels")
    hint = "is it another column, or are columns of predictions missing?"
    if numbers and not _is_near(numbers, n_classes):
        strange = next(code for code, text in enumerate(plain) if not 0 <= int(text) < n_classes)
        what = f"{row_of(coded.first(strange))} of {where} is no class from 0 to {n_classes - 1}"
        return NotLabels(f"{what}, which the predictions have: {hint}", field="labels")
    if len(texts) > n_classes:
        what = f"{where} has {len(texts):,} different labels where the predictions have {n_classes} classes"
        return NotLabels(f"{what}: {hint}", field="labels")
    offer = _offer(texts, numbers, aliases, n_classes)
    hint = "; or name the columns of predictions after them" if len(aliases) > 1 and not numbers else ""
    return LabelsNeedMapping(
        f"the labels are {listed(texts)}: say which class each of them is"
        + (f", such as {_pairs(offer)}" if offer else "")
        + hint,
        field="mapping",
        offer=offer,
    )


def _is_near(numbers: Sequence[str], n_classes: int) -> bool:
    """Whether integers are classes that are counted from 1, or one or two of any size for two classes."""
    return (n_classes == 2 and len(numbers) <= 2) or all(1 <= int(text) <= n_classes for text in numbers)


def _offer(
    texts: Sequence[str], numbers: Sequence[str], aliases: Sequence[Sequence[str]], n_classes: int
) -> dict[str, int] | None:
    if numbers and n_classes > 2:
        return {str(k + 1): k for k in range(n_classes)}
    if len(texts) != n_classes:
        return None
    # The class whose probability the one column of predictions names is class 1.
    order = sorted(texts, key=lambda text: (len(aliases) == 1 and text in aliases[0], *_natural(text)))
    return {text: k for k, text in enumerate(order)}


def _natural(text: str) -> tuple[int, str]:
    """Integers by their value, before all other texts by the alphabet."""
    return (int(text), "") if integer(text) is not None else (1 << 62, text.casefold())


def _pairs(mapping: Mapping[str, int]) -> str:
    pairs = [f"{quoted(text)} = {k}" for text, k in mapping.items()]
    return ", ".join(pairs[:8]) + (f" and {len(pairs) - 8} more" if len(pairs) > 8 else "")
