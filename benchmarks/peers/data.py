"""The data of the comparison: simulated with seeds and a known miscalibration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

#: Rows of a matrix that are drawn at once.
_BLOCK = 2_000


def binary(n: int, seed: int = 0) -> tuple[Array, Labels]:
    """Overconfident predictions ``(n,)``, their odds those of the labels to the power 1.3, and the labels."""
    random = np.random.default_rng(seed)
    c = random.random(n)
    return c**1.3 / (c**1.3 + (1.0 - c) ** 1.3), (random.random(n) < c).astype(np.int64)


def matrix(n: int, n_classes: int, seed: int = 0) -> tuple[Matrix, Labels]:
    """Overconfident softmax outputs ``(n, n_classes)``, float32, of a classifier that favours one class per row."""
    random = np.random.default_rng(seed)
    p, labels = np.empty((n, n_classes), dtype=np.float32), np.empty(n, dtype=np.int64)
    for start in range(0, n, _BLOCK):
        rows = slice(start, min(start + _BLOCK, n))
        logits = 2.0 * random.standard_normal((rows.stop - start, n_classes))
        favoured = random.integers(0, n_classes, len(logits))
        logits[np.arange(len(logits)), favoured] += random.uniform(4.0, 14.0, len(logits))
        labels[rows] = (logits / 1.3 + random.gumbel(size=logits.shape)).argmax(axis=1)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        p[rows] = odds / odds.sum(axis=1, keepdims=True)
    return p, labels


def save_matrix(folder: Path, n: int, n_classes: int) -> None:
    """Write a simulated matrix and its labels to files, so that a process that reads them needs no other memory."""
    p, labels = matrix(n, n_classes)
    np.save(folder / "p.npy", p)
    np.save(folder / "labels.npy", labels)


def load_matrix(folder: Path) -> tuple[Matrix, Labels]:
    """Read the files of ``save_matrix``."""
    p: Matrix = np.load(folder / "p.npy")
    labels: Labels = np.load(folder / "labels.npy")
    return p, labels
