"""Predictions and labels that tests draw; a generator in place of a seed is continued."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

Seed = int | list[int] | np.random.Generator
Drawn = tuple[npt.NDArray[np.float64], npt.NDArray[Any]]


def draw_event(n: int, seed: Seed = 0, power: float = 1.0, dtype: Any = np.int64) -> Drawn:
    """Uniform predictions, and labels that are positive with probability ``p**power``."""
    random = np.random.default_rng(seed)
    p = random.random(n)
    return p, (random.random(n) < p**power).astype(dtype)


def draw_distorted(n: int, seed: Seed = 0, power: float = 1.5, dtype: Any = np.int64) -> Drawn:
    """Powers of uniform probabilities, and labels drawn from the probabilities themselves."""
    p, y = draw_event(n, seed, dtype=dtype)
    return p**power, y


def draw_classes(n: int, n_classes: int = 3, seed: Seed = 0) -> Drawn:
    """Rows of uniform probabilities of the classes, and labels drawn from them."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(n_classes), n)
    return p, np.array([random.choice(n_classes, p=row) for row in p])


LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def draw_forecasts(
    n: int = 800,
    seed: Seed = 0,
    *,
    kind: str = "quantiles",
    spread: float = 0.3,
    factor: float = 1.0,
    shift: float = 0.0,
) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
    """Outcomes that are moved by ``shift`` and ``factor`` times as spread as forecast, and forecasts of this kind."""
    random = np.random.default_rng(seed)
    mean, std = random.normal(0, 3, n), np.exp(random.normal(0, spread, n))
    y = mean + shift + factor * std * random.standard_normal(n)
    quantiles = mean[:, None] + std[:, None] * norm.ppf(LEVELS)
    kinds: dict[str, dict[str, Any]] = {
        "normal": {"mean": mean, "variance": std**2},
        "quantiles": {"quantiles": quantiles, "levels": LEVELS},
        "samples": {"samples": mean[:, None] + std[:, None] * random.standard_normal((n, 99))},
        "interval": {"lower": quantiles[:, 0], "upper": quantiles[:, -1], "level": 0.9},
    }
    return y, kinds[kind]
