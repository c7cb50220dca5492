"""Readers of experiments: HDF5 files in CalArena's layout, and random halves of NPZ files of predictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.data_sets import verified

Array = npt.NDArray[Any]
#: Random halves of each NPZ file.
HALVES = 5


class Key(NamedTuple):
    """Where an experiment is: a file, the data set and the base model, or the half of an NPZ file."""

    path: Path
    dataset: str
    model: str

    @property
    def unit(self) -> str:
        """The data set, with its file in front if that holds several: what the bootstrap resamples."""
        return self.dataset if self.path.stem == self.dataset else f"{self.path.stem}/{self.dataset}"

    @property
    def name(self) -> str:
        """The name in results: the data set and the model."""
        return f"{self.unit}/{self.model}"


class Experiment(NamedTuple):
    """Probabilities ``(n, K)`` whose rows sum to 1, and labels ``(n,)``, of calibration and test rows."""

    p_cal: Array
    y_cal: Array
    p_test: Array
    y_test: Array

    @property
    def n_classes(self) -> int:
        """The number of classes K."""
        return int(self.p_cal.shape[1])


def find(folders: list[Path]) -> list[Key]:
    """All experiments of the ``.h5`` and ``.npz`` files of some folders."""
    found: list[Key] = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder")
        for path in sorted(folder.glob("*.h5")):
            found += _keys(path)
        for path in sorted(folder.glob("*.npz")):
            with np.load(verified(path)) as archive:
                if "labels" in archive and ("probs" in archive or "logits" in archive):
                    found += [Key(path, path.stem, f"half-{seed}") for seed in range(HALVES)]
    return found


def _keys(path: Path) -> Iterator[Key]:
    import h5py

    with h5py.File(path) as file:
        for dataset in sorted(file):
            for model in sorted(file[dataset]):
                yield Key(path, dataset, model)


def read(key: Key) -> Experiment:
    """The rows of one experiment, in double precision."""
    if key.path.suffix == ".npz":
        with np.load(verified(key.path)) as archive:
            labels = archive["labels"].astype(int)
            p = _softmax(archive["logits"].astype(float)) if "logits" in archive else archive["probs"]
        order = np.random.default_rng(int(key.model.removeprefix("half-"))).permutation(len(labels))
        cal, test = np.array_split(order, 2)
        p = rows_of(p)
        return Experiment(p[cal], labels[cal], p[test], labels[test])
    import h5py

    with h5py.File(key.path) as file:
        group = file[key.dataset][key.model]
        parts = {name: np.asarray(group[name]) for name in ("probas_cal", "labels_cal", "probas_test", "labels_test")}
    return Experiment(
        rows_of(parts["probas_cal"]),
        parts["labels_cal"].astype(int).ravel(),
        rows_of(parts["probas_test"]),
        parts["labels_test"].astype(int).ravel(),
    )


def rows_of(p: Array) -> Array:
    """Probabilities ``(n, K)`` whose rows sum to 1, from ``(n,)`` or ``(n, 1)`` of class 1, or ``(n, K)``."""
    p = np.clip(np.asarray(p, dtype=float), 0.0, 1.0)
    if p.ndim == 1 or p.shape[1] == 1:
        return np.column_stack([1.0 - p.ravel(), p.ravel()])
    rows: Array = p / p.sum(axis=1, keepdims=True)
    return rows


def _softmax(logits: Array) -> Array:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    p: Array = odds / odds.sum(axis=1, keepdims=True)
    return p
