"""Write the predictions of a naive Bayes classifier for 1,797 handwritten digits as CSV.

The columns are label and prob_0 to prob_9. The predictions are out-of-sample (5-fold cross-validation). The
classifier is strongly overconfident.
"""

from __future__ import annotations

import csv
import sys
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def sample() -> None:
    write_sample(sys.stdout)


def write_sample(out: IO[str]) -> None:
    """Write the CSV, one row per digit."""
    digits = naive_bayes()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["label", *(f"prob_{k}" for k in range(digits.predictions.shape[1]))])
    for label, row in zip(digits.labels.tolist(), digits.predictions.tolist(), strict=True):
        rows.writerow([label, *row])


class Classifier(NamedTuple):
    """Out-of-sample predictions of a classifier, with the labels."""

    title: str
    predictions: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]

    def halves(self) -> list[Classifier]:
        """Split at random into two halves, one to fit a map and one to evaluate it."""
        import numpy as np

        order = np.random.default_rng(0).permutation(len(self.labels))
        return [Classifier(self.title, self.predictions[h], self.labels[h]) for h in np.array_split(order, 2)]


def boosted() -> Classifier:
    """Predictions of AdaBoost on scikit-learn's handwritten digits: is the digit 5 or more?"""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.ensemble import AdaBoostClassifier

    X, digit = load_digits(return_X_y=True)
    labels = (digit >= 5).astype(np.int64)
    return Classifier("AdaBoost, 5 or more", _held_out(AdaBoostClassifier(random_state=0), X, labels)[:, 1], labels)


def naive_bayes() -> Classifier:
    """Predictions of naive Bayes on scikit-learn's handwritten digits, ten classes."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB

    X, digit = load_digits(return_X_y=True)
    return Classifier("Naive Bayes, 10 digits", _held_out(GaussianNB(), X, digit), digit.astype(np.int64))


def _held_out(model: Any, X: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Out-of-fold predictions (5 folds)."""
    from sklearn.model_selection import cross_val_predict

    predictions: npt.NDArray[np.float64] = cross_val_predict(model, X, labels, cv=5, method="predict_proba")
    return predictions
