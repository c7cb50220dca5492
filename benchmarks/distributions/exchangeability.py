"""Delays and false alarms of evidence against exchangeability, on Friedman streams whose function changes.

``make exchangeability`` writes results/exchangeability.json and docs/benchmarks/exchangeability.md. Streams, network
and seeds are those of Farran (2026, arXiv:2603.13156), who draws them with river's FriedmanDrift (Ikonomovska, Gama &
Dzeroski 2011, section 5.2).
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.records import publish, save
from calibrant.distributions.streams import exchangeability_evidence

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "exchangeability.md"
RESULTS = Path(__file__).parent / "results" / "exchangeability.json"
#: Rows of training, of a stream before the change, and after it.
TRAIN, BEFORE, AFTER = 10_000, 2_500, 2_500
CHANGE, ROWS = TRAIN + BEFORE, TRAIN + BEFORE + AFTER
#: Rows in which half of the outcomes have the new function, before all have it; rows between two expansions.
TRANSITION, STEP = 500, AFTER // 3
EPOCHS, BATCH, RATE = 500, 256, 3e-4
ALPHA, RUNS = 0.05, 300
#: Scenarios, and the published delays of PITMonitor, with 3.8 % of alarms before the change.
SCENARIOS = {
    "none": ("no change", None),
    "gra": ("global abrupt change", 77),
    "gsg": ("global slow gradual change", 189),
    "lea": ("local expanding abrupt change", 1919),
}

Array = npt.NDArray[np.float64]
#: Means and variances of variables.
Model = Callable[[Array], tuple[Array, Array]]


def drawn(seed: int) -> tuple[Array, Array]:
    """The variables and the noise that FriedmanDrift draws with this seed: ten uniform numbers and a normal one a row.

    A list as the seed starts the generator as Python's ``random`` does, which draws two normal numbers from two
    uniform ones in every other row.
    """
    u = np.random.RandomState([seed]).random_sample(11 * ROWS).reshape(-1, 22)
    angle, size = 2.0 * np.pi * u[:, 10], np.sqrt(-2.0 * np.log(1.0 - u[:, 11]))
    noise = np.stack([np.cos(angle) * size, np.sin(angle) * size], axis=1)
    return np.stack([u[:, :10], u[:, 12:]], axis=1).reshape(ROWS, 10), noise.ravel()


def friedman(x: Array, order: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Array:
    """Friedman's function of these variables."""
    a, b, c, d, e = x[:, order].T
    return np.asarray(10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e)


def expanding(x: Array, row: npt.NDArray[np.int64]) -> Array:
    """Friedman's function, and others in two regions from the change on, which expand twice."""
    low, high = x < 0.3, x > 0.7
    phase = np.clip((row - CHANGE) // STEP, -1, 2)
    is_first = low[:, 1] & low[:, 2] & (high[:, 3] | (phase > 1)) & (low[:, 4] | (phase > 0))
    two = high[:, 1] & high[:, 2] & (low[:, 3] | (phase > 1)) & (high[:, 4] | (phase > 0))
    first = 10 * x[:, 0] * x[:, 1] + 20 * (x[:, 2] - 0.5) + 10 * x[:, 3] + 5 * x[:, 4]
    second = 10 * np.cos(x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) + np.exp(x[:, 3]) + 5 * x[:, 4] ** 2
    started = phase >= 0
    return np.asarray(np.where(started & is_first, first, np.where(started & two, second, friedman(x))))


def stream(scenario: str, seed: int) -> tuple[Array, Array]:
    """Variables and outcomes of one stream, with the rows of training first."""
    x, noise = drawn(seed)
    row = np.arange(ROWS)
    mean = friedman(x)
    if scenario == "gra":
        mean = np.where(row >= CHANGE, friedman(x, (3, 5, 1, 0, 2)), mean)
    elif scenario == "gsg":
        coin = random.Random(seed)  # noqa: S311 - as in FriedmanDrift
        old = np.zeros(ROWS, np.bool_)
        old[CHANGE : CHANGE + TRANSITION] = [coin.getrandbits(1) for _ in range(TRANSITION)]
        mean = np.where((row < CHANGE) | old, mean, friedman(x, (3, 4, 1, 0, 2)))
    elif scenario == "lea":
        mean = expanding(x, row)
    return x, mean + noise


def trained(seed: int = 42) -> Model:
    """A network with three layers of 128 units for mean and log variance, trained on the log score."""
    x, y = (part[:TRAIN] for part in stream("none", seed))
    centre, scale, middle, size = x.mean(axis=0), x.std(axis=0), float(y.mean()), float(y.std())

    def tensor(values: Array) -> torch.Tensor:
        return torch.tensor((values - centre) / scale, dtype=torch.float32)

    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    for n in (10, 128, 128):
        layers += [torch.nn.Linear(n, 128), torch.nn.SiLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(128, 2))
    inputs, targets = tensor(x), torch.tensor((y - middle) / size, dtype=torch.float32)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=EPOCHS)
    for _ in range(EPOCHS):
        for rows in torch.randperm(TRAIN).split(BATCH):  # type: ignore[no-untyped-call]
            optimiser.zero_grad()
            mean, log_variance = network(inputs[rows]).T
            variance = torch.exp(log_variance).clamp(min=1e-6)
            loss = 0.5 * ((targets[rows] - mean) ** 2 / variance + torch.log(variance)).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimiser.step()
        schedule.step()

    def model(x: Array) -> tuple[Array, Array]:
        with torch.no_grad():
            mean, log_variance = network(tensor(x)).double().numpy().T
        return middle + size * mean, size**2 * np.exp(log_variance)

    return model


def run(model: Model, scenario: str, seed: int) -> int | None:
    """The row of the first alarm, counted from the change."""
    x, y = (part[TRAIN:] for part in stream(scenario, seed))
    mean, variance = model(x)
    result = exchangeability_evidence(y, mean=mean, variance=variance, seed=seed)
    alarms = np.flatnonzero(result >= math.log(1.0 / ALPHA))
    return int(alarms[0]) - BEFORE if len(alarms) else None


def summary(alarms: list[int | None]) -> dict[str, Any]:
    """The shares of alarms before the change and of none, and the delay of the others."""
    delays = [alarm for alarm in alarms if alarm is not None and alarm >= 0]
    return {
        "runs": len(alarms),
        "before": sum(alarm is not None and alarm < 0 for alarm in alarms),
        "missed": sum(alarm is None for alarm in alarms),
        "mean": float(np.mean(delays)) if delays else None,
        "median": float(np.median(delays)) if delays else None,
        "slow": float(np.quantile(delays, 0.9)) if delays else None,
    }


_TEXT = """# Alarms of changed calibration

Generated by `make exchangeability` from its results.

A network predicts mean and variance after training on {train:,} rows of Friedman's function with the log score. It
then predicts {rows:,} rows. The function changes after {before:,} of them: for all rows, for half of them during
{transition:,} rows and then for all, or in regions that expand after each {step:,}. Streams, network and seeds are
those of [PITMonitor](https://arxiv.org/abs/2603.13156), whose published delays are in the last column; {published} %
of its 10,000 runs have an alarm before the change. An alarm is evidence of 1 / {alpha:g} by
`exchangeability_evidence`. Each scenario has {runs} runs. Delays are rows after the change, in the runs without an
alarm before it.

| scenario | alarms before the change, % | no alarm, % | mean delay | median | 90 % | PITMonitor's mean delay |
|---|---|---|---|---|---|---|
{table}

Without a change, {false:.1f} % of the runs have an alarm in {rows:,} rows. Ville's inequality bounds the probability
of an alarm by {percent:g} %, for any number of rows.
"""


def write(results: dict[str, Any]) -> None:
    """Write the page."""
    rows = []
    for name, (title, published) in SCENARIOS.items():
        scenario = results["scenarios"][name]
        if published is not None:
            shares = [f"{100.0 * scenario[key] / scenario['runs']:.1f}" for key in ("before", "missed")]
            delays = ["" if scenario[key] is None else f"{scenario[key]:,.0f}" for key in ("mean", "median", "slow")]
            rows.append(f"| {' | '.join([title, *shares, *delays, f'{published:,}'])} |")
    none = results["scenarios"]["none"]
    text = _TEXT.format(
        train=TRAIN,
        rows=BEFORE + AFTER,
        before=BEFORE,
        transition=TRANSITION,
        step=STEP,
        published=3.8,
        alpha=ALPHA,
        runs=none["runs"],
        table="\n".join(rows),
        false=100.0 * (none["runs"] - none["missed"]) / none["runs"],
        percent=100.0 * ALPHA,
    )
    publish(PAGE, text)


def main(runs: int) -> None:
    """Run all scenarios, and write results and page."""
    model, results_by_scenario = trained(), {}
    for name in SCENARIOS:
        results_by_scenario[name] = summary([run(model, name, 42 + 1000 * trial) for trial in range(runs)])
        print(name, results_by_scenario[name], flush=True)
    results = {"alpha": ALPHA, "scenarios": results_by_scenario}
    save(RESULTS, results)
    write(results)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
