"""Held-out log loss of every method on real predictions: 20 random halves a file. Writes docs/benchmarks/real-data.md.

``python -m benchmarks.real FOLDER``: each ``.npz`` in it holds ``labels`` (n,) and ``probs`` or ``logits`` (n, K).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

import calibrant
from benchmarks.checks import NotChecked, PageCheck, PagePart
from benchmarks.compare.data import classifiers
from benchmarks.data_sets import verified
from benchmarks.provenance import Pool
from benchmarks.records import body, publish
from calibrant.core.batch import Scale, read_batch
from calibrant.core.errors import CalibrationError
from calibrant.core.reductions import reduce

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "real-data.md"
HALVES = 20
METHODS = ("identity", "platt", "beta", "isotonic", "pl", "pl3", "averaged")
#: Log losses are clipped here, as everywhere in the service.
_CLIP = 2.0**-52
#: The largest number of classes, evenly spaced, for class-wise losses.
_CLASSES = 5

Losses = npt.NDArray[np.float64]


def half(path: Path, seed: int) -> tuple[Losses, Losses]:
    """Held-out losses ``(methods,)`` of the confidence, and their mean over classes."""
    with np.load(verified(path)) as archive:
        scale = "logit" if "logits" in archive else "probability"
        values, labels = archive["logits" if scale == "logit" else "probs"], archive["labels"]
    order = np.random.default_rng(seed).permutation(len(labels))
    training, held_out = np.array_split(order, 2)
    k = values.shape[1]
    classes = range(k) if k <= _CLASSES else np.linspace(0, k - 1, _CLASSES).astype(int).tolist()
    events = ["class:1"] if k == 2 else [f"class:{c}" for c in classes]
    by_class = [_losses(values, labels, training, held_out, scale, event) for event in events]
    return _losses(values, labels, training, held_out, scale, "confidence"), np.mean(by_class, axis=0)


def _losses(
    values: npt.NDArray[np.floating],
    labels: npt.NDArray[np.integer],
    training: npt.NDArray[np.integer],
    held_out: npt.NDArray[np.integer],
    scale: str,
    event: str,
) -> Losses:
    kind: Scale = "logit" if scale == "logit" else "probability"
    asked = reduce(read_batch(values[held_out], labels[held_out], scale=kind), event)
    losses = []
    for method in METHODS:
        try:
            fitted = calibrant.fit(method, values[training], labels[training], reduction=event, scale=kind)
        except CalibrationError:
            losses.append(np.nan)
            continue
        c = np.clip(fitted.curve(asked.p), _CLIP, 1 - _CLIP)
        losses.append(float(-np.mean(np.where(asked.y == 1, np.log(c), np.log1p(-c)))))
    return np.array(losses)


def _rows(files: Sequence[Path], losses_by_job: dict[tuple[Path, int], tuple[Losses, Losses]]) -> list[str]:
    rows = []
    for path, (part, name) in product(files, enumerate(("confidence", "class-wise"))):
        losses = np.array([losses_by_job[path, seed][part] for seed in range(HALVES)])
        means = losses.mean(axis=0)
        best = int(np.nanargmin(means))
        behind = losses[:, METHODS.index("averaged")] - losses[:, best]
        error = losses[:, best].std(ddof=1) / np.sqrt(HALVES)
        verdict = "lowest" if METHODS[best] == "averaged" else "within" if behind.mean() <= error else "not"
        cells = [f"**{m:.4f}**" if i == best else f"{m:.4f}" for i, m in enumerate(means)]
        rows.append(f"| {path.stem} | {name} | {' | '.join(cells)} | {behind.mean():+.4f} ({error:.4f}) | {verdict} |")
    return rows


_HEAD = (
    f"| file | event | {' | '.join(METHODS)} | difference | averaged is |",
    f"|---|---|{'---|' * (len(METHODS) + 2)}",
)


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the rows of each file of the page, which can be computed alone."""
    if data is None:
        raise NotChecked("it needs DATA=folder")
    paths = [path for path in classifiers(data) if f"| {path.stem} |" in body(PAGE)]

    def lines(path: Path) -> list[str]:
        return [*_HEAD, *_rows([path], {(path, seed): half(path, seed) for seed in range(HALVES)})]

    return [PageCheck(path.stem, partial(lines, path), keys=2, tolerance=1e-6) for path in paths]


def main() -> None:
    """Measure every file and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    files = classifiers(parser.parse_args().folder)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    jobs = list(product(files, range(HALVES)))
    with Pool(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        losses_by_job = dict(zip(jobs, pool.map(half, *zip(*jobs, strict=True)), strict=True))
    page = f"""# Held-out log loss on real predictions

Generated by `make real DATA=folder` from predictions of published classifiers, which are not part of the repository.
Mean held-out log loss in nats over {HALVES} random halves. Class-wise is the mean over at most {_CLASSES} classes, one
against the rest. The last two columns: the difference between `averaged` and the lowest loss (in brackets, the
standard error of the lowest loss), and whether `averaged` is the lowest or within one standard error of it.

{_HEAD[0]}
{_HEAD[1]}
"""
    text = page + "\n".join(_rows(files, losses_by_job)) + "\n"
    publish(PAGE, text)
    print(text)


if __name__ == "__main__":
    main()
