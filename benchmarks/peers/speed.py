"""Time at a million binary rows, interleaved in one process."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import calibrant
from benchmarks.peers.data import Array, Labels, binary
from benchmarks.timing import medians

N, ROUNDS, BINS = 1_000_000, 5, 15
#: Resamples of a bootstrap, and the number timed if each is slow.
RESAMPLES, TIMED = 1_000, 3
EQUAL_WIDTH = [{"name": "ece", "binning": "equal-width"}]
#: The binnings whose intervals are timed.
BINNINGS = ("equal-width", "equal-mass")

Seconds = dict[str, float]


def bare_equal_width(p: Array, y: Labels) -> float:
    """The equal-width formula with numpy alone: no checks, no debiasing, edges by rounding."""
    index = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    return float(np.abs(np.bincount(index, p, BINS) - np.bincount(index, y, BINS)).sum() / len(p))


def equal_width() -> Seconds:
    """The error over equal-width bins."""
    import calibration
    import torch
    from netcal.metrics import ECE
    from sklearn.calibration import calibration_curve
    from torchmetrics.classification import BinaryCalibrationError

    p, y = binary(N)
    tensors = torch.from_numpy(p), torch.from_numpy(y)
    return medians(
        {
            "calibrant": lambda: calibrant.evaluate(p, y, measures=EQUAL_WIDTH),
            "bare": lambda: bare_equal_width(p, y),
            "torchmetrics": lambda: BinaryCalibrationError(n_bins=BINS)(*tensors),
            "netcal": lambda: ECE(BINS).measure(p, y),
            "uncertainty-calibration": lambda: calibration.get_ece(p, y, num_bins=BINS),
            "scikit-learn": lambda: calibration_curve(y, p, n_bins=BINS),
        },
        rounds=ROUNDS,
    )


def sorted_panel() -> Seconds:
    """Equal-mass bins, the sweep and the KS error in one call; other libraries have only the first."""
    import calibration
    from netcal.metrics import ECE
    from sklearn.calibration import calibration_curve

    p, y = binary(N)
    return medians(
        {
            "calibrant": lambda: calibrant.evaluate(p, y, measures=["ece", "ece-sweep", "ks"]),
            "bare": lambda: np.argsort(p),
            "netcal": lambda: ECE(BINS, equal_intervals=False).measure(p, y),
            "uncertainty-calibration": lambda: calibration.get_ece_em(p, y, num_bins=BINS),
            "scikit-learn": lambda: calibration_curve(y, p, n_bins=BINS, strategy="quantile"),
        },
        rounds=ROUNDS,
    )


def bootstrap() -> Seconds:
    """A thousand resamples of the error; slow ones are extrapolated from three."""
    import calibration

    p, y = binary(N)
    random, pairs = np.random.default_rng(1), list(zip(p, y, strict=True))

    def one_by_numpy() -> float:
        chosen = random.integers(0, N, N)
        return bare_equal_width(p[chosen], y[chosen])

    def one_by_pairs() -> float:
        chosen = zip(*calibration.utils.resample(pairs), strict=True)
        return float(calibration.get_ece(*map(np.array, chosen), num_bins=BINS))

    seconds = medians(
        {
            "equal-width": lambda: calibrant.evaluate(p, y, measures=EQUAL_WIDTH, interval=0.95, resamples=RESAMPLES),
            "equal-width alone": lambda: calibrant.evaluate(p, y, measures=EQUAL_WIDTH),
            "equal-mass": lambda: calibrant.evaluate(p, y, measures=["ece"], interval=0.95, resamples=RESAMPLES),
            "equal-mass alone": lambda: calibrant.evaluate(p, y, measures=["ece"]),
        },
        rounds=ROUNDS,
    )
    return seconds | {"numpy": _extrapolated(one_by_numpy), "uncertainty-calibration": _extrapolated(one_by_pairs)}


def smooth() -> Seconds | None:
    """Smooth calibration error; None if the catalogue has none."""
    import relplot

    if "smooth-ece" not in calibrant.MEASURES:
        return None
    p, y = binary(N)
    return medians(
        {
            "calibrant": lambda: calibrant.evaluate(p, y, measures=["smooth-ece"]),
            "relplot": lambda: relplot.smECE(p, y),
        },
        rounds=ROUNDS,
    )


def _extrapolated(resample: Callable[[], object]) -> float:
    resample()
    began = time.perf_counter()
    for _ in range(TIMED):
        resample()
    return (time.perf_counter() - began) / TIMED * RESAMPLES
