"""Stage 1: predictions of base models, as HDF5 in CalArena's layout: ``python -m benchmarks.arena.worlds [FOLDER]``.

One file per data set, with ``{dataset}/{model}/`` of ``probas_cal``, ``labels_cal``, ``probas_test`` and
``labels_test``. Probabilities are ``(n,)`` of class 1 for two classes and else ``(n, K)``, single precision as in
CalArena's own files. Networks have ``logits_cal`` and ``logits_test`` ``(n, K)`` too, which CalArena's reader ignores.
Models that a file has are left as they are, so that an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.arena import generated
from benchmarks.arena.datasets import MANY_CLASSES, TabularData, load, names
from benchmarks.arena.networks import ArenaNetwork

Array = npt.NDArray[Any]
#: Rows of small data sets are split 60 : 20 : 20 into training, calibration and test. Training and test rows are at
#: most so many, and all others are calibration rows.
_SHARES = (0.6, 0.2)
MOST_TRAINING, MOST_TEST, MOST_CALIBRATION = 10_000, 40_000, 1_000_000
#: The base models.
MODELS = (
    *("random-forest", "extra-trees", "lightgbm", "xgboost", "catboost", "mlp", "logistic-regression", "naive-bayes"),
    *("hist-gradient-boosting", "network", "network-smoothed", "network-residual"),
)
#: Those of data sets with many classes: boosting fits a tree per class and round, and forests store all classes in
#: each node.
OF_MANY_CLASSES = ("mlp", "logistic-regression", "naive-bayes", "network", "network-smoothed", "network-residual")
_MANY_CLASSES = 50
#: Rows whose probabilities are computed at once.
_CHUNK = 100_000


def models_of(n_classes: int) -> tuple[str, ...]:
    """The names of the base models of a data set."""
    return MODELS if n_classes <= _MANY_CLASSES else OF_MANY_CLASSES


def models_of_set(name: str) -> tuple[str, ...]:
    """The names of the base models of a data set of ``names``."""
    package, _, rest = name.partition("/")
    n_classes = generated.SETS[rest].classes if package == "generated" else _MANY_CLASSES + (rest in MANY_CLASSES)
    return models_of(n_classes)


def planned() -> int:
    """The number of experiments of a whole run."""
    return sum(len(models_of_set(name)) for name in names())


def make(model: str, n_classes: int) -> Any:
    """An untrained base model: a family with simple settings, one thread and a fixed seed."""
    trees = 100 if n_classes < 12 else 40
    return _makers(trees)[model]()


def _makers(trees: int) -> dict[str, Callable[[], Any]]:
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier

    def lightgbm() -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=trees, n_jobs=1, random_state=0, verbose=-1)

    def xgboost() -> Any:
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=trees, n_jobs=1, random_state=0)

    def catboost() -> Any:
        from catboost import CatBoostClassifier

        return CatBoostClassifier(
            iterations=2 * trees, thread_count=1, random_seed=0, verbose=0, allow_writing_files=False
        )

    return {
        "random-forest": lambda: RandomForestClassifier(200, random_state=0),
        "extra-trees": lambda: ExtraTreesClassifier(200, min_samples_leaf=2, random_state=0),
        "lightgbm": lightgbm,
        "xgboost": xgboost,
        "catboost": catboost,
        "mlp": lambda: MLPClassifier((64,), max_iter=100, random_state=0),
        "logistic-regression": lambda: LogisticRegression(max_iter=300),
        "naive-bayes": lambda: GaussianNB(),
        "hist-gradient-boosting": lambda: HistGradientBoostingClassifier(max_iter=trees, random_state=0),
        "network": lambda: ArenaNetwork(),
        "network-smoothed": lambda: ArenaNetwork(smoothing=0.1),
        "network-residual": lambda: ArenaNetwork(residual=True),
    }


def features(data: TabularData, training: Array) -> Array:
    """Standardised numbers, missing ones replaced by the median and flagged, and categories as indicators."""
    numbers = data.numbers.astype(float)
    numbers[~np.isfinite(numbers)] = np.nan
    flags = np.isnan(numbers)
    known = ~flags[training].all(axis=0) if numbers.shape[1] else np.empty(0, dtype=bool)
    numbers, flags = numbers[:, known], flags[:, known]
    filled = np.where(flags, np.nanmedian(numbers[training], axis=0), numbers) if numbers.shape[1] else numbers
    spread = filled[training].std(axis=0)
    scaled = (filled - filled[training].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    indicators = [data.categories[:, [c]] == np.unique(data.categories[:, c]) for c in range(data.categories.shape[1])]
    X: Array = np.column_stack([np.clip(scaled, -10.0, 10.0), flags[:, flags.any(axis=0)], *indicators]).astype(float)
    return X


def split(labels: Array) -> tuple[Array, Array, Array]:
    """Rows of training, calibration and test, drawn within classes, so that every part has every class.

    Every class needs three rows.
    """
    random = np.random.default_rng(0)
    n = len(labels)
    training, test = min(_SHARES[0], MOST_TRAINING / n), min(_SHARES[1], MOST_TEST / n)
    calibration = min(1.0 - training - test, MOST_CALIBRATION / n)
    parts: tuple[list[Array], ...] = ([], [], [])
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        first, second, last = np.round(np.cumsum([training, calibration, test]) * len(rows)).astype(int)
        first = min(max(first, 1), len(rows) - 2)
        second = min(max(second, first + 1), len(rows) - 1)
        for part, piece in zip(parts, np.split(rows[: max(last, second + 1)], [first, second]), strict=True):
            part.append(piece)
    train, cal, tested = (random.permutation(np.concatenate(part)) for part in parts)
    return train, cal, tested


def outputs(fitted: Any, X: Array, n_classes: int) -> dict[str, Array]:
    """Probabilities, of class 1 if there are two classes, and the logits of a network."""
    if isinstance(fitted, ArenaNetwork):
        logits = fitted.logits(X)
        odds = np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True))
        p, fields = odds, {"logits": logits}
    else:
        parts = [np.asarray(fitted.predict_proba(X[at : at + _CHUNK]), dtype=float) for at in range(0, len(X), _CHUNK)]
        p, fields = np.clip(np.concatenate(parts), 0.0, 1.0), {}
    p = p / p.sum(axis=1, keepdims=True)
    return {"probas": (p[:, 1] if n_classes == 2 else p).astype(np.float32), **fields}


def write(folder: Path, name: str, chosen: Sequence[str] = MODELS, above: int = 0) -> int:
    """Train the base models that the file of a data set does not have, and return how many these were.

    Nothing is trained on data sets without more than ``above`` calibration rows.
    """
    import h5py

    key = name.replace("/", "--")
    path = folder / f"{key}.h5"
    unfinished = path.with_suffix(".part")
    if path.exists():
        with h5py.File(path) as file:
            chosen = [model for model in chosen if f"{key}/{model}" not in file]
    if not chosen:
        return 0
    data = load(name)
    train, cal, test = split(data.labels)
    if len(cal) <= above:
        return 0
    X, y = features(data, train), data.labels
    n_classes = int(y.max()) + 1
    chosen = [model for model in chosen if model in models_of(n_classes)]
    for model in chosen:
        if path.exists():
            shutil.copyfile(path, unfinished)
        began = time.perf_counter()
        fitted = make(model, n_classes).fit(X[train], y[train])
        with h5py.File(unfinished, "a" if path.exists() else "w") as file:
            group = file.create_group(f"{key}/{model}")
            for part, rows in (("cal", cal), ("test", test)):
                for kind, values in outputs(fitted, X[rows], n_classes).items():
                    group.create_dataset(f"{kind}_{part}", data=values, compression="gzip", compression_opts=1)
                group.create_dataset(f"labels_{part}", data=y[rows].astype(np.int32), compression="gzip")
            group.attrs["seconds"] = time.perf_counter() - began
        unfinished.rename(path)
    return len(chosen)


def rotated(models: Sequence[str], start: int, most: int | None) -> list[str]:
    """At most ``most`` models, from another one on for each data set, so that a part of the run has all of them."""
    return [models[(start + at) % len(models)] for at in range(len(models) if most is None else most)]


def main() -> None:
    """Write what is missing, data sets in a random order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/arena/worlds"))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="data sets")
    parser.add_argument("--models", type=int, help="base models of each data set at most")
    parser.add_argument("--above", type=int, default=0, help="only data sets with more calibration rows")
    options = parser.parse_args()
    folder: Path = options.folder
    every = names()
    unknown = set(options.only or ()) - set(every)
    if unknown:
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; known: {', '.join(every)}")
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    order = np.random.default_rng(0).permutation(len(every))
    for at in order:
        name = every[at]
        if options.only and name not in options.only:
            continue
        began = time.perf_counter()
        count = write(folder, name, rotated(models_of_set(name), 5 * int(at), options.models), options.above)
        if count:
            print(f"{name}, {count} models: {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    main()
