"""Names of columns: which are those of labels, predictions and weights, and which class a column is named after."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from calibrant.core.arrays import with_integer
from calibrant.core.inputs import is_reversed, shared_length
from calibrant.io.texts import are_digits

# --- Names of columns


def set_of(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


LABELS = set_of(
    "y label labels target targets class truth ytrue groundtruth gt actual actuals outcome truelabel truelabels "
    "trueclass classlabel actualclass actuallabel gold goldlabel ytest yval obs observed"
)
PREDICTIONS = set_of(
    "p prob probs proba probas probability probabilities score scores yprob yprobs yproba yscore prediction "
    "predictions pred preds ypred yhat phat predprob predproba predictedprobability softmax calibrated "
    "probabilityclass scoredprobabilities scoredprobabilitiesforclass"
)
#: Logits, and logarithms of the likelihoods of all classes, whose softmax is theirs.
LOGITS = set_of(
    "logit logits logodds ylogit ylogits rawformulaval rawformulavalclass logprob logprobs logproba logprobability "
    "logp loglikelihood loglikelihoods loglik ll filteredresps"
)
WEIGHTS = set_of("w weight weights sampleweight sampleweights")
#: Names of columns that may count the rows that are alike.
COUNTS = set_of("n count counts freq freqs frequency cases num nobs")
GROUPS = set_of("group groups subgroup")
#: Names of the confidence in a predicted class, and of whether that class is correct.
CONFIDENCE = set_of("confidence confidences conf maxprob maxproba maxprobability topprob topproba topprobability msp")
CORRECT = set_of("correct iscorrect correctness acc exactmatch")
#: Names of probabilities that count only if no other column has such a name.
FALLBACKS = CONFIDENCE | set_of(
    "fit fitted response pd risk propensity likelihood output outputs pre1 wahrscheinlichkeit"
)
_IDS = set_of("id ids index idx rowid rowindex rownumber rowname rownames row key uuid guid resample fold")
#: Words before the number of a class, in addition to names of predictions.
_OF_CLASS = frozenset(("class",))
#: The last word before the name of a class: ``y_pred_proba`` in ``y_pred_proba_bird``.
_BEFORE_CLASS = set_of(
    "p prob probs proba probas probability probabilities score scores pred softmax calibrated confidence logit logits"
)

# Stems do not end with a separator, so that the time is linear in the length of a name.
# A minus sign after another separator, or at the beginning, is that of a negative number.
_NUMBERED = re.compile(r"(|.*?[^ _.\-\[(=])[ _.\-\[(=]*(?<!^-)(?<![ _.\-\[(=]-)(0|[1-9][0-9]{0,5})[\])]?")
#: More characters than a known name has; the most words that the name of a class can have.
_LONGEST, _CLASS_WORDS = 48, 16
_BETWEEN = re.compile(r"[ _.\-\[(=]+")
_LAST = re.compile(r"(.*[^ _.\-])[ _.\-]+([^ _.\-]+)")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PROB = re.compile("prob(?!lem|e|at)")
#: Names of features that look like names of predictions.
_FEATURES = set_of("ph pvalue pvalues pval")
#: A number at the end of a name; a minus sign counts if there is nothing before it.
_DIGITS = re.compile("^-[0-9]+$|[0-9]+$")
#: How Hugging Face names classes without names.
_UNNAMED = re.compile("label_([0-9]{1,6})", re.IGNORECASE)


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
    return (
        any(text in word(name) for text in ("logprob", "loglik")) or word(name).endswith("logp") or word(name) == "ll"
    )


def is_percentage(name: str) -> bool:
    """Whether a name is that of a prediction, or of a percentage."""
    is_named = word(name) in PREDICTIONS | FALLBACKS or is_like_prediction(name)
    return is_named or not {"percent", "percentage", "pct"}.isdisjoint(words_of(name))


def is_predicted_class(name: str) -> bool:
    """Whether a name is that of a predicted class, such as ``y_pred`` or ``predicted_label``."""
    return word(name).startswith(("pred", "ypred", "yhat", "scoredlabel")) and _PROB.search(word(name)) is None


def number_of(label: str) -> str:
    """Return the number of a class that Hugging Face calls ``LABEL_1``; other labels as they are."""
    unnamed = _UNNAMED.fullmatch(label)
    return label if unnamed is None else unnamed[1]


def is_id(name: str) -> bool:
    """Whether a name is that of an identifier or of the number of a row."""
    words = words_of(name)
    return word(name) in _IDS or words[-1:] in (["id"], ["uuid"]) or words[:1] == ["unnamed"]


# --- Names of columns of forecasts, whose parts may have a word before them, as in ``pred_mean``


#: Words before the name of a part; longer ones first.
_BEFORE = ("predictive", "calibrated", "predicted", "posterior", "forecast", "ypred", "pred", "y", "")


def _prefixed(text: str) -> frozenset[str]:
    """Return the words alone and after a word of ``_BEFORE``."""
    return frozenset(first + name for first in _BEFORE for name in text.split())


def prefix(name: str) -> str:
    """Return the word of ``_BEFORE`` with which a name begins."""
    return next(first for first in _BEFORE if word(name).startswith(first))


OBSERVED = LABELS | set_of("observation observations realized realised")
MEAN = _prefixed("mean mu loc")
#: Names of the mean that count if no column has one of ``MEAN``.
POINTS = set_of("yhat ypred pred prediction predictions predicted forecast forecasts fit fitted")
STD = _prefixed("std sd sigma stddev stdev scale standarddeviation")
VARIANCE = _prefixed("variance var sigma2")
QUANTILES = _prefixed("quantile quantiles q")
LEVELS = set_of("levels quantilelevels taus probs")
SAMPLES = _prefixed("s sample samples draw draws member members ensemble ens sim sims")
LEVEL = set_of("level coverage confidence")
#: Names of the column of levels or members of a file with a row for each.
LONG = set_of("quantile quantilelevel tau outputtypeid sample member draw realization")


# --- Columns that belong together


@dataclass(frozen=True)
class Family:
    """Columns of predictions that belong together: their indices, and the names of their classes."""

    places: tuple[int, ...]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, str]]) -> Family:
        """Return the columns of pairs of an index and the name of a class."""
        return cls(tuple(at for at, _ in pairs), tuple(name for _, name in pairs))

    def taken(self, order: Sequence[int]) -> Family:
        """Return some of the columns, in this order."""
        return Family(tuple(self.places[i] for i in order), tuple(self.classes[i] for i in order))

    def reversed(self) -> Family:
        """Return the columns in the opposite order."""
        return Family(self.places[::-1], self.classes[::-1])

    def negative_first(self) -> Family:
        """Return two columns named after a positive class and its negative, such as ``yes`` and ``no``, reversed."""
        return self.reversed() if is_reversed(self.classes) else self

    def by_number(self) -> Family:
        """Return columns whose classes differ only in a number at the end, ``class2``, in the order of the numbers."""
        ends = [_DIGITS.search(name[-_LONGEST:]) for name in self.classes]
        numbers = [int(end[0]) for end in ends if end is not None]
        pairs = zip(self.classes, ends, strict=True)
        stems = {name[: len(name) - len(end[0])] for name, end in pairs if end is not None}
        if len(set(numbers)) < len(self.classes) or len(stems) > 1:
            return self
        return self.taken(sorted(range(len(numbers)), key=numbers.__getitem__))

    def without_common_start(self, texts: AbstractSet[str]) -> Family:
        """Return columns such as ``P_petcat`` and ``P_petdog`` with classes ``cat`` and ``dog``, if texts name them."""
        common = shared_length(self.classes)
        rest = tuple(name[common:] for name in self.classes)
        return Family(self.places, rest) if among(texts, rest) else self


def _stems(names: Sequence[str], split: Callable[[str], tuple[str, str] | None]) -> list[list[tuple[int, str]]]:
    """Return the indices of the columns with the same stem, with their classes; ``split`` returns stem and class."""
    stems: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(names):
        if (parts := split(name)) is not None:
            stems.setdefault(parts[0], []).append((at, parts[1]))
    return [*stems.values()]


def _split(name: str, known: frozenset[str]) -> tuple[str, str] | None:
    """Split a name such as ``prob_cat`` or ``y_pred_proba[cat]`` into the word of its stem and its class, or None."""
    ends = (known & LOGITS) | (frozenset() if known is LOGITS else _BEFORE_CLASS)
    for mark in reversed([*_BETWEEN.finditer(name)][-_CLASS_WORDS:]):
        stem, rest = name[: mark.start()], name[mark.end() :].rstrip("])").strip(" \"'")
        if len(mark[0]) > 1 and mark[0].endswith("-") and are_digits(rest):
            rest = f"-{rest}"
        if rest and ((len(stem) < _LONGEST and word(stem) in known) or _ends_as(stem[-_LONGEST:], ends)):
            return word(stem), rest
    return None


def _ends_as(stem: str, ends: frozenset[str]) -> bool:
    """Whether the last word of a stem, or the last two, are among these."""
    words = words_of(stem)
    return bool(words) and not ends.isdisjoint((words[-1], "".join(words[-2:])))


def suffix(name: str, known: frozenset[str] = PREDICTIONS | LOGITS) -> str | None:
    """Return the class at the end of a column name: ``cat`` for ``prob_cat``, ``1`` for ``p1``, or None."""
    name = with_integer(name)
    parts = _NUMBERED.fullmatch(name)
    if parts is not None and word(parts[1]) in known:
        return parts[2]
    split = _split(name, known)
    return None if split is None else split[1]


def numbered(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``prob_0`` to ``prob_9``, or ``0`` to ``9``, in the order of their numbers.

    A single column counts if it has a word before its number. Gaps between numbers after a word are not checked.
    """

    def split(name: str) -> tuple[str, str] | None:
        parts = _NUMBERED.fullmatch(name)
        begins = parts is not None and len(words := words_of(parts[1])) == 2 and words[0] in _BEFORE_CLASS & known
        counts = parts is not None and (not parts[1] or begins or _is_stem(parts[1], known | _OF_CLASS))
        return (parts[1].casefold(), parts[2]) if parts is not None and counts else None

    families = []
    for of in _stems(names, split):
        last = {int(number): at for at, number in of}
        stem = _NUMBERED.fullmatch(names[of[0][0]])
        before = "" if stem is None else stem[1].casefold()
        whole = set(last) == set(range(len(last))) or (before and _is_stem(before, known | _OF_CLASS))
        if whole and (len(last) > 1 or word(before) in known):
            families.append(Family.of([(last[k], str(k)) for k in sorted(last)]))
    return families


def _is_stem(stem: str, known: frozenset[str]) -> bool:
    return word(stem) in known or (len(words_of(stem)) > 1 and _ends_as(stem, (_BEFORE_CLASS | LOGITS) & known))


def named(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``prob_cat`` and ``prob_dog``, in file order or in that of the numbers at their ends.

    Columns whose classes are numbers are left out, unless the other classes are negative numbers.
    """
    families = []
    for of in _stems(names, lambda name: _split(name, known)):
        rest = [(at, name) for at, name in of if not are_digits(name)]
        if rest and all(name[0] == "-" and are_digits(name[1:]) for _, name in rest):
            rest = of
        families.append(Family.of(rest).by_number())
    return [family for family in families if len(family.places) > 1]


def before(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``cat_prob`` and ``dog_prob``, also after a common beginning: ``pet_cat_prob``.

    They are in file order, or in the order of their numbers.
    """

    def split(name: str) -> tuple[str, str] | None:
        parts = _LAST.fullmatch(name)
        return None if parts is None or word(parts[2]) not in known else (word(parts[2]), parts[1])

    families = []
    for of in _stems(names, split):
        stems = [stem for _, stem in of]
        common = shared_length(stems)
        if not all(are_digits(stem[common:]) for stem in stems):  # part of a name is no beginning
            common = 1 + max((mark.end() - 1 for mark in _BETWEEN.finditer(stems[0][:common])), default=-1)
        rest = [(at, stem[common:]) for at, stem in of]
        if all(are_digits(name) for _, name in rest):
            rest.sort(key=lambda pair: int(pair[1]))
        if len(rest) > 1 and all(name for _, name in rest):
            families.append(Family.of(rest))
    return families


def among(texts: AbstractSet[str], classes: Sequence[str]) -> list[str]:
    """Return the classes that the texts name; none if a text names no class. Case matters only if it distinguishes."""
    for fold in (str, str.casefold):
        folded = {fold(text) for text in texts}
        if len(folded) == len(texts) and len({fold(name) for name in classes}) == len(classes):
            chosen = [name for name in classes if fold(name) in folded]
            if len(chosen) == len(texts):
                return chosen
    return []
