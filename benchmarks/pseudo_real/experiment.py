"""One part of the experiment: a calibrator's output for one event of one model, under every evaluator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from benchmarks.pseudo_real import model
from benchmarks.pseudo_real.calibrators import CALIBRATORS, Rows, calibrated
from benchmarks.pseudo_real.truth import BinnedMap, TrueMaps
from calibrant.cells import Floats
from calibrant.reductions import Event

FOLDER = Path(__file__).parents[2] / ".calibrant" / "pseudo-real"
EVENTS = ("class:0", "class:1", "class:2", "confidence")
SIZES, SEEDS = (1_000, 3_000, 10_000), 5
CALIBRATION_ROWS, TRUTH_ROWS = 5_000, 1_000_000
#: Rows on which the distance to the true map is computed.
DISTANCE_ROWS = 100_000
HELD_OUT = CALIBRATION_ROWS + SEEDS * sum(SIZES) + TRUTH_ROWS
BINNED = {"ES_15": "ece", "ES_sweep": "ece-sweep"}
EVALUATORS = ("identity", "platt", "beta", "isotonic", "pl", "pl3", "averaged", *BINNED)

Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A calibrator's output for one event of one model."""

    model: str
    event: str
    calibrator: str


JOBS = tuple(Job(*names) for names in product(model.MODELS, EVENTS, CALIBRATORS))


def digest(*paths: Path) -> str:
    """Short hash of some files, which separates results of different code."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


def predict(name: str) -> None:
    """Train a model and store its output on the held-out rows, unless stored already."""
    if _stored(name).exists():
        return
    parts = list(model.held_out(name, HELD_OUT))
    logits, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    FOLDER.mkdir(parents=True, exist_ok=True)
    unfinished = _stored(name).with_suffix(".part.npz")
    np.savez(unfinished, logits=logits, labels=labels)
    unfinished.replace(_stored(name))


def rows(name: str) -> Rows:
    """The held-out rows of a model: for the calibrators, then for the evaluators, then for the truth."""
    with np.load(_stored(name)) as arrays:
        return Rows(arrays["logits"].astype(np.float64), arrays["labels"])


def _stored(name: str) -> Path:
    return FOLDER / f"{name}-{HELD_OUT}-{digest(Path(model.__file__))}.npz"


def describe(name: str) -> Record:
    """Accuracy and mean confidence of a model, and the true calibration error of each event before any calibrator."""
    held_out = rows(name)
    truth = Rows(held_out.logits[-TRUTH_ROWS:], held_out.labels[-TRUTH_ROWS:])
    events = {event: truth.event(event) for event in EVENTS}
    errors = {event: float(np.abs(e.p - TrueMaps.fit(e).isotonic(e.p)).mean()) for event, e in events.items()}
    confidence = events["confidence"]
    return {"accuracy": float(confidence.y.mean()), "confidence": float(confidence.p.mean()), "errors": errors}


def evaluated_rows(n: int, seed: int) -> slice:
    """The held-out rows of a run; no two runs share rows."""
    start = CALIBRATION_ROWS + seed * sum(SIZES) + sum(size for size in SIZES if size < n)
    return slice(start, start + n)


def run(job: Job) -> list[Record]:
    """Records of every size, seed and evaluator."""
    held_out = rows(job.model)
    shown = Rows(held_out.logits[:CALIBRATION_ROWS], held_out.labels[:CALIBRATION_ROWS])
    event = calibrated(job.calibrator, shown, held_out, job.event)
    truth = _part(event, slice(HELD_OUT - TRUTH_ROWS, HELD_OUT))
    true_maps = TrueMaps.fit(truth)
    queries = truth.p[:DISTANCE_ROWS]
    at_queries = true_maps(queries)
    records = []
    for n, seed in product(SIZES, range(SEEDS)):
        part = _part(event, evaluated_rows(n, seed))
        errors = {name: float(np.abs(part.p - c).mean()) for name, c in true_maps(part.p).items()}
        for evaluator in EVALUATORS:
            c_hat, ece = evaluate(evaluator, part, queries, seed)
            distances = {name: float(np.abs(c_hat - c).mean()) for name, c in at_queries.items()}
            records.append(
                {**vars(job), "n": n, "seed": seed, "evaluator": evaluator}
                | {"distance": distances, "ece": ece, "ce": errors}
            )
    return records


def _part(event: Event, chosen: slice) -> Event:
    return Event(event.p[chosen], event.y[chosen])


def evaluate(evaluator: str, event: Event, queries: Floats, seed: int) -> tuple[Floats, float]:
    """Estimate the calibration map at ``queries (m,)``, and the calibration error of the event's rows."""
    if evaluator in BINNED:
        result = calibrant.evaluate(event.p, event.y, measures=[BINNED[evaluator]]).measures[BINNED[evaluator]]
        if result.debiased is None:
            raise ValueError(result.problem)
        return BinnedMap.fit(event, result.definition["n_bins"]).tilted(queries), result.debiased
    fitted = calibrant.fit(evaluator, event.p, event.y, seed=seed)
    return fitted.apply(queries), float(np.abs(fitted.apply(event.p) - event.p).mean())
