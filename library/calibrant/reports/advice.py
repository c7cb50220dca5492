"""The recommended map: quick methods compared by cross-fitting, and the advice as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.batch import Batch
from calibrant.calibrators import METHODS, Fitting
from calibrant.errors import CalibrationError
from calibrant.measures.cross_fitting import FOLDS, Training, out_of_fold_predictions
from calibrant.measures.improvement import improvement, improvements
from calibrant.measures.intervals import Resampling, row_scale
from calibrant.measures.measure import MeasureResult
from calibrant.reductions import Event, Vector, reduce, resolve, whole_vector
from calibrant.reports import lookup, numbers
from calibrant.reports.verdict import ALPHA, tested

# --- The comparison of quick methods by cross-fitting

#: At most so many rows, and so many probabilities, are fitted to; the rest is left out at random.
MOST_ROWS, MOST_NUMBERS = 20_000, 50_000
#: A method of more estimated seconds than this, over all folds, is not tried.
MOST_SECONDS = 1.0
#: What a job could add: slower, and on most data the best.
OF_A_JOB = "averaged"
#: Why nothing is compared where every row has the same label: one parameter could be fitted, but to one label alone.
ONE_OUTCOME = "cannot be fitted: labels hold one outcome only, where a fit needs others"
#: Level of the intervals of all gains at once.
LEVEL = 0.95


@dataclass(frozen=True)
class Candidate:
    """A method compared. ``parameters`` are how many its map has, None where the rows decide.

    ``gains`` by score hold what it gains on the predictions as they are: ``value``, an ``interval`` that holds for all
    candidates at once, and in ``parts`` the scores ``before`` and ``after``. What could not be fitted has none, and its
    ``problem``.
    """

    method: str
    reduction: str
    parameters: int | None
    gains: Mapping[str, MeasureResult]
    problem: str | None = None

    @property
    def proven(self) -> bool:
        """Whether the log loss surely gains, and the Brier score does not surely lose."""
        ends = {score: gain.interval for score, gain in self.gains.items()}
        log_loss, brier = ends.get("log-loss"), ends.get("brier")
        return log_loss is not None and log_loss[0] > 0.0 and (brier is None or brier[1] >= 0.0)


@dataclass(frozen=True)
class Recommendation:
    """``recommended`` is a candidate's method, fitted with ``reduction``; ``identity`` where no gain is proven.

    ``n`` rows of all were used, with ``folds`` folds; ``job`` is what a slower fit could add.
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
        """The same as plain JSON: the ``recommendation`` of a report."""
        return dataclasses.asdict(self)


def recommend(batch: Batch, reduction: str | None = None, *, seed: int = 0) -> Recommendation:
    """Compare quick methods by out-of-fold predictions, and recommend the simplest of the good ones.

    A method is good where the interval of its gain in log loss over the predictions as they are lies above 0, after a
    correction for the number of candidates (Bonferroni), and its Brier score does not surely lose. Of the good ones the
    one of fewest parameters is taken whose log loss is within one standard error, of the paired difference, of the
    least (Breiman et al. 1984); intervals take the maps of the folds as given.

    ``reduction`` is that of the evaluation: of one class or rank an event's methods are compared, of (n, K) under any
    other the whole vector's. Rows beyond 20,000, and probabilities beyond 50,000, are left out at random with
    ``seed``; methods that would take long are marked as not tried. Raises ``UnknownReduction``. O(candidates x folds).

    >>> from calibrant.batch import read_batch
    >>> random = np.random.default_rng(0)
    >>> z = random.normal(0.0, 2.0, 4000)
    >>> y = random.random(4000) < 1.0 / (1.0 + np.exp(-z / 2.0))
    >>> recommend(read_batch(1.0 / (1.0 + np.exp(-z)), y.astype(int))).recommended
    'temperature'
    """
    target = _reduction(reduction, batch.predictions.n_classes)
    chosen = _rows(batch, seed)
    before = whole_vector(chosen) if target == "canonical" else reduce(chosen, target)
    entries = _entries(target, batch.predictions.n_classes)
    resampling = Resampling(1.0 - (1.0 - LEVEL) / len(entries), 1000, seed)
    candidates, after = [], {}
    for method, own, parameters in entries:
        made = _made(chosen, before, Fitting.read(method, {}, own), seed)
        if isinstance(made, str):
            candidates.append(Candidate(method, own, parameters, {}, made))
        else:
            after[method] = made
            candidates.append(Candidate(method, own, parameters, improvements(before, made, resampling)))
    best = _simplest(candidates, after)
    name, own = ("identity", target) if best is None else (best.method, best.reduction)
    return Recommendation(name, own, len(chosen), tuple(candidates), seed=seed)


def _reduction(reduction: str | None, n_classes: int | None) -> str:
    """What is fitted for what is measured: one event, or the whole vector."""
    name = resolve(reduction, n_classes)
    if n_classes is None:
        return "confidence" if name == "confidence" else "binary"
    return "canonical" if name in ("confidence", "classwise", "canonical", "pooled") else name


def _entries(reduction: str, n_classes: int | None) -> tuple[tuple[str, str, int | None], ...]:
    """Methods, what each is fitted to, and its parameters; the simplest first."""
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
    """The out-of-fold predictions of a method, or why there are none."""
    training = Training(fitting=fitting, seed=seed)
    if len(batch) >= FOLDS and np.ptp(before.y if isinstance(before, Event) else before.labels) == 0:
        return ONE_OUTCOME
    if training.seconds(batch) > MOST_SECONDS:
        return "not tried: it would take too long here"
    try:
        p = out_of_fold_predictions(batch, training)
    except CalibrationError as error:
        return f"cannot be fitted: {error.detail}"
    if isinstance(before, Vector):
        return replace(before, probabilities=p, logits=None)
    return replace(before, p=p, logit=None, whole=None)


def _simplest(candidates: Sequence[Candidate], after: Mapping[str, Event | Vector]) -> Candidate | None:
    """Of the proven candidates, which stand with the simplest first, the first as good as the best; None without."""
    good = [candidate for candidate in candidates if candidate.proven]
    if not good:
        return None
    best = min(good, key=lambda candidate: candidate.gains["log-loss"].parts["after"])
    return next(candidate for candidate in good if _as_good(after[candidate.method], after[best.method]))


def _as_good(candidate: Event | Vector, best: Event | Vector) -> bool:
    """Whether a log loss is within one standard error of the least; rows of weight 0 count for nothing."""
    lost, influence = improvement(candidate, best, "log-loss")
    mass = float(len(best)) if best.w is None else float(best.w.sum())
    return lost <= float(np.linalg.norm(row_scale(best.w, best.kind) * influence)) / mass


# --- The recommendation as text, and the table of the maps compared


@dataclass(frozen=True)
class Compared:
    """A row of the comparison, as texts."""

    method: str
    title: str
    parameters: str
    log_loss: str
    gain: str
    gain_interval: str
    brier_gain: str
    brier_interval: str
    note: str


@dataclass(frozen=True)
class Advice:
    """The ``headline``, ``reasons`` and ``rows`` of a recommendation, and the ``python`` that fits its map."""

    headline: str
    reasons: tuple[str, ...]
    rows: tuple[Compared, ...]
    level: str
    python: str | None


def advice(report: Mapping[str, Any]) -> Advice | None:
    """What a report's ``recommendation`` says; None where it has none."""
    found = report.get("recommendation")
    if not found:
        return None
    best = next((c for c in found["candidates"] if c["method"] == found["recommended"]), None)
    rows = tuple(_compared(candidate, candidate is best) for candidate in found["candidates"])
    return Advice(
        _headline(found, best, report), _reasons(found, best, report), rows, numbers.level(found["level"]), _fit(best)
    )


def improved(report: Mapping[str, Any]) -> tuple[str, ...]:
    """What the map that was applied gains, and how far that can be trusted."""
    gains = report.get("improvement")
    if not gains:
        return ()
    sentences = [_gained(score, gains.get(key)) for key, score in (("log-loss", "log loss"), ("brier", "Brier score"))]
    if report.get("in_sample"):
        sentences.append(
            "The map was fitted to these very rows: it looks better here than it is. Gains are those of maps fitted "
            "without each fifth of the rows, and there are no p-values."
        )
    elif report.get("in_sample") is None:
        sentences.append(
            "Whether the map was fitted to these rows is not known; if it was, it looks better than it is."
        )
    return tuple(sentence for sentence in sentences if sentence)


def _gained(score: str, gain: Mapping[str, Any] | None) -> str:
    if gain is None or gain["value"] is None:
        return ""
    ends = lookup.interval(gain)
    between = (
        "" if ends is None else f" ({numbers.level(gain['definition']['interval'])} interval {numbers.interval(ends)})"
    )
    verb = "lowers" if gain["value"] >= 0.0 else "raises"
    return f"The map {verb} the {score} by {numbers.number(abs(gain['value']))}{_turned(between, gain)}."


def _turned(between: str, gain: Mapping[str, Any]) -> str:
    """The interval of a loss, with its sign explained."""
    return between if gain["value"] >= 0.0 else between.replace("interval", "interval of what it lowers it by:")


def _headline(found: Mapping[str, Any], best: Mapping[str, Any] | None, report: Mapping[str, Any]) -> str:
    if best is not None:
        gain = best["gains"]["log-loss"]
        return f"Fit {_named(best)}: it would lower the log loss by {numbers.number(gain['value'])} nats"
    if not _fitted(found):
        return f"No map can be recommended: {_hindrance(found)}"
    if _rejected(report):
        return "No map can be recommended: calibration is rejected, but no quick map is proven to be better"
    return "Keep the predictions as they are: no quick map is proven to be better"


def _rejected(report: Mapping[str, Any]) -> bool:
    test = tested(report)
    return test is not None and test.p_value < ALPHA


def _fitted(found: Mapping[str, Any]) -> int:
    """How many maps could be compared."""
    return sum(bool(candidate["gains"]) for candidate in found["candidates"])


def _hindrance(found: Mapping[str, Any]) -> str:
    """Why no map could be fitted."""
    if found["n"] < found["folds"]:
        return f"fewer than {found['folds']} rows are too few to compare any"
    if all(candidate["problem"] == ONE_OUTCOME for candidate in found["candidates"]):
        return "the labels show one outcome only, and from one no map can be learned"
    return "none of the quick maps can be fitted to these rows"


def _named(candidate: Mapping[str, Any]) -> str:
    by_class = " class by class" if candidate["reduction"] == "classwise" else ""
    return f"{candidate['method']}{by_class}"


def _reasons(found: Mapping[str, Any], best: Mapping[str, Any] | None, report: Mapping[str, Any]) -> tuple[str, ...]:
    level, compared = numbers.level(found["level"]), len(found["candidates"])
    if not _fitted(found):
        return _hindrances(found)
    sentences = []
    if best is not None:
        for key, score in (("log-loss", "Log loss"), ("brier", "Brier score")):
            gain = best["gains"][key]
            before, after = (numbers.number(gain["parts"][side]) for side in ("before", "after"))
            ends = lookup.interval(gain)
            between = "" if ends is None else f", a gain of {numbers.interval(ends)}"
            sentences.append(f"{score} {before} before, {after} after{between}.")
        if best["reduction"] in ("canonical", "classwise") and report["reduction"] != "canonical":
            sentences.append(
                f"These are scores of the whole vector of probabilities, the measures above of {report['reduction']}."
            )
        sentences.append(
            "Of the maps that are proven to gain it is the simplest within one standard error of the best."
        )
    else:
        sentences.append("For no map does the interval of its gain in log loss lie above 0.")
        if _rejected(report):
            sentences.append("Calibration is rejected all the same: more rows could prove which map to fit.")
    sentences.append(
        f"Scores are of rows that each map has not seen ({found['folds']} folds); intervals hold for all {compared} "
        f"maps at once, at {level}."
    )
    if found["n"] < report["n"]:
        sentences.append(
            f"{numbers.count(found['n'])} of the rows were compared, drawn at random (seed {found['seed']})."
        )
    return (*sentences, *_job(found))


def _hindrances(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Each reason for which maps could not be compared, with their names."""
    named: dict[str, list[str]] = {}
    for candidate in found["candidates"]:
        why = (candidate["problem"] or "not compared").removeprefix("cannot be fitted: ")
        named.setdefault(why, []).append(_named(candidate))
    return tuple(f"Why not {numbers.listed(names, most=10)}: {why}." for why, names in named.items())


def _job(found: Mapping[str, Any]) -> tuple[str, ...]:
    """What a slower fit could add."""
    by_class = " class by class" if any(c["reduction"] == "classwise" for c in found["candidates"]) else ""
    return (f"A job can fit {found['job']}{by_class}, which averages many maps and could add to it.",)


def _compared(candidate: Mapping[str, Any], best: bool) -> Compared:
    log_loss, brier = (candidate["gains"].get(score) for score in ("log-loss", "brier"))
    entry = METHODS.get(candidate["method"])
    count = candidate["parameters"]
    return Compared(
        _named(candidate),
        "" if entry is None else entry.title,
        "as the rows ask for" if count is None else numbers.count(count),
        "" if log_loss is None else numbers.number(log_loss["parts"]["after"]),
        "" if log_loss is None else numbers.number(log_loss["value"]),
        "" if log_loss is None else numbers.interval(lookup.interval(log_loss)),
        "" if brier is None else numbers.number(brier["value"]),
        "" if brier is None else numbers.interval(lookup.interval(brier)),
        "recommended" if best else candidate["problem"] or "",
    )


def _fit(best: Mapping[str, Any] | None) -> str | None:
    if best is None:
        return None
    return f'calibrant.fit("{best["method"]}", predictions, labels, reduction="{best["reduction"]}")'
