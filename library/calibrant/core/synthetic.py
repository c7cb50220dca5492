"""Synthetic predictions with known true probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from scipy.special import expit, softmax

from calibrant.core.arguments import explained
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.core.options import plain

#: The scale matrix of the inverse Wishart distribution is the identity divided by this.
_TEMPER = 0.01


def _whole(pointer: str, value: object, least: int) -> int:
    number = plain(value)
    if type(number) is not int or number < least:
        raise InvalidOption.at(pointer, f"must be an integer of at least {least}")
    return number


def _is_number(value: object) -> bool:
    return type(plain(value)) in (int, float)


@explained
def logistic_normal(
    n: int, *, n_classes: int = 100, temperature: float = 1.0, accuracy: float | None = None, seed: int
) -> tuple[Floats, Integers, Floats]:
    """Draw multiclass logits, labels and the true probabilities.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    n_classes : int, default 100
        Number of classes K, at least 2.
    temperature : float, default 1.0
        Factor on the true logits, above 0. It is the temperature that recalibrates them: above 1 the logits are
        overconfident, and at 1 they are calibrated.
    accuracy : float, optional
        Expected accuracy of the rows, above 1 / K and below 1. The true logits are divided by the temperature at which
        the mean of the largest true probability is this number; by default they are used as drawn.
    seed : int
        Seed of the generator.

    Returns
    -------
    logits : ndarray, shape (n, K)
        True logits times ``temperature``.
    labels : ndarray of int, shape (n,)
        Labels drawn from the true probabilities.
    probs : ndarray, shape (n, K)
        True probabilities.

    Raises
    ------
    InvalidOption
        If an argument is of the wrong type or out of range.

    See Also
    --------
    shaped_predictions : Predictions of an event with a known calibration map.
    hidden_error : Vectors whose error most measures cannot find.
    fit : ``fit("temperature", logits, labels, scale="logit")`` estimates the temperature.

    Notes
    -----
    The model is that of Gruber & Buettner (2022), appendix G.1. True logits are normal with mean 0 and one covariance
    for all rows, drawn from an inverse Wishart distribution with scale matrix I / 0.01 and K degrees of freedom. The
    paper does not state the degrees of freedom; it reports an accuracy of about 87.6 % for K = 100, which
    ``accuracy=0.876`` sets. With K degrees, the fewest that give a regular K x K matrix, the accuracy over 300 seeds
    has mean 86.3 % and quartiles 81 % and 91 %; with K + 1 it is about 72 %. O(n K^2).

    Examples
    --------
    >>> from calibrant import logistic_normal
    >>> logits, labels, probs = logistic_normal(5, n_classes=3, seed=0)
    >>> logits.shape, labels.shape, probs.sum(axis=1).round(12).tolist()
    ((5, 3), (5,), [1.0, 1.0, 1.0, 1.0, 1.0])
    """
    n, n_classes, seed = _whole("/n", n, 1), _whole("/n_classes", n_classes, 2), _whole("/seed", seed, 0)
    if not _is_number(temperature) or not 0.0 < temperature < np.inf:
        raise InvalidOption.at("/temperature", "must be a positive number")
    if accuracy is not None and not (_is_number(accuracy) and 1.0 / n_classes < accuracy < 1.0):
        raise InvalidOption.at("/accuracy", "must be above 1 / n_classes and below 1")
    from scipy.stats import invwishart  # takes half a second to import

    random = np.random.default_rng(seed)
    covariance = invwishart.rvs(n_classes, np.eye(n_classes) / _TEMPER, random_state=random)
    true = random.standard_normal((n, n_classes)) @ np.linalg.cholesky(covariance).T
    if accuracy is not None:
        true = true / _temperature_of(true, accuracy)
    probabilities = softmax(true, axis=1)
    return temperature * true, _drawn_labels(probabilities, random), probabilities


def _temperature_of(true: Floats, accuracy: float) -> float:
    """Return the temperature at which the mean of the largest probability is ``accuracy``."""
    from scipy.optimize import brentq

    below = true - true.max(axis=1, keepdims=True)

    def excess(log_temperature: float) -> float:
        largest = 1.0 / np.exp(below / np.exp(log_temperature)).sum(axis=1)
        return float(largest.mean()) - accuracy

    return float(np.exp(brentq(excess, -50.0, 50.0, xtol=1e-12)))


def _drawn_labels(probs: Floats, random: np.random.Generator) -> Integers:
    reached = np.cumsum(probs, axis=1) <= random.random((len(probs), 1))
    labels: Integers = np.minimum(reached.sum(axis=1), probs.shape[1] - 1)
    return labels


@explained
def hidden_error(n: int, *, n_classes: int = 3, epsilon: float = 0.01, seed: int) -> tuple[Floats, Integers, Floats]:
    """Draw vectors that are classwise calibrated although the label of each row is deterministic.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    n_classes : int, default 3
        Number of classes K, at least 2.
    epsilon : float, default 0.01
        The squared canonical calibration error is at least 1 - 1 / K - epsilon; above 0 and at most 1 - 1 / K.
    seed : int
        Seed of the generator.

    Returns
    -------
    predictions : ndarray, shape (n, K)
        Distinct vectors near (1/K, ..., 1/K).
    labels : ndarray of int, shape (n,)
        Label of each row.
    probs : ndarray, shape (n, K)
        P(Y = k | predictions): 1 for the label and 0 for the other classes.

    Raises
    ------
    InvalidOption
        If an argument is of the wrong type or out of range.

    See Also
    --------
    logistic_normal : Vectors with another known truth.

    Notes
    -----
    The construction of Gruber & Buettner (2022), Proposition 3.2. Each vector p has one label, drawn once with the
    probabilities p. Given one component p_k, class k has the frequency p_k, so that class-wise errors, KS, ECE and TCE
    are 0 except for sampling noise; yet ``sqrt(mean |probs - p|^2)``, CE_2, is nearly sqrt(1 - 1 / K). The root Brier
    score is an upper bound of CE_2 and shows it. Kernel estimates of CE_2 and SKCE do not: they need several rows near
    each vector. O(n K).

    Examples
    --------
    >>> import calibrant
    >>> predictions, labels, _ = calibrant.hidden_error(10000, seed=0)
    >>> report = calibrant.evaluate(predictions, labels, measures=["root-brier"], reduction="canonical")
    >>> round(report["root-brier"].value, 2)
    0.82
    """
    n, n_classes, seed = _whole("/n", n, 1), _whole("/n_classes", n_classes, 2), _whole("/seed", seed, 0)
    most = 1.0 - 1.0 / n_classes
    if not _is_number(epsilon) or not 0.0 < epsilon <= most:
        raise InvalidOption.at("/epsilon", "must be above 0 and at most 1 - 1 / n_classes")
    random = np.random.default_rng(seed)
    # |p|^2 = 1/K + reach^2 (|d|^2 - 1/K) is at most 1/K + epsilon.
    reach = np.sqrt(epsilon / most)
    predictions = (1.0 - reach) / n_classes + reach * random.dirichlet(np.ones(n_classes), n)
    labels = _drawn_labels(predictions, random)
    return predictions, labels, np.eye(n_classes)[labels]


def _beta(a: float, b: float, m: float) -> Callable[[Floats], Floats]:
    def curve(x: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logits = a * np.log(x) - b * np.log1p(-x) + b * np.log(1 - m) - a * np.log(m)
        return np.asarray(expit(logits))

    return curve


def _stairs(x: Floats) -> Floats:
    def smooth(t: Floats) -> Floats:
        return t - np.sin(t)

    def step(t: Floats) -> Floats:
        return smooth(smooth(3 * np.pi * t)) / (3 * np.pi)

    return step(x + 1 / 3) - step(np.asarray(1 / 3))


#: The five shapes of Kangsepp, Valk & Kull (2022), D.3: the prediction as a function of the true probability.
SHAPES: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {
        "square": np.square,
        "sqrt": np.sqrt,
        "beta1": _beta(0.4, 0.45, 0.4),
        "beta2": _beta(2.0, 2.2, 0.48),
        "stairs": _stairs,
    }
)
#: The mean distance of each shape from the identity over [0, 1].
FULL_ERRORS: Mapping[str, float] = MappingProxyType(
    {
        "square": 1 / 6,
        "sqrt": 1 / 6,
        "beta1": 0.1200232453868561,
        "beta2": 0.10329656755339398,
        "stairs": 0.11403793415685731,
    }
)


@explained
def shaped_predictions(
    n: int, *, shape: str = "beta2", error: float = 0.05, seed: int
) -> tuple[Floats, Integers, Floats]:
    """Draw predictions of an event with one of five known calibration maps.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    shape : {"square", "sqrt", "beta1", "beta2", "stairs"}
        The predictions are too low (square), too high (sqrt), underconfident (beta1), overconfident (beta2), or
        alternately too low and too high (stairs).
    error : float, default 0.05
        Expected calibration error ``E |p - c|``, from 0 to that of the full shape: 1/6 (square, sqrt), 0.120 (beta1),
        0.103 (beta2) or 0.114 (stairs).
    seed : int
        Seed of the generator, at least 0.

    Returns
    -------
    predictions : ndarray, shape (n,)
        Predictions p = (1 - w) c + w f(c), ascending.
    labels : ndarray of int, shape (n,)
        Labels drawn from the true probabilities.
    probs : ndarray, shape (n,)
        True probabilities c, uniform on [0, 1], ascending: the true calibration map at the predictions.

    Raises
    ------
    InvalidOption
        If an argument is of the wrong type or out of range.

    See Also
    --------
    logistic_normal : The same for many classes.

    Notes
    -----
    The synthetic data of Kangsepp, Valk & Kull (2022), appendix D.3. The draws are those of the published code: n in
    {1000, 3000, 10000}, seeds 0 to 4 and errors 0, 0.005, ..., 0.1 give the datasets of its tables, in which w is
    rounded to six digits. The labels of one n and seed do not depend on the shape or the error. O(n log n).

    Examples
    --------
    >>> import calibrant
    >>> predictions, labels, probs = calibrant.shaped_predictions(10000, shape="stairs", error=0.1, seed=0)
    >>> round(float(abs(predictions - probs).mean()), 2)
    0.1
    """
    n, seed = _whole("/n", n, 1), _whole("/seed", seed, 0)
    if not isinstance(shape, str) or shape not in SHAPES:
        raise InvalidOption.at("/shape", f"must be one of {', '.join(SHAPES)}")
    if not _is_number(error) or not 0.0 <= error <= FULL_ERRORS[shape]:
        raise InvalidOption.at("/error", f"must be from 0 to {FULL_ERRORS[shape]:.4f} with the shape {shape}")
    if seed >= 2**32 - n:
        raise InvalidOption.at("/seed", "must be from 0 to 2^32 - n - 1")
    random = np.random.RandomState(seed + n)
    probs = np.sort(random.dirichlet([1, 1], n)[:, 0])
    labels = random.binomial(1, probs)
    w = error / FULL_ERRORS[shape]  # the error is proportional to w
    return (1.0 - w) * probs + w * SHAPES[shape](probs), labels, probs
