"""Reductions of multiclass predictions to one event, one event per class, or the whole vector."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.core.batch import Batch, Integers, LogOdds, Predictions, log_odds, log_odds_within, probabilities_of
from calibrant.core.cells import (
    Cells,
    Floats,
    Outcomes,
    Scaled,
    SortedRows,
    WeightsKind,
    cells_of,
    effective,
    row_order,
    sort_rows,
    take,
    vector_order,
)
from calibrant.core.errors import OneClass, UnknownReduction, one_of, plain_name
from calibrant.core.features import Features

_CLASS = re.compile(r"class:(0|[1-9][0-9]{0,8})\Z")
_RANK = re.compile(r"(within-)?top:([1-9][0-9]{0,8})\Z")
#: Reductions to more than one event.
MANY = ("classwise", "canonical")
_NAMES = ("binary", "confidence", "class:k", "top:r", "within-top:r", "pooled", "classwise", "canonical")
#: Names that papers and other libraries use -> names here.
_FAMILIAR = {
    **dict.fromkeys(("argmax", "max", "top-1", "top-label", "top1", "toplabel"), "confidence"),
    **dict.fromkeys(("macro", "marginal", "one-vs-rest", "ovr", "per-class"), "classwise"),
    **dict.fromkeys(("full", "joint", "multiclass", "strong", "vector"), "canonical"),
    **dict.fromkeys(("flat", "micro"), "pooled"),
    "ranks": "top:r",
    "within-ranks": "within-top:r",
}
#: Columns of a matrix that are converted together: as many as fit in a cache line.
_COLUMNS = 16
#: Rows that are transposed at once, and elements of a matrix that are processed at once.
_BLOCK, _AREA = 256, 1 << 16


@dataclass(frozen=True)
class Event(Scaled):
    """A binary event for each row: ``p (n,)`` is its predicted probability, ``y (n,)`` its outcome.

    ``w (n,)`` is None if every row counts once. If ``decided``, the event is that a decision is correct, as under
    ``confidence``; otherwise the decision is p >= 1/2. Under ``pooled``, ``per_row`` consecutive events belong to one
    row of the batch. ``logit (n,)`` is the logit of p if logits were given; it keeps their order and size where p
    rounds to 0 or 1. Rows are sorted once, on first use.
    """

    p: Floats
    y: Outcomes
    w: Floats | None = None
    kind: WeightsKind = "frequency"
    decided: bool = False
    per_row: int = 1
    logit: Floats | None = None
    #: Under ``confidence`` of (n, K), returns the whole vectors, which temperature scaling needs.
    whole: Callable[[], Vector] | None = field(default=None, compare=False, repr=False)
    #: Numbers of clusters ``(n,)``; rows of a cluster may depend on each other, and are in the same fold.
    clusters: Integers | None = None
    #: Of (n, K), returns the batch and the name of the reduction, which the error for a single outcome needs.
    origin: Callable[[], tuple[Batch, str]] | None = field(default=None, compare=False, repr=False)
    #: Features of the rows, which ``in_order`` drops.
    features: Features | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.p)

    @property
    def independent(self) -> bool:
        """Whether no event depends on another one."""
        return self.per_row == 1 and self.clusters is None

    @property
    def likely(self) -> npt.NDArray[np.bool_]:
        """Whether the event is predicted: p >= 1/2."""
        return self.p >= 0.5 if self.logit is None else self.logit >= 0.0

    @cached_property
    def sorted_rows(self) -> SortedRows:
        """The rows in ascending order of (prediction, y). O(n log n)."""
        return sort_rows(self.p, self.y, self.w, self.clusters, self.logit)

    @cached_property
    def counted_rows(self) -> SortedRows:
        """The sorted rows with weights that count rows: importance weights sum to (sum w)^2 / sum w^2 (Kish 1965)."""
        rows = self.sorted_rows
        if rows.w is None or self.kind == "frequency":
            return rows
        return replace(rows, w=effective(rows.w))

    @cached_property
    def cells(self) -> Cells:
        """The distinct predictions with their sums. O(n log n)."""
        if self.w is None and self.clusters is not None and self.logit is None and "sorted_rows" not in vars(self):
            return cells_of(sort_rows(self.p, self.y), self.kind)  # the clusters take an indirect sort, which is slower
        return cells_of(self.sorted_rows, self.kind)

    def in_order(self) -> Event:
        """Return the event with its rows in canonical order, so that random draws do not depend on the given order."""
        if self.per_row > 1:
            return self.rows(self.order())
        rows = self.sorted_rows
        ordered = replace(self, p=rows.p, y=rows.y, w=rows.w, whole=None, clusters=rows.clusters, logit=rows.logit)
        ordered = ordered if self.features is None else replace(ordered, features=None)
        vars(ordered)["sorted_rows"] = rows  # keep what does not depend on the given order
        if "cells" in vars(self):
            vars(ordered)["cells"] = self.cells
        return ordered

    def order(self) -> Integers:
        """Return the numbers of the rows in canonical order, which does not depend on the given order."""
        first = slice(None, None, self.per_row)
        w, clusters = take(self.w, first), take(self.clusters, first)
        if self.per_row > 1:
            labels = self.y.reshape(-1, self.per_row).argmax(axis=1)
            return vector_order(self.p.reshape(-1, self.per_row), labels, w, clusters)
        return row_order([], self.y, self.key, w, clusters)

    def confidence(self) -> Event:
        """Return the event that the decision is correct, with probability max(p, 1 - p) if it is not ``decided``."""
        if self.decided:
            return self
        likely = self.likely
        logit = None if self.logit is None else np.abs(self.logit)
        p = np.where(likely, self.p, 1.0 - self.p)
        return replace(self, p=p, y=(likely == self.y).astype(np.int8), decided=True, logit=logit)

    def log_likelihood(self, clip: float) -> Floats:
        """Return ln P of what happened in each row: exact for logits, otherwise of p clipped to [clip, 1 - clip]."""
        if self.logit is not None:
            return -np.logaddexp(0.0, np.where(self.y == 1, -self.logit, self.logit))
        p = np.clip(self.p, clip, 1.0 - clip)
        return np.where(self.y == 1, np.log(p), np.log1p(-p))

    def of_probabilities(self) -> Event:
        """Return the event without its logits, which may be exact where probabilities are rounded."""
        return replace(self, logit=None)

    def rows(self, chosen: npt.NDArray[np.int64]) -> Event:
        """Return the event on these rows, repeated as often as they are listed."""
        if self.per_row > 1:
            chosen = (chosen[:, None] * self.per_row + np.arange(self.per_row)).ravel()
        w, logit, clusters = take(self.w, chosen), take(self.logit, chosen), take(self.clusters, chosen)
        vectors = self.whole
        whole = None if vectors is None else lambda: vectors().rows(chosen)
        reduced = self.origin
        origin = None if reduced is None else lambda: (reduced()[0].rows(chosen), reduced()[1])
        event = replace(self, p=self.p[chosen], y=self.y[chosen], w=w, logit=logit, clusters=clusters)
        features = None if self.features is None else self.features.rows(chosen)
        return replace(event, whole=whole, origin=origin, features=features)


@dataclass(frozen=True)
class Vector:
    """The whole predicted vector: ``p (n, K)`` with rows of sum 1, float64 or float32, and ``labels (n,)``.

    ``logits (n, K)`` are the given logits, or None; without ``probabilities``, p is computed from them on first use.
    """

    probabilities: Floats | None
    labels: Integers
    w: Floats | None = None
    kind: WeightsKind = "frequency"
    logits: Floats | None = None
    clusters: Integers | None = None
    per_row: ClassVar[int] = 1

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def p(self) -> Floats:
        """The probabilities, ``(n, K)``."""
        if self.probabilities is not None:
            return self.probabilities
        if self.logits is None:
            raise TypeError("a vector needs probabilities or logits")
        return probabilities_of(self.logits)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int((self.p if self.logits is None else self.logits).shape[1])

    @cached_property
    def predicted(self) -> Integers:
        """The class with the largest prediction, the first one of ties: ``(n,)``."""
        predicted: Integers = (self.p if self.logits is None else self.logits).argmax(axis=1)
        return predicted

    @cached_property
    def odds(self) -> LogOdds | None:
        """The log-odds of given logits; None if probabilities were given."""
        return None if self.logits is None else LogOdds.of(self.logits)

    @property
    def counted(self) -> Floats | None:
        """The weights as numbers of rows: importance weights sum to (sum w)^2 / sum w^2 (Kish 1965)."""
        return self.w if self.w is None or self.kind == "frequency" else effective(self.w)

    def confidence(self) -> Event:
        """Return the event that the predicted class is correct."""
        y = (self.predicted == self.labels).astype(np.int8)
        logit = None if self.odds is None else self.odds.top_odds
        p = self.p.max(axis=1).astype(np.float64) if logit is None else expit(logit)
        return Event(p, y, self.w, self.kind, decided=True, clusters=self.clusters, logit=logit)

    def log_likelihood(self, clip: float) -> Floats:
        """Return ln p of the label: exact for logits, otherwise of p clipped to [clip, 1 - clip]. O(n K)."""
        if self.logits is None:
            own = self.p[np.arange(len(self)), self.labels].astype(np.float64)
            return np.log(np.clip(own, clip, 1.0 - clip))
        logs = np.empty(len(self))
        height = max(1, _AREA // self.n_classes)
        for start in range(0, len(self), height):
            rows = slice(start, start + height)
            z = self.logits[rows].astype(np.float64)
            off = z - z.max(axis=1, keepdims=True)
            logs[rows] = off[np.arange(len(z)), self.labels[rows]] - np.log(np.exp(off).sum(axis=1))
        return logs

    def of_probabilities(self) -> Vector:
        """Return the vectors without their logits, which may be exact where probabilities are rounded."""
        return replace(self, probabilities=self.p, logits=None)

    def in_order(self) -> Vector:
        """Return the rows in canonical order: by confidence, label, a projection that breaks ties, and weight."""
        return self.rows(self.order())

    def order(self) -> Integers:
        """Return the numbers of the rows in canonical order."""
        return vector_order(self.p, self.labels, self.w, self.clusters)

    def rows(self, chosen: npt.NDArray[np.int64]) -> Vector:
        """Return these rows, repeated as often as they are listed."""
        w, logits, clusters = take(self.w, chosen), take(self.logits, chosen), take(self.clusters, chosen)
        has_probabilities = self.probabilities is not None or "p" in vars(self)
        taken = self.p[chosen] if has_probabilities else None
        return replace(self, probabilities=taken, labels=self.labels[chosen], w=w, logits=logits, clusters=clusters)


@dataclass(frozen=True)
class Classes:
    """One event per class: the label is that class."""

    vector: Vector

    def __len__(self) -> int:
        return len(self.vector)

    @property
    def clusters(self) -> Integers | None:
        """Numbers of the clusters of the rows ``(n,)``."""
        return self.vector.clusters

    def events(self, chosen: range | None = None) -> Iterator[Event]:
        """Yield the events of the classes, or of a range of them, one at a time. O(n) memory each."""
        vector = self.vector
        classes = range(vector.n_classes) if chosen is None else chosen
        for start in range(classes.start, classes.stop, _COLUMNS):
            columns = slice(start, min(start + _COLUMNS, classes.stop))
            logits = None if vector.odds is None else vector.odds.columns(columns)
            for k, column in enumerate(_transposed(vector.p[:, columns] if logits is None else logits), start):
                y = (vector.labels == k).astype(np.int8)
                yield _event(column, y, vector, logits=logits is not None)

    def in_order(self) -> Classes:
        """Return the rows in the order of ``Vector.in_order``."""
        return Classes(self.vector.in_order())

    def order(self) -> Integers:
        """Return the numbers of the rows in canonical order."""
        return self.vector.order()

    def rows(self, chosen: npt.NDArray[np.int64]) -> Classes:
        """Return these rows, repeated as often as they are listed."""
        return Classes(self.vector.rows(chosen))


#: The input of a measure.
Subject = Event | Classes | Vector


def resolve(reduction: str | None, n_classes: int | None) -> str:
    """Return the name of the reduction, by default ``binary`` for (n,) and ``confidence`` for (n, K).

    Raises ``UnknownReduction`` if the name does not exist or does not fit ``n_classes``.
    """
    if reduction is None:
        return "binary" if n_classes is None else "confidence"
    if not isinstance(reduction, str):
        raise UnknownReduction.at("/reduction", "must be the name of a reduction")
    of_class, ranked = _CLASS.match(reduction), _RANK.match(reduction)
    if not (of_class or ranked) and reduction not in ("binary", "confidence", "pooled", *MANY):
        raise UnknownReduction.at("/reduction", _meant_by(reduction))
    if reduction == "binary" and n_classes not in (None, 2):
        raise UnknownReduction.at("/reduction", "binary needs predictions of shape (n,) or (n, 2)")
    if of_class and n_classes is not None and int(of_class[1]) >= n_classes:
        raise UnknownReduction.at("/reduction", f"must be a class from 0 to {n_classes - 1}")
    if ranked and n_classes is not None and int(ranked[2]) > n_classes:
        raise UnknownReduction.at("/reduction", f"must be a rank from 1 to {n_classes}")
    return reduction


def _meant_by(unknown: str) -> str:
    """Return what an unknown reduction must be, with the nearest one."""
    if plain_name(unknown).startswith("class:"):
        return "must be class:k, where k is the number of a class or one of the class names"
    near = one_of(unknown, _NAMES, _FAMILIAR)
    return near if "did you mean" in near else f"must be {', '.join(_NAMES[:-1])} or {_NAMES[-1]}"


def resolve_event(reduction: str | None, n_classes: int | None) -> str:
    """Return the name of a reduction to one event per row."""
    name = resolve(reduction, n_classes)
    if name in MANY or name == "pooled":
        raise UnknownReduction.at("/reduction", "must be binary, confidence, class:k, top:r or within-top:r")
    return name


def is_decided(reduction: str | None, n_classes: int | None) -> bool:
    """Whether a row is decided by one probability: its only one, or that of the reduction."""
    return reduction is not None or n_classes is None


def check_decided(reduction: str | None, n_classes: int | None) -> None:
    """Raise ``UnknownReduction`` if no reduction says by which probability of several a row is decided."""
    if not is_decided(reduction, n_classes):
        event = "binary decides by P(Y = 1)" if n_classes == 2 else "class:k decides by that of class k"
        text = f"must be named for several columns: {event}, confidence by that of the predicted class"
        raise UnknownReduction.at("/reduction", text)


def event_probability(predictions: Predictions, reduction: str) -> Floats:
    """Return the probability of the event for each row, float64 ``(n,)``.

    Predictions (n,) are that probability. For (n, K), ``binary`` is column 1, ``class:k`` column k, ``confidence`` the
    largest probability of the row, ``top:r`` the r-th largest, and ``within-top:r`` the sum of the r largest.
    """
    logit = event_logit(predictions, reduction)
    if logit is not None:
        return expit(logit)  # type: ignore[no-any-return]
    values = predictions.values
    if values.ndim == 1:
        return values
    ranked = _RANK.match(reduction)
    if ranked:
        rank, K = int(ranked[2]), values.shape[1]
        largest = np.partition(values, K - rank, axis=1)[:, K - rank :].astype(np.float64)
        return largest.sum(axis=1).clip(0.0, 1.0) if ranked[1] else largest[:, 0]
    if reduction == "confidence":
        return values.max(axis=1).astype(np.float64)  # type: ignore[no-any-return]
    return values[:, 1 if reduction == "binary" else _class_of(reduction)].astype(np.float64)


def event_logit(predictions: Predictions, reduction: str) -> Floats | None:
    """Return the logit of ``event_probability`` without rounding it, float64 ``(n,)``; None if probabilities are given.

    The event that one of all K classes is correct has no logit, and is None too.
    """
    logits = predictions.logits
    if logits is None or logits.ndim == 1:
        return logits
    K, ranked = logits.shape[1], _RANK.match(reduction)
    if reduction == "confidence":
        return LogOdds.of(logits).top_odds
    if ranked is None:
        return log_odds(logits)[:, 1 if reduction == "binary" else _class_of(reduction)]
    rank = int(ranked[2])
    if not ranked[1]:
        return np.partition(log_odds(logits), K - rank, axis=1)[:, K - rank]
    return log_odds_within(logits)[:, rank - 1] if rank < K else None


def reduce(batch: Batch, reduction: str) -> Event:
    """Reduce a batch to the event that ``reduction`` names. O(n K).

    Under ``confidence`` the event is that the predicted class is correct, under ``top:r`` that the class at rank r is,
    under ``within-top:r`` that one of the first r is, and under ``pooled``, for each row and class, that the label is
    the class. Of equal probabilities the first class ranks first.
    """
    predictions, labels = batch.predictions, batch.labels
    values = predictions.given
    ranked = _RANK.match(reduction)
    decided = reduction == "confidence" or ranked is not None
    if reduction == "pooled":
        return _pooled(whole_vector(batch))
    y: npt.NDArray[Any]
    if values.ndim == 1:
        y = labels
    elif reduction == "confidence":
        y = values.argmax(axis=1) == labels
    elif ranked:
        rank = _rank_of_label(values, labels)
        y = rank < int(ranked[2]) if ranked[1] else rank == int(ranked[2]) - 1
    else:
        y = labels == (1 if reduction == "binary" else _class_of(reduction))
    logit = event_logit(predictions, reduction)
    return Event(
        event_probability(predictions, reduction) if logit is None else expit(logit),
        y.astype(np.int8),
        batch.weights,
        batch.counts_as,
        decided,
        logit=logit,
        whole=(lambda: whole_vector(batch)) if reduction == "confidence" and values.ndim == 2 else None,
        clusters=batch.clusters,
        origin=None if values.ndim == 1 and not decided else lambda: (batch, reduction),
        features=predictions.features,
    )


@contextmanager
def naming_reductions(subject: Subject, *, classwise: bool = True) -> Iterator[None]:
    """Raise ``OneClass`` for an event of (n, K) with the reductions under which its rows have both outcomes.

    ``classwise`` is one of them if the caller supports it. The event of a whole vector is that of its confidence.
    """
    try:
        yield
    except OneClass:
        if isinstance(subject, Vector):
            right, n_classes = subject.predicted == subject.labels, subject.n_classes
            text = _one_outcome(subject.labels, right, subject.w, n_classes, "confidence", classwise=classwise)
        elif isinstance(subject, Event) and subject.origin is not None:
            batch, reduction = subject.origin()
            K = batch.predictions.n_classes
            text = _one_outcome(batch.labels, subject.y > 0, batch.weights, K, reduction, classwise=classwise)
        else:
            raise
        raise OneClass.at("/labels", text) from None


#: The most classes in a message.
_LISTED = 3


def _one_outcome(
    labels: Integers, y: npt.NDArray[np.bool_], w: Floats | None, K: int | None, reduction: str, *, classwise: bool
) -> str:
    """Return that a reduction gives one outcome, and which reductions of (n, K) give both."""
    chosen = slice(None) if w is None else w > 0.0
    labels, every = labels[chosen], "every" if y[chosen].any() else "no"
    if K is None:
        return f"have one outcome under {reduction}: in {every} row the predicted class is right; use rows of both"
    counts = np.bincount(labels, minlength=K)
    both = np.flatnonzero((counts > 0) & (counts < len(labels)))
    ranked = _RANK.match(reduction)
    event = f"class {1 if reduction == 'binary' else reduction.removeprefix('class:')}"
    if reduction == "confidence":
        event = "the predicted class"
    elif ranked:
        event = f"among the first {ranked[2]} classes" if ranked[1] else f"the class at rank {ranked[2]}"
    text = f"have one outcome under {reduction}: in {every} row the label is {event}"
    fitting = ["binary"] if K == 2 and len(both) else []
    fitting += ["classwise"] if classwise and len(both) == K else []
    fitting += [f"class:{k}" for k in both.tolist()[:_LISTED]]
    more = " and so on" if len(both) > _LISTED else ""
    return f"{text}; use reduction {' or '.join(fitting)}{more}" if fitting else f"{text}, and all labels are equal"


def subject(batch: Batch, reduction: str) -> Subject:
    """Reduce a batch to an event, the event of each class, or the whole vector."""
    if reduction == "classwise":
        return Classes(whole_vector(batch))
    return whole_vector(batch) if reduction == "canonical" else reduce(batch, reduction)


def whole_vector(batch: Batch) -> Vector:
    """Return the batch as a vector per row; (n,) predictions become the columns (1 - p, p)."""
    predictions = batch.predictions
    logits = predictions.logits
    values: Floats | None
    if predictions.n_classes is None:
        values = np.stack([1.0 - predictions.values, predictions.values], axis=1)
        logits = None if logits is None else np.stack([np.zeros_like(logits), logits], axis=1)
    else:
        values = predictions.values if logits is None or "values" in vars(predictions) else None
    return Vector(values, batch.labels, batch.weights, batch.counts_as, logits, batch.clusters)


def _transposed(columns: Floats) -> Floats:
    """Transpose block by block, which is faster because blocks fit in the processor cache."""
    rows = np.empty(columns.shape[::-1], dtype=columns.dtype)
    for start in range(0, len(columns), _BLOCK):
        rows[:, start : start + _BLOCK] = columns[start : start + _BLOCK].T
    return rows


def _pooled(vector: Vector) -> Event:
    y = np.zeros(vector.p.shape, dtype=np.int8)
    y[np.arange(len(vector)), vector.labels] = 1
    row = np.repeat(np.arange(len(vector)), vector.n_classes)
    logit = None if vector.logits is None else log_odds(vector.logits).ravel()
    return Event(
        vector.p.ravel().astype(np.float64) if logit is None else expit(logit),
        y.ravel(),
        take(vector.w, row),
        vector.kind,
        per_row=vector.n_classes,
        clusters=take(vector.clusters, row),
        logit=logit,
    )


def _event(column: Floats, y: Outcomes, of: Vector, *, logits: bool) -> Event:
    """Return the event of one class from its probabilities, or from its log-odds if ``logits``."""
    values = column.astype(np.float64)
    p, logit = (expit(values), values) if logits else (values, None)
    return Event(p, y, of.w, of.kind, clusters=of.clusters, logit=logit)


def _rank_of_label(values: Floats, labels: Integers) -> Integers:
    """Return the number of classes before the label: with a larger probability, or an equal one and a lower index."""
    own = values[np.arange(len(values)), labels][:, None]
    before = np.arange(values.shape[1]) < labels[:, None]
    rank: Integers = np.count_nonzero((values > own) | (values == own) & before, axis=1)
    return rank


def _class_of(reduction: str) -> int:
    return int(reduction.removeprefix("class:"))
