"""``calibrant sample``: the predictions of a real classifier, to try things with."""

from __future__ import annotations

import csv
import sys
from typing import IO


def sample() -> None:
    """Write what a naive Bayes classifier says of 1,797 handwritten digits, as CSV: label, prob_0 to prob_9.

    Each row is predicted by a model that was trained without it. The classifier is far too sure of itself.
    """
    write_sample(sys.stdout)


def write_sample(out: IO[str]) -> None:
    """The file, a row a digit."""
    from cli.demo import naive_bayes

    digits = naive_bayes()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["label", *(f"prob_{k}" for k in range(digits.predictions.shape[1]))])
    for label, row in zip(digits.labels.tolist(), digits.predictions.tolist(), strict=True):
        rows.writerow([label, *row])
