"""Agreement with other libraries: differences with their reasons, and edge cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import calibrant
from benchmarks.peers.data import Array, Labels, binary, matrix
from calibrant.core.errors import CalibrationError

BINS = 15
#: Rows of the data; smaller differences are rounding.
N, ROUNDING = 100_000, 1e-9
#: A library's value; it may raise.
Number = Callable[[], Any]


class SharedDefinition(NamedTuple):
    """A shared definition: our measure, the library's value, and the reason for a difference."""

    what: str
    measure: dict[str, Any]
    peer: str
    theirs: Number
    because: str = ""
    reduction: str | None = None
    debiased: bool = False


def rows() -> list[str]:
    """The table of shared definitions."""
    p, y = binary(N)
    probs, labels = matrix(20_000, 10)
    comparisons = [compared(shared, p, y) for shared in _of_binary(p, y)]
    rounded = np.round(p, 2)
    comparisons += [compared(shared, rounded, y) for shared in _on_borders(rounded, y)]
    wide = probs.astype(np.float64)
    wide /= wide.sum(axis=1, keepdims=True)  # calibrant renormalises rows, other libraries do not
    comparisons += [compared(shared, wide, labels) for shared in _of_matrix(wide, labels)]
    small, few = wide[:2_000], labels[:2_000]
    return [*comparisons, *(compared(shared, *data) for shared, data in _of_kernels(p, y, small, few))]


def _of_binary(p: Array, y: Labels) -> list[SharedDefinition]:
    import calibration
    import torch
    from calibration.utils import get_equal_prob_bins, lower_bound_scaling_ce
    from netcal.metrics import ECE, MCE
    from torchmetrics.functional.classification import binary_calibration_error

    tensors = torch.from_numpy(p), torch.from_numpy(y)

    def by_torchmetrics(norm: str) -> Number:
        return lambda: binary_calibration_error(*tensors, n_bins=BINS, norm=norm).item()

    def by_square(debias: bool) -> Number:
        return lambda: lower_bound_scaling_ce(p, y, 2, debias, BINS, get_equal_prob_bins)

    def debiased() -> float:
        np.random.seed(0)  # noqa: NPY002 - it draws from the global generator
        return float(calibration.get_ece(p, y, debias=True, num_bins=BINS))

    width = {"binning": "equal-width", "n_bins": BINS}
    error, root, largest = {"name": "ece", **width}, {"name": "rmsce", **width}, {"name": "mce", **width}
    mass = {"name": "ece", "n_bins": BINS}
    return [
        SharedDefinition("ECE, equal-width", error, "netcal", lambda: ECE(BINS).measure(p, y)),
        SharedDefinition("ECE, equal-width", error, "torchmetrics", by_torchmetrics("l1")),
        SharedDefinition(
            "ECE, equal-width", error, "uncertainty-calibration", lambda: calibration.get_ece(p, y, num_bins=BINS)
        ),
        SharedDefinition("MCE, equal-width", largest, "netcal", lambda: MCE(BINS).measure(p, y)),
        SharedDefinition("MCE, equal-width", largest, "torchmetrics", by_torchmetrics("max")),
        SharedDefinition("RMSCE, equal-width", root, "torchmetrics", by_torchmetrics("l2")),
        SharedDefinition("RMSCE, equal-width", root, "uncertainty-calibration", by_square(debias=False)),
        SharedDefinition("RMSCE, debiased", root, "uncertainty-calibration", by_square(debias=True), debiased=True),
        SharedDefinition(
            "ECE, debiased",
            error,
            "uncertainty-calibration",
            debiased,
            "they use the mean of 1,000 normal draws, we use its closed form",
            debiased=True,
        ),
        SharedDefinition(
            "ECE, equal-mass", mass, "uncertainty-calibration", lambda: calibration.get_ece_em(p, y, num_bins=BINS)
        ),
        SharedDefinition(
            "ECE, equal-mass",
            mass,
            "netcal",
            lambda: ECE(BINS, equal_intervals=False).measure(p, y),
            "their bin edges are interpolated quantiles: a row may change its bin",
        ),
    ]


def _on_borders(p: Array, y: Labels) -> list[SharedDefinition]:
    import torch
    from calibration.utils import get_equal_prob_bins, lower_bound_scaling_ce
    from torchmetrics.functional.classification import binary_calibration_error

    tensors = torch.from_numpy(p), torch.from_numpy(y)
    what, root = "RMSCE, 10 bins, p rounded to 1/100", {"name": "rmsce", "binning": "equal-width", "n_bins": 10}

    def by_torchmetrics() -> float:
        return float(binary_calibration_error(*tensors, n_bins=10, norm="l2"))

    def by_pairs() -> float:
        return float(lower_bound_scaling_ce(p, y, 2, False, 10, get_equal_prob_bins))

    own = "p = 1 has a bin of its own, and 0.3 is below torch's edge"
    return [
        SharedDefinition(what, root, "torchmetrics", by_torchmetrics, own),
        SharedDefinition(what, root, "uncertainty-calibration", by_pairs, "its bins are closed on the right"),
        SharedDefinition(
            f"{what}, closed on the right", {**root, "closed": "right"}, "uncertainty-calibration", by_pairs
        ),
    ]


def _of_matrix(p: Array, labels: Labels) -> list[SharedDefinition]:
    import calibration
    import torch
    from calibration.utils import get_equal_prob_bins, lower_bound_scaling_ce
    from netcal.metrics import ECE
    from torchmetrics.functional.classification import multiclass_calibration_error

    tensors = torch.from_numpy(p), torch.from_numpy(labels)

    def by_class(power: int) -> Number:
        return lambda: lower_bound_scaling_ce(p, labels, power, False, BINS, get_equal_prob_bins, mode="marginal")

    error = {"name": "ece", "binning": "equal-width", "n_bins": BINS}
    class_wise = {"name": "cwce", "p": 2, "form": "mean", "binning": "equal-width", "n_bins": BINS}
    what = "ECE of the confidence, equal-width"
    return [
        SharedDefinition(what, error, "netcal", lambda: ECE(BINS).measure(p, labels)),
        SharedDefinition(
            what,
            error,
            "torchmetrics",
            lambda: multiclass_calibration_error(*tensors, num_classes=p.shape[1], n_bins=BINS).item(),
            "it always sums in float32",
        ),
        SharedDefinition(what, error, "uncertainty-calibration", lambda: calibration.get_ece(p, labels, num_bins=BINS)),
        SharedDefinition(
            "SCE, equal-width",
            {"name": "sce", "n_bins": BINS},
            "uncertainty-calibration",
            by_class(1),
            reduction="classwise",
        ),
        SharedDefinition(
            "CWCE_2, mean form", class_wise, "uncertainty-calibration", by_class(2), reduction="classwise"
        ),
    ]


def _of_kernels(
    p: Array, y: Labels, probs: Array, labels: Labels
) -> list[tuple[SharedDefinition, tuple[Array, Labels]]]:
    import relplot
    from netcal.metrics import MMCE

    smooth = SharedDefinition(
        "smooth ECE",
        {"name": "smooth-ece"},
        "relplot",
        lambda: relplot.smECE(p, y),
        "they evaluate the kernel on a grid and find the bandwidth to 1/1000",
    )
    kernel = SharedDefinition(
        "MMCE of the confidence", {"name": "mmce"}, "netcal", lambda: MMCE().measure(probs, labels)
    )
    return [(smooth, (p, y)), (kernel, (probs, labels))]


def compared(shared: SharedDefinition, p: Array, y: Labels) -> str:
    """The row of one shared definition; larger differences have a reason or are marked as unexplained."""
    theirs = float(shared.theirs())
    if shared.measure["name"] not in calibrant.MEASURES:
        return f"| {shared.what} | {shared.peer} | {theirs:.9f} | not in the catalogue yet | | |"
    result = calibrant.evaluate(p, y, measures=[{**shared.measure, "as": "ours"}], reduction=shared.reduction)
    answer = result.measures["ours"]
    ours = answer.debiased if shared.debiased else answer.value
    if ours is None:
        return f"| {shared.what} | {shared.peer} | {theirs:.9f} | {answer.problem} | | |"
    difference = theirs - ours
    apart = "0" if difference == 0.0 else f"{difference:+.1e}"
    because = "rounding" if abs(difference) <= ROUNDING else shared.because or "**unexplained**"
    return f"| {shared.what} | {shared.peer} | {theirs:.9f} | {ours:.9f} | {apart} | {because} |"


class Edge(NamedTuple):
    """An edge case of the definition, and its correct result."""

    what: str
    right: str
    p: list[float]
    y: list[int]
    n_bins: int = BINS


EDGES = (
    Edge("p = 0.95, 0.95, 1, 1; y = 1, 1, 0, 0", "1 is in the last bin: 0.475", [0.95, 0.95, 1.0, 1.0], [1, 1, 0, 0]),
    Edge("p = 0.2, 0.4, 0.6, 0.8, 5 bins; y = 1, 0, 1, 0", "one bin each: 0.6", [0.2, 0.4, 0.6, 0.8], [1, 0, 1, 0], 5),
    Edge("p = 0.29, 0.295, 100 bins; y = 1, 0", "one bin, [0.29, 0.3): 0.2075", [0.29, 0.295], [1, 0], 100),
    Edge("p = 0.3 a hundred times, a quarter positive", "one cell: 0.05", [0.3] * 100, [1, 0, 0, 0] * 25),
    Edge("one of four values is NaN", "refused", [0.2, math.nan, 0.7, 0.9], [0, 1, 1, 1]),
    Edge("one of four values is 1.5", "refused", [0.2, 1.5, 0.7, 0.9], [0, 1, 1, 1]),
)


def edges() -> list[str]:
    """The table of edge cases: the result of each library, equal-width and equal-mass if it has both."""
    lines = []
    for edge in EDGES:
        p, y = np.array(edge.p), np.array(edge.y, dtype=np.int64)
        answers = " | ".join(shown(number) for number in _at_edge(p, y, edge.n_bins).values())
        lines.append(f"| {edge.what} | {edge.right} | {answers} |")
    return lines


EDGE_COLUMNS = (
    "calibrant",
    "calibrant, equal-mass",
    "netcal",
    "netcal, equal-mass",
    "torchmetrics",
    "uncertainty-calibration",
    "relplot, binned",
    "scikit-learn's curve",
)


def _at_edge(p: Array, y: Labels, n_bins: int) -> dict[str, Number]:
    import calibration
    import torch
    from netcal.metrics import ECE
    from relplot.metrics import binnedECE
    from sklearn.calibration import calibration_curve
    from torchmetrics.functional.classification import binary_calibration_error

    def ours(binning: str) -> Number:
        measure = {"name": "ece", "binning": binning, "n_bins": n_bins}
        return lambda: calibrant.evaluate(p, y, measures=[measure]).measures["ece"].value

    def bins_of_curve() -> str:
        shares, means = calibration_curve(y, p, n_bins=n_bins)
        return f"bins: {len(shares)}{'' if np.isfinite(means).all() else ', one with NaN'}"

    numbers: tuple[Number, ...] = (
        ours("equal-width"),
        ours("equal-mass"),
        lambda: ECE(n_bins).measure(p, y),
        lambda: ECE(n_bins, equal_intervals=False).measure(p, y),
        lambda: binary_calibration_error(torch.from_numpy(p), torch.from_numpy(y), n_bins=n_bins).item(),
        lambda: calibration.get_ece(p, y, num_bins=n_bins),
        lambda: binnedECE(p, y, nbins=n_bins),
        bins_of_curve,
    )
    return dict(zip(EDGE_COLUMNS, numbers, strict=True))


def shown(number: Number) -> str:
    """The value in a few digits, or the error."""
    try:
        figure = number()
    except CalibrationError as error:
        return f"refused: {error.code}"
    except Exception as error:  # any exception is a result here
        return type(error).__name__
    return figure if isinstance(figure, str) else f"{float(figure):.4f}".rstrip("0").rstrip(".")
