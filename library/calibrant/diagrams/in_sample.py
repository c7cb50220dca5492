"""Summary of the rows of a fit before and after the map, which is kept with the map."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant.core.batch import Batch
from calibrant.core.binning import BinnedCells, equal_mass
from calibrant.core.digest import digest
from calibrant.core.reductions import Event, Vector, reduce, whole_vector
from calibrant.diagrams.reliability import counts
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.binned import expected_calibration_error
from calibrant.measures.proper import mean_over_rows, mean_score

#: Number of equal-mass bins; diagrams of 50, 25, 20, 10, 5, ... bins can be derived from them.
KEPT_BINS = 100
#: The most classes for which the labels are counted.
MOST_COUNTED = 1000
_ECE_BINS = 15


@dataclass(frozen=True)
class FitSummary:
    """The rows of a fit before or after the map.

    ``log_loss`` (nats) and ``brier`` are those of the event of the map, or of the whole vector. ``ece`` (15 equal-mass
    bins, not debiased) and ``bins``, with ``counts (b,)`` of their rows, are those of the event, or of the confidence.
    """

    log_loss: float
    brier: float
    ece: float
    bins: BinnedCells
    counts: tuple[int, ...]

    @property
    def scores(self) -> dict[str, float]:
        """The scores by the names of their measures."""
        return {"log-loss": self.log_loss, "brier": self.brier, "ece": self.ece}


@dataclass(frozen=True)
class InSampleRows:
    """The rows of a fit, ``before`` and ``after`` the map.

    Both are in-sample, so the improvement is optimistic. ``label_rate`` in [0, 1] is the weighted frequency of the
    event; None for a map of the whole vector. ``label_counts (K,)`` are the rows of each label; None for predictions
    (n,) and for more than 1,000 classes. ``binned`` names the event of the bins.
    """

    n: int
    digest: str
    label_rate: float | None
    label_counts: tuple[int, ...] | None
    binned: str
    before: FitSummary
    after: FitSummary


def in_sample(batch: Batch, fitted: CalibrationMap) -> InSampleRows:
    """Summarise the rows that a map was fitted to, before and after it. O(n K + n log n).

    Raises what ``apply`` raises if the batch does not match the map.

    >>> import calibrant
    >>> from calibrant.core.batch import read_batch
    >>> rows = read_batch([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> summary = in_sample(rows, calibrant.fit("isotonic", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]))
    >>> summary.n, summary.label_rate, summary.before.counts, round(summary.after.brier, 3)
    (4, 0.5, (1, 1, 1, 1), 0.125)
    """
    before, after = _sides(batch, fitted)
    rate = mean_over_rows(before.y.astype(np.float64), before.w) if isinstance(before, Event) else None
    return InSampleRows(
        len(batch),
        digest(batch),
        rate,
        _label_counts(batch),
        "confidence" if fitted.of_vector else fitted.reduction,
        _fit_summary(before),
        _fit_summary(after),
    )


def seconds(n: int, n_classes: int | None) -> float:
    """Estimate the seconds of ``in_sample``."""
    return 4e-7 * n + 5e-8 * n * (n_classes or 1)


def _sides(batch: Batch, fitted: CalibrationMap) -> tuple[Event, Event] | tuple[Vector, Vector]:
    p = fitted.apply_checked(batch.predictions)
    if fitted.of_vector:
        after = replace(batch, predictions=replace(batch.predictions, given=p, scale="probability"))
        return whole_vector(batch), whole_vector(after)
    event = reduce(batch, fitted.reduction)
    return event, replace(event, p=p, logit=None, whole=None)


def _fit_summary(subject: Event | Vector) -> FitSummary:
    event = subject if isinstance(subject, Event) else subject.confidence()
    bins = equal_mass(event.cells, KEPT_BINS)
    ece, _ = expected_calibration_error(equal_mass(event.cells, _ECE_BINS), 1)
    rows = tuple(int(count) for count in counts(event, bins))
    return FitSummary(mean_score(subject, "log-loss"), mean_score(subject, "brier"), ece, bins, rows)


def _label_counts(batch: Batch) -> tuple[int, ...] | None:
    n_classes = batch.predictions.n_classes
    if n_classes is None or n_classes > MOST_COUNTED:
        return None
    return tuple(np.bincount(batch.labels, minlength=n_classes).tolist())
