"""Stage 1: predictions of base models, as HDF5 in CalArena's layout: ``python -m benchmarks.arena.worlds [FOLDER]``.

One file per data set, with ``{dataset}/{model}/`` of ``probas_cal``, ``labels_cal``, ``probas_test`` and
``labels_test``. Probabilities are ``(n,)`` of class 1 for two classes and else ``(n, K)``, single precision as in
CalArena's own files. A data set whose file exists is left as it is, so that an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.arena.datasets import Dataset, load, names

Array = npt.NDArray[Any]
#: Rows at most for training, calibration and test; smaller data sets are split 60 : 20 : 20.
_MOST = (3_600, 2_000, 2_000)
_SHARES = (0.6, 0.2, 0.2)


def models(n_classes: int) -> dict[str, Callable[[], Any]]:
    """The base models: eight families with simple settings, one thread and a fixed seed."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from xgboost import XGBClassifier

    trees = 100 if n_classes < 12 else 40
    return {
        "random-forest": lambda: RandomForestClassifier(200, random_state=0),
        "extra-trees": lambda: ExtraTreesClassifier(200, min_samples_leaf=2, random_state=0),
        "lightgbm": lambda: LGBMClassifier(n_estimators=trees, n_jobs=1, random_state=0, verbose=-1),
        "xgboost": lambda: XGBClassifier(n_estimators=trees, n_jobs=1, random_state=0),
        "catboost": lambda: CatBoostClassifier(
            iterations=2 * trees, thread_count=1, random_seed=0, verbose=0, allow_writing_files=False
        ),
        "mlp": lambda: MLPClassifier((64,), max_iter=100, random_state=0),
        "logistic-regression": lambda: LogisticRegression(max_iter=300),
        "naive-bayes": lambda: GaussianNB(),
    }


def features(data: Dataset, training: Array) -> Array:
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
    """Rows of the three parts, drawn within classes, so that every part has every class."""
    random = np.random.default_rng(0)
    parts: tuple[list[Array], ...] = ([], [], [])
    scale = [min(1.0, most / (share * len(labels))) for most, share in zip(_MOST, _SHARES, strict=True)]
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        cuts = np.round(np.cumsum(_SHARES)[:2] * len(rows)).astype(int)
        for part, piece, kept in zip(parts, np.split(rows, cuts), scale, strict=True):
            part.append(piece[: max(1, round(kept * len(piece)))])
    train, cal, test = (random.permutation(np.concatenate(part)) for part in parts)
    return train, cal, test


def write(folder: Path, name: str) -> None:
    """Train all base models on one data set and write their predictions."""
    import h5py

    data = load(name)
    train, cal, test = split(data.labels)
    X, y = features(data, train), data.labels
    n_classes = int(y.max()) + 1
    path = folder / f"{name.replace('/', '--')}.h5"
    unfinished = path.with_suffix(".part")
    with h5py.File(unfinished, "w") as file:
        for model, make in models(n_classes).items():
            group = file.create_group(f"{name.replace('/', '--')}/{model}")
            began = time.perf_counter()
            fitted = make().fit(X[train], y[train])
            for part, rows in (("cal", cal), ("test", test)):
                p = np.asarray(fitted.predict_proba(X[rows]), dtype=float)
                p = np.clip(p, 0.0, 1.0) / np.clip(p, 0.0, 1.0).sum(axis=1, keepdims=True)
                p = p[:, 1] if n_classes == 2 else p
                group.create_dataset(f"probas_{part}", data=p.astype(np.float32), compression="gzip")
                group.create_dataset(f"labels_{part}", data=y[rows].astype(np.int32), compression="gzip")
            group.attrs["seconds"] = time.perf_counter() - began
    unfinished.rename(path)


def main() -> None:
    """Write what is missing, binary and multi-class data sets in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/arena/worlds"))
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    every = names()
    order = np.random.default_rng(0).permutation(len(every))
    for at in order:
        name = every[at]
        if (folder / f"{name.replace('/', '--')}.h5").exists():
            continue
        began = time.perf_counter()
        write(folder, name)
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    main()
