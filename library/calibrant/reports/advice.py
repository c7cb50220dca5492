"""The recommended map: a comparison of fast methods by cross-fitting, and its description."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.calibrators import METHODS, Fitting
from calibrant.core.batch import Batch
from calibrant.core.errors import CalibrationError
from calibrant.core.reductions import Event, Vector, reduce, resolve, whole_vector
from calibrant.core.validation import divided_batch
from calibrant.maps.calibration_map import scored
from calibrant.measures.cross_fitting import FOLDS, Training, out_of_fold_predictions
from calibrant.measures.improvement import improvement, improvements
from calibrant.measures.intervals import Resampling, row_scale
from calibrant.measures.measure import MeasureResult
from calibrant.reports import lookup, numbers
from calibrant.reports.verdict import ALPHA, tested

# --- The comparison of fast methods by cross-fitting

#: The most rows and probabilities used; from more, a random sample is drawn.
MOST_ROWS, MOST_NUMBERS = 20_000, 50_000
#: A method with a longer estimated time in seconds, over all folds, is not tried.
MOST_SECONDS = 1.0
#: A slower method, which is the best on most data.
OF_A_JOB = "averaged"
#: The problem of all candidates if every row has the same label.
ONE_OUTCOME = "cannot be fitted: all labels are equal"
#: Simultaneous level of the intervals of the gains.
LEVEL = 0.95


@dataclass(frozen=True)
class Candidate:
    """A compared method.

    Attributes
    ----------
    method : str
        Name of the method.
    reduction : str
        What it is fitted to.
    parameters : int or None
        Number of parameters of the map; None if it depends on the data.
    gains : mapping of str to MeasureResult
        Improvement over the uncalibrated predictions by score: ``value``, a simultaneous ``interval``, and in ``parts``
        the scores ``before`` and ``after``. Empty if the method could not be fitted.
    problem : str or None
        Why the method could not be fitted.
    """

    method: str
    reduction: str
    parameters: int | None
    gains: Mapping[str, MeasureResult]
    problem: str | None = None

    @property
    def proven(self) -> bool:
        """Whether the log loss improves significantly and the Brier score does not worsen significantly."""
        ends = {score: gain.interval for score, gain in self.gains.items()}
        log_loss, brier = ends.get("log-loss"), ends.get("brier")
        return log_loss is not None and log_loss[0] > 0.0 and (brier is None or brier[1] >= 0.0)


@dataclass(frozen=True)
class Recommendation:
    """A recommended method.

    Attributes
    ----------
    recommended : str
        Method of a candidate, or ``identity`` if no gain is significant.
    reduction : str
        Reduction of the fit.
    n : int
        Number of rows used.
    candidates : tuple of Candidate
        The compared methods.
    folds, level, seed
        Options of the comparison.
    job : str
        A slower method that may be better.
    """

    recommended: str
    reduction: str
    n: int
    candidates: tuple[Candidate, ...]
    folds: int = FOLDS
    level: float = LEVEL
    seed: int = 0
    job: str = OF_A_JOB

    def to_document(self) -> dict[str, Any]:
        """Convert to JSON, the ``recommendation`` of a report."""
        return dataclasses.asdict(self)


def recommended_map(batch: Batch, reduction: str | None = None, *, seed: int = 0) -> Recommendation:
    """Compare fast methods by out-of-fold predictions and recommend a map.

    A method qualifies if the interval of its gain in log loss is above 0, with a Bonferroni correction for the number
    of candidates, and its Brier score does not worsen significantly. Of these, the simplest method is recommended whose
    log loss is within one standard error (of the paired difference) of the lowest (Breiman et al. 1984). Intervals are
    conditional on the fitted maps of the folds. O(candidates x folds).

    Parameters
    ----------
    batch : Batch
        Labelled rows. From more than 20,000 rows or 50,000 probabilities, a random sample is used.
    reduction : str, optional
        Reduction of the evaluation. For one class or rank, methods for an event are compared; for other reductions of
        (n, K), methods for the whole vector.
    seed : int
        Seed of the sample and the folds.

    Returns
    -------
    Recommendation
        The recommended method and all candidates. Slow methods are marked as not tried.

    Raises
    ------
    UnknownReduction
        For an unknown reduction.

    Examples
    --------
    >>> from calibrant.core.batch import read_batch
    >>> random = np.random.default_rng(0)
    >>> z = random.normal(0.0, 2.0, 4000)
    >>> y = random.random(4000) < 1.0 / (1.0 + np.exp(-z / 2.0))
    >>> recommended_map(read_batch(1.0 / (1.0 + np.exp(-z)), y.astype(int))).recommended
    'temperature'
    """
    target = _reduction(reduction, batch.predictions.n_classes)
    chosen = _rows(divided_batch(batch), seed)
    before = whole_vector(chosen) if target == "canonical" else reduce(chosen, target)
    entries = _entries(target, batch.predictions.n_classes)
    resampling = Resampling(1.0 - (1.0 - LEVEL) / len(entries), 1000, seed)
    candidates, after = [], {}
    for method, own, parameters in entries:
        calibrated = _made(chosen, before, Fitting.read(method, {}, own), seed)
        if isinstance(calibrated, str):
            candidates.append(Candidate(method, own, parameters, {}, calibrated))
        else:
            after[method] = calibrated
            candidates.append(Candidate(method, own, parameters, improvements(before, calibrated, resampling)))
    best = _simplest(candidates, after)
    name, own = ("identity", target) if best is None else (best.method, best.reduction)
    return Recommendation(name, own, len(chosen), tuple(candidates), seed=seed)


def _reduction(reduction: str | None, n_classes: int | None) -> str:
    """Return the reduction of the fit: one event, or the whole vector."""
    name = resolve(reduction, n_classes)
    if n_classes is None:
        return "confidence" if name == "confidence" else "binary"
    return "canonical" if name in ("confidence", "classwise", "canonical", "pooled") else name


def _entries(reduction: str, n_classes: int | None) -> tuple[tuple[str, str, int | None], ...]:
    """Return the methods, their reductions and numbers of parameters; the simplest first."""
    if reduction != "canonical":
        events = (("temperature", 1), ("platt", 2), ("beta", 3), ("spline", None), ("isotonic", None))
        return tuple((name, reduction, parameters) for name, parameters in events)
    K = n_classes or 2
    return (
        ("temperature", "canonical", 1),
        ("ets", "canonical", 3),
        ("platt", "classwise", 2 * K),
        ("vector", "canonical", 2 * K),
        ("isotonic", "classwise", None),
    )


def _rows(batch: Batch, seed: int) -> Batch:
    most = min(MOST_ROWS, max(MOST_NUMBERS // (batch.predictions.n_classes or 1), 1000))
    if len(batch) <= most:
        return batch
    return batch.rows(np.sort(np.random.default_rng(seed).choice(len(batch), most, replace=False)))


def _made(batch: Batch, before: Event | Vector, fitting: Fitting, seed: int) -> Event | Vector | str:
    """Return the out-of-fold predictions of a method, or the reason why there are none."""
    training = Training(fitting=fitting, seed=seed)
    if len(batch) >= FOLDS and np.ptp(before.y if isinstance(before, Event) else before.labels) == 0:
        return ONE_OUTCOME
    if training.seconds(batch) > MOST_SECONDS:
        return "not tried: too slow for these rows"
    try:
        p = out_of_fold_predictions(batch, training)
    except CalibrationError as error:
        return f"cannot be fitted: {error.detail}"
    if isinstance(before, Vector):
        return replace(before, probabilities=p, logits=None)
    return replace(before, p=p, logit=None, whole=None)


def _simplest(candidates: Sequence[Candidate], after: Mapping[str, Event | Vector]) -> Candidate | None:
    """Return the first qualifying candidate that is as good as the best; candidates are ordered by complexity."""
    good = [candidate for candidate in candidates if candidate.proven]
    if not good:
        return None
    best = min(good, key=lambda candidate: candidate.gains["log-loss"].parts["after"])
    return next(candidate for candidate in good if _as_good(after[candidate.method], after[best.method]))


def _as_good(candidate: Event | Vector, best: Event | Vector) -> bool:
    """Whether a log loss is within one standard error of the best."""
    lost, influence = improvement(candidate, best, "log-loss")
    mass = float(len(best)) if best.w is None else float(best.w.sum())
    parts: Any = row_scale(best) * influence
    if best.clusters is not None:
        parts = np.bincount(best.clusters, parts)
    return lost <= float(np.linalg.norm(parts)) / mass


# --- The recommendation as text, and the table of the maps compared


@dataclass(frozen=True)
class CandidateRow:
    """A row of the table of compared maps, as text; each cell is a value and what is below it."""

    method: str
    note: str
    cells: tuple[tuple[str, str], ...]
    title: str = ""


@dataclass(frozen=True)
class Advice:
    """A recommendation as text: headline, reasons, Python that fits the map, and the table of the compared maps."""

    headline: str
    reasons: tuple[str, ...]
    caption: str
    columns: tuple[str, ...]
    rows: tuple[CandidateRow, ...]
    python: str | None = None


def advice(report: Mapping[str, Any], named: Callable[[str], str] = str) -> Advice | None:
    """Describe the ``recommendation`` of a report, with the names of reductions; returns None if it has none."""
    recommendation = report.get("recommendation")
    if not recommendation:
        return None
    best = next((c for c in recommendation["candidates"] if c["method"] == recommendation["recommended"]), None)
    fitted = [c for c in recommendation["candidates"] if c["gains"]]
    lowest = min(fitted, key=lambda c: float(c["gains"]["log-loss"]["parts"]["after"]), default=None)
    rows = tuple(
        _compared(candidate, best=candidate is best, lowest=candidate is lowest)
        for candidate in recommendation["candidates"]
    )
    of_vector = any(c["reduction"] in ("canonical", "classwise") for c in recommendation["candidates"])
    of = named("canonical" if of_vector else recommendation["candidates"][0]["reduction"])
    caption = (
        f"Compared maps, held-out scores for the reduction {of}; the {numbers.level(recommendation['level'])} "
        "interval, simultaneous over all maps, is below each improvement."
    )
    columns = ("Parameters", f"Log loss, {of}", "Improvement in log loss", "Improvement in Brier score")
    return Advice(
        _headline(recommendation, best, report),
        _reasons(recommendation, best, report),
        caption,
        columns,
        rows,
        _fit(best),
    )


def improved(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Describe the improvement by the applied map, with a warning if it may be in-sample."""
    gains = report.get("improvement")
    if not gains:
        return ()
    if lookup.unchanged(report):
        return ("The map leaves the predictions as they are.",)
    sentences = [_gained(score, gains.get(key)) for key, score in (("log-loss", "log loss"), ("brier", "Brier score"))]
    if report.get("in_sample"):
        sentences.append(
            "The map was fitted to these rows, so the in-sample measures are optimistic. The improvement is "
            "cross-fitted (5 folds) and has no p-value."
        )
    elif report.get("in_sample") is None:
        sentences.append(
            "It is unknown whether the map was fitted to these rows; if it was, these results are optimistic."
        )
    if report.get("warning"):
        sentences.append(f"Its fit warned: {report['warning']}.")
    return tuple(sentence for sentence in sentences if sentence)


def _gained(score: str, gain: Mapping[str, Any] | None) -> str:
    if gain is None or gain["value"] is None:
        return ""
    ends = lookup.interval(gain)
    between = (
        "" if ends is None else f" ({numbers.level(gain['definition']['interval'])} interval {numbers.interval(ends)})"
    )
    verb = "lowers" if gain["value"] >= 0.0 else "raises"
    reduction = gain["definition"].get("reduction")
    score += "" if reduction is None else f" of {scored(reduction)}"
    return f"The map {verb} the {score} by {numbers.number(abs(gain['value']))}{_turned(between, gain)}."


def _turned(between: str, gain: Mapping[str, Any]) -> str:
    """Return the interval; for a score that got worse, say that the interval is that of the reduction."""
    return between if gain["value"] >= 0.0 else between.replace("interval", "interval of the reduction")


def _headline(recommendation: Mapping[str, Any], best: Mapping[str, Any] | None, report: Mapping[str, Any]) -> str:
    if best is not None:
        gain = best["gains"]["log-loss"]
        return f"Fit {_named(best)}: estimated to lower the log loss by {numbers.number(gain['value'])} nats"
    if not _fitted(recommendation):
        return f"No map can be recommended: {_hindrance(recommendation)}"
    if _rejected(report):
        return "No map can be recommended: calibration is rejected, but no fast method is significantly better"
    return "Keep the predictions unchanged: no fast method is significantly better"


def _rejected(report: Mapping[str, Any]) -> bool:
    test = tested(report)
    return test is not None and test.p_value < ALPHA


def _fitted(recommendation: Mapping[str, Any]) -> int:
    """Return the number of methods that could be fitted."""
    return sum(bool(candidate["gains"]) for candidate in recommendation["candidates"])


def _hindrance(recommendation: Mapping[str, Any]) -> str:
    """Return the reason why no method could be fitted."""
    if recommendation["n"] < recommendation["folds"]:
        return f"at least {recommendation['folds']} rows are required"
    if all(candidate["problem"] == ONE_OUTCOME for candidate in recommendation["candidates"]):
        return "all labels are equal"
    return "none of the fast methods can be fitted to these rows"


def _named(candidate: Mapping[str, Any]) -> str:
    by_class = " (classwise)" if candidate["reduction"] == "classwise" else ""
    return f"{candidate['method']}{by_class}"


def _reasons(
    recommendation: Mapping[str, Any], best: Mapping[str, Any] | None, report: Mapping[str, Any]
) -> tuple[str, ...]:
    level, compared = numbers.level(recommendation["level"]), len(recommendation["candidates"])
    if not _fitted(recommendation):
        return _hindrances(recommendation)
    sentences = []
    if best is not None:
        for key, score in (("log-loss", "Log loss"), ("brier", "Brier score")):
            gain = best["gains"][key]
            before, after = (numbers.number(gain["parts"][side]) for side in ("before", "after"))
            ends = lookup.interval(gain)
            between = "" if ends is None else f" (improvement {numbers.interval(ends)})"
            sentences.append(f"{score} {before} before and {after} after{between}.")
        if best["reduction"] in ("canonical", "classwise") and report["reduction"] != "canonical":
            sentences.append(
                f"These scores are for the whole probability vector; the measures above are for {report['reduction']}."
            )
        sentences.append(
            "Of the maps with a significant improvement, it is the simplest within one standard error of the best."
        )
    else:
        sentences.append("No map improves the log loss significantly without worsening the Brier score.")
        if _rejected(report):
            sentences.append("Calibration is rejected nevertheless; more rows may show which map to fit.")
    sentences.append(
        f"Scores are out-of-sample (cross-fitting with {recommendation['folds']} folds); the {level} intervals are "
        f"simultaneous over all {compared} maps."
    )
    if recommendation["n"] < report["n"]:
        sentences.append(
            f"The comparison uses a random sample of {numbers.count(recommendation['n'])} rows "
            f"(seed {recommendation['seed']})."
        )
    return (*sentences, *_job(recommendation))


def _hindrances(recommendation: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the reasons why methods could not be compared, with their names."""
    named: dict[str, list[str]] = {}
    for candidate in recommendation["candidates"]:
        why = (candidate["problem"] or "not compared").removeprefix("cannot be fitted: ")
        named.setdefault(why, []).append(_named(candidate))
    return tuple(f"Not compared ({why}): {numbers.listed(names, most=10)}." for why, names in named.items())


def _job(recommendation: Mapping[str, Any]) -> tuple[str, ...]:
    """Name a slower method that may be better."""
    return (f"The slower method {recommendation['job']}, which averages many maps, may be better.",)


def _compared(candidate: Mapping[str, Any], *, best: bool, lowest: bool) -> CandidateRow:
    entry, count, gains = METHODS.get(candidate["method"]), candidate["parameters"], candidate["gains"]
    improvements = [
        (numbers.number(gains[score]["value"]), numbers.interval(lookup.interval(gains[score])))
        if gains.get(score) is not None
        else ("", "")
        for score in ("log-loss", "brier")
    ]
    log_loss = gains.get("log-loss")
    loss = "" if log_loss is None else numbers.number(log_loss["parts"]["after"])
    return CandidateRow(
        _named(candidate),
        ", ".join(["recommended"] * best + ["lowest log loss"] * lowest) or candidate["problem"] or "",
        (("data-dependent" if count is None else numbers.count(count), ""), (loss, ""), *improvements),
        "" if entry is None else entry.title,
    )


def _fit(best: Mapping[str, Any] | None) -> str | None:
    if best is None:
        return None
    return f'calibrant.fit("{best["method"]}", predictions, labels, reduction="{best["reduction"]}")'
