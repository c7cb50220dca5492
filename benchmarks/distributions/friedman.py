"""Variances of a network during training, before and after recalibration (Gruber & Buettner 2022, appendix G.5).

Writes ``results/friedman.json`` and docs/benchmarks/variance-regression.md. The paper's Residential Building data are
not packaged by any library; scikit-learn's diabetes data take their place.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.datasets import load_diabetes

import calibrant
from benchmarks.checks import PagePart, Rendering, StoredRecord
from benchmarks.records import load, publish, save

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "variance-regression.md"
RESULTS = Path(__file__).parent / "results" / "friedman.json"
ROWS = 100
#: The number of epochs, and the epochs between two evaluations.
EPOCHS = {"friedman": (3000, 50), "diabetes": (500, 10)}
SEEDS = {"friedman": range(3), "diabetes": range(5)}
HIDDEN = {"friedman": (200, 50), "diabetes": (200,)}
TITLES = {
    "friedman": "Friedman 1 (Figure 9): 10-200-50-2 network, 100 rows each for training, validation and test, three "
    "runs",
    "diabetes": "Diabetes in place of Residential Building (Figure 8): 10-200-2 network, 100, 100 and 242 rows, five "
    "runs",
}

Array = npt.NDArray[np.float64]


def friedman(seed: int) -> tuple[Array, Array]:
    """Friedman 1 with noise of variance 0.5 + X6 (eq. 56)."""
    random = np.random.default_rng(seed)
    x = random.random((3 * ROWS, 10))
    mean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, mean + np.sqrt(0.5 + x[:, 5]) * random.standard_normal(len(x))


def diabetes(seed: int) -> tuple[Array, Array]:
    """The diabetes data in random order, standardised."""
    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return (x / x.std(axis=0))[order], ((y - y.mean()) / y.std())[order]


def skce(mean: Array, variance: Array, y: Array) -> float:
    """The unbiased squared kernel calibration error of normal forecasts (Widmann, Lindsten & Zachariah 2021).

    The kernel is exp(-W2(p, p')) exp(-(y - y')^2 / 2), with expectations in closed form.
    """
    sd = np.sqrt(variance)
    distance = np.hypot(mean[:, None] - mean, sd[:, None] - sd)

    def gaussian(difference: Array, v: Array) -> Array:
        return np.asarray(np.exp(-(difference**2) / (2.0 * (1.0 + v))) / np.sqrt(1.0 + v))

    cross = gaussian(mean[:, None] - y, np.repeat(variance[:, None], len(y), axis=1))
    h = gaussian(y[:, None] - y, np.zeros_like(distance)) - cross - cross.T
    h += gaussian(mean[:, None] - mean, variance[:, None] + variance)
    h *= np.exp(-distance)
    n = len(y)
    return float((h.sum() - np.trace(h)) / (n * (n - 1)))


def dss(mean: Array, variance: Array, y: Array) -> float:
    """The mean Dawid-Sebastiani score."""
    return float(np.mean((y - mean) ** 2 / variance + np.log(variance)))


def run(name: str, seed: int) -> list[dict[str, float]]:
    """Train one network; figures of the test rows every few epochs."""
    x, y = {"friedman": friedman, "diabetes": diabetes}[name](seed)
    torch.manual_seed(seed)
    sizes = (x.shape[1], *HIDDEN[name])
    layers: list[torch.nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 2))
    optimizer = torch.optim.Adam(network.parameters())
    inputs, target = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    parts = np.split(np.arange(len(y)), [ROWS, 2 * ROWS])
    train, validation, test = parts
    results_of_models = []
    last, every = EPOCHS[name]
    for epoch in range(1, last + 1):
        optimizer.zero_grad()
        out = network(inputs[train])
        variance = torch.nn.functional.softplus(out[:, 1]) + 1e-6
        loss = ((target[train] - out[:, 0]) ** 2 / variance + variance.log()).mean()
        loss.backward()
        optimizer.step()
        if epoch % every:
            continue
        with torch.no_grad():
            out = network(inputs)
            means = out[:, 0].double().numpy()
            variances = (torch.nn.functional.softplus(out[:, 1]) + 1e-6).double().numpy()
        fitted = calibrant.fit_distribution(
            "variance-platt", y[validation], mean=means[validation], variance=variances[validation]
        )
        after = fitted.apply(mean=means[test], variance=variances[test])
        results_of_models.append(
            {
                "epoch": epoch,
                "validation_dss": dss(means[validation], variances[validation], y[validation]),
                "dss": dss(means[test], variances[test], y[test]),
                "dss_after": dss(after.mean, after.variance, y[test]),
                "mse": float(np.mean((y[test] - means[test]) ** 2)),
                "mse_after": float(np.mean((y[test] - after.mean) ** 2)),
                "variance": float(variances[test].mean()),
                "variance_after": float(after.variance.mean()),
                "skce": skce(means[test], variances[test], y[test]),
                "skce_after": skce(after.mean, after.variance, y[test]),
            }
        )
    return results_of_models


def claims(runs: list[list[dict[str, float]]]) -> dict[str, Any]:
    """Figure 9's claims, from the epoch of the lowest validation score of each network on."""
    late, higher, changed = 0, 0, 0.0
    starts = []
    for scores_of_run in runs:
        start = int(np.argmin([row["validation_dss"] for row in scores_of_run]))
        starts.append(int(scores_of_run[start]["epoch"]))
        late += len(scores_of_run) - start - 1
        higher += sum(row["dss_after"] >= row["dss"] for row in scores_of_run[start + 1 :])
        changed = max(changed, *(abs(row["mse_after"] - row["mse"]) for row in scores_of_run))
    means = {
        key: np.mean([[row[key] for row in scores_of_run] for scores_of_run in runs], axis=0) for key in runs[0][0]
    }
    start = int(means["validation_dss"].argmin())
    gained = (means["dss"] - means["dss_after"])[start + 1 :]
    return {
        "overfits_from": starts,
        "epochs_after": late,
        "not_lower": higher,
        "mse_changed": changed,
        "mean_from": int(means["epoch"][start]),
        "mean_lower": int((gained > 0.0).sum()),
        "mean_epochs": len(gained),
    }


_EPOCHS = {
    "friedman": (50, 100, 200, 400, 600, 800, 1000, 1500, 2000, 2500, 3000),
    "diabetes": (10, 20, 30, 40, 50, 100, 200, 300, 400, 500),
}
_SHOWN = ("dss", "dss_after", "mse", "variance", "variance_after", "skce", "skce_after")


def section(name: str, runs: list[list[dict[str, float]]]) -> list[str]:
    """The table of one data set."""
    claimed = claims(runs)
    lower = claimed["epochs_after"] - claimed["not_lower"]
    rows = []
    for place, first in enumerate(runs[0]):
        if int(first["epoch"]) in _EPOCHS[name]:
            cells = [f"{np.mean([scores_of_run[place][key] for scores_of_run in runs]):.3f}" for key in _SHOWN]
            rows.append(f"| {int(first['epoch'])} | {' | '.join(cells)} |")
    return [
        f"## {TITLES[name]}",
        "",
        f"The mean validation score is lowest at epoch {claimed['mean_from']} (of single runs: "
        f"{', '.join(map(str, claimed['overfits_from']))}). After that, recalibration lowers the mean test score at "
        f"{claimed['mean_lower']} of {claimed['mean_epochs']} evaluations (in single runs: {lower} of "
        f"{claimed['epochs_after']}), and changes the MSE by at most {claimed['mse_changed']:g}.",
        "",
        "| epoch | DSS | after | MSE | mean variance | after | SKCE | after |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def page(runs: dict[str, list[list[dict[str, float]]]]) -> str:
    """The page."""
    lines = [
        "# Variances of a network",
        "",
        "Generated by `make variance-regression`: the experiments of Gruber & Buettner (2022), appendix G.5. Networks "
        "are trained on the Dawid-Sebastiani score (DSS) by Adam, all rows at once. `variance-platt` is fitted to the "
        "validation rows at every evaluation. The tables have means over the runs on the test rows; lower scores are "
        "better. The paper prints no numbers.",
        "",
        *(line for name, of_name in runs.items() for line in section(name, of_name)),
    ]
    return "\n".join(lines)


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the first evaluations of the stored runs, and the page of all of them.

    Sums of single precision differ between processors, and training amplifies them: later evaluations do not repeat.
    """
    del data
    torch.set_num_threads(1)
    stored = load(RESULTS, "make variance-regression", older=True)
    runs: list[PagePart] = [
        StoredRecord(f"{name}, seed {seed}", result[:_REPEATED], partial(first_evaluations, name, seed), tolerance=0.02)
        for name, results in stored.items()
        for seed, result in zip(SEEDS[name], results, strict=True)
    ]
    return [Rendering("the page of the stored results", partial(page, stored)), *runs]


#: Evaluations that repeat on another processor.
_REPEATED = 10


def first_evaluations(name: str, seed: int) -> list[dict[str, float]]:
    """The first evaluations of a run."""
    return run(name, seed)[:_REPEATED]


def main() -> None:
    """Train, and write the page."""
    torch.set_num_threads(1)
    runs = {name: [run(name, seed) for seed in seeds] for name, seeds in SEEDS.items()}
    save(RESULTS, runs)
    publish(PAGE, page(runs))
    print(page(runs))


if __name__ == "__main__":
    main()
