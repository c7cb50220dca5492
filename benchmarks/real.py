"""Held-out log loss of every method on real predictions: 20 random halves a file. Writes docs/benchmarks/real-data.md.

``python -m benchmarks.real FOLDER``: each ``.npz`` in it holds ``labels`` (n,) and ``probs`` or ``logits`` (n, K).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

import calibrant
from calibrant.batch import Scale, read_batch
from calibrant.errors import CalibrationError
from calibrant.reductions import reduce

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "real-data.md"
HALVES = 20
METHODS = ("identity", "platt", "beta", "isotonic", "pl", "pl3", "averaged")
#: Log losses clip here, as everywhere in the service.
_CLIP = 2.0**-52
#: At most so many classes of a file, evenly spaced, stand for class-wise.
_CLASSES = 5

Losses = npt.NDArray[np.float64]


def half(path: Path, seed: int) -> tuple[Losses, Losses]:
    """Losses ``(methods,)`` of the confidence, and the mean over classes, on the half that no fit has seen."""
    with np.load(path) as archive:
        scale = "logit" if "logits" in archive else "probability"
        values, labels = archive["logits" if scale == "logit" else "probs"], archive["labels"]
    order = np.random.default_rng(seed).permutation(len(labels))
    seen, unseen = np.array_split(order, 2)
    k = values.shape[1]
    classes = range(k) if k <= _CLASSES else np.linspace(0, k - 1, _CLASSES).astype(int).tolist()
    events = ["class:1"] if k == 2 else [f"class:{c}" for c in classes]
    by_class = [_losses(values, labels, seen, unseen, scale, event) for event in events]
    return _losses(values, labels, seen, unseen, scale, "confidence"), np.mean(by_class, axis=0)


def _losses(
    values: npt.NDArray[np.floating],
    labels: npt.NDArray[np.integer],
    seen: npt.NDArray[np.integer],
    unseen: npt.NDArray[np.integer],
    scale: str,
    event: str,
) -> Losses:
    kind: Scale = "logit" if scale == "logit" else "probability"
    asked = reduce(read_batch(values[unseen], labels[unseen], scale=kind), event)
    losses = []
    for method in METHODS:
        try:
            fitted = calibrant.fit(method, values[seen], labels[seen], reduction=event, scale=kind)
        except CalibrationError:
            losses.append(np.nan)
            continue
        c = np.clip(fitted.curve(asked.p), _CLIP, 1 - _CLIP)
        losses.append(float(-np.mean(np.where(asked.y == 1, np.log(c), np.log1p(-c)))))
    return np.array(losses)


def _rows(files: Sequence[Path], found: dict[tuple[Path, int], tuple[Losses, Losses]]) -> list[str]:
    rows = []
    for path, (part, name) in product(files, enumerate(("confidence", "class-wise"))):
        losses = np.array([found[path, seed][part] for seed in range(HALVES)])
        means = losses.mean(axis=0)
        best = int(np.nanargmin(means))
        behind = losses[:, METHODS.index("averaged")] - losses[:, best]
        error = losses[:, best].std(ddof=1) / np.sqrt(HALVES)
        verdict = "lowest" if METHODS[best] == "averaged" else "within" if behind.mean() <= error else "not"
        cells = [f"**{m:.4f}**" if i == best else f"{m:.4f}" for i, m in enumerate(means)]
        rows.append(f"| {path.stem} | {name} | {' | '.join(cells)} | {behind.mean():+.4f} ({error:.4f}) | {verdict} |")
    return rows


def main() -> None:
    """Measure every file and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    files = sorted(parser.parse_args().folder.glob("*.npz"))
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    jobs = list(product(files, range(HALVES)))
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(jobs, pool.map(half, *zip(*jobs, strict=True)), strict=True))
    page = f"""# Real predictions

Made by `make real DATA=folder` from predictions of published classifiers that are not shipped here. Mean log loss, in
nats, on the half that no fit has seen, over {HALVES} random halves. Class-wise is the mean over at most {_CLASSES}
classes, one against the rest. The last columns: how far the average is behind the lowest (in brackets the standard
error of the lowest), and whether it is the lowest or within one standard error of it.

| file | event | {" | ".join(METHODS)} | behind | averaged is |
|---|---|{"---|" * (len(METHODS) + 2)}
"""
    text = page + "\n".join(_rows(files, found)) + "\n"
    PAGE.write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
