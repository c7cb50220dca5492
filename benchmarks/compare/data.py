"""The predictions: files of a folder, or models trained on data sets of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.data_sets import verified
from calibrant.core.batch import Scale

Array = npt.NDArray[Any]
#: The share of a data set that a model is trained on.
_TRAINED = 0.4


class FilePredictions(NamedTuple):
    """Predictions ``(n, K)`` on their scale, and labels ``(n,)``."""

    values: Array
    labels: Array
    scale: Scale


def read_file(path: Path) -> FilePredictions:
    """A ``.npz`` of ``labels`` (n,) and ``probs`` or ``logits`` (n, K)."""
    with np.load(verified(path)) as archive:
        scale: Scale = "logit" if "logits" in archive else "probability"
        return FilePredictions(archive["logits" if scale == "logit" else "probs"], archive["labels"], scale)


def classifiers(folder: Path) -> list[Path]:
    """The ``.npz`` files of a folder that ``read_file`` reads; others may hold predictive distributions."""
    fitted_classifiers = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(verified(path)) as archive:
            if "labels" in archive and ("logits" in archive or "probs" in archive):
                fitted_classifiers.append(path)
    return fitted_classifiers


def write_shipped(folder: Path) -> None:
    """Train models on two data sets of scikit-learn, and write their out-of-sample predictions, one file each."""
    for name, predictions in shipped():
        np.savez(folder / f"{name}.npz", probs=predictions.values, labels=predictions.labels)


def shipped() -> Iterator[tuple[str, FilePredictions]]:
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models: dict[str, Callable[[], Any]] = {
        "naive-bayes": GaussianNB,
        "random-forest": lambda: RandomForestClassifier(50, random_state=0),
        "adaboost": lambda: AdaBoostClassifier(random_state=0),
        "neural-network": lambda: make_pipeline(StandardScaler(), MLPClassifier((32,), max_iter=500, random_state=0)),
    }
    for data, load in (("digits", load_digits), ("breast-cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        seen, unseen = np.split(order, [int(_TRAINED * len(y))])
        for name, model in models.items():
            yield (
                f"{data}-{name}",
                FilePredictions(model().fit(X[seen], y[seen]).predict_proba(X[unseen]), y[unseen], "probability"),
            )
