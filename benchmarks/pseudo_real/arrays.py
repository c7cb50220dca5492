"""The records of complete seeds as arrays, and the statistics of the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, spearmanr

from benchmarks.laws import possible
from benchmarks.pseudo_real.calibrators import CALIBRATORS
from benchmarks.pseudo_real.experiment import EVENTS, SEEDS, SIZES, ExperimentPart, Record, jobs
from benchmarks.pseudo_real.model import MODELS
from benchmarks.pseudo_real.truth import TRUTHS
from calibrant.core.cells import Floats

_MODELS = tuple(MODELS)


@dataclass(frozen=True)
class EvaluatorArrays:
    """Values of every evaluator, with the axes evaluator, model, event, calibrator, size and seed.

    ``distance``, ``ece`` and ``ce`` hold these arrays by (estimate of the true map, norm); ``ece`` by norm alone.
    """

    evaluators: tuple[str, ...]
    calibrators: tuple[str, ...]
    distance: Mapping[tuple[str, int], Floats]
    ece: Mapping[int, Floats]
    ce: Mapping[tuple[str, int], Floats]

    @property
    def seeds(self) -> int:
        """The number of repetitions."""
        return int(self.ece[1].shape[-1])

    def of(self, values: Floats, names: Sequence[str]) -> Floats:
        """The part of an array that belongs to some evaluators, in their order."""
        return values[[self.evaluators.index(name) for name in names]]

    def distances(self, names: Sequence[str], norm: int = 1, truth: str = TRUTHS[0]) -> Floats:
        """|c_hat - c*|^norm, in thousandths."""
        return 1e3 * possible(self.of(self.distance[truth, norm], names), "distance of maps", low=0.0)

    def errors(self, names: Sequence[str], norm: int = 1, truth: str = TRUTHS[0]) -> Floats:
        """|ECE - CE| of this norm, in thousandths."""
        return 1e3 * np.abs(possible(self.of(self.ece[norm] - self.ce[truth, norm], names), "error of ECE"))

    def biases(self, names: Sequence[str]) -> Floats:
        """ECE - CE, in thousandths."""
        return 1e3 * possible(self.of(self.ece[1] - self.ce[TRUTHS[0], 1], names), "bias of ECE")

    def rank_correlations(self, names: Sequence[str], truth: str = TRUTHS[0]) -> Floats:
        """Spearman's correlation of ECE and CE over the calibrators, which are no axis of the result.

        0 if an evaluator gives all calibrators the same error.
        """
        ece, ce = (np.moveaxis(self.of(values, names), 3, -1) for values in (self.ece[1], self.ce[truth, 1]))
        correlations = np.zeros(ece.shape[:-1])
        for at in np.ndindex(*correlations.shape):
            if np.ptp(ece[at]) > 0 and np.ptp(ce[at]) > 0:
                correlations[at] = spearmanr(ece[at], ce[at]).statistic
        return correlations


def complete_seeds(results: Mapping[ExperimentPart, Sequence[Record]], kind: str) -> int:
    """The number of seeds, from 0 on, of which every job of a kind has records."""
    for seed in range(SEEDS):
        if any(job not in results for job in jobs(seed + 1) if job.kind == kind):
            return seed
    return SEEDS


def arrays(
    results: Mapping[ExperimentPart, Sequence[Record]], kind: str, evaluators: Sequence[str], calibrators: Sequence[str]
) -> EvaluatorArrays:
    """The records of a kind of job, of complete seeds."""
    seeds = complete_seeds(results, kind)
    if seeds == 0:
        raise ValueError(f"no seed is complete: {kind}; run python -m benchmarks.pseudo_real")
    shape = (len(evaluators), len(_MODELS), len(EVENTS), len(calibrators), len(SIZES), seeds)
    distance = {(truth, norm): np.full(shape, np.nan) for truth in TRUTHS for norm in (1, 2)}
    ce = {key: np.full(shape, np.nan) for key in distance}
    ece = {norm: np.full(shape, np.nan) for norm in (1, 2)}
    for job, records in results.items():
        if job.kind != kind or job.seed >= seeds:
            continue
        place = _MODELS.index(job.model), EVENTS.index(job.event), calibrators.index(job.calibrator)
        for record in records:
            at = evaluators.index(record["evaluator"]), *place, SIZES.index(record["n"]), job.seed
            for truth, norm in distance:
                distance[truth, norm][at] = record["distance"][truth][norm - 1]
                ce[truth, norm][at] = record["ce"][truth][norm - 1]
            for norm in ece:
                ece[norm][at] = record["ece"][norm - 1]
    return EvaluatorArrays(tuple(evaluators), tuple(calibrators), distance, ece, ce)


def calibrator_distances(
    results: Mapping[ExperimentPart, Sequence[Record]], calibrators: Sequence[str] = CALIBRATORS
) -> Floats:
    """|c_hat - c*| of some calibrators, in thousandths: ``(calibrator, model, event)``, mean over complete seeds."""
    seeds = complete_seeds(results, "calibrators")
    distances = np.zeros((len(calibrators), len(_MODELS), len(EVENTS)))
    for job, records in results.items():
        if job.kind == "calibrators" and job.calibrator in calibrators and job.seed < seeds:
            place = calibrators.index(job.calibrator), _MODELS.index(job.model)
            for record in records:
                distances[*place, EVENTS.index(record["event"])] += (
                    1e3 * possible(record["distance"], "distance of maps", low=0.0) / seeds
                )
    return distances


def mean_ranks(values: Floats) -> Floats:
    """The mean rank of each column ``(c,)`` over the rows of ``values (r, c)``; 1 is best, ties share a rank."""
    ranks: Floats = rankdata(values, axis=1).mean(axis=0)
    return ranks


def agreement(ours: Floats, published: Sequence[float | None]) -> float:
    """Spearman's correlation of two orders, over the columns that the paper has."""
    known = [i for i, value in enumerate(published) if value is not None]
    return float(spearmanr(ours[known], [published[i] for i in known]).statistic)
