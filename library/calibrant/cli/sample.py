"""``calibrant sample``: the predictions of a real classifier, to try things with."""

from __future__ import annotations

import csv
import sys
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def sample() -> None:
    """Write a naive Bayes classifier's predictions of 1,797 handwritten digits as CSV.

    The columns are label and prob_0 to prob_9. Each row is predicted by a model that was trained without it. The
    classifier is far too sure of itself.
    """
    write_sample(sys.stdout)


def write_sample(out: IO[str]) -> None:
    """Write the file, a row for each digit."""
    digits = naive_bayes()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["label", *(f"prob_{k}" for k in range(digits.predictions.shape[1]))])
    for label, row in zip(digits.labels.tolist(), digits.predictions.tolist(), strict=True):
        rows.writerow([label, *row])


class Classifier(NamedTuple):
    """Predictions that a classifier made for rows it had not seen."""

    title: str
    predictions: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]

    def halves(self) -> list[Classifier]:
        """Two random halves: maps are fitted on the first and judged on the second."""
        import numpy as np

        order = np.random.default_rng(0).permutation(len(self.labels))
        return [Classifier(self.title, self.predictions[h], self.labels[h]) for h in np.array_split(order, 2)]


def boosted() -> Classifier:
    """AdaBoost on scikit-learn's handwritten digits, whether one is 5 or more."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.ensemble import AdaBoostClassifier

    X, digit = load_digits(return_X_y=True)
    labels = (digit >= 5).astype(np.int64)
    return Classifier("AdaBoost, 5 or more", _held_out(AdaBoostClassifier(random_state=0), X, labels)[:, 1], labels)


def naive_bayes() -> Classifier:
    """Naive Bayes on scikit-learn's handwritten digits, which of the ten one is."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB

    X, digit = load_digits(return_X_y=True)
    return Classifier("Naive Bayes, 10 digits", _held_out(GaussianNB(), X, digit), digit.astype(np.int64))


def _held_out(model: Any, X: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """What is predicted of each row by a model that was trained without it (5 folds)."""
    from sklearn.model_selection import cross_val_predict

    predictions: npt.NDArray[np.float64] = cross_val_predict(model, X, labels, cv=5, method="predict_proba")
    return predictions
