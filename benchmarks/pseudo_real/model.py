"""Simulated rows of ten classes, and three classifiers trained on some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier

CLASSES, PARTS, FEATURES = 10, 3, 20
#: Distance of the parts' means from each other, in units of their spread.
SPREAD = 1.0
#: Training rows of each model: few enough to make it overconfident.
TRAINING_ROWS = {"network": 45_000, "quadratic": 3_000, "boosting": 15_000}
#: Rows generated and predicted at once.
CHUNK = 25_000
EPOCHS = 60

Singles = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
#: Logits ``(n, K)`` of features ``(n, d)``.
Classifier = Callable[[Singles], Singles]


@dataclass(frozen=True)
class Mixture:
    """Classes that are mixtures of Gaussians: ``means (K, M, d)``, ``shapes (K, M, d, d)`` of their parts."""

    means: Singles
    shapes: Singles

    @classmethod
    def make(cls, seed: int) -> Mixture:
        """Create components at random places, each with its own correlations."""
        random = np.random.default_rng(seed)
        means = SPREAD * random.standard_normal((CLASSES, PARTS, FEATURES))
        shapes = np.eye(FEATURES) + random.standard_normal((CLASSES, PARTS, FEATURES, FEATURES)) / np.sqrt(FEATURES)
        return cls(means.astype(np.float32), shapes.astype(np.float32))

    def draw(self, n: int, random: np.random.Generator) -> tuple[Singles, Labels]:
        """Features ``(n, d)`` and labels ``(n,)``, classes and parts equally likely."""
        part = random.integers(0, CLASSES * PARTS, n)
        x = random.standard_normal((n, FEATURES), dtype=np.float32)
        for k in range(CLASSES * PARTS):
            at = divmod(k, PARTS)
            x[part == k] = x[part == k] @ self.shapes[at].T + self.means[at]
        return x, part // PARTS


def _network(x: Singles, labels: Labels) -> Classifier:
    model = MLPClassifier((128, 128), alpha=0.0, random_state=0)
    for _ in range(EPOCHS):
        model.partial_fit(x, labels, classes=np.arange(CLASSES))
    layers = [
        (w.astype(np.float32), b.astype(np.float32)) for w, b in zip(model.coefs_, model.intercepts_, strict=True)
    ]

    def logits(x: Singles) -> Singles:
        for weights, bias in layers[:-1]:
            x = np.maximum(x @ weights + bias, 0.0)
        weights, bias = layers[-1]
        result: Singles = x @ weights + bias
        return result

    return logits


def _quadratic(x: Singles, labels: Labels) -> Classifier:
    model = QuadraticDiscriminantAnalysis().fit(x, labels)
    return lambda x: model.decision_function(x).astype(np.float32)


def _boosting(x: Singles, labels: Labels) -> Classifier:
    model = HistGradientBoostingClassifier(
        learning_rate=0.2, max_iter=100, max_leaf_nodes=31, early_stopping=False, random_state=0
    ).fit(x, labels)
    return lambda x: model.decision_function(x).astype(np.float32)


#: Name -> training function.
MODELS: Mapping[str, Callable[[Singles, Labels], Classifier]] = {
    "network": _network,
    "quadratic": _quadratic,
    "boosting": _boosting,
}


def held_out(name: str, n: int) -> Iterator[tuple[Singles, Labels]]:
    """Train a model, then return its logits and the labels of ``n`` held-out rows, in chunks."""
    mixture = Mixture.make(0)
    classifier = MODELS[name](*mixture.draw(TRAINING_ROWS[name], np.random.default_rng(1)))
    random = np.random.default_rng(2)
    for start in range(0, n, CHUNK):
        x, labels = mixture.draw(min(CHUNK, n - start), random)
        yield classifier(x), labels
