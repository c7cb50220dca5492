"""Names of labels and columns: of labels, predictions and weights, and which class a column is named after."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from calibrant.core.arrays import with_integer

# --- Labels: numbers, and words whose positive class is known

#: Larger numbers are not exact in a double.
_EXACT = 2.0**53
_INTEGER = re.compile(r"([+-]?\d{1,18})(\.0*)?", re.ASCII)
_EXPONENT = re.compile(r"[+-]?(\d{1,18}\.?\d{0,18}|\.\d{1,18})[eE][+-]?\d{1,3}", re.ASCII)
#: Words for false and true, of most tools, of R, and of German, French, Spanish and Italian spreadsheets.
BOOLEANS = (
    *(("false", "true"), ("f", "t"), ("falsch", "wahr"), ("faux", "vrai")),
    *(("falso", "verdadero"), ("falso", "vero")),
)
#: Names of the negative and the positive class; of no other pair of labels is the positive one known.
PAIRS = (
    *(("0", "1"), ("-1", "1"), ("-", "+"), *BOOLEANS, ("no", "yes"), ("n", "y"), ("nein", "ja"), ("n", "j")),
    *(("nee", "ja"), ("nej", "ja"), ("non", "oui"), ("no", "si"), ("no", "s\xed"), ("no", "s\xec"), ("nao", "sim")),
    *(("n\xe3o", "sim"), ("neg", "pos"), ("negative", "positive"), ("negativ", "positiv"), ("negativo", "positivo")),
    *(("n\xe9gatif", "positif"), ("absent", "present"), ("failure", "success")),
)


def integer(text: str) -> int | None:
    """Parse an integer written as ``1``, ``1.0`` or ``1.0e+00``; returns None for any other text."""
    match = _INTEGER.fullmatch(text)
    if match is not None:
        return int(match[1])
    value = float(text) if _EXPONENT.fullmatch(text) else math.inf
    return int(value) if value.is_integer() and abs(value) < _EXACT else None


def booleans(texts: Sequence[str]) -> list[int] | None:
    """Return the class of each text if they are the two words of a boolean, or one of true and false; else None."""
    lower = [text.casefold() for text in texts]
    for words in BOOLEANS:
        if {*lower} <= {*words} and (len(lower) == 2 or words == BOOLEANS[0]):
            return [words.index(text) for text in lower]
    return None


def known_pair(labels: Sequence[str]) -> tuple[str, str] | None:
    """Return the negative and the positive one of two labels, such as ``no`` and ``yes``; None if it is not known.

    >>> known_pair(["Ja", "Nein"]), known_pair(["spam", "not spam"]), known_pair(["ham", "spam"])
    (('Nein', 'Ja'), ('not spam', 'spam'), None)
    """
    for first, second in (tuple(labels), tuple(labels[::-1])) if len(labels) == 2 else ():
        pair = first.casefold(), second.casefold()
        if pair in PAIRS or pair[0] in {f"{no}{pair[1]}" for no in (*_NEGATIONS, "non")}:
            return first, second
    return None


#: How the name of a class begins that is the rest of another, and may be class 0 or 1.
_NEGATIONS = tuple(f"{no}{mark}" for no in ("no", "not", "non") for mark in "_- ")


def is_reversed(classes: Sequence[str]) -> bool:
    """Return whether two classes are named after a positive class and its negative, such as ``yes`` and ``no``."""
    return known_pair(classes) == tuple(reversed(classes))


#: Words before the name of a class that are not part of it: ``Y=0``, ``of_class_0``.
_BEFORE_NAME = re.compile(r"(?:(?:of|is|y|class|label|target|outcome)[_\- =.:]*)+")
_AFTER_NAME = re.compile(r"[_\- ](?:class|calibrated)$")


def is_negative(name: str) -> bool:
    """Return whether the name of one of two classes says that it is class 0, such as ``no``, ``class_0`` or ``Y=0``."""
    folded = _AFTER_NAME.sub("", name.casefold())
    begin = _BEFORE_NAME.match(folded)
    folded = folded if begin is None else folded[begin.end() :]
    return folded in {"0", "n", *(negative for negative, _ in PAIRS if len(negative) > 1)}


def is_negation(name: str) -> bool:
    """Return whether a class is named after another that it excludes, such as ``not_fraud``."""
    return name.casefold().startswith(_NEGATIONS)


#: Words before a word, and beginnings of one, that mean its opposite.
_NOT, _UN = frozenset(("no", "not", "non")), ("un", "in", "non")
#: Words for a class that some files number 1 and others 0, and for its opposite, in names of columns.
EITHER = (
    ("good", "bad"),
    ("paid repaid repay performing", "default defaulted nonperforming unpaid"),
    ("survived survive survival alive", "died dead death mortality deceased"),
    ("retained retention stay stayed", "churn churned attrition"),
    ("legit legitimate genuine", "fraud fraudulent"),
    ("ham", "spam"),
    ("benign", "malignant"),
    ("healthy", "sick disease diseased"),
    ("normal", "abnormal anomaly anomalous"),
)
#: Words for an event and for its opposite.
OPPOSITES = (
    *EITHER,
    ("accept accepted approve approved", "reject rejected decline declined denied"),
    ("correct right confidence conf max", "incorrect wrong error mistake"),
    ("positive", "negative"),
    ("home", "away"),
    ("win won", "lose lost loss"),
    ("pass passed success", "fail failed failure"),
)


def opposite_in(name: str, other: str) -> str | None:
    """Return the word of a name of which another name has, or may mean, the opposite; None if there is none.

    >>> opposite_in("p_survived", "died"), opposite_in("p_survived", "survived"), opposite_in("prob_lr", "died")
    ('survived', None, None)
    >>> opposite_in("prob_benign", "y"), opposite_in("prob_malignant", "y"), opposite_in("prob_benign", "is_benign")
    ('benign', None, None)
    >>> opposite_in("pd_performing", "default"), opposite_in("p_good_bad", "bad")
    (None, None)
    >>> opposite_in("p_churn", "not_churned"), opposite_in("p_valid", "invalid"), opposite_in("p_no_show", "no_show")
    ('churn', 'valid', None)
    """
    words, others = words_of(name), {*words_of(other)}
    if words[:1] == ["pd"]:  # a probability of default, whatever the portfolio is called
        words = ["default"]
    negated = {after for before, after in pairwise(words_of(other)) if before in _NOT and _NOT.isdisjoint(words)}
    for word in words:
        if any(min(len(text), len(word)) > 2 and text[: len(word)] == word[: len(text)] for text in negated):
            return word
        if any(text in {f"{no}{word}", word.removeprefix(no)} - {word} for text in others for no in _UN):
            return word
    for pair in (*OPPOSITES, *(pair[::-1] for pair in OPPOSITES)):
        own, opposites = map(set_of, pair)
        of_one_side = not own.isdisjoint(words) and opposites.isdisjoint(words)
        is_either = pair in EITHER and opposites.isdisjoint(others)
        if of_one_side and own.isdisjoint(others) and (is_either or not opposites.isdisjoint(others)):
            return next(word for word in words if word in own)
    return None


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
_OF_CONFIDENCE = set_of("confidence confidences conf max top")
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

#: Words for percentages in names of columns, which may also have a percent sign.
PERCENT = set_of(
    "percent percentage percentages pct perc prozent pourcent pourcentage porcentaje percentuale porcentagem procent"
)

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PROB = re.compile("prob(?!lem|e|at)")
#: Names of features that look like names of predictions, and words for other quantities than a probability.
_FEATURES = set_of("ph pvalue pvalues pval")
_QUANTITIES = set_of("std sd stderr variance uncertainty entropy margin rank ranks percentile complement inverse")
#: How Hugging Face names classes without names.
_UNNAMED = re.compile("label_([0-9]{1,6})", re.IGNORECASE)


def are_digits(text: str) -> bool:
    """Whether a text has only ASCII digits; ``str.isdecimal`` also accepts those of other scripts."""
    return text.isascii() and text.isdecimal()


def word(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(c for c in name.casefold() if c.isalnum())


def words_of(name: str) -> list[str]:
    """Return the words and numbers of a name, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def is_like_prediction(name: str) -> bool:
    """Whether a name contains ``prob`` or ``calibrated``, or begins or ends like ``score``, ``p_`` or ``pred``."""
    words = words_of(name)
    if not words or word(name) in _FEATURES or not _QUANTITIES.isdisjoint(words):
        return False
    first = words[1] if words[0] == "y" and len(words) > 1 else words[0]
    starts = first in ("p", "score", "scores", "pred", "preds", "prediction", "predictions", "predicted", "yhat", "hat")
    ends = words[-1] in ("score", "pred", "preds", "prediction", "predictions") and "raw" not in words
    return starts or ends or "calibrated" in words or _PROB.search(word(name)) is not None


def is_confidence(name: str) -> bool:
    """Whether a name is that of the confidence in a predicted class, such as ``conf``, ``p_max`` or ``top1_prob``."""
    return word(name) in CONFIDENCE or not _OF_CONFIDENCE.isdisjoint(words_of(name))


def is_log_probability(name: str) -> bool:
    """Whether a name is that of the logarithm of a probability, such as ``avg_logprob``."""
    return (
        any(text in word(name) for text in ("logprob", "loglik")) or word(name).endswith("logp") or word(name) == "ll"
    )


def is_percentage(name: str) -> bool:
    """Whether a name is that of a prediction, or of a percentage."""
    is_named = word(name) in PREDICTIONS | FALLBACKS or is_like_prediction(name)
    return is_named or has_percent(name)


def has_percent(name: str) -> bool:
    """Whether a name says that values are percentages; some write fractions in such columns."""
    return "%" in name or not PERCENT.isdisjoint(words_of(name))


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


# --- The class in the name of a column

# Stems do not end with a separator, so that the time is linear in the length of a name.
# A minus sign after another separator, or at the beginning, is that of a negative number.
_NUMBERED = re.compile(r"(|.*?[^ _.\-\[(=])[ _.\-\[(=]*(?<!^-)(?<![ _.\-\[(=]-)(0|[1-9][0-9]{0,5})[\])]?")
_BETWEEN = re.compile(r"[ _.\-\[(=]+")
_LAST = re.compile(r"(.*[^ _.\-])[ _.\-]+([^ _.\-]+)")
#: More characters than a known name has; the most words that the name of a class can have.
_LONGEST, _CLASS_WORDS = 48, 16
#: A number at the end of a name; a minus sign counts if there is nothing before it.
_DIGITS = re.compile("^-[0-9]+$|[0-9]+$")
_ANY_DIGITS = "0123456789"


@dataclass(frozen=True)
class Family:
    """Columns of predictions that belong together: their indices, and the names of their classes."""

    places: tuple[int, ...]
    classes: tuple[str, ...]

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

    def named_by(self, texts: AbstractSet[str]) -> Family:
        """Return columns such as ``P_petcat`` and ``P_petdog`` with classes ``cat`` and ``dog``, if texts name them."""
        readings = (self.classes, *class_readings(self.classes))
        return Family(self.places, next((names for names in readings if among(texts, names)), self.classes))


def suffix(name: str, known: frozenset[str] = PREDICTIONS | LOGITS) -> str | None:
    """Return the class at the end of a column name: ``cat`` for ``prob_cat``, ``1`` for ``p1``, or None.

    A class that is 0 by its name, or a negation, may also be before the word: ``no`` for ``no_prob``.
    """
    name = with_integer(name)
    parts = _NUMBERED.fullmatch(name)
    if parts is not None and word(parts[1]) in known:
        return parts[2]
    if (split := _after_word(name, known)) is not None:
        return split[1]
    before = _before_word(name, known)
    return before[1] if before is not None and (is_negative(before[1]) or is_negation(before[1])) else None


def numbered(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``prob_0`` to ``prob_9``, or ``0`` to ``9``, in the order of their numbers.

    A single column counts if it has a word before its number. Gaps between numbers after a word are not checked.
    """

    def is_stem(stem: str) -> bool:
        several = len(words_of(stem)) > 1 and _ends_as(stem, (_BEFORE_CLASS | LOGITS) & known)
        return word(stem) in known | _OF_CLASS or several

    def split(name: str) -> tuple[str, str] | None:
        if (parts := _NUMBERED.fullmatch(name)) is None:
            return None
        begins = len(words := words_of(parts[1])) == 2 and words[0] in _BEFORE_CLASS & known
        return (parts[1].casefold(), parts[2]) if not parts[1] or begins or is_stem(parts[1]) else None

    families = []
    for stem, of in _by_stem(names, split):
        at = {int(number): place for place, number in zip(of.places, of.classes, strict=True)}
        whole = set(at) == set(range(len(at))) or (stem and is_stem(stem))
        if whole and (len(at) > 1 or word(stem) in known):
            families.append(Family(tuple(at[k] for k in sorted(at)), tuple(map(str, sorted(at)))))
    return families


def after_word(names: Sequence[str], known: frozenset[str], *, mixed: bool = False) -> list[Family]:
    """Find columns such as ``prob_cat`` and ``prob_dog``, in the order of the file.

    Columns whose classes are numbers are left out, unless the other classes are negative numbers. With ``mixed``, only
    columns such as ``prob_cat`` and ``prob_10`` are found, some of whose classes are numbers.
    """
    families = []
    for _, of in _by_stem(names, lambda name: _after_word(name, known)):
        rest = [i for i, name in enumerate(of.classes) if not are_digits(name)]
        are_negative = bool(rest) and all(of.classes[i][0] == "-" and are_digits(of.classes[i][1:]) for i in rest)
        if mixed and not are_negative and 0 < len(rest) < len(of.places):
            families.append(of)
        elif not mixed:
            families.append(of if are_negative else of.taken(rest))
    return [family for family in families if len(family.places) > 1]


def before_word(names: Sequence[str], known: frozenset[str]) -> list[Family]:
    """Find columns such as ``cat_prob`` and ``dog_prob``, also after a common beginning: ``pet_cat_prob``."""
    families = []
    for _, of in _by_stem(names, lambda name: _before_word(name, known)):
        start = common_start(of.classes).rstrip(_ANY_DIGITS)
        if not all(are_digits(stem[len(start) :]) for stem in of.classes):  # part of a name is no beginning
            start = _whole_words(start)
        families.append(Family(of.places, tuple(stem[len(start) :] for stem in of.classes)))
    return [family for family in families if len(family.places) > 1 and all(family.classes)]


def class_readings(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the class names that the names of all columns may stand for: without common words, or as they are.

    >>> class_readings(["P(cat)", "P(dog)"])[0], class_readings(["cat_score", "dog_score"])[0]
    (('cat', 'dog'), ('cat', 'dog'))
    """
    known, readings = PREDICTIONS | LOGITS, list[tuple[str, ...]]()
    ends = [_before_word(name, known) for name in columns]
    stems = [end[1] for end in ends if end is not None]
    same = len(stems) == len(columns) and len({end[0] for end in ends if end is not None}) == 1
    for names in (stems, columns) if same else (columns,):
        start = common_start(names).rstrip(_ANY_DIGITS)
        readings += [family.classes for family in after_word(names, known) if len(family.places) == len(names)]
        if words := _whole_words(start):
            readings.append(tuple(name.removeprefix(words).rstrip("])").strip(" \"'") for name in names))
        readings += [tuple(names), tuple(name.removeprefix(start) for name in names)]
    return [names for names in dict.fromkeys(readings) if all(names)]


def common_start(names: Sequence[str]) -> str:
    """Return what all names begin with."""
    first, last = min(names, default=""), max(names, default="")
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def _by_stem(names: Sequence[str], split: Callable[[str], tuple[str, str] | None]) -> list[tuple[str, Family]]:
    """Return the columns with the same stem as families; ``split`` returns the stem and the class of a name."""
    stems: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(names):
        if (parts := split(name)) is not None:
            stems.setdefault(parts[0], []).append((at, parts[1]))
    return [(stem, Family(tuple(at for at, _ in of), tuple(name for _, name in of))) for stem, of in stems.items()]


def _after_word(name: str, known: frozenset[str]) -> tuple[str, str] | None:
    """Split a name such as ``prob_cat`` or ``y_pred_proba[cat]`` into the word of its stem and its class, or None."""
    ends = (known & LOGITS) | (frozenset() if known is LOGITS else _BEFORE_CLASS)
    for mark in reversed([*_BETWEEN.finditer(name)][-_CLASS_WORDS:]):
        stem, rest = name[: mark.start()], name[mark.end() :].rstrip("])").strip(" \"'")
        if len(mark[0]) > 1 and mark[0].endswith("-") and are_digits(rest):
            rest = f"-{rest}"
        if rest and ((len(stem) < _LONGEST and word(stem) in known) or _ends_as(stem[-_LONGEST:], ends)):
            return word(stem), rest
    return None


def _before_word(name: str, known: frozenset[str]) -> tuple[str, str] | None:
    """Split a name such as ``cat_prob`` into its last word, which is known, and its class, or None."""
    parts = _LAST.fullmatch(name)
    return None if parts is None or word(parts[2]) not in known else (word(parts[2]), parts[1])


def _ends_as(stem: str, ends: frozenset[str]) -> bool:
    """Whether the last word of a stem, or the last two, are among these."""
    words = words_of(stem)
    return bool(words) and not ends.isdisjoint((words[-1], "".join(words[-2:])))


def _whole_words(start: str) -> str:
    """Return the beginning of names up to its last separator."""
    return start[: max(map(start.rfind, " _.:-[(=")) + 1]


def among(texts: AbstractSet[str], classes: Sequence[str]) -> list[str]:
    """Return the classes that the texts name; none if a text names no class. Case matters only if it distinguishes."""
    for fold in (str, str.casefold):
        folded = {fold(text) for text in texts}
        if len(folded) == len(texts) and len({fold(name) for name in classes}) == len(classes):
            chosen = [name for name in classes if fold(name) in folded]
            if len(chosen) == len(texts):
                return chosen
    return []
