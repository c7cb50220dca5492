"""docs/benchmarks/calibrators.md from the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import calibrant
from benchmarks.compare.run import HALVES, LEFT_OUT
from benchmarks.timing import machine

Records = Mapping[str, Mapping[str, Any]]
#: Score, its name in the tables, digits.
_SCORES = (
    ("log-loss", "log loss, nats", 4),
    ("brier", "Brier score", 4),
    ("ece", "ECE, 15 equal-width bins", 4),
    ("ks", "KS error", 4),
)

_HEAD = """# Calibrators compared

Made by `make compare{data}` ({machine}). Every method is fitted to one half of each file and scored on the other,
{halves} random halves. Methods of the vector are fitted under `canonical`; methods of an event class by class,
renormalised (`classwise`), of two classes as one event (`binary`); with their defaults. Log loss and Brier score are of
the whole vector, ECE and KS error of the confidence. {source}

Ranks are taken among the methods that have a map on every half of a file (1 is best, ties share), then averaged over
files and halves. Accuracy is the change in points. Seconds are the median of one fit on one thread, beside another.
"""
_GIVEN = "The files are predictions of published classifiers that are not shipped here."
_SHIPPED = "The files are what models trained on data sets that scikit-learn ships predict of unseen rows."


def page(records: Records, *, shipped: bool) -> str:
    """The page: ranks first, then each score by file."""
    rows: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    for key, record in records.items():
        file, method, _, seed = key.split("/")
        rows.setdefault((file, method), {})[int(seed)] = record
    done = set.intersection(*(set(found) for found in rows.values()))  # of a run that was stopped, what all have
    rows = {key: {seed: found[seed] for seed in sorted(done)} for key, found in rows.items()}
    files = sorted({file for file, _ in rows})
    methods = [name for name in calibrant.METHODS if any(method == name for _, method in rows)]
    halves = max(len(found) for found in rows.values())
    head = _HEAD.format(
        data="" if shipped else " DATA=folder",
        machine=machine(),
        halves=halves if halves == HALVES else f"{halves} (of {HALVES})",
        source=_SHIPPED if shipped else _GIVEN,
    )
    parts = [head, _ranks(rows, files, methods)]
    parts += [_table(rows, files, methods, *score) for score in _SCORES]
    parts.append(_table(rows, files, methods, "seconds", "Seconds of one fit", 3))
    left_out = ", ".join(f"`{name}`" for name in LEFT_OUT)
    parts.append(f"Left out, for one of its curves takes minutes: {left_out}.\n\n{_problems(rows)}")
    return "\n".join(parts)


def _values(found: Mapping[int, Mapping[str, Any]], score: str) -> np.ndarray[Any, Any]:
    return np.array([np.nan if record.get(score) is None else record[score] for record in found.values()], dtype=float)


def _ranks(rows: Any, files: list[str], methods: list[str]) -> str:
    kept = [*(score for score, *_ in _SCORES), "accuracy"]
    told: dict[str, dict[str, list[float]]] = {method: {name: [] for name in kept} for method in methods}
    for file in files:
        full = [m for m in methods if (file, m) in rows]
        seeds = sorted(set.intersection(*(set(rows[file, m]) for m in full)))
        full = [m for m in full if all("problem" not in rows[file, m][seed] for seed in seeds)]
        for seed in seeds:
            for score, *_ in _SCORES:
                values = np.array([rows[file, m][seed][score] for m in full])
                below = (values[:, None] > values).sum(axis=1)
                same = (values[:, None] == values).sum(axis=1)
                for method, rank in zip(full, below + (same + 1) / 2, strict=True):
                    told[method][score].append(float(rank))
            before = rows[file, "identity"][seed]["accuracy"]
            for method in full:
                told[method]["accuracy"].append(100.0 * (rows[file, method][seed]["accuracy"] - before))
    lines = [
        "## Mean ranks",
        "",
        "| method | log loss | Brier | ECE | KS | accuracy | files |",
        "|---|---|---|---|---|---|---|",
    ]
    known = [m for m in methods if told[m]["log-loss"]]
    for method in sorted(known, key=lambda m: float(np.mean(told[m]["log-loss"]))):
        ranks = " | ".join(f"{np.mean(told[method][score]):.1f}" for score, *_ in _SCORES)
        here = len(told[method]["log-loss"])
        every = max(len(told[m]["log-loss"]) for m in known)
        share = f"{here / every:.0%}" if here < every else "all"
        lines.append(f"| `{method}` | {ranks} | {np.mean(told[method]['accuracy']):+.2f} | {share} |")
    return "\n".join([*lines, ""])


def _table(rows: Any, files: list[str], methods: list[str], score: str, title: str, digits: int) -> str:
    title = title[0].upper() + title[1:]
    lines = [f"## {title}", "", f"| method | {' | '.join(files)} |", f"|---|{'---|' * len(files)}"]
    means = np.full((len(methods), len(files)), np.nan)
    for i, method in enumerate(methods):
        for j, file in enumerate(files):
            values = _values(rows.get((file, method), {}), score)
            if len(values) and np.isfinite(values).all():
                means[i, j] = np.median(values) if score == "seconds" else values.mean()
    for i, method in enumerate(methods):
        cells = []
        for j in range(len(files)):
            shown = f"{means[i, j]:.{digits}f}"
            best = score != "seconds" and means[i, j] == np.nanmin(means[:, j])
            cells.append("-" if np.isnan(means[i, j]) else f"**{shown}**" if best else shown)
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _problems(rows: Any) -> str:
    lines = []
    for (file, method), found in rows.items():
        codes = [record["problem"] for record in found.values() if "problem" in record]
        if codes:
            told = ", ".join(sorted(set(codes)))
            lines.append(f"- `{method}` on {file}: {len(codes)} of {len(found)} halves, {told}")
    return "\n".join(["## No map", "", *(lines or ["None."]), ""])
