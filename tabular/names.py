"""What the names of columns say: which are labels, predictions, logits, weights or groups, and of which class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LABELS = _words(
    "y label labels target targets class truth ytrue groundtruth gt actual actuals outcome truelabel truelabels "
    "trueclass classlabel"
)
PREDICTIONS = _words(
    "p prob probs proba probas probability probabilities score scores yprob yprobs yproba yscore prediction "
    "predictions pred preds ypred yhat predprob predproba predictedprobability softmax"
)
LOGITS = _words("logit logits logodds ylogit ylogits")
WEIGHTS = _words("w weight weights sampleweight sampleweights")
GROUPS = _words("group groups subgroup")
#: Before the number of a class, beside the names of predictions.
_OF_CLASS = frozenset(("class",))

_NUMBERED = re.compile(r"(.*?)[ _.\-\[(]*(0|[1-9][0-9]{0,5})[\])]?")
_NAMED = re.compile(r"([A-Za-z_ ]+?)[ _.\-\[(]+([^\])]+)[\])]?")


def word(name: str) -> str:
    """A name without case and without what is neither letter nor digit."""
    return "".join(c for c in name.casefold() if c.isalnum())


@dataclass(frozen=True)
class Family:
    """Columns that belong together, one a class: their places, and the names of the classes in the same order."""

    places: tuple[int, ...]
    classes: tuple[str, ...]


def suffix(name: str, words: frozenset[str] = PREDICTIONS | LOGITS) -> str | None:
    """The class that a column's name ends in: ``cat`` of ``prob_cat``, ``1`` of ``p1``; None where it names none."""
    for pattern in (_NUMBERED, _NAMED):
        found = pattern.fullmatch(name)
        if found is not None and word(found[1]) in words:
            return found[2].strip()
    return None


def numbered(names: Sequence[str], words: frozenset[str]) -> list[Family]:
    """Columns such as ``prob_0`` to ``prob_9``, or ``0`` to ``9``, in the order of their numbers.

    One that stands alone is of them too, if a word stands before its number. Whether numbers after a word are without
    a gap is not looked at.
    """
    stems: dict[str, dict[int, int]] = {}
    for at, name in enumerate(names):
        found = _NUMBERED.fullmatch(name)
        if found is not None and (not found[1] or word(found[1]) in words | _OF_CLASS):
            stems.setdefault(found[1].casefold(), {})[int(found[2])] = at
    return [
        Family(tuple(at for _, at in sorted(of.items())), tuple(str(k) for k in sorted(of)))
        for stem, of in stems.items()
        if (len(of) > 1 or word(stem) in words) and (stem or set(of) == set(range(len(of))))
    ]


def named(names: Sequence[str], words: frozenset[str]) -> list[Family]:
    """Columns such as ``prob_cat`` and ``prob_dog``, in the order of the file."""
    stems: dict[str, list[tuple[int, str]]] = {}
    for at, name in enumerate(names):
        found = _NAMED.fullmatch(name)
        if found is not None and word(found[1]) in words and not found[2].isdecimal():
            stems.setdefault(word(found[1]), []).append((at, found[2].strip()))
    return [Family(tuple(at for at, _ in of), tuple(name for _, name in of)) for of in stems.values() if len(of) > 1]
