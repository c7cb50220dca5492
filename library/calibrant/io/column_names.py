"""Names of columns: which are those of labels, predictions and weights, and which class a column is named after."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from calibrant.arrays import with_integer
from calibrant.inputs import is_reversed
from calibrant.io.texts import are_digits

# --- Column names


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


LABELS = _set_of(
    "y label labels target targets class truth ytrue groundtruth gt actual actuals outcome truelabel truelabels "
    "trueclass classlabel actualclass actuallabel gold goldlabel ytest yval obs observed"
)
PREDICTIONS = _set_of(
    "p prob probs proba probas probability probabilities score scores yprob yprobs yproba yscore prediction "
    "predictions pred preds ypred yhat phat predprob predproba predictedprobability softmax calibrated "
    "probabilityclass scoredprobabilities scoredprobabilitiesforclass"
)
LOGITS = _set_of("logit logits logodds ylogit ylogits rawformulaval rawformulavalclass")
WEIGHTS = _set_of("w weight weights sampleweight sampleweights")
#: The name of weights that may be a feature too, such as the weight of a person; see ``is_measured``.
WEIGHT = "weight"
#: Names of columns that may count the rows that are alike.
COUNTS = _set_of("n count counts freq freqs frequency cases num nobs")
GROUPS = _set_of("group groups subgroup")
#: Names of probabilities that count only if no other column has such a name.
FALLBACKS = _set_of(
    "fit fitted response pd confidence conf risk propensity likelihood output outputs pre1 wahrscheinlichkeit"
)
#: Names of the confidence in a predicted class, and of whether that class is correct.
CONFIDENCE, CORRECT = _set_of("confidence conf"), _set_of("correct iscorrect")
_IDS = _set_of("id ids index idx rowid rowindex rownumber rowname rownames row key uuid guid resample fold")
#: Words before the number of a class, in addition to names of predictions.
_OF_CLASS = frozenset(("class",))
#: The last word before the name of a class: ``y_pred_proba`` in ``y_pred_proba_bird``.
_BEFORE_CLASS = _set_of(
    "p prob probs proba probas probability probabilities score scores pred softmax calibrated confidence logit logits"
)

# Stems do not end with a separator, so that the time is linear in the length of a name.
# A minus sign after another separator, or at the beginning, is that of a negative number.
NUMBERED = re.compile(r"(|.*?[^ _.\-\[(=])[ _.\-\[(=]*(?<!^-)(?<![ _.\-\[(=]-)(0|[1-9][0-9]{0,5})[\])]?")
#: More characters than a known name has; the most words that the name of a class can have.
_LONGEST, _CLASS_WORDS = 48, 16
_BETWEEN = re.compile(r"[ _.\-\[(=]+")
_LAST = re.compile(r"(.*[^ _.\-])[ _.\-]+([^ _.\-]+)")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PROB = re.compile("prob(?!lem|e|at)")
#: Names of features that look like names of predictions.
_FEATURES = _set_of("ph pvalue pvalues pval")
#: A number at the end of a name; a minus sign counts if there is nothing before it.
_DIGITS = re.compile("^-[0-9]+$|[0-9]+$")


def word(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(c for c in name.casefold() if c.isalnum())


def words_of(name: str) -> list[str]:
    """Return the words and numbers of a name, in lower case."""
    return [found.lower() for found in _WORD.findall(name)]


def is_like_prediction(name: str) -> bool:
    """Whether a name contains ``prob`` or ``calibrated``, or begins or ends like ``score``, ``p_`` or ``pred``."""
    words = words_of(name)
    if not words or word(name) in _FEATURES:
        return False
    first = words[1] if words[0] == "y" and len(words) > 1 else words[0]
    starts = first in ("p", "score", "scores", "pred", "preds", "prediction", "predictions", "predicted", "yhat", "hat")
    ends = words[-1] in ("score", "pred", "preds", "prediction", "predictions") and "raw" not in words
    return starts or ends or "calibrated" in words or _PROB.search(word(name)) is not None


def is_log_probability(name: str) -> bool:
    """Whether a name is that of the logarithm of a probability, such as ``avg_logprob``."""
    found = word(name)
    return "logprob" in found or found.endswith("logp")


def is_percentage(name: str) -> bool:
    """Whether a name is that of a prediction, or of a percentage."""
    found = word(name) in PREDICTIONS | FALLBACKS or is_like_prediction(name)
    return found or not {"percent", "percentage", "pct"}.isdisjoint(words_of(name))


def is_predicted_class(name: str) -> bool:
    """Whether a name is that of a predicted class, such as ``y_pred`` or ``predicted_label``."""
    found = word(name)
    return found.startswith(("pred", "ypred", "yhat", "scoredlabel")) and _PROB.search(found) is None


#: How Hugging Face names classes without names.
_UNNAMED = re.compile("label_([0-9]{1,6})", re.IGNORECASE)


def number_of(label: str) -> str:
    """Return the number of a class that Hugging Face calls ``LABEL_1``; other labels as they are."""
    found = _UNNAMED.fullmatch(label)
    return label if found is None else found[1]


def is_measured(weights: AbstractSet[float]) -> bool:
    """Whether weights are like a measured quantity, such as kilograms: none below 2, and of one order of magnitude."""
    return len(weights) > 1 and min(weights) >= 2 and max(weights) < 20 * min(weights)


def is_counts(weights: AbstractSet[float]) -> bool:
    """Whether weights are like numbers of rows: whole numbers from 0, and not all 0 or 1."""
    return all(weight >= 0 and weight % 1 == 0 for weight in weights) and max(weights, default=0) > 1


def is_id(name: str) -> bool:
    """Whether a name is that of an identifier or of the number of a row."""
    words = words_of(name)
    return word(name) in _IDS or words[-1:] in (["id"], ["uuid"]) or words[:1] == ["unnamed"]


@dataclass(frozen=True)
class Family:
    """Columns of predictions that belong together: their indices, and the names of their classes."""

    places: tuple[int, ...]
    classes: tuple[str, ...]


def _split(name: str, known: frozenset[str]) -> tuple[str, str] | None:
    """Split a name such as ``prob_cat`` or ``y_pred_proba[cat]`` into its stem and its class, or return None."""
    for mark in reversed([*_BETWEEN.finditer(name)][-_CLASS_WORDS:]):
        stem, rest = name[: mark.start()], name[mark.end() :].rstrip("])").strip(" \"'")
        if len(mark[0]) > 1 and mark[0].endswith("-") and are_digits(rest):
            rest = f"-{rest}"
        if rest and (
            (len(stem) < _LONGEST and word(stem) in known)
            or (known is not LOGITS and (words := words_of(stem[-_LONGEST:])) and words[-1] in _BEFORE_CLASS)
        ):
            return stem, rest
    return None


def suffix(name: str, known: frozenset[str] = PREDICTIONS | LOGITS) -> str | None:
    """Return the class at the end of a column name: ``cat`` for ``prob_cat``, ``1`` for ``p1``, or None."""
    name = with_integer(name)
    found = NUMBERED.fullmatch(name)
    if found is not None and word(found[1]) in known:
        return found[2]
    split = _split(name, known)
    return None if split is None else split[1]


def numbered(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``prob_0`` to ``prob_9``, or ``0`` to ``9``, in the order of their numbers.

    A single column counts if it has a word before its number. Gaps between numbers after a word are not checked.
    """
    stems: dict[str, dict[int, int]] = {}
    for at, name in enumerate(names):
        found = NUMBERED.fullmatch(name)
        if found is not None and (not found[1] or _is_stem(found[1], known | _OF_CLASS) or _begins_as(found[1], known)):
            stems.setdefault(found[1].casefold(), {})[int(found[2])] = at
    return [
        Family(tuple(at for _, at in sorted(of.items())), tuple(str(k) for k in sorted(of)))
        for stem, of in stems.items()
        if (len(of) > 1 or word(stem) in known)
        and (set(of) == set(range(len(of))) or (stem and _is_stem(stem, known | _OF_CLASS)))
    ]


def _is_stem(stem: str, known: frozenset[str]) -> bool:
    words = words_of(stem)
    return word(stem) in known or (len(words) > 1 and words[-1] in _BEFORE_CLASS & known)


def _begins_as(stem: str, known: frozenset[str]) -> bool:
    """Whether a stem is a name of predictions and that of a model, such as ``p_forest`` in ``p_forest_0``."""
    words = words_of(stem)
    return len(words) == 2 and words[0] in _BEFORE_CLASS & known


def named(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``prob_cat`` and ``prob_dog``, in file order or in that of the numbers at their ends."""
    stems: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(names):
        found = _split(name, known)
        if found is not None:
            stems.setdefault(word(found[0]), []).append((at, found[1]))
    families = [
        Family(tuple(at for at, _ in of), tuple(name for _, name in of))
        for of in map(_without_numbers, stems.values())
        if len(of) > 1
    ]
    return [by_number(family) for family in families]


def _without_numbers(of: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the columns whose classes are no numbers, or all of them if these classes are negative numbers."""
    rest = [(at, name) for at, name in of if not are_digits(name)]
    return of if rest and all(name[0] == "-" and are_digits(name[1:]) for _, name in rest) else rest


def by_number(family: Family) -> Family:
    """Return columns whose classes differ only in a number at the end, such as ``class2``, in the order of numbers."""
    ends = [_DIGITS.search(name[-_LONGEST:]) for name in family.classes]
    numbers = [int(end[0]) for end in ends if end is not None]
    stems = {name[: len(name) - len(end[0])] for name, end in zip(family.classes, ends, strict=True) if end is not None}
    if len(set(numbers)) < len(family.classes) or len(stems) > 1:
        return family
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    return Family(tuple(family.places[i] for i in order), tuple(family.classes[i] for i in order))


def without_common_start(family: Family, texts: AbstractSet[str]) -> Family:
    """Return columns such as ``P_petcat`` and ``P_petdog`` with classes ``cat`` and ``dog``, if texts name them."""
    first, last = min(family.classes), max(family.classes)
    common = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    rest = tuple(name[common:] for name in family.classes)
    return Family(family.places, rest) if among(texts, rest) else family


def before(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``cat_prob`` and ``dog_prob``, also after a common beginning: ``pet_cat_prob``.

    They are in file order, or in the order of their numbers.
    """
    stems: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(names):
        found = _LAST.fullmatch(name)
        if found is not None and word(found[2]) in known:
            stems.setdefault(word(found[2]), []).append((at, found[1]))
    families = []
    for of in stems.values():
        ends = min(stem for _, stem in of), max(stem for _, stem in of)
        common = next((i for i, (a, b) in enumerate(zip(*ends, strict=False)) if a != b), len(min(ends, key=len)))
        rest = [stem[common:] for _, stem in of]
        if not all(map(are_digits, rest)):  # part of a name is no beginning
            common = 1 + max((mark.end() - 1 for mark in _BETWEEN.finditer(of[0][1][:common])), default=-1)
            rest = [stem[common:] for _, stem in of]
        order = sorted(range(len(of)), key=lambda i: int(rest[i])) if all(map(are_digits, rest)) else range(len(of))
        if len(of) > 1 and all(rest):
            families.append(Family(tuple(of[i][0] for i in order), tuple(rest[i] for i in order)))
    return families


def negative_first(family: Family) -> Family:
    """Return two columns named after a positive class and its negative, such as ``yes`` and ``no``, reversed."""
    return reverse(family) if is_reversed(family.classes) else family


def reverse(family: Family) -> Family:
    """Return the columns in the opposite order."""
    return Family(family.places[::-1], family.classes[::-1])


def among(texts: AbstractSet[str], classes: Sequence[str]) -> list[str]:
    """Return the classes that the texts name; none if a text names no class. Case matters only if it distinguishes."""
    for fold in (str, str.casefold):
        folded = {fold(text) for text in texts}
        if len(folded) == len(texts) and len({fold(name) for name in classes}) == len(classes):
            found = [name for name in classes if fold(name) in folded]
            if len(found) == len(texts):
                return found
    return []


def suffix_number(name: str) -> str:
    """Return the number at the end of a column name, or 0."""
    found = NUMBERED.fullmatch(name)
    return "0" if found is None else found[2]
