"""The two parts of the experiment: calibrators against the true map, and evaluators of calibrated predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.pseudo_real import model
from benchmarks.pseudo_real.calibrators import (
    CALIBRATORS,
    FINER,
    FIVE,
    SIX,
    ModelRows,
    calibrated,
    calibrated_events,
    fitted_curve,
)
from benchmarks.pseudo_real.evaluators import EVALUATORS, estimates
from benchmarks.pseudo_real.truth import TrueMaps
from calibrant.core.cells import Floats
from calibrant.core.reductions import Event

FOLDER = Path(__file__).parents[2] / ".calibrant" / "pseudo-real"
EVENTS = ("class:0", "class:1", "class:2", "confidence")
SIZES, SEEDS = (1_000, 3_000, 10_000), 5
CALIBRATION_ROWS, TRUTH_ROWS = 5_000, 1_000_000
#: Rows on which the distance to the true map is computed.
DISTANCE_ROWS = 100_000
HELD_OUT = CALIBRATION_ROWS + SEEDS * sum(SIZES) + TRUTH_ROWS
#: Evaluators of Table F24 and Figure F8.
NINE = ("ES_15", "ES_sweep", "ES_CV", "PL3 CE", "PL MSE", "PL_DE", "beta", "isotonic", "Platt")

Record = dict[str, Any]


class ExperimentPart(NamedTuple):
    """One part of the experiment: ``kind`` is ``calibrators``, ``evaluators`` or ``biases``.

    ``event`` is empty for the calibrators, whose fits cover all events.
    """

    kind: str
    model: str
    calibrator: str
    event: str
    seed: int


def jobs(repetitions: int) -> list[ExperimentPart]:
    """Every job of the first ``repetitions`` seeds; those of one seed come before those of the next."""
    return [job for seed in range(repetitions) for job in _of_seed(seed)]


def _of_seed(seed: int) -> list[ExperimentPart]:
    parts = [ExperimentPart("calibrators", *names, "", seed) for names in product(model.MODELS, (*CALIBRATORS, FINER))]
    parts += [ExperimentPart("evaluators", m, c, event, seed) for m, event, c in product(model.MODELS, EVENTS, SIX)]
    # Real predictions, beside which these stand, are evaluated under confidence alone.
    return parts + [ExperimentPart("biases", m, c, "confidence", seed) for m, c in product(model.MODELS, FIVE)]


def run(job: ExperimentPart) -> list[Record]:
    """The records of a job."""
    if job.kind == "calibrators":
        return calibrator_records(job, held_out(job.model))
    names = EVALUATORS if job.kind == "evaluators" else NINE
    return evaluator_records(job, held_out(job.model), names)


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


@lru_cache(maxsize=1)
def held_out(name: str) -> ModelRows:
    """The held-out rows of a model: for the calibrators, then for the evaluators, then for the truth."""
    with np.load(_stored(name)) as arrays:
        return ModelRows(arrays["logits"].astype(np.float64), arrays["labels"])


def _stored(name: str) -> Path:
    version = hashlib.sha256(Path(str(model.__file__)).read_bytes()).hexdigest()[:12]
    return FOLDER / f"{name}-{HELD_OUT}-{version}.npz"


def describe(name: str) -> Record:
    """Accuracy, mean confidence, and for each event the distances of the predictions and of Platt scaling from c*.

    Platt scaling is fitted to the rows of the truth, so its distance says how straight c* is in logit-logit space.
    """
    truth = held_out(name)[-TRUTH_ROWS:]
    errors, platt = {}, {}
    for event in EVENTS:
        rows = truth.event(event)
        c = TrueMaps.fit(rows).isotonic(rows.p)
        errors[event] = float(np.abs(rows.p - c).mean())
        platt[event] = float(np.abs(fitted_curve("Platt", rows)(rows.p) - c).mean())
    confidence = truth.event("confidence")
    return {
        "accuracy": float(confidence.y.mean()),
        "confidence": float(confidence.p.mean()),
        "errors": errors,
        "platt": platt,
    }


def training_rows(seed: int) -> slice:
    """The rows on which calibrators are fitted: those of seed 0 are used for nothing else."""
    return slice(seed * CALIBRATION_ROWS, (seed + 1) * CALIBRATION_ROWS)


def evaluated_rows(n: int, seed: int) -> slice:
    """The held-out rows of an evaluation; no two share rows."""
    start = CALIBRATION_ROWS + seed * sum(SIZES) + sum(size for size in SIZES if size < n)
    return slice(start, start + n)


def calibrator_records(job: ExperimentPart, rows: ModelRows, truth_rows: int = TRUTH_ROWS) -> list[Record]:
    """Tables 1 and F1: the distance of the calibrator's output from the true map of the uncalibrated predictions."""
    truth = rows[-truth_rows:]
    tested = truth[:DISTANCE_ROWS]
    after = calibrated_events(job.calibrator, rows[training_rows(job.seed)], tested, EVENTS)
    records = []
    for event in EVENTS:
        c = TrueMaps.fit(truth.event(event)).isotonic(tested.event(event).p)
        distance = float(np.abs(after[event].p - c).mean())
        records.append({**job._asdict(), "event": event, "distance": distance})
    return records


def evaluator_records(
    job: ExperimentPart,
    rows: ModelRows,
    names: Sequence[str],
    truth_rows: int = TRUTH_ROWS,
    sizes: Sequence[int] = SIZES,
) -> list[Record]:
    """Tables 2, 3, F2 to F19 and F24: every evaluator on the output of a calibrator, for every size.

    ``distance`` and ``ce`` hold the mean |.| and the mean square under each estimate of the true map; ``ece`` holds
    the errors of norm 1 and 2 that the evaluator reports.
    """
    event = calibrated(job.calibrator, rows[training_rows(0)], rows, job.event)
    truth = _part(event, slice(len(rows.labels) - truth_rows, len(rows.labels)))
    true_maps = TrueMaps.fit(truth)
    queries = truth.p[:DISTANCE_ROWS]
    at_queries = true_maps(queries)
    records = []
    for n in sizes:
        part = _part(event, evaluated_rows(n, job.seed))
        true_errors = {name: moments(part.p - c) for name, c in true_maps(part.p).items()}
        for evaluator, estimate in estimates(part, names, job.seed).items():
            c_hat = estimate.map(queries)
            distances = {name: moments(c_hat - c) for name, c in at_queries.items()}
            records.append(
                {**job._asdict(), "n": n, "evaluator": evaluator}
                | {"distance": distances, "ece": list(estimate.errors), "ce": true_errors}
            )
    return records


def moments(gap: Floats) -> list[float]:
    """The mean |gap| and the mean gap^2."""
    return [float(np.abs(gap).mean()), float(np.square(gap).mean())]


def _part(event: Event, chosen: slice) -> Event:
    y: npt.NDArray[np.int8] = event.y[chosen]
    return Event(event.p[chosen], y)
