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


class ExperimentKey(NamedTuple):
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


def find(folders: list[Path]) -> list[ExperimentKey]:
    """All experiments of the ``.h5`` and ``.npz`` files of some folders."""
    keys: list[ExperimentKey] = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder")
        for path in sorted(folder.glob("*.h5")):
            keys += _keys(path)
        for path in sorted(folder.glob("*.npz")):
            with np.load(verified(path)) as archive:
                if "labels" in archive and ("probs" in archive or "logits" in archive):
                    keys += [ExperimentKey(path, path.stem, f"half-{seed}") for seed in range(HALVES)]
    return keys


def _keys(path: Path) -> Iterator[ExperimentKey]:
    import h5py

    with h5py.File(path) as file:
        for dataset in sorted(file):
            if not isinstance(file[dataset], h5py.Group):
                raise ValueError(f"{path}: {dataset} is not a group of base models")
            for model in sorted(file[dataset]):
                yield ExperimentKey(path, dataset, model)


def read(key: ExperimentKey) -> Experiment:
    """The rows of one experiment, in double precision; ``ValueError`` if they are not those of a classifier."""
    if key.path.suffix == ".npz":
        with np.load(verified(key.path)) as archive:
            labels = archive["labels"].astype(int)
            p = _softmax(archive["logits"].astype(float)) if "logits" in archive else archive["probs"]
        order = np.random.default_rng(int(key.model.removeprefix("half-"))).permutation(len(labels))
        cal, test = np.array_split(order, 2)
        p = rows_of(p)
        return Experiment(p[cal], labels[cal], p[test], labels[test])
    (p_cal, y_cal), (p_test, y_test) = _part(key, "cal"), _part(key, "test")
    if p_cal.shape[1] != p_test.shape[1]:
        raise ValueError(f"{key.path}: {key.name} has {p_cal.shape[1]} and {p_test.shape[1]} classes")
    return Experiment(p_cal, y_cal, p_test, y_test)


def calibration_shape(key: ExperimentKey) -> tuple[int, int]:
    """The numbers of calibration rows and of classes; of an HDF5 file without reading the rows."""
    if key.path.suffix == ".npz":
        experiment = read(key)
        return len(experiment.y_cal), experiment.n_classes
    import h5py

    with h5py.File(key.path) as file:
        group = file[key.dataset][key.model]
        shape = group["probas_cal" if "probas_cal" in group else "logits_cal"].shape
    return int(shape[0]), max((2, *map(int, shape[1:])))


def _part(key: ExperimentKey, part: str) -> tuple[Array, Array]:
    """Probabilities and labels of one part of an HDF5 file, from its logits if it has any."""
    import h5py

    where = f"{key.path}: {key.dataset}/{key.model}"
    with h5py.File(key.path) as file:
        group = file[key.dataset][key.model]
        name = f"logits_{part}" if f"logits_{part}" in group else f"probas_{part}"
        missing = {name, f"labels_{part}"} - set(group)
        if missing:
            raise ValueError(f"{where} has no {' and no '.join(sorted(missing))}")
        values, labels = np.asarray(group[name], dtype=float), np.asarray(group[f"labels_{part}"]).astype(int).ravel()
    columns = 1 if values.ndim == 1 else values.shape[-1]
    if values.ndim > 2 or len(values) != len(labels) or not len(labels) or columns < 1 + name.startswith("logits"):
        raise ValueError(f"{where}: {name} has shape {values.shape}, and there are {len(labels)} labels")
    if not np.isfinite(values).all():
        raise ValueError(f"{where}: {name} has values that are not finite")
    p = rows_of(_softmax(values) if name.startswith("logits") else values)
    if not np.isfinite(p).all():
        raise ValueError(f"{where}: {name} has rows without a positive probability")
    if labels.min() < 0 or labels.max() >= p.shape[1]:
        raise ValueError(f"{where}: labels must be from 0 to {p.shape[1] - 1}; found {labels.min()} to {labels.max()}")
    return p, labels


def rows_of(p: Array) -> Array:
    """Probabilities ``(n, K)`` whose rows sum to 1, from ``(n,)`` or ``(n, 1)`` of class 1, or ``(n, K)``.

    Rows without a positive probability are not finite.
    """
    p = np.clip(np.asarray(p, dtype=float), 0.0, 1.0)
    if p.ndim == 1 or p.shape[1] == 1:
        return np.column_stack([1.0 - p.ravel(), p.ravel()])
    with np.errstate(invalid="ignore"):
        rows: Array = p / p.sum(axis=1, keepdims=True)
    return rows


def _softmax(logits: Array) -> Array:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    p: Array = odds / odds.sum(axis=1, keepdims=True)
    return p
