"""Coverage of conformal intervals over 1,000 calibration sets.

Writes ``results/conformal.json`` and docs/benchmarks/conformal-coverage.md. The coverage of each fitted interval is
computed from the true distribution, so that nothing but the calibration rows is random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.records import publish, save

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "conformal-coverage.md"
RESULTS = Path(__file__).parent / "results" / "conformal.json"
RUNS, LEVEL = 1000, 0.9
SIZES = (500, 20)
#: Levels of the interval.
ENDS = np.array([(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])

Array = npt.NDArray[np.float64]


def split(n: int, random: np.random.Generator) -> float:
    """Split conformal intervals from standard normal forecasts of a t distribution with 5 degrees of freedom."""
    forecasts: dict[str, Any] = {"mean": np.zeros(n), "variance": np.ones(n)}
    fitted = calibrant.fit_distribution("conformal", random.standard_t(5, n), output_levels=ENDS, **forecasts)
    upper = fitted.apply(mean=[0.0], variance=[1.0]).quantiles[0, 1]
    return float(2.0 * stats.t.cdf(upper, 5) - 1.0)


#: Values of the covariate at which the coverage is averaged.
_GRID = (np.arange(2000) + 0.5) / 2000


def _bounds(x: Array) -> Array:
    """Quantiles that are too narrow, and wrong by different amounts."""
    return np.column_stack([x - 0.5 - x * x, x + 1.0])


def conformalised(n: int, random: np.random.Generator) -> float:
    """Conformalised quantiles of normal outcomes whose spread grows with a covariate."""
    x = random.random(n)
    y = x + (0.5 + x) * random.standard_normal(n)
    fitted = calibrant.fit_distribution("conformal", y, quantiles=_bounds(x), levels=ENDS)
    low, high = fitted.apply(quantiles=_bounds(_GRID), levels=ENDS).quantiles.T
    spread = 0.5 + _GRID
    return float(np.mean(stats.norm.cdf((high - _GRID) / spread) - stats.norm.cdf((low - _GRID) / spread)))


def counts(ties: str) -> Callable[[int, np.random.Generator], float]:
    """Counts with many ties, between integer bounds."""

    def run(n: int, random: np.random.Generator) -> float:
        bounds = np.tile([2.0, 4.0], (n, 1))
        y = random.poisson(3.0, n).astype(np.float64)
        fitted = calibrant.fit_distribution("conformal", y, quantiles=bounds, levels=ENDS, ties=ties)
        intervals = fitted.apply(
            quantiles=np.tile([2.0, 4.0], (400, 1)), levels=ENDS, seed=int(random.integers(1 << 30))
        )
        low, high = intervals.quantiles.T
        inside = stats.poisson.cdf(np.floor(high), 3.0) - stats.poisson.cdf(np.ceil(low) - 1.0, 3.0)
        return float(np.mean(inside))

    return run


KINDS: dict[str, tuple[str, Callable[[int, np.random.Generator], float]]] = {
    "split": ("mean and variance, continuous", split),
    "quantiles": ("quantiles, continuous", conformalised),
    "keep": ('counts, `ties="keep"`', counts("keep")),
    "random": ('counts, `ties="random"`', counts("random")),
}


_HEAD = ("| forecasts | rows | expected | mean coverage | p-value |", "|---|---|---|---|---|")


def simulated(name: str, n: int) -> dict[str, float | None]:
    """The coverage of one kind and size."""
    k = int(np.ceil((n + 1) * LEVEL))
    random = np.random.default_rng([n, list(KINDS).index(name)])
    reached = np.array([KINDS[name][1](n, random) for _ in range(RUNS)])
    continuous = name in ("split", "quantiles")
    p = float(stats.kstest(reached, stats.beta(k, n + 1 - k).cdf).pvalue) if continuous else None
    error = float(reached.std(ddof=1) / np.sqrt(RUNS))
    return {"mean": float(reached.mean()), "standard_error": error, "nominal": k / (n + 1), "ks_p_value": p}


def row(name: str, n: int, shares: Mapping[str, float | None]) -> str:
    """The row of one kind and size."""
    p = shares["ks_p_value"]
    tested = "" if p is None else f"{p:.2f}"
    mean = f"{shares['mean']:.2%} ({shares['standard_error']:.2%})"
    return f"| {KINDS[name][0]} | {n} | {shares['nominal']:.2%} | {mean} | {tested} |"


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the rows, each of which can be computed alone."""
    del data

    def checked(name: str, n: int) -> list[str]:
        return [*_HEAD, row(name, n, simulated(name, n))]

    return [PageCheck(f"{name}, {n}", partial(checked, name, n), keys=2) for n, name in product(SIZES, KINDS)]


def main() -> None:
    """Simulate, and write the page."""
    settings = list(product(SIZES, KINDS))
    shares = {f"{name} {n}": simulated(name, n) for n, name in settings}
    rows = [row(name, n, shares[f"{name} {n}"]) for n, name in settings]
    save(RESULTS, shares)
    text = f"""# Coverage of conformal intervals

Generated by `make conformal` from {RUNS:,} calibration sets of each kind and size, with intervals of level {LEVEL:.0%}.
Expected is k / (n + 1) with k = ceil(({LEVEL} (n + 1))): the mean coverage if scores are not tied. Over calibration
sets the coverage then follows Beta(k, n + 1 - k), which a Kolmogorov-Smirnov test compares. Counts are tied: the mean
must be at least the level with `keep`, and as expected with `random`. Standard errors of the means are in brackets.

""" + "\n".join([*_HEAD, *rows])
    publish(PAGE, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
