"""Prediction sets beside MAPIE's and TorchCP's on the same scores. Writes docs/benchmarks/prediction-sets.md."""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

import calibrant
from benchmarks.compare.data import classifiers, read_file
from benchmarks.records import publish
from benchmarks.timing import machine
from calibrant.core.batch import Predictions
from calibrant.sets.scores import label_scores, within

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "prediction-sets.md"
SEEDS, ALPHA = range(5), 0.1
#: More seeds for clusters, whose random halves change the sizes by 4 %.
MANY_SEEDS = range(20)
PENALTY, K_REG = 0.01, 5
#: The file with many classes.
MANY = "netcal_cifar100_densenet-bc-100"
#: Rows and classes of the timing, and the rows of the comparison of times.
ROWS, CLASSES, SHARED_ROWS = 100_000, 1_000, 20_000

Array = npt.NDArray[Any]
Halves = tuple[Array, Array, Array, Array]


def torchcp() -> ModuleType:
    """TorchCP's scores and predictors, without its packages for graphs, language models and losses."""
    spec = find_spec("torchcp")
    (folder,) = [] if spec is None else spec.submodule_search_locations or []
    for name, path in (("torchcp", folder), ("torchcp.classification", f"{folder}/classification")):
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [path]
    import torch
    from torchcp.classification.predictor.cluster import ClusteredPredictor
    from torchcp.classification.predictor.split import SplitPredictor
    from torchcp.classification.score.aps import APS
    from torchcp.classification.score.lac import LAC
    from torchcp.classification.score.raps import RAPS

    torch.set_default_dtype(torch.float64)  # its penalties would be in single precision
    stand_in = ModuleType("found")
    parts = {"APS": APS, "LAC": LAC, "RAPS": RAPS, "SplitPredictor": SplitPredictor, "torch": torch}
    vars(stand_in).update(parts, ClusteredPredictor=ClusteredPredictor)
    return stand_in


def halves(path: Path, seed: int) -> Halves:
    """The rows of the fit and the others, as probabilities whose rows sum to 1."""
    predictions_file = read_file(path)
    p = predictions_file.values.astype(np.float64)
    p = softmax(p, axis=1) if predictions_file.scale == "logit" else np.clip(p, 0.0, 1.0)
    p /= p.sum(axis=1, keepdims=True)
    order = np.random.default_rng(seed).permutation(len(p))
    fit, new = order[: len(p) // 2], order[len(p) // 2 :]
    return p[fit], predictions_file.labels[fit], p[new], predictions_file.labels[new]


# --- The same sets: LAC and MAPIE, RAPS and TorchCP


class Prefit:
    """An estimator whose predictions are its input, as MAPIE needs one."""

    def __init__(self, n_classes: int) -> None:
        self.classes_ = np.arange(n_classes)
        self.n_features_in_ = n_classes

    def fit(self, _x: Array, _y: Array) -> Prefit:
        """Do nothing."""
        return self

    def predict_proba(self, x: Array) -> Array:
        """Return the input."""
        return x

    def predict(self, x: Array) -> Array:
        """Return the classes with the largest probability."""
        classes: Array = x.argmax(axis=1)
        return classes

    def __sklearn_is_fitted__(self) -> bool:
        return True


def mapie_sets(rows: Halves) -> Array:
    """MAPIE's sets of the other rows."""
    from mapie.classification import SplitConformalClassifier

    p, y, new, _ = rows
    classifier = SplitConformalClassifier(Prefit(p.shape[1]), confidence_level=1.0 - ALPHA, prefit=True)
    classifier.conformalize(p, y)
    members: Array = classifier.predict_set(new)[1][:, :, 0]
    return members


def torchcp_sets(cp: Any, score: Any, rows: Halves, numbers: tuple[Array, Array]) -> Array:
    """TorchCP's sets of the other rows, with these random numbers of the rows."""
    torch = cp.torch
    p, y, new, _ = map(torch.from_numpy, rows)
    drawn, rand = iter(numbers), torch.rand
    torch.rand = lambda *shape, **_: _expanded(torch, next(drawn), shape[0])
    try:
        predictor = cp.SplitPredictor(score)
        predictor.calculate_threshold(p, y, ALPHA)
        members: Array = predictor.predict_with_logits(new).numpy().astype(bool)
        return members
    finally:
        torch.rand = rand


def _expanded(torch: Any, u: Array, shape: Any) -> Any:
    values = torch.from_numpy(u)
    return values if isinstance(shape, int) else values[:, None].expand(shape)


def raps_sets(rows: Halves, numbers: tuple[Array, Array]) -> Array:
    """The sets of raps with these random numbers of the rows."""
    p, y, new, _ = rows
    scores = label_scores(Predictions(p, "probability"), y, numbers[0], PENALTY, K_REG)
    k = int(np.ceil((len(y) + 1) * (1.0 - ALPHA) - 1e-9))
    limit = np.partition(scores, k - 1)[k - 1]
    return within(new, np.full((len(new), 1), limit), numbers[1], PENALTY, K_REG)


def same_sets(cp: Any, files: Sequence[Path]) -> list[str]:
    """The table of sets that differ."""
    lines = []
    for path in files:
        differing = {"lac": 0, "raps": 0, "raps, random": 0}
        cells = tied = 0
        for seed in SEEDS:
            rows = halves(path, seed)
            cells += rows[2].size
            tied += sum(len(row) - len(np.unique(row)) for row in rows[2][:200])
            ours = calibrant.fit_sets(rows[0], rows[1], alpha=ALPHA).apply(rows[2]).members
            differing["lac"] += int((ours != mapie_sets(rows)).sum())
            random = np.random.default_rng(seed)
            drawn = random.random(len(rows[0])), random.random(len(rows[2]))
            for name, numbers in (("raps", (np.zeros(len(rows[0])), np.zeros(len(rows[2])))), ("raps, random", drawn)):
                score = cp.RAPS("identity", randomized=name != "raps", penalty=PENALTY, kreg=K_REG)
                theirs = torchcp_sets(cp, score, rows, numbers)
                differing[name] += int((raps_sets(rows, numbers) != theirs).sum())
        lines.append(f"| {path.stem} | {cells:,} | {tied:,} | {' | '.join(map(str, differing.values()))} |")
    return lines


# --- Coverage by class


def gap_and_size(members: Array, y: Array) -> tuple[float, float]:
    """The mean over classes of |coverage - (1 - alpha)|, and the mean size."""
    covered = members[np.arange(len(y)), y]
    by_class = [covered[y == k].mean() for k in np.unique(y)]
    return float(np.abs(np.array(by_class) - (1.0 - ALPHA)).mean()), float(members.sum(axis=1).mean())


def by_cluster(cp: Any, path: Path, method: str, score: Any) -> list[str]:
    """The table of gaps and sizes of one score, paired over the seeds."""
    torch = cp.torch
    values = {name: np.empty((len(MANY_SEEDS), 2)) for name in ("ours", "torchcp", "marginal", "class")}
    for i, seed in enumerate(MANY_SEEDS):
        p, y, new, labels = halves(path, seed)
        torch.manual_seed(seed)
        predictor = cp.ClusteredPredictor(score, alpha=ALPHA)
        predictor.calculate_threshold(torch.from_numpy(p), torch.from_numpy(y))
        theirs = predictor.predict_with_logits(torch.from_numpy(new)).numpy().astype(bool)
        values["torchcp"][i] = gap_and_size(theirs, labels)
        for name, conditional in (("ours", "cluster"), ("marginal", None), ("class", "class")):
            fitted = calibrant.fit_sets(p, y, method=method, conditional=conditional, alpha=ALPHA, seed=seed)
            values[name][i] = gap_and_size(fitted.apply(new).members, labels)
    rows = [
        f"| {method} | {title} | {values[name][:, 0].mean():.4f} | {values[name][:, 1].mean():.2f} |"
        for name, title in (
            ("ours", "calibrant, by cluster"),
            ("torchcp", "TorchCP, by cluster"),
            ("marginal", "calibrant, one threshold"),
            ("class", "calibrant, by class"),
        )
    ]
    for n in (len(SEEDS), len(MANY_SEEDS)):
        ours, theirs = values["ours"][:n], values["torchcp"][:n]
        gaps, sizes = ours[:, 0] - theirs[:, 0], ours[:, 1] / theirs[:, 1]
        gap, size = (f"{x.mean():.4f} ± {x.std(ddof=1) / np.sqrt(n):.4f}" for x in (gaps, sizes))
        rows.append(f"| {method} | difference by cluster, {n} seeds | {gap} | x {size} |")
    return rows


# --- Time and memory


def timed(run: Callable[[], Any]) -> float:
    """The processor seconds of the faster of two runs."""
    seconds = []
    for _ in range(2):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def times(cp: Any) -> list[str]:
    """The table of times of fit and application together."""
    torch, random, lines = cp.torch, np.random.default_rng(0), []
    torch.set_num_threads(1)
    logits = random.standard_normal((ROWS, CLASSES), np.float32)
    logits *= 3.0
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    y = np.array([row.searchsorted(u) for row, u in zip(logits.cumsum(axis=1), random.random(ROWS), strict=True)])
    y = np.minimum(y, CLASSES - 1)
    few, labels = torch.from_numpy(logits[:SHARED_ROWS]), torch.from_numpy(y[:SHARED_ROWS])
    for method, score in (("lac", cp.LAC("identity")), ("raps", cp.RAPS("identity", False, PENALTY, K_REG))):

        def ours(rows: Array, own: Array, method: str = method) -> None:
            calibrant.fit_sets(rows, own, method=method).apply(rows)

        def theirs(score: Any = score) -> None:
            predictor = cp.SplitPredictor(score)
            predictor.calculate_threshold(few, labels, ALPHA)
            predictor.predict_with_logits(few)

        whole = timed(lambda run=ours: run(logits, y))  # type: ignore[misc]
        tracemalloc.start()
        ours(logits, y)
        grown = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        part, other = timed(lambda run=ours: run(logits[:SHARED_ROWS], y[:SHARED_ROWS])), timed(theirs)  # type: ignore[misc]
        lines.append(f"| {method} | {whole:.2f} | {grown:.0f} | {part:.2f} | {other:.2f} | {other / part:.1f} |")
    return lines


def main() -> None:
    """Compare, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of .npz files, as for `make compare`")
    files = classifiers(parser.parse_args().folder)
    many = next(path for path in files if path.stem == MANY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cp = torchcp()
        same = same_sets(cp, files)
        clusters = by_cluster(cp, many, "lac", cp.LAC("identity"))
        clusters += by_cluster(cp, many, "aps", cp.APS("identity", randomized=False))
        speed = times(cp)
    lines = [
        "# Prediction sets",
        "",
        f"Generated by `make peers-sets DATA=folder` ({machine()};",
        f"MAPIE {version('mapie')}, TorchCP {version('torchcp')}). Each file is split into two halves, with five",
        f"seeds: one half for the fit, with alpha {ALPHA}, the other for the sets.",
        "",
        "## The same sets",
        "",
        "`lac` is compared with MAPIE, `raps` with TorchCP, on the same double-precision probabilities, and with the",
        "same random numbers, one for each row. The last columns count classes that are in one of the two sets alone,",
        "of all classes of all rows. *Tied* counts repeated probabilities in the first 200 rows of each seed.",
        "",
        "| file | classes of rows | tied | `lac` | `raps` | `raps`, random |",
        "|---|---|---|---|---|---|",
        *same,
        "",
        "## Coverage by class",
        "",
        f"{MANY}: the mean over the 100 classes of |coverage - {1 - ALPHA}|, and the mean size of the sets, over",
        f"{len(MANY_SEEDS)} seeds. Differences of gaps and ratios of sizes by cluster are paired over seeds, with",
        "their standard errors.",
        "",
        "| score | method | gap | size |",
        "|---|---|---|---|",
        *clusters,
        "",
        "## Time and memory",
        "",
        f"Processor seconds of fitting to {ROWS:,} rows of {CLASSES:,} classes in single precision and applying the",
        "map to them, with the checks of the input, and the most memory beside the rows (MB); the same for",
        f"{SHARED_ROWS:,} rows, with TorchCP beside it, in one thread.",
        "",
        "| method | seconds | MB | seconds, fewer rows | TorchCP | ratio |",
        "|---|---|---|---|---|---|",
        *speed,
        "",
    ]
    publish(PAGE, "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
