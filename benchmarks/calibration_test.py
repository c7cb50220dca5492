"""Size and power of the smooth test, compared with the KS test. Writes docs/benchmarks/calibration-test.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from benchmarks.checks import PageCheck, PagePart
from benchmarks.records import publish
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "calibration-test.md"
RUNS = 2_000
LEVEL = 0.05
BAND = (0.035, 0.065)
SLACK = 0.02
ROWS = (300, 1_000, 3_000)
ERRORS = (0.01, 0.02, 0.04)
TESTS = read_requests(["smooth-test", "ks"])

Array = npt.NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], tuple[Array, Array]]

DISTRIBUTIONS: Mapping[str, Callable[[int, np.random.Generator], Array]] = {
    "uniform": lambda n, random: random.random(n),
    "Beta(.5, .5)": lambda n, random: random.beta(0.5, 0.5, n),
    "Beta(5, 1)": lambda n, random: random.beta(5.0, 1.0, n),
}
#: Predictions are Beta(.5, b) for each b: the expected number of events is about n / (2 b).
RARE = (20.0, 75.0, 200.0, 500.0)


def _beta(a: float, b: float, m: float) -> Callable[[Array], Array]:
    """The beta calibration function of parameters a, b and m: m is mapped to 1/2."""
    shift = b * np.log1p(-m) - a * np.log(m)
    return lambda x: np.asarray(expit(a * np.log(x) - b * np.log1p(-x) + shift))


def _stairs(x: Array) -> Array:
    def flat(t: Array) -> Array:
        return t - np.sin(t)

    def steps(t: Array) -> Array:
        return flat(flat(3 * np.pi * t)) / (3 * np.pi)

    return steps(x + 1 / 3) - steps(np.full(1, 1 / 3))


#: Each shape f, and the expected |f(c) - c| of uniform c.
SHAPES: Mapping[str, tuple[Callable[[Array], Array], float]] = {
    "square": (np.square, 0.166667),
    "sqrt": (np.sqrt, 0.166667),
    "beta1": (_beta(0.4, 0.45, 0.4), 0.120023),
    "beta2": (_beta(2.0, 2.2, 0.48), 0.103297),
    "stairs": (_stairs, 0.114038),
}


def calibrated(distribution: Callable[[int, np.random.Generator], Array]) -> Draw:
    """Predictions of this distribution that are the true probabilities."""

    def draw(n: int, random: np.random.Generator) -> tuple[Array, Array]:
        c = distribution(n, random)
        return c, c

    return draw


def miscalibrated(shape: str, error: float) -> Draw:
    """Predictions p = (1 - w) c + w f(c) of uniform true probabilities c, with the expected |p - c| given."""
    f, whole = SHAPES[shape]
    w = error / whole

    def draw(n: int, random: np.random.Generator) -> tuple[Array, Array]:
        c = random.random(n)
        return (1 - w) * c + w * f(c), c

    return draw


def rejected(draw: Draw, n: int) -> dict[str, float]:
    """Share of the runs whose p-value is below the level, by test."""
    hits = dict.fromkeys((test.key for test in TESTS), 0)
    for run in range(RUNS):
        random = np.random.default_rng([11, run, n])
        p, c = draw(n, random)
        event = Event(p, (random.random(n) < c).astype(np.int8))
        for test in TESTS:
            p_value = test.compute(event).p_value
            hits[test.key] += p_value is not None and p_value < LEVEL
    return {key: count / RUNS for key, count in hits.items()}


_SIZE_HEAD = ("| predictions | n | smooth-test | ks |", "|---|---|---|---|")
_RARE_HEAD = ("| predictions | expected events | smooth-test | ks |", "|---|---|---|---|")
_POWER_HEAD = ("| shape | error | " + " | ".join(f"n = {n:,}" for n in ROWS) + " |", "|---|---|" + "---|" * len(ROWS))


def size_line(name: str, n: int) -> tuple[dict[str, float], str]:
    """The sizes for one distribution, and their row."""
    share = rejected(calibrated(DISTRIBUTIONS[name]), n)
    return share, f"| {name} | {n:,} | {share['smooth-test']:.4f} | {share['ks']:.4f} |"


def size_lines() -> list[str]:
    """The table of sizes, and the sizes outside the band."""
    lines = list(_SIZE_HEAD)
    outside = []
    for name in DISTRIBUTIONS:
        for n in ROWS:
            share, line = size_line(name, n)
            lines.append(line)
            if not BAND[0] <= share["smooth-test"] <= BAND[1]:
                outside.append(f"{name} at n = {n:,}")
    note = f"Sizes of the smooth test outside {BAND[0]:.1%} to {BAND[1]:.1%}: {', '.join(outside) or 'none'}."
    return [*lines, "", note]


def rare_lines() -> list[str]:
    """The table of sizes for few expected events."""
    return [*_RARE_HEAD, *map(rare_line, RARE)]


def rare_line(b: float) -> str:
    """The row of one distribution."""
    n = ROWS[0]
    share = rejected(calibrated(partial(_rare, b=b)), n)
    expected = n * 0.5 / (0.5 + b)
    return f"| Beta(.5, {b:g}) | {expected:.1f} | {share['smooth-test']:.4f} | {share['ks']:.4f} |"


def _rare(n: int, random: np.random.Generator, *, b: float) -> Array:
    return random.beta(0.5, b, n)


def power_line(shape: str, error: float) -> tuple[list[dict[str, float]], str]:
    """The powers for one shape and error, and their row."""
    shares = [rejected(miscalibrated(shape, error), n) for n in ROWS]
    cells = [f"{share['smooth-test']:.3f} / {share['ks']:.3f}" for share in shares]
    return shares, f"| {shape} | {error:.2f} | " + " | ".join(cells) + " |"


def power_lines() -> list[str]:
    """The table of powers, and the cases in which the smooth test has less power than KS."""
    lines = list(_POWER_HEAD)
    short = []
    for shape in SHAPES:
        for error in ERRORS:
            shares, line = power_line(shape, error)
            lines.append(line)
            short += [
                f"{shape}, error {error:.2f}, n = {n:,}"
                for n, share in zip(ROWS, shares, strict=True)
                if share["smooth-test"] < share["ks"] - SLACK
            ]
    note = f"Cases in which the power of the smooth test is more than {SLACK:g} below that of KS"
    return [*lines, "", f"{note}: {'; '.join(short) or 'none'}."]


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the rows, each of which can be computed alone."""
    del data

    def of_size(name: str, n: int) -> list[str]:
        return [*_SIZE_HEAD, size_line(name, n)[1]]

    def of_rare(b: float) -> list[str]:
        return [*_RARE_HEAD, rare_line(b)]

    def of_power(shape: str, error: float) -> list[str]:
        return [*_POWER_HEAD, power_line(shape, error)[1]]

    parts: list[PagePart] = [
        PageCheck(f"{name}, {n}", partial(of_size, name, n), keys=2) for name, n in product(DISTRIBUTIONS, ROWS)
    ]
    parts += [PageCheck(f"rare, {b}", partial(of_rare, b)) for b in RARE]
    return parts + [
        PageCheck(f"{shape}, {error}", partial(of_power, shape, error), keys=2)
        for shape, error in product(SHAPES, ERRORS)
    ]


def main() -> None:
    """Simulate and write the page."""
    lines = [
        "# Smooth test: size and power",
        "",
        "Generated by `make calibration-test`. The figures are "
        f"shares of {RUNS:,} simulated batches with a p-value below",
        f"{LEVEL:g}, for `smooth-test` with {TESTS[0].options['n_terms']} terms and for `ks`. The standard error is "
        f"{np.sqrt(LEVEL * (1 - LEVEL) / RUNS):.3f} at a share of {LEVEL:g}",
        f"and {0.5 / np.sqrt(RUNS):.3f} at a share of 0.5.",
        "",
        "## Size: calibrated predictions",
        "",
        *size_lines(),
        "",
        f"The smooth test rejects too often if few events are expected; n = {ROWS[0]}, calibrated predictions:",
        "",
        *rare_lines(),
        "",
        "## Power: smooth-test / ks",
        "",
        "Predictions are p = (1 - w) c + w f(c) for uniform true "
        "probabilities c, with w such that the expected |p - c|",
        "is the error. The shapes f are those of the synthetic data of Kangsepp, Valk & Kull (2022): x^2; the square",
        "root; two beta calibration functions, (a, b, m) = (0.4, 0.45, 0.4) and (2, 2.2, 0.48); and stairs,",
        "h(x + 1/3) - h(1/3) with h(x) = s(s(3 pi x)) / (3 pi), s(x) = x - sin x. Both tests use the same batches.",
        "",
        *power_lines(),
    ]
    page = "\n".join([*lines, ""])
    publish(PAGE, page)
    print(page)


if __name__ == "__main__":
    main()
