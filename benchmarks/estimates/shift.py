"""Label shift on real classifiers: class weights beside BBSE, EM-TS and EM-BCTS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import calibrant
from benchmarks.data_sets import verified
from calibrant.core.cells import Floats
from calibrant.monitoring.label_shift import class_frequencies

CLASSES, ALPHA, ROWS, DRAWS = 10, 0.1, 8_000, 100
Integers = npt.NDArray[np.int64]


def bcts(logits: Floats, labels: Integers) -> tuple[float, Floats]:
    """Bias-corrected temperature scaling: softmax(t z + b) of the lowest log loss (Alexandari et al. 2020)."""
    rows, truth = np.arange(len(labels)), np.eye(logits.shape[1])[labels]

    def loss(theta: Floats) -> tuple[float, Floats]:
        scores = logits * np.exp(theta[0]) + theta[1:]
        apart = (softmax(scores, axis=1) - truth) / len(labels)
        gradient = np.append(np.sum(apart * logits) * np.exp(theta[0]), apart.sum(axis=0))
        return -float(log_softmax(scores, axis=1)[rows, labels].mean()), gradient

    optimum = minimize(loss, np.zeros(logits.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 2_000})
    return float(np.exp(optimum.x[0])), optimum.x[1:]


def weights_by_confusion(predicted: Integers, labels: Integers, window: Integers) -> Floats:
    """BBSE (Lipton et al. 2018)."""
    joint = np.zeros((CLASSES, CLASSES))
    np.add.at(joint, (predicted, labels), 1.0 / len(labels))
    share = np.bincount(window, minlength=CLASSES) / len(window)
    ratios: Floats = np.maximum(np.linalg.solve(joint, share), 0.0)
    return ratios


def errors(path: Path) -> dict[str, float] | None:
    """The median over draws of the mean squared error of the class weights; None for other numbers of classes."""
    with np.load(verified(path)) as file:
        scale: Any = "logit" if "logits" in file else "probability"
        predictions, labels = np.asarray(file["logits" if "logits" in file else "probs"], np.float64), file["labels"]
    labels = labels.astype(np.int64)
    if predictions.shape[1] != CLASSES:
        return None
    order = np.random.default_rng(1).permutation(len(labels))
    fitted, drawn = order[: len(order) // 2], order[len(order) // 2 :]
    logits = predictions if scale == "logit" else np.log(np.clip(predictions, 2.0**-52, None))
    steepness, bias = bcts(logits[fitted], labels[fitted])
    calibrated = {"EM-BCTS": softmax(logits * steepness + bias, axis=1)}
    for name, method in (("EM-TS", "temperature"), ("Calibrant", "sms")):
        map_ = calibrant.fit(method, predictions[fitted], labels[fitted], scale=scale)
        calibrated[name] = map_.apply(predictions)
    before = np.bincount(labels[fitted], minlength=CLASSES) / len(fitted)
    pools = [drawn[labels[drawn] == k] for k in range(CLASSES)]
    by_method: dict[str, list[float]] = {}
    for draw in range(DRAWS):
        random = np.random.default_rng([7, draw])
        q = random.dirichlet(np.full(CLASSES, ALPHA))
        rows = np.concatenate(
            [random.choice(pool, count) for pool, count in zip(pools, random.multinomial(ROWS, q), strict=True)]
        )
        estimates = {
            "BBSE": weights_by_confusion(predictions[fitted].argmax(1), labels[fitted], predictions[rows].argmax(1))
        }
        for name, c in calibrated.items():
            mean = c[fitted].mean(axis=0)
            estimates[name] = class_frequencies(c[rows], mean) / mean
        for name, weights in estimates.items():
            by_method.setdefault(name, []).append(float(np.mean((weights - q / before) ** 2)))
    return {name: float(np.median(distances)) for name, distances in by_method.items()}
