"""The six calibrators whose outputs are evaluated: three of the library, three small ones of this experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import calibrant
from benchmarks.pseudo_real.truth import BinnedMap
from calibrant.cells import Floats
from calibrant.reductions import Event

BINS = 15

Labels = npt.NDArray[np.int64]
BinaryMap = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Rows:
    """Logits ``(n, K)`` of a model and labels ``(n,)``."""

    logits: Floats
    labels: Labels

    def event(self, name: str) -> Event:
        """The event ``confidence`` or ``class:k`` under the softmax of the logits."""
        probs = softmax(self.logits, axis=1)
        if name == "confidence":
            chosen = probs.argmax(axis=1)
            return Event(probs.max(axis=1), (chosen == self.labels).astype(np.int8))
        k = int(name.removeprefix("class:"))
        return Event(np.ascontiguousarray(probs[:, k]), (self.labels == k).astype(np.int8))


def fit_scaling_binning(p: Floats, y: npt.NDArray[np.int8]) -> BinaryMap:
    """Scaling-binning (Kumar, Liang & Ma 2019): Platt's output, replaced by its mean over equal-mass bins."""
    scaled = calibrant.fit("platt", p, y).curve
    bins = BinnedMap.fit(Event(scaled(p), y), BINS)
    return lambda p: bins.levels(scaled(p))


def fit_vector_scaling(logits: Floats, labels: Labels) -> tuple[Floats, Floats]:
    """Scales and shifts ``(K,)`` of the logits with the least log loss (Guo et al. 2017)."""
    n, K = logits.shape
    hit = np.eye(K)[labels]

    def loss(theta: Floats) -> tuple[float, Floats]:
        scores = logits * theta[:K] + theta[K:]
        residual = (softmax(scores, axis=1) - hit) / n
        gradient = np.concatenate([(residual * logits).sum(axis=0), residual.sum(axis=0)])
        return -float(log_softmax(scores, axis=1)[hit == 1].mean()), gradient

    start = np.concatenate([np.ones(K), np.zeros(K)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", tol=1e-10, options={"maxiter": 1000})
    return found.x[:K], found.x[K:]


def _library(method: str, p: Floats, y: npt.NDArray[np.int8]) -> BinaryMap:
    return calibrant.fit(method, p, y).curve


#: Calibrators of one event, which use only its probability.
BINARY: Mapping[str, Callable[[Floats, npt.NDArray[np.int8]], BinaryMap]] = {
    "beta": partial(_library, "beta"),
    "Platt": partial(_library, "platt"),
    "PL3": partial(_library, "pl3"),
    "scaling-binning": fit_scaling_binning,
    "isotonic": partial(_library, "isotonic"),
}
CALIBRATORS = ("vector scaling", *BINARY)


def calibrated(name: str, training: Rows, rows: Rows, event: str) -> Event:
    """Fit a calibrator to ``training`` and return its output on ``rows``, as the event's probability.

    Vector scaling may predict another class, so ``confidence`` is then about that class; the others
    keep the model's. One-vs-rest outputs are not renormalised.
    """
    if name == "vector scaling":
        scales, shifts = fit_vector_scaling(training.logits, training.labels)
        return Rows(rows.logits * scales + shifts, rows.labels).event(event)
    before = rows.event(event)
    shown = training.event(event)
    fitted = BINARY[name](shown.p, shown.y)
    return Event(np.clip(fitted(before.p), 0.0, 1.0), before.y)
