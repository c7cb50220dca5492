"""Classifiers of digits, and what they predict of noisy digits before and after temperature scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant.calibrators.fitting import Fitting
from calibrant.calibrators.method import FitContext
from calibrant.core.batch import read_batch

Floats = npt.NDArray[np.float64]
#: Fits a classifier to rows ``(n, 64)`` in [0, 1] and labels with a seed; returns a function from rows to logits.
Train = Callable[[Floats, npt.NDArray[np.int64], int], Callable[[Floats], Floats]]

#: Random splits of the digits into rows of training, of temperature scaling and of the test.
SPLITS = 6
_TRAINED, _SCALED = 600, 400
#: The standard deviation of the noise at severity 1, as a fraction of the range of a pixel; severity 0 has none.
SEVERITIES = range(6)
_NOISE = 0.12
SMOOTHINGS = (0.0, 0.01, 0.03, 0.1, 0.2, 0.4)
_EPOCHS, _BATCH, _RATE = 60, 64, 0.01
_LEAST = 1e-6


class SeverityLogits(NamedTuple):
    """Logits ``(n, K)`` of one severity before and after the temperature of clean digits, and labels ``(n,)``."""

    before: Floats
    after: Floats
    labels: npt.NDArray[np.int64]


def network(hidden: int, smoothing: float = 0.0) -> Train:
    """A network with one hidden layer, trained with the log loss and label smoothing (Szegedy et al. 2016)."""

    def train(X: Floats, y: npt.NDArray[np.int64], seed: int) -> Callable[[Floats], Floats]:
        import torch

        with torch.random.fork_rng():
            torch.manual_seed(seed)
            layers = torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
            optimizer = torch.optim.Adam(layers.parameters(), lr=_RATE)
            rows, labels = torch.from_numpy(X).float(), torch.from_numpy(y)
            for _ in range(_EPOCHS):
                order = torch.randperm(len(rows))
                for start in range(0, len(rows), _BATCH):
                    part = order[start : start + _BATCH]
                    loss = torch.nn.functional.cross_entropy(
                        layers(rows[part]), labels[part], label_smoothing=smoothing
                    )
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()

        def logits(rows: Floats) -> Floats:
            with torch.no_grad():
                outputs: Floats = layers(torch.from_numpy(rows).float()).double().numpy()
            return outputs

        return logits

    return train


def of_scikit_learn(make: Callable[[int], Any]) -> Train:
    """A classifier of scikit-learn; probabilities below 1e-6 are raised to it."""

    def train(X: Floats, y: npt.NDArray[np.int64], seed: int) -> Callable[[Floats], Floats]:
        fitted = make(seed).fit(X, y)
        return lambda rows: np.log(np.maximum(fitted.predict_proba(rows), _LEAST))

    return train


def families() -> Mapping[str, Mapping[str, Train]]:
    """Four families of three classifiers each."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    def logistic(strength: float) -> Train:
        return of_scikit_learn(lambda _: LogisticRegression(C=strength, max_iter=2000))

    def forest(trees: int) -> Train:
        return of_scikit_learn(lambda seed: RandomForestClassifier(trees, random_state=seed))

    def bayes(smoothing: float) -> Train:
        return of_scikit_learn(lambda _: GaussianNB(var_smoothing=smoothing))

    return {
        "network": {f"{hidden} units": network(hidden) for hidden in (8, 32, 128)},
        "logistic regression": {f"C = {strength:g}": logistic(strength) for strength in (0.03, 1.0, 30.0)},
        "random forest": {f"{trees} trees": forest(trees) for trees in (10, 50, 200)},
        "naive Bayes": {f"smoothing {smoothing:g}": bayes(smoothing) for smoothing in (1e-3, 1e-2, 1e-1)},
    }


def smoothed() -> Mapping[str, Train]:
    """The largest network with each amount of label smoothing."""
    return {f"{smoothing:g}": network(128, smoothing) for smoothing in SMOOTHINGS}


def predictions(train: Train, splits: int = SPLITS) -> list[SeverityLogits]:
    """The predictions of every severity, with the test rows of all splits."""
    parts = [list(_of_split(train, seed)) for seed in range(splits)]
    return [
        SeverityLogits(*(np.concatenate(arrays) for arrays in zip(*of_severity, strict=True)))
        for of_severity in zip(*parts, strict=True)
    ]


def temperature_of(logits: Floats, labels: npt.NDArray[np.int64]) -> float:
    """The temperature with the smallest log loss: above 1 if the logits are overconfident."""
    fitted = Fitting.read("temperature", {}, "canonical").run(read_batch(logits, labels, scale="logit"), FitContext())
    return float(fitted.function.parameters()["temperature"])


def _of_split(train: Train, seed: int) -> Iterator[SeverityLogits]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X / 16.0, y.astype(np.int64)
    random = np.random.default_rng(seed)
    trained, scaled, tested = np.split(random.permutation(len(y)), [_TRAINED, _TRAINED + _SCALED])
    logits = train(X[trained], y[trained], seed)
    temperature = temperature_of(logits(X[scaled]), y[scaled])
    noise = random.standard_normal(X[tested].shape)
    for severity in SEVERITIES:
        outputs = logits(np.clip(X[tested] + _NOISE * severity * noise, 0.0, 1.0))
        yield SeverityLogits(outputs, outputs / temperature, y[tested])
